"""What of a view is drawn: the nodes, how they stand, and the edges between them."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.memory.graph.decay import HIDDEN, parse_time
from shared.contracts import Edge, LayoutQuery, Node, Relation, Standing

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

MAX_EDGES = 5_000
"""The most edges of a picture, the strongest ones."""

DEPTH = 3
"""How many edges a node of a neighbourhood may be away from its anchor."""

FORGOTTEN = 4
"""One in so many nodes of a picture may be retired, if those are wanted."""


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
