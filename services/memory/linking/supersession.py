"""What takes the place of what: evidence and meaning of texts weighed, and what their nodes allow.

The evidence is weighed by the classifier ``supersession``. The chances of all that a text may take the place
of are taken together: it takes the place of one at most, so that what looks as much like several takes
none's.
"""

import math
from collections.abc import Callable, Collection, Sequence
from itertools import combinations, product
from typing import NamedTuple

import msgspec

from services.memory.classifier import open_classifier
from services.memory.graph.decay import parse_time
from services.memory.linking import evidence
from services.memory.linking.parts import SEPARATOR, divide, name_heading
from services.memory.linking.rules import (
    KINDS,
    UNDECIDED,
    is_assertion,
    is_newer,
    is_undated,
    make_edge,
    share_file,
    still_holds,
    valid_since,
)
from services.memory.linking.statements import Reading, read_text, strip_saying
from services.memory.linking.text_comparison import are_opposed, jaccard, parse_text
from services.memory.writes.change import embedded_text
from shared.contracts import Edge, Node, Relation
from shared.memory.ownership import find_owner, may_end

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


READ = 10  # The likeliest pairs of those that one text makes that are read for their meaning

BY_MEANING, BY_SIGNS, NEITHER = 1.0, 0.3, -0.5
"""What the log-odds of the meaning and of the evidence count in those of both, and what is added to them."""

UNLIKE = -1.0  # The log-odds by evidence of two texts that share too few words to be weighed

Read = Callable[[Sequence[tuple[str, str]]], Sequence[float]]
"""Reads pairs of an older and a newer text: the log-odds that the newer one changes the older; none if
it cannot."""


class Pair(NamedTuple):
    """Two texts of which the newer one may take the place of the older, and the cosine of their vectors.

    ``of`` are the notes that they are statements of, if they are not whole notes.
    """

    newer: str
    older: str
    cosine: float
    of: tuple[str, str] | None = None


def may_compare(new: Reading, old: Reading) -> bool:
    """Whether two texts share enough words for their evidence to be weighed."""
    shared = len(new.keys & old.keys)
    longest = (max(len(each.terms) for each in text.statements) for text in (new, old) if text.statements)
    return shared > 0 and LEAST * shared >= min(longest)


def asks_only(text: Reading) -> bool:
    """Whether a text is a mere question."""
    return bool(text.statements) and all("question" in each.cues for each in text.statements)


def estimate(pairs: Sequence[Pair], beside: Sequence[str] = (), read: Read | None = None) -> list[float]:
    """The chance of each pair, 0 to 1, that the newer text takes the place of the older.

    By evidence of their words, 0 if they share few; and by their meaning too, if ``read`` is given, of the
    READ likeliest of each newer text. ``beside`` are the notes that are like them: what several of these
    have in common is how such things are put, and not what they are about.
    """
    readings = [(read_text(pair.newer), read_text(pair.older), pair) for pair in pairs]
    asking = [asks_only(new) or not old.statements for new, old, _ in readings]
    compared = [
        place for place, (new, old, _) in enumerate(readings) if not asking[place] and may_compare(new, old)
    ]
    notes = {text: read_text(text).keys for text in beside}
    rows: dict[int, evidence.Evidence] = {}
    for place in compared:
        new, old, pair = readings[place]
        others = [keys for text, keys in notes.items() if text not in (pair.of or pair[:2])]
        rows[place] = evidence.gather(new, old, pair.cosine, others)
    odds = [UNLIKE] * len(pairs)
    if rows:
        classifier = open_classifier("supersession")
        scores = classifier.score(classifier.arrange([*rows.values()]))[:, 0]
        for place, score in zip(rows, scores.tolist(), strict=True):
            odds[place] = score
    chances = [_chance(odds[place]) if place in rows else 0.0 for place in range(len(pairs))]
    chosen = [place for place in _choose(pairs, odds) if not asking[place]] if read else []
    if read and (meanings := read([_bare(pairs[place]) for place in chosen])):
        chances = [0.0] * len(pairs)
        for place, meaning in zip(chosen, meanings, strict=True):
            chances[place] = _chance(BY_MEANING * meaning + BY_SIGNS * odds[place] + NEITHER)
    return [_bound(chance, rows[place]) if place in rows else chance for place, chance in enumerate(chances)]


