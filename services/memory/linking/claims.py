"""Texts read as claims: what each sentence is about, which values it gives, and what it says is over."""

import re
from functools import lru_cache
from typing import NamedTuple

from services.memory.linking import claim_words as table
from services.memory.linking.marks import holds, is_adding, is_negated, read_marks
from services.memory.linking.sentence_words import Word, find_main_verb, find_verbs, read_words
from services.memory.linking.tokens import tokenize

MAX_SENTENCES = 12
"""The sentences of a text that are read: the first ones say what it is about."""

MAX_SENTENCE = 600
"""Characters; longer ones are no claim that a rule could read."""

MAX_HEADING = 6
"""The most words of a heading."""

BESIDE = -100
"""The place of words that are not in the sentence."""

ABOUT = frozenset({"subject", "moved", *table.PURPOSES, *(f"before {word}" for word in table.PREPOSITIONS)})
"""Slots of what a claim is about, not of what it says of that."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|\s+[–—]\s+")


class Claim(NamedTuple):
    """What a sentence claims. ``keys`` are those of its ``words``; ``denied`` are the phrases that it says
    are over.

    ``mark`` is how it marks a change: over, replaced, changed, now, or empty; ``changes`` are its verbs of
    change. ``verb`` is the first other verb than is and its like. ``holds`` is False for questions, plans,
    hypotheses, events and the past; ``negated`` says that it denies something, ``adding`` that it adds to
    what is.
    """

    text: str
    words: tuple[Word, ...]
    keys: frozenset[str]
    denied: tuple[tuple[Word, ...], ...]
    mark: str
    changes: frozenset[str]
    verb: str
    holds: bool
    negated: bool
    adding: bool


@lru_cache(4_096)
def read_claims(text: str) -> tuple[Claim, ...]:
    """The claims of a text (a title, a line break, a body): one a sentence, the same one once.

    A short title without a verb is the heading of the first sentence.
    """
    parts = [part.strip() for part in _SENTENCE.split(text[: MAX_SENTENCES * MAX_SENTENCE]) if part.strip()]
    heading = ""
    if len(parts) > 1 and "\n" in text and _is_heading(parts[0]):
        heading = parts.pop(0)
    claims: dict[str, Claim] = {}
    for place, part in enumerate(parts[:MAX_SENTENCES]):
        if len(part) <= MAX_SENTENCE and not (place and _lacks_subject(part)):
            claims.setdefault(part.casefold().strip(" .!"), read_claim(part, "" if place else heading))
    return tuple(claim for claim in claims.values() if claim.keys or claim.denied)


def _read_phrase(phrase: str, text: str) -> tuple[Word, ...]:
    """The words of a part of a text; its first word may be a name, unless the text begins there."""
    begins = phrase.split()[:1] == text.split()[:1]
    return read_words(phrase.strip() if begins else f" {phrase}")


def _lacks_subject(part: str) -> bool:
    """Whether a sentence needs those before it: "Agreed with Ann", "It was her idea"."""
    first = part.casefold().split()[0]
    return first in _REFERRING or first in table.IRREGULAR_PASTS or (first.endswith("ed") and len(first) > 3)


_REFERRING = frozenset("it this that these those he she they which see said heard as according".split())


def _is_heading(part: str) -> bool:
    return len(part.split()) <= MAX_HEADING and not find_verbs(tokenize(part))


@lru_cache(8_192)
def read_claim(sentence: str, heading: str = "") -> Claim:
    """Read one sentence; the words of ``heading`` and of a speaker count if they are met again."""
    reading = read_marks(sentence)
    denied = tuple(words for phrase in reading.denied if (words := _read_phrase(phrase, reading.text)))
    own = read_words(reading.rest)
    if all(word.slot not in ABOUT for word in own):  # "..., it is one now": of what is said before
        own += tuple(w for words in denied for w in words if w.slot in ABOUT and not w.type)
    keys = {word.key for word in own}
    beside = read_words(f"{heading} {reading.label}")
    words = (*own, *(w._replace(optional=True, place=BESIDE) for w in beside if w.key not in keys))
    return Claim(
        text=reading.text,
        words=words,
        keys=frozenset(word.key for word in words),
        denied=denied,
        mark=reading.mark,
        changes=reading.changes,
        verb=find_main_verb(reading.rest),
        holds=holds(sentence, reading),
        negated=not denied and is_negated(reading.text),
        adding=is_adding(reading.text),
    )
