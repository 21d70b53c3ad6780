"""System calls on files that Python lacks: openat2 opens beneath a folder and nowhere else; syncfs."""

import ctypes
import errno
import functools
import os
import sys

OPENAT2 = 437
"""The number of the system call, the same on every architecture but alpha (Linux 5.6)."""
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
BUSY_TRIES = 32
"""How often a path is resolved again if something was renamed meanwhile (EAGAIN, see openat2(2))."""


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


@functools.cache
def has_openat2() -> bool:
    """Whether the kernel, and what filters its calls, offer openat2."""
    if sys.platform != "linux":
        return False
    try:
        fd = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.close(openat2(fd, ".", os.O_RDONLY | os.O_DIRECTORY, 0))
        finally:
            os.close(fd)
    except OSError:
        return False
    return True


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def openat2(at: int, path: str, flags: int, mode: int) -> int:
    """A descriptor of ``path`` beneath the folder ``at``, no part of it a link; raises OSError."""
    how = _How(
        flags=flags,
        mode=mode if flags & os.O_CREAT else 0,
        resolve=RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    )
    for _ in range(BUSY_TRIES):
        fd: int = _libc().syscall(
            OPENAT2, at, ctypes.c_char_p(os.fsencode(path)), ctypes.byref(how), ctypes.sizeof(how)
        )
        if fd >= 0:
            return fd
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number))


def sync_disk(fd: int) -> None:
    """Have the file system of ``fd`` write everything to the disk; raises OSError."""
    if sys.platform != "linux":
        os.sync()
    elif _libc().syncfs(fd):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
