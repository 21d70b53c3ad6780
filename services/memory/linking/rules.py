"""The rules for pairs of nodes: what makes them duplicates, contradictions, replacements, or related."""

from collections.abc import Sequence
from typing import Any

import msgspec

from services.memory.graph.decay import parse_time
from services.memory.linking.statements import have_other_values, name_the_same
from services.memory.linking.text_comparison import find_difference
from services.memory.writes.change import embedded_text
from shared.contracts import Edge, Node, Relation
from shared.memory.ownership import CHANNEL, find_owner
from shared.subjects import CONDUCTOR

OCCURRENCES = frozenset({"agent", "task", "event", "episodic", "turn", "message"})
"""Kinds for agents and for things that took place: two of them are two, however alike they
are. They neither contradict nor replace one another."""

LINK = 0.75
"""The cosine from which two nodes are linked; half of unrelated pairs are under .48 with bge-small."""

MAX_NEIGHBOURS = 30
"""A node with more neighbours than that is similar to everything: it is flagged, not linked.
Of a conversation of 419 turns three in four have more. What takes place is therefore not flagged, and still
linked with what came before and after it; only its likeness to everything else is skipped."""

FLAG = "generic"  # The value of ``metadata["flag"]`` of such a node


DUPLICATE = 0.92  # The cosine from which two nodes may be one (issue 3)

RICHER_EDGES = 2  # More than that many times the edges make a node the one that stays

RICHER_IMPORTANCE = 0.3  # So does an importance that is higher by more than this

MAX_TAGS = 32

SAME_SESSION = 0.3
CLOSE_IN_TIME = 0.4
SHARED_TAGS = 0.5
LED_TO = 0.6
INSTANCE_OF = 0.7  # The weights of issue 3

WINDOW = 30 * 60  # Seconds within which what one agent remembers belongs together

MIN_TAGS = 2
MORE_TAGS = 0.1  # Each shared tag beyond the second adds a tenth to the weight

PATTERN = 0.7  # The cosine from which an observation is an instance of a pattern

NEAREST = 3
"""Links to so many neighbours in time on either side: a session of 600 turns is a chain, not a knot."""

MOST_TAGGED = 5  # Links to so many nodes with the same tags


UNDECIDED = "undecided"
"""The rule of a contradiction that asks whether the newer one takes the place of the older."""

KINDS = frozenset({"fact", "preference", "decision", "goal", "pattern"})
"""Kinds that hold until something else does. One may take the place of another: a decision is told as a
fact, and a rule in a file is taken in as a pattern."""


def is_assertion(node: Node) -> bool:
    """Whether a node says how things are, as facts and decisions do, and the user's own kinds.

    What goals taught does not: of two lessons of one failure, each holds for goals like its own.
    """
    is_lesson = node.kind == "pattern" and node.source.agent == CONDUCTOR
    return node.kind not in OCCURRENCES and not is_lesson


def valid_since(node: Node) -> float:
    """Since when it holds, in seconds since the epoch: valid_from, else its creation."""
    return parse_time(node.valid_from or node.created_at)


def age_order(node: Node) -> tuple[float, str, str]:
    """A sort key: older nodes first."""
    return valid_since(node), node.created_at, node.id


def is_undated(node: Node) -> bool:
    """Whether a node is a passage of a file that bears no date: it was so when the file was saved."""
    return node.source.channel == CHANNEL and not node.valid_from


def share_file(one: Node, other: Node) -> bool:
    """Whether two nodes are passages of one file."""
    return all(node.source.channel == CHANNEL for node in (one, other)) and (
        one.source.session == other.source.session
    )


def sort_by_age(one: Node, other: Node) -> tuple[Node, Node]:
    """The older and the newer one; in a file a passage with a date comes after one without."""
    if share_file(one, other) and is_undated(one) != is_undated(other):
        return (one, other) if is_undated(one) else (other, one)
    older, newer = sorted((one, other), key=age_order)
    return older, newer


def is_newer(one: Node, other: Node) -> bool:
    """Whether ``one`` is the newer one, and not of the same moment."""
    return sort_by_age(one, other)[1] is one and valid_since(one) != valid_since(other)


def still_holds(node: Node, moment: float) -> bool:
    """Whether it still holds at ``moment``: it has no valid_to, or a later one."""
    return not node.valid_to or parse_time(node.valid_to) > moment


def link_similar(newer: Node, older: Node, cosine: float) -> Edge | None:
    """``newer`` related_to ``older`` with the cosine as its weight, from LINK on; None below."""
    if cosine < LINK:
        return None
    weight = round(min(1.0, cosine), 4)
    return make_edge(newer, older, Relation.RELATED_TO, weight, by="similarity", score=weight)


def is_generic(neighbours: int) -> bool:
    """Whether so many neighbours from LINK on make a node generic."""
    return neighbours > MAX_NEIGHBOURS


def is_flagged(node: Node) -> bool:
    """Whether a node was found generic."""
    return node.metadata.get("flag") == FLAG


