"""Mistyped words of everyday requests: "tonigth" is tonight, "leters" are letters.

Corrected are only words that requests, questions and times are made of, in lower case, by one letter too
many, too few, in the place of its neighbour, or another vowel. Everything else stays as it was written.
"""

import functools
import re
from collections.abc import Iterator

from shared.language.sayings import read_sayings

WAYS = read_sayings(__file__, "spelling")
_WORD = re.compile(r"(?<![\w/.@~'’\"“#=+-])[a-z]{3,14}(?![\w/@'’\"”=+-]|\.\w)")
LONG = 5  # The fewest letters of a word in which one may be missing or too many
LONGER = 7  # The fewest of one in which a vowel may be another
_VOWELS = "aeiou"


def correct_spelling(text: str) -> str:
    """``text`` with the mistyped words of its request corrected; what is to be kept or sent is left alone."""
    corrected = _WORD.sub(lambda found: _read_slips().get(found[0], found[0]), text)
    given = WAYS["given"].search(corrected)
    if corrected == text or not given:
        return corrected
    head = corrected[: given.end()]
    return head + re.split(r"\s+", text, maxsplit=len(re.findall(r"\s+", head)))[-1]


@functools.cache
def _read_slips() -> dict[str, str]:
    """The words by the slips that are no other word and can be of no other."""
    words, others = WAYS.words("words"), WAYS.words("others")
    slips: dict[str, set[str]] = {}
    for word in words:
        for slip in _slip(word):
            slips.setdefault(slip, set()).add(word)
    return {
        slip: min(meant)
        for slip, meant in slips.items()
        if len(meant) == 1 and slip not in words | others and not _is_form(slip, min(meant))
    }


def _is_form(slip: str, word: str) -> bool:
    """Whether it is the word without its ending, or with one: "letter", "days", "checked"."""
    return slip in (f"{word}s", f"{word}d", f"{word}r", f"{word}y", word[:-1]) and slip[-1] != word[-1]


def _slip(word: str) -> Iterator[str]:
    size = len(word)
    for at in range(size - 1):
        yield f"{word[:at]}{word[at + 1]}{word[at]}{word[at + 2 :]}"
    if size < LONG:
        return
    for at in range(1, size):
        yield word[:at] + word[at + 1 :]
    for at in range(size):
        yield word[: at + 1] + word[at:]  # a letter twice
    if size >= LONGER:
        for at in range(1, size):
            yield from (word[:at] + other + word[at + 1 :] for other in _VOWELS if word[at] in _VOWELS)
            yield from (word[:at] + other + word[at:] for other in "abcdefghijklmnopqrstuvwxyz")
