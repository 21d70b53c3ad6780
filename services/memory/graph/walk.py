"""Walks through the graph from given nodes: hop by hop, branch by branch, or along what is strongest."""

import heapq
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, NamedTuple, Protocol

import numpy as np

from services.memory.graph.decay import HIDDEN
from services.memory.graph.graph import Graph, Steps
from services.memory.graph.network import NAMES
from shared.contracts import Edge, Node, Traversal, TraverseQuery, Visit
from shared.contracts.base import amended
from shared.contracts.queries import MAX_VISITED

MAX_SECONDS = 5.0  # How long a walk goes on

QUICK = 0.004  # Seconds for which a walk may hold up an event loop

FEW = 100  # Nodes that are read and encoded within as long

MAX_LEVEL = 1_000  # The most nodes at one number of hops; the strongest go first

MAX_EDGES = 5_000  # The most edges in an answer, the strongest ones

_CHUNK = 64
_UNSEEN = 127
_NODES = f"nodes: the walk looked at {MAX_VISITED:,} and there are more"
_TIME = f"time: the walk took longer than {MAX_SECONDS:g} s"
_LEVEL = f"level: more than {MAX_LEVEL:,} nodes are equally far away, and the weakest were left out"


class GraphView(Protocol):
    """What a walk needs of a View."""

    graph: Graph
    version: int

    def nodes(self, ids: Iterable[str]) -> list[Node]:
        """The nodes of these ids."""


class Arrival(NamedTuple):
    """A node the walk came to, by its place; ``parent`` is -1 at the start, ``relation`` a code."""

    place: int
    depth: int
    weight: float
    parent: int
    relation: int


def traverse(view: GraphView, query: TraverseQuery, moment: float) -> Traversal:
    """Walk as the query says at ``moment``, in seconds since the epoch; raises ValueError for unknown starts.

    Edges of an effective weight below decay.HIDDEN are not walked, retired nodes not walked through. A node
    is visited once, at its first arrival, though what lies beyond it is visited again when a later one takes
    fewer hops: so every strategy comes to the same nodes, unless something ends it before.

    - bfs: hop by hop; within a hop by the weight of the way there, the best way with so few hops;
    - dfs: always on along the strongest edge of the node visited last, and back from a node that has none;
    - weighted: always the node with the strongest way from the start, and by that way.

    Equals come in the order of their ids. ``truncated`` begins with nodes (10,000 were visited), time (5 s
    went by), level (more than 1,000 at one number of hops: the walk went on with the strongest), or limit
    (there would have been another one to show), and is empty if the walk ended by itself.
    ``edges`` are all those it could walk between nodes shown, with their stored weights.
    """
    walk = Walk(view.graph, query, moment, MAX_SECONDS)
    return _tell(view, walk, _follow(walk, query))


def traverse_quickly(view: GraphView, query: TraverseQuery, moment: float) -> Traversal | None:
    """The same if it takes no longer than QUICK seconds and shows no more than FEW nodes, else None."""
    walk = Walk(view.graph, query, moment, QUICK)
    shown = _follow(walk, query)
    return None if walk.truncated == _TIME or len(shown) > FEW else _tell(view, walk, shown)


def _follow(walk: "Walk", query: TraverseQuery) -> "list[Arrival]":
    shown: list[Arrival] = []
    for arrivals in walk.run():
        passing = walk.to_show(arrivals)
        room = query.limit - len(shown)
        shown += passing[:room]
        if len(passing) > room:
            walk.truncated = f"limit: there is more to show than {query.limit:,}"
            break
    return shown


def _tell(view: GraphView, walk: "Walk", shown: "list[Arrival]") -> Traversal:
    places = [arrival.place for arrival in shown]
    return Traversal(
        visits=_visits(view, shown),
        edges=tuple(walk.edges(places)),
        visited=walk.visited,
        truncated=walk.truncated,
        version=view.version,
    )


