"""The best ways from one node to another: those with the greatest product of weights."""

import heapq
import math
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.memory.graph.decay import HIDDEN
from services.memory.graph.graph import Graph
from services.memory.graph.walk import MAX_SECONDS, GraphView
from shared.contracts import Path, PathsQuery
from shared.contracts.queries import MAX_VISITED

MAX_DETOUR = 2_000
"""The most steps spent on looking for one way round."""

_EACH = 1e-9
"""What a hop costs beside -log of its weight, so that of equally strong ways the shorter is the better."""

_DIGITS = 12


class Route(NamedTuple):
    """Places from the start on, their ids, and what it costs at least to come to the end that way."""

    cost: float
    names: tuple[str, ...]
    places: tuple[int, ...]


class Hop(NamedTuple):
    """A step to a neighbour by the strongest edge there is."""

    weight: float
    cost: float
    row: int


def find_paths(view: GraphView, query: PathsQuery, moment: float) -> list[Path]:
    """The ``k`` best ways without loops, best first; of equals the shorter, then the one of the lesser ids.

    ``moment`` is in seconds since the epoch. Paths differ by their nodes: between two of them they take the
    strongest edge. Edges of an effective weight below decay.HIDDEN and retired nodes are avoided.
    The best way is exact; of the others there may be fewer than there are after 10,000 steps or 5 seconds
    of looking, 2,000 steps for each deviation. From a node to itself there is one way, without an edge.
    Raises ValueError for nodes that are not in memory.
    """
    start, end = (view.graph.locate([node_id])[0] for node_id in (query.from_id, query.to_id))
    search = PathSearch(view.graph, query, end, moment)
    paths = (_read(view, search, way) for way in search.best(start, query.k))
    return [path for path in paths if path]


class PathSearch:
    """Ways to one node: from behind, the least cost from everywhere; then, guided by it, way after way."""

    def __init__(self, graph: Graph, query: PathsQuery, end: int, moment: float) -> None:
        self._graph = graph
        self._query = query
        self._end = end
        self._moment = moment
        self._floor = max(query.min_weight, HIDDEN)
        self._hops: dict[int, dict[int, Hop]] = {}
        self._steps = 0
        self._deadline = time.monotonic() + MAX_SECONDS
        self._bounds = self._measure()

    def best(self, start: int, k: int) -> list[Route]:
        """The best ``k`` ways from ``start``, by Yen's algorithm."""
        found: list[Route] = []
        candidates: list[Route] = []
        seen: set[tuple[int, ...]] = set()
        way = self._find((start,), ())
        while way:
            found.append(way)
            if len(found) == k:
                break
            for detour in self._detours(way, found):
                if detour.places not in seen:
                    seen.add(detour.places)
                    heapq.heappush(candidates, detour)
            way = heapq.heappop(candidates) if candidates else None
        return found

    def hop(self, place: int, target: int) -> Hop:
        """The step from one node of a way to the next."""
        return self._neighbours(place)[target]

    def _detours(self, way: Route, found: Sequence[Route]) -> Iterator[Route]:
        """From each node of a way on the best one that none of the found ones takes."""
        for length in range(1, len(way.places)):
            root = way.places[:length]
            taken = [other.places[length] for other in found if other.places[:length] == root]
            detour = self._find(root, taken)
            if detour:
                yield detour

    def _measure(self) -> list[NDArray[np.float64]]:
        """The least cost from every place to the end with at most 0, 1, 2 ... hops, while that helps."""
        tails, heads, weights = self._graph.walkable(self._query.relations, self._floor, self._moment)
        if self._query.direction == "in":
            tails, heads = heads, tails
        elif self._query.direction == "both":
            tails, heads = np.concatenate([tails, heads]), np.concatenate([heads, tails])
            weights = np.concatenate([weights, weights])
        costs = _EACH - np.log(weights)
        least = np.full(self._graph.count_places(), np.inf)
        least[self._end] = 0.0
        bounds, changed = [least], least < np.inf
        while changed.any() and len(bounds) <= self._query.depth:
            using = np.flatnonzero(changed[heads])
            least = bounds[-1].copy()
            np.minimum.at(least, tails[using], costs[using] + bounds[-1][heads[using]])
            changed = least < bounds[-1]
            bounds.append(least)
        return bounds

    def _bound(self, place: int, hops: int) -> float:
        """The least cost from a place to the end with that many hops."""
        return float(self._bounds[min(hops, len(self._bounds) - 1)][place])

    def _find(self, root: tuple[int, ...], taken: Sequence[int]) -> Route | None:
        """The best way that begins with ``root`` and goes on to none of ``taken``: A*."""
        settled: dict[int, list[tuple[int, float]]] = {}
        cost = sum(self.hop(place, target).cost for place, target in pairwise(root))
        frontier = [(self._guess(root, cost), cost)]
        for _ in range(MAX_DETOUR):
            if not frontier or self._steps >= MAX_VISITED or time.monotonic() > self._deadline:
                return None
            way, cost = heapq.heappop(frontier)
            place = way.places[-1]
            if place == self._end:
                return way
            labels = settled.setdefault(place, [])
            length = len(way.places)
            if way.cost == math.inf or any(other <= length and less <= cost for other, less in labels):
                continue
            labels.append((length, cost))
            for target, hop in self._neighbours(place).items():
                if target in way.places or (way.places == root and target in taken):
                    continue
                onward = self._guess((*way.places, target), cost + hop.cost)
                if onward.cost < math.inf:
                    heapq.heappush(frontier, (onward, cost + hop.cost))
        return None

    def _guess(self, places: tuple[int, ...], cost: float) -> Route:
        """A way with what it will cost at least; rounded, so that sums of another order are equals."""
        left = self._query.depth - len(places) + 1
        least = math.inf if left < 0 else cost + self._bound(places[-1], left)
        return Route(round(least, _DIGITS), tuple(self._graph.names(places)), places)

    def _neighbours(self, place: int) -> dict[int, Hop]:
        if place in self._hops:
            return self._hops[place]
        self._steps += 1
        query = self._query
        steps = self._graph.steps([place], query.direction, query.relations, self._floor, self._moment)
        order = np.lexsort((-steps.relations, steps.weights))  # the strongest is written last
        columns = (steps.targets[order].tolist(), steps.weights[order].tolist(), steps.rows[order].tolist())
        known = len(self._bounds[0])
        hops = {
            target: Hop(weight, _EACH - math.log(weight), row)
            for target, weight, row in zip(*columns, strict=True)
            if target < known  # others came into memory meanwhile
        }
        return self._hops.setdefault(place, hops)


def _read(view: GraphView, search: PathSearch, way: Route) -> Path | None:
    """The path of a route; None if part of it was removed meanwhile."""
    hops = [search.hop(*pair) for pair in pairwise(way.places)]
    edges = [view.graph.read(hop.row) for hop in hops]
    ends = [{edge.from_id, edge.to_id} for edge in edges]
    nodes = tuple(view.nodes(way.names))
    if len(nodes) < len(way.places) or ends != [set(pair) for pair in pairwise(way.names)]:
        return None
    return Path(nodes=nodes, edges=tuple(edges), weight=math.prod(hop.weight for hop in hops))
