"""The store's folder: syncing, rolling back what was not committed, putting a rebuilt store in place."""

import ctypes
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

import pyarrow as pa

from shared.errors import ActionError, StartError

_MANIFEST_BASE = 2**64 - 1
"""Lance names the manifest of version v ``{2**64 - 1 - v}.manifest``, so that the newest is listed first."""

_HINDRANCES = re.compile(
    r"no space left|disk full|denied|read-?only|too many open files|unable to open|disk i/o|cannot allocate",
    re.IGNORECASE,
)
"""In errors of Lance, Arrow, SQLite and the system that are about the machine, and not about the files."""

P = ParamSpec("P")
T = TypeVar("T")

_sync = getattr(os, "fdatasync", os.fsync)
"""The file is overwritten again and again: while its length stays the same, its metadata does too."""


class Damaged(StartError):
    """The files of a store cannot be read."""


def open_error(path: Path, error: Exception) -> StartError:
    """Why the store in ``path`` cannot be opened: Damaged, unless the machine hinders it."""
    if _HINDRANCES.search(str(error)):
        return StartError(
            f"The memory in {path} cannot be opened ({first_line(error)})",
            "Free disk space, or make the folder writable",
        )
    return Damaged(
        f"The memory in {path} is damaged ({first_line(error)})",
        "Move that folder away to start over; what was committed is also in the MEMORY stream",
    )


class Disk:
    """The folder ``path``. Each step that changes it goes through ``run``, so that tests can let it fail.

    Without ``synced`` nothing is flushed: for what counts only once all of it is.
    """

    def __init__(self, path: Path, *, synced: bool = True) -> None:
        self.path = path
        self.synced = synced

    def run(self, step: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do ``work``; ``step`` names what it does to the disk."""
        return work(*args, **kwargs)

    def sync(self) -> None:
        """Flush all that was written to the file system of the folder; raises OSError."""
        if self.synced:
            self.run("sync", _syncfs, self.path)

    def roll_back(self, committed: Mapping[str, int]) -> None:
        """Take the tables back to their ``committed`` versions, and remove those that have none.

        Raises ValueError if nothing is committed although there is data: its commit table is lost.
        """
        for table in self.path.glob("*.lance"):
            kept = committed.get(table.stem, 0)
            versions = {_MANIFEST_BASE - int(file.stem): file for file in table.glob("_versions/*.manifest")}
            if not committed and max(versions, default=0) > 1:
                raise ValueError(f"{table} contains data, but ledger.sqlite does not list it")
            if not kept:
                self.run("drop", shutil.rmtree, table)
                continue
            for version, file in versions.items():
                if version > kept:
                    self.run("drop", file.unlink)

    def count_commits(self) -> int:
        """How many commits of tables still have their files."""
        return sum(1 for _ in self.path.glob("*.lance/_versions/*.manifest"))

    def explain(self, error: Exception) -> ActionError:
        """The error for the sender of a write that failed by ``error``."""
        reason = first_line(error)
        if "No space left" in reason or "disk is full" in reason or "quota" in reason.lower():
            return ActionError(
                f"Memory cannot be written: the disk of {self.path} is full",
                "Free some space and send it again",
            )
        return ActionError(f"Memory cannot be written: {reason}", f"Check {self.path} and send it again")


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _syncfs(path: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):  # macOS
        os.sync()
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        if libc.syncfs(folder):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
    finally:
        os.close(folder)


class Segment(NamedTuple):
    """Rows of one table, as an Arrow batch in the file."""

    table: str
    start: int
    size: int


class Wal:
    """A file of Arrow batches, of which ``segments`` count; the other bytes are overwritten.

    A commit of a table leaves three files and takes 3 to 15 ms. A batch of rows here takes one sync. So it
    would in the commit table, but there a megabyte is written twice (15 ms, here 5).
    """

    def __init__(self, path: Path, disk: Disk) -> None:
        self.segments: list[Segment] = []
        self._disk = disk
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @property
    def end(self) -> int:
        """The number of bytes that count."""
        return self.segments[-1].start + self.segments[-1].size if self.segments else 0

    def write(self, parts: Sequence[tuple[str, pa.Table]]) -> list[Segment]:
        """Write rows at the end, on disk when this returns; they count once they are among ``segments``.

        Raises OSError if they do not fit.
        """
        written, start = [], self.end
        for name, table in parts:
            data = memoryview(_to_batch(table).serialize())
            written.append(Segment(name, start, len(data)))
            while data:
                count = self._disk.run("wal", os.pwrite, self._file, data, start)
                start, data = start + count, data[count:]
        if parts and self._disk.synced:
            _sync(self._file)
        return written

    def require(self, segments: list[Segment]) -> None:
        """Let ``segments`` count; raises ValueError if the file is too short for them."""
        self.segments = segments
        if os.fstat(self._file).st_size < self.end:
            raise ValueError(f"tail.arrow should have {self.end:,} bytes but is shorter")

    def read(self, name: str, schema: pa.Schema) -> list[pa.RecordBatch]:
        """The rows of a table."""
        # Copied, not mapped: the bytes are overwritten while readers still hold the rows.
        segments = [segment for segment in self.segments if segment.table == name]
        data = (os.pread(self._file, segment.size, segment.start) for segment in segments)
        return [pa.ipc.read_record_batch(pa.py_buffer(each), schema) for each in data]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _to_batch(table: pa.Table) -> pa.RecordBatch:
    (batch,) = table.combine_chunks().to_batches()
    return batch


DRAFT = "rebuild"
"""The folder, within the store's, in which a new one is made: the store's own may be a mount."""

_READY = "ready"
_MOVING = "moving"


def replace(path: Path) -> None:
    """Put the store in the draft's folder in the place of that in ``path``; both must be closed."""
    Disk(path).sync()
    (path / DRAFT / _READY).touch()
    Disk(path).sync()
    settle(path)


def settle(path: Path) -> None:
    """Complete a replacement that a crash interrupted, and remove a draft that was never completed.

    First the old files go, then the new ones come: which of it was begun is told by a file's name.
    """
    draft = path / DRAFT
    if (draft / _READY).exists():
        for entry in path.iterdir():
            if entry != draft:
                _remove(entry)
        (draft / _READY).rename(draft / _MOVING)
        Disk(path).sync()
    if (draft / _MOVING).exists():
        for entry in draft.iterdir():
            if entry.name != _MOVING:
                os.replace(entry, path / entry.name)  # noqa: PTH105 - as it is named in the docs of POSIX
        Disk(path).sync()
    if draft.exists():
        shutil.rmtree(draft)


def _remove(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry)
    else:
        entry.unlink()
