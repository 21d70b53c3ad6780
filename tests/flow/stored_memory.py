"""A store with what it holds, as the daemon drives it, and vectors of four numbers that need no model."""

import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from services.memory.storage import rows
from services.memory.storage.store import Store
from services.memory.storage.tables import Tables
from services.memory.writes.batch import Change, EdgeTuple, Entry, Known, embedded_text, fold
from services.memory.writes.change import Vectors
from shared.contracts import Direction, Edge, MemoryWrite, Node

DIMENSIONS = 4
AT = 1_800_000_000.0


def embed(text: str) -> Vectors:
    """A unit vector of a text."""
    digest = np.frombuffer(hashlib.sha256(text.encode()).digest()[:DIMENSIONS], np.uint8)
    vector: Vectors = digest.astype(np.float32) + 1
    return vector / np.linalg.norm(vector)


class StoredMemory:
    """Writes go through fold into the store; what is known is read from it at the start."""

    def __init__(self, path: Path, model: str = "model-a") -> None:
        self.store = Store(path, model, DIMENSIONS)
        tables = self.store.load()
        self.nodes = {node.id: node for node in read_nodes(tables)}
        self.edges = {key_of(edge): edge for edge in read_edges(tables)}

    def write(self, *writes: MemoryWrite) -> list[str]:
        """Apply writes as one commit at the next versions; returns their errors."""
        start = self.store.version + 1
        entries = [
            Entry(version=version, stored_at=AT + version, write=write)
            for version, write in enumerate(writes, start)
        ]
        change, errors = fold(entries, self.known(), DIMENSIONS)
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
            (node_id, at, embedded_text(change.nodes[node_id]))
            for node_id, at in change.texts_changed.items()
        ]
        texts += [(text.id, text.version, text.text) for text in change.interim]
        vectors = np.array([embed(text) for *_, text in texts], np.float32).reshape(-1, DIMENSIONS)
        self.store.apply(change, [key for key, *_ in texts], vectors, [at for _, at, _ in texts])
        self.nodes.update(change.nodes)
        self.edges.update(change.edges)
        for node_id, (count, last_at) in change.accessed.items():
            counted = {"access_count": count, "last_accessed_at": last_at}
            self.nodes[node_id] = msgspec.structs.replace(self.nodes[node_id], **counted)

    def known(self) -> Known:
        return Known(node=self.nodes.get, edge=self._edge, edges_of=self._edges_of)

    def close(self) -> None:
        self.store.close()

    def _edge(self, start: str, end: str, relation: str) -> Edge | None:
        edge = self.edges.get((start, end, relation))
        return edge if edge and not edge.retired_version else None

    def _edges_of(self, node_id: str, direction: Direction, relations: Collection[str]) -> Iterable[Edge]:
        for edge in self.edges.values():
            ends = {"out": (edge.from_id,), "in": (edge.to_id,), "both": (edge.from_id, edge.to_id)}[
                direction
            ]
            if node_id in ends and not edge.retired_version and (not relations or edge.relation in relations):
                yield edge


def read_nodes(tables: Tables) -> list[Node]:
    return [rows.read_node(row) for row in tables.nodes.to_pylist()]


def read_edges(tables: Tables) -> list[Edge]:
    return [rows.read_edge(row) for row in tables.edges.to_pylist()]


def key_of(edge: Edge) -> EdgeTuple:
    return edge.from_id, edge.to_id, edge.relation.value


def picture(tables: Tables) -> tuple[dict[str, Node], dict[EdgeTuple, Edge], dict[str, list[float]]]:
    """What tables say, in no order; nodes without their accesses, which have no history."""
    vectors = dict(zip(tables.vector_ids, tables.vectors.tolist(), strict=True))
    nodes = [
        msgspec.structs.replace(node, access_count=0, last_accessed_at="") for node in read_nodes(tables)
    ]
    edges = {key_of(edge): edge for edge in read_edges(tables)}
    assert len(vectors) == len(tables.vector_ids)
    assert len(edges) == tables.edges.num_rows
    return {node.id: node for node in nodes}, edges, vectors


def count_files(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if path.is_file())
