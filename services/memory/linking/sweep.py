"""Duplicates sought throughout memory: after a change of model, or on demand."""

from typing import TYPE_CHECKING

import msgspec

from services.memory.linking.duplicates import DUPLICATE, are_duplicates
from services.memory.linking.plan import STATEMENTS, Plan
from shared.contracts import MemoryWrite

if TYPE_CHECKING:
    from services.memory.embedding.embedder import Vectors
    from services.memory.retrieval.view import View

BLOCK = 256
"""Rows that are compared with all at once: 100 MB at 100,000 nodes."""

MAX_MERGES = 500
"""Merges of one pass; the next finds the rest."""


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass found: the ``write`` that merges it, None for nothing, and how many nodes were ``merged``.

    ``after`` is the id where the next pass goes on; empty where all was looked at.
    """

    write: MemoryWrite | None
    after: str = ""
    merged: int = 0


def dedup_pass(view: "View", after: str = "", limit: int = 10_000) -> Sweep:
    """Merge what says the same among all live nodes: the next ``limit`` of them, in the order of their ids,
    are held against everything. The rules are those of a cycle, which finds the duplicates of what is
    written.
    """
    plan = Plan(view)
    ids, vectors = _vectors_of(view)
    pending = [place for place, node_id in enumerate(ids) if node_id > after][:limit]
    for start in range(0, len(pending), BLOCK):
        rows = pending[start : start + BLOCK]
        for row, other, cosine in _pairs(vectors, rows):
            _merge(plan, ids[row], ids[other], cosine)
        after = ids[rows[-1]]
        if plan.counts["merged"] >= MAX_MERGES or plan.is_long:
            break
    done = not pending or after == ids[-1]
    return Sweep(write=plan.make_write(), after="" if done else after, merged=plan.counts["merged"])


def _vectors_of(view: "View") -> tuple[list[str], "Vectors"]:
    import numpy as np

    found = {
        node_id: vector for node_id in sorted(view.select()) if (vector := view.vector(node_id)) is not None
    }
    return list(found), np.array(list(found.values()), np.float32)


def _pairs(vectors: "Vectors", rows: list[int]) -> list[tuple[int, int, float]]:
    """Rows that resemble a later one from DUPLICATE on, each with it and the cosine, the closest first."""
    import numpy as np

    begin = rows[0]
    cosines = vectors[rows] @ vectors[begin:].T
    first, second = np.nonzero(cosines >= DUPLICATE)
    later = second + begin > np.array(rows)[first]
    first, second = first[later], second[later]
    values = cosines[first, second]
    order = np.argsort(-values, kind="stable")
    return [(rows[first[at]], begin + int(second[at]), float(values[at])) for at in order]


def _merge(plan: Plan, one: str, other: str, cosine: float) -> None:
    pair = plan.load([one, other])
    if len(pair) < 2 or not are_duplicates(pair[0], pair[1], cosine):
        return
    if not any(edge.relation in STATEMENTS for edge in plan.between(one, other)):
        plan.merge(pair[0], pair[1])
