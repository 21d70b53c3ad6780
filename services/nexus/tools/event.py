"""The event that a message wants in the calendar: its title, its day, when it begins and ends."""

import re
from datetime import date, datetime, timedelta, tzinfo

import msgspec

from services.nexus.reminders.requests import clean_text
from shared.language.times.time_parser import choose, resolve

_HOUR = r"(?P<{0}>\d{{1,2}})(?:[:.](?P<{0}_min>[0-5]\d))?\s*(?P<{0}_half>[ap]m)?(?:\s*o['’]?clock)?"
_SPAN = re.compile(
    rf"(?i)(?P<lead>\b(?:from|between|at)\s+|(?<=day\s)|(?<=morrow\s)|(?<=,)\s*|\b(?=\d{{1,2}}(?:[:.]\d\d|\s*[ap]m)))"
    rf"{_HOUR.format('begins')}\s*(?:-|–|\bto\b|\btill\b|\buntil\b|\band\b)\s*{_HOUR.format('ends')}"
    r"(?![\w:/%-]|\.\d|\s*(?:of\s+)?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))"
)
"""From when until when on one day: "7pm to 9", "from 2 to 4"."""
_LEAD = re.compile(
    r"(?i)^\W*(?:(?:please|kindly|can|could|would|you|and|ok|new|event|calendar|appointment|book|put|add|enter|schedule|create|make"
    r"|block|pencil|plan|get|pop|in|set|up|note|save|the|date|an?|entry|for|me|down|reserve|slot|my|to|into)\b[\s:,]*)+"
)
_PLACE = re.compile(
    r"(?i)\b(?:(?:(?:in|into|to|on|from)\s+)?(?:my|the|our)\s+(?:calendar|diary|agenda)|(?:please\s+)?(?:add|put)\s+(?:it|that)"
    r"(?:\s+(?:in|on|there))?|on\s+there|please|(?:will|would|could)\s+you)\b"
)


FIRST_ONLY = "I add single events, so this is the first one only."


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event to add: its title, its day as 2026-03-18, and when it begins and ends, as 14:30.

    Without a beginning it takes all day, without an end an hour. ``note`` says what was assumed.
    """

    title: str = ""
    day: str = ""
    clock: str = ""
    ends: str = ""
    note: str = ""


def read_event(text: str, now: datetime, zone: tzinfo | None) -> Event:
    """What ``text`` says of the event; the day and the title are empty if it does not."""
    span = _SPAN.search(text)
    half = (span["begins_half"] or (span["ends_half"] if _is_same_half(span) else "") or "") if span else ""
    if span:
        begins = f"{span['begins']}:{span['begins_min'] or '00'}{half}"
        text = f"{text[: span.start()]} at {begins} {text[span.end() :]}"
    phrases = choose(text)
    found = resolve(phrases, now, zone)
    moment = found.moment.astimezone(zone) if found.moment else None
    day = moment.date() if moment else found.day
    clock = f"{moment:%H:%M}" if moment and not found.missing else ""
    return Event(
        title=_read_title(phrases.rest),
        day=day.isoformat() if day and found.missing in ("", "time") else "",
        clock=clock,
        ends=_read_end(span, clock) if span and clock else "",
        note=FIRST_ONLY if found.rrule else "",
    )


def _is_same_half(span: re.Match[str]) -> bool:
    """Whether "2 to 4pm" begins in the afternoon: its first hour is the smaller one of the half day."""
    return int(span["begins"]) % 12 < int(span["ends"]) % 12 or span["ends"] == "12"


def _read_end(span: re.Match[str], clock: str) -> str:
    """The first such time after ``clock``: "7pm to 9" ends at 21:00."""
    begins = datetime.combine(date.min, datetime.strptime(clock, "%H:%M").time())  # noqa: DTZ007 - local
    half, hour = (span["ends_half"] or "").lower(), int(span["ends"])
    if hour > 23 or (half and not 1 <= hour <= 12):
        return ""
    hour = hour % 12 + 12 * (half == "pm") if half else hour
    ends = datetime.combine(date.min, begins.time().replace(hour=hour, minute=int(span["ends_min"] or 0)))
    while ends <= begins:
        ends += timedelta(hours=24 if half or hour > 12 else 12)
    return f"{ends:%H:%M}"


def _read_title(rest: str) -> str:
    title = _PLACE.sub(" ", _LEAD.sub("", rest.strip()))
    title = re.sub(r"\s+(?=[,.;:!?])", "", " ".join(title.split())).strip(" ,.:;-!?")
    title = re.sub(
        r"(?i)^(?:there\s+is|there['’]s|i\s+have|we\s+have|i['’]ve\s+got|we['’]ve\s+got|with(?=\s))\s+",
        "",
        title,
    )
    return re.sub(r"(?i)(?:\s+|^)(?:for|at|on|in|from|and|to)$", "", clean_text(title))
