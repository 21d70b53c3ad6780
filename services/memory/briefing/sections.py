"""The sections and what belongs into each: a node has its place in the first one whose rule admits it."""

from collections.abc import Mapping
from typing import NamedTuple

from services.memory.briefing.links import EdgeFacts
from services.memory.briefing.ranking import (
    BASE_WEIGHT,
    MIN_IMPORTANCE,
    MIN_WEIGHT,
    OTHERS_WEIGHT,
    OWN_WEIGHT,
    REVIEW_TAGS,
    happened_at,
    is_active,
    is_current,
    is_flagged,
    is_uncertain,
    is_vague,
    rank,
)
from services.memory.briefing.scope import RECENT, AgentScope, is_own
from shared.contracts import Node

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

RELATED = tuple(
    "agent person people human user contact customer team group organization organisation company"
    " project repository system service server database device tool api".split()
)
"""People, agents and systems, by the names that these kinds have."""

FLOOR = 0.25
"""The least relevance of Active Context: a neighbour of the agent's work by one edge, or as near in meaning
as cosine .7."""

FAR = 0.4
"""The cosine that counts as unrelated: half of the pairs of unrelated texts lie above .48, a tenth under
.39."""

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


def assign_section(node: Node, scope: AgentScope, standing: EdgeFacts, cosine: float) -> Placement | None:
    """The section a node belongs to and its rank there; None if it does not belong to this briefing.

    Scored importance x weight x recency (``rank``). The weight is that of the strongest edge with the
    agent, its instances or what it is an instance of, times theirs; without one OWN_WEIGHT for what is its
    own, BASE_WEIGHT for what concerns all agents or is near. Retired, expired, not yet valid and superseded
    nodes and those below MIN_IMPORTANCE have no place, but the agent's own node always has.
    """
    if scope.node and node.id == scope.node.id:
        return Placement(IDENTITY, AGENT_SCORE)
    if (
        node.importance < MIN_IMPORTANCE
        or node.id in standing.superseded
        or not is_current(node, scope.moment)
    ):
        return None
    for rule in (unresolved, identity, recent_events, relationships, patterns, goals):
        if found := rule(node, scope, standing):
            section, weight, note = found
            return Placement(section, rank(node, weight, scope.moment), note)
    weight = relevance(node, scope, standing, cosine)
    return Placement(ACTIVE, rank(node, weight, scope.moment)) if weight else None


Found = tuple[str, float, str] | None
"""Section, weight, note."""


def unresolved(node: Node, scope: AgentScope, standing: EdgeFacts) -> Found:
    """What is marked for review by a tag, and vague facts, in its neighbourhood and scope; of its suspects
    also what says in its metadata that it is to be reviewed or uncertain.
    """
    weight = local_weight(node, scope, standing)
    if not weight:
        return None
    suspect = node.id in scope.suspects
    if any(tag in REVIEW_TAGS for tag in node.tags) or (suspect and is_flagged(node)):
        return UNRESOLVED, weight, REVIEW_NOTE
    joined = standing.ties[node.id].weight if node.id in standing.ties else BASE_WEIGHT
    if (suspect and is_uncertain(node)) or (not scope.unknown and is_vague(node, joined)):
        return UNRESOLVED, weight, DOUBT_NOTE
    return None


def identity(node: Node, scope: AgentScope, standing: EdgeFacts) -> Found:
    """Preferences and facts that apply to it, and preferences that are its own or concern all agents."""
    if node.kind not in ("preference", "fact"):
        return None
    if node.id in standing.ties and standing.ties[node.id].applies >= MIN_WEIGHT:
        return IDENTITY, standing.ties[node.id].applies, ""
    weight = shared_weight(node, scope, standing) if node.kind == "preference" else 0.0
    return (IDENTITY, weight, "") if weight else None


def recent_events(node: Node, scope: AgentScope, standing: EdgeFacts) -> Found:
    """Events of the last 48 hours in its neighbourhood and scope."""
    if node.kind not in EVENTS or not 0 <= scope.moment - happened_at(node) <= RECENT:
        return None
    weight = local_weight(node, scope, standing)
    return (RECENT_EVENTS, weight, "") if weight else None


def relationships(node: Node, scope: AgentScope, standing: EdgeFacts) -> Found:
    """People, agents and systems that it has an edge with."""
    if node.kind not in RELATED or node.id not in standing.ties:
        return None
    joined = standing.ties[node.id]
    return (RELATIONSHIPS, joined.weight, joined.note) if joined.weight >= MIN_WEIGHT else None


def patterns(node: Node, scope: AgentScope, standing: EdgeFacts) -> Found:
    """Patterns that apply to it, to its instances, or to no agent in particular."""
    weight = shared_weight(node, scope, standing) if node.kind == "pattern" else 0.0
    return (PATTERNS, weight, "") if weight else None


def goals(node: Node, scope: AgentScope, standing: EdgeFacts) -> Found:
    """Active goals of its own, and those of no agent in particular."""
    weight = shared_weight(node, scope, standing) if node.kind == "goal" and is_active(node) else 0.0
    return (GOALS, weight, "") if weight else None


def relevance(node: Node, scope: AgentScope, standing: EdgeFacts, cosine: float) -> float:
    """How much decisions, facts, events, preferences and tasks have to do with what the agent has been
    doing; 0: too little.

    0.5 x near + 0.5 x graph, or the weight of its edge with the agent if that is higher: near is (cosine
    with the mean of the agent's latest nodes - FAR) / (1 - FAR), graph 1 / (1 + steps to the nearest of
    these). Decisions that concern all agents have at least the weight of such nodes.
    """
    if node.kind not in CONTEXT:
        return 0.0
    shared = shared_weight(node, scope, standing) if node.kind == "decision" else 0.0
    if scope.unknown:
        return shared
    near = nearness(cosine)
    graph = 1 / (1 + scope.work[node.id]) if node.id in scope.work else 0.0
    joined = standing.ties[node.id].weight if node.id in standing.ties else 0.0
    weight = max(0.5 * near + 0.5 * graph, joined, shared)
    return weight if weight >= FLOOR else 0.0


def nearness(cosine: float) -> float:
    """How near in meaning, 0 to 1, texts of this cosine are."""
    return min(1.0, max(0.0, (cosine - FAR) / (1 - FAR)))


def local_weight(node: Node, scope: AgentScope, standing: EdgeFacts) -> float:
    """The weight of what has to be the agent's own, or near it; 0 for what is neither."""
    if node.id in standing.ties and standing.ties[node.id].weight >= MIN_WEIGHT:
        return standing.ties[node.id].weight
    if is_own(node, scope.agent):
        return OWN_WEIGHT
    return BASE_WEIGHT if scope.unknown or node.id in scope.near else 0.0


def shared_weight(node: Node, scope: AgentScope, standing: EdgeFacts) -> float:
    """The weight of a node that may be the agent's own or concern all agents; 0 if it is bound to other
    agents.

    A goal that it wrote for another agent is its own; a pattern or preference that it wrote for another is
    not.
    """
    if node.id in standing.ties and standing.ties[node.id].weight >= MIN_WEIGHT:
        return standing.ties[node.id].weight
    free = node.id not in standing.bound or is_global(node)
    if is_own(node, scope.agent) and (free or node.kind == "goal" or scope.agent in node.tags):
        return OWN_WEIGHT
    if free:
        return BASE_WEIGHT
    return OTHERS_WEIGHT if scope.unknown else 0.0


def is_global(node: Node) -> bool:
    """Whether it has the tag ``global``: it concerns all agents."""
    return "global" in node.tags
