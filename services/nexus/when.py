"""When: the one moment that a sentence in plain words names, or the sentence that asks back."""

import re
from datetime import datetime, time, timedelta, tzinfo
from typing import Any

import msgspec

from services.nexus.days import find_day
from services.nexus.hours import read_hour
from services.nexus.phrases import DATES, EXAMPLE, PAST, REPEATED, SPAN, TIMES, VAGUE, WEEKDAYS
from services.nexus.reading import Found, Phrases, cut_out, read_phrases, require_one
from services.nexus.repeating import Repeat, next_of, part_of, read_weekdays
from services.nexus.spans import go_ahead
from services.nexus.spelling import spell_in_digits
from services.nexus.zones import name_zone, read_named_zone
from shared.clock import exists, place, tell
from shared.errors import ActionError

_ISO = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)")
FARTHEST = timedelta(days=3_660)
"""What lies further ahead than ten years is taken for a slip of the pen."""


class When(msgspec.Struct, frozen=True, kw_only=True):
    """The ``moment`` a text names, the ``rest`` of the text, and how it is to ``repeat``, if it is."""

    moment: datetime
    rest: str
    repeat: Repeat | None = None


def find_when(text: str, now: datetime, zone: tzinfo | None) -> When:
    """The moment ``text`` names, seen from ``now`` in ``zone``, or in a zone that it names itself.

    Of what repeats it is the first moment. Raises ActionError, whose sentences ask back, where it names none
    or several, one that has passed, only a day, or one that can be read in two ways: nothing is guessed.
    """
    text = spell_in_digits(_ISO.sub(r"\1 \2", text))
    read = read_phrases(text)
    weekdays = read_weekdays(read.repeats[0].said) if read.repeats else ()
    require_one(text, read)
    named = read_named_zone(read.zones[0].said) if read.zones else None
    zone = named or zone
    here = now.astimezone(zone)
    rest = cut_out(text, read.every)
    if read.repeats:
        clock = _daily_clock(read, here.time())
        repeat = Repeat(weekdays=weekdays, clock=clock, zone=name_zone(named) if named else "")
        return When(moment=next_of(repeat, here, zone), rest=rest, repeat=repeat)
    moment = _moment(text, read, here, zone)
    if moment <= now:
        raise ActionError(f"{tell(moment, zone)} has passed; it is {tell(now, zone)} now", EXAMPLE)
    if moment - now > FARTHEST:
        raise ActionError(f"{tell(moment, zone)} is more than ten years ahead", EXAMPLE)
    return When(moment=moment, rest=rest)


def names_a_time(text: str) -> bool:
    """Whether ``text`` holds anything that says when."""
    text = spell_in_digits(text)
    return any(pattern.search(text) for pattern in (SPAN, DATES, TIMES, REPEATED, VAGUE))


def is_a_time(text: str) -> bool:
    """Whether ``text`` says nothing but when."""
    spelled = spell_in_digits(_ISO.sub(r"\1 \2", text))
    over = cut_out(spelled, read_phrases(spelled).every)
    return not re.search(r"\w", PAST.sub(" ", VAGUE.sub(" ", over)))


def _daily_clock(read: Phrases, here: time) -> time:
    """The time of day at which it is to repeat."""
    phrase = read.repeats[0]
    if not read.times:
        raise ActionError(f"{phrase.phrase!r} says no time of day", EXAMPLE)
    part = (read.times[0].said["part"] or part_of(phrase.said)).lower()
    return read_hour(read.times[0].said, part, False, here)


def _moment(text: str, read: Phrases, here: datetime, zone: tzinfo | None) -> datetime:
    spans, days, times = read.spans, read.days, read.times
    if spans and not times:
        return go_ahead(here, spans[0], zone)
    today = here.date()
    day = go_ahead(here, spans[0], zone).date() if spans else find_day(days[0].said, today) if days else None
    if read.weekdays and day and WEEKDAYS[read.weekdays[0].said["weekday"][:3].lower()] != day.weekday():
        raise ActionError(f"{days[0].phrase!r} is a {day:%A}, not {read.weekdays[0].phrase!r}", EXAMPLE)
    if not times:
        raise ActionError(_no_time(text, days, passed=day is not None and day < today), EXAMPLE)
    part = _part(times[0], days)
    clock = read_hour(times[0].said, part, day in (None, today), here.time())
    midnight = (times[0].said["word"] or "").lower() == "midnight"
    if midnight and day is not None:
        raise ActionError("Midnight may be where that day begins or where it ends", EXAMPLE)
    wall = datetime.combine(day or today, clock) + timedelta(days=midnight)
    if not exists(wall, zone):
        raise ActionError(f"The clocks leave out {wall:%H:%M} on that day: summer time begins", EXAMPLE)
    moment = place(wall, zone)
    if day is None and moment <= here:
        raise ActionError(f"{clock:%H:%M} has passed today; it is {tell(here, zone)} now", EXAMPLE)
    return moment


def _part(clock: Found, days: list[Found]) -> str:
    """The part of the day that is meant, such as ``evening``; empty where none is named."""
    part = clock.said["part"] or (days[0].said["day_part"] if days else "") or ""
    relative = days[0].said["relative"] if days else ""
    return (part or ("tonight" if (relative or "").lower() == "tonight" else "")).lower()


def _no_time(text: str, days: list[Found], *, passed: bool) -> str:
    if days:
        return f"{days[0].phrase!r} {'has passed' if passed else 'says no time of day'}"
    if past := PAST.search(text):
        return f"{past[0]!r} has passed"
    if vague := VAGUE.search(text):
        return f"{vague[0].strip()!r} says no time"
    return "That says no time that I understand"


def read_when(text: str, now: datetime, zone: tzinfo | None) -> When:
    """The moment that ``text``, which is nothing but a time, names; raises ActionError as ``find_when`` does.

    Beside what ``find_when`` knows it may be ISO 8601 with an offset, or a time in another language.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        moment = None
    if moment is not None and moment.tzinfo is not None:
        if moment <= now:
            raise ActionError(f"{tell(moment, zone)} has passed; it is {tell(now, zone)} now", EXAMPLE)
        return When(moment=moment, rest="")
    return find_when(text, now, zone) if is_a_time(text) else When(moment=_foreign(text, now, zone), rest="")


def _foreign(text: str, now: datetime, zone: tzinfo | None) -> datetime:
    """A time as dateparser reads it; it must name a time of day, for none is made up."""
    import dateparser

    here = now.astimezone(zone).replace(tzinfo=None)
    settings: Any = {"PREFER_DATES_FROM": "future", "RELATIVE_BASE": here, "RETURN_AS_TIMEZONE_AWARE": False}
    found = dateparser.parse(text[:100], settings=settings) if re.search(r"\d", text) else None
    if found is None:
        raise ActionError(f"{text.strip()[:60]!r} is no time that I understand", EXAMPLE)
    if found.time() == time(0) or not (found - here) % timedelta(days=1):
        raise ActionError(f"{text.strip()[:60]!r} says no time of day that I understand", EXAMPLE)
    moment = place(found, zone)
    if not now < moment <= now + FARTHEST:
        raise ActionError(f"{tell(moment, zone)} has passed, or lies more than ten years ahead", EXAMPLE)
    return moment
