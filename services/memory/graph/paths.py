"""The best ways from one node to another: those with the greatest product of weights."""

import heapq
import math
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.memory.graph.decay import HIDDEN
from services.memory.graph.graph import Graph
from services.memory.graph.walk import MAX_SECONDS, GraphView
from shared.contracts import Path, PathsQuery
from shared.contracts.queries import MAX_VISITED, Direction

MAX_DETOUR = 2_000  # The most steps spent on looking for one way round

MEASURED_AT_ONCE = 128
"""Places that a Neighbourhood goes on from at once: fewer take more steps, more go further than needed."""

_EACH = 1e-9
"""What a hop costs beside -log of its weight, so that of equally strong ways the shorter is the better."""

_DIGITS = 12
_SLACK = 1e-9
_MOST = 1e9

FURTHER = 1.1  # How much further is looked if fewer ways are found than wanted

_TURNED: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


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
    search = PathSearch(view.graph, query, start, end, moment)
    paths = (_read(view, search, way) for way in search.find())
    return [path for path in paths if path]


class Edges(NamedTuple):
    """Edges that were walked: the places of their ends, what they cost and weigh, relations by code, rows."""

    tails: NDArray[np.intp]
    heads: NDArray[np.intp]
    costs: NDArray[np.float64]
    weights: NDArray[np.float64]
    relations: NDArray[np.int8]
    rows: NDArray[np.intp]

    def select(self, which: NDArray[Any]) -> "Edges":
        """Some of them, by a mask or by their numbers."""
        return Edges(*(column[which] for column in self))


class Neighbourhood:
    """The places around one by the cost of the best way from it, or to it if ``direction`` is turned round.

    ``costs`` has what was found by place, final below ``radius``; ``walked`` the edges. Locks the graph for
    MEASURED_AT_ONCE places at a time.
    """

    def __init__(
        self, graph: Graph, query: PathsQuery, place: int, direction: Direction, moment: float
    ) -> None:
        self.costs = np.full(graph.count_places(), np.inf)
        self.costs[place] = 0.0
        self.radius = 0.0
        self.walked: list[Edges] = []
        floor = max(query.min_weight, HIDDEN)
        self._steps = partial(
            graph.steps, direction=direction, relations=query.relations, floor=floor, moment=moment
        )
        self._is_open = self.costs == 0.0
        self.open = np.array([place])
        """The places that are to be gone on from."""

    def grow(self) -> None:
        """Go on from the nearest places."""
        costs = self.costs[self.open]
        last = min(MEASURED_AT_ONCE, len(costs)) - 1
        places = self.open[np.argpartition(costs, last)[: last + 1]]
        steps = self._steps(places.tolist())
        known = steps.targets < len(self.costs)  # others came into memory meanwhile
        tails, heads = places[steps.origins[known]], steps.targets[known]
        weights, relations, rows = (column[known] for column in steps[2:])
        costs = _EACH - np.log(weights)
        self.walked.append(Edges(tails, heads, costs, weights, relations, rows))
        before = self.costs[heads]
        np.minimum.at(self.costs, heads, self.costs[tails] + costs)
        self._is_open[places] = False
        self._is_open[heads[self.costs[heads] < before]] = True
        self.open = np.flatnonzero(self._is_open)
        self.radius = float(self.costs[self.open].min(initial=np.inf))


