"""Links that follow from where and when something was remembered, and from its tags."""

from shared.contracts import Edge, Node, Relation

SAME_SESSION = 0.3
CLOSE_IN_TIME = 0.4
SHARED_TAGS = 0.5
LED_TO = 0.6
INSTANCE_OF = 0.7
"""The weights of issue 3."""

WINDOW = 30 * 60
"""Seconds within which what one agent remembers belongs together."""

MIN_TAGS = 2
MORE_TAGS = 0.1
"""Each shared tag beyond the second adds a tenth to the weight."""

PATTERN = 0.7
"""The cosine from which an observation is an instance of a pattern."""

NEAREST = 3
"""Links to so many neighbours in time on either side: a session of 600 turns is a chain, not a knot."""

MOST_TAGGED = 5
"""Links to so many nodes with the same tags."""


def relate_in_time(newer: Node, older: Node, seconds: float) -> Edge | None:
    """The link of two nodes that lie ``seconds`` apart: of the same agent within 30 minutes .4, else of the
    same session .3; None where neither holds.
    """
    if newer.source.agent and newer.source.agent == older.source.agent and seconds <= WINDOW:
        return _edge(newer, older, Relation.RELATED_TO, CLOSE_IN_TIME, "time")
    if newer.source.session and newer.source.session == older.source.session:
        return _edge(newer, older, Relation.RELATED_TO, SAME_SESSION, "session")
    return None


def relate_by_tags(newer: Node, older: Node) -> Edge | None:
    """The link of two nodes with at least two tags in common: .5, a tenth more for each further one."""
    shared = len(set(newer.tags) & set(older.tags))
    if shared < MIN_TAGS:
        return None
    weight = round(min(1.0, SHARED_TAGS * (1 + MORE_TAGS * (shared - MIN_TAGS))), 4)
    return _edge(newer, older, Relation.RELATED_TO, weight, "tags")


def lead_to(decision: Node, event: Node, seconds: float) -> Edge | None:
    """A decision led to an event of the same session that came ``seconds`` (0 or more) after it."""
    if (decision.kind, event.kind) != ("decision", "event") or seconds < 0:
        return None
    if not decision.source.session or decision.source.session != event.source.session:
        return None
    return _edge(decision, event, Relation.LED_TO, LED_TO, "led_to")


def instantiate(observation: Node, pattern: Node, cosine: float) -> Edge | None:
    """An observation is an instance of a pattern that it resembles from .7 on."""
    if (observation.kind, pattern.kind) != ("observation", "pattern") or cosine < PATTERN:
        return None
    return _edge(observation, pattern, Relation.INSTANCE_OF, INSTANCE_OF, "instance")


def _edge(start: Node, end: Node, relation: Relation, weight: float, rule: str) -> Edge:
    provenance = {"by": "structural", "rule": rule}
    return Edge(from_id=start.id, to_id=end.id, relation=relation, weight=weight, provenance=provenance)
