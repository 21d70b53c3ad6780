"""The picture of the graph: which nodes are drawn, and where, by forces; kept by graph version.

It is Fruchterman and Reingold's model in numpy. ``rustworkx.spring_layout`` holds the interpreter lock as
long as it computes (1.4 s for 2,000 nodes), and with it all of memory; numpy gives it up in each step.
"""

import asyncio
import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.memory.engine import MemoryEngine
from services.memory.graph.decay import HIDDEN, parse_time
from shared.contracts import Edge, Layout, LayoutQuery, Node, PlacedEdge, PlacedNode, Relation, Standing

if TYPE_CHECKING:
    from services.memory.retrieval.view import View


Points = NDArray[np.float32]

GRAVITY = 0.9  # How strongly the middle pulls: it keeps in the picture what has no edges

BLOCK = 256  # Nodes whose distances to all others are computed at once: 2 MB of numbers for 2,000 nodes

NEAR = 0.1  # The longest way a node goes in the first step; it ends at 0


def scatter(node_id: str) -> tuple[float, float]:
    """A place in the unit circle that depends on the id alone."""
    first, second = np.frombuffer(blake2b(node_id.encode(), digest_size=8).digest(), np.uint32) / 2**32
    angle, far = 2 * np.pi * float(first), float(second) ** 0.5
    return far * float(np.cos(angle)), far * float(np.sin(angle))


def relax(
    points: Points,
    springs: NDArray[np.intp],
    strengths: Points,
    free: NDArray[np.bool_],
    steps: int,
    seconds: float,
) -> Points:
    """Where the ``free`` ones of the points come to rest after so many steps, or as far as the time allows.

    ``springs`` are pairs of places (two columns), each with its strength of 0 to 1. The others stay where
    they are. The same points give the same result.
    """
    points = points.astype(np.float32, copy=True)
    end = time.monotonic() + seconds
    ideal = np.float32(1.6 / max(1.0, len(points)) ** 0.5)
    moving = np.flatnonzero(free)
    for step in range(steps):
        if time.monotonic() > end:
            break
        force = _push(points, moving, ideal) - GRAVITY * points[moving]
        force += _pull(points, springs, strengths, ideal)[moving]
        length = np.maximum(np.hypot(force[:, 0], force[:, 1]), 1e-9)
        reach = np.minimum(length * ideal, NEAR * (1 - step / steps))
        points[moving] += force * (reach / length)[:, None]
    return points


def fit(points: Points) -> Points:
    """The same picture in the middle, as large as fits into -1 to 1."""
    if not len(points):
        return points
    centred: Points = points - (points.max(axis=0) + points.min(axis=0)) / 2
    return centred / max(float(np.abs(centred).max()), 1e-6)


def _push(points: Points, moving: NDArray[Any], ideal: np.float32) -> Points:
    force = np.zeros((len(moving), 2), np.float32)
    x, y = np.ascontiguousarray(points.T)
    for first in range(0, len(moving), BLOCK):
        rows = moving[first : first + BLOCK]
        right, up = x[rows, None] - x, y[rows, None] - y
        strength = ideal / (right * right + up * up + np.float32(1e-5))
        force[first : first + BLOCK, 0] = (right * strength).sum(axis=1)
        force[first : first + BLOCK, 1] = (up * strength).sum(axis=1)
    return force * ideal


def _pull(points: Points, springs: NDArray[np.intp], strengths: Points, ideal: np.float32) -> Points:
    force = np.zeros_like(points)
    if not len(springs):
        return force
    start, end = springs.T
    way = points[end] - points[start]
    pull = way * (np.hypot(way[:, 0], way[:, 1]) * strengths / ideal)[:, None]
    for axis in (0, 1):
        force[:, axis] += np.bincount(start, pull[:, axis], len(points))
        force[:, axis] -= np.bincount(end, pull[:, axis], len(points))
    return force


MAX_EDGES = 5_000  # The most edges of a picture, the strongest ones

DEPTH = 3  # How many edges a node of a neighbourhood may be away from its anchor

FORGOTTEN = 4  # One in so many nodes of a picture may be retired, if those are wanted


class Selection(NamedTuple):
    """The nodes to draw in the order of their ids, the edges between them, and all edges each has."""

    nodes: list[Node]
    edges: list[Edge]
    degrees: dict[str, int]
    standing: dict[str, Standing]
    version: int
    total: int
    total_edges: int


