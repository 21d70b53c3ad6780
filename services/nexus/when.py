"""When: the one moment that a sentence in plain words names, or the sentence that asks back."""

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Any

import msgspec

from services.nexus.days import find_day
from services.nexus.hours import read_hour
from services.nexus.phrases import (
    DATES,
    EXAMPLE,
    LONG_UNITS,
    NUMBERS,
    REPEATED,
    SPAN,
    TIMES,
    UNITS,
    VAGUE,
)
from shared.clock import exists, place, tell
from shared.errors import ActionError

_ISO = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)")
FARTHEST = timedelta(days=3_660)
"""What lies further ahead than ten years is taken for a slip of the pen."""


class When(msgspec.Struct, frozen=True, kw_only=True):
    """The ``moment`` a text names, and the ``rest`` of the text."""

    moment: datetime
    rest: str


class _Found(msgspec.Struct, frozen=True):
    """A phrase of a text: where it stands, and what it says."""

    start: int
    end: int
    phrase: str
    said: re.Match[str]


def find_when(text: str, now: datetime, zone: tzinfo | None) -> When:
    """The moment ``text`` names, seen from ``now`` in ``zone``.

    Raises ActionError, whose sentences ask back, where it names none or several, one that has passed, only a
    day, or one that can be read in two ways: nothing is guessed.
    """
    here = now.astimezone(zone)
    text = _ISO.sub(r"\1 \2", text)
    if repeated := REPEATED.search(text):
        raise ActionError(f"A reminder goes off once, and {repeated[0]!r} asks for many", EXAMPLE)
    spans, times = _find(SPAN, text), _find(TIMES, text)
    days = [found for found in _find(DATES, text) if not _within(found, spans)]
    times = [found for found in times if not _within(found, [*days, *spans])]
    if spans and spans[0].said["unit"].strip()[:2].lower() not in LONG_UNITS:
        days = times = []
    phrases = [*spans, *days, *times]
    moment = _moment(text, spans, days, times, here, zone)
    if moment <= now:
        raise ActionError(f"{tell(moment, zone)} has passed; it is {tell(now, zone)} now", EXAMPLE)
    if moment - now > FARTHEST:
        raise ActionError(f"{tell(moment, zone)} is more than ten years ahead", EXAMPLE)
    return When(moment=moment, rest=_cut_out(text, phrases))


def names_a_time(text: str) -> bool:
    """Whether ``text`` holds anything that says when."""
    return any(pattern.search(text) for pattern in (SPAN, DATES, TIMES, REPEATED, VAGUE))


def _find(pattern: re.Pattern[str], text: str) -> list[_Found]:
    return [_Found(*said.span(), said[0].strip(), said) for said in pattern.finditer(text)]


def _within(found: _Found, others: list[_Found]) -> bool:
    return any(other.start < found.end and found.start < other.end for other in others)


def _moment(
    text: str,
    spans: list[_Found],
    days: list[_Found],
    times: list[_Found],
    here: datetime,
    zone: tzinfo | None,
) -> datetime:
    for several in (spans, days, times):
        if len(several) > 1:
            named = " and ".join(repr(found.phrase) for found in several[:3])
            raise ActionError(f"I read more than one time in that: {named}", EXAMPLE)
    if spans and days:
        raise ActionError(
            f"I read more than one time in that: {spans[0].phrase!r} and {days[0].phrase!r}", EXAMPLE
        )
    if spans and not times:
        return _after(here, spans[0], zone)
    if not times:
        raise ActionError(_no_time(text, days), EXAMPLE)
    today = here.date()
    day = _after(here, spans[0], zone).date() if spans else find_day(days[0].said, today) if days else None
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


def _part(clock: _Found, days: list[_Found]) -> str:
    """The part of the day that is meant, such as ``evening``; empty where none is named."""
    part = clock.said["part"] or (days[0].said["day_part"] if days else "") or ""
    relative = days[0].said["relative"] if days else ""
    return (part or ("tonight" if (relative or "").lower() == "tonight" else "")).lower()


def _no_time(text: str, days: list[_Found]) -> str:
    if days:
        return f"{days[0].phrase!r} says no time of day"
    if vague := VAGUE.search(text):
        return f"{vague[0].strip()!r} says no time"
    return "That says no time that I understand"


def _after(here: datetime, found: _Found, zone: tzinfo | None) -> datetime:
    """So much later: hours and shorter by the clock that runs, days and longer by the one on the wall."""
    said = found.said
    seconds, days = 0.0, 0.0
    for number, unit in ((said["number"], said["unit"]), (said["more"], said["more_unit"])):
        if number:
            unit = unit.strip()
            size = NUMBERS.get(" ".join(number.lower().split())) or float(number)
            if unit[:2].lower() in LONG_UNITS:
                days += size * LONG_UNITS[unit[:2].lower()]
            else:
                seconds += size * UNITS[unit[0].lower()]
    if said["half"]:
        seconds += UNITS[said["unit"].strip()[0].lower()] / 2
    try:
        if days:
            here = place((here + timedelta(days=days)).replace(tzinfo=None, fold=0), zone)
        return (here.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(zone) if seconds else here
    except (OverflowError, ValueError):
        raise ActionError(f"{found.phrase!r} is too far ahead", EXAMPLE) from None


def _cut_out(text: str, phrases: list[_Found]) -> str:
    for found in sorted(phrases, key=lambda found: -found.start):
        text = f"{text[: found.start]} {text[found.end :]}"
    return re.sub(r"\s+(?=[.,;!?])", "", " ".join(text.split()))


def read_when(text: str, now: datetime, zone: tzinfo | None) -> datetime:
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
        return moment
    text = _ISO.sub(r"\1 \2", text)
    over = TIMES.sub(" ", DATES.sub(" ", VAGUE.sub(" ", REPEATED.sub(" ", SPAN.sub(" ", text)))))
    if re.search(r"\w", over):
        return _foreign(text, now, zone)
    return find_when(text, now, zone).moment


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
