"""One supervised process: started, watched, restarted with a backoff."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from services.cli.supervisor.logs import LogLine
from services.cli.supervisor.watchdog import Watchdog
from shared.agent.process import RESTART_STATUS
from shared.errors import StartError
from shared.heartbeat import INTERVAL, UNRESPONSIVE, Silence

POLL_INTERVAL = 0.03  # Seconds between checks whether a starting process is ready
LAST_WORDS = 5.0
"""Seconds beyond its limit that a process has to end itself, which writes its stacks to its log."""
MAX_FAILED_STARTS = 2
"""Failed starts in a row after which the instance opens without the process, or without the server fails."""
ALERT_AFTER = 5  # Failed starts in a row after which an error is printed and ``Backoff.FAILING`` is the delay


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What to run under the unique ``name``; ``stage`` orders stopping, lowest first.

    ``ready`` says by process id whether it is ready, ``last_error`` reads the reason of a failure from its
    log, ``clean_up`` removes files that a process left. ``needed`` is for a process without which no other
    can work: the delay before it is tried again never exceeds ``Backoff.LONGEST``. ``beat`` is, by process
    id, a number that changes while the process responds; it raises OSError if that cannot be told. A process
    is killed and started again that is not ready after ``start_limit`` seconds, or does not respond for
    ``unresponsive_limit`` seconds.
    """

    name: str
    command: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    log: Path
    stage: int
    ready: Callable[[int], bool]
    last_error: Callable[[Path], str]
    start_limit: float
    unresponsive_limit: float
    beat: Callable[[int], Awaitable[float]]
    clean_up: Callable[[int], None] = lambda _: None
    needed: bool = False


class Backoff:
    """The delay before a restart: 0.5 s, doubled each time up to 2 s; 60 s of uptime reset it.

    Work waits for the process, so the delay stays short even if it is killed again and again. Only after
    ALERT_AFTER failed starts in a row is it 30 s, unless the process is ``needed``: each attempt to start
    memory costs seconds of processor time.
    """

    FIRST = 0.5
    LONGEST = 2.0
    FAILING = 30.0
    HEALTHY = 60.0

    def __init__(self, *, needed: bool = False) -> None:
        self._failing = self.LONGEST if needed else self.FAILING
        self.exits = 0
        self.failed_starts = 0

    def after(self, uptime: float, *, was_ready: bool) -> float:
        """The delay in seconds after a process that ran for ``uptime`` seconds."""
        if uptime >= self.HEALTHY:
            self.exits = 0
        self.exits += 1
        self.failed_starts = 0 if was_ready else self.failed_starts + 1
        if self.failed_starts >= ALERT_AFTER:
            return self._failing
        return float(min(self.LONGEST, self.FIRST * 2 ** (self.exits - 1)))


