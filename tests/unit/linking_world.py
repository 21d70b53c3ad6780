"""A memory in RAM that writes change as the daemon has them change: folded, then shown by the real view."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from services.memory.linking.cycle import Cycle, link_cycle
from services.memory.retrieval.view import View
from services.memory.storage.tables import EDGES, NODES, Tables, Vectors
from services.memory.writes.batch import Entry, Known, embedded_text, fold
from shared.contracts import Edge, EdgeKey, MemoryWrite, Node, Source

DIMENSIONS = 384
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
NOW = (BEGIN + timedelta(days=30)).timestamp()

Embed = Callable[[Sequence[str]], Vectors]


def at(minutes: float) -> str:
    """So many minutes after BEGIN."""
    return (BEGIN + timedelta(minutes=minutes)).isoformat()


def direction(*weights: float) -> tuple[float, ...]:
    """A unit vector."""
    values = np.zeros(DIMENSIONS)
    values[: len(weights)] = weights
    return tuple((values / np.linalg.norm(values)).tolist())


def beside(cosine: float, axis: int = 1) -> tuple[float, ...]:
    """A unit vector at this cosine to ``direction(1)``, leaning towards an axis."""
    values = np.zeros(DIMENSIONS)
    values[0], values[axis] = cosine, np.sqrt(1 - cosine**2)
    return tuple(values.tolist())


def note(node_id: str, title: str, minutes: float = 0, **fields: Any) -> Node:
    """A node made so many minutes after BEGIN; ``agent`` and ``session`` are its source's."""
    source = Source(agent=fields.pop("agent", ""), session=fields.pop("session", ""))
    return Node(id=node_id, title=title, source=source, created_at=at(minutes), **fields)


class World:
    """Nodes and edges that only change by writes; ``embed`` makes the vectors of nodes that bring none."""

    def __init__(self, embed: Embed | None = None) -> None:
        tables = Tables(
            NODES.empty_table(), EDGES.empty_table(), {}, [], np.zeros((0, DIMENSIONS), np.float32), 0
        )
        self.view = View.build(tables)
        self.cursor, self.after = 0, ""
        self._embed = embed

    def apply(self, write: MemoryWrite) -> None:
        """Apply a write as one commit; raises AssertionError where it is refused."""
        graph = self.view.graph
        known = Known(node=self.view.node, edge=graph.edge, edges_of=graph.edges_of)
        entry = Entry(version=self.view.version + 1, stored_at=NOW, write=write)
        change, errors = fold([entry], known, DIMENSIONS)
        assert errors == [""]
        rest = [node_id for node_id in change.texts_changed if node_id not in change.given]
        vectors = dict(change.given)
        if rest and self._embed is not None:
            made = self._embed([embedded_text(change.nodes[node_id]) for node_id in rest])
            vectors |= dict(zip(rest, made, strict=True))
        rows = np.array(list(vectors.values()), np.float32).reshape(-1, DIMENSIONS)
        self.view.put(change, list(vectors), rows)

    def add(self, *nodes: Node, edges: Sequence[Edge] = ()) -> None:
        """Add nodes and edges in one write."""
        self.apply(MemoryWrite(sender="user", nodes=nodes, edges=tuple(edges), insist=True))

    def unlink(self, start: str, end: str, relation: str) -> None:
        """Remove an edge."""
        self.apply(MemoryWrite(sender="user", unlink=(EdgeKey(from_id=start, to_id=end, relation=relation),)))

    def cycle(self, moment: float = NOW) -> Cycle:
        """One cycle of the linker, applied."""
        cycle = link_cycle(self.view, self.cursor, moment, self.after)
        if cycle.write is not None:
            self.apply(cycle.write)
        self.cursor, self.after = cycle.cursor, cycle.after
        return cycle

    def settle(self) -> list[Cycle]:
        """Cycles until there is nothing more to do; it must come to an end."""
        cycles = [self.cycle()]
        while cycles[-1].nodes:
            cycles.append(self.cycle())
            assert len(cycles) < 100, "the linker goes round in circles"
        return cycles

    def node(self, node_id: str) -> Node:
        """A node, retired or not."""
        found = self.view.node(node_id)
        assert found is not None
        return found

    def edges(self, node_id: str) -> dict[tuple[str, str, str], Edge]:
        """The edges of a node, by from, relation and to."""
        return {(e.from_id, e.relation.value, e.to_id): e for e in self.view.graph.edges_of(node_id)}
