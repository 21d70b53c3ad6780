"""The write-ahead log of the tables: rows that are on disk already, and go into the tables in bulk."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from services.memory.storage.disk import Disk

_sync = getattr(os, "fdatasync", os.fsync)
"""The file is overwritten again and again: while its length stays the same, its metadata does too."""


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
        if parts:
            _sync(self._file)
        return written

    def require(self, segments: list[Segment]) -> None:
        """Let ``segments`` count; raises ValueError if the file is too short for them."""
        self.segments = segments
        if os.fstat(self._file).st_size < self.end:
            raise ValueError(f"its tail should have {self.end:,} bytes and is shorter")

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
