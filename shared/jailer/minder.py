"""Minds one command: starts bubblewrap, and ends all that came of it when it ends or is to end."""

import contextlib
import json
import os
import resource
import select
import signal
import socket
import time
from pathlib import Path
from typing import Any

from shared.jailer import kernel
from shared.jailer.order import KILLED, Order
from shared.jailer.program import seal
from shared.jailer.room import SHORTEST, Room
from shared.jailer.stage import set_the_stage, step_down

KILL_PATIENCE = 5.0
"""Seconds after SIGKILL until processes the kernel does not let go of are left to it."""
PAGE = resource.getpagesize()
FIRST_TO_GO = "1000"
"""For oom_score_adj: where memory runs out, the kernel ends a jailed command before anything else."""
NO_CORE = 1
"""Bytes of a core file, too few for any. With 0 the machine's own program for crashes would be run all the
same, outside of the jail; 1 the kernel takes for not to run it."""


def mind(order: Order, place: str, control: socket.socket, output: int, errors: int, rules: int) -> None:
    """Run ``order``, with the jailer's folder ``place``, and tell ``control`` how it ended, as a JSON object.

    ``{"exit": N}`` is bubblewrap's exit code, with ``"ended"``, why, where the minder ended it, and
    ``"stopped"`` where that was asked for; ``{"problem": "..."}`` says why it was not run. When the other end
    of ``control`` is closed, or closed for writing, the command gets its stop signal and ``grace`` seconds
    later SIGKILL.
    """
    try:
        told = _mind(order, place, control, output, errors, rules)
    except (OSError, ValueError) as error:
        told = {"problem": str(getattr(error, "strerror", None) or error)}
    with contextlib.suppress(OSError):
        control.sendall(json.dumps(told).encode())
        control.shutdown(socket.SHUT_WR)  # the caller need not wait for the end of this process


def shut_in() -> None:
    """Lose what the commands of this process must not have either; once, before there is an order."""
    _write("/proc/self/oom_score_adj", FIRST_TO_GO)
    with contextlib.suppress(ValueError):  # nobody may raise what was 0
        resource.setrlimit(resource.RLIMIT_CORE, (NO_CORE, NO_CORE))
    # In a container the office may be the first process, which waits for nobody's orphans.
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.restrict_by_landlock()


def _mind(
    order: Order, place: str, control: socket.socket, output: int, errors: int, rules: int
) -> dict[str, Any]:
    if os.geteuid() == 0:
        order = set_the_stage(order, place)
        step_down()
    status, their_status = os.pipe()
    gate, our_gate = os.pipe()
    # It holds the gate's other end too: if this process dies, the gate stays closed.
    files = {"--json-status-fd": their_status, "--block-fd": gate, "--sync-fd": our_gate, "--seccomp": rules}
    bwrap = _start(order, output, errors, files)
    for fd in (their_status, gate, output, errors, rules):
        os.close(fd)
    command = None
    try:
        words = _read_line(status)
        if not words:
            return {"problem": "bubblewrap did not start:"}
        command = _Command(bwrap, int(json.loads(words)["child-pid"]))
        # Only now do processes of the same user outside the jail no longer count.
        for kind, bound in order.limits:
            _limit(command.first, kind, bound)
        if select.select([control], [], [], 0)[0]:  # nobody waits any more: this process was frozen perhaps
            return {"stopped": True}
        os.write(our_gate, b".")
        os.close(our_gate)
        told = _wait(command, control, order)
    finally:
        code = command.end() if command else _reap(bwrap)
    # bubblewrap tells its exit code here where the command was run.
    if not told and b"exit-code" not in _read_all(status):
        told = {"ended": KILLED} if code < 0 else {"problem": "bubblewrap could not make it:"}
    return {**told, "exit": code}


