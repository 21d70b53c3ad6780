"""Whether two texts say the opposite: word for word, sentence by sentence."""

import re
from functools import lru_cache
from typing import NamedTuple

from services.memory.linking.wording import read, share

ALIKE = 0.4
"""The share of content words from which two sentences count as being about the same thing."""

FEW = 2
"""Texts of more sentences hold a negation somewhere as a matter of course."""

MAX_SENTENCES = 20
"""Sentences of each text that are looked at: the first ones say what it is about."""

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+|,\s+|\s+but\s+|\s+[–—-]\s+")
_NEGATION = re.compile(
    r"\b(?:not|no|never|cannot|without|neither|nor|dont|doesnt|isnt|cant|wont)\b|n['’]t\b", re.IGNORECASE
)
_HARMLESS = re.compile(
    r"\bnot (?:only|just|merely|least)\b|\bno (?:doubt|matter|problem|wonder|worries)\b"
    r"|\bcan(?:'t|’t|not) wait\b"
    r"|\bno (?:more|less|later|earlier|fewer|longer) than\b|\bno\.? ?(?=\d)"
    r"|\bneither\b(?=.*\bnor\b)|\bwhether or not\b",
    re.IGNORECASE,
)


class _Sentence(NamedTuple):
    words: frozenset[str]
    negated: bool


def is_negated(sentence: str) -> bool:
    """Whether a sentence denies: it has an odd number of negations, "not without" being none.

    Negations are not, no, never, n't, cannot, without, nor and "no longer", as whole words: nothing, another,
    note, knot are none, nor are "not only", "no doubt" and "no. 4".
    """
    return len(_NEGATION.findall(_HARMLESS.sub(" ", sentence))) % 2 == 1


def opposed(one: str, other: str) -> bool:
    """Whether one text denies what the other says.

    Two single sentences: exactly one is negated. Of more, the sentences that resemble each other most are
    held together, and where exactly one of such a pair is negated the texts are opposed: "Redis, not
    Memcached" does not deny "Redis". Where no two resemble each other, exactly one text has a negated
    sentence.
    """
    ours, theirs = _split(one), _split(other)
    if len(ours) == len(theirs) == 1:
        return ours[0].negated != theirs[0].negated
    fewer, more = sorted((ours, theirs), key=len)
    matched = False
    for sentence in fewer:
        closeness = [share(sentence.words, candidate.words) for candidate in more]
        best = max(closeness, default=0.0)
        if best >= ALIKE:
            matched = True
            nearest = [more[place].negated for place, value in enumerate(closeness) if value == best]
            if sentence.negated not in nearest:
                return True
    if matched or len(more) > FEW:
        return False
    return any(s.negated for s in ours) != any(s.negated for s in theirs)


@lru_cache(1024)
def _split(text: str) -> tuple[_Sentence, ...]:
    parts = [part for part in _SENTENCE.split(text.strip()) if part.strip()]
    statements = [part for part in parts if not part.rstrip().endswith("?")] or parts
    return tuple(
        _Sentence(frozenset(read(part).content), is_negated(part)) for part in statements[:MAX_SENTENCES]
    )
