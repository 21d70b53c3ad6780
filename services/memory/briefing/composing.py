"""What an agent needs to know now: candidates put in their places, in sections, as a briefing."""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import compress
from typing import TYPE_CHECKING

import msgspec

from services.memory.briefing.page import (
    REST,
    SECTION,
    Item,
    Limits,
    Page,
    Section,
    Unit,
    escape,
    precedence,
    render_compact,
    render_markdown,
)
from services.memory.briefing.page import SHARED as FOR_ALL
from services.memory.briefing.scope import (
    MIN_IMPORTANCE,
    MIN_WEIGHT,
    AgentScope,
    Link,
    find_bound,
    find_links,
    find_scope,
    is_current,
    is_flagged,
    is_private,
    is_uncertain,
    rank,
)
from services.memory.briefing.sections import (
    ACTIVE,
    EVENTS,
    LASTING,
    ORDER,
    PATTERNS,
    SHARED,
    UNRESOLVED,
    Candidates,
    Facts,
    Placement,
    assign_sections,
    find_candidates,
)
from services.memory.retrieval.ranking import find_questioned
from shared.contracts import Briefing, BriefingSection, BriefQuery, Node, Relation
from shared.text.display import flatten

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

BODY = 1_000  # The most characters of a node's body within a briefing; the whole of it is to be had by its id

METADATA = 1_000  # The most characters of its metadata, as JSON; longer ones are left out

EMPTY = (
    "Memory holds nothing to tell yet. It fills with what agents remember, with files put into the ingest"
    " folder, and with `mailroom memory add`."
)
NODELESS = "Memory has no node for this agent: here is what it wrote itself and what concerns everybody."

MANY = 200  # Beyond so many nodes a briefing has their bodies shortened to BRIEF_BODY, and no metadata

BRIEF_BODY = 200

CROWD = 15
"""How many of a kind get room by their tier; further ones are the REST, but for decisions and preferences."""

PASSING = 5  # The most tasks, and the most events that are not recent, in Active Context

MAX_SIDES = 200  # The most nodes with contradictions that are considered

FIRST_NOTE = "disputed"
NEXT_NOTE = "contradicts the one above"
LATER_NOTE = "contradicts one of those above"

OBSERVATIONS = 2  # The most observations under one pattern

PATTERNS_FIRST = 7  # How many of the first patterns have observations below them

EVIDENCE = 10  # The most observations below all of them

SUPPORTING = (Relation.INSTANCE_OF, Relation.INFORMED_BY, Relation.LED_TO)
"""The relations between an observation and the pattern that it supports, in either direction."""

SUPPORT_NOTE = "supports the pattern above"


BATCH = 32  # How many candidates of a section are considered at a time

