"""The open questions of the linker: what a newer node may take the place of, and nobody has decided yet."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from services.memory.linking.rules import UNDECIDED
from shared.contracts import Relation

if TYPE_CHECKING:
    from services.memory.graph.graph import Graph


def find_questioned(graph: "Graph", ids: Iterable[str], moment: float) -> dict[str, str]:
    """The older sides among live nodes, each with the newer one that may take its place."""
    places = graph.find_places(ids)
    if not places:
        return {}
    steps = graph.steps([*places.values()], "in", (Relation.CONTRADICTS,), 0.0, moment)
    known = [*places]
    pairs = [
        (known[origin], newer)
        for origin, newer in zip(steps.origins.tolist(), graph.names(steps.targets.tolist()), strict=True)
    ]
    return {older: newer for older, newer in pairs if _is_open(graph, newer, older)}


def _is_open(graph: "Graph", newer: str, older: str) -> bool:
    edge = graph.edge(newer, older, Relation.CONTRADICTS)
    return edge is not None and edge.provenance.get("rule") == UNDECIDED
