"""What a message names: its words, and the values in it that a parameter may have."""

import functools
import json
import re
import zoneinfo
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from shared.language.utterance import Act
from shared.text.prose import EMPTY_WORDS, stem_term

Kind = Literal["word", "quoted", "url", "path", "pair", "time", "number"]
Known = Sequence[Mapping[str, tuple[str, ...]]]
"""What a server told of its things: the values of each field, in a record for each thing."""

_TOKENS: dict[Kind, str] = {
    "quoted": r"\"[^\"]+\"|“[^”]+”|`[^`]+`|(?<!\w)'[^']+'(?!\w)",
    "url": r"(?i:https?://|www\.)[^\s<>\"]+|(?<![\w@/.])(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|app)(?:/\S*)?(?![\w])",
    "path": r"(?<![\w/])(?:~|\.{1,2})?/[^\s\"',;?]*[^\s\"',;?.]|\*\.\w+",
    "pair": r"(?<![\w/])[\w.-]*\w/[\w.-]*\w(?![\w/])",
    "time": r"(?<!\w)\d{1,2}:\d{2}(?!\d)",
    "number": r"(?<![\w.])[#-]?\d+(?:[.,]\d+)?(?![\w])",
    "word": r"[^\W_]+(?:[-_][^\W_]+)*|[%°]",
}
_TOKEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _TOKENS.items()))
_WORD = re.compile(r"[^\W_]+")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_FIELD = re.compile(r"^([\s-]*)[\"']?(\w+)[\"']?\s*:\s*[\"']?([^\"'\n{}\[\]]+)", re.MULTILINE)
_SIGNS = {"%": "percent", "°": "degree"}
SMALL = frozenset("up in on at to of by off out all with from the a an".split())
"""Words that mean something in the name of a tool though they are small."""
LIMITS = frozenset(
    "but not no never except without unless if when while until till after before then and or".split()
)
"""Words that limit or go on with what is to be done, which a call with arguments cannot say."""
PARTICLES = frozenset("on off up down in out".split())
"""Words that say with a verb what to do, and elsewhere where something is."""
COURTESY = frozenset("pleas thank hey hi ok okay kind each everi singl everywher everyth".split())
"""The stems of words that add nothing to what is to be done."""


class Token(NamedTuple):
    """A word or value of a message, and where it stands."""

    kind: Kind
    text: str
    stem: str
    start: int
    end: int

    @property
    def counts(self) -> bool:
        """Whether it says something: all values, and words that are not small."""
        lower = self.text.lower()
        small = len(lower) < 2 or (lower in EMPTY_WORDS and lower not in LIMITS)  # the s of "what's"
        return self.kind != "word" or not (small or self.stem in COURTESY)


class Said(NamedTuple):
    """A message: its words and values, what it does, and the time zone of the person."""

    text: str
    tokens: list[Token]
    act: Act
    zone: str

    @property
    def asks(self) -> bool:
        """Whether it is a question."""
        return self.act is Act.QUESTION

    @property
    def first(self) -> tuple[str, ...]:
        """Its first word that says something."""
        return tuple(token.text for token in self.tokens if token.counts)[:1]

    @property
    def particles(self) -> frozenset[str]:
        """The words such as on and off that go with its verb: the first of them, and one at the end."""
        words = [token.stem for token in self.tokens if token.stem not in COURTESY]
        places = [at for at, word in enumerate(words) if word in PARTICLES]
        return frozenset(words[at] for at in places if at == places[0] or at == len(words) - 1)


def read_tokens(text: str) -> list[Token]:
    """The words and values of ``text``, in their order."""
    found = []
    for match in _TOKEN.finditer(text):
        kind: Kind = match.lastgroup  # type: ignore[assignment]
        said = match[0].strip("\"“”`'") if kind == "quoted" else match[0]
        word = _SIGNS.get(said, said)
        found.append(
            Token(kind, said, stem_term(word) if kind == "word" else said, match.start(), match.end())
        )
    return found


