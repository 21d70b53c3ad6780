"""The folder of a workspace's snapshots: file contents, each once by its digest; and the locks on it."""

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Collection, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from shared.errors import ActionError
from shared.sandbox.confined import ConfinedFolder

CHUNK = 1 << 20  # Bytes that are held in memory at once; smaller contents are written only if they are new


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
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ActionError(f"The snapshots in {path.parent} cannot be used: {error.strerror}") from None
    try:
        _wait(fd, mode, patience, why)
        yield
    finally:
        os.close(fd)


def _wait(fd: int, mode: int, patience: float, why: str) -> None:
    ends = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(fd, mode | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > ends:
                raise ActionError(why, "Try again later") from None
            time.sleep(0.02)