def are_duplicates(one: Node, other: Node, cosine: float) -> bool:
    """Whether two nodes are one: of the same kind, alike from DUPLICATE on, and one of them says nothing that
    the other does not say (see ``find_difference``). Neither was ever replaced, and both are of one owner.

    What took place is one only if it is the same text of the same session and time.
    """
    if cosine < DUPLICATE or one.kind != other.kind or one.valid_to or other.valid_to:
        return False
    if find_owner(one) != find_owner(other):
        return False
    if not is_assertion(one):
        return bool(one.source.session) and _occasion(one) == _occasion(other)
    first, second = embedded_text(one), embedded_text(other)
    if find_difference(first, second) and find_difference(second, first):
        return False
    return not have_other_values(first, second)


def choose_survivor(one: Node, other: Node, degrees: tuple[int, int]) -> tuple[Node, Node]:
    """Which stays and which goes: the one with more than twice the edges, else the one that is more important
    by more than .3, else the one that was there first, whose id others know.
    """
    first, second = degrees
    if first > RICHER_EDGES * second or second > RICHER_EDGES * first:
        return (one, other) if first > second else (other, one)
    if round(abs(one.importance - other.importance), 6) > RICHER_IMPORTANCE:
        return (one, other) if one.importance > other.importance else (other, one)
    stays, goes = sorted((one, other), key=lambda node: (node.created_version, node.created_at, node.id))
    return stays, goes


def merge_nodes(stays: Node, goes: Node) -> Node:
    """``stays`` with what ``goes`` has beyond it: its text if that says more, its tags (32 in all), metadata
    that is missing, the higher importance, the earlier beginning; ``merged_from`` names the ids it is made
    of.
    """
    fuller = goes if find_difference(embedded_text(goes), embedded_text(stays)) else stays
    merged_from = [*_merged(stays), goes.id, *_merged(goes)]
    begins = min(filter(None, (stays.valid_from, goes.valid_from)), default="")
    metadata = {key: value for key, value in {**goes.metadata, **stays.metadata}.items() if key != "flag"}
    return msgspec.structs.replace(
        stays,
        title=fuller.title,
        body=fuller.body,
        tags=tuple(dict.fromkeys((*stays.tags, *goes.tags)))[:MAX_TAGS],
        metadata={**metadata, "merged_from": list(dict.fromkeys(merged_from))},
        importance=max(stays.importance, goes.importance),
        valid_from=begins if stays.valid_from and goes.valid_from else stays.valid_from,
        updated_at=stays.updated_at or stays.created_at,
    )


def move_edges(edges: Sequence[Edge], goes: str, stays: str) -> list[Edge]:
    """The edges of the node that goes as edges of the one that stays, without those between the two."""
    moved = []
    for edge in edges:
        ends = [stays if end == goes else end for end in (edge.from_id, edge.to_id)]
        if ends[0] != ends[1]:
            provenance = {**edge.provenance, "moved_from": goes}
            moved.append(msgspec.structs.replace(edge, from_id=ends[0], to_id=ends[1], provenance=provenance))
    return moved


def _merged(node: Node) -> list[Any]:
    merged = node.metadata.get("merged_from", [])
    return merged if isinstance(merged, list) else []


def _occasion(node: Node) -> tuple[str, ...]:
    return (embedded_text(node), node.source.session, node.source.agent, node.valid_from or node.created_at)


def link_in_time(newer: Node, older: Node, seconds: float) -> Edge | None:
    """The link of two nodes ``seconds`` apart: of one agent within 30 minutes .4, else of one session .3."""
    if newer.source.agent and newer.source.agent == older.source.agent and seconds <= WINDOW:
        return make_edge(newer, older, Relation.RELATED_TO, CLOSE_IN_TIME, by="structural", rule="time")
    if newer.source.session and newer.source.session == older.source.session:
        return make_edge(newer, older, Relation.RELATED_TO, SAME_SESSION, by="structural", rule="session")
    return None


def link_by_tags(newer: Node, older: Node) -> Edge | None:
    """The link of two nodes with at least two tags in common: .5, a tenth more for each further one."""
    shared = len(set(newer.tags) & set(older.tags))
    if shared < MIN_TAGS:
        return None
    weight = round(min(1.0, SHARED_TAGS * (1 + MORE_TAGS * (shared - MIN_TAGS))), 4)
    return make_edge(newer, older, Relation.RELATED_TO, weight, by="structural", rule="tags")


def link_decision_to_event(decision: Node, event: Node, seconds: float) -> Edge | None:
    """A decision led to an event of the same session that came ``seconds`` (0 or more) after it.

    Of a file, which tells of many things one after another, both have to name something in common.
    """
    if (decision.kind, event.kind) != ("decision", "event") or seconds < 0:
        return None
    if not decision.source.session or decision.source.session != event.source.session:
        return None
    if decision.metadata.get("file") and not name_the_same(embedded_text(decision), embedded_text(event)):
        return None
    return make_edge(decision, event, Relation.LED_TO, LED_TO, by="structural", rule="led_to")


def link_instance(observation: Node, pattern: Node, cosine: float) -> Edge | None:
    """An observation is an instance of a pattern that it resembles from .7 on."""
    if (observation.kind, pattern.kind) != ("observation", "pattern") or cosine < PATTERN:
        return None
    return make_edge(
        observation, pattern, Relation.INSTANCE_OF, INSTANCE_OF, by="structural", rule="instance"
    )


def make_edge(start: Node, end: Node, relation: Relation, weight: float, **provenance: Any) -> Edge:
    """The edge of the linker between two nodes."""
    return Edge(from_id=start.id, to_id=end.id, relation=relation, weight=weight, provenance=provenance)
