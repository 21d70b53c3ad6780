"""What takes the place of what: evidence of texts weighed, what their nodes allow, open questions judged.

The evidence is weighed by the classifier ``supersession``. The chances of all that a text may take the place
of are taken together: it takes the place of one at most, so that what looks as much like several takes
none's.
"""

from collections.abc import Collection, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec
import numpy as np

from services.memory.classifier import ModelLabels, open_classifier
from services.memory.graph.decay import parse_time
from services.memory.linking import evidence
from services.memory.linking.rules import (
    KINDS,
    UNDECIDED,
    age_order,
    is_assertion,
    make_edge,
    still_holds,
    valid_since,
)
from services.memory.linking.statements import Reading, read_text
from services.memory.linking.text_comparison import are_opposed, jaccard, parse_text
from services.memory.writes.change import embedded_text, name_edge
from shared.contracts import Edge, EdgeKey, MemoryWrite, Node, Relation
from shared.memory.ownership import CHANNEL, find_owner, may_end
from shared.reasoning.model import ModelSession
from shared.text.display import excerpt

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

COMPARED = 0.5
"""The cosine from which two claims are compared. Of 97 pairs of which the later takes the place of the
earlier, in other words too, the least had .62; half of unrelated pairs are under .48."""

TOGETHER = 1.0
"""Seconds within which the pieces of one file are made: microseconds apart, so that they keep their order."""

TITLES = 0.9  # The share of words from which two titles name the same subject

SAME_TITLE = 0.85  # The cosine that texts under one title need: "Meeting notes" is the title of many things

WEIGHT = 0.9


LIKELY = "likely"  # The rule of what is replaced by weight of evidence

LIKELIER = 0.5
"""The chance by itself from which what says the same as something that is replaced is replaced too."""

CONTRADICTION = 0.80
"""The cosine from which a negation on one side alone makes two assertions contradict each other (issue 3)."""


SURE = 0.7  # The chance from which a text takes the place of another

ASKED = 0.25
"""The chance from which that is asked about. In eight stores that took no part in fitting .35 left 10
outdated claims standing; from .25 on 7 of these are asked about, and 7 of 402 that hold; from .2 on 8 and 11.
"""

ENDED = 0.9  # The least chance of a pair of which the newer text says the older one with "no longer"

LEAST = 4  # Both share one of so many words of the longest sentence of either, or they are not compared

MOST = 0.9999  # The highest chance of a pair by itself


class Pair(NamedTuple):
    """Two texts of which the newer one may take the place of the older, and the cosine of their vectors."""

    newer: str
    older: str
    cosine: float


def may_compare(new: Reading, old: Reading) -> bool:
    """Whether two texts share enough words, and the newer one is no mere question."""
    shared = len(new.keys & old.keys)
    longest = (max(len(each.terms) for each in text.statements) for text in (new, old) if text.statements)
    asks = new.statements and all("question" in each.cues for each in new.statements)
    return not asks and shared > 0 and LEAST * shared >= min(longest)


def estimate(pairs: Sequence[Pair], beside: Sequence[str] = ()) -> list[float]:
    """The chance of each pair, 0 to 1, that the newer text takes the place of the older.

    0 if they share few words. ``beside`` are the notes that are like them: what several of these have in
    common is how such things are put, and not what they are about.
    """
    readings = [(read_text(pair.newer), read_text(pair.older), pair) for pair in pairs]
    compared = [place for place, (new, old, _) in enumerate(readings) if may_compare(new, old)]
    chances = [0.0] * len(pairs)
    if not compared:
        return chances
    notes = {text: read_text(text).keys for text in beside}
    rows = []
    for new, old, pair in (readings[place] for place in compared):
        others = [keys for text, keys in notes.items() if text not in (pair.newer, pair.older)]
        rows.append(evidence.gather(new, old, pair.cosine, others))
    classifier = open_classifier("supersession")
    odds = np.exp(-classifier.score(classifier.arrange(rows))[:, 0].astype(np.float64)).tolist()
    for place, row, against in zip(compared, rows, odds, strict=True):
        chance = max(ENDED * evidence.is_ended(row), 1 / (1 + against))
        if evidence.are_apart(row):
            chance = 0.0
        elif evidence.is_mere_denial(row) or evidence.is_mere_addition(row):
            chance = min(chance, ASKED)
        chances[place] = chance
    return chances


