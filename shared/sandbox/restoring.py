"""Restoring a workspace to what a snapshot says it was: what lies beneath it, and what has to change."""

import contextlib
import os
import secrets
import stat
from collections.abc import Collection, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import msgspec

from shared.errors import ActionError
from shared.files import hold_lock_within
from shared.sandbox.confined import ConfinedFolder, chmod_at, remove_at, split

CHUNK = 1 << 20  # Bytes that are held in memory at once; smaller contents are written only if they are new
LONGEST_PATH = 3_500
"""Bytes of a path beyond which nothing is looked at: the kernel takes no more than 4,096 at once."""


# --- contents of files, each kept once by its digest; locks on the folder -----------------------------


class ObjectStore:
    """File contents in a folder; callers hold the lock of the snapshots it belongs to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._size: int | None = None
        self._begun = False

    def keep(self, confined: ConfinedFolder, path: str) -> str:
        """Keep the content of a file as it is now; returns its digest. Raises OSError, ActionError."""
        with confined.open_file(path) as file:
            first = file.read(CHUNK)
            second = file.read(CHUNK)
            if not second:
                digest = blake2b(first, digest_size=20).hexdigest()
                target = self._path(digest)
                if not _has_size(target, len(first)):
                    temporary = self._temporary()
                    temporary.write_bytes(first)
                    self._move_into_place(temporary, target)
                return digest
            begin = first + second
            hashing, chunk = blake2b(digest_size=20), begin
            temporary = self._temporary()
            with temporary.open("wb") as copy:
                while chunk:
                    hashing.update(chunk)
                    copy.write(chunk)
                    chunk = file.read(CHUNK)
            digest = hashing.hexdigest()
            self._move_into_place(temporary, self._path(digest))
            return digest

    def digest(self, confined: ConfinedFolder, path: str) -> str:
        """The digest of a file's content; raises OSError, ActionError."""
        hashing = blake2b(digest_size=20)
        with confined.open_file(path) as file:
            while chunk := file.read(CHUNK):
                hashing.update(chunk)
        return hashing.hexdigest()

    def open(self, digest: str) -> BinaryIO:
        """The content kept under a digest; raises OSError."""
        return self._path(digest).open("rb")

    def is_whole(self, digest: str) -> bool:
        """Whether the content kept under a digest is there and undamaged: it is not synced to the disk."""
        hashing = blake2b(digest_size=20)
        try:
            with self.open(digest) as file:
                while chunk := file.read(CHUNK):
                    hashing.update(chunk)
        except OSError:
            return False
        return hashing.hexdigest() == digest

    def size(self) -> int:
        """The bytes of everything kept."""
        if self._size is None:
            try:
                self._size = int(self._sum.read_text())
            except (OSError, ValueError):
                self._size = sum(path.stat().st_size for path in self.folder.glob("??/*"))
        return self._size

    def close(self) -> None:
        """Note the size, so that it need not be counted the next time; raises nothing."""
        if self._size is not None:
            with contextlib.suppress(OSError):
                self._sum.write_text(str(self._size))
        self._size, self._begun = None, False

    def remove_unneeded(self, needed: Collection[str]) -> None:
        """Remove what is not among the digests ``needed``."""
        self._forget_size()
        for path in self.folder.glob("??/*"):
            if path.parent.name + path.name not in needed:
                path.unlink()
        self._size = None

    def _forget_size(self) -> None:
        # A process killed before it notes the new size leaves none, rather than a wrong one.
        with contextlib.suppress(OSError):
            self._sum.unlink()

    def remove_unfinished(self) -> None:
        """Remove the unfinished files of a killed process."""
        for path in self.folder.glob("new-*"):
            path.unlink()

    @property
    def _sum(self) -> Path:
        return self.folder / "size"

    def _path(self, digest: str) -> Path:
        return self.folder / digest[:2] / digest[2:]

    def _temporary(self) -> Path:
        if not self._begun:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._size = self.size()
            self._forget_size()
            self._begun = True
        return self.folder / f"new-{secrets.token_hex(8)}"

    def _move_into_place(self, temporary: Path, target: Path) -> None:
        size = temporary.stat().st_size
        if _has_size(target, size):
            temporary.unlink()
            return
        try:
            temporary.replace(target)
        except FileNotFoundError:
            target.parent.mkdir(exist_ok=True)
            temporary.replace(target)
        self._size = self.size() + size


