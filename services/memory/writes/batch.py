"""A batch of writes folded into one change of the graph, the bad ones among them left out whole."""

from collections.abc import Sequence

import numpy as np

from services.memory.writes.change import Change, EdgeTuple, Entry, Known, Text, Vectors, embedded_text
from services.memory.writes.staging import Staging
from shared.contracts import MemoryWrite, MemoryWritten, Rejection
from shared.contracts.base import amended, generate_id, generate_iso_timestamp

__all__ = ["Change", "EdgeTuple", "Entry", "Known", "Text", "answer", "embedded_text", "fold"]

UNIT_TOLERANCE = 0.01
"""How far from 1 the length of a given embedding may be: float32 and rounded JSON stay well within."""

_LEAST, _MOST = (1 - UNIT_TOLERANCE) ** 2, (1 + UNIT_TOLERANCE) ** 2
_ANSWER = MemoryWritten(cause="blank")


def fold(entries: Sequence[Entry], known: Known, dimensions: int) -> tuple[Change, list[str]]:
    """The change that writes make in their order, and for each its error ("" where it is taken).

    Nothing of a write with an error is in the change. What a write says is applied in this order:

    - nodes: one that is there already is replaced, keeping its created_at, its created_version and the
      higher access_count; a retired one comes back; the same content again changes nothing;
    - edges: they join live nodes, of this write or earlier ones; one that is there gets the new weight,
      provenance and touched_at, and the same again changes nothing; supersedes makes no cycle;
    - unlink and retire: tombstones, marked with the version; a node takes its edges along, and doing it twice
      changes nothing;
    - accessed: counted, without a new state.

    A vector counts where the text is new; the daemon's own writes (sender "memory") may name what is gone
    meanwhile: that part of them is passed over.
    """
    staging = Staging(known)
    errors = []
    for entry in entries:
        try:
            staging.take(entry, read_vectors(entry.write, dimensions))
        except ValueError as error:
            staging.undo()
            errors.append(str(error))
        else:
            errors.append("")
    return staging.change(), errors


def read_vectors(write: MemoryWrite, dimensions: int) -> dict[int, Vectors]:
    """The vectors that came with a write, by the place of their node; raises ValueError for a bad one."""
    if write.vectors:
        if len(write.vectors) != 4 * dimensions * len(write.nodes):
            raise ValueError(
                f"vectors holds {len(write.vectors):,} bytes; {len(write.nodes)} vectors of this memory's "
                f"model ({dimensions} numbers each) take {4 * dimensions * len(write.nodes):,}"
            )
        rows = np.frombuffer(write.vectors, "<f4").astype(np.float32, copy=False).reshape(-1, dimensions)
        _require_units(rows)
        return dict(enumerate(rows))
    places = [place for place, node in enumerate(write.nodes) if node.embedding]
    for place in places:
        if len(write.nodes[place].embedding) != dimensions:
            count = len(write.nodes[place].embedding)
            raise ValueError(f"embedding has {count} numbers; this memory's model has {dimensions}")
    if not places:
        return {}
    with np.errstate(over="ignore"):
        rows = np.array([write.nodes[place].embedding for place in places], np.float32)
    _require_units(rows)
    return dict(zip(places, rows, strict=True))


def answer(write: MemoryWrite, error: str, version: int, rejection: Rejection | None = None) -> MemoryWritten:
    """What is sent back: the ids of its nodes and the version, or why nothing of it was stored."""
    ids = tuple(dict.fromkeys((*(node.id for node in write.nodes), *write.retire)))
    return amended(
        _ANSWER,
        id=generate_id(),
        created_at=generate_iso_timestamp(),
        recipient=write.sender,
        cause=write.id,
        goal_id=write.goal_id,
        ids=() if error else ids,
        version=0 if error else version,
        error=error,
        rejection=rejection,
    )


def _require_units(rows: Vectors) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.vecdot(rows, rows)
        if squares.min() >= _LEAST and squares.max() <= _MOST:  # neither where one is not a number
            return
        lengths = np.sqrt(squares)
        bad = np.flatnonzero(~(np.abs(lengths - 1) <= UNIT_TOLERANCE))  # also where it is not a number
    if len(bad):
        raise ValueError(f"embedding must be a unit vector; its length is {lengths[bad[0]]:.4g}")
