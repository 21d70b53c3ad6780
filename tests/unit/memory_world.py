"""A memory that is written to as the daemon does it, kept in RAM, and read by briefings."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from services.memory.retrieval.view import View
from services.memory.storage import rows
from services.memory.storage.tables import EDGES, NODES, Tables
from services.memory.writes.batch import Entry, fold
from services.memory.writes.change import Change, Known, Vectors
from shared.contracts import Briefing, Edge, EdgeKey, MemoryWrite, Node, Source

DIMENSIONS = 70
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC).timestamp()
DAY = 86_400.0


def stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")


def direction(*weights: float) -> tuple[float, ...]:
    """The numbers of a unit vector."""
    values = np.zeros(DIMENSIONS)
    values[: len(weights)] = weights
    return tuple((values / np.linalg.norm(values)).tolist())


def node(node_id: str, kind: str = "fact", *, age: float = 0.0, agent: str = "other", **fields: Any) -> Node:
    """A node written ``age`` seconds before NOW."""
    fields.setdefault("title", f"Title of {node_id}")
    created = fields.pop("created_at", stamp(NOW - age))
    return Node(id=node_id, kind=kind, created_at=created, source=Source(agent=agent), **fields)


def edge(start: str, end: str, relation: str = "applies_to", weight: float = 1.0, **fields: Any) -> Edge:
    return Edge(from_id=start, to_id=end, relation=relation, weight=weight, **fields)


class World:
    """A live view, and the entries and changes it is made of."""

    def __init__(self, *nodes: Node, edges: Iterable[Edge] = ()) -> None:
        empty = Tables(
            NODES.empty_table(), EDGES.empty_table(), {}, [], np.zeros((0, DIMENSIONS), np.float32), 0
        )
        self.view = View.build(empty)
        self.entries: list[Entry] = []
        self.vectors: dict[str, Vectors] = {}
        if nodes:
            self.write(*nodes, edges=edges)

    def write(
        self,
        *nodes: Node,
        edges: Iterable[Edge] = (),
        retire: Iterable[str] = (),
        unlink: Iterable[tuple[str, str, str]] = (),
        accessed: Mapping[str, int] | None = None,
        at: float = NOW,
    ) -> Change:
        """Apply one write; raises ValueError with its error."""
        keys = tuple(EdgeKey(from_id=start, to_id=end, relation=relation) for start, end, relation in unlink)
        return self.apply(
            MemoryWrite(
                sender="scout",
                created_at=stamp(at),
                nodes=nodes,
                edges=tuple(edges),
                retire=tuple(retire),
                unlink=keys,
                accessed=dict(accessed or {}),
            ),
            at,
        )

    def apply(self, write: MemoryWrite, at: float = NOW) -> Change:
        known = Known(node=self.view.node, edge=self.view.graph.edge, edges_of=self.view.graph.edges_of)
        entry = Entry(version=self.view.version + 1, stored_at=at, write=write)
        change, (error,) = fold([entry], known, DIMENSIONS)
        if error:
            raise ValueError(error)
        vectors = np.array(list(change.given.values()), np.float32).reshape(-1, DIMENSIONS)
        self.view.put(change, list(change.given), vectors)
        self.vectors.update(change.given)
        self.entries.append(entry)
        return change

    def rebuilt(self) -> View:
        """The view as it is read from disk: other slots, other places."""
        nodes = sorted((node for node in map(self.view.node, self._ids()) if node), key=lambda one: one.title)
        edges = {edge for one in nodes for edge in map(_key, self.view.graph.edges_of(one.id))}
        live = [self.view.graph.edge(*key) for key in sorted(edges, reverse=True)]
        return View.build(
            Tables(
                rows.write_nodes([_bare(one) for one in nodes]),
                rows.write_edges([one for one in live if one]),
                {},
                list(self.vectors),
                np.array(list(self.vectors.values()), np.float32).reshape(-1, DIMENSIONS),
                self.view.version,
            )
        )

    def _ids(self) -> set[str]:
        return {one.id for entry in self.entries for one in entry.write.nodes}


def ids(briefing: Briefing) -> dict[str, list[str]]:
    """The ids of the nodes shown, by section."""
    return {section.title: [one.id for one in section.nodes] for section in briefing.sections}


def _bare(one: Node) -> Node:
    return Node(**{name: getattr(one, name) for name in one.__struct_fields__ if name != "embedding"})


def _key(one: Edge) -> tuple[str, str, str]:
    return one.from_id, one.to_id, one.relation.value
