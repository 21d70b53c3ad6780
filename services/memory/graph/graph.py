"""The edges in RAM: one by one, page by page, around a node, and as steps of a walk."""

import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import compress, repeat
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from services.memory.graph.network import CODES, Network, relation_mask
from services.memory.writes.change import key_of
from shared.contracts import Edge, EdgePage, EdgesQuery, Node, Relation
from shared.contracts.queries import Direction

MAX_NEAR = 10_000  # Where ``hops`` stops: what is near to this many nodes is near to nothing

T = TypeVar("T")

_LOCKED = 64  # Changes made at once: readers wait for no more


class Steps(NamedTuple):
    """Edges that lead on: from the how manieth of the asked places, to which place, and their weight now."""

    origins: NDArray[Any]
    targets: NDArray[Any]
    weights: NDArray[Any]
    relations: NDArray[Any]
    rows: NDArray[Any]


class Graph:
    """Live edges between nodes, by the ids of these. Safe in any thread, with one lock that is held briefly.

    It knows of nodes what walking needs: importance, kind and whether they are live.
    """

    def __init__(self, network: Network | None = None) -> None:
        self._lock = threading.RLock()
        self._network = network or Network()
        self._ordered: list[str] = []

    @classmethod
    def load(cls, edges: pa.Table | None, nodes: pa.Table | None = None) -> "Graph":
        """The graph of tables' rows; of nodes it takes id, kind, importance and retired_version."""
        return cls(Network.load(edges, nodes))

    def put(self, edges: Iterable[Edge], nodes: Iterable[Node] = ()) -> None:
        """Take in edges and nodes as they are now; retired edges leave, retired nodes are in the way."""
        self._put_each(self._network.put_node, [*nodes])
        self._put_each(self._network.put_edge, [*edges])
        if self._network.is_outdated:
            adjacency = self._network.make_adjacency()  # readers go on: nobody else changes edges
            with self._lock:
                self._network.adjacency = adjacency

    def _put_each(self, put: Callable[[T], None], items: Sequence[T]) -> None:
        for first in range(0, len(items), _LOCKED):
            with self._lock:
                for item in items[first : first + _LOCKED]:
                    put(item)

    def edge(self, start: str, end: str, relation: str) -> Edge | None:
        """The edge from ``start`` to ``end`` of this relation."""
        with self._lock:
            first, last = self._network.places.get(start), self._network.places.get(end)
            if first is None or last is None:
                return None
            row = self._network.find(first, last, CODES[relation])
            return None if row is None else self._network.read([row])[0]

    def edges_of(
        self, node_id: str, direction: Direction = "both", relations: Collection[str] = ()
    ) -> list[Edge]:
        """A node's edges with the weights they are stored with, in the order of from, to and relation."""
        with self._lock:
            place = self._network.places.get(node_id)
            if place is None:
                return []
            rows = self._network.incident([place], direction)[0]
            return self._network.read(
                rows[relation_mask(relations)[self._network.rows.array["relation"][rows]]]
            )

    def hops(self, anchors: Iterable[str], depth: int = 3) -> dict[str, int]:
        """How many edges of any direction and weight lie between nodes and the nearest anchor.

        Nodes further away than ``depth`` are left out. Anchors themselves are at 0, unknown ones are left
        out; it goes around retired nodes, and no further than 10,000 nodes.
        """
        with self._lock:
            found = {
                place: 0 for anchor in anchors if (place := self._network.places.get(anchor)) is not None
            }
            level = list(found)
            for distance in range(1, depth + 1):
                near = {other for place in level for other in self._network.net.neighbors_undirected(place)}
                fresh = np.array(sorted(near.difference(found)), np.intp)
                level = fresh[self._network.nodes["live"][fresh]].tolist()[: MAX_NEAR - len(found)]
                found.update(dict.fromkeys(level, distance))
            return {self._network.ids[place]: distance for place, distance in found.items()}

    def page(self, query: EdgesQuery, version: int = 0) -> EdgePage:
        """Edges in the order of from, to and relation; ``next`` is the last one's key, joined by blanks."""
        after = tuple(query.after.split(" ")) if query.after else ()
        found: list[Edge] = []
        with self._lock:
            for edges in self._in_order(query, after):
                found += [edge for edge in edges if key_of(edge) > after]
                if len(found) > query.limit:
                    break
        following = " ".join(key_of(found[query.limit - 1])) if len(found) > query.limit else ""
        return EdgePage(edges=tuple(found[: query.limit]), next=following, version=version)

    def __len__(self) -> int:
        with self._lock:
            return self._network.net.num_edges()

    def find_places(self, ids: Iterable[str]) -> dict[str, int]:
        """The places of those nodes that are live, by id."""
        with self._lock:
            wanted = [*dict.fromkeys(ids)]
            places = np.fromiter(map(self._network.places.get, wanted, repeat(-1)), np.intp, len(wanted))
            is_live = places >= 0
            is_live[is_live] = self._network.nodes["live"][places[is_live]]
            return dict(zip(compress(wanted, is_live.tolist()), places[is_live].tolist(), strict=True))

    def locate(self, ids: Iterable[str]) -> list[int]:
        """The places of live nodes, each once; raises ValueError naming the ids that are not in memory."""
        wanted = dict.fromkeys(ids)
        places = self.find_places(wanted)
        if len(places) < len(wanted):
            missing = [node_id for node_id in wanted if node_id not in places]
            more = f" and {len(missing) - 10:,} more" if len(missing) > 10 else ""
            raise ValueError(f"not in memory: {', '.join(missing[:10])}{more}")
        return list(places.values())

    def names(self, places: Iterable[int]) -> list[str]:
        """The ids of the nodes at these places."""
        ids = self._network.ids
        return [ids[place] for place in places]

    def count_places(self) -> int:
        """How many places of nodes there are, retired ones included."""
        return len(self._network.ids)

    def of_kinds(self, places: Sequence[int], kinds: Collection[str]) -> NDArray[np.bool_]:
        """Which of these places hold a node of one of the kinds."""
        with self._lock:
            codes = [self._network.kinds[kind] for kind in kinds if kind in self._network.kinds]
            return np.isin(self._network.nodes["kind"][np.asarray(places, np.intp)], codes)

    def steps(
        self,
        places: Sequence[int],
        direction: Direction,
        relations: Collection[str],
        floor: float,
        moment: float,
    ) -> Steps:
        """The edges that lead on from these places to live nodes and weigh at least ``floor`` then."""
        with self._lock:
            rows, origins = self._network.incident(places, direction)
            if relations:
                wanted = relation_mask(relations)[self._network.rows.array["relation"][rows]]
                rows, origins = rows[wanted], origins[wanted]
            edges = self._network.rows.array[rows]
            here = np.asarray(places, np.intp)[origins]
            targets = edges["start"].astype(np.intp) + edges["end"] - here
            weights = self._network.weigh(edges, moment)
            passing = (weights >= floor) & self._network.nodes["live"][targets]
        relation = edges["relation"][passing]
        return Steps(origins[passing], targets[passing], weights[passing], relation, rows[passing])

    def walkable(
        self, relations: Collection[str], floor: float, moment: float
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """All edges between live nodes that weigh at least ``floor``: the places of both ends, the weight."""
        with self._lock:
            rows = self._network.rows.live()
            if relations:
                rows = rows[relation_mask(relations)[self._network.rows.array["relation"][rows]]]
            edges = self._network.rows.array[rows]
            weights = self._network.weigh(edges, moment)
            live = self._network.nodes["live"]
            passing = live[edges["start"]] & live[edges["end"]] & (weights >= floor)
        return edges["start"][passing], edges["end"][passing], weights[passing]

    def successors(self, ids: Iterable[str]) -> dict[str, str]:
        """The id of a live node that supersedes each of these live ones, if any does; that the edge grew weak
        brings nothing back.
        """
        places = self.find_places(ids)
        steps = self.steps([*places.values()], "in", (Relation.SUPERSEDES,), 0.0, 0.0)
        older, order = [*places], np.argsort(steps.rows)
        newer = self.names(steps.targets[order].tolist())
        origins = steps.origins[order].tolist()
        return {older[origin]: other for origin, other in zip(origins, newer, strict=True)}

    def find_superseded(self) -> list[str]:
        """All nodes that a live one supersedes."""
        with self._lock:
            array, rows = self._network.rows.array, self._network.rows.live()
            rows = rows[array["relation"][rows] == CODES[Relation.SUPERSEDES]]
            holding = self._network.nodes["live"][array["start"][rows]]
            return self.names(np.unique(array["end"][rows[holding]]).tolist())

    def review_superseded(self, nodes: Iterable[Node], edges: Iterable[Edge]) -> dict[str, bool]:
        """After a change of nodes and edges: whether a live node supersedes each that this may have changed.

        A node that no edge comes to or leaves is left out.
        """
        with self._lock:
            network, places = self._network, self._network.places
            written = [place for node in nodes if network.has_edges(place := places[node.id])]
            ends = [places[edge.to_id] for edge in edges if edge.relation is Relation.SUPERSEDES]
            if not written and not ends:
                return {}
            rows = network.incident(written, "out")[0]
            later = network.rows.array[rows]
            later = later["end"][later["relation"] == CODES[Relation.SUPERSEDES]]
            asked = np.unique([*written, *ends, *later.tolist()])
            rows, origins = network.incident(asked.tolist(), "in")
            coming = network.rows.array[rows]
            holding = coming["relation"] == CODES[Relation.SUPERSEDES]
            holding &= network.nodes["live"][coming["start"]]
            superseded = np.bincount(origins[holding], minlength=len(asked)) > 0
            return dict(zip(self.names(asked.tolist()), superseded.tolist(), strict=True))

    def between(
        self, places: Sequence[int], relations: Collection[str], floor: float, moment: float, limit: int
    ) -> list[Edge]:
        """The edges that join these nodes with each other; the strongest if there are over ``limit``."""
        with self._lock:
            steps = self.steps(places, "out", relations, floor, moment)
            among = np.zeros(self.count_places(), np.bool_)
            among[places] = True
            inside = among[steps.targets]
            rows, weights = steps.rows[inside], steps.weights[inside]
            return self._network.read(rows[np.argsort(-weights, kind="stable")[:limit]])

    def faded(self, floor: float, moment: float, limit: int) -> list[Edge]:
        """The edges that weigh less than ``floor`` now; the lightest if there are over ``limit``."""
        with self._lock:
            rows = self._network.rows.live()
            weights = self._network.weigh(self._network.rows.array[rows], moment)
            faded = weights < floor
            rows, weights = rows[faded], weights[faded]
            return self._network.read(rows[np.argsort(weights, kind="stable")[:limit]])

    def latest_made(self, limit: int) -> list[Edge]:
        """The edges that were made automatically, the last written first."""
        with self._lock:
            rows = self._network.rows.live()
            array = self._network.rows.array
            rows = rows[~array["exempt"][rows]]
            rows = rows[np.lexsort((-array["created"][rows], -array["version"][rows]))[:limit]]
            edges = self._network.read(rows)
        return sorted(edges, key=lambda edge: (-edge.version, edge.from_id, edge.to_id))

    def count_made(self) -> dict[str, dict[str, int]]:
        """How many edges were made automatically, by relation and then by rule."""
        with self._lock:
            return self._network.rows.count_made()

    def find_made_by(self, rows: NDArray[Any], rule: str) -> NDArray[np.bool_]:
        """Which of the edges of rows that ``steps`` gave this rule made."""
        with self._lock:
            return self._network.rows.find_made_by(rows, rule)

    def read(self, row: int) -> Edge:
        """The edge of a row that ``steps`` gave; another one if that was removed meanwhile."""
        with self._lock:
            return self._network.read([row])[0]

    def _in_order(self, query: EdgesQuery, after: tuple[str, ...]) -> Iterable[list[Edge]]:
        if query.node:
            yield self.edges_of(query.node, query.direction, query.relations)
            return
        if len(self._ordered) < len(self._network.ids):
            self._ordered += self._network.ids[len(self._ordered) :]
            self._ordered.sort()  # quick, for most of it is in order already
        for place in range(bisect_left(self._ordered, after[0]) if after else 0, len(self._ordered)):
            yield self.edges_of(self._ordered[place], "out", query.relations)
