"""Memories to test with: a World in RAM that writes change as the daemon has them change, and a store on
disk."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from services.memory.linking.linker import CycleResult, link_cycle
from services.memory.linking.supersession import Read
from services.memory.retrieval.view import View
from services.memory.storage import tables
from services.memory.storage.commit_table import Disk
from services.memory.storage.store import Store
from services.memory.storage.tables import EDGES, NODES, Tables, Vectors
from services.memory.writes.change import Change, EdgeTuple, KnownState, LoggedWrite, embedded_text
from services.memory.writes.staging import fold
from shared.contracts import (
    Briefing,
    Direction,
    Edge,
    EdgeKey,
    MemoryQuery,
    MemoryWrite,
    Node,
    Relation,
    Source,
)

DIMENSIONS = 390
"""Of the vectors here: no multiple of 64, so that their signs are padded."""
BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
NOW = (BEGIN + timedelta(days=30)).timestamp()
DAY = 86_400.0

T = TypeVar("T")


def at(minutes: float) -> str:
    """So many minutes after BEGIN."""
    return (BEGIN + timedelta(minutes=minutes)).isoformat()


def stamp(moment: float) -> str:
    """A time as memory writes it."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")


def vector(*weights: float) -> Vectors:
    """A unit vector."""
    values = np.zeros(DIMENSIONS, np.float32)
    values[: len(weights)] = weights
    return values / np.float32(np.linalg.norm(values))


def direction(*weights: float) -> tuple[float, ...]:
    """The numbers of a unit vector."""
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
    return Node(
        id=node_id, title=title, **{"source": source, "created_at": at(minutes), "version": 1, **fields}
    )


def node(node_id: str, kind: str = "fact", *, age: float = 0.0, agent: str = "other", **fields: Any) -> Node:
    """A node written ``age`` seconds before NOW."""
    fields.setdefault("title", f"Title of {node_id}")
    created = fields.pop("created_at", stamp(NOW - age))
    return Node(id=node_id, kind=kind, created_at=created, source=Source(agent=agent), **fields)


def edge(start: str, end: str, relation: str = "applies_to", weight: float = 1.0, **fields: Any) -> Edge:
    """An edge; by default the first applies to the second."""
    return Edge(from_id=start, to_id=end, relation=relation, weight=weight, **fields)


def key_of(one: Edge) -> EdgeTuple:
    """From, to, relation."""
    return one.from_id, one.to_id, one.relation.value


def ids(briefing: Briefing) -> dict[str, list[str]]:
    """The ids of the nodes shown, by section."""
    return {section.title: [one.id for one in section.nodes] for section in briefing.sections}


class World:
    """Nodes and edges in RAM that only change by writes; ``embed`` makes the vectors of nodes that bring
    none, ``read`` reads for the linker what pairs mean.

    Vectors have DIMENSIONS numbers, or 384 where they are made.
    """

    def __init__(
        self,
        *nodes: Node,
        edges: Iterable[Edge] = (),
        embed: Callable[[Sequence[str]], Vectors] | None = None,
        read: Read | None = None,
    ) -> None:
        self._read = read
        self._dimensions = 384 if embed else DIMENSIONS
        self.view = View.build(
            Tables(
                NODES.empty_table(),
                EDGES.empty_table(),
                {},
                [],
                np.zeros((0, self._dimensions), np.float32),
                0,
            )
        )
        self.cursor, self.after = 0, ""
        self._embed = embed
        self._vectors: dict[str, Vectors] = {}
        self._ids: dict[str, None] = {}
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
                sender="user",
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
        """Apply a write as one commit; raises ValueError with its error."""
        graph = self.view.graph
        known = KnownState(node=self.view.node, edge=graph.edge, edges_of=graph.edges_of)
        entry = LoggedWrite(seq=self.view.version + 1, stored_at=at, write=write)
        change, (error,) = fold([entry], known, self._dimensions)
        if error:
            raise ValueError(error)
        vectors = dict(change.given)
        rest = [node_id for node_id in change.texts_changed if node_id not in vectors]
        if rest and self._embed is not None:
            made = self._embed([embedded_text(change.nodes[node_id]) for node_id in rest])
            vectors |= dict(zip(rest, made, strict=True))
        self.view.put(change, list(vectors), self._stack(vectors))
        self._vectors.update(vectors)
        self._ids.update(dict.fromkeys(change.nodes))
        return change

    def cycle(self, moment: float = NOW) -> CycleResult:
        """One cycle of the linker, applied."""
        cycle = link_cycle(self.view, self.cursor, moment, self.after, self._read)
        if cycle.write is not None:
            self.apply(cycle.write)
        self.cursor, self.after = cycle.cursor, cycle.after
        return cycle

    def settle(self) -> list[CycleResult]:
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

    def rebuilt(self) -> View:
        """The view as it is read from disk: other slots, other places."""
        nodes = sorted(self.view.nodes(self._ids), key=lambda one: one.title)
        edges = {key_of(one): one for each in nodes for one in self.view.graph.edges_of(each.id)}
        return View.build(
            Tables(
                tables.write_nodes(nodes),
                tables.write_edges([edges[key] for key in sorted(edges, reverse=True)]),
                {},
                list(self._vectors),
                self._stack(self._vectors),
                self.view.version,
            )
        )

    def _stack(self, vectors: Mapping[str, Vectors]) -> Vectors:
        return np.array(list(vectors.values()), np.float32).reshape(-1, self._dimensions)