def _has_size(path: Path, size: int) -> bool:
    # After a power cut there may be an empty file where there was content.
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def hold_lock(path: Path, mode: int, patience: float, why: str) -> Iterator[None]:
    """Hold the lock file at ``path``, shared or exclusively (``fcntl.LOCK_SH``, ``LOCK_EX``).

    A killed process releases it. Raises ActionError with ``why`` if it is not free within ``patience``
    seconds, or cannot be used.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(hold_lock_within(path, patience, mode))
        except TimeoutError:
            raise ActionError(why, "Try again later") from None
        except OSError as error:
            problem = f"The snapshots in {path.parent} cannot be used: {error.strerror}"
            raise ActionError(problem) from None
        yield


# --- what lies in the workspace, and what has to change -----------------------------------------------


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
            found = {}
            with confined.open_folder(os.fsdecode(folder)) as fd, os.scandir(fd) as listing:
                for item in listing:
                    name = os.fsencode(item.name)
                    try:
                        found[folder + b"/" + name if folder else name] = _entry(item, fd)
                    except FileNotFoundError:
                        continue  # gone since it was listed
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


def _entry(item: os.DirEntry[str], fd: int) -> FileState:
    info = item.stat(follow_symlinks=False)
    if stat.S_ISLNK(info.st_mode):
        return FileState(info.st_mode, target=os.fsencode(os.readlink(item.name, dir_fd=fd)))
    if stat.S_ISREG(info.st_mode):
        return FileState(info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)
    return FileState(info.st_mode)


class Restorer:
    """One restoration: ``written`` and ``removed`` are paths it changed, ``lost`` those it could not."""

    def __init__(
        self,
        confined: ConfinedFolder,
        entries: dict[bytes, FileState],
        shut: tuple[bytes, ...],
        objects: ObjectStore,
    ) -> None:
        self.written: list[str] = []
        self.removed: list[str] = []
        self.lost: dict[str, str] = {}
        self._folder = confined
        self._entries = entries
        self._shut = tuple(path + b"/" for path in shut)
        self._objects = objects

    def run(self, fresh_ns: int) -> None:
        """Remove what is new, put back what is gone or changed; raises OSError and ActionError.

        A file changed after ``fresh_ns`` is compared by its content. Run again, it continues where a killed
        one stopped.
        """
        # Remove what is new, from the top down, so that nothing new is looked into: it may be without end
        waiting = [b""]
        while waiting:
            folder = waiting.pop()
            with (
                contextlib.suppress(ActionError),  # what cannot be read is left
                self._folder.open_folder(os.fsdecode(folder)) as at,
                os.scandir(at) as listing,
            ):
                waiting += [path for item in listing if (path := self._clear_one(at, folder, item))]
        found = scan(self._folder)
        for path, entry in sorted(self._entries.items()):
            now = found.entries.get(path)
            if now is not None and stat.S_IFMT(now.mode) != stat.S_IFMT(entry.mode):
                now = None  # another process changes it just now
            self._put_back(os.fsdecode(path), entry, now, fresh_ns)
        folders = ((path, entry) for path, entry in self._entries.items() if stat.S_ISDIR(entry.mode))
        for path, entry in sorted(folders, reverse=True):
            self._chmod(os.fsdecode(path), stat.S_IMODE(entry.mode) & 0o777)
        if self.written:
            self._folder.sync()

    def _clear_one(self, at: int, folder: bytes, item: os.DirEntry[str]) -> bytes:
        """Remove ``item`` if it is new; returns its path if it is a folder that stays and may hold more."""
        path = folder + b"/" + os.fsencode(item.name) if folder else os.fsencode(item.name)
        try:
            mode = item.stat(follow_symlinks=False).st_mode
        except (FileNotFoundError, PermissionError):
            return b""  # gone since it was listed, or its status cannot be read
        entry = self._entries.get(path)
        if entry is None or stat.S_IFMT(entry.mode) != stat.S_IFMT(mode):
            remove_at(at, item.name)
            self.removed.append(format_path(path))
            return b""
        if not stat.S_ISDIR(mode) or (path + b"/").startswith(self._shut):
            return b""  # what was in an unreadable one is not known, so it stays as it is
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            with contextlib.suppress(OSError):
                chmod_at(at, item.name, stat.S_IRWXU)
        return path

    def _put_back(self, path: str, entry: FileState, now: FileState | None, fresh_ns: int) -> None:
        if stat.S_ISDIR(entry.mode):
            if now is None:
                with self._folder.open_folder(path, make=True):
                    self.written.append(format_path(os.fsencode(path)))
        elif stat.S_ISLNK(entry.mode):
            if now is None or now.target != entry.target:
                target = entry.target
                parent, name = split(path)
                with self._folder.open_folder(parent) as at:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=at)
                    os.symlink(os.fsdecode(target), name, dir_fd=at)
                self.written.append(format_path(os.fsencode(path)))
        elif stat.S_ISREG(entry.mode):
            self._put_back_file(path, entry, now, fresh_ns)
        elif now is None:
            self.lost[format_path(os.fsencode(path))] = "it was neither a file nor a link"

    def _put_back_file(self, path: str, entry: FileState, now: FileState | None, fresh_ns: int) -> None:
        if now is not None and now.key == entry.key and now.ctime_ns < fresh_ns:
            return
        if not entry.digest:
            if now is None or now.key != entry.key:
                self.lost[format_path(os.fsencode(path))] = "it was not kept"
            return
        mode = stat.S_IMODE(entry.mode) & 0o777
        name = format_path(os.fsencode(path))
        if now is not None and now.size == entry.size and self._has_content(path, entry.digest):
            if stat.S_IMODE(now.mode) == mode:
                return
            self._chmod(path, mode)
        elif not self._objects.is_whole(entry.digest):
            self.lost[name] = "what was kept of it is damaged"
            return
        else:
            with self._objects.open(entry.digest) as content:
                self._folder.write(path, content, mode=mode, mtime_ns=entry.mtime_ns, is_last=False)
        self.written.append(name)

    def _has_content(self, path: str, digest: str) -> bool:
        try:
            return self._objects.digest(self._folder, path) == digest
        except (OSError, ActionError):
            return False  # if it cannot be read, it is replaced

    def _chmod(self, path: str, mode: int) -> None:
        parent, name = split(path)
        with self._folder.open_folder(parent) as at:
            if stat.S_IMODE(os.stat(name, dir_fd=at, follow_symlinks=False).st_mode) != mode:
                chmod_at(at, name, mode)


def format_path(path: bytes) -> str:
    """A path as people can read it: bytes that are no UTF-8 as their numbers."""
    return path.decode("utf-8", "backslashreplace")
