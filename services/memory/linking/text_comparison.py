"""What one text says beyond another or against it: words, numbers, names, roles and negation."""

import re
from functools import lru_cache
from typing import NamedTuple

from services.memory.linking.claim_words import NUMBER_WORDS
from services.memory.retrieval.keywords import split_words
from shared.text import prose

MAX_CHARACTERS = 8_000
"""Longer texts are not compared word by word, only as a whole: the model has read but a third of that."""

_TOKEN = re.compile(r"\d+(?:[.,:/-]\d+)*|\w+(?:['’.-]\w+)*|[:=\n]|[.!?;](?=\s|$)")
_POSSESSIVE = re.compile(r"['’]s$")

STOP_WORDS = prose.STOP_WORDS | frozenset(
    """
    those these us one being am done having shall should can could may might must into so than then there here
    very also just about while if whom whose now
    not no never cannot without isn't aren't wasn't weren't don't doesn't didn't won't can't couldn't
    shouldn't wouldn't hasn't haven't hadn't mustn't neither nor
    """.split()
)
"""Words in which two statements differ only by grammar: with more auxiliaries and prepositions, and
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
"""Verbs of the same meaning, each with the one that represents its group."""

_NUMBER_WORDS = {word: number for word, number in NUMBER_WORDS.items() if word not in ("zero", "one")}

ALIKE = 0.4  # The share of content words from which two sentences count as being about the same thing

FEW = 2  # Texts of more sentences hold a negation somewhere as a matter of course

MAX_SENTENCES = 20  # The most sentences of each text that are compared: the first ones say what it is about

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

MAX_TURNED = 12
"""The most content words of sentences that are tried for turned roles; longer ones do not just turn them."""


class Token(NamedTuple):
    """A word as it is compared, and whether it is a name; marks (``.``, ``=``) are tokens too."""

    word: str
    named: bool

    @property
    def numeric(self) -> bool:
        """Whether it is a number or holds one: 4222, v1.2, three."""
        return any(map(str.isdigit, self.word))


class ParsedText(NamedTuple):
    """A text parsed: all ``tokens``, and of these the stems of words, the numbers, the names.

    ``words`` has no stop words; ``content`` has no common verbs such as use and keep either.
    """

    tokens: tuple[Token, ...]
    words: tuple[str, ...]
    content: tuple[str, ...]
    numbers: tuple[str, ...]
    names: frozenset[str]


@lru_cache(1024)
def parse_text(text: str) -> ParsedText:
    """Parse a text.

    A name is a word with a capital that does not begin a sentence, or one with capitals, dots or underscores
    within. ``=`` represents a colon, an equals sign or the end of a line, ``.`` for the end of a sentence.
    """
    tokens: list[Token] = []
    for raw in _TOKEN.findall(text[:MAX_CHARACTERS]):
        if raw in ":=\n":
            tokens.append(Token("=", False))
        elif raw in ".!?;":
            tokens.append(Token(".", False))
        else:
            begins = not tokens or tokens[-1].word in "=."
            word = raw.casefold().replace("’", "'")
            tokens.append(Token(_NUMBER_WORDS.get(word, word), _is_name(raw, begins=begins)))
    plain = [
        token for token in tokens if token.word not in "=." and strip_possessive(token.word) not in STOP_WORDS
    ]
    return ParsedText(
        tokens=tuple(tokens),
        words=tuple(_COMMON_VERBS.get(token.word) or normalise_word(token.word) for token in plain),
        content=tuple(normalise_word(token.word) for token in plain if token.word not in _COMMON_VERBS),
        numbers=tuple(token.word for token in plain if token.numeric),
        names=frozenset(normalise_word(token.word) for token in plain if token.named),
    )


def strip_possessive(word: str) -> str:
    """A word without the 's of its possessive."""
    return _POSSESSIVE.sub("", word)


def normalise_word(word: str) -> str:
    """A word as the search compares it, so that deploy, deploys and deployed are one; numbers stay."""
    word = strip_possessive(word)
    return word if any(map(str.isdigit, word)) else " ".join(split_words(word)) or word


def jaccard(one: frozenset[str] | set[str], other: frozenset[str] | set[str]) -> float:
    """Jaccard: the size of the intersection over that of the union; 0 if both are empty."""
    together = len(one | other)
    return len(one & other) / together if together else 0.0