ROUNDS = 16  # How often more of them are


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that have a place by id, their places, and the contradictions among what was considered.

    ``left`` counts the candidates of each section that were not considered, each ranking below those that
    were; in the ``open`` sections there are more. ``consulted`` is the number of all.
    """

    nodes: dict[str, Node]
    places: dict[str, Placement]
    contradictions: list[Link]
    left: dict[str, int]
    open: Collection[str]
    consulted: int


def compose(view: "View", agent: str, moment: float, query: BriefQuery | None = None) -> Briefing:
    """The briefing of ``agent`` from ``view`` at ``moment`` (seconds since the epoch), its text included.

    Depends on these and the limits of ``query`` alone: at another time, from another view of the same
    version, the text is the same to the letter.
    """
    query = query or BriefQuery(agent=agent)
    return render(draft(view, agent, moment, contradictions=query.include_contradictions), query)


def draft(view: "View", agent: str, moment: float, *, contradictions: bool = True) -> Page:
    """Choose what the briefing of ``agent`` may show; the view is not to change meanwhile."""
    scope = find_scope(view, agent, moment)
    choice = select_nodes(view, scope)
    disputes = _find_disputes(view, choice, scope) if contradictions else []
    disputed = frozenset(item.node.id for unit in disputes for item in unit.items)
    sections = _make_sections(agent, choice, disputes, disputed)
    evidence = _add_evidence(view, sections[PATTERNS], scope, {*choice.places, *disputed})
    sections[PATTERNS] = evidence
    filled = tuple(section for section in sections.values() if section.units)
    return Page(
        agent=agent,
        version=view.version,
        moment=moment,
        consulted=choice.consulted,
        preface=_preface(scope, filled),
        sections=filled,
    )


def render(page: Page, query: BriefQuery) -> Briefing:
    """The page as a briefing within the limits of ``query``, in Markdown or as titles alone.

    Its sections hold what the text shows.
    """
    limits = Limits(characters=query.max_chars, section=query.per_section or SECTION)
    result = render_compact(page, limits) if query.compact else render_markdown(page, limits)
    many = sum(len(section.items) for section in result.sections) > MANY
    stamp = datetime.fromtimestamp(page.moment, UTC).isoformat(timespec="microseconds")
    return Briefing(
        created_at=stamp,
        agent=page.agent,
        version=page.version,
        sections=tuple(
            BriefingSection(
                title=section.title,
                nodes=tuple(_shorten_node(item.node, many=many) for item in section.items),
                omitted=section.omitted,
            )
            for section in result.sections
        ),
        nodes_consulted=page.consulted,
        generated_at=stamp,
        text=result.text,
    )


def _make_sections(
    agent: str, choice: Selection, disputes: Sequence[Unit], disputed: Collection[str]
) -> dict[str, Section]:
    """All sections in order, each with all of its units, best first; equal ones by their ids."""
    units: dict[str, list[Unit]] = {title: [] for title in ORDER}
    for key, spot in choice.places.items():
        if key not in disputed:
            item = Item(node=choice.nodes[key], score=spot.score, note=spot.note, tier=spot.tier)
            units[spot.section].append(Unit(items=(item,)))
    units = {title: _demote_crowds(each) for title, each in units.items()}
    units[ACTIVE] = _limit_passing(units[ACTIVE])
    units[UNRESOLVED] = [*disputes, *units[UNRESOLVED]]
    return {
        title: Section(
            title=title,
            ask=escape(ask.format(agent)),
            units=tuple(units[title]),
            omitted=choice.left[title],
            open=title in choice.open,
        )
        for title, ask in ORDER.items()
    }


def _in_order(units: Iterable[Unit]) -> list[Unit]:
    return sorted(units, key=lambda unit: precedence(unit.items[0]))


def _demote_crowds(units: Iterable[Unit]) -> list[Unit]:
    """The units in order, those beyond CROWD of a kind among the REST: a thousand facts displace nothing."""
    counts: Counter[str] = Counter()
    placed, demoted = [], False
    for unit in _in_order(units):
        (item,) = unit.items
        counts[item.node.kind] += 1
        if item.tier != REST and item.node.kind not in LASTING and counts[item.node.kind] > CROWD:
            unit, demoted = Unit(items=(msgspec.structs.replace(item, tier=REST),)), True
        placed.append(unit)
    return _in_order(placed) if demoted else placed


def _limit_passing(units: Iterable[Unit]) -> list[Unit]:
    """The units without tasks and events beyond PASSING of each."""
    counts: Counter[str] = Counter()
    kept = []
    for unit in units:
        (item,) = unit.items
        kind = "event" if item.node.kind in EVENTS else item.node.kind
        counts[kind] += item.tier > FOR_ALL
        if item.tier <= FOR_ALL or kind not in ("event", "task") or counts[kind] <= PASSING:
            kept.append(unit)
    return kept


def _preface(scope: AgentScope, sections: Iterable[Section]) -> str:
    if not any(sections):
        return EMPTY
    return "" if scope.node else NODELESS


def _shorten_node(node: Node, *, many: bool) -> Node:
    short = not many and len(msgspec.json.encode(node.metadata)) <= METADATA
    return msgspec.structs.replace(
        node,
        body=flatten(node.body, BRIEF_BODY if many else BODY),
        metadata=node.metadata if short else {},
        embedding=(),
    )


def _find_disputes(view: "View", choice: Selection, scope: AgentScope) -> list[Unit]:
    """Units of nodes that contradict each other, the gravest first, a node and its opposite at the head.

    Both sides hold, of at least MIN_IMPORTANCE, and neither is private to another agent. A unit's score is 1
    more than that of its first pair, so that contradictions come before other open questions; it gets room
    with the first of its nodes that has a place.
    """
    links, moment = choice.contradictions, scope.moment
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
        spots = (choice.places.get(item.node.id) for item in unit.items)
        tier = min((spot.tier for spot in spots if spot), default=FOR_ALL)
        items = tuple(msgspec.structs.replace(item, tier=min(tier, FOR_ALL)) for item in unit.items)
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


def _add_evidence(view: "View", section: Section, scope: AgentScope, elsewhere: Container[str]) -> Section:
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


def select_nodes(view: "View", scope: AgentScope) -> Selection:
    """Consider candidates in the order of their rank until every section has enough, those with a
    contradiction in any case, and read what has a place.
    """
    listed = find_candidates(view, scope)
    everything = dict.fromkeys(key for ids in listed.ids.values() for key in ids)
    # The contradictions of candidates and of what is in the agent's neighbourhood and scope
    starts = dict.fromkeys((*everything, *scope.ties, *scope.near, *scope.anchors))
    relations = (Relation.CONTRADICTS,)
    links = find_links(view, starts, scope.moment, relations=relations, floor=MIN_WEIGHT)
    contested = {link.node for link in links}
    own = [scope.node.id] if scope.node else []
    wanted = [*own, *sorted(contested & everything.keys()), *sorted(scope.suspects)]
    spots = _assign_sections(view, scope, [*dict.fromkeys((*everything, *wanted))])
    considered: set[str] = set()
    places: dict[str, Placement] = {}
    read = dict.fromkeys(listed.ids, 0)
    placed = Counter[str]()
    for _ in range(ROUNDS):
        for title in _unfilled(listed, read, placed):
            wanted += listed.ids[title][read[title] : read[title] + BATCH]
            read[title] += BATCH
        if not wanted:
            break
        new = [key for key in dict.fromkeys(wanted) if key not in considered]
        considered.update(new)
        assigned = {key: spots[key] for key in new if key in spots}
        placed.update(spot.section for key, spot in assigned.items() if key not in contested)
        places.update(assigned)
        wanted = []
    nodes = {node.id: node for node in view.nodes(places)}
    places = _leave_out_repeated(nodes, places)
    return Selection(
        nodes=nodes,
        places=places,
        contradictions=[link for link in links if link.node in places or _is_local(link.node, scope)],
        left={title: sum(key not in considered for key in ids) for title, ids in listed.ids.items()},
        open=listed.open,
        consulted=len(considered | everything.keys()),
    )


def _leave_out_repeated(nodes: dict[str, Node], places: dict[str, Placement]) -> dict[str, Placement]:
    """The places without the earlier ones of events that read the same: one agent's, of one title."""
    latest: dict[tuple[str, str], str] = {}
    for key in sorted(places, key=lambda key: nodes[key].created_at):
        if nodes[key].kind in EVENTS:
            latest[nodes[key].source.agent, nodes[key].title] = key
    kept = set(latest.values())
    return {key: place for key, place in places.items() if nodes[key].kind not in EVENTS or key in kept}


