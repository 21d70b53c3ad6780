"""Texts read as statements: words of each sentence that say something, without greetings and the like."""

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
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

    Types are day, date, clock, frequency, duration, size, money, percent, number, version and
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
        if unit and unit not in table.MEASURES.keys() - {"g", "l"} | {"%", "percent", "k"}:
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
    if kind == "date":  # "February 1" is "the 1st of Feb"
        days = (table.MONTHS.get(word) or (word[:-2] if _ORDINAL.match(word) else word) for word in words)
        keys = sorted(day for day in days if day != "of")
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
    return None


_UNITS = (
    ("money", table.MONEY),
    ("percent", frozenset({"%", "percent"})),
    ("number", frozenset({"degrees", "k", "megapixels"})),
)


def _read_amount(raw: list[Token], place: int) -> tuple[int, Token] | None:
    token = raw[place]
    if token.type == "money":
        return 1, token._replace(key=f"money:{token.key}")
    if token.type != "number":
        return None
    unit = _word(raw, place + 1)
    if unit in table.MEASURES:
        kind, factor = table.MEASURES[unit]
        amount = f"{kind}:{factor * _number(token.key):.6g}"
        return 2, Token(f"{token.word} {unit}", amount, _STANDING.get(kind, kind))
    for kind, units in _UNITS:
        if unit in units:
            return _value(raw, place, 2, kind)
    before = raw[place - 1] if place else Token("", "")
    noun = before.key and not before.type and before.word not in table.NOTHING | table.PREPOSITIONS
    noun = noun and before.word not in table.BEING | table.AUXILIARIES
    counts = (
        table.root(before.word) in table.VERBS
        and not before.word.endswith(table.NOUN_ENDINGS)
        and unit.endswith("s")
    )  # "accept 600 requests"
    noun = noun and not counts
    kind = "version" if before.word in ("version", "release") else "ident" if noun else "number"
    return 1, Token(token.word, f"number:{token.key}", kind)


_STANDING = {"stay": "duration", "length": "number", "weight": "number", "volume": "number"}
"""Kinds of measures that count as another type of value."""


def _number(amount: str) -> float:
    """What an amount is, in figures: 1,000 is a thousand, 2.40 and 1,5 are not."""
    if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", amount):
        return float(amount.replace(",", ""))
    whole, _, rest = amount.replace(",", ".").partition(".")
    return float(f"{whole}.{rest.replace('.', '')}")


def _read_word(raw: list[Token], place: int) -> Token:
    token = raw[place]
    before = raw[place - 1] if place else Token("", "")
    letter = len(token.word) == 1 and token.named and token.word != "i"
    if letter and before.key and before.word not in table.NOTHING | table.PREPOSITIONS:
        return Token(token.word, f"number:{token.word}", "ident", named=True)
    follows = place + 1 < len(raw) and raw[place + 1].named and raw[place + 1].word.isalpha()
    begins = not place and token.word.isalpha() and not follows  # "Amara Obi" is a name
    return token._replace(named=False) if begins else token


def _compile(*alternatives: str) -> re.Pattern[str]:
    return re.compile(f"^(?:{'|'.join(alternatives)})", re.IGNORECASE)


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
)
_RESOLVED = _compile(
    r"(?:we|i|the team|they|everyone) (?:have |has |had |all |just )*"
    r"(?:agreed|decided|resolved|settled|chose|opted)(?: in [^,]{3,20})? to (?=\w)",
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
        statements[0] = _join_heading(_read_clause(heading, frozenset()), statements[0])
    whole = text[: MAX_SENTENCES * MAX_SENTENCE]
    cues = {name: len(pattern.findall(whole)) for name, pattern in _PATTERNS.items()}
    keys = frozenset(term.key for statement in statements for term in statement.terms)
    return Reading(tuple(statements), cues, keys, len(_NEGATION.findall(whole)))


def _join_heading(heading: Statement, first: Statement) -> Statement:
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


def name_the_same(one: str, other: str) -> bool:
    """Whether two texts have a word in common that says what they are about."""
    return not read_text(one).keys.isdisjoint(read_text(other).keys)


def have_other_values(one: str, other: str) -> bool:
    """Whether texts that look the same give other amounts, days or times, or one tells an end."""
    first, second = read_text(one), read_text(other)
    if bool(first.cues["end"]) != bool(second.cues["end"]):
        return True
    ours, theirs = _typed_values(first), _typed_values(second)
    return bool({family for family, _ in ours - theirs} & {family for family, _ in theirs - ours})


def _typed_values(text: Reading) -> set[tuple[str, str]]:
    terms = (term for statement in text.statements for term in statement.terms if term.type)
    return {(table.FAMILIES.get(term.type, term.type), term.key.partition(":")[2]) for term in terms}
