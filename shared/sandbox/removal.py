"""Removing files and folders that programs left, through open folders, so that nothing outside is touched."""

import contextlib
import errno
import os
import shutil
import stat
import sys
import time
from pathlib import Path

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""The flags that open a folder, and refuse a link."""


def remove_tree(path: Path) -> None:
    """Remove a folder with all beneath it, read-only folders too; follow no link, and ignore what is gone."""
    try:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        remove_at(parent, path.name)
    except OSError:
        with contextlib.suppress(RecursionError):  # then as much of it as possible
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(parent)


def is_older(path: Path, seconds: float) -> bool:
    """Whether ``path`` was last changed more than ``seconds`` ago; False if it is gone."""
    try:
        return time.time() - path.lstat().st_mtime > seconds
    except OSError:
        return False


def remove_at(at: int, name: str) -> None:
    """Remove ``name`` in the folder ``at`` with all beneath it; follow no link. Raises OSError."""
    info = stat_at(at, name)
    if info is None:
        return
    if not stat.S_ISDIR(info.st_mode):
        os.unlink(name, dir_fd=at)
        return
    # Neither recursion nor one descriptor a level: a program can nest folders deeper than either allows.
    here = os.dup(at)
    levels = [([name], _identity(here))]
    try:
        while levels:
            waiting, _ = levels[-1]
            if waiting:
                with contextlib.suppress(OSError):
                    chmod_at(here, waiting[-1], stat.S_IRWXU)
                here = _go(here, waiting[-1])
                levels.append((_remove_files(here), _identity(here)))
                continue
            levels.pop()
            if levels:
                here = _go(here, "..")
                waiting, identity = levels[-1]
                if _identity(here) != identity:
                    raise OSError(errno.EBUSY, "it was moved while it was being removed")
                os.rmdir(waiting.pop(), dir_fd=here)
    finally:
        os.close(here)


def _go(here: int, name: str) -> int:
    there = os.open(name, FOLDER, dir_fd=here)
    os.close(here)
    return there


def _remove_files(fd: int) -> list[str]:
    """Remove what is no folder in a folder; returns the names of the folders in it."""
    with os.scandir(fd) as listing:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing]
    for name, folder in entries:
        if not folder:
            os.unlink(name, dir_fd=fd)
    return [name for name, folder in entries if folder]


def chmod_at(at: int, name: str, mode: int) -> None:
    """Change the mode of ``name`` in the folder ``at``, of a link never; raises OSError."""
    if sys.platform != "linux":
        os.chmod(name, mode, dir_fd=at, follow_symlinks=False)
        return
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        if not stat.S_ISLNK(os.fstat(fd).st_mode):
            Path(f"/proc/self/fd/{fd}").chmod(mode)
    finally:
        os.close(fd)


def stat_at(at: int, name: str) -> os.stat_result | None:
    """What ``name`` in the folder ``at`` is, of a link the link itself; None for nothing. Raises OSError."""
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _identity(fd: int) -> tuple[int, int]:
    info = os.fstat(fd)
    return info.st_dev, info.st_ino
