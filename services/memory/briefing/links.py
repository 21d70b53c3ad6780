"""The edges that a briefing depends on, read in bulk: what is bound to agents, superseded, disputed, near."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec
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


_WAYS: tuple[Direction, ...] = ("out", "in")
_EITHER: tuple[Direction, ...] = ("both",)


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


class EdgeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the edges say of some nodes.

    ``bound`` ones belong to some agent, in place of ``superseded`` ones newer ones hold; ``ties`` join them
    with the agent that is briefed.
    """

    bound: Collection[str]
    superseded: Collection[str]
    ties: Mapping[str, Tie]


def find_links(
    view: "View",
    ids: Iterable[str],
    moment: float,
    *,
    relations: Collection[Relation] = (),
    floor: float = 0.0,
    kinds: Collection[str] = (),
    oriented: bool = True,
) -> list[Link]:
    """The edges of live nodes with other live ones; ``kinds`` are those of the other ends.

    Where it does not matter which way an edge goes, not ``oriented`` is quicker: all are taken for outgoing
    ones.
    """
    found: list[Link] = []
    for direction in _WAYS if oriented else _EITHER:
        found += _find_directed(view, ids, direction, relations, floor, moment, kinds)
    return found


def _find_directed(
    view: "View",
    ids: Iterable[str],
    direction: Direction,
    relations: Collection[Relation],
    floor: float,
    moment: float,
    kinds: Collection[str],
) -> Iterator[Link]:
    places, names = _locate(view, ids)
    if not places:
        return
    steps = view.graph.steps(places, direction, relations, floor, moment)
    if not len(steps.rows):
        return
    kept = view.graph.of_kinds(steps.targets.tolist(), kinds) if kinds else np.ones(len(steps.rows), np.bool_)
    columns = (steps.origins[kept], steps.targets[kept], steps.relations[kept], steps.weights[kept])
    origins, targets, codes, weights = (column.tolist() for column in columns)
    others = view.graph.names(targets)
    for origin, other, code, weight in zip(origins, others, codes, weights, strict=True):
        yield Link(names[origin], other, RELATIONS[code], direction == "in", weight)


def find_bound(view: "View", ids: Iterable[str], moment: float) -> set[str]:
    """Those of the nodes that belong to some agent: bound by an edge, however weak it has become."""
    links = find_links(view, ids, moment, relations=BINDING, kinds=("agent",), oriented=False)
    return {link.node for link in links}


def find_superseded(view: "View", ids: Iterable[str], moment: float) -> set[str]:
    """Those of the nodes that a live one supersedes; that the edge grew weak brings nothing back."""
    return {link.node for link in _find_directed(view, ids, "in", (Relation.SUPERSEDES,), 0.0, moment, ())}


def find_ties(view: "View", hubs: Mapping[str, float], agent: str, moment: float) -> dict[str, Tie]:
    """How nodes are joined with the ``hubs`` (what an agent acts through), whose weights count as factors."""
    ties: dict[str, Tie] = {}
    for link in find_links(view, hubs, moment, floor=MIN_WEIGHT):
        if link.other in hubs:
            continue
        weight = link.weight * hubs[link.node]
        old = ties.get(link.other, Tie(0.0, "", 0.0))
        applies = weight if link.relation is Relation.APPLIES_TO and link.incoming else 0.0
        phrase = PHRASES[link.relation][not link.incoming].format(agent)
        best = max((weight, phrase), (old.weight, old.note))
        ties[link.other] = Tie(*best, max(applies, old.applies))
    return ties


def count_steps(view: "View", starts: Iterable[str], depth: int, moment: float) -> dict[str, int]:
    """How many steps, of any direction and at least MIN_WEIGHT, live nodes lie from the nearest of
    ``starts``.
    """
    places, names = _locate(view, starts)
    found = dict(zip(names, [0] * len(names), strict=True))
    seen = set(places)
    for distance in range(1, depth + 1):
        steps = view.graph.steps(places, "both", (), MIN_WEIGHT, moment)
        places = [place for place in np.unique(steps.targets).tolist() if place not in seen]
        if not places or len(seen) + len(places) > MAX_REACH:
            break
        seen.update(places)
        found.update(dict.fromkeys(view.graph.names(places), distance))
    return found


def _locate(view: "View", ids: Iterable[str]) -> tuple[list[int], list[str]]:
    """Places and ids of those nodes that are live."""
    wanted = list(dict.fromkeys(ids))
    try:
        return view.graph.locate(wanted), wanted
    except ValueError:
        found = [(place, node_id) for node_id in wanted for place in _place(view, node_id)]
        return [place for place, _ in found], [node_id for _, node_id in found]


def _place(view: "View", node_id: str) -> list[int]:
    try:
        return view.graph.locate([node_id])
    except ValueError:
        return []
