"""Texts read as statements: words of each sentence that say something, without greetings and the like."""

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from services.memory.linking import claim_words as table
from services.memory.linking.tokens import Token, tokenize


def _compile(*alternatives: str, before: str = r"\b", after: str = r"\b") -> re.Pattern[str]:
    return re.compile(f"{before}(?:{'|'.join(alternatives)}){after}", re.IGNORECASE)


_SAYING = _compile(
    r"[\s\-*•>#]+",
    r"\[?\(?(?:\d{4}-\d\d-\d\d[T\s,]*)?\d{1,2}:\d\d(?::\d\d)?(?:\s*[ap]m)?\)?\]?(?=\s+\S+:|\s*[-–]"
    r"|\])[\]:\s–-]*",
    r"\[[^\]]{1,30}\]\s*",
    r"\d{4}-\d\d-\d\d\s*[:,–-]\s*",
    r"<@?\w[\w.]*>\s+",
    r"(?:hi|hey|hello|good morning|morning|dear)\b[^,.!:]{0,20}[,.!:]\s+",
    r"(?:decision|outcome|result|note|news|update|minutes)s? (?:from|of|in|after) [^:,]{3,30}:\s+",
    r"(?:fyi|btw|psa|note|update|reminder|heads[ -]up|news|info|decision|decided|correction|edit|scratch that"
    r"|quick (?:note|one|update)|for the record|just so you know|as discussed|as agreed|please note"
    r"|good to know"
    r"|announcement|change|changed|actually|also|and|so|ok|okay|well|sorry|i (?:think|believe|guess)|i'm sure"
    r"|it turns out|apparently|basically)\b(?: that)?[\s:,–-]+",
    r"(?:we|i|the team|they|it|everyone) (?:have |has |had |was |just )*"
    r"(?:agreed|decided|settled|said|confirmed|announced|learned|heard) (?:that|in [^,]{3,20} that)\s+",
    before="^",
    after="",
)
_RESOLVED = _compile(
    r"(?:we|i|the team|they|everyone) (?:have |has |had |all |just )*"
    r"(?:agreed|decided|resolved|settled|chose|opted)(?: in [^,]{3,20})? to (?=\w)",
    before="^",
    after="",
)
_REPORTED = re.compile(
    r"^(\w+) (?:told (?:me|us)|said|says|mentioned|wrote|reported|confirmed)(?: that)? (?:she|he|they|it)\b",
    re.IGNORECASE,
)
_SPEAKER = re.compile(
    r"^(?:@?[A-Za-z][\w.-]{1,20}(?: [A-Z][\w.-]{0,20})?)(?: ?\([^)]{1,30}\))?:\s+(?=\S+\s+\S+\s+\S+)"
)


def strip_saying(sentence: str) -> tuple[str, str]:
    """A sentence without bullets, times, greetings and "fyi", and the speaker or label before its colon."""
    text, label = sentence.strip(), ""
    for _ in range(6):
        shorter = _SAYING.sub("", text, count=1).strip()
        if not label and (match := _SPEAKER.match(shorter)):
            label, shorter = match[0].strip(" :"), shorter[match.end() :]
        if shorter == text or not shorter:
            break
        text = shorter
    text = _REPORTED.sub(r"\1", _RESOLVED.sub("we ", text))
    return text.rstrip(" .!"), label


MAX_SENTENCES = 8  # The sentences of a text that are read: the first ones say what it is about

MAX_SENTENCE = 600  # Characters; longer ones are no claim

MAX_HEADING = 6  # The most words of a heading

BEHIND = ("mark", "of", "in", "by", "from", "is", "value", "word")
"""What may stand before a word: a mark of punctuation, prepositions of purpose, place and means and others,
a form of being or an auxiliary, a value, another word."""

REACH = 3  # How many words behind an article belong to it: "the weekly status report"

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
            definite = place - article <= REACH
            hard = token.word in table.HARD or token.type in ("ident", "version")
            term = Term(token.key, token.word, token.type, token.named, hard, definite, about, place)
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