class Child:
    """Keeps one program running until it is stopped.

    ``report`` gets its events, ``watchdog`` the ids of its processes. The future ``started`` is done when the
    program was ready for the first time, or fails with StartError.
    """

    def __init__(self, program: Program, *, report: Callable[[LogLine], None], watchdog: Watchdog) -> None:
        self.program = program
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.process: Process | None = None
        self.started.add_done_callback(_retrieve_exception)
        self._on_event = report
        self._watchdog = watchdog
        self._backoff = Backoff(needed=program.needed)
        self._ready = self._stopping = False
        self._last_error = self._why_killed = ""
        self._keeper = asyncio.create_task(self._keep(), name=program.name)

    async def stop(self, grace: float) -> None:
        """Send SIGTERM, and SIGKILL to the group if it still runs after ``grace`` seconds.

        A process that is not ready yet is killed at once: it has nothing to finish.
        """
        self._stopping = True
        if self._ready and self.process is not None and self.process.returncode is None:
            self.signal(signal.SIGTERM)
            await asyncio.wait({self._keeper}, timeout=grace)
        self.kill()
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)

    def kill(self) -> None:
        """Send SIGKILL to the group."""
        self._stopping = True
        if self.process is not None:
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send the process a signal; a no-op if none runs."""
        with contextlib.suppress(ProcessLookupError):
            if self.process is not None:
                self.process.send_signal(number)

    async def _keep(self) -> None:
        while not self._stopping:
            delay = await self._run_once()
            if not self._stopping:
                await asyncio.sleep(delay)

    async def _run_once(self) -> float:
        """Run the program to its exit; returns the seconds to wait before the next start."""
        begun = time.monotonic()
        self._ready, self._why_killed = False, ""
        try:
            process = self.process = await self._spawn()
        except OSError as error:
            reason = f"cannot be started: {error.strerror} ({error.filename})"
            return self._handle_exit(reason, "", 0.0, was_ready=False)
        self._watchdog.add(process.pid, self.program.stage)
        watching = asyncio.create_task(self._watch(process, begun))
        try:
            code = await process.wait()
        finally:
            watching.cancel()
            # Kill what is left of the group, and remove its files
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(OSError):
                self.program.clean_up(process.pid)
            self._watchdog.remove(process.pid)
        if self._stopping:
            return 0.0
        if code == RESTART_STATUS and self._ready:
            self._report("info", "ended to start again, as people want")
            return 0.0
        ending = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        ending = self._why_killed or ending
        last_error = self.program.last_error(self.program.log) if code > 0 else ""
        return self._handle_exit(ending, last_error, time.monotonic() - begun, was_ready=self._ready)

    async def _spawn(self) -> Process:
        with self.program.log.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *self.program.command,
                cwd=self.program.cwd,
                env=self.program.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    async def _watch(self, process: Process, begun: float) -> None:
        """Wait until the process is ready, then watch that it responds; kill it if it takes too long."""
        limit = self.program.start_limit
        waiting = Silence(POLL_INTERVAL)
        while not self.program.ready(process.pid):
            if waiting.observe(None) > limit + LAST_WORDS:
                self._kill_slow(process, f"was not ready after {waiting.seconds:.0f} s")
                return
            await asyncio.sleep(POLL_INTERVAL)
        self._report("info", f"ready after {time.monotonic() - begun:.1f} s")
        self._mark_started(None)
        self._ready, self._last_error = True, ""
        limit = self.program.unresponsive_limit
        tick = min(INTERVAL, limit / 5)  # as often as it beats
        silence, named = Silence(tick), False
        while (seconds := silence.observe(await self._beat(process))) <= limit + LAST_WORDS:
            if named != (named := seconds >= UNRESPONSIVE):
                self._report(
                    "warning", f"does not respond for {seconds:.0f} s" if named else "responds again"
                )
            await asyncio.sleep(tick)
        self._kill_slow(process, f"did not respond for {seconds:.0f} s")

    async def _beat(self, process: Process) -> object:
        """The beat of the process; another object each time if it cannot be told, such as of a lost disk."""
        try:
            return await self.program.beat(process.pid)
        except OSError:
            return object()

    def _kill_slow(self, process: Process, why: str) -> None:
        self._why_killed = why
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)

    def _handle_exit(self, ending: str, last_error: str, uptime: float, *, was_ready: bool) -> float:
        """Report an exit; returns the seconds to wait before the next start."""
        delay = self._backoff.after(uptime, was_ready=was_ready)
        if self._backoff.failed_starts >= MAX_FAILED_STARTS:
            self._mark_started(self._start_error(last_error or ending))
        if self._backoff.failed_starts == ALERT_AFTER:
            text = f"failed to start {ALERT_AFTER} times in a row and is tried every {delay:g} s"
            self._report("error", f"{text}: {last_error or ending} (its log: {self.program.log})")
        else:
            reason = f": {last_error}" if last_error else ""
            if last_error and last_error == self._last_error:
                reason = " for the same reason"
            self._last_error = last_error
            self._report("warning", f"{ending}{reason}; started again in {delay:g} s")
        return delay

    def _mark_started(self, error: StartError | None) -> None:
        if self.started.done():
            return
        if error is None:
            self.started.set_result(None)
        else:
            self.started.set_exception(error)

    def _report(self, level: str, text: str) -> None:
        self._on_event(LogLine(self.program.name, level, text))

    def _start_error(self, reason: str) -> StartError:
        return StartError(f"{self.program.name} does not start: {reason}", f"Its log is {self.program.log}")


def _retrieve_exception(started: asyncio.Future[None]) -> None:
    # The start fails with one of these errors; asyncio would log the others as never retrieved.
    if not started.cancelled():
        started.exception()
