"""Views of memory made of a few nodes and vectors, and changes to put into them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from services.memory.retrieval.view import View
from services.memory.storage import rows
from services.memory.storage.tables import EDGES, Tables, Vectors
from services.memory.writes.change import Change
from shared.contracts import Edge, MemoryQuery, Node

DIMENSIONS = 70
NOW = 1_780_000_000.0

Entry = tuple[Node, Vectors | None]


def vector(*weights: float) -> Vectors:
    """A unit vector."""
    values = np.zeros(DIMENSIONS, np.float32)
    values[: len(weights)] = weights
    return values / np.float32(np.linalg.norm(values))


def node(node_id: str, title: str, **fields: Any) -> Node:
    """A node of the first of March 2026, unless told otherwise."""
    return Node(
        id=node_id, title=title, **{"created_at": "2026-03-01T00:00:00+00:00", "version": 1, **fields}
    )


def tables(entries: Sequence[Entry], edges: Sequence[Edge] = (), version: int = 1) -> Tables:
    """What the store would hold of them."""
    known = {entry[0].id: entry[1] for entry in entries if entry[1] is not None}
    return Tables(
        nodes=rows.write_nodes([entry[0] for entry in entries]),
        edges=rows.write_edges(edges) if edges else EDGES.empty_table(),
        access={},
        vector_ids=list(known),
        vectors=np.array(list(known.values()), np.float32).reshape(-1, DIMENSIONS),
        version=version,
    )


def make(*entries: Entry, edges: Sequence[Edge] = ()) -> View:
    """A view built from tables."""
    return View.build(tables(entries, edges))


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
        moment=NOW,
        nodes={entry.id: entry for entry in nodes},
        edges={(edge.from_id, edge.to_id, edge.relation.value): edge for edge in edges},
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


def find(view: View, text: str, direction: Vectors | None = None, **filters: Any) -> list[str]:
    """The ids that a search finds; by words alone where no direction is given."""
    wanted = vector(*[0] * 60, 1) if direction is None else direction
    return [hit.node.id for hit in view.search(MemoryQuery(text=text, **filters), wanted, NOW)]
