"""The moment that a sentence names, or an error that asks for what is missing or ambiguous."""

import re
from datetime import datetime, time, timedelta, tzinfo
from itertools import pairwise
from typing import Any

import msgspec

from services.nexus.reminders import time_phrases as patterns
from services.nexus.reminders.recurrence import (
    ZONE,
    Recurrence,
    next_occurrence,
    parse_weekdays,
    parse_zone,
    part_of_day,
    zone_name,
)
from services.nexus.reminders.time_phrases import spell_in_digits, unclear
from services.nexus.routing.calendar_range import add_span, parse_day
from shared.clock import datetime_exists, format_moment, localize
from shared.errors import ActionError

_ISO = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)")
_HOURS = ("hour", "hour2", "hour3", "hour4", "hour5")
"""The groups of TIMES that hold an hour."""
FARTHEST = timedelta(days=3_660)
"""A time more than ten years ahead is taken for a typing error."""


class ParsedTime(msgspec.Struct, frozen=True, kw_only=True):
    """The ``moment`` a text names, the ``rest`` of the text, and its ``recurrence``, if it has one."""

    moment: datetime
    rest: str
    recurrence: Recurrence | None = None


class Phrases(msgspec.Struct, frozen=True, kw_only=True):
    """The phrases of a text about time, by kind; ``weekdays`` are next to a date ("Friday, 27 November")."""

    spans: list[re.Match[str]]
    weekdays: list[re.Match[str]]
    days: list[re.Match[str]]
    times: list[re.Match[str]]
    zones: list[re.Match[str]]
    repeats: list[re.Match[str]]

    @property
    def all(self) -> list[re.Match[str]]:
        """The phrases of all kinds."""
        return [*self.spans, *self.weekdays, *self.days, *self.times, *self.zones, *self.repeats]


def find_time(text: str, now: datetime, zone: tzinfo | None) -> ParsedTime:
    """The moment ``text`` names, seen from ``now`` in ``zone``, or in a zone that it names itself.

    For a recurrence it is the first moment. Nothing is guessed: raises ActionError, which asks the person, if
    the text names no time, several, one that has passed, only a day, or one that is ambiguous.
    """
    text = spell_in_digits(_ISO.sub(r"\1 \2", text))
    phrases = _find_phrases(text)
    weekdays = parse_weekdays(phrases.repeats[0]) if phrases.repeats else ()
    _require_one(text, phrases)
    named = parse_zone(phrases.zones[0]) if phrases.zones else None
    zone = named or zone
    here = now.astimezone(zone)
    rest = _without(text, phrases.all)
    if phrases.repeats:
        clock = _recurring_clock(phrases, here.time())
        recurrence = Recurrence(weekdays=weekdays, clock=clock, zone=zone_name(named) if named else "")
        return ParsedTime(moment=next_occurrence(recurrence, here, zone), rest=rest, recurrence=recurrence)
    moment = _moment(text, phrases, here, zone)
    _require_future(moment, now, zone)
    if moment - now > FARTHEST:
        raise unclear(f"{format_moment(moment, zone)} is more than ten years ahead")
    return ParsedTime(moment=moment, rest=rest)


