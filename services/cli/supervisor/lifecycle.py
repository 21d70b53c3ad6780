"""Running an office until it is told to close: here, or in the background."""

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

from services.cli.roster import SERVICES
from services.cli.supervisor.lock import OfficeLock, is_held, unusable
from services.cli.supervisor.logs import Line, last_complaint, print_event, print_line, rotate
from services.cli.supervisor.supervisor import Supervisor
from shared import log
from shared.bus.discovery import RunningOffice, find_office
from shared.errors import StartError
from shared.settings import Settings, environment

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signals(at_once: Callable[[], None]) -> Iterator[asyncio.Event]:
    """An event that SIGINT, SIGTERM or SIGHUP sets; a SIGINT after that calls ``at_once``."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def interrupt() -> None:
        if stop.is_set():
            at_once()
        stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, interrupt if number == signal.SIGINT else stop.set)
    try:
        yield stop
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def before(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What ``work`` returns or raises; None where ``stop`` came first, the work cancelled then."""
    working = asyncio.create_task(work)
    waiting = asyncio.create_task(stop.wait())
    await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if working.done():
        return working.result()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    return None


END_TIMEOUT = 45.0
"""Seconds a closing office is waited for: three stages, each with its grace."""
OPEN_TIMEOUT = 90.0
"""Seconds an office that opens in the background is waited for."""


async def keep_open(
    config: Settings, lock: OfficeLock, announce: Callable[[RunningOffice], None], *, as_json: bool
) -> None:
    """Open the office, ``announce`` it, and close it when a signal says so.

    Raises MailroomError where it does not open; nothing is left running then.
    """
    tell = print_event if as_json else print_line
    begun = time.monotonic()
    log.configure("mailroom", level="error", form="json" if as_json else "console")
    supervisor = Supervisor(config, lock, tell)
    with stop_signals(supervisor.kill) as stop:
        try:
            office = await before(stop, supervisor.open())
            if office is not None:
                tell(Line("office", "info", _opened(supervisor, time.monotonic() - begun)))
                announce(office)
                await stop.wait()
                tell(Line("office", "info", "closing; Ctrl-C again ends it at once"))
        finally:
            await supervisor.close()
            lock.release()
    tell(Line("office", "info", "closed"))


def _opened(supervisor: Supervisor, seconds: float) -> str:
    return f"open: {len(supervisor.children)} processes ready after {seconds:.1f} s; Ctrl-C closes it"


def await_end(config: Settings) -> OfficeLock | None:
    """Wait for an office that is opening or closing: its lock once it closed, None once it is open."""
    click.echo(f"Waiting for the office in {config.state_dir} that is just being opened or closed.", err=True)
    deadline = time.monotonic() + END_TIMEOUT
    while time.monotonic() < deadline and find_office(config) is None:
        if lock := OfficeLock.acquire(config.state_dir):
            return lock
        time.sleep(0.1)
    return None


def open_in_background(config: Settings) -> RunningOffice:
    """Start ``mailroom up`` on its own, wait until its office is open; raises StartError where it fails."""
    path = config.logs / "office.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        rotate(path)
        with path.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "services.cli", "up"],
                cwd=SERVICES.parent,
                env=environment(config, nats_port=config.nats_port),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
    except OSError as error:
        raise unusable(config.state_dir, error.strerror) from None
    try:
        return _await_open(config, process)
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _await_open(config: Settings, process: "subprocess.Popen[bytes]") -> RunningOffice:
    path = config.logs / "office.log"
    deadline = time.monotonic() + OPEN_TIMEOUT
    while time.monotonic() < deadline:
        office = find_office(config)
        if office is not None and office.pid == process.pid:
            return office
        if process.poll() is not None:
            raise StartError(
                last_complaint(path).removeprefix("Error: ") or f"It ended at once; its log is {path}"
            )
        time.sleep(0.05)
    raise StartError(f"The office was not open within {OPEN_TIMEOUT:g} s", f"Its log is {path}")


def close_office(config: Settings, process: int) -> None:
    """Tell the office's process to close it, and wait; raises StartError where it does not."""
    try:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
    except PermissionError:
        raise StartError(
            f"The office is process {process} of another user", "Close it as that user"
        ) from None
    deadline = time.monotonic() + END_TIMEOUT
    while is_held(config.state_dir):
        if time.monotonic() > deadline:
            raise StartError(
                f"The office, process {process}, did not close within {END_TIMEOUT:g} s",
                f"End it: kill -9 {process}",
            )
        time.sleep(0.05)
