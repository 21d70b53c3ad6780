"""The candidates for a briefing and the sections: a node has its place in the first whose rule admits it."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.memory.briefing.page import NEAR, OWN, REST, SECTION
from services.memory.briefing.page import SHARED as FOR_ALL
from services.memory.briefing.scope import (
    BASE_WEIGHT,
    FAR,
    LATEST,
    LOW,
    MIN_IMPORTANCE,
    MIN_WEIGHT,
    NO_TIE,
    OTHERS_WEIGHT,
    OWN_WEIGHT,
    RECENT,
    REVIEW_TAGS,
    WIDEST,
    AgentScope,
    Link,
    contain,
    find_bound,
    find_links,
    is_flagged,
    is_uncertain,
    nearness,
    rank_all,
    select_kinds,
    select_own,
)
from services.memory.briefing.shares import EVENTS, RELATED, SHARED, TOGETHER, Share, share_out
from services.memory.retrieval.node_index import Mask, NodeColumns
from services.memory.retrieval.node_table import CONFIDENT, DONE, DONE_WORDS, GENERIC
from services.memory.retrieval.ranking import find_questioned
from shared.contracts import Node, Relation
from shared.memory.ownership import GLOBAL

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

IDENTITY = "Identity"
ACTIVE = "Active Context"
RELATIONSHIPS = "Key Relationships"

PATTERNS = "Patterns & Lessons"
GOALS = "Goals"
UNRESOLVED = "Unresolved"

RECENT_EVENTS = "Recent Events"

ORDER = (IDENTITY, ACTIVE, RELATIONSHIPS, PATTERNS, GOALS, UNRESOLVED, RECENT_EVENTS)
"""The sections in their order."""

CONTEXT = ("decision", "fact", "event", "preference", "task")

LASTING = ("decision", "preference")  # Kinds that hold until something replaces them

FLOOR = 0.25
"""The least relevance of Active Context: one edge from the agent's work, or as near in meaning as .7."""

SLACK = 0.01  # How far below FLOOR a relevance still counts if it is computed in bulk, which is less exact

AGENT_SCORE = 2.0  # Of the agent's own node: it comes first

REVIEW_NOTE, DOUBT_NOTE = "to be reviewed", "low confidence"


class Placement(NamedTuple):
    """Where a node belongs, and its rank there; whether others are told it too."""

    section: str
    score: float
    note: str = ""
    tier: int = FOR_ALL
    is_common: bool = False


class Facts(NamedTuple):
    """What is known of candidates beside their columns, by id, and what is shared out.

    ``bound`` ones belong to some agent, in place of ``questioned`` ones newer ones may hold; the metadata of
    ``flagged`` ones ask for a review, those of ``uncertain`` ones say that little is sure.
    """

    bound: Collection[str]
    questioned: Collection[str]
    flagged: Collection[str]
    uncertain: Collection[str]
    share: Share


def assign_sections(view: "View", scope: AgentScope, share: Share, ids: list[str]) -> dict[str, Placement]:
    """The sections that nodes belong to and their rank there, of those that belong to this briefing.

    The first of these that fits: Unresolved, what is near and of low confidence or to be reviewed, and open
    questions; Identity, preferences and facts that apply to the agent, and preferences of its share; Recent
    Events, near ones and news of the last 48 hours; Key Relationships, who and what it has an edge, a goal or
    a heading with; Patterns and active Goals of its share; Active Context, what is relevant.

    Scored importance x weight x recency (``rank``). Retired, expired, not yet valid and superseded nodes and
    those below MIN_IMPORTANCE have no section, but the agent's own node always has. What may have been
    superseded counts as if it were, but for the agent's own notes: that is asked elsewhere, if there is room.
    """
    nodes = view.describe(ids)
    may_be_shared = nodes.of_kinds(*SHARED).tolist()
    suspects = view.nodes(scope.suspects)
    flagged = (node for node in suspects if is_flagged(node, but="generic" if node.kind in LASTING else ""))
    facts = Facts(
        bound=find_bound(view, compress(ids, may_be_shared), scope.moment),
        questioned=find_questioned(view.graph, ids, scope.moment),
        flagged={node.id for node in flagged},
        uncertain={node.id for node in suspects if is_uncertain(node)},
        share=share,
    )
    joined = {**{key: tie.note for key, tie in scope.ties.items()}, **share.colleagues}
    found = _Candidates(ids, nodes, scope, facts)
    sections, weights, notes = found.choose_sections()
    placed = np.flatnonzero(found.is_shown() & (weights > 0))
    scores = rank_all(nodes, weights, scope.moment)[placed].tolist()
    tiers = found.choose_tiers(sections == _ACTIVE, sections == _IDENTITY, sections == _UNRESOLVED)
    common = found.find_common()[placed].tolist()
    rows = zip(placed.tolist(), sections[placed].tolist(), notes[placed].tolist(), scores, strict=True)
    places = {
        ids[row]: Placement(
            ORDER[section],
            score,
            joined.get(ids[row], "") if section == _RELATIONSHIPS else _NOTES[note],
            tier,
            is_common,
        )
        for (row, section, note, score), tier, is_common in zip(
            rows, tiers[placed].tolist(), common, strict=True
        )
    }
    if scope.node and scope.node.id in ids:
        places[scope.node.id] = Placement(IDENTITY, AGENT_SCORE, tier=OWN)
    return places


