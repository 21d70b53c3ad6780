"""One process of the office, kept running: started, watched, started again."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from asyncio.subprocess import Process
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from services.cli.supervisor.logs import Line
from services.cli.supervisor.watchdog import Lifeline
from shared.errors import StartError

READY_TIMEOUT = 60.0
"""Seconds a process may take until it is ready: memory checks its store first."""
POLL = 0.03
"""Seconds between looks for whether a starting process is ready."""
TRIES = 2
"""Starts of a process that never was ready after which the office does not open."""
LOUD = 5
"""Failed starts in a row after which a person is told loudly, and retries are slow."""


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What to run: ``name`` tells it from all others, ``stage`` is when it is stopped (lowest first).

    ``ready`` tells from the process id whether it does its work, ``complaint`` what its log says went wrong,
    ``clean_up`` removes what a process left.
    """

    name: str
    command: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    log: Path
    stage: int
    ready: Callable[[int], bool]
    complaint: Callable[[Path], str]
    clean_up: Callable[[int], None] = lambda _: None


class Backoff:
    """How long to wait before a process is started again: 0.5 s, doubled each time up to 30 s.

    60 s of life make it forget what was before.
    """

    FIRST = 0.5
    LONGEST = 30.0
    HEALTHY = 60.0

    def __init__(self) -> None:
        self.ends = 0
        self.failed_starts = 0

    def after(self, lived: float, *, was_ready: bool) -> float:
        """The seconds to wait after a process that ``lived`` so many seconds."""
        if lived >= self.HEALTHY:
            self.ends = 0
        self.ends += 1
        self.failed_starts = 0 if was_ready else self.failed_starts + 1
        if self.failed_starts >= LOUD:
            return self.LONGEST
        return float(min(self.LONGEST, self.FIRST * 2 ** (self.ends - 1)))


class Child:
    """Keeps one program running until it is stopped.

    ``tell`` gets the events of its life, ``lifeline`` the ids of its processes as they come and go.
    ``opened`` is done once it was ready for the first time, or fails with StartError.
    """

    def __init__(self, program: Program, *, tell: Callable[[Line], None], lifeline: Lifeline) -> None:
        self.program = program
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.process: Process | None = None
        self.opened.add_done_callback(_mark_seen)
        self._report = tell
        self._lifeline = lifeline
        self._backoff = Backoff()
        self._ready = self._stopping = False
        self._complaint = ""
        self._keeper = asyncio.create_task(self._keep(), name=program.name)

    async def stop(self, grace: float) -> None:
        """SIGTERM, and SIGKILL for its whole group where it still runs after ``grace`` seconds.

        What is not ready yet is killed at once: it has nothing to finish.
        """
        self._stopping = True
        if self._ready and self.process is not None and self.process.returncode is None:
            self.signal(signal.SIGTERM)
            await asyncio.wait({self._keeper}, timeout=grace)
        self.kill()
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)

    def kill(self) -> None:
        """End its group at once."""
        self._stopping = True
        if self.process is not None:
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def signal(self, number: int) -> None:
        """Send its process a signal; nothing happens where none runs."""
        with contextlib.suppress(ProcessLookupError):
            if self.process is not None:
                self.process.send_signal(number)

    async def _keep(self) -> None:
        while not self._stopping:
            delay = await self._run_once()
            if not self._stopping:
                await asyncio.sleep(delay)

    async def _run_once(self) -> float:
        """Start it and wait for its end; returns the seconds to wait before the next start."""
        started = time.monotonic()
        self._ready = False
        try:
            process = self.process = await self._spawn()
        except OSError as error:
            return self._note_end(
                f"cannot be started: {error.strerror} ({error.filename})", "", 0.0, was_ready=False
            )
        self._lifeline.enroll(process.pid, self.program.stage)
        try:
            await self._await_ready(process, started)
            code = await process.wait()
        finally:
            self._end_stragglers(process)
        if self._stopping:
            return 0.0
        how = f"ended with exit code {code}" if code >= 0 else f"was killed by {signal.Signals(-code).name}"
        complaint = self.program.complaint(self.program.log) if code > 0 else ""
        return self._note_end(how, complaint, time.monotonic() - started, was_ready=self._ready)

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

    async def _await_ready(self, process: Process, started: float) -> None:
        while process.returncode is None:
            seconds = time.monotonic() - started
            if self.program.ready(process.pid):
                self._tell("info", f"ready after {seconds:.1f} s")
                self._open(None)
                self._ready, self._complaint = True, ""
                return
            if seconds > READY_TIMEOUT:
                self._open(self._error(f"it was not ready within {READY_TIMEOUT:g} s"))
            await asyncio.sleep(POLL)

    def _end_stragglers(self, process: Process) -> None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self.program.clean_up(process.pid)
        self._lifeline.strike(process.pid)

    def _note_end(self, how: str, complaint: str, lived: float, *, was_ready: bool) -> float:
        """Tell how it ended; returns the seconds to wait before the next start."""
        delay = self._backoff.after(lived, was_ready=was_ready)
        if self._backoff.failed_starts >= TRIES:
            self._open(self._error(complaint or how))
        if self._backoff.failed_starts == LOUD:
            text = f"failed to start {LOUD} times in a row and is tried every {delay:g} s"
            self._tell("error", f"{text}: {complaint or how} (its log: {self.program.log})")
        else:
            reason = f": {complaint}" if complaint else ""
            if complaint and complaint == self._complaint:
                reason = " for the same reason"
            self._complaint = complaint
            self._tell("warning", f"{how}{reason}; started again in {delay:g} s")
        return delay

    def _open(self, error: StartError | None) -> None:
        if self.opened.done():
            return
        if error is None:
            self.opened.set_result(None)
        else:
            self.opened.set_exception(error)

    def _tell(self, level: str, text: str) -> None:
        self._report(Line(self.program.name, level, text))

    def _error(self, reason: str) -> StartError:
        return StartError(f"{self.program.name} does not start: {reason}", f"Its log is {self.program.log}")


def _mark_seen(opened: asyncio.Future[None]) -> None:
    # The office fails with one of them; the others are not worth asyncio's complaint.
    if not opened.cancelled():
        opened.exception()
