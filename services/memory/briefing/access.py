"""What serving briefings leads to: accesses counted, edges among what was shown reinforced, from time to
time.
"""

import threading
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from services.memory.graph import decay
from shared.contracts import Edge, MemoryWrite

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

OWNER = "memory"
"""The daemon's own name, under which it writes."""

MAX_LISTS = 1_000
"""How many different briefings are counted between two writes; what is read beyond is not."""

MAX_NODES = 2_000
"""The most nodes of one write, those read most often first."""

MAX_EDGES = 1_000
"""The most edges that one write reinforces."""


class Readings:
    """How often what was shown, by the list of node ids of each briefing. Safe in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, ...]] = Counter()

    def count(self, ids: tuple[str, ...]) -> None:
        """These were shown to somebody; a matter of a microsecond."""
        with self._lock:
            if ids and (ids in self._counts or len(self._counts) < MAX_LISTS):
                self._counts[ids] += 1

    def take(self, view: "View", moment: float) -> MemoryWrite | None:
        """What was read since the last call, as a write to be published: None where that was nothing.

        An access is counted for every node as often as it was shown, and the edges of at least decay.HIDDEN
        between nodes shown together, the agent's own among them, are reinforced once (at most once a day; see
        ``decay.reinforce``). What was retired meanwhile is left out.
        """
        with self._lock:
            counts, self._counts = self._counts, Counter()
        accessed: Counter[str] = Counter()
        for ids, count in counts.items():
            for node_id in ids:
                accessed[node_id] += count
        live = {node_id: count for node_id, count in accessed.most_common(MAX_NODES) if view.is_live(node_id)}
        if not live:
            return None
        shown = ([node_id for node_id in ids if node_id in live] for ids in counts)
        return MemoryWrite(sender=OWNER, accessed=live, edges=_reinforce(view, shown, moment))


def _reinforce(view: "View", lists: Iterable[list[str]], moment: float) -> tuple[Edge, ...]:
    reinforced: dict[tuple[str, str, str], Edge] = {}
    for ids in lists:
        importance = {node.id: node.importance for node in view.nodes(ids)}
        edges = view.graph.between(view.graph.locate(ids), (), decay.HIDDEN, moment, MAX_EDGES) if ids else []
        for edge in edges:
            highest = max(importance.get(edge.from_id, 0.0), importance.get(edge.to_id, 0.0))
            key = (edge.from_id, edge.to_id, edge.relation.value)
            if key not in reinforced and (stronger := decay.reinforce(edge, highest, moment)):
                reinforced[key] = stronger
        if len(reinforced) >= MAX_EDGES:
            break
    return tuple(reinforced.values())[:MAX_EDGES]