class PathSearch:
    """Ways between two nodes, looked for where ways as good as those found can be, from both ends.

    Within that, the least cost from everywhere to the end; then, guided by it, way after way.
    """

    def __init__(self, graph: Graph, query: PathsQuery, start: int, end: int, moment: float) -> None:
        self._graph = graph
        self._query = query
        self._start = start
        self._end = end
        self._near, self._far = (
            Neighbourhood(graph, query, place, direction, moment)
            for place, direction in ((start, query.direction), (end, _TURNED[query.direction]))
        )
        self._hops: dict[int, dict[int, Hop]] = {}
        self._steps = 0
        self._deadline = time.monotonic() + MAX_SECONDS
        self._bounds = np.empty((0, 0))
        self._numbers: dict[int, int] = {}

    def find(self) -> list[Route]:
        """The best ways, as many as the query asks for.

        A way that costs no more than both radii together leads along nothing but what was walked: where it
        leaves the one neighbourhood it is within the other.
        """
        near, far, k = self._near, self._far, self._query.k
        wanted, meeting = 0.0, np.inf
        while True:
            while near.radius + far.radius <= max(wanted, meeting * (FURTHER if k > 1 else 1)):
                if np.inf in (near.radius, far.radius) or time.monotonic() > self._deadline:
                    break
                side = min(near, far, key=lambda side: len(side.open))
                side.grow()
                reached = side.walked[-1].heads
                meeting = min(meeting, (near.costs[reached] + far.costs[reached]).min(initial=np.inf))
            reach = near.radius + far.radius
            self._measure(reach)
            found = self.best(k)
            enough = len(found) == k and found[-1].cost <= reach
            if enough or reach == np.inf or time.monotonic() > self._deadline:
                return found
            wanted = found[-1].cost if len(found) == k else FURTHER * reach

    def best(self, k: int) -> list[Route]:
        """The best ``k`` ways along what was measured, by Yen's algorithm."""
        self._steps = 0
        found: list[Route] = []
        candidates: list[Route] = []
        seen: set[tuple[int, ...]] = set()
        way = self._find((self._start,), ())
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
        return self._hops[place][target]

    def _detours(self, way: Route, found: Sequence[Route]) -> Iterator[Route]:
        """From each node of a way on the best one that none of the found ones takes."""
        for length in range(1, len(way.places)):
            root = way.places[:length]
            taken = [other.places[length] for other in found if other.places[:length] == root]
            detour = self._find(root, taken)
            if detour:
                yield detour

    def _measure(self, reach: float) -> None:
        """Find the least cost from every place to the end with at most 0, 1, 2 ... hops, while that helps;
        and keep the hops that may be part of a way that costs no more than ``reach``.
        """
        near, far = self._near, self._far
        edges = _join(near.walked, far.walked)
        spent = np.minimum(near.costs, near.radius)[edges.tails] + edges.costs
        most = min(reach, _MOST) + _SLACK
        edges = edges.select(spent + np.minimum(far.costs, far.radius)[edges.heads] <= most)
        names, ends = np.unique(np.concatenate((edges.tails, edges.heads, [self._end])), return_inverse=True)
        tails, heads = np.split(ends[:-1], 2)
        least = np.full(len(names), np.inf)
        least[ends[-1]] = 0.0
        bounds, changed = [least], least < np.inf
        while changed.any() and len(bounds) <= self._query.depth:
            using = np.flatnonzero(changed[heads])
            least = bounds[-1].copy()
            np.minimum.at(least, tails[using], edges.costs[using] + bounds[-1][heads[using]])
            changed = least < bounds[-1]
            bounds.append(least)
        self._bounds = np.stack(bounds)
        self._numbers = dict(zip(names.tolist(), range(len(names)), strict=True))
        spent = np.minimum(near.costs, near.radius)[edges.tails] + edges.costs
        edges = edges.select(spent + bounds[-1][heads] <= most)
        edges = edges.select(np.lexsort((-edges.relations, -edges.costs)))
        self._hops = {}
        columns = (column.tolist() for column in edges)
        for tail, head, cost, weight, _, row in zip(*columns, strict=True):
            self._hops.setdefault(tail, {})[head] = Hop(weight, cost, row)  # the strongest is written last

    def _bound(self, place: int, hops: int) -> float:
        """The least cost from a place to the end with that many hops."""
        number = self._numbers.get(place)
        return math.inf if number is None else float(self._bounds[min(hops, len(self._bounds) - 1), number])

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
            self._steps += 1
            for target, hop in self._hops.get(place, {}).items():
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


def _join(near: list[Edges], far: list[Edges]) -> Edges:
    """What was walked from both ends, all of it towards the second one."""
    turned = [Edges(edges.heads, edges.tails, *edges[2:]) for edges in far]
    return Edges(*map(np.concatenate, zip(*near, *turned, strict=True)))


def _read(view: GraphView, search: PathSearch, way: Route) -> Path | None:
    """The path of a route; None if part of it was removed meanwhile."""
    hops = [search.hop(*pair) for pair in pairwise(way.places)]
    edges = [view.graph.read(hop.row) for hop in hops]
    ends = [{edge.from_id, edge.to_id} for edge in edges]
    nodes = tuple(view.nodes(way.names))
    if len(nodes) < len(way.places) or ends != [set(pair) for pair in pairwise(way.names)]:
        return None
    return Path(nodes=nodes, edges=tuple(edges), weight=math.prod(hop.weight for hop in hops))
