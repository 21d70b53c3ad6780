"""How likely texts take the place of others: evidence, weighed by the classifier ``supersession``.

The chances of all that a text may take the place of are
taken together: it takes the place of one at most, so that what looks as much like several takes none's.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from services.memory.classifier import open_classifier
from services.memory.linking import claim_words as table
from services.memory.linking import evidence
from services.memory.linking.statements import read_text

if TYPE_CHECKING:
    from services.memory.linking.statements import Reading

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


def may_compare(new: "Reading", old: "Reading") -> bool:
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


def say_the_same(one: str, other: str, newer: str) -> bool:
    """Whether of two texts one says what the other says, and ``newer`` has no word in which they differ."""
    return evidence.say_the_same(read_text(one), read_text(other), read_text(newer))


def name_the_same(one: str, other: str) -> bool:
    """Whether two texts have a word in common that says what they are about."""
    return not read_text(one).keys.isdisjoint(read_text(other).keys)


def tells_change(text: str) -> bool:
    """Whether a text says that something ended, changed, or is so from now on."""
    return any(read_text(text).cues[name] for name in evidence.MARKS)


def have_other_values(one: str, other: str) -> bool:
    """Whether texts that look the same give other amounts, days or times, or one tells an end."""
    first, second = read_text(one), read_text(other)
    if bool(first.cues["end"]) != bool(second.cues["end"]):
        return True
    ours, theirs = _typed_values(first), _typed_values(second)
    return bool({family for family, _ in ours - theirs} & {family for family, _ in theirs - ours})


def _typed_values(text: "Reading") -> set[tuple[str, str]]:
    terms = (term for statement in text.statements for term in statement.terms if term.type)
    return {(table.FAMILIES.get(term.type, term.type), term.key.partition(":")[2]) for term in terms}
