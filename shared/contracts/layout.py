"""The picture of memory's graph: which nodes are drawn, and where."""

from typing import Annotated, Literal

from shared.contracts.base import Contract, Count, OptionalToken, Unit, between
from shared.contracts.memory import Relation
from shared.contracts.queries import Version

MAX_PLACED = 2_000
"""The most nodes of one picture: a browser draws so many in a frame."""

Standing = Literal["current", "superseded", "forgotten"]
"""Whether a node holds, another one took its place (or its ``valid_to`` passed), or it was retired."""


class LayoutQuery(Contract, frozen=True, kw_only=True):
    """Where to draw memory's nodes, as it is or as it was at graph version ``at``.

    At most ``limit`` nodes (1 to 2000): those near the node ``anchor``, or else those with the most edges,
    the most important and the most recent. ``forgotten`` adds retired nodes, the latest first.
    """

    at: Version = 0
    anchor: OptionalToken = ""
    limit: Annotated[int, between(1, MAX_PLACED)] = 500
    forgotten: bool = False


class PlacedNode(Contract, frozen=True, kw_only=True):
    """A node and its place: ``x`` and ``y`` are -1 to 1; ``degree`` counts all of its edges."""

    id: str
    kind: str
    title: str
    agent: str = ""
    importance: Unit = 0.5
    standing: Standing = "current"
    degree: Count = 0
    x: float = 0.0
    y: float = 0.0


class PlacedEdge(Contract, frozen=True, kw_only=True):
    """An edge between two placed nodes, which ``start`` and ``end`` count from 0 in the layout's order."""

    start: Count
    end: Count
    relation: Relation = Relation.RELATED_TO
    weight: Unit = 1.0


class Layout(Contract, frozen=True, kw_only=True):
    """The picture of the graph at ``version``; ``total`` nodes and ``total_edges`` edges are there in all.

    A node keeps its place from one version to the next until a quarter of the picture is new.
    """

    version: Count
    nodes: tuple[PlacedNode, ...] = ()
    edges: tuple[PlacedEdge, ...] = ()
    total: Count = 0
    total_edges: Count = 0
