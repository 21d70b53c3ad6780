"""A file of records that several processes change: locked, written whole, and read again when changed."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from shared.errors import ConfigError, MailroomError
from shared.files import write_atomically

T = TypeVar("T")

LOCK_TIMEOUT = 1.0  # Seconds to wait for another process, such as a stopped one, that changes the file
LOCK_PAUSE = 0.005
_UNREAD = (-1, -1, -1)


class RecordFile(Generic[T]):
    """The records of one kind in a JSON file of mode 0600; a missing file holds none.

    ``read`` looks at the file's date, size and inode each time: what another process changes counts at once.
    """

    def __init__(self, path: Path, kind: type[T]) -> None:
        self._path = path
        self._decoder = msgspec.json.Decoder(dict[str, kind])  # type: ignore[valid-type]
        self._seen = _UNREAD
        self._records: dict[str, T] = {}

    def read(self) -> dict[str, T]:
        """The records by their keys; not to be changed. Raises ConfigError if the file cannot be read."""
        try:
            stat = self._path.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if seen != self._seen:
                self._records, self._seen = self._decoder.decode(self._path.read_bytes()), seen
        except FileNotFoundError:
            self._records, self._seen = {}, _UNREAD
        except (OSError, msgspec.MsgspecError) as error:
            self._seen = _UNREAD
            raise ConfigError(
                f"{self._path} cannot be read: {error}", "Delete it; what it allowed has to be allowed again"
            ) from None
        return self._records

    @contextlib.contextmanager
    def change(self) -> Iterator[dict[str, T]]:
        """The records to be changed; they are written when the block ends without an error.

        Other processes wait meanwhile. Raises MailroomError if the file cannot be written.
        """
        try:
            with self._locked():
                records = dict(self.read())
                yield records
                if records != self._records:
                    write_atomically(self._path, msgspec.json.encode(records), mode=0o600)
        except OSError as error:
            raise MailroomError(
                f"{self._path} cannot be written: {error.strerror}",
                "Make its folder writable, or free disk space",
            ) from None

    def _wait_for(self, lock: int) -> None:
        deadline = time.monotonic() + LOCK_TIMEOUT
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise MailroomError(
                        f"Another process keeps {self._path} locked", "Try again, or end that process"
                    ) from None
                time.sleep(LOCK_PAUSE)
            else:
                return

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._path.with_suffix(".lock"), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            self._wait_for(lock)
            yield
        finally:
            os.close(lock)
