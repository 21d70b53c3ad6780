"""English words: the ones that carry no meaning of their own, and the stems by which words are compared."""

import re
import threading
from collections.abc import Callable
from functools import cache, lru_cache

MAX_STEMMED = 20
"""Longer words, and words with a digit, are names of things: they are not stemmed."""

STOP_WORDS = frozenset(
    """
    a an and are as at be been but by did do does for from had has have he her his i in is it its me my of on
    or our she that the their them they this to was we were what when which who will with would you your
    """.split()
)
"""Articles, pronouns, auxiliaries, prepositions and the commonest question words. A module that needs more
adds them to this set, and says why."""

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

IRREGULAR = dict(
    pair.split(":")
    for pair in "found:find built:build ran:run wrote:write written:write chose:choose chosen:choose "
    "broke:break broken:break made:make said:say sent:send kept:keep left:leave met:meet paid:pay".split()
)
"""Irregular forms of verbs that are common in requests."""

_WORD = re.compile(r"[^\W_]+")

_lock = threading.Lock()
"""Held while a word is stemmed: the stemmer keeps the word it works on in itself."""


def stem(word: str) -> str:
    """The Snowball (English) stem of a lower-case word, so that deploy, deploys and deployed are one.

    Takes about 30 us; callers that stem the same words again should cache. Safe in any thread.
    """
    if len(word) > MAX_STEMMED or any(map(str.isdigit, word)):
        return word
    with _lock:
        return _stemmer()(word)


@cache
def _stemmer() -> Callable[[str], str]:
    import snowballstemmer

    stem_word: Callable[[str], str] = snowballstemmer.stemmer("english").stemWord
    return stem_word


@lru_cache(maxsize=20_000)
def stem_term(word: str) -> str:
    """The stem of a word in any case, cached; irregular forms have that of their verb."""
    lower = word.lower()
    return stem(IRREGULAR.get(lower, lower))


def find_terms(text: str) -> dict[str, str]:
    """The words of ``text`` that are not EMPTY_WORDS, by their stems, in their order."""
    terms: dict[str, str] = {}
    for word in _WORD.findall(re.sub(r"['’]s\b", "", text)):
        if word.lower() not in EMPTY_WORDS and (len(word) > 1 or word.isdigit()):
            terms.setdefault(stem_term(word), word)
    return terms


def find_stems(text: str) -> frozenset[str]:
    """The stems of all words of ``text``."""
    return frozenset(map(stem_term, _WORD.findall(text)))
