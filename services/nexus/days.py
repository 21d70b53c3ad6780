"""Days: which day of the calendar a phrase names."""

import re
from collections.abc import Callable
from datetime import date, timedelta

from services.nexus.phrases import EXAMPLE, WEEKDAYS
from shared.errors import ActionError

MONTHS = {
    name: number
    for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), start=1)
}


def find_day(said: re.Match[str], today: date) -> date:
    """The day that a phrase of DATES names, seen from ``today``; raises ActionError for one there is not."""
    for name, read in _DAYS.items():
        if said[name]:
            try:
                return read(said, today)
            except ValueError as error:
                raise ActionError(
                    f"{said[0].strip()!r} is no day of the calendar ({error})", EXAMPLE
                ) from None
    raise AssertionError(f"{said[0]!r} names no day")


def _relative_day(said: re.Match[str], today: date) -> date:
    words = said["relative"].lower()
    if words == "yesterday":
        return today - timedelta(days=1)
    if "after" in words:
        return today + timedelta(days=2)
    return today + timedelta(days=words in ("tomorrow", "tmrw", "tmr"))


def _weekday(said: re.Match[str], today: date) -> date:
    ahead = (WEEKDAYS[said["weekday"][:3].lower()] - today.weekday()) % 7
    which = (said["which"] or "").lower()
    if which == "last":
        return today + timedelta(days=ahead - 7)
    if which == "next" and ahead == 0:
        ahead = 7
    return today + timedelta(days=ahead)


def _iso_day(said: re.Match[str], today: date) -> date:
    return date.fromisoformat(said["iso"])


def _named_day(said: re.Match[str], today: date) -> date:
    number, month = said["first"] or said["second"], said["month"] or said["month2"]
    year = said["year"] or said["year2"]
    return _coming(int(number), MONTHS[month[:3].lower()], year, today)


def _day_of_month(said: re.Match[str], today: date) -> date:
    """The next day of that number; a month that has none is left out."""
    number, first = int(said["monthday"]), today.replace(day=1)
    if not 1 <= number <= 31:
        raise ValueError("day is out of range for month")
    while True:
        try:
            found = first.replace(day=number)
        except ValueError:
            found = None
        if found and found >= today:
            return found
        first = (first + timedelta(days=32)).replace(day=1)


def _numbered_day(said: re.Match[str], today: date) -> date:
    first, second = int(said["dd"]), int(said["mm"])
    if said["sign"] == "/" and first <= 12 and second <= 12 and first != second:
        raise ActionError(f"{said[0].strip()!r} can be read in two ways: the day first or the month", EXAMPLE)
    if said["sign"] == "/" and second > 12:
        first, second = second, first
    year = said["yyyy"]
    return _coming(first, second, f"20{year}" if year and len(year) == 2 else year, today)


def _coming(day: int, month: int, year: str | None, today: date) -> date:
    if year:
        return date(int(year), month, day)
    for ahead in range(9):  # 29 February comes again within eight years
        try:
            found = date(today.year + ahead, month, day)
        except ValueError:
            if (day, month) != (29, 2):
                raise
            continue
        if found >= today:
            return found
    raise ValueError("there is none")


_DAYS: dict[str, Callable[[re.Match[str], date], date]] = {
    "relative": _relative_day,
    "weekday": _weekday,
    "iso": _iso_day,
    "first": _named_day,
    "second": _named_day,
    "monthday": _day_of_month,
    "dd": _numbered_day,
}