def select(view: "View", query: LayoutQuery, moment: float) -> Selection:
    """What the query shows of a view at ``moment``, in seconds since the epoch.

    Raises ValueError for an anchor that is not in memory.
    """
    version = view.version
    start, end, _ = view.graph.walkable((), HIDDEN, moment)
    degrees = np.bincount(np.concatenate((start, end)), minlength=view.graph.count_places())
    ids = _near(view, query, degrees) if query.anchor else _foremost(view, query, degrees)
    places = view.graph.find_places(ids)
    edges = view.graph.between(list(places.values()), (), HIDDEN, moment, MAX_EDGES)
    gone = view.forgotten(max(1, query.limit // FORGOTTEN)) if query.forgotten else []
    nodes = sorted(view.nodes(dict.fromkeys((*places, *gone))), key=lambda node: node.id)
    return Selection(
        nodes=nodes,
        edges=edges,
        degrees={node_id: int(degrees[place]) for node_id, place in places.items()},
        standing=_stand(view, nodes, moment),
        version=version,
        total=view.count(),
        total_edges=len(view.graph),
    )


def _near(view: "View", query: LayoutQuery, degrees: NDArray[np.intp]) -> list[str]:
    """The anchor, and what is nearest to it; of equally near ones those with the most edges."""
    view.graph.locate([query.anchor])
    hops = view.graph.hops([query.anchor], DEPTH)
    places = view.graph.find_places(hops)
    ranked = sorted(places, key=lambda node_id: (hops[node_id], -degrees[places[node_id]], node_id))
    return ranked[: query.limit]


def _foremost(view: "View", query: LayoutQuery, degrees: NDArray[np.intp]) -> list[str]:
    """Those with the most edges, the most important and the most recent, each of these weighing the same."""
    hubs = np.argsort(-degrees, kind="stable")[: query.limit]
    candidates = dict.fromkeys(view.graph.names(hubs.tolist()))
    candidates |= dict.fromkeys(view.select(limit=query.limit, order="recent"))
    candidates |= dict.fromkeys(view.select(limit=query.limit, order="important"))
    places = view.graph.find_places(candidates)
    ids = sorted(places)
    if len(ids) <= query.limit:
        return ids
    nodes = view.describe(ids)
    importance, changed = nodes.column("importance"), nodes.column("changed")
    joined = np.log1p(degrees[[places[node_id] for node_id in ids]])
    score = importance + joined / max(1.0, joined.max()) + np.argsort(np.argsort(changed)) / len(ids)
    best = np.argsort(-score, kind="stable")[: query.limit]
    return [ids[place] for place in best.tolist()]


def _stand(view: "View", nodes: list[Node], moment: float) -> dict[str, Standing]:
    return {node.id: _standing_of(view, node, moment) for node in nodes}


def _standing_of(view: "View", node: Node, moment: float) -> Standing:
    if node.retired_version:
        return "forgotten"
    if node.valid_to and parse_time(node.valid_to) <= moment:
        return "superseded"
    replaced = view.graph.edges_of(node.id, "in", (Relation.SUPERSEDES,))
    return "superseded" if replaced else "current"


NEW = 0.25  # The share of a picture that may be new since it was last laid out as a whole

STEPS, FEW_STEPS = 100, 40
"""Steps of a whole layout of up to MANY nodes (0.2 s for 500), and of any other (0.9 s for 2,000)."""

MANY = 800

SECONDS = 4.0  # How long a layout may take: what it has come to by then is drawn

BESIDE = 0.06  # How far from the middle of its neighbours a new node begins


class Plan(NamedTuple):
    """Where nodes are, by id, and which of them were there when all were last laid out together."""

    places: dict[str, tuple[float, float]]
    settled: frozenset[str]


NOTHING = Plan({}, frozenset())


def draw(selection: Selection, plan: Plan) -> tuple[Layout, Plan]:
    """The picture of a selection, and the plan for the next one.

    What the plan knows stays where it is, unless a quarter is new since all were laid out together.
    """
    ids = [node.id for node in selection.nodes]
    numbers = dict(zip(ids, range(len(ids)), strict=True))
    springs = np.array(
        [(numbers[edge.from_id], numbers[edge.to_id]) for edge in selection.edges], np.intp
    ).reshape(-1, 2)
    strengths = np.array([edge.weight for edge in selection.edges], np.float32)
    known = np.array([node_id in plan.places for node_id in ids], np.bool_)
    points = _begin(ids, springs, known, plan)
    settled = sum(node_id in plan.settled for node_id in ids)
    whole = settled < (1 - NEW) * len(ids)
    if whole or not known.all():
        steps = STEPS if len(ids) <= MANY and whole else FEW_STEPS
        free = np.ones(len(ids), np.bool_) if whole else ~known
        points = relax(points, springs, strengths, free, steps, SECONDS)
    points = fit(points) if whole else np.clip(points, -1, 1)
    places = {
        node_id: (round(float(x), 4), round(float(y), 4)) for node_id, (x, y) in zip(ids, points, strict=True)
    }
    keeping = frozenset(ids) if whole else plan.settled
    return _layout(selection, places, numbers), Plan(places if whole else plan.places | places, keeping)


def _begin(ids: list[str], springs: NDArray[np.intp], known: NDArray[np.bool_], plan: Plan) -> Points:
    """Where each begins: where it was, beside the neighbours that are known, or where its id says."""
    thrown = np.array([scatter(node_id) for node_id in ids], np.float32).reshape(-1, 2)
    points = thrown.copy()
    for number in np.flatnonzero(known).tolist():
        points[number] = plan.places[ids[number]]
    sums, counts = np.zeros_like(points), np.zeros(len(ids), np.float32)
    for one, other in (springs.T, springs.T[::-1]):
        beside = ~known[one] & known[other]
        np.add.at(sums, one[beside], points[other[beside]])
        np.add.at(counts, one[beside], 1)
    near = counts > 0
    points[near] = sums[near] / counts[near, None] + BESIDE * thrown[near]
    return points


def _layout(selection: Selection, places: dict[str, tuple[float, float]], numbers: dict[str, int]) -> Layout:
    nodes = tuple(
        PlacedNode(
            id=node.id,
            kind=node.kind,
            title=node.title,
            agent=node.source.agent,
            importance=node.importance,
            standing=selection.standing[node.id],
            degree=selection.degrees.get(node.id, 0),
            x=places[node.id][0],
            y=places[node.id][1],
        )
        for node in selection.nodes
    )
    edges = tuple(
        PlacedEdge(
            start=numbers[edge.from_id], end=numbers[edge.to_id], relation=edge.relation, weight=edge.weight
        )
        for edge in selection.edges
    )
    return Layout(
        version=selection.version,
        nodes=nodes,
        edges=edges,
        total=selection.total,
        total_edges=selection.total_edges,
    )


KEPT = 16  # Layouts that are kept, as JSON: a large one has 500 kB

PLANS = 8  # Neighbourhoods whose places are kept

FREE_ATTEMPTS = 2
"""How often nodes are chosen at the risk that memory is written to meanwhile; then writes have to wait."""


K = TypeVar("K")
V = TypeVar("V")


class LayoutService:
    """Answers where to draw the nodes of a graph version, in a thread, one picture at a time.

    The plan of the last picture begins the next one, of whatever version, so that nodes stay where people saw
    them; that of the present is kept for the past too.
    """

    def __init__(self, engine: MemoryEngine) -> None:
        self._engine = engine
        self._turn = asyncio.Lock()
        self._kept: dict[LayoutQuery, bytes] = {}
        self._plans: dict[str, Plan] = {}

    async def answer(self, query: LayoutQuery) -> bytes:
        """The Layout as JSON. Raises ActionError for a version that has not been, ValueError for an unknown
        anchor.
        """
        async with self._turn:
            view = await self._engine.view_at(query.at)
            key = msgspec.structs.replace(query, at=view.version)
            if key in self._kept:
                self._kept[key] = self._kept.pop(key)
                return self._kept[key]
            is_live = view is self._engine.view
            moment = time.time() if is_live else await self._engine.moment_of(view.version)
            return await self._engine.run_in_reader(self._draw, view, key, moment)

    def _draw(self, view: "View", key: LayoutQuery, moment: float) -> bytes:
        selection = self._select(view, key, moment)
        layout, plan = draw(selection, self._plans.get(key.anchor, NOTHING))
        data = layout.to_json()
        _keep(self._plans, key.anchor, plan, PLANS)
        _keep(self._kept, msgspec.structs.replace(key, at=selection.version), data, KEPT)
        return data

    def _select(self, view: "View", key: LayoutQuery, moment: float) -> Selection:
        """Choose from a view that is not changed meanwhile, if possible without blocking the writer."""
        for _ in range(FREE_ATTEMPTS):
            selection = select(view, key, moment)
            if view.version == selection.version:
                return selection
        with self._engine.lock:
            return select(view, key, moment)


def _keep(cache: dict[K, V], key: K, value: V, most: int) -> None:
    cache.pop(key, None)
    cache[key] = value
    while len(cache) > most:
        del cache[next(iter(cache))]
