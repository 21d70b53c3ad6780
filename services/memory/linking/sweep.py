"""Duplicates sought throughout memory: after a change of model, or on demand."""

from typing import TYPE_CHECKING

import msgspec

from services.memory.linking.duplicates import DUPLICATE, are_duplicates
from services.memory.linking.plan import STATEMENTS, Plan
from shared.contracts import MemoryWrite

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

CLOSEST = 16
"""The nodes that one is held against at most: more of them say the same only where the linker never was."""

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
    ids = sorted(node_id for node_id in view.select() if node_id > after)
    for node_id in ids[:limit]:
        vector = view.vector(node_id)
        near = [] if vector is None else view.similar(vector, CLOSEST, DUPLICATE)
        for other, cosine in near:
            if other > node_id:
                _merge(plan, node_id, other, cosine)
        after = node_id
        if plan.counts["merged"] >= MAX_MERGES or plan.is_long:
            break
    done = not ids or after == ids[-1]
    return Sweep(write=plan.make_write(), after="" if done else after, merged=plan.counts["merged"])


def _merge(plan: Plan, one: str, other: str, cosine: float) -> None:
    pair = plan.load([one, other])
    if len(pair) < 2 or not are_duplicates(pair[0], pair[1], cosine):
        return
    if not any(edge.relation in STATEMENTS for edge in plan.between(one, other)):
        plan.merge(pair[0], pair[1])
