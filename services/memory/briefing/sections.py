"""The sections and what belongs into each: a node has its place in the first one whose rule admits it."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.memory.briefing import ranking
from services.memory.briefing.page import NEAR, OWN, REST
from services.memory.briefing.page import SHARED as FOR_ALL
from services.memory.briefing.scope import NO_TIE, RECENT, AgentScope
from services.memory.retrieval.node_index import Mask, NodeColumns
from services.memory.retrieval.node_table import CONFIDENT, DONE, DONE_WORDS, GENERIC
from shared.memory.ownership import GLOBAL

IDENTITY = "Identity"
ACTIVE = "Active Context"
RELATIONSHIPS = "Key Relationships"
PATTERNS = "Patterns & Lessons"
GOALS = "Goals"
UNRESOLVED = "Unresolved"
RECENT_EVENTS = "Recent Events"

ORDER: Mapping[str, str] = {
    IDENTITY: "what applies to {}",
    ACTIVE: "the work of {}",
    RELATIONSHIPS: "who and what {} works with",
    PATTERNS: "patterns and lessons for {}",
    GOALS: "goals of {}",
    UNRESOLVED: "contradictions and open questions",
    RECENT_EVENTS: "recent events around {}",
}
"""The sections in their order, and what to ask memory about for more of one."""

EVENTS = ("event", "episodic")
CONTEXT = ("decision", "fact", "event", "preference", "task")
SHARED = ("preference", "pattern", "goal", "decision")
"""Kinds that may concern all agents."""
LASTING = ("decision", "preference")
"""Kinds that hold until something replaces them."""
RELATED = tuple(
    "agent person people human user contact customer team group organization organisation company"
    " project repository system service server database device tool api".split()
)
"""People, agents and systems, by the names that these kinds have."""

FLOOR = 0.25
"""The least relevance of Active Context: one edge from the agent's work, or as near in meaning as .7."""

FAR = 0.4
"""The cosine of unrelated texts: half of the pairs of such are above .48, a tenth under .39."""

SLACK = 0.01
"""How far below FLOOR a relevance still counts if it is computed in bulk, which is less exact."""

AGENT_SCORE = 2.0
"""Of the agent's own node: it comes first."""

REVIEW_NOTE = "to be reviewed"
DOUBT_NOTE = "low confidence"


class Placement(NamedTuple):
    """Where a node belongs, and its rank there."""

    section: str
    score: float
    note: str = ""
    tier: int = FOR_ALL


class Facts(NamedTuple):
    """What is known of candidates beside their columns, by id.

    ``bound`` ones belong to some agent, in place of ``questioned`` ones newer ones may hold; the metadata of
    ``flagged`` ones ask for a review, those of ``uncertain`` ones say that little is sure.
    """

    bound: Collection[str]
    questioned: Collection[str]
    flagged: Collection[str]
    uncertain: Collection[str]


def assign_sections(
    ids: Sequence[str], nodes: NodeColumns, scope: AgentScope, facts: Facts
) -> dict[str, Placement]:
    """The sections that nodes belong to and their rank there, of those that belong to this briefing.

    The first of these that fits: Unresolved, what is near and marked for review or of low confidence;
    Identity, preferences and facts that apply to the agent, and preferences that concern it or all agents;
    Recent Events, those near of the last 48 hours; Key Relationships, people, agents and systems that it has
    an edge with; Patterns and active Goals that concern it or all agents; Active Context, what is relevant.

    Scored importance x weight x recency (``rank``). Retired, expired, not yet valid and superseded nodes and
    those below MIN_IMPORTANCE have no section, but the agent's own node always has. What may have been
    superseded counts as if it were, but for the agent's own notes: that is asked elsewhere, if there is room.
    """
    found = _Candidates(ids, nodes, scope, facts)
    sections, weights, notes = found.choose_sections()
    placed = np.flatnonzero(found.is_shown() & (weights > 0))
    scores = ranking.rank_all(nodes, weights, scope.moment)[placed].tolist()
    tiers = found.choose_tiers(sections == _ACTIVE, sections == _IDENTITY, sections == _UNRESOLVED)
    rows = zip(placed.tolist(), sections[placed].tolist(), notes[placed].tolist(), scores, strict=True)
    places = {
        ids[row]: Placement(
            _TITLES[section],
            score,
            scope.ties[ids[row]].note if section == _RELATIONSHIPS else _NOTES[note],
            tier,
        )
        for (row, section, note, score), tier in zip(rows, tiers[placed].tolist(), strict=True)
    }
    if scope.node and scope.node.id in ids:
        places[scope.node.id] = Placement(IDENTITY, AGENT_SCORE, tier=OWN)
    return places


_TITLES = tuple(ORDER)
_IDENTITY, _ACTIVE, _RELATIONSHIPS, _PATTERNS, _GOALS, _UNRESOLVED, _RECENT_EVENTS = range(len(_TITLES))
_NOTES = ("", REVIEW_NOTE, DOUBT_NOTE)