def _is_local(node_id: str, scope: AgentScope) -> bool:
    """Whether a node's contradictions concern the agent, though the node itself is not shown."""
    return node_id in scope.near or node_id in scope.ties or node_id in scope.anchors


def _assign_sections(view: "View", scope: AgentScope, ids: list[str]) -> dict[str, Placement]:
    """The places of those nodes that have one, by id."""
    nodes = view.describe(ids)
    may_be_shared = nodes.of_kinds(*SHARED).tolist()
    flagged, uncertain = _read_suspects(view, scope)
    facts = Facts(
        bound=find_bound(view, compress(ids, may_be_shared), scope.moment),
        questioned=find_questioned(view.graph, ids, scope.moment),
        flagged=flagged,
        uncertain=uncertain,
    )
    return assign_sections(ids, nodes, scope, facts)


def _read_suspects(view: "View", scope: AgentScope) -> tuple[set[str], set[str]]:
    """Those of the suspects whose metadata ask for a review, and those that say that little is sure."""
    nodes = view.nodes(scope.suspects)
    flagged = (node for node in nodes if is_flagged(node, but="generic" if node.kind in LASTING else ""))
    return {node.id for node in flagged}, {node.id for node in nodes if is_uncertain(node)}


def _unfilled(listed: Candidates, read: Mapping[str, int], placed: Mapping[str, int]) -> list[str]:
    """The sections that have candidates left and not yet enough undisputed nodes ``placed``."""
    return [title for title, ids in listed.ids.items() if placed[title] < SECTION and read[title] < len(ids)]
