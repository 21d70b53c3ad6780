"""The front matter of notes, in YAML or TOML, with its values as they are written."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import accumulate
from typing import Any

import msgspec
import yaml

from services.memory.ingest.pieces import (
    find_day,
    parse_agent_name,
    parse_created,
    parse_date,
    parse_importance,
    parse_kind,
    parse_tags,
)

MAX_PROPERTIES = 20
MAX_VALUE = 200

OWN = frozenset(
    "title kind type tags tag keywords date created created_at valid_from valid_to expires importance "
    "agent".split()
)
"""Properties that become fields of the nodes; the others are kept in the note's metadata."""

BLOCK = re.compile(
    r"(?P<rule>---|\+\+\+)[ \t]*\n(?P<text>.{0,50000}?)(?<=\n)(?:(?P=rule)|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL
)
"""Front matter: YAML between lines of ``---``, or TOML between lines of ``+++``."""


class FrontMatter(msgspec.Struct, frozen=True, kw_only=True):
    """A note's front matter; ``lines`` is the number of its lines, ``text`` its source, and ``unread`` its
    lines that belong to no field.
    """

    title: str = ""
    kind: str = ""
    tags: tuple[str, ...] = ()
    date: str = ""
    created: str = ""
    valid_to: str = ""
    importance: float | None = None
    agent: str = ""
    properties: dict[str, Any] = {}
    lines: int = 0
    text: str = ""
    unread: tuple[str, ...] = ()


def parse_front_matter(text: str, known: date) -> FrontMatter:
    """The front matter of a note; an empty one if there is none, or it has no field.

    Values are as they are written. What YAML or TOML refuses is read entry by entry, and an entry that is
    refused by itself is what stands behind its colon. Days without a year are read by the day ``known``.
    """
    match = BLOCK.match(text)
    fields, unread = _read_fields(match["text"], match["rule"]) if match else ({}, ())
    if match is None or not fields:
        return FrontMatter()

    def find_date(*names: str) -> str:
        values = (fields.get(name) for name in names)
        return next((day for value in values if value and (day := _find_date(value, known))), "")

    kind = fields.get("kind")
    return FrontMatter(
        title=_line(fields.get("title")),
        kind=parse_kind(kind) or parse_agent_name(kind) or parse_kind(fields.get("type")),
        tags=parse_tags(fields.get("tags", fields.get("tag", fields.get("keywords")))),
        date=find_date("valid_from", "date", "created", "created_at"),
        created=parse_created(fields),
        valid_to=find_date("valid_to", "expires"),
        importance=parse_importance(fields.get("importance")),
        agent=parse_agent_name(fields.get("agent")),
        properties=_properties(fields),
        lines=match[0].count("\n"),
        text=match["text"],
        unread=unread,
    )


def _find_date(value: Any, known: date) -> str:
    if not isinstance(value, str):
        return parse_date(value)
    try:  # also one of another century, which no text means by chance in such a field
        return parse_date(value) or parse_date(date.fromisoformat(value.strip()[:10]))
    except ValueError:
        return find_day(value, known)


class AsWritten(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the quicker one, if it is there
    """Loads YAML without guessing types: ``no`` and ``010`` are texts, as in what people write by hand."""

    yaml_implicit_resolvers = {
        first: [(tag, form) for tag, form in known if tag.endswith((":null", ":merge"))]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


MAX_BRACKETS = 1_000  # Open at once; from there on a text is not parsed: the time grows with their square


def load_yaml(text: str) -> list[Any]:
    """The documents of a text; raises YAMLError, RecursionError, ValueError or TypeError if it is none."""
    marks = re.findall(r"[\[\]{}]", text)
    if max(accumulate(1 if mark in "[{" else -1 for mark in marks), default=0) > MAX_BRACKETS:
        raise yaml.YAMLError("its brackets are nested too deep")
    return list(yaml.load_all(text, Loader=AsWritten))


_ENTRY = re.compile(r"(?P<name>\w[^:=\n]{0,60}?|\"[^\"\n]{1,60}\")\s*(?P<mark>[:=])(?:[ \t]+(?P<value>.*))?$")
_ITEM = re.compile(r"\s*-\s+(?P<item>.*)")
_HASHES = re.compile(r"(?m)^([ \t]*(?:-|tags?[ \t]*:|keywords[ \t]*:)[ \t]+)((?:#\w[^\s,#]*[, \t]*)+)$")
"""Tags with the ``#`` that they have in texts, which begins a comment in YAML."""


def _read_fields(text: str, rule: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields of front matter by their names in lower case, and the lines that are of none."""
    text = _HASHES.sub(lambda match: match[1] + match[2].replace("#", ""), text)
    if (values := _load_fields(text, rule)) is not None:
        return {str(name).strip().lower(): value for name, value in values.items()}, ()
    fields: dict[str, Any] = {}
    unread: list[str] = []
    entries: list[list[str]] = []
    for line in filter(str.strip, text.split("\n")):
        match = _ENTRY.match(line)
        if match and match["mark"] == (":" if rule == "---" else "="):
            entries.append([line])
        elif entries and (line[:1].isspace() or line[0] in "-]}"):
            entries[-1].append(line)
        elif not line.startswith("#"):
            unread.append(line)
    for entry in entries:
        loaded = _load_fields("\n".join(entry), rule) or _read_entry(entry)
        fields |= {str(name).strip().lower(): value for name, value in loaded.items()}
    return fields, tuple(unread)


def _load_fields(text: str, rule: str) -> dict[Any, Any] | None:
    """The mapping that a text of YAML, or of TOML, is; None if it is none."""
    try:
        (values,) = load_yaml(text) if rule == "---" else [tomllib.loads(text, parse_float=str)]
    except (yaml.YAMLError, RecursionError, ValueError, TypeError):
        return None
    return values if isinstance(values, dict) else None


def _read_entry(lines: Sequence[str]) -> dict[str, Any]:
    """An entry as it is written: the text behind its colon, or the items of a list."""
    match = _ENTRY.match(lines[0])
    name, value = (match["name"].strip('"'), (match["value"] or "").strip()) if match else ("", "")
    items = [item["item"].strip() for line in lines[1:] if (item := _ITEM.match(line))]
    if value.startswith("[") and value.endswith("]"):
        items = [part.strip() for part in value[1:-1].split(",")]
    if items:
        return {name: [_unquote(item) for item in items]}
    return {name: _unquote(" ".join([value, *(line.strip() for line in lines[1:])]))}


def _unquote(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _line(value: Any) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float | date) else ""


def _properties(fields: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in fields.items():
        if name in OWN or len(kept) == MAX_PROPERTIES or len(name) > MAX_VALUE:
            continue
        if isinstance(value, bool | int | float):
            kept[name] = value
        elif isinstance(value, str | date) and 0 < len(str(value)) <= MAX_VALUE:
            kept[name] = str(value)
        elif isinstance(value, list) and all(isinstance(each, str | int) for each in value):
            kept[name] = [str(each)[:MAX_VALUE] for each in value[:MAX_PROPERTIES]]
    return kept
