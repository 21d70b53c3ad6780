"""Texts read as statements: the words of each sentence that say something, and signs of change and time."""

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from services.memory.linking import claim_words as table
from services.memory.linking.sayings import strip_saying
from services.memory.linking.tokens import Token, tokenize

MAX_SENTENCES = 8
"""The sentences of a text that are read: the first ones say what it is about."""

MAX_SENTENCE = 600
"""Characters; longer ones are no claim."""

MAX_HEADING = 6
"""The most words of a heading."""

BEHIND = ("mark", "of", "in", "by", "from", "is", "value", "word")
"""What may stand before a word: a mark of punctuation, prepositions of purpose, place and means and others,
a form of being or an auxiliary, a value, another word."""

REACH = 3
"""How many words behind an article belong to it: "the weekly status report"."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+|\s+[–—]\s+")
_CLAUSE = re.compile(
    r",\s+(?=(?:after|although|as soon as|because|before|once|since|so that|though|until|when|whenever|while)"
    r"\s+\S+\s+\S)",
    re.IGNORECASE,
)
"""Where a clause begins that tells when or why a sentence holds. "If" and "unless" are left in it: they are
as much a doubt as a condition."""
_PATTERNS = {
    name: re.compile(rf"\b(?:{'|'.join(patterns)})", re.IGNORECASE)
    for name, patterns in tomllib.loads(Path(__file__).with_name("cues.toml").read_text("utf-8")).items()
}
_PATTERNS["question"] = re.compile(r"\?")
CUES = tuple(_PATTERNS)
_NEGATION = re.compile(r"\b(?:not|no|never|cannot|nobody|nothing|none|without|nor)\b|n['’]t\b", re.IGNORECASE)
_SKIPPED = table.NOTHING | table.BEING | table.AUXILIARIES | table.PREPOSITIONS


class Term(NamedTuple):
    """A word that says something.

    ``type`` and ``named`` are those of its token; ``hard`` says that it tells which one of several is meant.
    ``definite``: it belongs to an article or "our"; ``about``: it stands behind of, for and the like;
    ``place`` is that of its token; ``behind`` is what stands before it, articles aside: one of the names of
    BEHIND, empty at the beginning.
    """

    key: str
    word: str
    type: str
    named: bool
    hard: bool
    definite: bool
    about: bool
    place: int
    behind: str = ""


class Statement(NamedTuple):
    """A sentence, or a clause behind one that tells when or why it holds: its ``terms``, the keys of all its
    words in their order, whether it denies something, and the signs of cues.toml in the sentence.
    """

    terms: tuple[Term, ...]
    sequence: tuple[str, ...]
    negated: bool
    cues: frozenset[str] = frozenset()


class Reading(NamedTuple):
    """A text read: its statements, the first ones first, and what all of it says of change and time.

    ``cues`` has how many signs of each kind of cues.toml there are, and of a ``question``.
    """

    statements: tuple[Statement, ...]
    cues: dict[str, int]
    keys: frozenset[str]
    negations: int


@lru_cache(8_192)
def read_text(text: str) -> Reading:
    """Read a text (a title, a line break, a body); a short title belongs to the first sentence."""
    parts = [part.strip() for part in _SENTENCE.split(text[: MAX_SENTENCES * MAX_SENTENCE]) if part.strip()]
    heading = ""
    if (
        len(parts) > 1
        and "\n" in text
        and len(parts[0].split()) <= MAX_HEADING
        and not parts[0].endswith(".")
    ):
        heading = parts.pop(0)
    sentences = [part for part in parts[:MAX_SENTENCES] if len(part) <= MAX_SENTENCE]
    read = [statement for sentence in sentences for statement in _read_sentence(sentence)]
    statements = [statement for statement in read if statement.terms] or read[:1]
    if heading and statements:
        statements[0] = _join(_read_clause(heading, frozenset()), statements[0])
    whole = text[: MAX_SENTENCES * MAX_SENTENCE]
    cues = {name: len(pattern.findall(whole)) for name, pattern in _PATTERNS.items()}
    keys = frozenset(term.key for statement in statements for term in statement.terms)
    return Reading(tuple(statements), cues, keys, len(_NEGATION.findall(whole)))


def _join(heading: Statement, first: Statement) -> Statement:
    known = {term.key for term in first.terms}
    beside = tuple(term._replace(place=-REACH - 2) for term in heading.terms if term.key not in known)
    return first._replace(terms=beside + first.terms)


def _read_sentence(sentence: str) -> list[Statement]:
    text, _ = strip_saying(sentence)
    cues = frozenset(name for name, pattern in _PATTERNS.items() if pattern.search(sentence))
    return [_read_clause(clause, cues) for clause in _CLAUSE.split(text)]


def _read_clause(text: str, cues: frozenset[str]) -> Statement:
    tokens = tokenize(text)
    terms: list[Term] = []
    article, about, behind = -REACH - 1, False, ""
    for place, token in enumerate(tokens):
        word = token.word
        if word in table.DETERMINERS and not token.type:
            article = place
        elif word in table.PREPOSITIONS or not token.key:
            article, about = -REACH - 1, word in table.PURPOSES
        elif token.type or not (word in _SKIPPED or word.endswith("n't")):
            term = _make_term(token, place, definite=place - article <= REACH, about=about)
            terms.append(term._replace(behind=behind))
        elif word in table.BEING | table.AUXILIARIES:
            article, about = -REACH - 1, False
        behind = _classify(token) or behind
    sequence = tuple(
        token.key for token in tokens if token.key and (token.type or token.word not in table.DETERMINERS)
    )
    return Statement(tuple(terms), sequence, len(_NEGATION.findall(text)) % 2 == 1, cues)


def _classify(token: Token) -> str:
    """What a word is to the one behind it; empty for articles, which do not count."""
    if token.word in table.DETERMINERS and not token.type:
        return ""
    kinds = {
        "mark": not token.key,
        "of": token.word in table.PURPOSES,
        "in": token.word in table.PLACES,
        "by": token.word in table.MEANS,
        "from": token.word in table.PREPOSITIONS,
        "is": token.word in table.BEING | table.AUXILIARIES,
        "value": bool(token.type),
    }
    return next((kind for kind, is_so in kinds.items() if is_so), "word")


def _make_term(token: Token, place: int, *, definite: bool, about: bool) -> Term:
    hard = token.word in table.HARD or token.type in ("ident", "version")
    return Term(token.key, token.word, token.type, token.named, hard, definite, about, place)