def share_chances(chances: Sequence[float], same: Collection[tuple[int, int]] = ()) -> list[float]:
    """The chances of what one text may take the place of, if it does so of one claim at most.

    Of odds o for each by itself, it is that one with the chance o / (1 + the sum of all odds). Those that are
    the ``same`` claim, by their places in order, do not compete, and have the highest chance of them.
    """
    odds = [min(chance, MOST) / (1 - min(chance, MOST)) for chance in chances]
    places = range(len(odds))
    mates = [[at for at in places if (min(at, place), max(at, place)) in same] for place in places]
    shared = [
        mine / (1 + sum(other for at, other in enumerate(odds) if at not in mates[place]))
        for place, mine in enumerate(odds)
    ]
    return [max(shared[at] for at in (place, *mates[place])) for place in places]


SHORT = 20
"""The most words of a passage that states one thing: what manuals explain at length is like much near it."""

SURELY = 0.9
"""The chance from which one of them may take the place of another. Of the 3,580 passages of three projects'
manuals, 8 % ended others, none rightly, without it and what else stands here."""

DENIED = 0.5  # The share of words that a text and what denies it have in common

SAVED_AT_ONCE = 30.0  # Seconds within which files are saved that are copied, unpacked or cloned together


def are_undated(one: Node, other: Node) -> bool:
    """Whether both are passages of files that bear no date: they are as old as their files."""
    return all(node.source.channel == CHANNEL and not node.valid_from for node in (one, other))


def doubt_order(newer: Node, older: Node, chance: float) -> float:
    """The ``chance`` that one takes the place of the other, of two of which the files alone tell the order.

    All of a document was true when it was saved, and all files of a copy were saved at once: there only
    what says that something changed takes a place, and the rest is asked about.
    """
    if chance < SURELY:
        return 0.0
    apart = parse_time(newer.created_at) - parse_time(older.created_at) > SAVED_AT_ONCE
    cues = read_text(embedded_text(newer)).cues
    return chance if apart or any(cues[name] for name in evidence.MARKS) else ASKED


def are_short(one: Node, other: Node) -> bool:
    """Whether both state one thing; what explains several is not held against others."""
    return all(len((node.body or node.title).split()) <= SHORT for node in (one, other))


def may_deny(one: Node, other: Node) -> bool:
    """Whether a negation in one of them can deny the other: manuals are full of them."""
    words = [set(parse_text(node.body or node.title).content) for node in (one, other)]
    return are_short(one, other) and jaccard(*words) >= DENIED


def may_supersede(newer: Node, older: Node, cosine: float) -> bool:
    """Whether ``newer`` can take the place of ``older``, whatever they say: by kinds, cosine, time, owner."""
    if cosine < COMPARED or not {newer.kind, older.kind} <= KINDS or valid_since(newer) <= valid_since(older):
        return False
    # What the office learned from goals is counted, and retired by its use
    if any(node.kind == "pattern" and node.source.channel == "goal" for node in (newer, older)):
        return False
    if are_undated(newer, older) and not are_short(newer, older):
        return False
    return may_end(newer, older) and not are_siblings(newer, older)


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
    return evidence.say_the_same(*(read_text(embedded_text(node)) for node in (one, other, newer)))


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
    return make_edge(newer, older, Relation.SUPERSEDES, WEIGHT, **edge)


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
    return make_edge(newer, older, Relation.CONTRADICTS, weight, by="contradiction", score=weight, **rule)


LOOKED_AT = 5_000  # The last edges of the linker among which open questions are searched

MAX_PAIRS = 20  # The pairs of one pass, in one call: the next pass has the rest

MAX_CHARACTERS = 500  # What the model gets of each statement

RULE = "model"  # The rule of an edge ``supersedes`` that the model decided

