"""What a command writes: its first and last bytes kept, and a copy in a log."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from shared.errors import ActionError

LOG_LIMIT = 100_000_000
"""The most bytes of output a log file keeps: a command that writes without end must not fill the disk."""


@contextlib.contextmanager
def open_log(path: Path | None) -> Iterator[BinaryIO | None]:
    """The log file at ``path``, emptied, its folder made; None for no path. Raises ActionError."""
    if path is None:
        yield None
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("wb", buffering=0)  # so that a person can follow it
    except OSError as error:
        raise ActionError(f"The log {path} cannot be written: {error.strerror}") from None
    with file:
        yield file


class Capture:
    """The first and last bytes of a stream, half of ``limit`` each, and a copy of it all in a log."""

    def __init__(self, limit: int, log: BinaryIO | None) -> None:
        self.half = max(limit, 2) // 2
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0
        self.log = log

    def add(self, chunk: bytes) -> None:
        """Take in what came next."""
        self._copy(chunk)
        self.total += len(chunk)
        room = self.half - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[room:]
        if len(self.tail) > 2 * self.half + 65_536:
            del self.tail[: -self.half]

    def _copy(self, chunk: bytes) -> None:
        if self.log is None:
            return
        try:
            self.log.write(chunk[: max(0, LOG_LIMIT - self.total)])
            if self.total <= LOG_LIMIT < self.total + len(chunk):
                self.log.write(f"\n[the log ends here: more than {LOG_LIMIT:,} bytes]\n".encode())
        except OSError:
            self.log = None  # a full disk must not end the command: its result still counts

    @property
    def cut(self) -> int:
        """How many bytes of the middle are not kept."""
        return max(0, self.total - len(self.head) - self.half)

    def text(self) -> str:
        """What was kept, with a line that says what was cut."""
        gap = f"\n[... {self.cut:,} bytes cut ...]\n".encode() if self.cut else b""
        return bytes(self.head + gap + self.tail[-self.half :]).decode("utf-8", "replace")
