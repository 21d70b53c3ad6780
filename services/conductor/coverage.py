"""What of a request is done: what a playbook leaves over of it, and which of its parts a plan leaves out."""

import functools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from shared.language.sayings import read_sayings
from shared.text.prose import EMPTY_WORDS, STOP_WORDS, stem_term

WAYS = read_sayings(__file__, "requests")
TAKEN = "\0"  # What stands in a request for each character that a parameter took
MAX_READ = 8_000  # Characters of a request that are read: what is longer has a text to work on
FORGIVEN = 1_000  # The longest request in which misspelt words are looked for, in characters
MAX_PARTS = 20  # Parts of a request that are followed up
LEAST = 1 / 3
"""The least share of a part's words that a plan must have: plans say things in words of their own."""
ASKING = frozenset({"who", "when"})  # Stop words that tell what is asked
ENGLISH = 0.15  # The least share of English function words in a request whose words are compared
_WORD = re.compile(r"-{0,2}[^\W_](?:[\w.+#@:/'’-]*\w)?[+#]*|-{1,2}\w+")
_BARE = str.maketrans({"’": "'"})
_NAME = re.compile(r"^-{1,2}\w|\d|[_@#/]|\w\.\w|[a-z][A-Z]|^[A-Z]{2,}s?$")
"""A word that a plan cannot say in other words: an option, a number, a file, an identifier."""


class Leftover(NamedTuple):
    """What a playbook leaves over of a request, as it is written; ``limits`` if that changes the rest."""

    phrases: tuple[str, ...] = ()
    limits: bool = False


Word = tuple[int, int, str]
"""Where a word begins and ends in a request, and the word."""


class Clause(NamedTuple):
    """A part of a request: where it begins, its text, and its words with their places in the request."""

    start: int
    text: str

    @property
    def words(self) -> Iterator[Word]:
        """Its words and where they stand, after what is polite."""
        courtesy = WAYS["courtesy"].match(self.text)
        for found in _WORD.finditer(self.text, courtesy.end() if courtesy else 0):
            yield self.start + found.start(), self.start + found.end(), found[0].translate(_BARE)


def split_clauses(text: str) -> list[Clause]:
    """The sentences, lines and clauses of ``text``: what "and also", "then", ";" or a comma parts."""
    clauses, start = [], 0
    for end in WAYS["between"].finditer(text):
        clauses.append(Clause(start, text[start : end.start()]))
        start = end.end()
    clauses.append(Clause(start, text[start:]))
    return [clause for clause in clauses if re.search(rf"\w|{TAKEN}", clause.text)]


@functools.lru_cache(64)
def read_vocabulary(texts: tuple[str, ...]) -> frozenset[str]:
    """The words of ``texts`` and those that every request may have, and the stems of them."""
    said = tuple(found[0].translate(_BARE) for text in texts for found in _WORD.finditer(text))
    words = (*said, *WAYS.words("filler"))
    return frozenset((*map(_stem, words), *map(str.lower, words)))


def find_left_over(
    text: str, taken: Iterable[tuple[int, int]], vocabulary: Collection[str], changes: Collection[str] = ()
) -> Leftover:
    """What is left over of ``text`` beside the places ``taken`` by parameters and words of ``vocabulary``.

    It limits the rest if it stands in the clause of a parameter, or has a word such as "only" or "except".
    That something is not to be done that no playbook does, as one of ``changes``, leaves nothing over.
    """
    if len(text) > MAX_READ:
        return Leftover((_bare(text[MAX_READ:][:300]),), limits=True)
    masked = list(text)
    for found in WAYS["around"].finditer(text):
        masked[found.start() : found.end()] = " " * len(found[0])
    for start, end in taken:
        masked[start:end] = TAKEN * len(masked[start:end])
    clauses = split_clauses("".join(masked))
    main = [clause for clause in clauses if TAKEN in clause.text] or clauses[:1]
    phrases, limits = [], False
    for clause in clauses:
        words = list(clause.words)
        unknown = [
            at
            for at, (_, _, word) in enumerate(words)
            if not _is_known(word, vocabulary, forgiving=len(text) <= FORGIVEN)
        ]
        if not unknown or _forbids(words, changes):
            continue
        phrases.append(_phrase(text, clause, words, unknown) if clause in main else _bare(clause.text))
        limits |= clause in main or bool(WAYS["limits"].search(clause.text))
    return Leftover(tuple(phrases), limits)


