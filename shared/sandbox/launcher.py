"""Runs one program within limits and ends whatever it leaves behind: a script that command.py starts.

    python -I -S launcher.py SCRATCH STOP_SIGNAL GRACE CPU_SECONDS FILE_BYTES PROCESSES PROGRAM [ARGUMENT...]

Standard input is a lifeline: when its other end closes, because the caller wants an end or has died itself,
the program and its descendants get STOP_SIGNAL and, GRACE seconds later, SIGKILL. The launcher ends as the
program ended, with the same exit code or by the same signal. A limit of 0 is no limit.
If the caller has died, nobody else removes SCRATCH, its folder for this command.
"""

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import time
from pathlib import Path

HANDLED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PR_SET_CHILD_SUBREAPER = 36
KILL_PATIENCE = 5.0
"""Seconds after SIGKILL until processes the kernel does not let go of are left to it."""


def main(arguments: list[str]) -> None:
    """Run the program, end its tree, and end as it did."""
    caller, scratch = os.getppid(), arguments[0]
    stop_signal, grace = int(arguments[1]), float(arguments[2])
    cpu, file_bytes, processes = map(int, arguments[3:6])
    _adopt_orphans()
    bell = _hear_signals()
    # Until it has shed our handlers the child would swallow a stop signal, so that waits for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    child = os.fork()
    if child == 0:
        _become(arguments[6:], cpu, file_bytes, processes)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
    _let_go_of_output()
    status = _wait(child, bell)
    status = _end_tree(child, status, stop_signal, grace)
    if os.getppid() != caller:
        import shutil  # here, and subprocess below, because every command waits for what is imported above

        shutil.rmtree(scratch, ignore_errors=True)
    _end_as(status)


def _adopt_orphans() -> None:
    # A daemon that forks twice and calls setsid leaves the group, but as a subreaper's orphan it comes here.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _hear_signals() -> int:
    bell, ring = os.pipe()
    os.set_blocking(ring, False)
    signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
    for number in HANDLED:
        signal.signal(number, lambda *_: None)
    return bell


def _become(argv: list[str], cpu: int, file_bytes: int, processes: int) -> None:
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # Python ignores SIGPIPE and SIGXFSZ, and what is ignored stays so in the program.
        for number in (*HANDLED, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HANDLED)
        _limit(resource.RLIMIT_CORE, 0)
        for kind, bound in (
            (resource.RLIMIT_CPU, cpu),
            (resource.RLIMIT_FSIZE, file_bytes),
            (resource.RLIMIT_NPROC, processes),
        ):
            if bound:
                _limit(kind, bound)
        os.execvp(argv[0], argv)  # noqa: S606 - a shell would read the arguments anew
    except OSError as error:
        os.write(2, f"cannot run {argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _limit(kind: int, bound: int) -> None:
    _, hard = resource.getrlimit(kind)
    bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
    resource.setrlimit(kind, (bound, bound))


def _let_go_of_output() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _wait(child: int, bell: int) -> int | None:
    """The program's wait status, or None where the caller asks for an end first."""
    while True:
        status = _reap(child)
        if status is not None:
            return status
        readable, _, _ = select.select([0, bell], [], [])
        if 0 in readable or any(number != signal.SIGCHLD for number in os.read(bell, 4096)):
            return None


def _reap(child: int) -> int | None:
    status = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                status = ended[1]
    return status


def _end_tree(child: int, status: int | None, stop_signal: int, grace: float) -> int:
    told: set[int] = set()
    for number, patience in ((stop_signal, grace), (signal.SIGKILL, KILL_PATIENCE)):
        until, pause = time.monotonic() + patience, 0.01
        while (alive := _remaining(child)) and time.monotonic() < until:
            for pid in alive if number == signal.SIGKILL else alive - told:
                _signal(pid, number)
            told |= alive
            time.sleep(pause)
            pause = min(2 * pause, 0.1)
            status = _first(status, _reap(child))
    status = _first(status, _reap(child))
    return signal.SIGKILL if status is None else status


def _first(*statuses: int | None) -> int | None:
    return next((status for status in statuses if status is not None), None)


def _remaining(child: int) -> set[int]:
    if sys.platform == "linux":
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return set()  # no children: with a subreaper that means no descendants either
        return descendants(os.getpid())
    return descendants(os.getpid()) | _group(child)


def _group(child: int) -> set[int]:
    try:
        os.killpg(child, 0)
    except OSError:
        return set()
    return {-child}


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def descendants(ancestor: int) -> set[int]:
    """The living processes that come from ``ancestor``, zombies left out."""
    parents = _parents()
    found: set[int] = set()
    front = {ancestor}
    while front:
        front = {pid for pid, (parent, _) in parents.items() if parent in front} - found
        found |= front
    return {pid for pid in found if parents[pid][1] != "Z"}


def _parents() -> dict[int, tuple[int, str]]:
    """Every process of the machine: its parent and its state."""
    if sys.platform != "linux":
        import subprocess

        command = ["/bin/ps", "-axo", "pid=,ppid=,state="]
        listing = subprocess.run(command, capture_output=True, text=True, check=False)
        rows = [line.split() for line in listing.stdout.splitlines()]
        return {int(pid): (int(parent), state[0]) for pid, parent, state, *_ in rows}
    parents = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            # The program's name stands in parentheses and may hold any character.
            state, parent = (process / "stat").read_bytes().rpartition(b")")[2].decode().split()[:2]
            parents[int(process.name)] = (int(parent), state)
    return parents


def _end_as(status: int) -> None:
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(sys.argv[1:])