def _bare(pair: Pair) -> tuple[str, str]:
    """The older and the newer text without the time, greeting or "fyi" before it. A word before its colon
    stays if the other one has it too: then it is what the text is about, and not who says it.
    """
    bare = []
    for text, other in ((pair.older, pair.newer), (pair.newer, pair.older)):
        told, label = strip_saying(text)
        if label and read_text(label).keys & read_text(" ".join(strip_saying(other))).keys:
            told = f"{label}: {told}"
        bare.append(told if told and not text.startswith(told) else text)
    return bare[0], bare[1]


def _chance(log_odds: float) -> float:
    return 1 / (1 + math.exp(-max(-700.0, log_odds)))


def _choose(pairs: Sequence[Pair], odds: Sequence[float]) -> list[int]:
    """The places of the pairs to be read: of each newer text the likeliest and the nearest."""
    of: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        of.setdefault(pair.newer, []).append(place)
    chosen: dict[int, None] = {}
    for places in of.values():
        likeliest = sorted(places, key=lambda place: -odds[place])[: READ // 2]
        nearest = sorted(places, key=lambda place: (-pairs[place].cosine, -odds[place]))[: READ // 2]
        chosen |= dict.fromkeys([*likeliest, *nearest])
    return [*chosen]


def _bound(chance: float, row: evidence.Evidence) -> float:
    """The chance within what the words of both allow."""
    if evidence.are_apart(row) or evidence.denies_another(row):
        return 0.0
    chance = max(ENDED * evidence.is_ended(row), chance)
    return min(chance, ASKED) if evidence.is_mere_denial(row) or evidence.is_mere_addition(row) else chance


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


STATEMENTS = 4  # The pairs of statements of two notes that are weighed

SHORT = 20
"""The most words of a passage that states one thing: what manuals explain at length is like much near it."""

SURELY = 0.9
"""The chance from which one of them may take the place of another. Of the 3,580 passages of three projects'
manuals, 8 % ended others, none rightly, without it and what else stands here."""

DENIED = 0.5  # The share of words that a text and what denies it have in common

SAVED_AT_ONCE = 30.0  # Seconds within which files are saved that are copied, unpacked or cloned together


def are_undated(one: Node, other: Node) -> bool:
    """Whether both are passages of files that bear no date: they are as old as their files."""
    return is_undated(one) and is_undated(other)


def doubt_order(newer: Node, older: Node, chance: float) -> float:
    """The ``chance`` that one takes the place of the other, where a passage without a date is among them.

    All of a document was true when it was saved, and all files of a copy were saved at once: there only
    what says that something changed takes a place, and the rest is asked about. What bears no date ends
    nothing that tells a change, and is ended in its own file by what is sure, or tells one.
    """
    undated = is_undated(newer), is_undated(older)
    if undated == (False, True) and share_file(newer, older):
        return chance if chance >= SURELY or tells_change(newer) else min(chance, ASKED)
    if not undated[0]:
        return chance
    if chance < SURELY:
        return 0.0 if undated[1] else min(chance, ASKED)
    if not undated[1]:
        return ASKED if tells_change(older) else chance
    apart = parse_time(newer.created_at) - parse_time(older.created_at) > SAVED_AT_ONCE
    return chance if apart or tells_change(newer) else ASKED


def tells_change(node: Node) -> bool:
    """Whether a node has a sign of change, end or correction."""
    cues = read_text(embedded_text(node)).cues
    return any(cues[name] for name in evidence.MARKS)


def are_short(one: Node, other: Node) -> bool:
    """Whether both state one thing; what explains several is not held against others."""
    return all(len((node.body or node.title).split()) <= SHORT for node in (one, other))


def may_deny(one: Node, other: Node) -> bool:
    """Whether a negation in one of them can deny the other: manuals are full of them."""
    words = [set(parse_text(node.body or node.title).content) for node in (one, other)]
    return are_short(one, other) and jaccard(*words) >= DENIED


def may_supersede(newer: Node, older: Node, cosine: float) -> bool:
    """Whether ``newer`` can take the place of ``older``, whatever they say: by kinds, cosine, time, owner."""
    if cosine < COMPARED or not {newer.kind, older.kind} <= KINDS or not is_newer(newer, older):
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
    (path, _, name), (other_path, _, other_name) = (node.title.rpartition(SEPARATOR) for node in (one, other))
    together = abs(valid_since(one) - valid_since(other)) < TOGETHER
    return bool(path) and path == other_path and name != other_name and together


class Weighed(NamedTuple):
    """How likely statements of ``newer`` take the place of statements of ``older``, by both."""

    newer: Node
    older: Node
    cosine: float
    chances: dict[tuple[str, str], float]

    @property
    def chance(self) -> float:
        """The chance of the likeliest, 0 if none was weighed."""
        return max(self.chances.values(), default=0.0)

    @property
    def ended(self) -> frozenset[str]:
        """The statements of the older one that are replaced if any is: the likeliest, and what is likelier
        than not.
        """
        least = min(self.chance, LIKELIER)
        return frozenset(old for (_, old), chance in self.chances.items() if chance >= least)


def weigh(
    pairs: Sequence[tuple[Node, Node, float]], beside: Sequence[Node], moment: float, read: Read | None = None
) -> list[Weighed]:
    """The chances of each pair (newer, older, cosine), each by itself; none if one of them does not hold at
    ``moment``. They are doubted where a passage bears no date. ``beside`` are the nodes that are like them.
    """
    texts, places = [], []
    for place, (newer, older, cosine) in enumerate(pairs):
        may = (
            may_supersede(newer, older, cosine) and still_holds(newer, moment) and still_holds(older, moment)
        )
        for new, old in _choose_statements(newer, older) if may else ():
            of = embedded_text(newer), embedded_text(older)
            texts.append(Pair(_under(newer, new), _under(older, old), cosine, of))
            places.append((place, (new, old)))
    found = [Weighed(*pair, {}) for pair in pairs]
    chances = estimate(texts, [*map(embedded_text, beside)], read)
    for (place, statements), chance in zip(places, chances, strict=True):
        found[place].chances[statements] = doubt_order(*pairs[place][:2], chance)
    return found


def _choose_statements(newer: Node, older: Node) -> list[tuple[str, str]]:
    """The statements of both that have most words in common."""
    pairs = list(product(divide(newer), divide(older)))
    if len(pairs) <= 1:
        return pairs
    return sorted(pairs, key=lambda pair: -jaccard(*(read_text(text).keys for text in pair)))[:STATEMENTS]


def _under(node: Node, statement: str) -> str:
    """A statement with the heading above it, which says what it is about."""
    heading = name_heading(node)
    return f"{heading}\n{statement}" if heading else statement


def share(weighed: Sequence[Weighed]) -> list[Weighed]:
    """The same, of what one node may take the place of, if each of its statements does so of one claim at
    most.
    """
    shared = [each._replace(chances={}) for each in weighed]
    by_new: dict[str, list[tuple[int, str, float]]] = {}
    for place, each in enumerate(weighed):
        for (new, old), chance in each.chances.items():
            by_new.setdefault(new, []).append((place, old, chance))
    for new, claims in by_new.items():
        chances = [chance for _, _, chance in claims]
        same = {
            (one, other)
            for one, other in combinations([at for at, chance in enumerate(chances) if chance >= LIKELIER], 2)
            if are_restatements(claims[one][1], claims[other][1], new)
        }
        for (place, old, _), chance in zip(claims, share_chances(chances, same), strict=True):
            shared[place].chances[new, old] = chance
    return shared


def are_restatements(one: str, other: str, newer: str) -> bool:
    """Whether two texts say the same of what ``newer`` speaks of."""
    return evidence.say_the_same(*map(read_text, (one, other, newer)))


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


def speak_of_others(one: str, other: str) -> bool:
    """Whether each of two texts speaks of something that the other does not: who works on Mondays may not
    work on Fridays.
    """
    words, others = (set(parse_text(text).content) for text in (one, other))
    return bool(words - others and others - words)


def find_contradiction(
    newer: Node, older: Node, cosine: float, moment: float, chance: float = 0.0
) -> Edge | None:
    """``newer`` contradicts ``older``: both are assertions that hold at ``moment``, and either they are alike
    from CONTRADICTION on and one denies what the other says (see ``are_opposed``, ``speak_of_others``), or
    the ``chance`` that the newer one takes the place of the older is at least ASKED (the edge's rule is
    "undecided"). None otherwise.

    Supersession is to be searched first.
    """
    if not (is_assertion(newer) and is_assertion(older)):
        return None
    if not (still_holds(newer, moment) and still_holds(older, moment)):
        return None
    texts = embedded_text(newer), embedded_text(older)
    opposed = cosine >= CONTRADICTION and are_opposed(*texts) and not speak_of_others(*texts)
    opposed = opposed and (not are_undated(newer, older) or may_deny(newer, older))
    if not opposed and not (may_supersede(newer, older, cosine) and chance >= ASKED):
        return None
    weight = round(min(1.0, cosine), 4)
    rule = {} if opposed else {"rule": UNDECIDED}
    return make_edge(newer, older, Relation.CONTRADICTS, weight, by="contradiction", score=weight, **rule)