def _is_name(raw: str, *, begins: bool) -> bool:
    if strip_possessive(raw.casefold()) in STOP_WORDS or raw.casefold() in _COMMON_VERBS:
        return False
    inner = raw[1:]
    return any(map(str.isupper, inner)) or "." in inner or "_" in inner or (raw[0].isupper() and not begins)


class _Sentence(NamedTuple):
    words: frozenset[str]
    negated: bool


def is_negated(sentence: str) -> bool:
    """Whether a sentence denies: it has an odd number of negations, "not without" being none.

    Negations are not, no, never, n't, cannot, without, nor and "no longer", as whole words: nothing, another,
    note, knot are none, nor are "not only", "no doubt" and "no. 4".
    """
    return len(_NEGATION.findall(_HARMLESS.sub(" ", sentence))) % 2 == 1


def are_opposed(one: str, other: str) -> bool:
    """Whether one text denies what the other says.

    Two single sentences: exactly one is negated. Of more, the sentences that resemble each other most are
    paired, and if exactly one of such a pair is negated the texts are opposed: "Redis, not Memcached" does
    not deny "Redis". If no two resemble each other, exactly one text has a negated sentence.
    """
    ours, theirs = _split(one), _split(other)
    if len(ours) == len(theirs) == 1:
        return ours[0].negated != theirs[0].negated
    fewer, more = sorted((ours, theirs), key=len)
    matched = False
    for sentence in fewer:
        closeness = [jaccard(sentence.words, candidate.words) for candidate in more]
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
        _Sentence(frozenset(parse_text(part).content), is_negated(part))
        for part in statements[:MAX_SENTENCES]
    )


def find_difference(new: str, old: str, allowed: float = 0.2) -> str:
    """What ``new`` says that ``old`` does not: negation, numbers, names, roles, words; empty if nothing.

    - negation: one denies what the other says;
    - numbers: one that is not there, or in another order ("from 3 to 5");
    - names: one that is not there, or in another order ("Alice gave Bob");
    - roles: the same words the other way round ("dogs chase cats"), unless one is in the passive;
    - words: some replace others ("likes", "hates"), or more than the ``allowed`` share of the
      content words is new.

    Texts of more than 8,000 characters are the same only as a whole. Not symmetrical: less is no news.
    """
    if _normalise(new) == _normalise(old):
        return ""
    if max(len(new), len(old)) > MAX_CHARACTERS:
        return "words"
    ours, theirs = parse_text(new), parse_text(old)
    if are_opposed(new, old):
        return "negation"
    if not _is_within(ours.numbers, theirs.numbers):
        return "numbers"
    if not ours.names <= set(theirs.content) or _order_of_names(ours, theirs):
        return "names"
    if _has_turned_roles(ours, theirs):
        return "roles"
    return "words" if _has_other_words(ours, theirs, allowed) else ""


def _normalise(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .!")


def _is_within(some: tuple[str, ...], all_of_them: tuple[str, ...]) -> bool:
    rest = iter(all_of_them)
    return all(number in rest for number in some)


def _order_of_names(ours: ParsedText, theirs: ParsedText) -> bool:
    names = (ours.names | theirs.names) & set(ours.content) & set(theirs.content)
    return [word for word in dict.fromkeys(ours.content) if word in names] != [
        word for word in dict.fromkeys(theirs.content) if word in names
    ]


def _has_turned_roles(ours: ParsedText, theirs: ParsedText) -> bool:
    """Whether a sentence "A does B" faces a "B does A"."""
    one, other = ours.words, theirs.words
    if not 3 <= len(one) <= MAX_TURNED or sorted(one) != sorted(other) or one == other:
        return False
    if _passives(ours) != _passives(theirs):
        return False
    return any(
        one[end:] + one[start:end] + one[:start] == other
        for start in range(1, len(one) - 1)
        for end in range(start + 1, len(one))
    )


def _passives(reading: ParsedText) -> int:
    return sum(token.word == "by" for token in reading.tokens)


def _has_other_words(ours: ParsedText, theirs: ParsedText, allowed: float) -> bool:
    if _is_swapped(dict.fromkeys(ours.words), dict.fromkeys(theirs.words)):
        return True
    mine, others = set(ours.content), set(theirs.content)
    return not mine or len(mine - others) > allowed * len(mine)


def _is_swapped(mine: dict[str, None], others: dict[str, None]) -> bool:
    """Whether words differ in an otherwise equal order: "likes dark mode", "hates dark mode"."""
    common = [word for word in mine if word in others]
    if len(common) in {len(mine), len(others)}:
        return False
    return common == [word for word in others if word in mine]
