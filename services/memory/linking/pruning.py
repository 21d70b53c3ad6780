"""Edges that have faded away are removed."""

from typing import TYPE_CHECKING

from services.memory.graph.decay import DELETED
from shared.contracts import EdgeKey, MemoryWrite

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

MAX_UNLINKED = 5_000
"""Edges that one pass removes: so many keys are a message of less than a megabyte."""


def decay_pass(view: "View", moment: float) -> MemoryWrite | None:
    """The write that removes edges which weigh less than .05 at ``moment``, the lightest first, at most
    5,000.

    None where there are none. Edges drawn by hand or imported keep their weight and stay. To be repeated
    until None; when and how often does not matter.
    """
    faded = view.graph.faded(DELETED, moment, MAX_UNLINKED)
    if not faded:
        return None
    keys = tuple(EdgeKey(from_id=edge.from_id, to_id=edge.to_id, relation=edge.relation) for edge in faded)
    return MemoryWrite(sender="memory", unlink=keys)
