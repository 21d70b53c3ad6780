"""Places for what is drawn: those it had before, where they are known, and new ones beside its neighbours."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.memory.picture.forces import Points, fit, relax, scatter
from services.memory.picture.selection import Selection
from shared.contracts import Layout, PlacedEdge, PlacedNode

NEW = 0.25
"""The share of a picture that may be new since it was last laid out as a whole."""

STEPS, FEW_STEPS = 100, 40
"""Steps of a whole layout of up to MANY nodes (0.2 s for 500), and of any other (0.9 s for 2,000)."""

MANY = 800

SECONDS = 4.0
"""How long a layout may take: what it has come to by then is drawn."""

BESIDE = 0.06
"""How far from the middle of its neighbours a new node begins."""


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
