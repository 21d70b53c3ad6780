"""Which of some texts, that are no memories, a message is about: by its words, and by meaning."""

import difflib
import math
import operator
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from shared.errors import BusError
from shared.memory.client import Memory
from shared.text.prose import find_stems, find_terms

NEAR = 0.62  # The least cosine at which a text counts as about what is asked
CLOSE = 0.03  # How much less near than the nearest the others may be
COMPARED = 60  # The most texts whose meaning is compared, the first ones
COMPARED_LENGTH = 1_000  # Characters of each
LIKE = 0.84  # The least likeness of a word to one that is written otherwise: "sensr"
MOST_MORE = 2  # How many letters it may have more or less
LEAST_LIKE = 4  # The letters of the shortest word that is
ENOUGH = 0.75  # The share of what the best one has of the words, from which others count beside it


class Matched(NamedTuple):
    """The places of texts, the best first, and the words that the best one has not."""

    places: list[int]
    missing: list[str]


def match_words(terms: Mapping[str, str], texts: Sequence[Collection[str]]) -> Matched:
    """The texts, as sets of stems, that have most of ``terms``, words by their stems; the rare ones count.

    A word that none has counts as one that is written nearly so.
    """
    known = {stem: names for stem in terms if (names := _find_like(stem, texts))}
    missing = [word for stem, word in terms.items() if stem not in known]
    marks: dict[int, float] = Counter()  # type: ignore[assignment]
    for names in known.values():
        having = [place for place, stems in enumerate(texts) if not names.isdisjoint(stems)]
        for place in having:
            marks[place] += math.log((len(texts) + 1) / len(having)) + 0.1
    if not marks:
        return Matched([], missing)
    best = max(marks.values())
    places = sorted(
        (place for place in marks if marks[place] >= ENOUGH * best), key=lambda each: -marks[each]
    )
    missing += [terms[stem] for stem, names in known.items() if names.isdisjoint(texts[places[0]])]
    return Matched(places, missing)


def _find_like(stem: str, texts: Sequence[Collection[str]]) -> frozenset[str]:
    if any(stem in stems for stems in texts):
        return frozenset({stem})
    if len(stem) <= LEAST_LIKE:
        return frozenset()
    # of the same beginning and about as long: all others would take a second of many texts
    known = {
        each
        for stems in texts
        for each in stems
        if each[:1] == stem[0] and abs(len(each) - len(stem)) <= MOST_MORE
    }
    return frozenset(difflib.get_close_matches(stem, known, 2, LIKE))


async def match_meaning(memory: Memory, text: str, texts: Sequence[str]) -> list[int]:
    """The places of the first ``texts`` that are near to ``text``, the nearest first; none without memory."""
    compared = [each[:COMPARED_LENGTH] for each in texts[:COMPARED]]
    try:
        asked, *vectors = await memory.embed(text, *compared)
    except BusError:
        return []
    near = sorted(
        ((sum(map(operator.mul, asked, each)), place) for place, each in enumerate(vectors)), reverse=True
    )
    return [place for mark, place in near if mark >= max(NEAR, near[0][0] - CLOSE)]


async def find_about(memory: Memory, text: str, texts: Sequence[str]) -> list[int]:
    """The places of the ``texts`` that ``text`` is about, best first: with its words, else in meaning."""
    matched = match_words(find_terms(text), [find_stems(each) for each in texts])
    if matched.places and not matched.missing:
        return matched.places
    near = await match_meaning(memory, text, texts)
    return list(dict.fromkeys([*near, *matched.places]))
