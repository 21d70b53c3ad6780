"""Running an instance until it is stopped, in the foreground or in the background."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from services.cli.supervisor.lock import InstanceLock, is_held, unusable_state_dir
from services.cli.supervisor.logs import LogLine, print_log_json, print_log_line, read_last_error, rotate
from services.cli.supervisor.supervisor import Supervisor, is_ready
from shared import log
from shared.bus.connecting import RunningInstance, find_instance
from shared.errors import StartError
from shared.settings import Settings, environment
from shared.tasks.installed_agents import SERVICES

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOP_TIMEOUT = 45.0  # Seconds until an instance must have stopped: three stages, each with its grace
START_TIMEOUT = 90.0  # Seconds until an instance in the background must have started


@contextmanager
def stop_on_signals(kill: Callable[[], None]) -> Iterator[asyncio.Event]:
    """An event that SIGINT, SIGTERM or SIGHUP sets; a SIGINT after that calls ``kill``."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def interrupt() -> None:
        if stop.is_set():
            kill()
        stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, interrupt if number == signal.SIGINT else stop.set)
    try:
        yield stop
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def run_until(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of ``work``; None if ``stop`` is set first, which cancels it."""
    working = asyncio.create_task(work)
    waiting = asyncio.create_task(stop.wait())
    await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if working.done():
        return working.result()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    return None


async def run_until_stopped(
    config: Settings, lock: InstanceLock, on_started: Callable[[RunningInstance], None], *, as_json: bool
) -> None:
    """Start an instance, call ``on_started``, and stop the instance at a signal.

    Raises MailroomError if it does not start; no process is left then.
    """
    report = print_log_json if as_json else print_log_line
    begun = time.monotonic()
    log.configure("mailroom", level="error", form="json" if as_json else "console")
    supervisor = Supervisor(config, lock, report)
    with stop_on_signals(supervisor.kill) as stop:
        try:
            instance = await run_until(stop, supervisor.start())
            if instance is not None:
                seconds = time.monotonic() - begun
                ready = sum(is_ready(child.started) for child in supervisor.children)
                text = f"open: {ready} of {len(supervisor.children)} processes ready after {seconds:.1f} s"
                report(LogLine("office", "info", f"{text}; Ctrl-C closes it"))
                on_started(instance)
                await stop.wait()
                report(LogLine("office", "info", "closing; Ctrl-C again kills it"))
        finally:
            await supervisor.stop()
            lock.release()
    report(LogLine("office", "info", "closed"))


def wait_for_lock(config: Settings) -> InstanceLock | None:
    """Wait for an instance that is starting or stopping: its lock once it stopped, None once it started."""
    click.echo(f"Waiting for the office in {config.state_dir}, which is starting or stopping.", err=True)
    deadline = time.monotonic() + STOP_TIMEOUT
    while time.monotonic() < deadline and find_instance(config) is None:
        if lock := InstanceLock.acquire(config.state_dir):
            return lock
        time.sleep(0.1)
    return None


def start_in_background(config: Settings) -> RunningInstance:
    """Start ``mailroom up`` as a daemon and wait until it is ready; raises StartError if it fails."""
    path = config.logs / "office.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        rotate(path)
        with path.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "services.cli", "up"],
                cwd=SERVICES.parent,
                env=environment(config, nats_port=config.nats_port, nats_replicas=config.nats_replicas),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
    except OSError as error:
        raise unusable_state_dir(config.state_dir, error.strerror) from None
    try:
        return _wait_until_started(config, process)
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _wait_until_started(config: Settings, process: "subprocess.Popen[bytes]") -> RunningInstance:
    path = config.logs / "office.log"
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        instance = find_instance(config)
        if instance is not None and instance.pid == process.pid:
            return instance
        if process.poll() is not None:
            reason = read_last_error(path).removeprefix("Error: ")
            raise StartError(reason or f"It ended at once; its log is {path}")
        time.sleep(0.05)
    raise StartError(f"The office was not ready within {START_TIMEOUT:g} s", f"Its log is {path}")


def stop_instance(config: Settings, process: int) -> None:
    """Send SIGTERM to the supervisor and wait for its end; raises StartError if it does not end."""
    try:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    except PermissionError:
        raise StartError(
            f"The office is process {process} of another user", "Close it as that user"
        ) from None
    deadline = time.monotonic() + STOP_TIMEOUT
    while is_held(config.state_dir):
        if time.monotonic() > deadline:
            raise StartError(
                f"The office, process {process}, did not close within {STOP_TIMEOUT:g} s",
                f"Kill it: kill -9 {process}",
            )
        time.sleep(0.05)