class Walk:
    """One walk; ``visited`` counts the nodes, ``truncated`` says what ended it before its end.

    Raises ValueError for starts that are not in memory.
    """

    def __init__(self, graph: Graph, query: TraverseQuery, moment: float, seconds: float) -> None:
        self.truncated = ""
        self.visited = 0
        self._graph = graph
        self._query = query
        self._moment = moment
        self._floor = max(query.min_weight, HIDDEN)
        self._starts = graph.locate(query.start)
        self._hops = np.full(graph.count_places(), _UNSEEN, np.int8)
        self._levels: Counter[int] = Counter()
        self._serial = count()
        self._end = time.monotonic() + seconds

    def run(self) -> Iterator[list[Arrival]]:
        """The arrivals in their order, a few at a time."""
        starts = [Arrival(place, 0, 1.0, -1, -1) for place in self._starts]
        return self._by_level(starts) if self._query.strategy == "bfs" else self._one_by_one(starts)

    def to_show(self, arrivals: list[Arrival]) -> list[Arrival]:
        """Those of them that the query wants to see."""
        if not self._query.include_start:
            arrivals = [arrival for arrival in arrivals if arrival.depth]
        if not self._query.kinds or not arrivals:
            return arrivals
        passing = self._graph.of_kinds([arrival.place for arrival in arrivals], self._query.kinds)
        return [arrival for arrival, passes in zip(arrivals, passing, strict=True) if passes]

    def edges(self, places: list[int]) -> list[Edge]:
        """What joins the nodes at these places, as far as it may be walked."""
        return self._graph.between(places, self._query.relations, self._floor, self._moment, MAX_EDGES)

    def _by_level(self, level: list[Arrival]) -> Iterator[list[Arrival]]:
        while level:
            if len(level) > MAX_VISITED - self.visited:
                self.truncated = _NODES
                yield level[: MAX_VISITED - self.visited]
                self.visited = MAX_VISITED
                return
            self.visited += len(level)
            self._hops[[arrival.place for arrival in level]] = level[0].depth
            yield level
            if level[0].depth == self._query.depth:
                return
            level = self._onward(level)

    def _one_by_one(self, starts: list[Arrival]) -> Iterator[list[Arrival]]:
        frontier: list[tuple[Any, Arrival]] = []
        self._push(frontier, starts)
        while frontier:
            arrival = heapq.heappop(frontier)[1]
            best = self._hops[arrival.place]
            if best <= arrival.depth:
                continue
            if best == _UNSEEN:
                if self.visited == MAX_VISITED:
                    self.truncated = _NODES
                    return
                if self._levels[arrival.depth] == MAX_LEVEL:
                    self.truncated = _LEVEL
                    continue
                self.visited += 1
                self._levels[arrival.depth] += 1
                yield [arrival]
            self._hops[arrival.place] = arrival.depth
            if arrival.depth < self._query.depth:
                self._push(frontier, self._onward([arrival]))
            if self.truncated == _TIME:
                return

    def _push(self, frontier: list[tuple[Any, Arrival]], arrivals: list[Arrival]) -> None:
        """Onto the heap by weight, or, for dfs, as onto a stack."""
        if self._query.strategy == "dfs":
            keys: list[tuple[Any, ...]] = [() for _ in arrivals]
            arrivals.reverse()
        else:
            names = self._graph.names(arrival.place for arrival in arrivals)
            keys = [
                (-arrival.weight, arrival.depth, name) for arrival, name in zip(arrivals, names, strict=True)
            ]
        for key, arrival in zip(keys, arrivals, strict=True):
            order = next(self._serial)
            heapq.heappush(frontier, ((*key, order if key else -order), arrival))

    def _onward(self, parents: list[Arrival]) -> list[Arrival]:
        """What follows on arrivals of one depth: each node once, by its best way, the best first."""
        depth = parents[0].depth + 1
        steps = self._steps([parent.place for parent in parents])
        if steps is None:
            return []
        fresh = np.flatnonzero(self._hops[steps.targets] > depth)
        origins, relations = steps.origins[fresh], steps.relations[fresh]
        targets = steps.targets[fresh]
        weights = np.array([parent.weight for parent in parents])[origins] * steps.weights[fresh]
        order = np.lexsort((relations, origins, -weights))
        chosen = order[np.unique(targets[order], return_index=True)[1]]
        if len(chosen) > MAX_LEVEL:
            self.truncated = self.truncated or _LEVEL
            least = np.partition(weights[chosen], -MAX_LEVEL)[-MAX_LEVEL]
            chosen = chosen[weights[chosen] >= least]
        columns = (targets, weights, origins, relations)
        rows = zip(*(column[chosen].tolist() for column in columns), strict=True)
        found = [
            Arrival(place, depth, weight, parents[origin].place, relation)
            for place, weight, origin, relation in rows
        ]
        names = self._graph.names(arrival.place for arrival in found)
        ranked = sorted(zip(found, names, strict=True), key=lambda pair: (-pair[0].weight, pair[1]))
        return [arrival for arrival, _ in ranked[:MAX_LEVEL]]

    def _steps(self, places: list[int]) -> Steps | None:
        """Some places at a time, so that the graph is not locked for long; None if the time is over."""
        parts: list[Steps] = []
        for first in range(0, len(places), _CHUNK):
            if time.monotonic() > self._end:
                self.truncated = _TIME
                return None
            part = self._graph.steps(
                places[first : first + _CHUNK],
                self._query.direction,
                self._query.relations,
                self._floor,
                self._moment,
            )
            known = part.targets < len(self._hops)  # others came into memory while the walk went on
            parts.append(Steps(part.origins[known] + first, *(column[known] for column in part[1:])))
        return (
            parts[0]
            if len(parts) == 1
            else Steps(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        )


def _visits(view: GraphView, shown: list[Arrival]) -> tuple[Visit, ...]:
    names = view.graph.names(arrival.place for arrival in shown)
    parents = view.graph.names(arrival.parent for arrival in shown)
    nodes = {node.id: node for node in view.nodes(names)}
    return tuple(
        amended(
            _ANY_VISIT,
            node=nodes[name],
            depth=arrival.depth,
            weight=arrival.weight,
            parent=parent if arrival.depth else "",
            relation=NAMES[arrival.relation] if arrival.depth else "",
        )
        for arrival, name, parent in zip(shown, names, parents, strict=True)
        if name in nodes
    )


_ANY_VISIT = Visit(node=Node(id="a", title="a"))
