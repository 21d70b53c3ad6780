"""The sections and what belongs into each: a node has its place in the first one whose rule admits it."""

from collections.abc import Mapping
from typing import NamedTuple

from services.memory.briefing import ranking
from services.memory.briefing.links import NO_TIE, EdgeFacts, Tie
from services.memory.briefing.page import NEAR, OWN, REST
from services.memory.briefing.page import SHARED as FOR_ALL
from services.memory.briefing.scope import RECENT, AgentScope, is_for_others, is_own, is_private
from shared.contracts import Node
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
GENERIC = "generic"
"""The linker's flag of what is similar to many nodes."""

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


def assign_section(node: Node, scope: AgentScope, facts: EdgeFacts, cosine: float) -> Placement | None:
    """The section a node belongs to and its rank there; None if it does not belong to this briefing.

    The first of these that fits: Unresolved, what is near and marked for review or of low confidence;
    Identity, preferences and facts that apply to the agent, and preferences that concern it or all agents;
    Recent Events, those near of the last 48 hours; Key Relationships, people, agents and systems that it has
    an edge with; Patterns and active Goals that concern it or all agents; Active Context, what is relevant.

    Scored importance x weight x recency (``rank``). Retired, expired, not yet valid and superseded nodes and
    those below MIN_IMPORTANCE have no section, but the agent's own node always has.
    """
    if scope.node and node.id == scope.node.id:
        return Placement(IDENTITY, AGENT_SCORE, tier=OWN)
    tied = facts.ties.get(node.id, NO_TIE).weight >= ranking.MIN_WEIGHT
    if (
        node.importance < ranking.MIN_IMPORTANCE
        or node.id in facts.superseded
        or not ranking.is_current(node, scope.moment)
        or (not tied and is_private(node, scope.agent))
    ):
        return None
    own = is_own(node, scope.agent)
    section, weight, note = _choose_section(node, scope, facts, cosine, own=own)
    if not weight:
        return None
    mine = tied or own
    tier = _choose_tier(node, section, mine=mine, others=not mine and is_for_others(node, scope))
    return Placement(section, ranking.rank(node, weight, scope.moment), note, tier)


def _choose_tier(node: Node, section: str, *, mine: bool, others: bool) -> int:
    """When a node gets room: OWN knowledge, what is SHARED by all, what is NEAR, or the REST.

    The REST is what other agents are named in, what says the same as many others, tasks, and events that
    are no longer recent.
    """
    told = GLOBAL in node.tags
    passing = section == ACTIVE and node.kind in (*EVENTS, "task") and not told
    generic = node.metadata.get("flag") == GENERIC and node.kind not in LASTING
    if others or generic or passing:
        return NEAR if mine and node.kind == "task" else REST
    if node.kind in (*LASTING, "fact") and (mine or section == IDENTITY):
        return OWN if mine else FOR_ALL
    return FOR_ALL if told or node.kind in SHARED or section == UNRESOLVED else NEAR


def _choose_section(
    node: Node, scope: AgentScope, facts: EdgeFacts, cosine: float, *, own: bool
) -> tuple[str, float, str]:
    """Section, weight and note; weight 0 if there is none."""
    tie = facts.ties.get(node.id, NO_TIE)
    local = _local_weight(node, scope, tie, own=own)
    shared = _shared_weight(node, scope, facts, tie, own=own)
    suspect = node.id in scope.suspects
    if local:
        flagged = suspect and ranking.is_flagged(node, but=GENERIC if node.kind in LASTING else "")
        if any(tag in ranking.REVIEW_TAGS for tag in node.tags) or flagged:
            return UNRESOLVED, local, REVIEW_NOTE
        vague = ranking.is_vague(node, tie.weight or ranking.BASE_WEIGHT)
        if vague or (suspect and ranking.is_uncertain(node)):
            return UNRESOLVED, local, DOUBT_NOTE
    if node.kind in ("preference", "fact") and tie.applies >= ranking.MIN_WEIGHT:
        return IDENTITY, tie.applies, ""
    if node.kind == "preference" and shared:
        return IDENTITY, shared, ""
    if node.kind in EVENTS and local and 0 <= scope.moment - ranking.happened_at(node) <= RECENT:
        return RECENT_EVENTS, local, ""
    if node.kind in RELATED and tie.weight >= ranking.MIN_WEIGHT:
        return RELATIONSHIPS, tie.weight, tie.note
    if node.kind == "pattern" and shared:
        return PATTERNS, shared, ""
    if node.kind == "goal" and shared and ranking.is_active(node):
        return GOALS, shared, ""
    return ACTIVE, _relevance(node, scope, tie, shared, cosine, own=own), ""


def _relevance(node: Node, scope: AgentScope, tie: Tie, shared: float, cosine: float, *, own: bool) -> float:
    """How much a node has to do with the agent's work; 0 if too little, or its kind is not in CONTEXT.

    0.5 x near + 0.5 x graph, or the weight of its edge with the agent if that is higher: near is (cosine
    with the mean of the agent's latest nodes - FAR) / (1 - FAR), graph 1 / (1 + steps to the nearest of
    these). Decisions that concern all agents, its own facts, and what is tagged global have at least the
    weight of such nodes.
    """
    shared = shared if node.kind == "decision" else 0.0
    if node.kind in (*CONTEXT, "observation") and GLOBAL in node.tags:
        shared = max(shared, ranking.BASE_WEIGHT)
    if node.kind not in CONTEXT:
        return shared
    if node.kind == "fact" and own:
        shared = ranking.OWN_WEIGHT
    graph = 1 / (1 + scope.work[node.id]) if node.id in scope.work else 0.0
    weight = max(0.5 * nearness(cosine) + 0.5 * graph, tie.weight, shared)
    return weight if weight >= FLOOR or shared else 0.0


def nearness(cosine: float) -> float:
    """How near in meaning, 0 to 1, texts of this cosine are."""
    return min(1.0, max(0.0, (cosine - FAR) / (1 - FAR)))


def _local_weight(node: Node, scope: AgentScope, tie: Tie, *, own: bool) -> float:
    """The weight of the strongest edge with the agent, else of the agent's own or near nodes; else 0."""
    if tie.weight >= ranking.MIN_WEIGHT:
        return tie.weight
    if own:
        return ranking.OWN_WEIGHT
    return ranking.BASE_WEIGHT if node.id in scope.near and not is_for_others(node, scope) else 0.0


def _shared_weight(node: Node, scope: AgentScope, facts: EdgeFacts, tie: Tie, *, own: bool) -> float:
    """The same of nodes that may concern all agents; less if tagged for others, 0 if it is bound to them.

    A goal that it wrote for another agent is its own; a pattern or preference for another is not.
    """
    if tie.weight >= ranking.MIN_WEIGHT:
        return tie.weight
    free = node.id not in facts.bound or GLOBAL in node.tags
    if own and (free or node.kind == "goal" or scope.agent in node.tags):
        return ranking.OWN_WEIGHT
    if not free:
        return 0.0
    return ranking.OTHERS_WEIGHT if is_for_others(node, scope) else ranking.BASE_WEIGHT
