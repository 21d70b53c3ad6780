"""What a question is about: names and noun phrases that a text holds too, the past, the office."""

import re
from functools import lru_cache

_PAST = re.compile(
    r"\bused\s+to\b(?!\s+\w+ing\b)|\b(?:previous(?:ly)?|former(?:ly)?|originally|at\s+first|back\s+then|in\s+the\s+past"
    r"|history\s+of|no\s+longer|the\s+old|any\s*more)\b"
    r"|\bbefore\s*(?:that|then|now|the\s+change|it\s+changed|[?.!]*\s*$)"
    r"|\b(?:did|was|were|had)\b.{1,200}?\bbefore\b"
    r"|\b(?:what|who|whom|whose|which|when|where|how)\s+(?:[\w'’-]+\s+){0,4}?(?:was|were)\b(?!\s+(?:[\w'’-]+\s+){0,4}?"
    r"(?:\w{2,}ed|said|found|done|made|built|written|drawn|taken|chosen|set|sent|told|given|born|wrong)\b)",
    re.IGNORECASE,
)
"""Words that ask for the past. "What was decided" is left out: it asks for what holds."""


def asks_past(text: str) -> bool:
    """Whether ``text`` asks for what held once: "what was", "before", "used to", "previously"."""
    return bool(_PAST.search(text))


_AGENTS = r"(?:conductor|engineer|scout|critic|cortex|frontier|nexus)"
_WORK = re.compile(
    rf"\b(?:goals?|tasks?|check-?\s?ups?|episodes?|overnight|happened|worked\s+on|{_AGENTS}"
    r"|what\s+(?:did|has|have)\s+(?:you|the\s+(?:office|team|agents?)))\b",
    re.IGNORECASE,
)


def asks_about_work(text: str) -> bool:
    """Whether ``text`` asks what the office did: about goals, tasks, check-ups, or one of its agents."""
    return bool(_WORK.search(text))


LONGEST = 5  # The most words of a phrase

_NUMBERED = re.compile(r"\b([A-Za-z]{3,})[ -](\d{1,3}|[B-HJ-Z])\b(?![:.,]\d)")
"""A thing with its number or letter: lift 1, team B."""
_WORD = re.compile(r"[\w#@](?:[\w#@./:'’-]*\w)?")
_ARTICLES = frozenset("a an the our my your his her their its this that these those".split())
FUNCTION_WORDS = _ARTICLES | frozenset(
    """
    of in on at to for from by with without into over under is are was were be been being and or not as do
    does did has have had need needs take takes go goes get gets we you i it they he she who what which when
    where how
    """.split()
)
"""Words that end a phrase: it does not end with one of them."""
_UNNUMBERED = FUNCTION_WORDS | frozenset(
    """
    about above after all and any before below but can could did every few how just last least less more most
    next only over per some such than then till until under was what will would within
    january february march april may june july august september october november december
    """.split()
)
"""Words that have no number of their own."""


def find_phrases(question: str, text: str) -> frozenset[str]:
    """The phrases of ``question`` that stand in ``text`` as well, in lower case.

    A phrase is what follows an article or a pronoun such as "our", as many words of it as ``text`` has in the
    same order, or a name: a capitalised word within the question, or a thing with its number. "How many
    approvals does a release branch need?" and "A release branch needs two" share "release branch".
    """
    words, starts, names = _read_question(question)
    if not starts and not names:
        return frozenset()
    held = f" {' '.join(split_words(text))} "
    found = {_longest_run(words, start, held) for start in starts}
    found |= {name for name in names if f" {name} " in held}
    return frozenset(found - {""})


@lru_cache(256)
def _read_question(question: str) -> tuple[list[str], list[int], list[str]]:
    """Its words in lower case, the places where a phrase may begin, and its names."""
    words = [_strip(word) for word in _WORD.findall(question)]
    lower = [word.lower() for word in words]
    starts = [place + 1 for place, word in enumerate(lower) if word in _ARTICLES]
    names = [
        *map(" ".join, find_numbered(question)),
        *(word.lower() for word in words[1:] if word[0].isupper()),
    ]
    return lower, starts, names


def find_numbered(text: str) -> frozenset[tuple[str, str]]:
    """The things with a number or letter behind them, in lower case: "lift 1", "team B"."""
    found = {(thing.lower(), number.lower()) for thing, number in _NUMBERED.findall(text)}
    return frozenset(each for each in found if each[0] not in _UNNUMBERED)


def find_names(question: str) -> tuple[str, ...]:
    """The capitalised words within ``question``, without the first one."""
    words = [_strip(word) for word in _WORD.findall(question)[1:]]
    return tuple(word for word in words if word[0].isupper() and word != "I")


def count_missing(phrases: frozenset[str], text: str) -> int:
    """How many words the phrases have that do not stand in ``text``."""
    held = f" {' '.join(split_words(text))} "
    return sum(len(phrase.split()) for phrase in phrases if f" {phrase} " not in held)


def split_words(text: str) -> list[str]:
    """The words of a text in lower case, without "'s"."""
    return [_strip(word).lower() for word in _WORD.findall(text)]


def _strip(word: str) -> str:
    """A word without "'s"."""
    return word[:-2] if word.endswith(("'s", "’s")) else word


def _longest_run(words: list[str], start: int, held: str) -> str:
    end = start
    while end < min(len(words), start + LONGEST) and f" {' '.join(words[start : end + 1])} " in held:
        end += 1
    while end > start and words[end - 1] in FUNCTION_WORDS:
        end -= 1
    return " ".join(words[start:end])
