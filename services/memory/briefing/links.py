"""The edges that a briefing depends on, read in bulk: what is bound to agents, superseded, disputed, near."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from services.memory.briefing.ranking import MIN_WEIGHT
from services.memory.graph.edge_rows import RELATIONS
from shared.contracts import Relation
from shared.contracts.queries import Direction

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

BINDING = tuple(
    relation
    for relation in Relation
    if relation not in (Relation.RELATED_TO, Relation.CONTRADICTS, Relation.SUPERSEDES)
)
"""The relations that, with an agent at the other end, make a node that agent's affair: likeness does not."""

MAX_REACH = 10_000
"""The most nodes that are near to something: a further step that would take in more is not made."""

PHRASES = {
    Relation.INFORMED_BY: ("is informed by {}", "informs {}"),
    Relation.LED_TO: ("led to {}", "{} led to it"),
    Relation.APPLIES_TO: ("applies to {}", "{} applies to it"),
    Relation.CONTRADICTS: ("contradicts {}", "contradicts {}"),
    Relation.SUPERSEDES: ("supersedes {}", "superseded by {}"),
    Relation.DEPENDS_ON: ("depends on {}", "{} depends on it"),
    Relation.RELATED_TO: ("related to {}", "related to {}"),
    Relation.INSTANCE_OF: ("is an instance of {}", "{} is an instance of it"),
}
"""The phrases for a relation with an agent, if the edge leads to the agent and if it comes from the agent."""


class Link(NamedTuple):
    """An edge seen from ``node``: where it leads, whether it comes from there, and its effective weight."""

    node: str
    other: str
    relation: Relation
    incoming: bool
    weight: float


class Tie(NamedTuple):
    """How an agent and a node are joined: the strongest edge, its phrase, and the strongest applies_to."""

    weight: float
    note: str
    applies: float


NO_TIE = Tie(0.0, "", 0.0)


def find_links(
    view: "View",
    ids: Iterable[str],
    moment: float,
    *,
    directions: tuple[Direction, ...] = ("both",),
    relations: Collection[Relation] = (),
    floor: float = 0.0,
    kinds: Collection[str] = (),
) -> list[Link]:
    """The edges of live nodes with other live ones; ``kinds`` are those of the other ends.

    ``incoming`` is only known of edges searched by the direction "in"; "both" is quicker.
    """
    found: list[Link] = []
    places = view.graph.find_places(ids)
    names = list(places)
    for direction in directions if places else ():
        steps = view.graph.steps([*places.values()], direction, relations, floor, moment)
        kept = np.ones(len(steps.rows), np.bool_)
        if kinds:
            kept = view.graph.of_kinds(steps.targets.tolist(), kinds)
        columns = (steps.origins[kept], steps.targets[kept], steps.relations[kept], steps.weights[kept])
        origins, targets, codes, weights = (column.tolist() for column in columns)
        others = view.graph.names(targets)
        for origin, other, code, weight in zip(origins, others, codes, weights, strict=True):
            found.append(Link(names[origin], other, RELATIONS[code], direction == "in", weight))
    return found


def find_bound(view: "View", ids: Iterable[str], moment: float) -> set[str]:
    """Those of the nodes that belong to some agent: bound by an edge, however weak it has become."""
    links = find_links(view, ids, moment, relations=BINDING, kinds=("agent",))
    return {link.node for link in links}


def find_ties(view: "View", hubs: Mapping[str, float], agent: str, moment: float) -> dict[str, Tie]:
    """How nodes are joined with the ``hubs`` (what an agent acts through), whose weights count as factors."""
    ties: dict[str, Tie] = {}
    for link in find_links(view, hubs, moment, directions=("out", "in"), floor=MIN_WEIGHT):
        if link.other in hubs:
            continue
        weight = link.weight * hubs[link.node]
        old = ties.get(link.other, NO_TIE)
        applies = weight if link.relation is Relation.APPLIES_TO and link.incoming else 0.0
        phrase = PHRASES[link.relation][not link.incoming].format(agent)
        best = max((weight, phrase), (old.weight, old.note))
        ties[link.other] = Tie(*best, max(applies, old.applies))
    return ties


def count_steps(view: "View", starts: Iterable[str], depth: int, moment: float) -> dict[str, int]:
    """The steps, of any direction and at least MIN_WEIGHT, from the nearest of ``starts`` to live nodes."""
    located = view.graph.find_places(starts)
    found, places = dict.fromkeys(located, 0), [*located.values()]
    seen = set(places)
    for distance in range(1, depth + 1):
        steps = view.graph.steps(places, "both", (), MIN_WEIGHT, moment)
        places = [place for place in np.unique(steps.targets).tolist() if place not in seen]
        if not places or len(seen) + len(places) > MAX_REACH:
            break
        seen.update(places)
        found.update(dict.fromkeys(view.graph.names(places), distance))
    return found
