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
    is_open = graph.find_made_by(steps.rows, UNDECIDED)
    origins, newer = steps.origins[is_open].tolist(), graph.names(steps.targets[is_open].tolist())
    known = [*places]
    return {known[origin]: other for origin, other in zip(origins, newer, strict=True)}
