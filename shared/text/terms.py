"""The words that say what an English text is about, by their stems."""

import re
from functools import lru_cache

from shared.text.words import STOP_WORDS
from shared.text.words import stem as snowball_stem

EMPTY_WORDS = STOP_WORDS | frozenset(
    """
    about again all also am any anyone anything ask before being can could doing done down get give here
    him how if into just know let like many mean might more most much must need no not now off once one
    out over own please recall regarding remember say shall should so some someone something still such
    tell than then there these thing things think those too under until up us very want where while whom
    whose why yet
    """.split()
)
"""The stop words, and words of which requests and questions are made."""

IRREGULAR = {
    "found": "find",
    "built": "build",
    "ran": "run",
    "wrote": "write",
    "written": "write",
    "chose": "choose",
    "chosen": "choose",
    "broke": "break",
    "broken": "break",
    "made": "make",
    "said": "say",
    "sent": "send",
    "kept": "keep",
    "left": "leave",
    "met": "meet",
    "paid": "pay",
}
"""Irregular forms of verbs that are common in requests."""

_WORD = re.compile(r"[^\W_]+")


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """The stem of a word in any case; irregular forms have that of their verb."""
    lower = word.lower()
    return snowball_stem(IRREGULAR.get(lower, lower))


def find_terms(text: str) -> dict[str, str]:
    """The words of ``text`` that are not EMPTY_WORDS, by their stems, in their order."""
    terms: dict[str, str] = {}
    for word in _WORD.findall(re.sub(r"['’]s\b", "", text)):
        if word.lower() not in EMPTY_WORDS and (len(word) > 1 or word.isdigit()):
            terms.setdefault(stem(word), word)
    return terms


def find_stems(text: str) -> frozenset[str]:
    """The stems of all words of ``text``."""
    return frozenset(map(stem, _WORD.findall(text)))