Stated = tuple[Node, Vectors | None]
"""A node as a table has it, and its vector."""


def make_tables(stated: Sequence[Stated], edges: Sequence[Edge] = (), version: int = 1) -> Tables:
    """What the store would hold of them."""
    known = {one.id: its_vector for one, its_vector in stated if its_vector is not None}
    return Tables(
        nodes=tables.write_nodes([one for one, _ in stated]),
        edges=tables.write_edges(edges) if edges else EDGES.empty_table(),
        access={},
        vector_ids=list(known),
        vectors=np.array(list(known.values()), np.float32).reshape(-1, DIMENSIONS),
        version=version,
    )


def make_view(*stated: Stated, edges: Sequence[Edge] = ()) -> View:
    """A view built from tables."""
    return View.build(make_tables(stated, edges))


def put(
    view: View,
    *nodes: Node,
    vectors: Mapping[str, Vectors] = {},
    edges: Iterable[Edge] = (),
    accessed: Mapping[str, tuple[int, str]] = {},
) -> None:
    """Put nodes as the writer does, as of the next version."""
    change = Change(
        version=view.version + 1,
        nodes={one.id: one for one in nodes},
        edges={key_of(one): one for one in edges},
        replaced_nodes=[],
        replaced_edges=[],
        accessed=dict(accessed),
        texts_changed=dict.fromkeys(vectors, view.version + 1),
        given={},
        interim=[],
        writes=(),
        moments=(),
    )
    view.put(change, list(vectors), np.array(list(vectors.values()), np.float32).reshape(-1, DIMENSIONS))


def search_ids(view: View, text: str, direction: Vectors | None = None, **filters: Any) -> list[str]:
    """The ids that a search finds; by words alone where no direction is given."""
    wanted = vector(*[0] * 60, 1) if direction is None else direction
    return [hit.node.id for hit in view.search(MemoryQuery(text=text, **filters), wanted, NOW)]


STORED_DIMENSIONS = 4
STORED_AT = 1_800_000_000.0


def embed(text: str) -> Vectors:
    """A unit vector of a text, of four numbers; needs no model."""
    digest = np.frombuffer(hashlib.sha256(text.encode()).digest()[:STORED_DIMENSIONS], np.uint8)
    made: Vectors = digest.astype(np.float32) + 1
    return made / np.linalg.norm(made)


