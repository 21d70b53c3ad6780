"""Calendar dates: the day a phrase names, the moment after a span, and the days a question asks about."""

import re
from calendar import isleap
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo

from services.nexus.reminders.time_phrases import (
    DATES,
    LONG_UNITS,
    MONTHLY_UNITS,
    NUMBERS,
    UNITS,
    WEEKDAYS,
    unclear,
)
from shared.clock import localize
from shared.errors import ActionError

_AHEAD = {"yesterday": -1, "tomorrow": 1, "tmrw": 1, "tmr": 1}
MONTHS = {
    name: number
    for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), start=1)
}


def parse_day(match: re.Match[str], today: date) -> date:
    """The day that a match of DATES names, seen from ``today``; raises ActionError if there is none."""
    try:
        return _parse_relative(match, today) or _parse_date(match, today)
    except ValueError as error:
        raise unclear(f"{match[0].strip()!r} is no day of the calendar ({error})") from None


def _parse_relative(match: re.Match[str], today: date) -> date | None:
    if words := (match["relative"] or "").lower():
        return today + timedelta(days=2 if "after" in words else _AHEAD.get(words, 0))
    if match["weekday"]:
        ahead = (WEEKDAYS[match["weekday"][:3].lower()] - today.weekday()) % 7
        which = (match["which"] or "").lower()
        return today + timedelta(days={"last": ahead - 7, "next": ahead or 7}.get(which, ahead))
    return None


def _parse_date(match: re.Match[str], today: date) -> date:
    if match["iso"]:
        return date.fromisoformat(match["iso"])
    if match["monthday"]:
        return _next_day_of_month(int(match["monthday"]), today)
    if not match["dd"]:
        day, month = match["first"] or match["second"], match["month"] or match["month2"]
        return _next_date(int(day), MONTHS[month[:3].lower()], match["year"] or match["year2"], today)
    first, second, year = int(match["dd"]), int(match["mm"]), match["yyyy"]
    if match["sign"] == "/" and first <= 12 and second <= 12 and first != second:
        raise unclear(f"{match[0].strip()!r} can be read in two ways: the day first or the month")
    if match["sign"] == "/" and second > 12:
        first, second = second, first
    return _next_date(first, second, f"20{year}" if year and len(year) == 2 else year, today)


def _next_day_of_month(number: int, today: date) -> date:
    """The next day of that number; months without it are skipped."""
    from dateutil.relativedelta import relativedelta

    if not 1 <= number <= 31:
        raise ValueError("day is out of range for month")
    months: Iterator[date] = (today + relativedelta(months=ahead, day=number) for ahead in range(12))
    return next(day for day in months if day.day == number and day >= today)


def _next_date(day: int, month: int, year: str | None, today: date) -> date:
    if year:
        return date(int(year), month, day)
    if (day, month) == (29, 2):
        leap_years = filter(isleap, range(today.year, today.year + 9))
        return next(found for each in leap_years if (found := date(each, month, day)) >= today)
    found = date(today.year, month, day)
    return found if found >= today else date(today.year + 1, month, day)


def add_span(here: datetime, match: re.Match[str], zone: tzinfo | None) -> datetime:
    """``here`` plus a match of SPAN: hours and shorter as elapsed time, days and longer by the calendar.

    A month later is the same day of it, or its last day if it has no such day. Raises ActionError.
    """
    from dateutil.relativedelta import relativedelta

    seconds = days = months = 0.0
    half = "0.5" if match["half"] else None
    for number, unit in (
        (match["number"], match["unit"]),
        (match["more"], match["more_unit"]),
        (half, match["unit"]),
    ):
        if not number:
            continue
        size = NUMBERS.get(" ".join(number.lower().split())) or float(number)
        start = unit.strip()[:2].lower()
        if start in MONTHLY_UNITS:
            months += size * MONTHLY_UNITS[start]
        elif start in LONG_UNITS:
            days += size * LONG_UNITS[start]
        else:
            seconds += size * UNITS[start[0]]
    if months % 1:
        raise unclear(f"{match[0].strip()!r} is no whole number of months")
    try:
        if months or days:
            wall = here.replace(tzinfo=None, fold=0) + relativedelta(months=int(months))
            here = localize(wall + timedelta(days=days), zone)
        return (here.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(zone) if seconds else here
    except (OverflowError, ValueError):
        raise unclear(f"{match[0].strip()!r} is too far ahead") from None


_NEXT = re.compile(
    r"(?i)\b(?:next|coming|following)\s+(?P<count>\d{1,3}|two|three|four|five|six|seven|ten)?\s*(?P<unit>days?|weeks?)\b"
)
_WEEK = re.compile(r"\bthis\s+week\b", re.IGNORECASE)
_WEEKEND = re.compile(r"\bweekend\b", re.IGNORECASE)
_MONTH = re.compile(r"\b(?:this|next)\s+month\b", re.IGNORECASE)
_NEXT_EVENT = re.compile(r"\bnext\s+(?:meeting|appointment|event)s?\b", re.IGNORECASE)
_CHANGE = re.compile(
    r"(?i)^\W*(?:(?:please|can|could|would|will|you|i\s+want\s+you\s+to)\s+)*"
    r"(?:put|add|enter|book|schedule|create|move|shift|delete|remove|cancel|postpone)\b"
)


def wants_calendar_change(text: str) -> bool:
    """Whether ``text`` asks to add, move or remove something in the calendar."""
    return bool(_CHANGE.search(text))


def parse_calendar_range(text: str, today: date) -> tuple[date, int]:
    """The first day and the number of days that ``text`` asks about; just ``today`` if it names none.

    "Next week" is from Monday to Sunday, "the next days" a week, "my next meeting" the 30 days ahead.
    """
    if found := _NEXT.search(text):
        words = (found["count"] or "0").lower()
        count = int(words) if words.isdigit() else int(NUMBERS[words])
        if found["unit"].lower() == "week" and not count:
            return today + timedelta(days=7 - today.weekday()), 7
        days = count * (7 if found["unit"].lower().startswith("week") else 1) or 7
        return today, max(1, min(days, 366))
    if _NEXT_EVENT.search(text):
        return today, 30
    if _WEEKEND.search(text):
        saturday = today + timedelta(days=max(0, 5 - today.weekday()))
        return saturday, 7 - saturday.weekday()
    if _WEEK.search(text):
        return today, 7 - today.weekday()
    if _MONTH.search(text):
        return today, 31
    match = DATES.search(text)
    try:
        return parse_day(match, today) if match else today, 1
    except ActionError:
        return today, 1
