"""The system calls a jailed command may not make, as a seccomp program."""

import errno
import fcntl
import functools
import os
import resource
import socket
import stat
from collections.abc import Iterator, Sequence
from typing import Any

from shared.errors import ActionError

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
NAMESPACES = 0x7E020080
"""The CLONE_NEW* flags: time, mount, cgroup, uts, ipc, user, pid, net."""
TERMINAL = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX: they inject input into a terminal."""
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
