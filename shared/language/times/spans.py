"""The days, weeks, months, quarters and years that a text names, as spans of time: what was, and when."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NamedTuple

from shared.language.times.time_phrases import MONTHS, NUMBERS, WEEKDAYS

MAX_YEARS = 20  # Of how many years, the latest first, a month without one may be meant

_FULL = "january|february|april|june|july|august|september|october|november|december"
_SHORT = "March|May|march|may|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec"
_MONTH = rf"(?P<month>{_FULL}|{_FULL.title()}|{_SHORT})\b\.?"
_BEFORE = r"(?:(?P<day>[0-3]?\d)(?:st|nd|rd|th)?\s+(?:of\s+)?)?"
_AFTER = r"(?:\s+(?P<later_day>[0-3]?\d)(?:st|nd|rd|th)?(?![\w:]))?(?:,?\s+(?P<year>(?:19|20)\d\d)\b)?"
_NAMED = rf"\b{_BEFORE}{_MONTH}{_AFTER}"
_POINTING = re.compile(
    r"\b(?:in|of|on|during|since|by|before|after|until|till|from|to|and|last|this|early|mid|late)[\s-]+$",
    re.IGNORECASE,
)
_ISO = r"\b(?P<iso_year>(?:19|20)\d\d)-(?P<iso_month>0[1-9]|1[0-2])(?:-(?P<iso_day>[0-3]\d))?\b"
_YEAR = re.compile(r"(?<![\w.-])(?:19|20)\d\d(?![\w-]|\.\d)")
_DATES = re.compile(rf"{_ISO}|{_NAMED}")
_COUNTS = "|".join(
    sorted((name for name in NUMBERS if "half" not in name and "quarter" not in name), key=len)[::-1]
)
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_RECENT = re.compile(
    r"\b(?:(?P<today>today|this\s+(?:morning|afternoon|evening))"
    r"|(?P<before>the\s+day\s+before\s+yesterday)|(?P<yesterday>yesterday)"
    rf"|(?P<which>this|last|past|previous)\s+(?:(?P<unit>week|month|quarter|year)|(?P<weekday>{_WEEKDAY})"
    rf"|(?P<named>{_FULL}|march|may))"
    rf"|(?P<count>\d{{1,3}}|{_COUNTS})\s+(?P<units>day|week|month|year)s?\s+ago"
    rf"|(?:(?<=on )|(?<=since )|(?<=from )|(?<=On ))(?P<on>{_WEEKDAY})"
    rf"|q(?P<quarter>[1-4])(?:\s+(?:of\s+)?(?P<of>(?:19|20)\d\d))?)\b",
    re.IGNORECASE,
)
_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}


class Span(NamedTuple):
    """From and to, in seconds since the epoch."""

    start: float
    end: float

    def overlaps(self, other: "Span") -> bool:
        """Whether they have a moment in common."""
        return self.start < other.end and other.start < self.end


class NamedSpan(NamedTuple):
    """A span, and where the text names it."""

    span: Span
    begin: int
    end: int


def find_date_spans(text: str, moment: float, years: Iterable[int], zone: tzinfo = UTC) -> list[Span]:
    """The times that ``text`` names in English or as ISO dates, by the days of ``zone``."""
    return [named.span for named in find_spans(text, moment, years, zone)]


def find_spans(text: str, moment: float, years: Iterable[int], zone: tzinfo = UTC) -> list[NamedSpan]:
    """The times that ``text`` names in English or as ISO dates, and where.

    A year next to a month or day is part of it. ``years`` are those a month without a year may be of;
    ``moment`` (seconds since the epoch) is what "last week" and "3 days ago" count from. "May" and "March"
    alone must be pointed at ("in May"), for both are words. What is no date (31 June) is skipped.
    """
    today = datetime.fromtimestamp(moment, zone).date()
    recent = list(_RECENT.finditer(text))
    taken = [match.span() for match in recent]
    found = [NamedSpan(_parse_relative(match, today, zone), *match.span()) for match in recent]
    dates = [match for match in _DATES.finditer(text) if not _is_within(match, taken)]
    named = [NamedSpan(span, *match.span()) for match in dates for span in _read(match, years, zone)]
    if not named:
        taken += [match.span() for match in dates]
        alone = [match for match in _YEAR.finditer(text) if not _is_within(match, taken)]
        named = [NamedSpan(span, *match.span()) for match in alone if (span := _make(zone, int(match[0])))]
    return [*named, *found]


def find_past_span(text: str, now: datetime) -> NamedSpan | None:
    """The one time that ``text`` names if it has begun; None if it names none, or several.

    A day or month without a year is the last one that has begun.
    """
    zone, moment = now.tzinfo or UTC, now.timestamp()
    spans = find_spans(text, moment, range(now.year - 1, now.year + 1), zone)
    begun = [each for each in spans if each.span.start <= moment]
    places = {(each.begin, each.end) for each in spans}
    return max(begun, key=lambda each: each.span.start) if begun and len(places) == 1 else None


def _is_within(match: re.Match[str], taken: list[tuple[int, int]]) -> bool:
    return any(begin < match.end() and match.start() < end for begin, end in taken)


def _read(match: re.Match[str], years: Iterable[int], zone: tzinfo) -> Iterator[Span]:
    parts = match.groupdict()
    if parts["iso_year"]:
        span = _make(zone, int(parts["iso_year"]), int(parts["iso_month"]), int(parts["iso_day"] or 0))
        yield from [span] if span else []
        return
    day = int(parts["day"] or parts["later_day"] or 0)
    name = parts["month"].lower()
    if name in ("may", "march") and not (
        day or parts["year"] or _POINTING.search(match.string[: match.start()])
    ):
        return
    for year in [int(parts["year"])] if parts["year"] else sorted(years)[-MAX_YEARS:]:
        if span := _make(zone, year, MONTHS[name[:3]], day):
            yield span


def _make(zone: tzinfo, year: int, month: int = 0, day: int = 0) -> Span | None:
    """The year, a month of it, or a day of that; None if there is no such day."""
    try:
        start = date(year, month or 1, day or 1)
    except ValueError:
        return None
    if day:
        return _between(start, start + timedelta(days=1), zone)
    return _between(start, _later(start, 1 if month else 12), zone)


def _later(first: date, months: int) -> date:
    """The first of the month that is so many months after, or before, that of ``first``."""
    number = first.year * 12 + first.month - 1 + months
    return date(number // 12, number % 12 + 1, 1)


def _between(start: date, end: date, zone: tzinfo) -> Span:
    return Span(*(datetime.combine(day, time(), zone).timestamp() for day in (start, end)))


def _parse_relative(match: re.Match[str], today: date, zone: tzinfo) -> Span:
    day = timedelta(days=1)
    if match["today"] or match["yesterday"] or match["before"]:
        start = today - day * (0 if match["today"] else 1 if match["yesterday"] else 2)
        return _between(start, start + day, zone)
    if name := match["weekday"] or match["on"]:
        behind = (today.weekday() - WEEKDAYS[name[:3].lower()]) % 7
        start = today - day * (behind or (0 if match["on"] else 7))
        return _between(start, start + day, zone)
    if named := match["named"]:
        start = date(today.year, MONTHS[named[:3].lower()], 1)
        start = (
            start
            if start <= today and match["which"].lower() != "last"
            else start.replace(year=today.year - (start >= today.replace(day=1)))
        )
        return _between(start, _later(start, 1), zone)
    if quarter := match["quarter"]:
        start = date(int(match["of"] or today.year), 3 * int(quarter) - 2, 1)
        start = start if match["of"] or start <= today else start.replace(year=today.year - 1)
        return _between(start, _later(start, 3), zone)
    if match["which"]:
        return _between(*_parse_period(match["which"].lower(), match["unit"].lower(), today), zone)
    amount, unit = NUMBERS.get(" ".join(match["count"].lower().split())), match["units"].lower()
    middle = today - day * int(_DAYS[unit] * (amount or int(match["count"])))
    slack = day * (_DAYS[unit] // 2)
    return _between(middle - slack, middle + slack + day, zone)


def _parse_period(which: str, unit: str, today: date) -> tuple[date, date]:
    """The present week, month, quarter or year, the one before it, or the time as long up to now."""
    if which == "past":
        days = {**_DAYS, "quarter": 91}[unit]
        return today - timedelta(days=days), today + timedelta(days=1)
    if unit == "week":
        monday = today - timedelta(days=today.weekday() + 7 * (which != "this"))
        return monday, monday + timedelta(days=7)
    months = {"month": 1, "quarter": 3, "year": 12}[unit]
    first = date(today.year, today.month - (today.month - 1) % months, 1)
    start = first if which == "this" else _later(first, -months)
    return start, _later(start, months)
