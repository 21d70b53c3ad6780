"""The door: the only place where Mailroom runs a program."""

import asyncio
import contextlib
import math
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from shared.errors import ActionError
from shared.sandbox import launcher
from shared.sandbox.capture import Capture, open_log
from shared.sandbox.folders import remove_tree

GRACE = 2.0
"""Seconds between the stop signal and SIGKILL."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one process of a command may use; 0 is no limit.

    ``cpu_seconds`` of its threads together (default: the command's timeout times the cores, a net for
    what escapes the timeout), ``file_bytes`` a written file may have, ``processes`` of this user as a whole.
    """

    cpu_seconds: int = 0
    file_bytes: int = 2 << 30
    processes: int = 0


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command went.

    ``exit_code`` is negative where a signal ended it; ``output`` is its standard output with its standard
    error as they came, undecodable bytes replaced, and says how much of its middle was cut where
    ``truncated``; ``errors`` is the standard error alone where that was asked for.
    """

    argv: tuple[str, ...]
    exit_code: int
    output: str
    errors: str = ""
    seconds: float
    timed_out: bool = False
    truncated: bool = False


async def run_command(
    argv: Sequence[str],
    *,
    cwd: Path,
    timeout: float,
    env: Mapping[str, str] | None = None,
    output_limit: int = 1_000_000,
    log_path: Path | None = None,
    separate_errors: bool = False,
    stop_signal: int = signal.SIGTERM,
    limits: Limits | None = None,
) -> CommandResult:
    """Run ``argv`` in ``cwd`` for at most ``timeout`` seconds and tell how it went.

    The command sees no input, a home folder that is thrown away after it, and of the caller's environment
    nothing but the PATH; ``env`` is added to that. ``output_limit`` bytes of its output are returned, half
    from the start and half from the end; ``log_path`` gets up to LOG_LIMIT bytes. When it ends, when its time
    is up, or when the caller is cancelled or dies, every process it started gets ``stop_signal`` and GRACE
    seconds later SIGKILL, those that left its session included (on macOS only those still traceable to it).
    It is supervised by a process of the same user, which a hostile program could kill first.

    Raises ActionError where the program or the folder does not exist or no process can be started.
    """
    bounds = limits or Limits(cpu_seconds=math.ceil(timeout * (os.cpu_count() or 1)) + 1)
    order = [str(int(stop_signal)), str(GRACE), *map(str, msgspec.structs.astuple(bounds)), *argv]
    with open_log(log_path) as log:
        run = _Run(tuple(argv), order, cwd, Capture(output_limit, log))
        run.errors = Capture(output_limit, log) if separate_errors else None
        # A cancelled start could leave a process nobody minds: the run is told to stop instead.
        running = asyncio.ensure_future(run.finish(env or {}, timeout))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            run.stop.set()
            await asyncio.wait({running})
            raise


def _clean_environment(scratch: Path) -> dict[str, str]:
    home, temporary = scratch / "home", scratch / "tmp"
    home.mkdir()
    temporary.mkdir()
    # The PATH is no secret and says where a person's node or cargo is; a relative entry would find programs
    # in the command's own folder.
    path = os.pathsep.join(entry for entry in os.get_exec_path() if entry.startswith("/"))
    return {"PATH": path, "HOME": str(home), "TMPDIR": str(temporary), "LANG": "C.UTF-8", "TERM": "dumb"}


def _require_runnable(argv: Sequence[str], cwd: Path, path: str) -> None:
    if not argv or not argv[0] or any("\0" in argument for argument in argv):
        raise ActionError("A command must name a program and hold no NUL characters")
    if not cwd.is_dir():
        raise ActionError(f"The folder {cwd} to run {argv[0]} in does not exist")
    program = str(cwd / argv[0]) if "/" in argv[0] else argv[0]
    if shutil.which(program, path=path) is None:
        cause = f"{argv[0]} is not installed or not on the PATH"
        raise ActionError(cause, "Install it, or put its folder on the PATH")


class _Run:
    """One command on its way: its captures and the file descriptors to be closed after it."""

    def __init__(self, argv: tuple[str, ...], order: list[str], cwd: Path, output: Capture) -> None:
        self.argv = argv
        self.order = order
        self.cwd = cwd
        self.output = output
        self.errors: Capture | None = None
        self.stop = asyncio.Event()
        self.streams: list[asyncio.Future[None]] = []
        self.closing = contextlib.ExitStack()

    async def finish(self, env: Mapping[str, str], seconds: float) -> CommandResult:
        scratch = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="mailroom-"))
        try:
            environment = {**_clean_environment(scratch), **env}
            _require_runnable(self.argv, self.cwd, environment["PATH"])
            self.order.insert(0, str(scratch))
            with self.closing:
                return await self._supervise(environment, seconds)
        finally:
            await asyncio.to_thread(remove_tree, scratch)

    async def _supervise(self, environment: dict[str, str], seconds: float) -> CommandResult:
        started = time.monotonic()
        process, lifeline = await self._start(environment)
        try:
            in_time = await _ends_within(process, seconds, self.stop)
        finally:
            os.close(lifeline)  # the launcher now ends whatever is left
            await _make_sure(process)
        # The streams close with the last process; one that got away must not keep us waiting.
        await asyncio.wait(self.streams, timeout=0.5)
        return CommandResult(
            argv=self.argv,
            exit_code=-signal.SIGKILL if process.returncode is None else process.returncode,
            output=self.output.text(),
            errors=self.errors.text() if self.errors else "",
            seconds=time.monotonic() - started,
            timed_out=not in_time,
            truncated=bool(self.output.cut or (self.errors and self.errors.cut)),
        )

    async def _start(self, environment: dict[str, str]) -> tuple[asyncio.subprocess.Process, int]:
        # asyncio's own pipes would make process.wait() depend on descendants that keep them open.
        with contextlib.ExitStack() as theirs:
            stdin, lifeline = os.pipe()
            theirs.callback(os.close, stdin)
            stdout = self._listen(self.output, theirs)
            stderr = self._listen(self.errors, theirs) if self.errors else stdout
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", launcher.__file__, *self.order),
                    stdin=stdin,
                    stdout=stdout,
                    stderr=stderr,
                    cwd=self.cwd,
                    env=environment,
                    start_new_session=True,
                )
            except BaseException as error:
                os.close(lifeline)
                if isinstance(error, OSError):
                    raise ActionError(f"No process can be started: {error.strerror}") from None
                raise
        return process, lifeline

    def _listen(self, capture: Capture, theirs: contextlib.ExitStack) -> int:
        loop = asyncio.get_running_loop()
        ours, fd = os.pipe()
        os.set_blocking(ours, False)
        theirs.callback(os.close, fd)
        self.closing.callback(os.close, ours)
        ended: asyncio.Future[None] = loop.create_future()

        def read() -> None:
            try:
                chunk = os.read(ours, 65_536)
            except BlockingIOError:
                return
            if chunk:
                capture.add(chunk)
            elif not ended.done():
                loop.remove_reader(ours)
                ended.set_result(None)

        loop.add_reader(ours, read)
        self.closing.callback(loop.remove_reader, ours)
        self.streams.append(ended)
        return fd


async def _ends_within(
    process: asyncio.subprocess.Process, seconds: float, stop: asyncio.Event | None = None
) -> bool:
    """Whether the process ends before the time is up or ``stop`` is set."""
    exit_, stopped = (
        asyncio.ensure_future(process.wait()),
        asyncio.ensure_future((stop or asyncio.Event()).wait()),
    )
    try:
        await asyncio.wait({exit_, stopped}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return exit_.done()
    finally:
        exit_.cancel()
        stopped.cancel()


async def _make_sure(process: asyncio.subprocess.Process) -> None:
    """Wait for the launcher to have ended the tree; end it here where the launcher is kept from it."""
    with contextlib.suppress(OSError):
        os.kill(process.pid, signal.SIGCONT)  # the command may have stopped it
    if await _ends_within(process, GRACE + launcher.KILL_PATIENCE + 1):
        return
    for pid in (*await asyncio.to_thread(launcher.descendants, process.pid), process.pid):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    await _ends_within(process, 1)
