"""Carries out one jailed command: sends it to the jailer, reads how it ended; and the self-test by one."""

import asyncio
import contextlib
import json
import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from shared.errors import ActionError
from shared.jailer import KILLED, JailSpec
from shared.jailer.syscalls import descendants
from shared.sandbox.jail import GRACE, HOME, UID, Limits, compose_spec, visible_mounts
from shared.sandbox.jailer_client import jailer

PATIENCE = GRACE + 10.0
"""Seconds after the stop until the command's supervisor is killed too: it may have been frozen."""
KILL_PATIENCE = 5.0  # Seconds after that until processes the kernel does not let go of are left to it

NOT_RUN = "bwrap: execvp "
"""The start of bubblewrap's message that the program cannot be started; a shell's exit code for it is 127."""

LOG_LIMIT = 100_000_000
"""The most bytes of output a log file keeps: a command that writes without end must not fill the disk."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended: negative ``exit_code`` for a signal, ``problem`` why the jail ended it."""

    exit_code: int
    seconds: float
    timed_out: bool = False
    problem: str = ""


def signed_code(code: int) -> int:
    """An exit code as a shell reports it; one that stands for a signal as the signal's negative number."""
    return 128 - code if 128 < code <= 128 + signal.SIGRTMAX else code


@contextlib.contextmanager
def open_log(path: Path | None) -> Iterator[BinaryIO | None]:
    """The log file at ``path``, emptied, its folder made; None for no path. Raises ActionError."""
    if path is None:
        yield None
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("wb", buffering=0)  # so that a person can follow it
    except OSError as error:
        raise ActionError(f"The log {path} cannot be written: {error.strerror}") from None
    with file:
        yield file


class OutputCapture:
    """The first and last bytes of a stream, half of ``limit`` each, and a copy of it all in a log."""

    def __init__(self, limit: int, log: BinaryIO | None) -> None:
        self.half = max(limit, 2) // 2
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0
        self.log = log

    def add(self, chunk: bytes) -> None:
        """Add the next chunk."""
        self._copy(chunk)
        self.total += len(chunk)
        space = self.half - len(self.head)
        self.head += chunk[:space]
        self.tail += chunk[space:]
        if len(self.tail) > 2 * self.half + 65_536:
            del self.tail[: -self.half]

    def _copy(self, chunk: bytes) -> None:
        if self.log is None:
            return
        try:
            self.log.write(chunk[: max(0, LOG_LIMIT - self.total)])
            if self.total <= LOG_LIMIT < self.total + len(chunk):
                self.log.write(f"\n[the log ends here: more than {LOG_LIMIT:,} bytes]\n".encode())
        except OSError:
            self.log = None  # a full disk must not end the command: its result still counts

    @property
    def cut(self) -> int:
        """How many bytes of the middle are not kept."""
        return max(0, self.total - len(self.head) - self.half)

    def text(self) -> str:
        """What was kept, with a line that says what was cut."""
        gap = f"\n[... {self.cut:,} bytes cut ...]\n".encode() if self.cut else b""
        return bytes(self.head + gap + self.tail[-self.half :]).decode("utf-8", "replace")


async def execute(
    spec: JailSpec,
    seconds: float,
    output: OutputCapture,
    errors: OutputCapture | None = None,
    started: Callable[[int], None] | None = None,
    source: int | None = None,
) -> Ending:
    """Carry out ``spec`` within ``seconds``; both streams go to ``output`` if ``errors`` is None.

    ``started`` is told the process that all of the command's descend from. ``source`` is the descriptor that
    it reads its input from; without one there is none to read.

    The whole process tree is gone when this returns, also when it is cancelled. Raises ActionError if the
    command was not run.
    """
    run = _Run(spec, output, errors, started, source)
    # A cancelled start could leave a process without an owner: the run is asked to stop instead.
    running = asyncio.ensure_future(run.finish(seconds))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        run.stop.set()
        await asyncio.wait({running})
        running.exception()  # retrieved, so that asyncio does not warn
        raise