def split_name(name: str) -> list[str]:
    """The stems of the words of a name: turn and off of HassTurnOff."""
    return [stem_term(part) for part in _PART.findall(name)]


@functools.lru_cache(maxsize=4_000)
def stems_of(text: str) -> tuple[str, ...]:
    """The stems of the words of ``text``."""
    return tuple(stem_term(word) for word in _WORD.findall(text))


def name_stems(value: str) -> list[str]:
    """The stems of the words of a value, which may be written as one: media_player."""
    return [stem for part in re.split(r"[_\s]+", value) for stem in stems_of(part)]


def find_spans(tokens: list[Token], value: str) -> Iterator[range]:
    """Where the words of ``value`` stand side by side in a message."""
    wanted = name_stems(value)
    stems = [token.stem for token in tokens]
    for start in range(len(stems) - len(wanted) + 1 if wanted else 0):
        if stems[start : start + len(wanted)] == wanted:
            yield range(start, start + len(wanted))


@functools.cache
def _zones() -> dict[str, str]:
    """The time zones by their names and by their towns, in small letters."""
    names = sorted(
        zoneinfo.available_timezones(), key=lambda name: ("/" not in name, len(name)), reverse=True
    )
    towns = {name.rsplit("/", 1)[-1].replace("_", " ").lower(): name for name in names if "/" in name}
    return towns | {name.lower(): name for name in names}


def find_zones(tokens: list[Token]) -> list[tuple[range, str]]:
    """The time zones and their towns that a message names, and where."""
    found: list[tuple[range, str]] = []
    at = 0
    while at < len(tokens):
        for size in (3, 2, 1):
            said = " ".join(token.text for token in tokens[at : at + size]).lower()
            if at + size <= len(tokens) and said in _zones() and (size > 1 or tokens[at].text != said):
                found.append((range(at, at + size), _zones()[said]))
                at += size - 1
                break
        at += 1
    return found


def read_known(text: str) -> Known:
    """The records that a server told, whatever their form: JSON, YAML, or YAML within JSON.

    ``areas: Kitchen, Hall`` gives the field areas two values; "- " begins the next record.
    """
    records: list[dict[str, list[str]]] = [{}]
    try:
        _walk(json.loads(text), records)
    except ValueError:
        _read_lines(text, records)
    return tuple({name: tuple(values) for name, values in each.items()} for each in records if each)


def _walk(value: Any, records: list[dict[str, list[str]]], name: str = "") -> None:
    if isinstance(value, dict):
        records.append({})
        for key, each in value.items():
            _walk(each, records, str(key))
    elif isinstance(value, list):
        for each in value:
            _walk(each, records, name)
    elif isinstance(value, str) and "\n" in value:
        _read_lines(value, records)
    elif isinstance(value, str) and name:
        _add(records, name, value)


def _read_lines(text: str, records: list[dict[str, list[str]]]) -> None:
    for mark, name, value in _FIELD.findall(text):
        if "-" in mark:
            records.append({})
        _add(records, name, value)


def _add(records: list[dict[str, list[str]]], name: str, value: str) -> None:
    parts = (each.strip() for each in value.split(","))
    records[-1].setdefault(name.lower(), []).extend(each for each in parts if each)


def values_of(known: Known, parameter: str) -> list[str]:
    """The values that there are for ``parameter``: those of the field of its name, be it plural."""
    names = (parameter.lower(), f"{parameter.lower()}s")
    return list(dict.fromkeys(value for each in known for name in names for value in each.get(name, ())))


def find_implied(known: Known, value: str, fields: Collection[str]) -> frozenset[str]:
    """The stems of what a server tells of the thing ``value``: of a lamp, that it is a light."""
    told = [each for each in known if value in each.get("names", each.get("name", ()))]
    values = [said for each in told for name in fields for said in values_of([each], name)]
    return frozenset(word for said in values for word in name_stems(said))