_IDENTITY, _ACTIVE, _RELATIONSHIPS, _PATTERNS, _GOALS, _UNRESOLVED, _RECENT_EVENTS = range(len(ORDER))

_NOTES = ("", REVIEW_NOTE, DOUBT_NOTE)


class _Candidates:
    """What decides of candidates, in arrays with an entry each."""

    def __init__(self, ids: Sequence[str], nodes: NodeColumns, scope: AgentScope, facts: Facts) -> None:
        self._nodes, self._scope = nodes, scope
        ties = [scope.ties.get(key, NO_TIE) for key in ids]
        self._tie = np.array([tie.weight for tie in ties], np.float64)
        self._applies = np.array([tie.applies for tie in ties], np.float64)
        self._tied = self._tie >= MIN_WEIGHT
        self._told = nodes.tagged(GLOBAL)
        self._is_tagged = nodes.tagged(scope.agent)
        self._own = nodes.by("agent", scope.agent) | self._is_tagged
        self._notes_of_own = nodes.by("owner", scope.agent) & ~self._told
        self._for_others = nodes.named(scope.others) & ~nodes.named({scope.agent, GLOBAL})
        self._near = contain(scope.near, ids)
        self._work = np.array([scope.work.get(key, np.inf) for key in ids], np.float64)
        self._bound, self._questioned, self._flagged, self._uncertain = (
            contain(known, ids) for known in facts[:4]
        )
        share = facts.share
        self._shared_out, self._common, self._asks, self._relates, self._worked = (
            contain(known, ids)
            for known in (share.told, share.common, share.questions, share.relations, share.colleagues)
        )

    def is_shown(self) -> Mask:
        """Which hold and concern the agent or everybody."""
        nodes, moment = self._nodes, self._scope.moment
        others = (nodes.column("owner") > 0) & ~self._told & ~self._notes_of_own & ~self._is_tagged
        shown: Mask = (
            nodes.known
            & (nodes.column("importance") >= MIN_IMPORTANCE)
            & nodes.column("live")
            & (nodes.column("begins") <= moment)
            & (nodes.column("ends") > moment)
            & ~(nodes.column("superseded") | (self._questioned & ~self._notes_of_own))
            & (self._tied | ~others)
            & ~nodes.personal()
        )
        return shown

    def choose_sections(self) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.intp]]:
        """The section of each, its weight there, 0 if it has none, and the place of its note in _NOTES."""
        nodes, moment = self._nodes, self._scope.moment
        local, shared = self._weigh_local(), self._weigh_shared()
        is_fact = nodes.of_kinds("fact")
        review = nodes.tagged(*REVIEW_TAGS) | self._flagged
        vague = is_fact & (nodes.column("importance") < LOW) & (nodes.column("marks") & CONFIDENT == 0)
        vague &= np.where(self._tie > 0, self._tie, BASE_WEIGHT) < LOW
        begins = nodes.column("begins")
        age = moment - np.where(np.isinf(begins), nodes.column("created"), begins)
        is_preference = nodes.of_kinds("preference")
        done = nodes.marked(DONE) | nodes.named(DONE_WORDS)
        is_recent = nodes.of_kinds(*EVENTS) & (age >= 0) & (age <= RECENT)
        joined = np.maximum(np.where(self._worked, OWN_WEIGHT, 0.0), np.where(self._tied, self._tie, 0.0))
        rules = (
            (_UNRESOLVED, (local > 0) & (review | vague | self._uncertain), local),
            (_UNRESOLVED, self._asks & ~done & (shared > 0), shared),
            (_IDENTITY, (is_preference | is_fact) & (self._applies >= MIN_WEIGHT), self._applies),
            (_IDENTITY, is_preference & (shared > 0), shared),
            (_RELATIONSHIPS, self._relates & (shared > 0), shared),
            (_RECENT_EVENTS, is_recent & (local > 0), local),
            (_RECENT_EVENTS, is_recent & self._shared_out, shared),
            (_RELATIONSHIPS, nodes.of_kinds(*RELATED) & (joined > 0), joined),
            (_PATTERNS, nodes.of_kinds("pattern") & (shared > 0), shared),
            (_GOALS, nodes.of_kinds("goal") & (shared > 0) & ~done, shared),
        )
        fitting = [fits for _, fits, _ in rules]
        sections = np.select(fitting, [np.intp(section) for section, _, _ in rules], np.intp(_ACTIVE))
        weights = np.select(fitting, [weight for _, _, weight in rules], self._weigh_relevance(shared))
        noted = np.select([sections != _UNRESOLVED, review, vague | self._uncertain], [0, 1, 2], 0)
        return sections, weights, noted

    def find_common(self) -> Mask:
        """Which others are told too, and are not this one's."""
        common: Mask = (self._common | self._told) & ~(self._tied | self._own)
        return common

    def choose_tiers(self, active: Mask, identity: Mask, unresolved: Mask) -> NDArray[np.intp]:
        """When each gets room: OWN knowledge, what is SHARED by all, what is NEAR, or the REST.

        The REST is what other agents are named in, what says the same as many others, tasks, and events that
        are no longer recent.
        """
        nodes = self._nodes
        mine = self._tied | self._own
        is_task, lasting = nodes.of_kinds("task"), nodes.of_kinds(*LASTING)
        passing = active & (nodes.of_kinds(*EVENTS) | is_task) & ~self._told
        generic = nodes.marked(GENERIC) & ~lasting
        rest = (~mine & self._for_others) | generic | passing
        known = (lasting | nodes.of_kinds("fact")) & (mine | identity)
        for_all = self._told | nodes.of_kinds(*SHARED) | unresolved
        tiers: NDArray[np.intp] = np.select(
            [rest & mine & is_task, rest, known & mine, known | for_all], [NEAR, REST, OWN, FOR_ALL], NEAR
        )
        return tiers

    def _weigh_local(self) -> NDArray[np.float64]:
        """The weight of the strongest edge with the agent, else of the agent's own or near nodes; else 0."""
        near = np.where(self._near & ~self._for_others, BASE_WEIGHT, 0.0)
        return np.where(self._tied, self._tie, np.where(self._own, OWN_WEIGHT, near))

    def _weigh_shared(self) -> NDArray[np.float64]:
        """The same of nodes that may concern all agents; less if tagged for others, 0 if it is bound to them
        or shared out to them.

        A goal that it wrote for another agent is its own; a pattern or preference for another is not.
        """
        free = ~self._bound | self._told
        mine = self._own & (free | self._nodes.of_kinds("goal") | self._is_tagged)
        others = np.where(self._for_others, OTHERS_WEIGHT, BASE_WEIGHT)
        unbound = np.where(self._told | (free & self._shared_out), others, 0.0)
        return np.where(self._tied, self._tie, np.where(mine, OWN_WEIGHT, unbound))

    def _weigh_relevance(self, shared: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much each has to do with the agent's work; 0 if too little, or its kind is not in CONTEXT.

        0.5 x near + 0.5 x graph, or the weight of its edge with the agent if that is higher: near is (cosine
        with the mean of the agent's latest nodes - FAR) / (1 - FAR), graph 1 / (1 + steps to the nearest of
        these). Decisions that concern all agents, its own facts, and what is tagged global have at least the
        weight of such nodes.
        """
        nodes = self._nodes
        in_context = nodes.of_kinds(*CONTEXT)
        told = (in_context | nodes.of_kinds("observation")) & self._told
        stated = nodes.of_kinds("fact", "observation")
        shared = np.where(nodes.of_kinds("decision") | (stated & self._shared_out), shared, 0.0)
        shared = np.where(told, np.maximum(shared, BASE_WEIGHT), shared)
        shared = np.where(stated & self._own, OWN_WEIGHT, shared)
        done = nodes.of_kinds(*EVENTS) & self._own & (nodes.column("created") > self._scope.moment - TOGETHER)
        shared = np.where(done, BASE_WEIGHT, shared)
        relevance = 0.5 * nearness(nodes.compare(self._scope.direction)) + 0.5 / (1 + self._work)
        weights = np.maximum(relevance, np.maximum(self._tie, shared))
        done_by_others = nodes.of_kinds(*EVENTS) & self._for_others & ~(self._own | self._tied)
        weights = np.where(((weights >= FLOOR) & ~done_by_others) | (shared > 0), weights, 0.0)
        return np.where(in_context, weights, shared)


SIMILAR = 256  # How many of the nearest in meaning are considered for Active Context

NEIGHBOURS = 1_024  # How many of the nearest in the graph are

Weights = dict[str, float]

Floats = NDArray[np.floating]

KNOWLEDGE = (*LASTING, "fact")  # Kinds that say what holds

_SECTION_OF = {"preference": IDENTITY, "pattern": PATTERNS, "goal": GOALS, "decision": ACTIVE}


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of candidates by section, best first; the ``open`` sections have more that were not considered."""

    ids: Mapping[str, list[str]]
    open: Collection[str]


def find_candidates(view: "View", scope: AgentScope, share: Share) -> Candidates:
    """The candidates for each section by rank, as far as that is known without reading them."""
    weights: dict[str, Weights] = {title: {} for title in ORDER}
    openings: set[str] = set()
    for source in (_tied, _own, _of_low_importance, _for_review, _recent, _related_to_work):
        for title, more in source(view, scope):
            weights[title].update(
                {key: max(weight, weights[title].get(key, 0.0)) for key, weight in more.items()}
            )
    weights[ACTIVE].update(dict.fromkeys((*share.told, *share.colleagues), BASE_WEIGHT))
    for kind, (more, is_open) in share.pools.items():
        title = _SECTION_OF[kind]
        weights[title].update({key: weight for key, weight in more.items() if key not in weights[title]})
        openings.update([title] if is_open else [])
    every = list(dict.fromkeys(key for section in weights.values() for key in section))
    nodes, rows = view.describe(every), dict(zip(every, range(len(every)), strict=True))
    # importance x recency of those that are important enough
    worth = rank_all(nodes, np.ones(len(every)), scope.moment)
    worth[nodes.column("importance") < MIN_IMPORTANCE] = -1.0
    ranks = _rank(view, scope, every, nodes)

    def order(section: Weights) -> list[str]:
        places = np.fromiter(map(rows.__getitem__, section), np.intp, len(section))
        values = -np.fromiter(section.values(), np.float64, len(section)) * worth[places]
        ranked = sorted(zip(ranks[places].tolist(), values.tolist(), section, strict=True))
        return [key for _, value, key in ranked if value <= 0]

    return Candidates(ids={title: order(section) for title, section in weights.items()}, open=openings)


def _rank(view: "View", scope: AgentScope, ids: list[str], nodes: NodeColumns) -> NDArray[np.intp]:
    """In which order candidates are read: own and global knowledge, decisions, facts, all else."""
    told = set(view.select(tags=(GLOBAL,), min_importance=MIN_IMPORTANCE, limit=LATEST))
    mine = contain({*scope.ties, *select_own(view, scope, KNOWLEDGE)}, ids)
    first = contain(told, ids) | (mine & nodes.of_kinds(*KNOWLEDGE))
    ranks: NDArray[np.intp] = np.select(
        [first, nodes.of_kinds(*LASTING), nodes.of_kinds("fact")], [0, 1, 2], 3
    )
    return ranks


Source = Iterable[tuple[str, Weights]]


def _tied(view: "View", scope: AgentScope) -> Source:
    ties, nodes = scope.ties, view.describe(scope.ties)
    for title, kinds in (
        (RELATIONSHIPS, RELATED),
        (PATTERNS, ("pattern",)),
        (GOALS, ("goal",)),
        (RECENT_EVENTS, EVENTS),
        (ACTIVE, CONTEXT),
    ):
        yield title, {key: ties[key].weight for key in compress(ties, nodes.of_kinds(*kinds).tolist())}
    applying = compress(ties, nodes.of_kinds("preference", "fact").tolist())
    yield IDENTITY, {key: ties[key].applies for key in applying if ties[key].applies}


def _own(view: "View", scope: AgentScope) -> Source:
    for kind in (*SHARED, "fact", "observation"):
        ids = select_own(view, scope, (kind,))
        yield _SECTION_OF.get(kind, ACTIVE), dict.fromkeys(ids, OWN_WEIGHT)
    kinds = (*CONTEXT, "observation")
    told = view.select(tags=(GLOBAL,), kinds=kinds, min_importance=MIN_IMPORTANCE, limit=LATEST)
    yield ACTIVE, dict.fromkeys(told, BASE_WEIGHT)
    tagged = view.select(tags=(scope.agent,), min_importance=MIN_IMPORTANCE, limit=LATEST)
    yield RECENT_EVENTS, dict.fromkeys(select_kinds(view, tagged, EVENTS), OWN_WEIGHT)


def _of_low_importance(view: "View", scope: AgentScope) -> Source:
    """Facts of low importance of its own, tied to it, or near."""
    own = select_own(view, scope, ("fact",))
    weights = {
        **dict.fromkeys(select_kinds(view, scope.near, ("fact",)), BASE_WEIGHT),
        **dict.fromkeys(own, OWN_WEIGHT),
        **{key: scope.ties[key].weight for key in select_kinds(view, scope.ties, ("fact",))},
    }
    low = compress(weights, (view.describe(weights).column("importance") < LOW).tolist())
    yield UNRESOLVED, {key: weights[key] for key in low}


def _for_review(view: "View", scope: AgentScope) -> Source:
    for tag in REVIEW_TAGS:
        marked = view.select(tags=(tag,), min_importance=MIN_IMPORTANCE, limit=WIDEST)
        if marked:
            mine = view.select(tags=(tag,), agent=scope.agent, min_importance=MIN_IMPORTANCE, limit=LATEST)
            mine += view.select(tags=(tag, scope.agent), min_importance=MIN_IMPORTANCE, limit=LATEST)
            near = [key for key in marked if key in scope.near or key in scope.ties]
            yield UNRESOLVED, {**dict.fromkeys(near, BASE_WEIGHT), **dict.fromkeys(mine, OWN_WEIGHT)}


def _recent(view: "View", scope: AgentScope) -> Source:
    since = scope.moment - RECENT
    near = view.select(kinds=EVENTS, since=since, min_importance=MIN_IMPORTANCE, among=[*scope.near])
    mine = view.select(
        kinds=EVENTS, agent=scope.agent, since=since, min_importance=MIN_IMPORTANCE, limit=LATEST
    )
    yield RECENT_EVENTS, {**dict.fromkeys(near, BASE_WEIGHT), **dict.fromkeys(mine, OWN_WEIGHT)}


def _related_to_work(view: "View", scope: AgentScope) -> Source:
    """What is near to the agent's work in meaning or in the graph, by 0.5 x near + 0.5 x graph."""
    nearest = sorted(select_kinds(view, scope.work, CONTEXT), key=lambda key: (scope.work[key], key))[
        :NEIGHBOURS
    ]
    mean = scope.direction
    alike = [] if mean is None else [key for key, _ in view.similar(mean, SIMILAR, FAR, CONTEXT)]
    ids = list(dict.fromkeys((*nearest, *alike)))
    steps = np.array([scope.work.get(key, np.inf) for key in ids], np.float64)
    weights = 0.5 * nearness(view.describe(ids).compare(mean)) + 0.5 / (1 + steps)
    near = zip(ids, weights.tolist(), strict=True)
    yield ACTIVE, {key: weight for key, weight in near if weight >= FLOOR - SLACK}


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


def select_nodes(view: "View", scope: AgentScope) -> Selection:
    """Consider candidates in the order of their rank until every section has enough, those with a
    contradiction in any case, and read what has a place.
    """
    share = share_out(view, scope, SECTION)
    listed = find_candidates(view, scope, share)
    everything = dict.fromkeys(key for ids in listed.ids.values() for key in ids)
    # The contradictions of candidates and of what is in the agent's neighbourhood and scope
    starts = dict.fromkeys((*everything, *scope.ties, *scope.near, *scope.anchors))
    relations = (Relation.CONTRADICTS,)
    links = find_links(view, starts, scope.moment, relations=relations, floor=MIN_WEIGHT)
    contested = {link.node for link in links}
    own = [scope.node.id] if scope.node else []
    wanted = [*own, *sorted(contested & everything.keys()), *sorted(scope.suspects)]
    spots = assign_sections(view, scope, share, [*dict.fromkeys((*everything, *wanted))])
    considered: set[str] = set()
    places: dict[str, Placement] = {}
    read = dict.fromkeys(listed.ids, 0)
    placed = Counter[str]()
    for _ in range(ROUNDS):
        for title, ids in listed.ids.items():
            if placed[title] < SECTION and read[title] < len(ids):  # not yet enough undisputed nodes
                wanted += ids[read[title] : read[title] + BATCH]
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
    # Contradictions also concern the agent if the node itself is near it and not shown
    shown = {*places, *scope.near, *scope.ties, *scope.anchors}
    return Selection(
        nodes=nodes,
        places=places,
        contradictions=[link for link in links if link.node in shown],
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
