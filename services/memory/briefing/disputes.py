"""Contradictions: all sides of each, together."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from services.memory.briefing.links import Link, find_superseded
from services.memory.briefing.page import Item, Unit
from services.memory.briefing.ranking import MIN_IMPORTANCE, is_current, rank
from shared.contracts import Node

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

MAX_SIDES = 200
"""The most nodes with contradictions that are looked at."""

FIRST_NOTE = "disputed"
NEXT_NOTE = "contradicts the one above"
LATER_NOTE = "contradicts one of those above"


def find_disputes(view: "View", links: Sequence[Link], moment: float) -> list[Unit]:
    """Units of nodes that contradict each other by ``links``, the gravest first, a node and its opposite at
    the head.

    Both sides hold, of at least MIN_IMPORTANCE. A unit's score is 1 more than that of its first pair, so that
    contradictions come before other open questions.
    """
    ids = sorted({end for link in links for end in (link.node, link.other)})[-MAX_SIDES:]
    superseded = find_superseded(view, ids, moment)
    sides = {node.id: node for node in view.nodes(ids) if node.id not in superseded and is_open(node, moment)}
    pairs = _weigh(links, sides, moment)
    units = []
    while pairs:
        units.append(_assemble(pairs, sides))
    return units


def is_open(node: Node, moment: float) -> bool:
    """Whether a node can be a side of a contradiction that is shown."""
    return node.importance >= MIN_IMPORTANCE and is_current(node, moment)


def _weigh(links: Sequence[Link], sides: Mapping[str, Node], moment: float) -> dict[tuple[str, str], float]:
    """The pairs of nodes and their scores, best first: the better side's rank by the weight of the edge."""
    pairs: dict[tuple[str, str], float] = {}
    for link in links:
        if link.node in sides and link.other in sides:
            pair = (min(link.node, link.other), max(link.node, link.other))
            score = max(rank(sides[end], link.weight, moment) for end in pair)
            pairs[pair] = max(score, pairs.get(pair, 0.0))
    return dict(sorted(pairs.items(), key=lambda entry: (-entry[1], entry[0])))


def _assemble(pairs: dict[tuple[str, str], float], sides: Mapping[str, Node]) -> Unit:
    """Take the best pair out of ``pairs`` and all that hangs together with it, each after one it
    contradicts.
    """
    (first, second), score = next(iter(pairs.items()))
    ids = [first, second]
    opposites = set(pairs)
    while pair := next((pair for pair in pairs if (pair[0] in ids) != (pair[1] in ids)), None):
        ids.append(pair[1] if pair[0] in ids else pair[0])
    for pair in [pair for pair in pairs if pair[0] in ids]:
        del pairs[pair]
    items = []
    for place, node_id in enumerate(ids):
        above = ids[place - 1] if place else ""
        note = NEXT_NOTE if (min(above, node_id), max(above, node_id)) in opposites else LATER_NOTE
        items.append(Item(node=sides[node_id], score=1 + score, note=note if place else FIRST_NOTE))
    return Unit(items=tuple(items), least=2)
