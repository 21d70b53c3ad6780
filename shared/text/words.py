"""English words: the ones that carry no meaning of their own, and the stems by which words are compared."""

import threading
from collections.abc import Callable
from functools import cache

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
