"""Calendars (ics): each event and task is one piece, what repeats too."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

from services.memory.ingest.fields import clean_tags, parse_date
from services.memory.ingest.pieces import MAX_BODY, IngestError, Piece, hash_text, join_title
from shared.recurrence import Recurrence, describe_recurrence

KINDS = {"VEVENT": "event", "VTODO": "task", "VJOURNAL": "event"}
SHOWN = {"LOCATION": "Where", "ORGANIZER": "Organiser", "ATTENDEE": "With", "STATUS": "Status", "URL": "Link"}
"""Properties that the text of a piece tells beside when it is, and what it is called there."""
MOST_GUESTS = 20


def parse_calendar(_: str, text: str) -> tuple[Piece, ...]:
    """The events, tasks and journal entries of a calendar; raises IngestError if it is none.

    Exceptions from what repeats belong to it, and are no pieces.
    """
    import icalendar

    try:
        calendars = icalendar.Calendar.from_ical(text, multiple=True)
        entries = [entry for each in calendars for entry in each.walk() if entry.name in KINDS]
        return tuple(_pieces(entries))
    except Exception as error:  # the parser raises many kinds for broken files
        raise IngestError(f"it is not a valid calendar: {error}") from None


def _pieces(entries: list[Any]) -> Iterator[Piece]:
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
    end = _moment(entry, "DTEND") or _moment(entry, "DUE")
    if start:
        until = f" to {_format(end)}" if end and end != start and isinstance(start, datetime) else ""
        yield f"{title}: {_format(start)}{until}."
    for rule in _list(entry.get("RRULE")):
        yield f"Repeats {_describe(rule.to_ical().decode(), start)}."
    for name, shown in SHOWN.items():
        values = [str(value).removeprefix("mailto:") for value in _list(entry.get(name))][:MOST_GUESTS]
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


def _moment(entry: Any, name: str) -> date | None:
    value = getattr(entry.get(name), "dt", None)
    return value if isinstance(value, date) else None


def _format(moment: date) -> str:
    if not isinstance(moment, datetime):
        return f"{moment:%A %Y-%m-%d}"
    zone = f" {moment.tzname()}" if moment.tzinfo and moment.tzinfo != UTC else ""
    return f"{moment:%A %Y-%m-%d %H:%M}{zone}"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
