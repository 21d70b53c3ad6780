"""Records, one piece each: the elements of JSON and YAML, the rows of a table."""

import csv
import io
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import yaml

from services.memory.ingest.chats import DATES, find_said
from services.memory.ingest.front_matter import load_yaml
from services.memory.ingest.kinds import find_headed_kind
from services.memory.ingest.passages import first_words, split_text
from services.memory.ingest.pieces import (
    MAX_BODY,
    Document,
    IngestError,
    Piece,
    clean_tags,
    hash_text,
    join_title,
    parse_agent_name,
    parse_created,
    parse_date,
    parse_importance,
    parse_kind,
    parse_tags,
)
from shared.recurrence import Recurrence, describe_recurrence
from shared.skills.calendar import read_components

MAX_VALUES = 2_000_000  # The most values of one file: YAML's references make a small file a huge one

MAX_DEPTH = 40  # The deepest nesting that is read

TITLES = "title name subject headline summary label question key id text body content description".split()
"""Fields that name a record, the best first; else its first text does."""

_LETTERS = re.compile(r"[^\W\d_]{2}")

SENTENCE = 4  # The words from which a text says by itself what it is about

Entry = tuple[tuple[str, ...], int, Any]
"""The names above a record, its line (1 if the format has none), and the record."""


def parse_json(stem: str, text: str) -> tuple[Piece, ...]:
    """JSON, or JSON lines, as records; raises IngestError if it is neither."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        try:
            entries = [((), number, msgspec.json.decode(line)) for number, line in lines]
        except (msgspec.DecodeError, RecursionError):
            raise IngestError(f"it is not valid JSON: {error}") from None
        return _pieces(stem, iter(entries))
    return _pieces(stem, _find_records(value))


def parse_yaml(stem: str, text: str) -> tuple[Piece, ...]:
    """The documents of a YAML file as records; raises IngestError if it is none."""
    try:
        values = load_yaml(text)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        raise IngestError(f"it is not valid YAML: {' '.join(str(error).split())[:200]}") from None
    return _pieces(stem, (entry for value in values for entry in _find_records(value)))


def parse_toml(stem: str, text: str) -> tuple[Piece, ...]:
    """The tables of a TOML file as records; raises IngestError if it is none."""
    try:
        return _pieces(stem, _find_records(tomllib.loads(text, parse_float=str)))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise IngestError(f"it is not valid TOML: {error}") from None


def parse_table(stem: str, text: str) -> tuple[Piece, ...]:
    """The rows of a table of comma-, semicolon- or tab-separated values, named by its header if it has one.

    The first row is a header if its cells are all different, none is empty, and none is a number or a date.
    """
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text), skipinitialspace=True)
    try:
        entries = list(_rows(rows))
    except csv.Error as error:
        raise IngestError(f"it is not a valid table: {error}") from None
    return _pieces(stem, iter(entries))


def _delimiter(text: str) -> str:
    header = text.lstrip("\n").partition("\n")[0]
    return max(",;\t|", key=header.count)


def _rows(rows: Any) -> Iterator[Entry]:
    names: list[str] | None = None
    for row in rows:
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if names is None:
            if _is_header(cells):
                names = cells
                continue
            names = []
        named = [*names, *(f"column {number}" for number in range(len(names) + 1, len(cells) + 1))]
        yield (), rows.line_num, {name: cell for name, cell in zip(named, cells, strict=False) if cell}


def _is_header(cells: list[str]) -> bool:
    return (
        len({cell.lower() for cell in cells}) == len(cells)
        and all(cells)
        and not any(_is_number(cell) or parse_date(cell) for cell in cells)
    )


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


def _find_records(value: Any, path: tuple[str, ...] = (), depth: int = 0) -> Iterator[Entry]:
    """The records of a value: elements of lists, and members of a mapping that hold records themselves."""
    if depth > MAX_DEPTH:
        raise IngestError(f"it is nested more than {MAX_DEPTH} deep")
    if isinstance(value, list):
        for element in value:
            if isinstance(element, list):
                yield from _find_records(element, path, depth + 1)
            else:
                yield path, 1, element
    elif isinstance(value, dict) and any(_holds_records(member) for member in value.values()):
        plain = {name: member for name, member in value.items() if not _holds_records(member)}
        if plain:
            yield path, 1, plain
        for name, member in value.items():
            if _holds_records(member):
                yield from _find_records(member, (*path, str(name)), depth + 1)
    elif value is not None:
        yield path, 1, value


def _holds_records(value: Any) -> bool:
    if isinstance(value, list):
        return any(isinstance(element, dict) for element in value)
    return isinstance(value, dict) and bool(value) and all(isinstance(each, dict) for each in value.values())


def _pieces(stem: str, entries: Iterator[Entry]) -> tuple[Piece, ...]:
    budget = [MAX_VALUES]
    return tuple(piece for entry in entries for piece in _piece(stem, entry, budget))


def _piece(stem: str, entry: Entry, budget: list[int]) -> Iterator[Piece]:
    path, line, value = entry
    if said := find_said(value):
        yield from said.pieces(line)
        return
    pairs = list(_flatten(value, (), budget))
    if (told := _find_only_text(pairs)) and isinstance(value, dict):
        pairs = [("", told)]
    body = "\n".join(f"{name}: {text}" if name else text for name, text in pairs)
    if not body.strip():
        return
    record = value if isinstance(value, dict) else {}
    fields = {str(name).strip().lower(): member for name, member in record.items()}
    title = first_words(_title(fields, pairs))
    if not _is_sentence(title) or path:  # a sentence tells by itself what it is about
        title = join_title(stem, *path, title)
    kind = parse_kind(fields.get("kind")) or parse_kind(fields.get("type")) or _named_kind(fields)
    for number, (_, part) in enumerate(split_text(body, MAX_BODY), 1):
        yield Piece(
            title=title if number == 1 else join_title(stem, *path, f"{title.split(' › ')[-1]} ({number})"),
            body=part,
            heading=path,
            line=line,
            kind=kind,
            tags=parse_tags(fields.get("tags", fields.get("tag"))),
            date=next((date for name in DATES if (date := parse_date(fields.get(name)))), ""),
            created=parse_created(fields),
            valid_to=parse_date(fields.get("valid_to")),
            importance=parse_importance(fields.get("importance")),
            agent=parse_agent_name(fields.get("agent")),
            prose=part,
            whole=bool(record),
        )


def _named_kind(fields: Mapping[str, Any]) -> str:
    """The kind that a field names, as a column "Decision" of a table does; "" if none or several do."""
    told = (name for name, value in fields.items() if isinstance(value, str) and len(value.split()) > 1)
    kinds = {kind for name in told if (kind := find_headed_kind((name,))) not in ("", "fact")}
    return kinds.pop() if len(kinds) == 1 else ""


def _find_only_text(pairs: list[tuple[str, str]]) -> str:
    """The text of a record that has nothing else but what its node has fields for, or ""."""
    told = [text for name, text in pairs if not _is_stated(name.lower(), text)]
    dates = sum(name.lower() in DATES for name, _ in pairs)
    return told[0] if dates < 2 and len(told) == 1 and _is_sentence(told[0]) else ""


def _is_sentence(text: str) -> bool:
    return sum(bool(_LETTERS.search(word)) for word in text.split()) >= SENTENCE


def _is_stated(name: str, text: str) -> bool:
    """Whether the node of a record has a field that says the same."""
    if name in ("kind", "type"):
        return bool(parse_kind(text))
    if name in (*DATES, "valid_to"):
        return bool(parse_date(text))
    return name in ("tags", "tag") or (name == "importance" and parse_importance(text) is not None)


def _title(fields: Mapping[str, Any], pairs: list[tuple[str, str]]) -> str:
    for name in TITLES:
        value = fields.get(name)
        if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
            return f"{name} {value}" if _is_number(str(value)) else str(value)
    words = (text for _, text in pairs if _LETTERS.search(text) and not parse_date(text))
    return next(words, " ".join(pairs[0]))


def _flatten(value: Any, path: tuple[str, ...], budget: list[int]) -> Iterator[tuple[str, str]]:
    """The values in a record by name, inner ones as ``outer.inner``; a list of plain values is one."""
    budget[0] -= 1
    if budget[0] < 0:
        raise IngestError(f"it holds more than {MAX_VALUES:,} values")
    if len(path) > MAX_DEPTH:
        raise IngestError(f"it is nested more than {MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield from _flatten(member, (*path, str(name)), budget)
    elif isinstance(value, list | tuple | set):
        plain = [each for each in value if not isinstance(each, Mapping | list | tuple | set)]
        budget[0] -= len(plain)
        if plain:
            yield ".".join(path), ", ".join(filter(None, map(_format_value, plain)))
        for number, member in enumerate(value, 1):
            if isinstance(member, Mapping | list | tuple | set):
                yield from _flatten(member, (*path, str(number)), budget)
    elif text := _format_value(value):
        yield ".".join(path), text


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value).strip()


KINDS = {"VEVENT": "event", "VTODO": "task", "VJOURNAL": "event"}
SHOWN = {"LOCATION": "Where", "ORGANIZER": "Organiser", "ATTENDEE": "With", "STATUS": "Status", "URL": "Link"}
"""Properties that the text of a piece tells beside when it is, and what it is called there."""
MOST_GUESTS = 20


def parse_calendar(data: bytes) -> Document:
    """The events, tasks and journal entries of a calendar; raises IngestError if it is none.

    Exceptions from what repeats belong to it, and are no pieces.
    """
    try:
        entries, unread = read_components(data, tuple(KINDS))
    except ValueError as error:
        raise IngestError(f"it is not a valid calendar: {error}") from None
    return Document(pieces=tuple(_read_entries(entries)), unread=tuple(unread))


def _read_entries(entries: list[Any]) -> Iterator[Piece]:
    named = {str(entry.get("UID")) for entry in entries if not entry.get("RECURRENCE-ID")}
    for entry in entries:
        if entry.get("RECURRENCE-ID") and str(entry.get("UID")) in named:
            continue
        title = join_title(str(entry.get("SUMMARY") or "Untitled"))
        start = _moment(entry, "DTSTART") or _moment(entry, "DUE")
        body = "\n".join(_lines(entry, title, start))[:MAX_BODY]
        categories = entry.categories if entry.get("CATEGORIES") else ()
        yield Piece(
            title=title,
            body=body,
            key=hash_text("calendar", str(entry.get("UID") or body), str(entry.get("RECURRENCE-ID") or "")),
            kind=KINDS[entry.name],
            tags=clean_tags(str(each) for each in categories),
            date=parse_date(start),
            prose=body,
            whole=True,
        )


def _lines(entry: Any, title: str, start: date | None) -> Iterator[str]:
    """What an entry tells, line by line."""
    end = _find_end(entry, start)
    if start:
        until = f" to {_format_moment(end)}" if end and end != start else ""
        yield f"{title}: {_format_moment(start)}{until}."
    for rule in _as_list(entry.get("RRULE")):
        yield f"Repeats {_describe(rule.to_ical().decode(), start)}."
    for name, shown in SHOWN.items():
        values = [str(value).removeprefix("mailto:") for value in _as_list(entry.get(name))][:MOST_GUESTS]
        if values:
            yield f"{shown}: {', '.join(values)}"
    if description := str(entry.get("DESCRIPTION") or "").strip():
        yield description


def _describe(rule: str, start: date | None) -> str:
    """What a rule says; the rule itself if it has no words for it."""
    first = datetime.min.replace(tzinfo=UTC)  # such rules tell no hour
    if isinstance(start, datetime):
        first = start.replace(tzinfo=None)
    return describe_recurrence(Recurrence(start=first, rule=rule))


def _find_end(entry: Any, start: date | None) -> date | None:
    """When an entry ends: of one that takes whole days the last of these, as people say it."""
    end = _moment(entry, "DTEND") or _moment(entry, "DUE")
    length = getattr(entry.get("DURATION"), "dt", None)
    end = start + length if end is None and start and isinstance(length, timedelta) else end
    is_day = end is not None and not isinstance(end, datetime) and entry.get("DTEND")
    return max(end - timedelta(days=1), start or end) if is_day and end else end


def _moment(entry: Any, name: str) -> date | None:
    value = getattr(entry.get(name), "dt", None)
    return value if isinstance(value, date) else None


def _format_moment(moment: date) -> str:
    if not isinstance(moment, datetime):
        return f"{moment:%A %Y-%m-%d}"
    zone = f" {moment.tzname()}" if moment.tzinfo and moment.tzinfo != UTC else ""
    return f"{moment:%A %Y-%m-%d %H:%M}{zone}"


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
