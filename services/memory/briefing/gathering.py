"""What belongs together on a page: nodes that contradict each other, and patterns with what supports them."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from services.memory.briefing.page import FIRST_NOTE, LATER_NOTE, NEXT_NOTE, OWN, SHARED, Item, Section, Unit
from services.memory.briefing.scope import (
    MIN_IMPORTANCE,
    MIN_WEIGHT,
    AgentScope,
    Link,
    find_links,
    is_current,
    is_private,
    rank,
)
from services.memory.ingest.pieces import SEPARATOR
from shared.contracts import Node, Relation
from shared.text.prose import find_phrases

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

ALIKE = 0.62  # The least cosine of two statements that may be states of one thing


FRAME = 4  # A phrase that so many nodes have is how such things are put, and not what they are about

STATES = ("decision", "fact")  # Kinds that say how things are


def find_earlier(view: "View", nodes: Mapping[str, Node]) -> dict[str, str]:
    """What says of a thing that a newer node names too how it is, by the newest such node.

    Of two statements that look like states of one thing nobody may know whether the later one replaced the
    earlier: the linker is not sure, or was not there yet. Told behind it, nobody takes it for the last word.
    """
    ids = [key for key, node in nodes.items() if node.kind in STATES]
    ids.sort(key=lambda key: nodes[key].created_at)
    titles = [nodes[key].title for key in ids]
    vectors = view.vectors(ids)
    # Not by "@": the threads of its library turn round for 40 ms after each product.
    cosines = np.einsum("ik,jk->ij", vectors, vectors)
    newest: dict[str, str] = {}
    for older, newer in np.argwhere(np.triu(cosines >= ALIKE, 1)).tolist():
        is_newer = nodes[ids[older]].created_at[:10] < nodes[ids[newer]].created_at[:10]
        if is_newer and _name_one_thing(titles[older], titles[newer], titles):
            newest[ids[older]] = ids[newer]  # the last one: they are in the order of their time
    return {older: newer for older, newer in newest.items() if newer not in newest}


def _name_one_thing(one: str, other: str, titles: Sequence[str]) -> bool:
    """Whether both name a thing of two words and more that few of ``titles`` have."""
    things = (" ".join(phrase.split()[:2]) for phrase in find_phrases(one, other) if " " in phrase)
    return any(sum(thing in title.lower() for title in titles) < FRAME for thing in things)


MAX_SIDES = 200  # The most nodes with contradictions that are considered

OBSERVATIONS = 2  # The most observations under one pattern

PATTERNS_FIRST = 7  # How many of the first patterns have observations below them

EVIDENCE = 10  # The most observations below all of them

SUPPORTING = (Relation.INSTANCE_OF, Relation.INFORMED_BY, Relation.LED_TO)
"""The relations between an observation and the pattern that it supports, in either direction."""

SUPPORT_NOTE = "supports the pattern above"


def find_disputes(
    view: "View", links: Sequence[Link], tiers: Mapping[str, int], scope: AgentScope
) -> list[Unit]:
    """Units of nodes that contradict each other, the gravest first, a node and its opposite at the head.

    Both sides hold, of at least MIN_IMPORTANCE, and neither is private to another agent. A unit's score is 1
    more than that of its first pair, so that contradictions come before other open questions; it gets room
    with the first of its nodes that has a place: ``tiers`` has those of all that have one.
    """
    moment = scope.moment
    ids = sorted({end for link in links for end in (link.node, link.other)})[-MAX_SIDES:]
    superseded = view.find_superseded(ids)
    sides = {
        node.id: node
        for node in view.nodes(ids)
        if node.id not in superseded and _is_open(node, moment) and not is_private(node, scope.agent)
    }
    pairs = _weigh(links, sides, moment)
    units = []
    while pairs:
        unit = _assemble(pairs, sides)
        tier = min((tiers[item.node.id] for item in unit.items if item.node.id in tiers), default=SHARED)
        items = tuple(
            msgspec.structs.replace(item, tier=min(tier, SHARED), is_common=tier > OWN) for item in unit.items
        )
        units.append(Unit(items=items, least=unit.least))
    return units


def _is_open(node: Node, moment: float) -> bool:
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
    """Remove the best pair and all pairs connected with it; each node comes after one it contradicts."""
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


def add_evidence(view: "View", section: Section, scope: AgentScope, elsewhere: Container[str]) -> Section:
    """The section of patterns with the best supporting observations below each, as many as fit.

    Each of the first patterns gets its best one before any gets a second.
    """
    patterns = section.units[:PATTERNS_FIRST]
    support = _find_support(view, [unit.items[0].node.id for unit in patterns], scope, elsewhere)
    room = EVIDENCE
    given: dict[str, list[Item]] = {node_id: [] for node_id in support}
    for turn in range(OBSERVATIONS):
        for node_id, items in support.items():
            if room and len(items) > turn:
                given[node_id].append(items[turn])
                room -= 1
    units = [
        Unit(items=(*unit.items, *given.get(unit.items[0].node.id, ()))) if unit in patterns else unit
        for unit in section.units
    ]
    return msgspec.structs.replace(section, units=tuple(units))


def _find_support(
    view: "View", patterns: list[str], scope: AgentScope, elsewhere: Container[str]
) -> dict[str, list[Item]]:
    """The observations of each pattern, best first; each is shown below one pattern only."""
    links = find_links(
        view,
        patterns,
        scope.moment,
        relations=SUPPORTING,
        floor=MIN_WEIGHT,
        kinds=("observation",),
    )
    ids = {link.other for link in links}
    superseded = view.find_superseded([*ids])
    found = (node for node in view.nodes(ids) if not is_private(node, scope.agent))
    nodes = {node.id: node for node in found if _is_open(node, scope.moment)}
    best: dict[tuple[str, str], Item] = {}
    for link in links:
        if link.other in nodes and link.other not in superseded and link.other not in elsewhere:
            score = rank(nodes[link.other], link.weight, scope.moment)
            old = best.get((link.node, link.other))
            if old is None or score > old.score:
                best[link.node, link.other] = Item(node=nodes[link.other], score=score, note=SUPPORT_NOTE)
    taken: set[str] = set()
    support: dict[str, list[Item]] = {}
    for pattern in patterns:
        mine = [item for (owner, other), item in best.items() if owner == pattern and other not in taken]
        support[pattern] = sorted(mine, key=lambda item: (-item.score, item.node.id))[:OBSERVATIONS]
        taken.update(item.node.id for item in support[pattern])
    return support


def gather_by_heading(units: Iterable[Unit]) -> list[Unit]:
    """The units, together those of one item each that stand under one heading of one file."""
    gathered: dict[str, Unit] = {}
    for unit in units:
        node = unit.items[0].node
        head, under, _ = node.title.partition(SEPARATOR)
        shares = under and len(unit.items) == 1 and not unit.items[0].note
        key = f"{node.source.session}{SEPARATOR}{head}" if shares else node.id
        first = gathered.get(key)
        gathered[key] = Unit(items=(*first.items, *unit.items), head=head) if first else unit
    return [*gathered.values()]
