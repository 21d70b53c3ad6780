"""One jailed command on its way: what it writes, how it ends."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import time
from typing import Any

import msgspec

from shared.errors import ActionError
from shared.jailer.order import KILLED, Order
from shared.sandbox.capture import Capture
from shared.sandbox.jailer import jailer

GRACE = 2.0
"""Seconds between the stop signal and SIGKILL."""
PATIENCE = GRACE + 10.0
"""Seconds after which who minds a command that was to stop is killed too: somebody froze it."""
KILL_PATIENCE = 5.0
"""Seconds after that until processes the kernel does not let go of are left to it."""

NOT_RUN = "bwrap: execvp "
"""How bubblewrap begins to say that the program cannot be started; a shell's exit code for that is 127."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended: negative ``exit_code`` for a signal, ``problem`` why the jail ended it."""

    exit_code: int
    seconds: float
    timed_out: bool = False
    problem: str = ""


async def execute(order: Order, seconds: float, output: Capture, errors: Capture | None = None) -> Ending:
    """Carry out ``order`` within ``seconds``; both streams go to ``output`` where ``errors`` is None.

    The whole process tree is gone when this returns, also when it is cancelled. Raises ActionError where the
    command was not run.
    """
    run = _Run(order, output, errors)
    # A cancelled start could leave a process nobody minds: the run is told to stop instead.
    running = asyncio.ensure_future(run.finish(seconds))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        run.stop.set()
        await asyncio.wait({running})
        running.exception()  # nobody else asks for it
        raise


class _Run:
    """One command on its way: its captures and the file descriptors to be closed after it."""

    def __init__(self, order: Order, output: Capture, errors: Capture | None) -> None:
        self.order = order
        self.output = output
        self.errors = errors
        self.stop = asyncio.Event()
        self.is_minded = False
        self.minder: int | None = None
        self.streams: list[asyncio.Future[None]] = []
        self.closing = contextlib.ExitStack()

    async def finish(self, seconds: float) -> Ending:
        """Run it to its end; raises ActionError where it was not run."""
        with self.closing:
            started = time.monotonic()
            ending = asyncio.ensure_future(self._hear(await self._start()))
            stopped = asyncio.ensure_future(self.stop.wait())
            await asyncio.wait({ending, stopped}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            in_time = ending.done()
            if not in_time:
                self.control.shutdown(socket.SHUT_WR)
                await asyncio.wait({ending}, timeout=PATIENCE)
            if not ending.done():
                self._end_minder()
                await asyncio.wait({ending}, timeout=KILL_PATIENCE if self.minder else 0)
            # The streams close with the last process; one that got away must not keep us waiting.
            await asyncio.wait(self.streams, timeout=0.5)
            ending.cancel()
            await asyncio.wait({ending})  # it lets go of the socket before that is closed
            told = {} if ending.cancelled() else ending.result()
            if not self.is_minded:
                # Who takes the order later sees that nobody waits, and does not begin.
                raise ActionError("No process can be started: what starts them does not answer", "Try again")
            return self._conclude(told, time.monotonic() - started, timed_out=not in_time)

    async def _start(self) -> socket.socket:
        # asyncio's own pipes would make the end depend on descendants that keep them open.
        self.control, theirs = socket.socketpair()
        self.closing.callback(self.control.close)
        self.control.setblocking(False)
        with contextlib.ExitStack() as passed:
            passed.enter_context(theirs)
            output = self._listen(self.output, passed)
            errors = self._listen(self.errors, passed) if self.errors else output
            self.asked = jailer.send(self.order, output, errors, theirs.fileno())
        return self.control

    async def _hear(self, control: socket.socket) -> dict[str, Any]:
        words = b""
        while more := await asyncio.get_running_loop().sock_recv(control, 4096):
            words += more
            if not self.is_minded and b"\n" in words:
                self._hold_minder(int(words.partition(b"\n")[0]))
        told: dict[str, Any] = json.loads(words.partition(b"\n")[2] or b"{}")
        return told

    def _hold_minder(self, pid: int) -> None:
        self.is_minded = True
        with contextlib.suppress(ProcessLookupError):  # it has told its end already
            self.minder = os.pidfd_open(pid)
            self.closing.callback(os.close, self.minder)

    def _end_minder(self) -> None:
        """Kill who minds the command: the kernel then ends the command. If nobody does, the jailer hangs."""
        if not self.is_minded:
            jailer.give_up(self.asked)
        elif self.minder is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.minder, signal.SIGKILL)

    def _conclude(self, told: dict[str, Any], seconds: float, *, timed_out: bool) -> Ending:
        code = told.get("exit", 128 + signal.SIGKILL)
        if "problem" in told:
            words = (self.errors or self.output).text()
            if not words.startswith(NOT_RUN):
                raise ActionError(" ".join([told["problem"], *words.strip().splitlines()[-1:]]))
            code = 127
        return Ending(
            exit_code=128 - code if 128 < code <= 128 + signal.SIGRTMAX else code,
            seconds=seconds,
            timed_out=timed_out,
            problem=told.get("ended", "") if told else KILLED,
        )

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