class _Candidates:
    """What decides of candidates, in arrays with an entry each."""

    def __init__(self, ids: Sequence[str], nodes: NodeColumns, scope: AgentScope, facts: Facts) -> None:
        self._nodes, self._scope = nodes, scope
        ties = [scope.ties.get(key, NO_TIE) for key in ids]
        self._tie = np.array([tie.weight for tie in ties], np.float64)
        self._applies = np.array([tie.applies for tie in ties], np.float64)
        self._tied = self._tie >= ranking.MIN_WEIGHT
        self._told = nodes.tagged(GLOBAL)
        self._is_tagged = nodes.tagged(scope.agent)
        self._own = nodes.by("agent", scope.agent) | self._is_tagged
        self._notes_of_own = nodes.by("owner", scope.agent) & ~self._told
        self._for_others = nodes.named(scope.others) & ~nodes.named({scope.agent, GLOBAL})
        self._near = contain(scope.near, ids)
        self._work = np.array([scope.work.get(key, np.inf) for key in ids], np.float64)
        self._bound, self._questioned, self._flagged, self._uncertain = (
            contain(known, ids) for known in facts
        )

    def is_shown(self) -> Mask:
        """Which hold and concern the agent or everybody."""
        nodes, moment = self._nodes, self._scope.moment
        others = (nodes.column("owner") > 0) & ~self._told & ~self._notes_of_own & ~self._is_tagged
        shown: Mask = (
            nodes.known
            & (nodes.column("importance") >= ranking.MIN_IMPORTANCE)
            & nodes.column("live")
            & (nodes.column("begins") <= moment)
            & (nodes.column("ends") > moment)
            & ~(nodes.column("superseded") | (self._questioned & ~self._notes_of_own))
            & (self._tied | ~others)
        )
        return shown

    def choose_sections(self) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.intp]]:
        """The section of each, its weight there, 0 if it has none, and the place of its note in _NOTES."""
        nodes, moment = self._nodes, self._scope.moment
        local, shared = self._weigh_local(), self._weigh_shared()
        is_fact = nodes.of_kinds("fact")
        review = nodes.tagged(*ranking.REVIEW_TAGS) | self._flagged
        vague = (
            is_fact & (nodes.column("importance") < ranking.LOW) & (nodes.column("marks") & CONFIDENT == 0)
        )
        vague &= np.where(self._tie > 0, self._tie, ranking.BASE_WEIGHT) < ranking.LOW
        begins = nodes.column("begins")
        age = moment - np.where(np.isinf(begins), nodes.column("created"), begins)
        is_preference = nodes.of_kinds("preference")
        done = nodes.marked(DONE) | nodes.named(DONE_WORDS)
        rules = (
            (_UNRESOLVED, (local > 0) & (review | vague | self._uncertain), local),
            (_IDENTITY, (is_preference | is_fact) & (self._applies >= ranking.MIN_WEIGHT), self._applies),
            (_IDENTITY, is_preference & (shared > 0), shared),
            (_RECENT_EVENTS, nodes.of_kinds(*EVENTS) & (local > 0) & (age >= 0) & (age <= RECENT), local),
            (_RELATIONSHIPS, nodes.of_kinds(*RELATED) & self._tied, self._tie),
            (_PATTERNS, nodes.of_kinds("pattern") & (shared > 0), shared),
            (_GOALS, nodes.of_kinds("goal") & (shared > 0) & ~done, shared),
        )
        fitting = [fits for _, fits, _ in rules]
        sections = np.select(fitting, [np.intp(section) for section, _, _ in rules], np.intp(_ACTIVE))
        weights = np.select(fitting, [weight for _, _, weight in rules], self._weigh_relevance(shared))
        return sections, weights, np.where(sections == _UNRESOLVED, np.where(review, 1, 2), 0)

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
        near = np.where(self._near & ~self._for_others, ranking.BASE_WEIGHT, 0.0)
        return np.where(self._tied, self._tie, np.where(self._own, ranking.OWN_WEIGHT, near))

    def _weigh_shared(self) -> NDArray[np.float64]:
        """The same of nodes that may concern all agents; less if tagged for others, 0 if it is bound to them.

        A goal that it wrote for another agent is its own; a pattern or preference for another is not.
        """
        free = ~self._bound | self._told
        mine = self._own & (free | self._nodes.of_kinds("goal") | self._is_tagged)
        others = np.where(self._for_others, ranking.OTHERS_WEIGHT, ranking.BASE_WEIGHT)
        unbound = np.where(free, others, 0.0)
        return np.where(self._tied, self._tie, np.where(mine, ranking.OWN_WEIGHT, unbound))

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
        shared = np.where(nodes.of_kinds("decision"), shared, 0.0)
        shared = np.where(told, np.maximum(shared, ranking.BASE_WEIGHT), shared)
        shared = np.where(nodes.of_kinds("fact") & self._own, ranking.OWN_WEIGHT, shared)
        relevance = 0.5 * nearness(nodes.compare(self._scope.direction)) + 0.5 / (1 + self._work)
        weights = np.maximum(relevance, np.maximum(self._tie, shared))
        weights = np.where((weights >= FLOOR) | (shared > 0), weights, 0.0)
        return np.where(in_context, weights, shared)


def nearness(cosines: NDArray[np.float64]) -> NDArray[np.float64]:
    """How near in meaning, 0 to 1, texts of these cosines are."""
    near: NDArray[np.float64] = np.clip((cosines - FAR) / (1 - FAR), 0.0, 1.0)
    return near


def contain(known: Collection[str], ids: Sequence[str]) -> Mask:
    """Which of the ids are known."""
    return np.fromiter(map(known.__contains__, ids), np.bool_, len(ids))
