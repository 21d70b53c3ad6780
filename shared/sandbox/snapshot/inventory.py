"""What lies beneath a folder: every file, folder and link, and nothing that a link leads to."""

import os
import stat
from collections.abc import Mapping

import msgspec

from shared.errors import ActionError
from shared.sandbox.confined import ConfinedFolder

LONGEST_PATH = 3_500
"""Bytes of a path beyond which nothing is looked at: the kernel takes no more than 4,096 at once."""


class FileState(msgspec.Struct, frozen=True, array_like=True):
    """The state of one path: mode and kind, what shows that it changed, a link's target, a file's digest."""

    mode: int
    size: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0
    inode: int = 0
    target: bytes = b""
    digest: str = ""

    @property
    def key(self) -> tuple[int, int, int, int, int]:
        """Equal while the file is not written: a program can set its mtime back, but not its ctime."""
        return self.mode, self.size, self.mtime_ns, self.ctime_ns, self.inode

    @property
    def content(self) -> tuple[object, ...]:
        """Equal if restoring the one would give the other."""
        if stat.S_ISREG(self.mode):
            return self.mode, self.digest or self.key
        return self.mode, self.target


class Scan(msgspec.Struct, frozen=True):
    """The paths beneath a folder, and those of folders that could not be read, with the reason."""

    entries: dict[bytes, FileState]
    lost: dict[bytes, str]


def scan(confined: ConfinedFolder, max_files: int = 0) -> Scan:
    """Everything beneath the folder.

    Raises ActionError if that is more than ``max_files`` (0: any number), or if it cannot be read.
    """
    entries: dict[bytes, FileState] = {}
    lost: dict[bytes, str] = {}
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        if len(folder) > LONGEST_PATH:
            lost[folder] = "it is nested too deep"
            continue
        try:
            found = _list(confined, folder)
        except (ActionError, OSError) as error:
            if not folder:
                raise ActionError(f"The workspace {confined.root} cannot be looked into: {error}") from None
            lost[folder] = str(error)
            continue
        for path, entry in found.items():
            if stat.S_ISDIR(entry.mode):
                waiting.append(path)
        entries |= found
        if 0 < max_files < len(entries):
            raise ActionError(
                f"The workspace holds more than the {max_files:,} files a snapshot may have",
                "Take back with undo what made it so large",
            )
    return Scan(entries, lost)


def is_same(one: Mapping[bytes, FileState], other: Mapping[bytes, FileState]) -> bool:
    """Whether restoring the one would give the other."""
    return one.keys() == other.keys() and all(one[path].content == other[path].content for path in one)


def is_untouched(now: Mapping[bytes, FileState], before: Mapping[bytes, FileState]) -> bool:
    """Whether nothing was written since; no file is read for that."""
    return now.keys() == before.keys() and all(
        (now[path].key, now[path].target) == (entry.key, entry.target) for path, entry in before.items()
    )


def _list(confined: ConfinedFolder, folder: bytes) -> dict[bytes, FileState]:
    found = {}
    with confined.open_folder(os.fsdecode(folder)) as fd, os.scandir(fd) as listing:
        for item in listing:
            name = os.fsencode(item.name)
            try:
                found[folder + b"/" + name if folder else name] = _entry(item, fd)
            except FileNotFoundError:
                continue  # gone since it was listed
    return found


def _entry(item: os.DirEntry[str], fd: int) -> FileState:
    info = item.stat(follow_symlinks=False)
    if stat.S_ISLNK(info.st_mode):
        return FileState(info.st_mode, target=os.fsencode(os.readlink(item.name, dir_fd=fd)))
    if stat.S_ISREG(info.st_mode):
        return FileState(info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)
    return FileState(info.st_mode)