class FaultyDisk(Disk):
    """A disk on which one step fails with ``error``: each time, or from then on everything (``dies``)."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.failing = ""
        self.steps: list[str] = []
        self._error: Exception = OSError(28, "No space left on device")
        self._after = self._dies = False

    def fail(
        self, step: str, *, after: bool = False, dies: bool = False, error: Exception | None = None
    ) -> None:
        """From now on ``step`` fails, before it does anything or ``after`` it has done it."""
        self.failing, self._after, self._dies = step, after, dies
        self._error = error or self._error

    def run(self, step: str, work: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        self.steps.append(step)
        if self.failing not in (step, "everything"):
            return work(*args, **kwargs)
        if self._after and self.failing == step:
            work(*args, **kwargs)
        if self._dies:
            self.failing = "everything"
        raise self._error


class StoredMemory:
    """Writes go through fold into the store; what is known is read from it at the start."""

    def __init__(self, path: Path, model: str = "model-a", disk: Disk | None = None) -> None:
        self.store = Store(path, model, STORED_DIMENSIONS, disk)
        tables = self.store.load()
        self.nodes = {one.id: one for one in read_nodes(tables)}
        self.edges = {key_of(one): one for one in read_edges(tables)}
        self._count(tables.access)

    def write(self, *writes: MemoryWrite) -> list[str]:
        """Apply writes as one commit at the next versions; returns their errors. Unsigned ones are a
        person's.
        """
        start = self.store.version + 1
        entries = [
            LoggedWrite(
                seq=version,
                stored_at=STORED_AT + version,
                write=msgspec.structs.replace(write, sender=write.sender or "user"),
            )
            for version, write in enumerate(writes, start)
        ]
        change, errors = fold(entries, self.known(), STORED_DIMENSIONS)
        if change.writes:
            self.apply(change)
        return errors

    def add(self, **fields: Any) -> str:
        """Apply one write; returns its error."""
        (error,) = self.write(MemoryWrite(**fields))
        return error

    def apply(self, change: Change) -> None:
        """Store a change with the vectors it needs."""
        texts = [
            (node_id, since, embedded_text(change.nodes[node_id]))
            for node_id, since in change.texts_changed.items()
        ]
        texts += [(text.id, text.version, text.text) for text in change.interim]
        vectors = np.array([embed(text) for *_, text in texts], np.float32).reshape(-1, STORED_DIMENSIONS)
        self.store.apply(change, [key for key, *_ in texts], vectors, [since for _, since, _ in texts])
        self.nodes.update(change.nodes)
        self.edges.update(change.edges)
        self._count(change.accessed)

    def _count(self, accessed: Mapping[str, tuple[int, str]]) -> None:
        for node_id, (count, last_at) in accessed.items():
            counted = {"access_count": count, "last_accessed_at": last_at}
            self.nodes[node_id] = msgspec.structs.replace(self.nodes[node_id], **counted)

    def known(self) -> KnownState:
        """What a batch must know."""
        return KnownState(node=self.nodes.get, edge=self._edge, edges_of=self._edges_of)

    def close(self) -> None:
        """Flush and close the store."""
        self.store.flush()
        self.store.close()

    def _edge(self, start: str, end: str, relation: str) -> Edge | None:
        found = self.edges.get((start, end, relation))
        return found if found and not found.retired_version else None

    def _edges_of(self, node_id: str, direction: Direction, relations: Collection[str]) -> Iterable[Edge]:
        for one in self.edges.values():
            ends = {"out": (one.from_id,), "in": (one.to_id,), "both": (one.from_id, one.to_id)}[direction]
            if node_id in ends and not one.retired_version and (not relations or one.relation in relations):
                yield one


def read_nodes(tables: Tables) -> list[Node]:
    """The nodes of tables."""
    return [_read_node(row) for row in tables.nodes.to_pylist()]


def _read_node(row: dict[str, Any]) -> Node:
    source = {name: row.pop(f"source_{name}") for name in Source.__struct_fields__}
    metadata = msgspec.json.decode(row.pop("metadata"))
    return Node(**{**row, "tags": tuple(row["tags"])}, source=Source(**source), metadata=metadata)


def read_edges(tables: Tables) -> list[Edge]:
    """The edges of tables."""
    return [_read_edge(row) for row in tables.edges.to_pylist()]


def _read_edge(row: dict[str, Any]) -> Edge:
    provenance = msgspec.json.decode(row.pop("provenance"))
    return Edge(**{**row, "relation": Relation(row["relation"])}, provenance=provenance)


def picture(tables: Tables) -> tuple[dict[str, Node], dict[EdgeTuple, Edge], dict[str, list[float]]]:
    """What tables say, in no order; nodes without their accesses, which have no history."""
    vectors = dict(zip(tables.vector_ids, tables.vectors.tolist(), strict=True))
    nodes = [msgspec.structs.replace(one, access_count=0, last_accessed_at="") for one in read_nodes(tables)]
    edges = {key_of(one): one for one in read_edges(tables)}
    assert len(vectors) == len(tables.vector_ids)
    assert len(edges) == tables.edges.num_rows
    return {one.id: one for one in nodes}, edges, vectors


def count_files(folder: Path) -> int:
    """The files beneath a folder."""
    return sum(1 for path in folder.rglob("*") if path.is_file())