def parse_time(text: str, now: datetime, zone: tzinfo | None) -> ParsedTime:
    """The moment that ``text``, which is nothing but a time, names; raises ActionError as ``find_time`` does.

    It may also be ISO 8601 with an offset, or a time in another language.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        moment = None
    if moment is not None and moment.tzinfo is not None:
        _require_future(moment, now, zone)
        return ParsedTime(moment=moment, rest="")
    if is_only_time(text):
        return find_time(text, now, zone)
    return ParsedTime(moment=_parse_foreign(text, now, zone), rest="")


def mentions_time(text: str) -> bool:
    """Whether ``text`` holds anything that says when."""
    text = spell_in_digits(text)
    return any(
        pattern.search(text)
        for pattern in (patterns.SPAN, patterns.DATES, patterns.TIMES, patterns.REPEATED, patterns.VAGUE)
    )


def is_only_time(text: str) -> bool:
    """Whether ``text`` says nothing but when."""
    spelled = spell_in_digits(_ISO.sub(r"\1 \2", text))
    rest = _without(spelled, _find_phrases(spelled).all)
    return not re.search(r"\w", patterns.PAST.sub(" ", patterns.VAGUE.sub(" ", rest)))


def _require_future(moment: datetime, now: datetime, zone: tzinfo | None) -> None:
    if moment <= now:
        raise unclear(f"{format_moment(moment, zone)} has passed; it is {format_moment(now, zone)} now")


# --- phrases --------------------------------------------------------------------------------------


def _find_phrases(text: str) -> Phrases:
    repeats, spans, times = (
        list(each.finditer(text)) for each in (patterns.REPEATED, patterns.SPAN, patterns.TIMES)
    )
    spans = [span for span in spans if not _overlaps(span, repeats)]
    days = [day for day in patterns.DATES.finditer(text) if not _overlaps(day, [*spans, *repeats])]
    weekdays = [day for day, other in pairwise(days) if _is_weekday_of(text, day, other)]
    days = [day for day in days if day not in weekdays]
    times = [clock for clock in times if not _overlaps(clock, [*days, *spans])]
    zones = [match for clock in times if (match := ZONE.match(text, clock.end()))]
    times = [clock for clock in times if not _overlaps(clock, zones)]
    if spans and spans[0]["unit"].strip()[:2].lower() not in {
        **patterns.LONG_UNITS,
        **patterns.MONTHLY_UNITS,
    }:
        weekdays = days = times = zones = repeats = []
    return Phrases(spans=spans, weekdays=weekdays, days=days, times=times, zones=zones, repeats=repeats)


def _phrase(match: re.Match[str]) -> str:
    return match[0].strip()


def _is_weekday_of(text: str, day: re.Match[str], date: re.Match[str]) -> bool:
    """Whether ``day`` is the weekday of the ``date`` right behind it."""
    dated = not (date["weekday"] or date["relative"])
    between = re.sub(r"[\s,]|\bthe\b", "", text[day.end() : date.start()])
    return bool(day["weekday"]) and dated and not between


def _overlaps(match: re.Match[str], others: list[re.Match[str]]) -> bool:
    return any(other.start() < match.end() and match.start() < other.end() for other in others)


def _require_one(text: str, phrases: Phrases) -> None:
    """Raise ActionError if there is more than one time, or a part of the time was not understood."""
    days = [*phrases.spans, *phrases.days]
    for several in (phrases.spans, days, phrases.times, phrases.zones, phrases.repeats):
        if len(several) > 1:
            raise _ambiguous(several[:3])
    if phrases.repeats and days:
        raise _ambiguous([phrases.repeats[0], days[0]])
    marked = text
    for match in sorted(phrases.all, key=re.Match.start, reverse=True):
        marked = f"{marked[: match.start()]}{patterns.READ}{marked[match.end() :]}"
    if unread := patterns.UNREAD.search(marked):
        beside = next(filter(None, unread.groups())).strip()
        raise unclear(f"I do not understand {beside!r} beside {_phrase(phrases.all[0])!r}")


def _ambiguous(several: list[re.Match[str]]) -> ActionError:
    named = " and ".join(repr(_phrase(match)) for match in several)
    return unclear(f"I read more than one time in that: {named}")


def _without(text: str, phrases: list[re.Match[str]]) -> str:
    for match in sorted(phrases, key=re.Match.start, reverse=True):
        text = f"{text[: match.start()]} {text[match.end() :]}"
    return re.sub(r"\s+(?=[.,;!?])", "", " ".join(text.split())).lstrip(", ")


# --- moments --------------------------------------------------------------------------------------


def _recurring_clock(phrases: Phrases, here: time) -> time:
    repeat = phrases.repeats[0]
    if not phrases.times:
        raise unclear(f"{_phrase(repeat)!r} says no time of day")
    part = (phrases.times[0]["part"] or part_of_day(repeat)).lower()
    return _time_of_day(phrases.times[0], part, False, here)


def _moment(text: str, phrases: Phrases, here: datetime, zone: tzinfo | None) -> datetime:
    spans, days, times = phrases.spans, phrases.days, phrases.times
    if spans and not times:
        return add_span(here, spans[0], zone)
    today = here.date()
    day = add_span(here, spans[0], zone).date() if spans else parse_day(days[0], today) if days else None
    if (
        phrases.weekdays
        and day
        and patterns.WEEKDAYS[phrases.weekdays[0]["weekday"][:3].lower()] != day.weekday()
    ):
        raise unclear(f"{_phrase(days[0])!r} is a {day:%A}, not {_phrase(phrases.weekdays[0])!r}")
    if not times:
        raise unclear(_missing_time(text, days, passed=day is not None and day < today))
    clock = _time_of_day(times[0], _named_part(times[0], days), day in (None, today), here.time())
    midnight = (times[0]["word"] or "").lower() == "midnight"
    if midnight and day is not None:
        raise unclear("Midnight may be where that day begins or where it ends")
    wall = datetime.combine(day or today, clock) + timedelta(days=midnight)
    if not datetime_exists(wall, zone):
        raise unclear(f"The clocks leave out {wall:%H:%M} on that day: summer time begins")
    moment = localize(wall, zone)
    if day is None and moment <= here:
        raise unclear(f"{clock:%H:%M} has passed today; it is {format_moment(here, zone)} now")
    return moment


def _named_part(clock: re.Match[str], days: list[re.Match[str]]) -> str:
    """The part of the day that is named, such as ``evening``; empty if none is."""
    part = clock["part"] or (days[0]["day_part"] if days else "") or ""
    relative = days[0]["relative"] if days else ""
    return (part or ("tonight" if (relative or "").lower() == "tonight" else "")).lower()


def _time_of_day(match: re.Match[str], part: str, is_today: bool, here: time) -> time:
    """The time of day that a match of TIMES names, in the ``part`` of the day that is named, if any.

    Raises ActionError if it is none, or ambiguous. An hour before ``here`` on the same day may mean the one
    twelve hours later.
    """
    phrase = _phrase(match)
    if match["either"]:
        raise unclear(f"{phrase!r} names two times")
    if match["word"]:
        return time(0) if match["word"].lower() == "midnight" else time(12)
    digits = next(filter(None, (match[name] for name in _HOURS)))
    hour, minute = int(digits), int(match["minute"] or match["minute2"] or match["minute4"] or 0)
    half = (match["half_day"] or match["half_day2"] or "").lower().replace(".", "")
    if hour > 23 or minute > 59 or (half and not 1 <= hour <= 12):
        raise unclear(f"{phrase!r} is no time of day")
    if half:
        return time(hour % 12 + (12 if half == "pm" else 0), minute)
    if hour > 12 or hour == 0 or digits.startswith("0"):
        return time(hour, minute)
    if part in patterns.DAY_PARTS:
        return _time_in_part(hour, minute, part, phrase)
    early, late = time(hour, minute), time(hour % 12 + 12, minute)
    if hour < 7:
        raise unclear(f"{phrase!r} can be read in two ways: {early:%H:%M} or {late:%H:%M}")
    if hour < 12 and is_today and early <= here < late:
        raise unclear(
            f"{early:%H:%M} has passed today, and {phrase!r} does not say whether {late:%H:%M} is meant or "
            "another day"
        )
    return early


def _time_in_part(hour: int, minute: int, part: str, phrase: str) -> time:
    first, last = patterns.DAY_PARTS[part]
    fitting = [each for each in (hour % 24, (hour + 12) % 24) if first <= each <= last]
    if len(fitting) != 1:
        raise unclear(f"{phrase!r} is no time of the {part}")
    return time(fitting[0], minute)


def _missing_time(text: str, days: list[re.Match[str]], *, passed: bool) -> str:
    if days:
        return f"{_phrase(days[0])!r} {'has passed' if passed else 'says no time of day'}"
    if past := patterns.PAST.search(text):
        return f"{past[0]!r} has passed"
    if vague := patterns.VAGUE.search(text):
        return f"{vague[0].strip()!r} says no time"
    return "That says no time that I understand"


def _parse_foreign(text: str, now: datetime, zone: tzinfo | None) -> datetime:
    """A time as dateparser reads it; it must name a time of day."""
    import dateparser

    here = now.astimezone(zone).replace(tzinfo=None)
    settings: Any = {"PREFER_DATES_FROM": "future", "RELATIVE_BASE": here, "RETURN_AS_TIMEZONE_AWARE": False}
    found = dateparser.parse(text[:100], settings=settings) if re.search(r"\d", text) else None
    if found is None:
        raise unclear(f"{text.strip()[:60]!r} is no time that I understand")
    if found.time() == time(0) or not (found - here) % timedelta(days=1):
        raise unclear(f"{text.strip()[:60]!r} says no time of day that I understand")
    moment = localize(found, zone)
    if not now < moment <= now + FARTHEST:
        raise unclear(f"{format_moment(moment, zone)} has passed, or lies more than ten years ahead")
    return moment
