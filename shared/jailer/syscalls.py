"""System calls that the standard library lacks: mounts, namespaces, openat2, prctl, Landlock."""

import contextlib
import ctypes
import errno
import functools
import os
import sys

PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 36, 38
CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
MS_REC, MS_SLAVE = 0x4000, 1 << 19
AT_FDCWD, AT_RECURSIVE, AT_EMPTY_PATH = -100, 0x8000, 0x1000
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
MOUNT_ATTR_RDONLY, MOUNT_ATTR_IDMAP = 0x00000001, 0x00100000
MOVE_MOUNT_F_EMPTY_PATH = 4
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
BENEATH = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
"""For openat2: only beneath the folder, and no part of the path is a link."""
BUSY_TRIES = 32
"""How often openat2 resolves a path again if something was renamed meanwhile (EAGAIN, see openat2(2))."""
OPEN_TREE, MOVE_MOUNT, OPENAT2, MOUNT_SETATTR = 428, 429, 437, 442
LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF = 444, 446
"""Numbers since 424 are the same on every kind of processor."""
LANDLOCK_VERSION = 1
LANDLOCK_SCOPES = 0b11  # Abstract sockets and signals: both end at the border of the domain. Since ABI 6.

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    )


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


def _call(number: int, *arguments: object) -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        _fail()
    return result


def _fail() -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def unshare(flags: int) -> None:
    """Leave the namespaces of these kinds for new ones; raises OSError."""
    if _libc.unshare(flags):
        _fail()


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mount ``source`` on ``target``; raises OSError."""
    if _libc.mount(
        source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode()
    ):
        _fail()


def openat2(at: int, path: str, flags: int, mode: int = 0, resolve: int = BENEATH) -> int:
    """A descriptor of ``path``, resolved from the folder ``at`` (openat2 of Linux 5.6); raises OSError."""
    how = _How(flags=flags, mode=mode if flags & os.O_CREAT else 0, resolve=resolve)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    tries = BUSY_TRIES
    while True:
        try:
            return _call(OPENAT2, at, os.fsencode(path), ctypes.byref(how), size)
        except OSError as error:
            tries -= 1
            if not tries or error.errno not in (errno.EAGAIN, errno.EINTR):
                raise


@functools.cache
def has_openat2() -> bool:
    """Whether the kernel, and what filters its calls, offer openat2."""
    if sys.platform != "linux":
        return False
    try:
        fd = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.close(openat2(fd, ".", os.O_RDONLY | os.O_DIRECTORY))
        finally:
            os.close(fd)
    except OSError:
        return False
    return True


def sync_disk(fd: int) -> None:
    """Have the file system of ``fd`` write everything to the disk; raises OSError."""
    if sys.platform != "linux":
        os.sync()
    elif _libc.syncfs(fd):
        _fail()


def open_tree(path: str) -> int:
    """A copy of the mounts at ``path``, in no place yet; raises OSError, also if a link is on the way."""
    fd = openat2(AT_FDCWD, path, os.O_PATH | os.O_CLOEXEC, resolve=RESOLVE_NO_SYMLINKS)
    try:
        flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH
        return _call(OPEN_TREE, fd, b"", ctypes.c_uint(flags))
    finally:
        os.close(fd)


def change_owners(tree: int, userns: int) -> None:
    """Show what lies beneath ``tree`` with the owners that ``userns`` maps; or raise OSError."""
    _set_attributes(tree, _MountAttributes(set=MOUNT_ATTR_IDMAP, userns=userns))


def forbid_writing(tree: int) -> None:
    """Let nothing beneath ``tree`` be changed by way of it; or raise OSError."""
    _set_attributes(tree, _MountAttributes(set=MOUNT_ATTR_RDONLY))


def _set_attributes(tree: int, wanted: _MountAttributes) -> None:
    size = ctypes.c_size_t(ctypes.sizeof(wanted))
    _call(MOUNT_SETATTR, tree, b"", ctypes.c_uint(AT_EMPTY_PATH | AT_RECURSIVE), ctypes.byref(wanted), size)


def move_mount(tree: int, target: str) -> None:
    """Put ``tree`` on ``target``; raises OSError."""
    _call(MOVE_MOUNT, tree, b"", AT_FDCWD, os.fsencode(target), ctypes.c_uint(MOVE_MOUNT_F_EMPTY_PATH))


def prctl(option: int, value: int) -> None:
    """Set ``option`` of this process; raises OSError."""
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0):
        _fail()


def restrict_by_landlock() -> bool:
    """Let no signal and no connection to an abstract socket leave this process's descendants.

    False if the kernel's Landlock cannot do that (before ABI 6) or is switched off. Files are left to the
    mount namespace: a process whose files Landlock restricts may not mount, and bubblewrap must.
    """
    try:
        if _call(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), LANDLOCK_VERSION) < 6:
            return False
        rules = _Ruleset(scoped=LANDLOCK_SCOPES)
        size = ctypes.c_size_t(ctypes.sizeof(rules))
        fd = _call(LANDLOCK_CREATE_RULESET, ctypes.byref(rules), size, 0)
    except OSError:
        return False
    try:
        _call(LANDLOCK_RESTRICT_SELF, fd, 0)
    finally:
        os.close(fd)
    return True


def descendants(ancestor: int) -> set[int]:
    """The processes that come from ``ancestor``, itself left out."""
    found: set[int] = set()
    front = [ancestor]
    while front:
        children = {child for pid in front for child in _children(pid)} - found
        found |= children
        front = list(children)
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - called often
            fd = os.open(f"/proc/{pid}/task/{thread}/children", os.O_RDONLY)
            with open(fd, "rb") as file:  # noqa: PTH123 - a descriptor is no path
                children += map(int, file.read().split())
    return children
