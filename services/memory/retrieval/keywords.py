"""Words in RAM: what counts as one, and an inverted index of where each stands."""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.memory.retrieval.growing import Growing, roomy
from services.memory.retrieval.postings import Codes, Counts, Postings, Slots, Stored
from shared.text import words

K1 = 0.9
B = 0.4
"""The usual values for short texts of uneven length (Anserini's), which also served conversations best."""

MAX_WORD = 64
"""Longer words are cut: nobody searches for more of them."""

REMEMBERED = 300_000
"""Words as they are written that are kept with what they are reduced to: working that out takes 30 us."""

SPREAD = 64
"""Words whose counts are kept by slot, a byte each."""

_WORD = re.compile(r"\w+")


class _Reduced(dict[str, tuple[str, ...]]):
    """What each word as it is written is reduced to, worked out when it is first asked for."""

    def __missing__(self, raw: str) -> tuple[str, ...]:
        parts = [part for part in raw.split("_") if part] if "_" in raw else []
        if len(self) >= REMEMBERED:
            self.clear()
        reduced = self[raw] = tuple(words.stem(word[:MAX_WORD]) for word in (raw, *parts))
        return reduced


_reduced = _Reduced()


def split_words(text: str) -> list[str]:
    """The words of a text, case folded and reduced to their stems; snake_case whole and in parts."""
    return list(chain.from_iterable(map(_reduced.__getitem__, _WORD.findall(text.casefold()))))


def count_words(text: str) -> dict[str, int]:
    """How often each word of a text occurs."""
    return Counter(split_words(text))


def plain_words(text: str) -> set[str]:
    """The words of a question as they are written, but for case; without those that say nothing."""
    return {word for word in _WORD.findall(text.casefold()) if word not in PLAIN_STOP_WORDS}


def query_words(text: str) -> set[str]:
    """What a text is searched for: its words without those that say nothing, unless it has no others."""
    found = set(split_words(text))
    return found - STOP_WORDS or found


PLAIN_STOP_WORDS = words.STOP_WORDS | frozenset("him how where why s t d ll re ve m".split())
"""With more question words, and what contractions such as it's or I'd leave behind."""

STOP_WORDS = frozenset(chain.from_iterable(map(split_words, PLAIN_STOP_WORDS)))
"""Left out of a query that has other words: they say nothing about what is sought. Words alone found 58.7 %
of the evidence in conversations without them, 55.1 % with them."""


class Keywords:
    """Which words stand how often in which slot; slots are numbered from 0 in the order of ``extend``.

    In RAM, because a node must be findable as soon as it was stored and LanceDB's index is built anew after
    writes. One thread extends, any number read.
    """

    def __init__(self, stored: Stored | None = None, lengths: NDArray[np.float32] | None = None) -> None:
        self._postings = Postings(stored)
        self._lengths = Growing(np.empty(0, np.float32) if lengths is None else lengths)
        self._spread: dict[str, tuple[int, NDArray[np.uint8]]] = {}

    @classmethod
    def build(cls, texts: Iterable[str]) -> "Keywords":
        """Of the texts of slots 0, 1, 2 ...; 100,000 of 30 words take 1 to 2 s."""
        terms = Codes()
        lengths, codes = _encode(texts, terms)
        slots = np.repeat(np.arange(len(lengths)), lengths)
        keywords = cls(lengths=lengths.astype(np.float32))
        keywords._postings = Postings.build(list(terms), codes, slots)
        return keywords

    @classmethod
    def restore(
        cls, stored: Stored, lengths: NDArray[np.float32], texts: Callable[[int], str], missing: Sequence[int]
    ) -> "Keywords":
        """Of what was stored, but for the slots ``missing``, whose texts are read."""
        keywords = cls(stored, lengths)
        counts, codes = _encode(map(texts, missing), keywords._postings.codes)
        slots = np.array(missing, np.int64)
        lengths[slots] = counts
        keywords._postings.extend(codes, np.repeat(slots, counts))
        return keywords

    def extend(self, texts: Sequence[str]) -> None:
        """Index texts in the next slots."""
        lengths, codes = _encode(texts, self._postings.codes)
        slots = np.arange(len(self._lengths), len(self._lengths) + len(lengths))
        self._postings.extend(codes, np.repeat(slots, lengths))
        self._lengths.extend(lengths.astype(np.float32))

    def find(self, word: str, before: int) -> tuple[Slots, Counts]:
        """The slots lower than ``before`` in which a (reduced) word stands, and how often in each."""
        return self._postings.find(word, before)

    def spread(self, word: str, before: int) -> NDArray[np.uint8]:
        """How often a (reduced) word stands in each of the first slots; kept, for frequent words come again.

        What came since is added to what was kept: the slots of a word come in one order whatever is asked.
        """
        slots, counts = self.find(word, before)
        done, spread = self._spread.get(word) or (0, np.zeros(roomy(before), np.uint8))
        if before > len(spread):
            larger = np.zeros(roomy(before), np.uint8)
            larger[: len(spread)] = spread
            spread = larger
        if done < len(slots):
            spread[slots[done:]] = counts[done:]
            if len(self._spread) >= SPREAD:
                self._spread.clear()
            self._spread[word] = len(slots), spread
        return spread[:before]

    def lengths(self, before: int) -> NDArray[np.float32]:
        """How many words each of the first slots has."""
        return self._lengths.read(before)

    def store(self, new_slots: NDArray[np.int32]) -> Stored:
        """All of it in one, for slots that get other numbers: ``new_slots[old]``, or -1 where one goes."""
        return self._postings.store(new_slots)


def _encode(texts: Iterable[str], terms: Codes) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """How many words each text has, and the numbers of all these words."""
    lengths, codes = [], array("q")
    for text in texts:
        found = split_words(text)
        lengths.append(len(found))
        codes.extend(map(terms.__getitem__, found))
    return np.array(lengths, np.int64), np.array(codes, np.int64)