JUDGED = "judged"
"""What the provenance of a question has that the model could not decide: it is not asked again."""

REPLACED, BOTH, UNSURE = "replaced", "both", "unsure"

_ORDER = f"""Each text has two statements from a team's memory, the OLD one and a NEW one that came later.
Say what holds now:
{REPLACED}: the NEW one takes the place of the OLD one: the same thing has another value, owner, day or tool
{BOTH}: both hold, as when they are about two things, teams, environments or times, or one adds to the other
{UNSURE}: it cannot be told from the two alone
Answer with the label of each text, by its number."""


class Question(NamedTuple):
    """An edge that asks whether ``newer`` takes the place of ``older``."""

    edge: Edge
    newer: Node
    older: Node


class ModelJudge:
    """Asks the small model, within the budgets of memory."""

    def __init__(self, models: ModelSession) -> None:
        self._labels = ModelLabels(models, _ORDER, Literal["replaced", "both", "unsure"], MAX_PAIRS)

    async def judge(self, questions: Sequence[Question]) -> list[str]:
        """REPLACED, BOTH or UNSURE for each question; "" where the model gave no answer."""
        return await self._labels.find(
            [f"OLD: {_tell(question.older)} NEW: {_tell(question.newer)}" for question in questions]
        )


def _tell(node: Node) -> str:
    since = (node.valid_from or node.created_at)[:10]
    return f"({since}) {excerpt(embedded_text(node), MAX_CHARACTERS)}"


def find_questions(view: "View", moment: float) -> list[Question]:
    """The open questions that were not judged yet, the latest first, at most MAX_PAIRS.

    What an agent wrote is no question of the linker, whatever it calls itself: with the model's help it
    would end what others wrote.
    """
    found = []
    for edge in view.graph.latest_made(LOOKED_AT):
        provenance = edge.provenance
        if provenance.get("rule") != UNDECIDED or {JUDGED, "agent"} & provenance.keys():
            continue
        pair = [node for node in view.nodes([edge.from_id, edge.to_id]) if not node.retired_version]
        if len(pair) == 2 and all(still_holds(node, moment) for node in pair):
            older, newer = sorted(pair, key=age_order)
            found.append(Question(edge, newer, older))
        if len(found) == MAX_PAIRS:
            break
    return found


def settle(view: "View", questions: Sequence[Question], verdicts: Sequence[str]) -> MemoryWrite | None:
    """The write that makes the verdicts so; None for none.

    What was replaced ends when the newer began. The question goes, but if it stays undecided: people are
    then asked, and the model not again. A pair that was written meanwhile is left out.
    """
    ended: dict[str, Node] = {}
    edges: list[Edge] = []
    unlink: list[EdgeKey] = []
    for question, verdict in zip(questions, verdicts, strict=True):
        edge, newer, older = question
        if not verdict or older.id in ended or newer.id in ended or not _is_current(view, question):
            continue
        if verdict == UNSURE:
            provenance = {**edge.provenance, JUDGED: verdict}
            edges.append(msgspec.structs.replace(edge, provenance=provenance, version=0))
            continue
        unlink.append(name_edge(edge))
        if verdict == REPLACED:
            ended[older.id] = end_validity(older, newer)
            edges.append(_supersede(question))
    if not (edges or unlink):
        return None
    return MemoryWrite(
        sender="memory", nodes=tuple(ended.values()), edges=tuple(edges), unlink=tuple(unlink), insist=True
    )


def _is_current(view: "View", question: Question) -> bool:
    edge, newer, older = question
    nodes = view.nodes([newer.id, older.id])
    same = [node.version for node in nodes] == [newer.version, older.version]
    return same and view.graph.edge(edge.from_id, edge.to_id, edge.relation.value) is not None


def _supersede(question: Question) -> Edge:
    provenance = {**question.edge.provenance, "by": "supersession", "rule": RULE}
    return Edge(
        from_id=question.newer.id,
        to_id=question.older.id,
        relation=Relation.SUPERSEDES,
        weight=WEIGHT,
        provenance=provenance,
    )
