"""The rules for pairs of nodes: what makes them duplicates, contradictions, replacements, or related."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import msgspec

from services.memory.graph.decay import parse_time
from services.memory.linking.chances import (
    ASKED,
    SURE,
    Pair,
    estimate,
    have_other_values,
    name_the_same,
    say_the_same,
)
from services.memory.linking.text_comparison import are_opposed, find_difference, jaccard, parse_text
from services.memory.linking.undated import SURELY, are_short, are_undated, doubt_order, may_deny
from services.memory.writes.change import embedded_text
from shared.contracts import Edge, Node, Relation
from shared.memory.ownership import find_owner, may_end
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

CONTRADICTION = 0.80
"""The cosine from which a negation on one side alone makes two assertions contradict each other (issue 3)."""

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

COMPARED = 0.5
"""The cosine from which two claims are compared. Of 97 pairs of which the later takes the place of the
earlier, in other words too, the least had .62; half of unrelated pairs are under .48."""

TOGETHER = 1.0
"""Seconds within which the pieces of one file are made: microseconds apart, so that they keep their order."""

TITLES = 0.9  # The share of words from which two titles name the same subject

SAME_TITLE = 0.85  # The cosine that texts under one title need: "Meeting notes" is the title of many things

WEIGHT = 0.9

UNDECIDED = "undecided"
"""The rule of a contradiction that asks whether the newer one takes the place of the older."""

LIKELY = "likely"  # The rule of what is replaced by weight of evidence

LIKELIER = 0.5
"""The chance by itself from which what says the same as something that is replaced is replaced too."""

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


def still_holds(node: Node, moment: float) -> bool:
    """Whether it still holds at ``moment``: it has no valid_to, or a later one."""
    return not node.valid_to or parse_time(node.valid_to) > moment


def link_similar(newer: Node, older: Node, cosine: float) -> Edge | None:
    """``newer`` related_to ``older`` with the cosine as its weight, from LINK on; None below."""
    if cosine < LINK:
        return None
    weight = round(min(1.0, cosine), 4)
    return _edge(newer, older, Relation.RELATED_TO, weight, by="similarity", score=weight)


def is_generic(neighbours: int) -> bool:
    """Whether so many neighbours from LINK on make a node generic."""
    return neighbours > MAX_NEIGHBOURS


def is_flagged(node: Node) -> bool:
    """Whether a node was found generic."""
    return node.metadata.get("flag") == FLAG


def find_contradiction(
    newer: Node, older: Node, cosine: float, moment: float, chance: float = 0.0
) -> Edge | None:
    """``newer`` contradicts ``older``: both are assertions that hold at ``moment``, and either they are alike
    from CONTRADICTION on and exactly one of them is negated (see ``are_opposed``), or the ``chance`` that the
    newer one takes the place of the older is at least ASKED (the edge's rule is "undecided"). None otherwise.

    Supersession is to be searched first.
    """
    if not (is_assertion(newer) and is_assertion(older)):
        return None
    if not (still_holds(newer, moment) and still_holds(older, moment)):
        return None
    opposed = cosine >= CONTRADICTION and are_opposed(embedded_text(newer), embedded_text(older))
    opposed = opposed and (not are_undated(newer, older) or may_deny(newer, older))
    if not opposed and not (may_supersede(newer, older, cosine) and chance >= ASKED):
        return None
    weight = round(min(1.0, cosine), 4)
    rule = {} if opposed else {"rule": UNDECIDED}
    return _edge(newer, older, Relation.CONTRADICTS, weight, by="contradiction", score=weight, **rule)


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
        return _edge(newer, older, Relation.RELATED_TO, CLOSE_IN_TIME, by="structural", rule="time")
    if newer.source.session and newer.source.session == older.source.session:
        return _edge(newer, older, Relation.RELATED_TO, SAME_SESSION, by="structural", rule="session")
    return None


def link_by_tags(newer: Node, older: Node) -> Edge | None:
    """The link of two nodes with at least two tags in common: .5, a tenth more for each further one."""
    shared = len(set(newer.tags) & set(older.tags))
    if shared < MIN_TAGS:
        return None
    weight = round(min(1.0, SHARED_TAGS * (1 + MORE_TAGS * (shared - MIN_TAGS))), 4)
    return _edge(newer, older, Relation.RELATED_TO, weight, by="structural", rule="tags")


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
    return _edge(decision, event, Relation.LED_TO, LED_TO, by="structural", rule="led_to")


def link_instance(observation: Node, pattern: Node, cosine: float) -> Edge | None:
    """An observation is an instance of a pattern that it resembles from .7 on."""
    if (observation.kind, pattern.kind) != ("observation", "pattern") or cosine < PATTERN:
        return None
    return _edge(observation, pattern, Relation.INSTANCE_OF, INSTANCE_OF, by="structural", rule="instance")


def _edge(start: Node, end: Node, relation: Relation, weight: float, **provenance: Any) -> Edge:
    return Edge(from_id=start.id, to_id=end.id, relation=relation, weight=weight, provenance=provenance)


def may_supersede(newer: Node, older: Node, cosine: float) -> bool:
    """Whether ``newer`` can take the place of ``older``, whatever they say: by kinds, cosine, time, owner."""
    if cosine < COMPARED or not {newer.kind, older.kind} <= KINDS or valid_since(newer) <= valid_since(older):
        return False
    if is_learned(newer) or is_learned(older) or (are_undated(newer, older) and not are_short(newer, older)):
        return False
    return may_end(newer, older) and not are_siblings(newer, older)


def is_learned(node: Node) -> bool:
    """Whether it is a pattern that the office learned from goals: it is counted, and retired by its use."""
    return node.kind == "pattern" and node.source.channel == "goal"


def are_siblings(one: Node, other: Node) -> bool:
    """Whether they are records of one file beside each other: two rows of a table are of two things.

    Such records have the path to them before their names in their titles, and were taken in together.
    """
    if not one.metadata.get("file") or one.metadata.get("file") != other.metadata.get("file"):
        return False
    (path, _, name), (other_path, _, other_name) = (node.title.rpartition(" › ") for node in (one, other))
    together = abs(valid_since(one) - valid_since(other)) < TOGETHER
    return bool(path) and path == other_path and name != other_name and together


def estimate_chances(
    pairs: Sequence[tuple[Node, Node, float]], beside: Sequence[Node], moment: float
) -> list[float]:
    """The chance of each pair (newer, older, cosine), by itself, that the newer one takes the place of the
    older; 0 if one of them does not hold at ``moment``, and doubted if neither bears a date (``undated``).
    ``beside`` are the nodes that are like them.
    """
    places = [
        place
        for place, (newer, older, cosine) in enumerate(pairs)
        if may_supersede(newer, older, cosine) and still_holds(newer, moment) and still_holds(older, moment)
    ]
    texts = [
        Pair(embedded_text(newer), embedded_text(older), cosine)
        for newer, older, cosine in (pairs[place] for place in places)
    ]
    chances = [0.0] * len(pairs)
    for place, chance in zip(places, estimate(texts, list(map(embedded_text, beside))), strict=True):
        newer, older, _ = pairs[place]
        chances[place] = doubt_order(newer, older, chance) if are_undated(newer, older) else chance
    return chances


def find_restatements(newer: Node, older: Sequence[Node], chances: Sequence[float]) -> set[tuple[int, int]]:
    """The pairs of places in ``older`` that say the same, if ``newer`` takes the place of both likelier than
    not.
    """
    likely = [place for place, chance in enumerate(chances) if chance >= LIKELIER]
    return {
        (one, other)
        for one, other in combinations(likely, 2)
        if are_restatements(older[one], older[other], newer)
    }


def are_restatements(one: Node, other: Node, newer: Node) -> bool:
    """Whether two nodes say the same of what ``newer`` speaks of."""
    return say_the_same(embedded_text(one), embedded_text(other), embedded_text(newer))


def find_supersession(
    newer: Node, older: Node, cosine: float, moment: float, chance: float = 0.0
) -> Edge | None:
    """``newer`` supersedes ``older``: both of KINDS and holding at ``moment``, the one since later than the
    other, and either the ``chance`` for it is at least SURE, or both are of one kind, the titles are the same
    to .9 and the texts alike from .85.

    Duplicates are to be searched first. An agent's own note, which may be about something else, is ended by
    what everybody knows from a chance of SURELY on; below that it is asked about. Of two passages without a
    date the titles say nothing.
    """
    if not (
        may_supersede(newer, older, cosine) and still_holds(newer, moment) and still_holds(older, moment)
    ):
        return None
    rule = LIKELY if chance >= (SURE if find_owner(newer) == find_owner(older) else SURELY) else ""
    alike = cosine >= SAME_TITLE and newer.kind == older.kind and not are_undated(newer, older)
    if not rule and alike and have_same_title(newer, older):
        rule = "title"
    if not rule:
        return None
    score = round(min(1.0, cosine), 4)
    edge = {"by": "supersession", "rule": rule, "score": score, "chance": round(chance, 2)}
    return _edge(newer, older, Relation.SUPERSEDES, WEIGHT, **edge)


def end_validity(older: Node, newer: Node) -> Node:
    """``older`` as no longer holding since ``newer`` does."""
    return msgspec.structs.replace(
        older,
        valid_to=newer.valid_from or newer.created_at,
        updated_at=older.updated_at or older.created_at,
    )


def have_same_title(one: Node, other: Node) -> bool:
    """Whether both have a body under a title of at least two words, the titles sharing .9 of these and all
    numbers, and do not come from different files or the same session, since a title is a heading there.
    """
    if not (one.body and other.body) or one.metadata.get("path") != other.metadata.get("path"):
        return False
    if one.source.session and one.source.session == other.source.session:
        return False
    first, second = parse_text(one.title), parse_text(other.title)
    words = set(first.content), set(second.content)
    return min(map(len, words)) >= 2 and first.numbers == second.numbers and jaccard(*words) >= TITLES
