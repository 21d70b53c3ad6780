"""The time that a request names: its first and last day, and where it says so."""

import calendar
import re
from datetime import date, timedelta
from typing import NamedTuple

DAYS = {"day": 1, "week": 7, "month": 30, "year": 365, "fortnight": 14}
NUMBERS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "ten": 10}
NUMBERS |= {"an": 1, "couple of": 2, "few": 3, "twelve": 12}
MONTHS = {name.lower()[:3]: number for number, name in enumerate(calendar.month_name) if number}
WEEKDAYS = {name.lower()[:3]: number for number, name in enumerate(calendar.day_name)}
_MONTH = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)(?:uary|ruary|ch|il|ust|ember|ober)?\b"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_WHEN = (
    rf"(?:the\s+)?(?:\d{{4}}-\d\d-\d\d|\d{{4}}-\d\d|\d{{4}}\b(?![-./\d])|(?:{_DAY}\s+(?:of\s+)?)?{_MONTH}"
    rf"(?:\s+{_DAY}\b(?!\d))?(?:,?\s+\d{{4}})?|(?:last\s+)?(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)day\b"
    r"|yesterday\b|today\b)"
)
_WITHIN = re.compile(rf"\bbetween\s+(?P<first>{_WHEN})\s+and\s+(?P<last>{_WHEN})", re.IGNORECASE)
_SINCE = re.compile(rf"\b(?P<way>since|after|from)\s+(?P<when>{_WHEN})", re.IGNORECASE)
_UNTIL = re.compile(rf"\b(?P<way>until|till|to|through|before)\s+(?P<when>{_WHEN})", re.IGNORECASE)
_IN = re.compile(
    rf"(?:\b(?:in|on|during|of)\s+(?P<when>{_WHEN})|\b(?P<day>yesterday|today)\b)", re.IGNORECASE
)
_LAST = re.compile(
    r"(?:\b(?:in|over|within|during|since|for)\s+)?(?:\bthe\s+)?"
    r"(?:\b(?:last|past|previous|this|recent)\s+(?:(?P<number>\d{1,4}|couple\s+of|[a-z]+)\s+)?|\b(?P<ago>\d{1,4}|an?|one)\s+)"
    r"(?P<unit>day|week|month|year|fortnight)s?\b(?P<is_ago>\s+ago)?",
    re.IGNORECASE,
)


_VERSION = (
    r"(?:the\s+)?(?:(?:tag|version|release)\s+)?"
    r"(?P<{}>v?\d+(?:\.\d+)+(?:[-+.]?\w+)*|(?<=tag\s)[\w./-]*\w)(?:\s+(?:tag|version|release)\b)?"
)
_BETWEEN_VERSIONS = re.compile(
    rf"\bbetween\s+{_VERSION.format('since')}\s+and\s+{_VERSION.format('until')}", re.IGNORECASE
)
_SINCE_VERSION = re.compile(rf"\b(?:since|after|from)\s+{_VERSION.format('since')}", re.IGNORECASE)
_UNTIL_VERSION = re.compile(
    rf"\b(?:until|till|(?:up\s+)?to|through|before)\s+{_VERSION.format('until')}", re.IGNORECASE
)


_PAST_VERSION = re.compile(rf"\b(?:since|after)\s+{_VERSION.format('since')}", re.IGNORECASE)


def name_day(text: str) -> str:
    """``text`` with days in place of the versions since which, or between which, something is asked."""
    between = _BETWEEN_VERSIONS.sub("between 2026-01-01 and 2026-01-31", text)
    return _PAST_VERSION.sub("since 2026-01-31", between)


class Period(NamedTuple):
    """The first and the last day as ISO dates, or the tags of versions; and the places that name them.

    What is not named is empty.
    """

    since: str = ""
    until: str = ""
    places: tuple[tuple[int, int], ...] = ()


def read_period(text: str, today: date) -> Period:
    """The time that ``text`` names, by days or versions; a month or weekday without a year is the latest one.

    "Last week" and the like are the last seven days, as git understands them.
    """
    try:
        dated = _read_period(text, today)
    except ValueError:  # no day of the calendar
        dated = Period()
    ways = (_BETWEEN_VERSIONS,), (_SINCE_VERSION, _UNTIL_VERSION)
    found = next(filter(None, ([hit for way in each if (hit := way.search(text))] for each in ways)), [])
    named = {name: value for hit in found for name, value in hit.groupdict().items()}
    return Period(
        dated.since or named.get("since", ""),
        dated.until or named.get("until", ""),
        (*dated.places, *(hit.span() for hit in found)),
    )


def _read_period(text: str, today: date) -> Period:
    if within := _WITHIN.search(text):
        first, last = _read(within["first"], today)[0], _read(within["last"], today)[1]
        return Period(first.isoformat(), last.isoformat(), (within.span(),))
    since, until = _SINCE.search(text), _UNTIL.search(text)
    if since or until:
        begin = end = ""
        if since:
            first, last = _read(since["when"], today)
            begin = (last + timedelta(days=1) if since["way"].lower() == "after" else first).isoformat()
        if until:
            first, last = _read(until["when"], today)
            end = (first - timedelta(days=1) if until["way"].lower() == "before" else last).isoformat()
        return Period(begin, end, tuple(found.span() for found in (since, until) if found))
    if named := _IN.search(text):
        first, last = _read(named["when"] or named["day"], today)
        end = "" if first == today else last.isoformat()
        return Period(first.isoformat(), end, (named.span(),))
    for found in _LAST.finditer(text):
        word = " ".join((found["number"] or found["ago"] or "1").lower().split())
        number = int(word) if word.isdigit() else NUMBERS.get(word, 0)
        if number and (not found["ago"] or found["is_ago"]):
            days = min(number * DAYS[found["unit"].lower()], (today - date.min).days)
            return Period((today - timedelta(days=days)).isoformat(), "", (found.span(),))
    return Period()


def _read(when: str, today: date) -> tuple[date, date]:
    """The first and last day of ``when``; raises ValueError for none of the calendar."""
    words = re.sub(r"[,]|\b(?:the|of|last)\b", " ", when.lower()).split()
    if words[0] in ("today", "yesterday"):
        day = today - timedelta(days=words[0] == "yesterday")
        return day, day
    if re.fullmatch(r"\d{4}-\d\d-\d\d", words[0]):
        day = date.fromisoformat(words[0])
        return day, day
    if words[0].endswith("day"):
        day = today - timedelta(days=(today.weekday() - WEEKDAYS[words[0][:3]] - 1) % 7 + 1)
        return day, day
    numbers = [int(re.sub(r"\D", "", word)) for word in words if word[0].isdigit() and "-" not in word]
    year = next((number for number in numbers if number >= 1_000), 0)
    days = [number for number in numbers if number < 1_000]
    month = next((MONTHS[word[:3]] for word in words if word[:3] in MONTHS), 0)
    if "-" in words[0]:
        year, month = map(int, words[0].split("-"))
    year = year or today.year - (date(today.year, month, days[0] if days else 1) > today)
    if days:
        return date(year, month, days[0]), date(year, month, days[0])
    last = calendar.monthrange(year, month or 12)[1]
    return date(year, month or 1, 1), date(year, month or 12, last)
