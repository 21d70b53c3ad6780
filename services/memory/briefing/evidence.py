"""The observations that support a pattern, shown beneath it."""

from collections.abc import Container
from typing import TYPE_CHECKING

import msgspec

from services.memory.briefing.disputes import is_open
from services.memory.briefing.links import find_links, find_superseded
from services.memory.briefing.page import ITEMS, Item, Section, Unit
from services.memory.briefing.ranking import MIN_WEIGHT, rank
from services.memory.briefing.scope import Scope
from shared.contracts import Relation

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

EACH = 2
"""The most observations under one pattern."""

PATTERNS_FIRST = 7
"""How many patterns come before their observations get room."""

SUPPORTING = (Relation.INSTANCE_OF, Relation.INFORMED_BY, Relation.LED_TO)
"""The relations between an observation and the pattern that it supports, in either direction."""

NOTE = "supports the pattern above"


def add_evidence(view: "View", section: Section, scope: Scope, elsewhere: Container[str]) -> Section:
    """The section of patterns with the best supporting observations beneath each, where there is room for
    them.

    Each of the first patterns gets its best one before any gets a second.
    """
    patterns = section.units[:ITEMS]
    support = find_support(view, [unit.items[0].node.id for unit in patterns], scope, elsewhere)
    room = ITEMS - min(len(patterns), PATTERNS_FIRST)
    given: dict[str, list[Item]] = {node_id: [] for node_id in support}
    for turn in range(EACH):
        for node_id, items in list(support.items())[:PATTERNS_FIRST]:
            if room and len(items) > turn:
                given[node_id].append(items[turn])
                room -= 1
    units = [
        Unit(items=(*unit.items, *given.get(unit.items[0].node.id, ()))) if unit in patterns else unit
        for unit in section.units
    ]
    return msgspec.structs.replace(section, units=tuple(units))


def find_support(
    view: "View", patterns: list[str], scope: Scope, elsewhere: Container[str]
) -> dict[str, list[Item]]:
    """The observations of each pattern, best first; one that supports several stands with the first of
    them.
    """
    links = find_links(
        view,
        patterns,
        scope.moment,
        relations=SUPPORTING,
        floor=MIN_WEIGHT,
        kinds=("observation",),
        oriented=False,
    )
    ids = {link.other for link in links}
    superseded = find_superseded(view, ids, scope.moment)
    nodes = {node.id: node for node in view.nodes(ids) if is_open(node, scope.moment)}
    best: dict[tuple[str, str], Item] = {}
    for link in links:
        if link.other in nodes and link.other not in superseded and link.other not in elsewhere:
            score = rank(nodes[link.other], link.weight, scope.moment)
            old = best.get((link.node, link.other))
            if old is None or score > old.score:
                best[link.node, link.other] = Item(node=nodes[link.other], score=score, note=NOTE)
    taken: set[str] = set()
    support: dict[str, list[Item]] = {}
    for pattern in patterns:
        mine = [item for (owner, other), item in best.items() if owner == pattern and other not in taken]
        support[pattern] = sorted(mine, key=lambda item: (-item.score, item.node.id))[:EACH]
        taken.update(item.node.id for item in support[pattern])
    return support