class _Run:
    """One command while it runs: its captures, and the file descriptors to be closed after it."""

    def __init__(
        self,
        spec: JailSpec,
        output: OutputCapture,
        errors: OutputCapture | None,
        started: Callable[[int], None] | None,
        source: int | None,
    ) -> None:
        self.spec = spec
        self.source = source
        self.started = started
        self.output = output
        self.errors = errors
        self.stop = asyncio.Event()
        self.is_supervised = False
        self.supervisor: int | None = None
        self.streams: list[asyncio.Future[None]] = []
        self.closing = contextlib.ExitStack()

    async def finish(self, seconds: float) -> Ending:
        """Run it to its end; raises ActionError if it was not run."""
        with self.closing:
            started = time.monotonic()
            # asyncio's own pipes would make the end depend on descendants that keep them open.
            self.control, theirs = socket.socketpair()
            self.closing.callback(self.control.close)
            self.control.setblocking(False)
            with contextlib.ExitStack() as passed:
                passed.enter_context(theirs)
                source = self.source
                if source is None:
                    source = os.open(os.devnull, os.O_RDONLY)
                    passed.callback(os.close, source)
                output = self._listen(self.output, passed)
                errors = self._listen(self.errors, passed) if self.errors else output
                self.asked = jailer.send(self.spec, (source, output, errors), theirs.fileno())
            ending = asyncio.ensure_future(self._read_messages(self.control))
            stopped = asyncio.ensure_future(self.stop.wait())
            limit = seconds if seconds < math.inf else None
            await asyncio.wait({ending, stopped}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            in_time = ending.done()
            if not in_time:
                self.control.shutdown(socket.SHUT_WR)
                await asyncio.wait({ending}, timeout=PATIENCE)
            if not ending.done():
                # Kill the supervisor, with which the kernel ends the command. If there is none, the jailer
                # hangs.
                if not self.is_supervised:
                    jailer.give_up(self.asked)
                elif self.supervisor is not None:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(self.supervisor, signal.SIGKILL)
                await asyncio.wait({ending}, timeout=KILL_PATIENCE if self.supervisor else 0)
            # The streams close with the last process; one that got away must not keep us waiting.
            await asyncio.wait(self.streams, timeout=0.5)
            ending.cancel()
            await asyncio.wait({ending})  # it must release the socket before that is closed
            report = {} if ending.cancelled() else ending.result()
            if not self.is_supervised:
                # A supervisor that takes the command later sees the caller gone, and does not start it.
                raise ActionError("No process can be started: what starts them does not answer", "Try again")
            return self._conclude(report, time.monotonic() - started, timed_out=not in_time)

    async def _read_messages(self, control: socket.socket) -> dict[str, Any]:
        words = b""
        while more := await asyncio.get_running_loop().sock_recv(control, 4096):
            words += more
            if not self.is_supervised and b"\n" in words:
                pid = int(words.partition(b"\n")[0])
                self.is_supervised = True
                if self.started:
                    self.started(pid)
                with contextlib.suppress(ProcessLookupError):  # it has reported its end already
                    self.supervisor = os.pidfd_open(pid)
                    self.closing.callback(os.close, self.supervisor)
        report: dict[str, Any] = json.loads(words.partition(b"\n")[2] or b"{}")
        return report

    def _conclude(self, report: dict[str, Any], seconds: float, *, timed_out: bool) -> Ending:
        code = report.get("exit", 128 + signal.SIGKILL)
        if "problem" in report:
            words = (self.errors or self.output).text()
            if not words.startswith(NOT_RUN):
                raise ActionError(" ".join([report["problem"], *words.strip().splitlines()[-1:]]))
            code = 127
        return Ending(
            exit_code=signed_code(code),
            seconds=seconds,
            timed_out=timed_out,
            problem=report.get("ended", "") if report else KILLED,
        )

    def _listen(self, capture: OutputCapture, theirs: contextlib.ExitStack) -> int:
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


# --- the self-test: a harmless command tries what it must not be able to do --------------------------
SECONDS = 20.0  # The most the test may take, on a machine that is busy with other things
PROBE = f"""
import os, socket
def is_refused(family):
    try:
        socket.socket(family, socket.SOCK_RAW).close()
    except OSError:
        return True
devices = open("/proc/net/dev")
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
walls = {{
    "it is not a user of its own": os.getuid() == {UID},
    "it has capabilities": not any(int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")),
    "it can gain rights": status["NoNewPrivs"].strip() == "1",
    "its system calls are not filtered": status["Seccomp"].strip() == "2",
    "it sees other processes": os.getpid() < 10,
    "it sees the machine's passwords": not os.path.exists("/etc/shadow"),
    "it can write to /usr": not os.access("/usr", os.W_OK),
    "it can change what makes the jail": not os.access("/proc/1/exe", os.W_OK),
    "it can write to the settings of the kernel": not os.access("/proc/sys/kernel/core_pattern", os.W_OK),
    "it sees the machine's network": [line.split(":")[0].strip() for line in devices][2:] == ["lo"],
    "it can ask the kernel about networks": is_refused(16),
}}
print(*(wall for wall, holds in walls.items() if not holds), "done", sep=", ")
"""
CURE = (
    "Allow unprivileged user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "
    "kernel.apparmor_restrict_unprivileged_userns), or in a container start it as compose.yaml does: "
    "not as root, and with its security_opt"
)
"""What helps if bubblewrap lacks a permission."""

_passed: set[int] = set()


def read_processor_time(ancestor: int) -> float:
    """The seconds of processor time that the processes used which descend from ``ancestor``."""
    ticks = 0
    for pid in descendants(ancestor):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            ticks += sum(map(int, fields[11:15]))  # its own, and those of its children that have ended
    return ticks / os.sysconf("SC_CLK_TCK")


async def check_jail() -> str:
    """Why the jail does not work here, as a sentence; empty if it does.

    Tested once in each process that runs commands; after a failure, tested again every time.
    """
    if os.getpid() in _passed:
        return ""
    reason = await _run_probe()
    if not reason:
        _passed.add(os.getpid())
    return reason


async def _run_probe() -> str:
    output = OutputCapture(10_000, None)
    try:
        spec = compose_spec(
            [sys.executable, "-I", "-S", "-c", PROBE],
            cwd=Path("/"),
            mounts=await asyncio.to_thread(visible_mounts, Path("/")),
            environment={"HOME": HOME, "PATH": "/usr/bin:/bin"},
            limits=Limits(cpu_seconds=int(SECONDS), file_bytes=0, processes=0, memory_bytes=0),
        )
        ending = await execute(spec, SECONDS, output)
    except ActionError as error:
        return f"{error.cause.rstrip('.')}. {error.cure or CURE}"
    words = output.text().strip()
    if ending.exit_code or ending.timed_out:
        last = words.splitlines()[-1:] or [f"exit code {ending.exit_code}"]
        return f"a harmless command failed in it: {last[0]}"
    return "" if words == "done" else f"a command in it is not shut in: {words.removesuffix(', done')}"
