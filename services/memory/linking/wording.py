"""What a text says, word for word: its words in order, its numbers and its names."""

import re
from functools import lru_cache
from typing import NamedTuple

from services.memory.retrieval.keywords import split_words
from shared.text import words

MAX_CHARACTERS = 8_000
"""Longer texts are not compared word by word, only as a whole: the model has read but a third of that."""

_TOKEN = re.compile(r"\d+(?:[.,:/-]\d+)*|\w+(?:['’.-]\w+)*|[:=\n]|[.!?;](?=\s|$)")
_POSSESSIVE = re.compile(r"['’]s$")

STOP_WORDS = words.STOP_WORDS | frozenset(
    """
    those these us one being am done having shall should can could may might must into so than then there here
    very also just about while if whom whose now
    not no never cannot without isn't aren't wasn't weren't don't doesn't didn't won't can't couldn't
    shouldn't wouldn't hasn't haven't hadn't mustn't neither nor
    """.split()
)
"""Words that tell two statements apart by their grammar at most: with more auxiliaries and prepositions, and
negation, which is judged by itself."""

_COMMON_VERBS = {
    verb: verbs.split()[0]
    for verbs in (
        "use uses used using run runs running ran listen listens listening",
        "keep keeps kept store stores stored storing hold holds held",
        "like likes liked prefer prefers preferred want wants wanted",
        "get gets got receive receives received",
        "make makes made create creates created",
        "go goes went gone",
    )
    for verb in verbs.split()
}
"""Verbs that stand for one another, each with the one that stands for its group."""

_NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate(
        "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen twenty".split(),
        start=2,
    )
} | {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "ninety": "90", "hundred": "100"}


class Token(NamedTuple):
    """A word as it is compared and as it was written; marks (``.``, ``=``) are tokens too."""

    word: str
    raw: str
    named: bool

    @property
    def numeric(self) -> bool:
        """Whether it is a number or holds one: 4222, v1.2, three."""
        return any(map(str.isdigit, self.word))


class Reading(NamedTuple):
    """A text taken apart: all ``tokens``, and of these the stems of words, the numbers, the names.

    ``words`` has no stop words; ``content`` has no common verbs such as use and keep either.
    """

    tokens: tuple[Token, ...]
    words: tuple[str, ...]
    content: tuple[str, ...]
    numbers: tuple[str, ...]
    names: frozenset[str]


@lru_cache(1024)
def read(text: str) -> Reading:
    """Take a text apart.

    A name is a word with a capital that does not begin a sentence, or one with capitals, dots or underscores
    within. ``=`` stands for a colon, an equals sign or the end of a line, ``.`` for the end of a sentence.
    """
    tokens: list[Token] = []
    for raw in _TOKEN.findall(text[:MAX_CHARACTERS]):
        if raw in ":=\n":
            tokens.append(Token("=", raw, False))
        elif raw in ".!?;":
            tokens.append(Token(".", raw, False))
        else:
            begins = not tokens or tokens[-1].word in "=."
            word = raw.casefold().replace("’", "'")
            tokens.append(Token(_NUMBER_WORDS.get(word, word), raw, _is_name(raw, begins=begins)))
    plain = [token for token in tokens if token.word not in "=." and bare(token.word) not in STOP_WORDS]
    return Reading(
        tokens=tuple(tokens),
        words=tuple(_COMMON_VERBS.get(token.word) or stem(token.word) for token in plain),
        content=tuple(stem(token.word) for token in plain if token.word not in _COMMON_VERBS),
        numbers=tuple(token.word for token in plain if token.numeric),
        names=frozenset(stem(token.word) for token in plain if token.named),
    )


def bare(word: str) -> str:
    """A word without the 's of its possessive."""
    return _POSSESSIVE.sub("", word)


def stem(word: str) -> str:
    """A word as the search compares it, so that deploy, deploys and deployed are one; numbers stay."""
    word = bare(word)
    return word if any(map(str.isdigit, word)) else " ".join(split_words(word)) or word


def share(one: frozenset[str] | set[str], other: frozenset[str] | set[str]) -> float:
    """Jaccard: what the two have in common of all that they have; 0 where both are empty."""
    together = len(one | other)
    return len(one & other) / together if together else 0.0


def _is_name(raw: str, *, begins: bool) -> bool:
    if bare(raw.casefold()) in STOP_WORDS or raw.casefold() in _COMMON_VERBS:
        return False
    inner = raw[1:]
    return any(map(str.isupper, inner)) or "." in inner or "_" in inner or (raw[0].isupper() and not begins)