def _bare(text: str) -> str:
    return " ".join(text.split()).strip(" .,;:!?")


def _phrase(text: str, clause: Clause, words: Sequence[Word], unknown: Sequence[int]) -> str:
    """What a clause has from its first to its last unknown word, and what belongs to these."""
    first = unknown[0]
    while first and words[first - 1][2].lower() in WAYS.words("leading"):
        between = clause.text[words[first - 1][1] - clause.start : words[first][0] - clause.start]
        if TAKEN in between:
            break
        first -= 1
    rest, *more = clause.text[words[unknown[-1]][1] - clause.start :].split(TAKEN, 1)
    end = words[unknown[-1]][1] + (0 if more else len(rest))
    return _bare(text[words[first][0] : end])


def _forbids(words: Sequence[Word], changes: Collection[str]) -> bool:
    """Whether a clause only forbids one of ``changes``: "do not fix anything"."""
    said = [word.lower() for _, _, word in words]
    forbids = said[0] in WAYS.words("forbidding") or said[:2] == ["do", "not"]
    return forbids and not set(said[1:4]).isdisjoint(changes)


def _is_known(word: str, vocabulary: Collection[str], *, forgiving: bool) -> bool:
    lower = word.lower()
    if lower in WAYS.words("limiting"):
        return False
    known = lower in STOP_WORDS - ASKING or _stem(word) in vocabulary
    return known or (
        forgiving and len(word) > 2 and lower == word and lower.isalpha() and _is_misspelt(lower, vocabulary)
    )


def _stem(word: str) -> str:
    bare = re.sub(r"'s$|[.:]+$", "", word.lower())
    return stem_term(bare)


def _is_misspelt(word: str, vocabulary: Collection[str]) -> bool:
    """Whether two letters of a known word changed places in it, or one was added or left out."""
    swapped = (word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1))
    shorter = (word[:at] + word[at + 1 :] for at in range(len(word))) if len(word) > 4 else ()
    if any(_stem(each) in vocabulary or each in STOP_WORDS for each in (*swapped, *shorter)):
        return True
    return len(word) > 3 and any(
        len(each) == len(word) + 1 and any(each[:at] + each[at + 1 :] == word for at in range(len(each)))
        for each in vocabulary
    )


def find_parts(text: str) -> list[str]:
    """The parts of ``text`` that ask for something, where it asks for several; else ``text``, as one."""
    asking: list[str] = []
    for clause in split_clauses(text[:MAX_READ]):
        words = [word.lower() for _, _, word in clause.words]
        asks = words and (words[0] in WAYS.words("orders") or clause.text.rstrip().endswith("?"))
        if asks or not asking:
            asking.append(clause.text.strip())
        else:
            asking[-1] = f"{asking[-1]} {clause.text.strip()}"
    return asking[:MAX_PARTS]


def find_dropped(text: str, planned: str) -> tuple[str, ...]:
    """The parts of the request ``text`` that ``planned``, all that a plan says, has nothing of.

    A part is there if its names are (options, files, numbers), and, where an English request has several, a
    third of its other words.
    """
    held = planned.lower()
    known = {_stem(found[0]) for found in _WORD.finditer(planned)}
    parts = find_parts(text)
    said = [found[0].lower() for found in _WORD.finditer(text)]
    by_words = len(parts) > 1 and sum(word in EMPTY_WORDS for word in said) >= ENGLISH * len(said)
    dropped = []
    for part in parts:
        words = [found[0].translate(_BARE) for found in _WORD.finditer(part)]
        names = [word for word in words if _NAME.search(word)]
        plain = [word for word in words if word not in names and word.lower() not in EMPTY_WORDS]
        shared = sum(_stem(word) in known for word in plain)
        if any(name.lower() not in held for name in names) or (by_words and shared < LEAST * len(plain)):
            dropped.append(" ".join(part.split())[:300])
    return tuple(dropped)
