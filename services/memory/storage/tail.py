"""The tail: rows that are on disk already, and go into the tables when there are many of them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

_sync = getattr(os, "fdatasync", os.fsync)
"""The file is written over again and again: where its length stays, so does all that reading it takes."""


class Piece(NamedTuple):
    """Rows of one table, as an Arrow batch in the file of the tail."""

    table: str
    start: int
    size: int


class Tail:
    """A file of Arrow batches; the ledger says which of its bytes count, and the others are written over.

    A commit of a table leaves three files and takes 3 to 15 ms. A batch of rows here takes one sync, and
    so it does in the ledger; but there a megabyte is written twice (15 ms, here 5).
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, parts: Sequence[tuple[str, pa.Table]], start: int) -> list[Piece]:
        """Put rows at ``start``, on disk when this returns; raises OSError where they do not fit."""
        pieces = []
        for name, table in parts:
            data = memoryview(_to_batch(table).serialize())
            pieces.append(Piece(name, start, len(data)))
            while data:
                written = os.pwrite(self._file, data, start)
                start, data = start + written, data[written:]
        _sync(self._file)
        return pieces

    def require(self, size: int) -> None:
        """Raise ValueError where the file is shorter than ``size``."""
        if os.fstat(self._file).st_size < size:
            raise ValueError(f"its tail should have {size:,} bytes and is shorter")

    def read(self, piece: Piece, schema: pa.Schema) -> pa.RecordBatch:
        """The rows of a piece."""
        # Copied, not mapped: the bytes are written over while readers still hold the rows.
        data = os.pread(self._file, piece.size, piece.start)
        return pa.ipc.read_record_batch(pa.py_buffer(data), schema)

    def close(self) -> None:
        """Let the file go."""
        os.close(self._file)


def _to_batch(table: pa.Table) -> pa.RecordBatch:
    (batch,) = table.combine_chunks().to_batches()
    return batch
