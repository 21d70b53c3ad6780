"""The words of a sentence that say something, and where each stands: subject, verb, behind which
preposition.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from services.memory.linking import claim_words as table
from services.memory.linking.marks import is_change
from services.memory.linking.tokens import Token, tokenize

_HELPING = table.BEING | table.AUXILIARIES
_KNOWN_VERBS = table.VERBS | table.CHANGE_VERBS

_LINKS = frozenset("to and or that which who when if but then we i they you he she it".split())
"""Words after which another verb may come."""

_PRONOUNS = frozenset("we i they you".split())
_BEFORE_BASE = table.AUXILIARIES | _PRONOUNS | frozenset("to and or people children all not never".split())
"""Words before the base form of a verb; nouns in the plural may stand there too."""

_BEFORE_VERB = frozenset("to all each that this".split())
_SUCCESSION = re.compile(
    r"\b(?:took|takes|taken|take) over|\b(?:inherited|succeed(?:s|ed)|became|becomes|steps in|stepped in)\b",
    re.IGNORECASE,
)


class Word(NamedTuple):
    """A word that says something. ``hard``: a name, a typed value or a qualifier, in place of which nothing
    else will do.

    ``slot`` is subject (before the first verb), copula (after is and its like), object (right after a
    verb), moved (after one of change), verb, or the preposition before it, with "before " in front if no
    verb came yet. ``verb`` is the last verb before it; ``optional`` says that it is of a heading or label.
    """

    key: str
    word: str
    type: str
    hard: bool
    slot: str
    place: int
    verb: str
    optional: bool = False


def read_words(text: str) -> tuple[Word, ...]:
    """The words of a text that say something, each with its slot."""
    tokens = tokenize(text)
    return tuple(
        Word(
            key=token.key,
            word=token.word,
            type=token.type,
            hard=token.word in table.HARD or token.named or bool(token.type),
            slot=slot,
            place=place,
            verb=verb,
        )
        for place, token, slot, verb in _place_words(tokens, is_succession=bool(_SUCCESSION.search(text)))
        if _says_something(token, is_verb=slot == "verb")
    )


def find_main_verb(text: str) -> str:
    """The root of the first verb that is no auxiliary; empty if there is none."""
    tokens = tokenize(text)
    verbs = (tokens[place] for place in find_verbs(tokens))
    return next((table.root(token.word) for token in verbs if token.key and token.word not in _HELPING), "")


def find_verbs(tokens: Sequence[Token]) -> list[int]:
    """The places of what are verbs where they stand, as far as one can tell from the words beside them."""
    verbs: list[int] = []
    acting = False
    for place, token in enumerate(tokens):
        if not token.key:
            acting = acting and token.word not in ",;"
            if token.word in (":", "="):
                verbs.append(place)
        elif token.word in _LINKS:
            acting = False
        elif _is_verb(tokens, place) and not (acting and token.word not in _HELPING):
            verbs.append(place)
            acting = token.word not in _HELPING
    return verbs


def _place_words(tokens: Sequence[Token], *, is_succession: bool) -> Iterator[tuple[int, Token, str, str]]:
    """Place, token, slot and last verb of all words but prepositions."""
    verbs = find_verbs(tokens)
    fronted = _is_fronted(tokens)
    slot, verb, seen = "on" if fronted else "subject", "", False
    for place, token in enumerate(tokens):
        if token.word == "to" and place + 1 in verbs:  # an infinitive
            slot = "to do"
        elif token.word in ("over", "up", "off", "out") and place - 1 in verbs:
            pass  # of the verb: takes over
        elif token.word in table.PREPOSITIONS:
            if token.word != "of" or slot not in table.PREPOSITIONS:
                early = (verbs and not seen and not (fronted and not place)) or (
                    is_succession and token.word == "as"
                )
                slot = f"before {token.word}" if early else token.word
        elif place in verbs:
            seen = True
            slot = _slot_after(token, slot)
            if token.word not in table.COPULAS and token.key:
                verb = token.key
        elif not seen and (token.word == "," or (fronted and token.word in table.NOTHING)):
            slot, fronted = "subject", False
        yield place, token, "verb" if place in verbs else slot, verb


def _is_fronted(tokens: Sequence[Token]) -> bool:
    """Whether a sentence begins with when or how much: "on Fridays we ...", "every Friday a van ..."."""
    first, second, third = (*tokens[:3], *[Token("", "")] * 3)[:3]
    if first.word in table.PREPOSITIONS:
        return bool(second.type)
    return (
        first.type in ("day", "date", "frequency", "clock")
        and second.word in table.NOTHING
        and bool(third.key)
    )


def _slot_after(verb: Token, slot: str) -> str:
    """The slot of what follows a verb, which itself stands in ``slot``."""
    if verb.word in table.COPULAS or not verb.key:
        return "copula"
    if slot == "copula" and verb.word.endswith(("ed", "en", "t", "n")):  # is painted, is built
        return "copula"
    return "moved" if is_change(verb.word) else "object"


def _says_something(token: Token, *, is_verb: bool) -> bool:
    word = token.word
    if token.type:
        return True
    if not token.key or word in table.NOTHING | _HELPING | table.PREPOSITIONS or word.endswith("n't"):
        return False
    stem = table.root(word)
    if is_change(word) or (is_verb and stem in table.GENERIC_VERBS):
        return False
    return word not in table.GENERIC_NOUNS or (token.named and len(word) > 3)


def _is_verb(tokens: Sequence[Token], place: int) -> bool:
    word, before = tokens[place].word, tokens[place - 1].word if place else ""
    if word in _HELPING:
        return True
    if not place:
        return _is_command(tokens)
    if tokens[place].type or tokens[place].named:
        return False
    if before in _PRONOUNS and word not in table.NOTHING | table.PREPOSITIONS:
        return True
    if before in (table.DETERMINERS | table.PREPOSITIONS) - _BEFORE_VERB:
        return False
    following = tokens[place + 1].word if place + 1 < len(tokens) else ""
    return _has_verb_form(word, before, following)


def _is_command(tokens: Sequence[Token]) -> bool:
    """Whether a sentence begins with a verb: "use DeepL", "put the keys"."""
    first, second = tokens[0], tokens[1] if len(tokens) > 1 else tokens[0]
    known = table.root(first.word) in _KNOWN_VERBS and not first.word.endswith(
        ("s", "ed", "ing", *table.NOUN_ENDINGS)
    )
    return known and (second.word in table.DETERMINERS or second.named)


def _has_verb_form(word: str, before: str, following: str) -> bool:
    """Whether a word between two others looks like a verb in a form that may stand there."""
    known = table.root(word) in _KNOWN_VERBS
    if before == "to" and following in table.DETERMINERS:
        return True
    if word.endswith(table.NOUN_ENDINGS) and word.rstrip("s") not in table.VERBS_IN_ER:
        return False
    if word.endswith("ing"):
        return known and before in table.BEING
    if word.endswith(("ed", "en")) or word in table.IRREGULAR_PASTS:
        return known or (word.endswith("ed") and len(word) > 4)
    if word.endswith("s"):
        generic = table.root(following) in table.GENERIC_VERBS and not following.endswith("s")
        is_noun = following in _HELPING or generic  # "tests are", "deploys happen"
        return not is_noun and (known or following in table.DETERMINERS)
    plural = before.endswith("s") and before not in table.BEING
    return known and (before in _BEFORE_BASE or plural)
