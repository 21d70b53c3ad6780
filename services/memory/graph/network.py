"""The network itself: places of nodes, a rustworkx graph between them, a row of an array for each edge."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import rustworkx
from numpy.typing import NDArray

from services.memory.graph.decay import effective_weights
from services.memory.graph.edge_rows import CODES, NODE, RELATIONS, EdgeRows, enlarged, number_ids
from services.memory.storage.tables import EDGES
from shared.contracts import Edge, Node
from shared.contracts.queries import Direction

Rows = NDArray[np.int32]
Places = NDArray[np.intp]


class Adjacency:
    """The rows of the edges at places 0 to ``count``, as they were when it was made.

    ``is_stale`` marks the places whose edges changed since; ``changed`` counts them.
    """

    def __init__(self, start: Rows, end: Rows, rows: NDArray[Any], count: int) -> None:
        self.is_stale = np.zeros(count, np.bool_)
        self.changed = 0
        self._leaving = _group(start, rows, count)
        self._coming = _group(end, rows, count)

    def mark(self, place: int) -> None:
        """Note that a place has other edges now; one that came since is stale without that."""
        self.changed += 1
        if place < len(self.is_stale):
            self.is_stale[place] = True

    def find_fresh(self, places: Places) -> NDArray[np.bool_]:
        """Which of the places have the edges they had."""
        known = places < len(self.is_stale)
        known[known] = ~self.is_stale[places[known]]
        return known

    def find(self, places: Places, *, leaving: bool) -> tuple[Rows, Places]:
        """The rows of the edges that leave these places, or come to them; and at the how manieth each is."""
        bounds, rows = self._leaving if leaving else self._coming
        first = bounds[places]
        counts = bounds[places + 1] - first
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        return (
            rows[np.arange(total) + np.repeat(first - ends + counts, counts)],
            np.repeat(np.arange(len(places)), counts),
        )


def _group(ends: Rows, rows: NDArray[Any], count: int) -> tuple[NDArray[np.int64], Rows]:
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(ends, minlength=count), out=bounds[1:])
    return bounds, rows[np.argsort(ends, kind="stable")].astype(np.int32)


IMPORTANCE = 0.5  # The importance of a node that is only known as the end of an edge, as a new node has it

LEAST_CHANGED = 1_000  # Changes of edges that are left alone, however few nodes there are

_UNKNOWN = (IMPORTANCE, -1, True)
_BLOCK = 50_000


class Network:
    """Nodes by their places and edges by their rows; for one thread at a time.

    A node's place, once given, stays its own for good; an edge's row is given to another one after it left.
    A row is at the same time the index of its edge in ``net``, a place that of its node.
    """

    def __init__(self) -> None:
        self.net: rustworkx.PyDiGraph[None, None] = rustworkx.PyDiGraph(multigraph=True)
        self.rows = EdgeRows()
        self.nodes: NDArray[Any] = np.zeros(0, NODE)
        self.ids: list[str] = []
        self.places: dict[str, int] = {}
        self.kinds: dict[str, int] = {}
        self._leaving: list[int] = []  # how many edges a node has in either direction
        self._coming: list[int] = []
        self.adjacency = self.make_adjacency()

    @classmethod
    def load(cls, edges: pa.Table | None, nodes: pa.Table | None) -> "Network":
        """The network of tables' rows; of nodes it takes id, kind, importance and retired_version."""
        network = cls()
        edges = EDGES.empty_table() if edges is None else edges
        if pc.any(pc.greater(edges["retired_version"], 0)).as_py():
            edges = edges.filter(pc.equal(edges["retired_version"], 0))
        network.ids, start, end = number_ids(edges, nodes)
        count = len(network.ids)
        network.places = dict(zip(network.ids, range(count), strict=True))
        network.net.add_nodes_from([None] * count)
        network.nodes = np.full(count, np.array(_UNKNOWN, NODE))
        network._leaving = np.bincount(start, minlength=count).tolist()
        network._coming = np.bincount(end, minlength=count).tolist()
        if nodes is not None:
            network._load_nodes(nodes)
        network.rows = EdgeRows.load(edges, start, end)
        for first in range(0, len(edges), _BLOCK):
            block = slice(first, first + _BLOCK)
            pairs = zip(start[block].tolist(), end[block].tolist(), strict=True)
            network.net.extend_from_edge_list(list(pairs))
        network.adjacency = network.make_adjacency()
        return network

    def make_adjacency(self) -> Adjacency:
        """The edges by place as they are now; 0.1 s at 500,000."""
        rows = self.rows.live()
        edges = self.rows.array
        return Adjacency(edges["start"][rows], edges["end"][rows], rows, len(self.ids))

    @property
    def is_outdated(self) -> bool:
        """Whether so many places have other edges that ``adjacency`` is worth making again."""
        return self.adjacency.changed > max(LEAST_CHANGED, len(self.ids) // 4)

    def put_node(self, node: Node) -> None:
        """Take in what walking needs to know of a node as it is now."""
        place = self._add_place(node.id)
        kind = self.kinds.setdefault(node.kind, len(self.kinds))
        self.nodes[place] = (node.importance, kind, not node.retired_version)

    def put_edge(self, edge: Edge) -> None:
        """Take in an edge as it is now; a retired one leaves."""
        start, end = self._add_place(edge.from_id), self._add_place(edge.to_id)
        row = self.find(start, end, CODES[edge.relation])
        change = 0
        if not edge.retired_version:
            if row is None:
                row, change = self.net.add_edge(start, end, None), 1
            self.rows.write(row, start, end, edge)
        elif row is not None:
            self.net.remove_edge_from_index(row)
            self.rows.remove(row)
            change = -1
        if change:
            self.adjacency.mark(start)
            self.adjacency.mark(end)
        self._leaving[start] += change
        self._coming[end] += change

    def find(self, start: int, end: int, code: int) -> int | None:
        """The row of an edge, searched at the end with fewer edges: a hub has very many."""
        if self._leaving[start] > self._coming[end]:
            rows = [row for row in self.net.in_edge_indices(end) if self.rows.array["start"][row] == start]
        elif self.net.has_edge(start, end):
            rows = list(self.net.edge_indices_from_endpoints(start, end))
        else:
            return None
        return next((row for row in rows if self.rows.array["relation"][row] == code), None)

    def has_edges(self, place: int) -> bool:
        """Whether any edge leaves a place or comes to it."""
        return bool(self._leaving[place] or self._coming[place])

    def incident(self, places: Sequence[int], direction: Direction) -> tuple[NDArray[Any], NDArray[np.intp]]:
        """The rows of the edges at these places, and at the how manieth of them each is."""
        asked = np.asarray(places, np.intp)
        fresh = self.adjacency.find_fresh(asked)
        numbers, others = np.flatnonzero(fresh), np.flatnonzero(~fresh)
        parts = []
        for leaving in (True, False):
            if direction != ("in" if leaving else "out"):
                rows, origins = self.adjacency.find(asked[numbers], leaving=leaving)
                parts.append((rows, numbers[origins]))
                list_edges = self.net.out_edge_indices if leaving else self.net.in_edge_indices
                for number in others.tolist():
                    listed = np.array(list_edges(places[number]), np.int32)
                    parts.append((listed, np.full(len(listed), number)))
        found, numbered = zip(*parts, strict=True)
        return np.concatenate(found), np.concatenate(numbered)

    def weigh(self, edges: NDArray[Any], moment: float) -> NDArray[np.float64]:
        """The effective weights of edges at ``moment``."""
        importance = self.nodes["importance"]
        higher = np.maximum(importance[edges["start"]], importance[edges["end"]])
        return effective_weights(edges["weight"], edges["touched"] / 1e6, higher, edges["exempt"], moment)

    def read(self, rows: Sequence[int] | NDArray[np.intp]) -> list[Edge]:
        """The edges of these rows by from, to and relation."""
        return self.rows.read(np.asarray(rows, np.intp), self.ids)

    def _add_place(self, node_id: str) -> int:
        place = self.places.get(node_id)
        if place is None:
            place = self.net.add_node(None)
            self.nodes = enlarged(self.nodes, place + 1)
            self.nodes[place] = _UNKNOWN
            self._leaving.append(0)
            self._coming.append(0)
            self.ids.append(node_id)
            self.places[node_id] = place
        return place

    def _load_nodes(self, nodes: pa.Table) -> None:
        kinds = nodes["kind"].combine_chunks().dictionary_encode()
        self.kinds = {kind: code for code, kind in enumerate(kinds.dictionary.to_pylist())}
        told = self.nodes[: len(nodes)]
        told["kind"] = kinds.indices.to_numpy()
        told["importance"] = nodes["importance"].to_numpy()
        told["live"] = nodes["retired_version"].to_numpy() == 0


def relation_mask(relations: Collection[str]) -> NDArray[np.bool_]:
    """Which relations pass, by their codes; all of them if none is named."""
    mask = np.zeros(len(RELATIONS) + 1, np.bool_)  # the last one is GONE
    mask[[CODES[relation] for relation in relations or CODES]] = True
    return mask