def _start(order: Order, output: int, errors: int, files: dict[str, int]) -> int:
    program, environment = seal(order.jail[0])
    passed = {**files, "--args": _write_options(order)}
    for fd in passed.values():
        os.set_inheritable(fd, True)
    words = [word for option, fd in passed.items() for word in (option, str(fd))]
    return os.posix_spawn(
        program,
        [order.jail[0], *words, "--", *order.command],
        environment,  # the command's own goes with the options, for it could have bubblewrap load something
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, errors, 2),
        ],
        # What is ignored stays so in the program, and Python ignores the last two.
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ],
        setsid=True,
    )


def _write_options(order: Order) -> int:
    """bubblewrap's options in a file, so that nobody reads them in a list of processes."""
    options = ["--clearenv", *order.jail[1:]]
    for source, target, writable in order.folders:
        if source:
            options += ["--bind" if writable else "--ro-bind", source, target]
        else:
            options += ["--perms", "0500", "--size", "4096", "--tmpfs", target]
    options += order.rest
    for name, value in order.environment.items():
        options += ["--setenv", name, value]
    fd = os.memfd_create("options")
    os.write(fd, b"".join(os.fsencode(option) + b"\0" for option in options))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _write(path: str, text: str) -> None:
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_WRONLY)
        os.write(fd, text.encode())
        os.close(fd)


def _limit(pid: int, kind: int, bound: int) -> None:
    _, hard = resource.prlimit(pid, kind)
    bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
    resource.prlimit(pid, kind, (bound, bound))


def _reap(pid: int) -> int:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _read_line(fd: int) -> bytes:
    words = b""
    while not words.endswith(b"\n") and (more := os.read(fd, 4096)):
        words += more
    return words


def _read_all(fd: int) -> bytes:
    words = b""
    while more := os.read(fd, 4096):
        words += more
    return words


class _Command:
    """bubblewrap outside, and the first process of the jail, whose end is the end of all others in it."""

    def __init__(self, bwrap: int, first: int) -> None:
        self.bwrap = bwrap
        self.first = first
        self.bwrap_fd = os.pidfd_open(bwrap)
        self.first_fd = os.pidfd_open(first)

    def ends_within(self, seconds: float) -> bool:
        return bool(select.select([self.bwrap_fd], [], [], max(0.0, seconds))[0])

    def processes(self) -> set[int]:
        return kernel.descendants(self.first)

    def memory(self) -> int:
        """Bytes of the jail's processes that are in memory and belong to no file."""
        pages = 0
        for pid in self.processes():
            with contextlib.suppress(OSError, ValueError):
                _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_bytes().split())
                pages += resident - shared
        return pages * PAGE

    def stop(self, number: int, grace: float) -> None:
        """Tell every process to end, and those that come later, for ``grace`` seconds."""
        told: set[int] = set()
        until, pause = time.monotonic() + grace, 0.01
        while (left := until - time.monotonic()) > 0:
            fresh = self.processes() - told
            for pid in fresh:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
            told |= fresh
            if self.ends_within(min(pause, left)):
                return
            pause = min(2 * pause, 0.1)

    def end(self) -> int:
        """Kill what is left, wait until it is gone, and return the exit code."""
        self._kill()
        _, status = os.waitpid(self.bwrap, 0)
        select.select([self.first_fd], [], [], KILL_PATIENCE)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.first, os.WNOHANG)
        return os.waitstatus_to_exitcode(status)

    def _kill(self) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.first_fd, signal.SIGKILL)


def _wait(command: _Command, control: socket.socket, order: Order) -> dict[str, Any]:
    """Wait until the command ends by itself, or end it because it is asked for or takes too much."""
    room, pause = Room(folder.source for folder in order.folders if folder.writable), SHORTEST
    while True:
        readable, _, _ = select.select([control.fileno(), command.bwrap_fd], [], [], pause)
        if command.bwrap_fd in readable:
            return {}
        if readable:
            command.stop(order.stop_signal, order.grace)
            return {"stopped": True}
        short, pause = room.look()
        if short:
            return {"ended": f"it left too little of {short}"}
        if order.memory and command.memory() > order.memory:
            return {"ended": f"it took more than {order.memory / (1 << 30):.1f} GiB of memory"}
