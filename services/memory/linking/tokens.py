"""A sentence as typed words: what it names, and the days, times, amounts and names that may be its values."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from services.memory.linking import claim_words as table

_TOKEN = re.compile(
    r"""
    https?://\S+ | [\w.+-]+@[\w-]+\.[\w.]+ | \d{4}-\d\d-\d\d
  | (?P<clock>\d{1,2}:\d\d\s*(?:am|pm)?|\d{1,2}\.\d\d\s*(?:am|pm|h\b|o.clock)|\d{1,2}\s*(?:am|pm|o.clock)\b)
  | (?P<sum>[€$£]\s?\d[\d.,]*\w?|\d[\d.,]*\s?[€$£])
  | (?P<amount>\d+(?:[.,]\d+)*)(?P<unit>%|\s?percent\b|[a-z]{1,3}\b)?
  | \#[\w-]+ | [^\W_](?:[\w+/'’.@-]*\w|\+\+|\#)?(?:\+\+|\#)? | [,;:=()–—]
    """,
    re.VERBOSE | re.IGNORECASE,
)
_POSSESSIVE = re.compile(r"['’](?:s|ve|re|ll|d|m)$|(?<=s)['’]$")
_ORDINAL = re.compile(r"^\d+(?:st|nd|rd|th)$")
_PHRASES = re.compile(
    r"\b(?:" + "|".join(sorted(table.PHRASES, key=len, reverse=True)) + r")\b", re.IGNORECASE
)


class Token(NamedTuple):
    """A word in small letters as it stands, its ``key`` for comparing, and its ``type`` if it is a value.

    Types are day, date, clock, daypart, frequency, duration, size, money, percent, number, version and
    ident (which one of several: the 4 of "ward 4"); empty for words. ``named`` says that it is written as a
    name.
    """

    word: str
    key: str
    type: str = ""
    named: bool = False


def tokenize(sentence: str) -> list[Token]:
    """The words of a sentence in their order; marks of punctuation are tokens without a key.

    The first word is a name only if it is written as one within. A blank before it says that it is not the
    first.
    """
    text = _PHRASES.sub(lambda match: table.PHRASES[match[0].casefold()], sentence)
    raw = [token for match in _TOKEN.finditer(text) for token in _split(match)]
    inner = [Token("", ""), *raw] if sentence[:1] == " " else raw
    return list(_join(inner))


def _split(match: re.Match[str]) -> Iterator[Token]:
    """One match as tokens: an amount with its unit is two."""
    text = match[0]
    low = _POSSESSIVE.sub("", text.casefold().replace("’", "'"))
    if match["clock"]:
        # A time of day in minutes
        hours, minutes = (*re.findall(r"\d+", low), "0")[:2]
        late = "pm" in low and int(hours) < 12
        yield Token(low, str((int(hours) + 12 * late) * 60 + int(minutes)), "clock")
    elif match["sum"]:
        yield Token(low, re.sub(r"[^\d.,]", "", low), "money")
    elif match["amount"]:
        unit = (match["unit"] or "").strip().casefold()
        if unit and unit not in table.DURATIONS | table.SIZES | {"%", "percent", "k", "m"}:
            if _ORDINAL.match(low):
                yield Token(low, low, "date")
            else:
                yield Token(low, low, named=True)
            return
        yield Token(match["amount"], match["amount"], "number")
        if unit:
            yield Token(unit, unit)
    elif len(low) == 1 and not low.isalnum():
        yield Token(low, "")
    elif low in table.NUMBER_WORDS:
        yield Token(low, table.NUMBER_WORDS[low], "number")
    else:
        bare = text[: len(low)]
        named = (
            bare[0] == "#"
            or any(map(str.isupper, bare))
            or any(map(str.isdigit, bare))
            or bool(re.search(r"\w[./]\w", bare))
        )
        stem = table.root(low)
        yield Token(low, table.SYNONYMS.get(stem, stem), named=named)


def _join(raw: list[Token]) -> Iterator[Token]:
    """Join what is one value: "3 May", "30 days", "every two weeks", "half past six"."""
    place = 0
    while place < len(raw):
        taken, token = _read_value(raw, place)
        yield token
        place += taken


def _read_value(raw: list[Token], place: int) -> tuple[int, Token]:
    """The value that begins at ``place`` and how many tokens it has; else the token there."""
    for reader in (_read_frequency, _read_date, _read_clock, _read_amount):
        if found := reader(raw, place):
            return found
    return 1, _read_word(raw, place)


def _word(raw: list[Token], place: int) -> str:
    return raw[place].word if 0 <= place < len(raw) else ""


def _type(raw: list[Token], place: int) -> str:
    return raw[place].type if 0 <= place < len(raw) else ""


def _value(raw: list[Token], place: int, count: int, kind: str) -> tuple[int, Token]:
    words = [token.word for token in raw[place : place + count]]
    keys = [table.WEEKDAYS.get(token.word) or _period(token) for token in raw[place : place + count]]
    return count, Token(" ".join(words), f"{kind}:{' '.join(filter(None, keys))}", kind)


def _period(token: Token) -> str:
    return token.key if token.type else table.root(token.word)


def _read_frequency(raw: list[Token], place: int) -> tuple[int, Token] | None:
    word, following = _word(raw, place), _word(raw, place + 1)
    if word in ("every", "each"):
        skip = 2 if following in ("other", "second") or _type(raw, place + 1) == "number" else 1
        period = _word(raw, place + skip)
        if period in table.WEEKDAYS and skip == 1:
            return 2, Token(f"{word} {period}", f"day:{table.WEEKDAYS[period]}", "day")
        if period in table.WEEKDAYS or period.rstrip("s") in table.PERIODS:
            every = ["every", *(_period(token) for token in raw[place + 1 : place + skip + 1])]
            words = " ".join(token.word for token in raw[place : place + skip + 1])
            return skip + 1, Token(words, f"frequency:{' '.join(every)}", "frequency")
    if word in ("once", "twice") or (_type(raw, place) == "number" and following in ("times", "time")):
        count = 1 if word in ("once", "twice") else 2
        if _word(raw, place + count) in ("a", "an", "per", "each", "every"):
            return _value(raw, place, count + 2, "frequency")
    if word in table.OFTEN:
        return 1, Token(word, f"frequency:every {table.OFTEN[word]}", "frequency")
    if word in ("a", "an", "per") and following in table.PERIODS:
        return _value(raw, place, 2, "per")
    return None


def _read_date(raw: list[Token], place: int) -> tuple[int, Token] | None:
    token, word = raw[place], _word(raw, place)
    numbered = {"number", "date"}
    if word in ("this", "next", "last", "coming") and _word(raw, place + 1) in table.PERIODS:
        return _value(raw, place, 2, "date")
    if word in table.MONTHS and (word != "may" or token.named):
        count = 1 + (_type(raw, place + 1) in numbered)
        return _value(raw, place, count, "date")
    if token.type in numbered:
        after = place + 1 + (_word(raw, place + 1) == "of")
        month = raw[after] if after < len(raw) else None
        if month and month.word in table.MONTHS and (month.word != "may" or month.named):
            return _value(raw, place, after + 1 - place, "date")
    if token.type == "date" or re.fullmatch(r"\d{4}-\d\d-\d\d|20\d\d", word):
        return _value(raw, place, 1, "date")
    if word in table.WEEKDAYS and not (len(word) == 3 and not token.named):
        return _value(raw, place, 1, "day")
    return None


def _read_clock(raw: list[Token], place: int) -> tuple[int, Token] | None:
    token, word = raw[place], _word(raw, place)
    if token.type == "clock":
        return 1, Token(word, f"clock:{token.key}", "clock")
    if word in ("half-past", "quarter"):
        count = 2 if word == "half-past" else 3
        return _value(raw, place, count, "clock")
    if word in ("noon", "midnight", "lunchtime"):
        return _value(raw, place, 1, "clock")
    hour = token.type == "number" and token.key.isdigit() and int(token.key) <= 24
    unit = _word(raw, place + 1)
    if hour and _word(raw, place - 1) in ("at", "until", "by") and unit in ("", ",", *table.PREPOSITIONS):
        return 1, Token(word, f"clock:{int(token.key) * 60}", "clock")
    if word in table.DAYPARTS:
        return _value(raw, place, 1, "daypart")
    return None


_UNITS = (
    ("duration", table.DURATIONS),
    ("size", table.SIZES),
    ("money", table.MONEY),
    ("percent", frozenset({"%", "percent"})),
    ("number", frozenset({"degrees", "k", "m"})),
)


def _read_amount(raw: list[Token], place: int) -> tuple[int, Token] | None:
    token = raw[place]
    if token.type == "money":
        return 1, token._replace(key=f"money:{token.key}")
    if token.type != "number":
        return None
    unit = _word(raw, place + 1)
    for kind, units in _UNITS:
        if unit in units:
            return _value(raw, place, 2, kind)
    before = raw[place - 1] if place else Token("", "")
    noun = before.key and not before.type and before.word not in table.NOTHING | table.PREPOSITIONS
    noun = noun and before.word not in table.BEING | table.AUXILIARIES and before.word not in _AMOUNT_VERBS
    counts = (
        table.root(before.word) in table.VERBS
        and not before.word.endswith(table.NOUN_ENDINGS)
        and unit.endswith("s")
    )  # "accept 600 requests"
    noun = noun and not counts
    kind = "version" if before.word in ("version", "release") else "ident" if noun else "number"
    return 1, Token(token.word, f"number:{token.key}", kind)


_AMOUNT_VERBS = frozenset(
    """
    has have had hold holds cost costs run runs keep keeps contain contains allow allows need needs require
    requires take takes serve serves include includes last lasts weigh weighs reach reaches exceed exceeds
    handle handles store stores equals employ employs get gets use uses give gives offer offers seat seats
    fit fits
    """.split()
)
"""Verbs right before an amount: it does not say which one of several is meant."""


def _read_word(raw: list[Token], place: int) -> Token:
    token = raw[place]
    before = raw[place - 1] if place else Token("", "")
    letter = len(token.word) == 1 and token.named and token.word != "i"
    if letter and before.key and before.word not in table.NOTHING | table.PREPOSITIONS:
        return Token(token.word, f"number:{token.word}", "ident", named=True)
    follows = place + 1 < len(raw) and raw[place + 1].named and raw[place + 1].word.isalpha()
    begins = not place and token.word.isalpha() and not follows  # "Amara Obi" is a name
    return token._replace(named=False) if begins else token
