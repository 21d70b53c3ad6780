"""Times of day as people name them, which of two an hour without am or pm means, and their zones."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from shared.errors import ActionError
from shared.language.times.days import UnclearTime
from shared.language.times.time_phrases import HOURS, NUMBERS, PARTS, SHIFTED, Phrase

WAKING = (6, 21)  # The first and the last hour that an hour without am or pm is taken for today
_EARLY = re.compile(r"(?i)\b(?:wake|get\s+up|alarm|breakfast|sunrise)\b")
_LATE = re.compile(
    r"(?im)^\W*(?:(?:to|for|about|that|the)\s+)*(?:dinner|supper|party|drinks|cinema|concert|movie|theatre|sunset)\b"
)
_ANOTHER = re.compile(r"(?i)(?P<h>\d{1,2})(?::(?P<min>\d\d))?\s*(?P<ap>[ap])?")


class Clock(msgspec.Struct, frozen=True):
    """A time of day as it was ``said``; ``sure`` if it can mean one time only."""

    hour: int
    minute: int
    sure: bool
    said: str


def read_clocks(phrase: Phrase, wall: datetime | None = None) -> list[Clock]:
    """The times of day that a phrase of the kind "clock" names; raises UnclearTime.

    ``wall`` is the local time now, which "this time" means.
    """
    said = phrase.match[0].strip().removesuffix(phrase.match["and"] or "")
    if phrase["either"] or phrase["bad"]:
        raise UnclearTime("time", f"{said!r} names two times")
    more = [
        _clock(m["h"], m["min"] or "0", (m["ap"] or "").lower(), m[0].strip())
        for m in _ANOTHER.finditer(phrase["and"])
    ]
    if word := phrase["word"]:
        return [Clock(0 if word == "midnight" else 12, 0, True, said), *more]
    if phrase["same"] and wall:
        return [Clock(wall.hour, wall.minute, True, said)]
    if phrase["way"]:
        return [_past_or_to(phrase, said), *more]
    if half := phrase["h4"]:
        return [Clock(HOURS.get(half) or int(half), 30, False, said), *more]
    hour = next(filter(None, (phrase[name] for name in ("h", "h2", "h5", "h6", "h7", "h8", "h9"))))
    words = phrase["spoken"] or phrase["spoken2"]
    spoken = str(int(NUMBERS[words])) if words else ""
    minutes = (phrase[name] for name in ("min", "min2", "min6", "min7", "min9"))
    minute = next(filter(None, (*minutes, spoken)), "0")
    half = (phrase["ap"] or phrase["ap2"])[:1]
    return [_clock(hour, minute, half, said), *more]


def read_part(phrases: Sequence[Phrase]) -> tuple[str, float, str]:
    """The part of the day that ``phrases`` name, the hour it stands for, and how it was said; "" if none."""
    for phrase in phrases:
        if phrase["relative"] == "tonight":
            return "tonight", PARTS["tonight"][0], "tonight"
        said = phrase.match[0].strip()
        if phrase.kind == "repeat" and phrase["part"]:
            return phrase["part"].rstrip("s"), PARTS[phrase["part"].rstrip("s")][0], said
        if phrase.kind != "part":
            continue
        name = (phrase["part"] or phrase["shifted"]).rstrip("s")
        name = name or ("end of day" if phrase["eod"] else "first thing" if phrase["first"] else "")
        meal, when = (
            (phrase["meal"] or phrase["meal2"]).removesuffix("time").strip(),
            phrase["when"] or phrase["when2"],
        )
        name = name or meal
        if not name:
            continue
        shifted = SHIFTED.get(f"{phrase['shift'] or when} {name}")
        return name, shifted if shifted is not None else PARTS[name][0], said
    return "", 0.0, ""


def decide(clock: Clock, part: str, day: date | None, wall: datetime, text: str) -> tuple[time, str]:
    """The time of day that ``clock`` means on ``day`` (None: the next), and what was assumed for that.

    ``wall`` is the local time now, ``text`` what the person wrote. Without a hint, an hour is the next one
    that comes today in WAKING hours; on other days 7 to 11 are in the morning and 1 to 6 in the afternoon.
    """
    if clock.sure:
        return time(clock.hour, clock.minute), ""
    early, late = time(clock.hour % 12, clock.minute), time(clock.hour % 12 + 12, clock.minute)
    if part in PARTS:
        return _in_part(early, late, part, clock), ""
    if _EARLY.search(text) or _LATE.search(text):
        return (early if _EARLY.search(text) else late), ""
    usual = early if 7 <= clock.hour <= 11 else late
    chosen = usual
    if day in (None, wall.date()):
        ahead = [each for each in (early, late) if each > wall.time()]
        waking = [each for each in ahead if WAKING[0] <= each.hour <= WAKING[1]]
        chosen = next(iter(waking), None) or (ahead[-1] if day and ahead else usual)
    other = late if chosen is early else early
    return chosen, f"I took {clock.said!r} as {chosen:%H:%M}, not {other:%H:%M}."


def _clock(hours: str, minutes: str, half: str, said: str) -> Clock:
    hour, minute = HOURS.get(hours) or int(hours), int(minutes)
    if hour > 23 or minute > 59 or (half and not 1 <= hour <= 12):
        raise UnclearTime("time", f"{said!r} is no time of day")
    if half:
        return Clock(hour % 12 + (12 if half == "p" else 0), minute, True, said)
    return Clock(hour, minute, hour > 12 or hour == 0 or hours.startswith("0"), said)


def _past_or_to(phrase: Phrase, said: str) -> Clock:
    words = phrase["past"].split(" min")[0]
    minutes = {"half": 30, "quarter": 15}.get(words) or int(NUMBERS.get(words) or words)
    clock = _clock(phrase["h3"], "0", phrase["ap3"][:1], said)
    if phrase["way"] == "past":
        return Clock(clock.hour, minutes, clock.sure, said)
    before = (clock.hour - 1) % 24 if clock.sure else clock.hour - 1 or 12
    return Clock(before, 60 - minutes, clock.sure, said)


def _in_part(early: time, late: time, part: str, clock: Clock) -> time:
    _, first, last = PARTS[part]
    fitting = [each for each in (early, late) if first <= each.hour <= last]
    if part == "morning":
        fitting = [early]
    if part == "night" and not fitting:
        fitting = [early]
    if len(fitting) != 1:
        raise UnclearTime("time", f"{clock.said!r} is no time of the {part}")
    return fitting[0]


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
        offset = match["utc_offset"] or match["offset"] or ""
        if not offset:
            return UTC
        digits = re.sub(r"\D", "", offset)
        hours, minutes = (int(digits[:-2]), int(digits[-2:])) if len(digits) > 2 else (int(digits), 0)
        if hours > 14:
            raise ActionError(f"{offset!r} is no time zone", _ZONE_CURE)
        away = timedelta(hours=hours, minutes=minutes)
        return timezone(-away if offset.startswith("-") else away)
    if match["short"] in _SEVERAL:
        raise ActionError(f"{match['short']!r} names several time zones", _ZONE_CURE)
    name = match["name"] or _REGIONS.get(match["short"] or "") or cities().get((match["city"] or "").lower())
    try:
        return ZoneInfo(name or "")
    except (KeyError, ValueError, OSError):
        named = match["name"] or f"{match['city']} time"
        raise ActionError(f"{named!r} is no time zone that I know", _ZONE_CURE) from None


_ZONE_CURE = "Write it as in '9:00 Europe/London' or '9:00 UTC+01:00'."


@cache
def cities() -> dict[str, str]:
    """The zone of each city that one is named after, in lower case."""
    return {name.rpartition("/")[2].replace("_", " ").lower(): name for name in available_timezones()}


def zone_name(zone: tzinfo) -> str:
    """The name of ``zone`` as a recurrence stores it; raises ActionError for a fixed offset."""
    name = "UTC" if zone is UTC else getattr(zone, "key", "")
    if not name:
        raise ActionError("What repeats needs a time zone with a name, for its clocks may change", _ZONE_CURE)
    return str(name)
