"""Weekly recurrence of reminders, and the time zones that people name."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from services.nexus.reminders.time_phrases import DAY_PARTS, EXAMPLE, WEEKDAYS
from shared.clock import localize, read_zone
from shared.errors import ActionError
from shared.text.phrases import format_list

_REGIONS = {
    **dict.fromkeys(("ET", "EST", "EDT"), "America/New_York"),
    **dict.fromkeys(("CT", "CDT"), "America/Chicago"),
    **dict.fromkeys(("MT", "MST", "MDT"), "America/Denver"),
    **dict.fromkeys(("PT", "PST", "PDT"), "America/Los_Angeles"),
    **dict.fromkeys(("CET", "CEST", "MEZ", "MESZ"), "Europe/Paris"),
    **dict.fromkeys(("EET", "EEST"), "Europe/Athens"),
    **dict.fromkeys(("WET", "WEST"), "Europe/Lisbon"),
    **dict.fromkeys(("AEST", "AEDT"), "Australia/Sydney"),
    "JST": "Asia/Tokyo",
}
"""The zone of each abbreviation. Standard and summer time are one: people say EST in summer too."""
_SEVERAL = ("AST", "BST", "CST", "IST", "SST")
_OFFSET = r"[+-]\d{1,2}(?::?[0-5]\d)?(?![\d:])"
ZONE = re.compile(
    rf"\s*\(?(?:(?P<utc>(?:UTC|GMT)(?P<utc_offset>{_OFFSET})?|Z)(?!\w)|(?P<offset>{_OFFSET})"
    r"|(?P<name>[A-Z][a-z]+/[A-Z][A-Za-z_]+(?:/[A-Z][A-Za-z_]+)?)"
    rf"|(?P<short>{'|'.join((*_REGIONS, *_SEVERAL))})\b"
    r"|(?P<city>[A-Z][a-z]+(?:\s[A-Z][a-z]+){0,2})\s+(?:local\s+)?time\b)\)?"
)
"""A zone right behind a time of day; in capitals, since "est" and "met" are words."""


def parse_zone(match: re.Match[str]) -> tzinfo:
    """The zone that a match of ZONE names; raises ActionError if it is unknown or ambiguous."""
    if match["utc"] or match["offset"]:
        return _fixed(match["utc_offset"] or match["offset"] or "")
    if match["short"] in _SEVERAL:
        raise ActionError(f"{match['short']!r} names several time zones", _ZONE_CURE)
    name = match["name"] or _REGIONS.get(match["short"] or "") or _cities().get((match["city"] or "").lower())
    try:
        return ZoneInfo(name or "")
    except (KeyError, ValueError, OSError):
        named = match["name"] or f"{match['city']} time"
        raise ActionError(f"{named!r} is no time zone that I know", _ZONE_CURE) from None


_ZONE_CURE = f"Write it as in '9:00 Europe/London' or '9:00 UTC+01:00'. {EXAMPLE}"


def _fixed(offset: str) -> tzinfo:
    if not offset:
        return UTC
    digits = re.sub(r"\D", "", offset)
    hours, minutes = (int(digits[:-2]), int(digits[-2:])) if len(digits) > 2 else (int(digits), 0)
    if hours > 14:
        raise ActionError(f"{offset!r} is no time zone", _ZONE_CURE)
    away = timedelta(hours=hours, minutes=minutes)
    return timezone(-away if offset.startswith("-") else away)


@cache
def _cities() -> dict[str, str]:
    return {name.rpartition("/")[2].replace("_", " ").lower(): name for name in available_timezones()}


def zone_name(zone: tzinfo) -> str:
    """The name of ``zone`` as a recurrence stores it; raises ActionError for a fixed offset."""
    name = "UTC" if zone is UTC else getattr(zone, "key", "")
    if not name:
        raise ActionError("What repeats needs a time zone with a name, for its clocks may change", _ZONE_CURE)
    return str(name)


_NAMES = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
_WORKING = ("weekday", "workday", "working")
_CURE = f"Name days of the week, as in 'every day at 9' or 'every Monday and Thursday at 14:00'. {EXAMPLE}"

EVERY_DAY = tuple(range(7))
_TOGETHER = {EVERY_DAY: "day", EVERY_DAY[:5]: "weekday"}


class Recurrence(msgspec.Struct, frozen=True, kw_only=True):
    """At ``clock`` on each of ``weekdays`` (0 is Monday), in ``zone`` ("": the time zone of the settings)."""

    weekdays: tuple[int, ...]
    clock: time
    zone: str = ""


def parse_weekdays(match: re.Match[str]) -> tuple[int, ...]:
    """The days of the week a match of REPEATED names; raises ActionError if it names none."""
    if match["range"]:
        first, *_, last = (
            WEEKDAYS[word[:3]]
            for word in re.findall(r"[a-z]+day|\b[a-z]{3,5}\b", match["range"].lower())
            if word[:3] in WEEKDAYS
        )
        return tuple(sorted((first + ahead) % 7 for ahead in range((last - first) % 7 + 1)))
    words = re.findall(r"[a-z]+", (match["what"] or match["plural"] or "").lower())
    if re.search(r"\b(?:daily|nightly)\b", match[0], re.IGNORECASE):
        words = ["day"]
    days = {day for word in words for day in _days_of(word)}
    if not days:
        raise ActionError(
            f"A reminder is repeated on days of the week, and {match[0].strip()!r} names none", _CURE
        )
    return tuple(sorted(days))


def _days_of(word: str) -> Sequence[int]:
    if word.startswith(_WORKING):
        return range(5)
    if word.startswith("weekend"):
        return (5, 6)
    if word[:3] in WEEKDAYS:
        return (WEEKDAYS[word[:3]],)
    return EVERY_DAY if word in ("day", "days") or word.rstrip("s") in DAY_PARTS else ()


def part_of_day(match: re.Match[str]) -> str:
    """The part of the day a match of REPEATED names, such as ``morning``; empty if it names none."""
    found = re.search(r"morning|afternoon|evening|night", match[0], re.IGNORECASE)
    return found[0].lower() if found else ""


def next_occurrence(recurrence: Recurrence, after: datetime, zone: tzinfo | None) -> datetime:
    """The first occurrence after ``after``; ``zone`` is the default zone.

    A time that summer time skips comes an hour later.
    """
    zone = read_zone(recurrence.zone) if recurrence.zone else zone
    today = after.astimezone(zone).date()
    for ahead in range(9):
        day = today + timedelta(days=ahead)
        moment = localize(datetime.combine(day, recurrence.clock), zone)
        if day.weekday() in recurrence.weekdays and moment > after:
            return moment
    raise AssertionError("no day of the week within nine days")


def format_recurrence(recurrence: Recurrence) -> str:
    """``every day at 09:00``, ``every Monday and Thursday at 14:00``."""
    names = format_list([_NAMES[day] for day in recurrence.weekdays], 7)
    days = _TOGETHER.get(recurrence.weekdays, names)
    zone = f" ({recurrence.zone})" if recurrence.zone else ""
    return f"every {days} at {recurrence.clock:%H:%M}{zone}"


def encode_recurrence(recurrence: Recurrence) -> str:
    """As a reminder's record holds it: ``mon,thu 14:00``, and its own zone if it has one."""
    days = ",".join(name for name, number in WEEKDAYS.items() if number in recurrence.weekdays)
    return f"{days} {recurrence.clock:%H:%M} {recurrence.zone}".rstrip()


def decode_recurrence(written: str) -> Recurrence:
    """The recurrence that ``encode_recurrence`` wrote."""
    days, clock, *zone = written.split()
    return Recurrence(
        weekdays=tuple(WEEKDAYS[day] for day in days.split(",")),
        clock=time.fromisoformat(clock),
        zone=zone[0] if zone else "",
    )
