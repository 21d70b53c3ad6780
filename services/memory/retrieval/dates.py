"""The times that a question names."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

Span = tuple[float, float]
"""From and to, in seconds since the epoch."""

MAX_YEARS = 20
"""Of how many years, the latest first, a month without one may be meant."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FULL = "january|february|april|june|july|august|september|october|november|december"
_MONTH = rf"(?P<month>{_FULL}|{_FULL.title()}|March|May|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\b\.?"
_BEFORE = r"(?:(?P<day>[0-3]?\d)(?:st|nd|rd|th)?\s+(?:of\s+)?)?"
_AFTER = r"(?:\s+(?P<later_day>[0-3]?\d)(?:st|nd|rd|th)?(?![\w:]))?(?:,?\s+(?P<year>(?:19|20)\d\d)\b)?"
_NAMED = re.compile(rf"\b{_BEFORE}{_MONTH}{_AFTER}")
_POINTING = re.compile(
    r"\b(?:in|of|on|during|since|by|before|after|until|till|from|to|and|last|this|early|mid|late)[\s-]+$",
    re.IGNORECASE,
)
_ISO = re.compile(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>0[1-9]|1[0-2])(?:-(?P<day>[0-3]\d))?\b")
_YEAR = re.compile(r"(?<![\w.-])(?:19|20)\d\d(?![\w-]|\.\d)")
_RECENT = re.compile(
    r"\b(?:(?P<today>today)|(?P<yesterday>yesterday)|(?P<which>this|last|past)\s+(?P<unit>week|month|year)"
    r"|(?P<count>\d{1,3}|an?|two|three)\s+(?P<units>day|week|month|year)s?\s+ago)\b",
    re.IGNORECASE,
)
_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}
_COUNTS = {"a": 1, "an": 1, "two": 2, "three": 3}


def find_spans(text: str, moment: float, years: Iterable[int]) -> list[Span]:
    """The days, months and years that ``text`` names in English or as ISO dates, in UTC.

    A year next to a month or day is part of it. ``years`` are those a month without a year may be of;
    ``moment`` (seconds since the epoch) is what "last week" and "3 days ago" count from. "May" and "March"
    alone must be pointed at ("in May"), for both are words. What is no date (31 June) is passed over.
    """
    spans: list[Span] = []
    rest = text
    for pattern in (_ISO, _NAMED):
        for match in pattern.finditer(rest):
            spans += _read(match, years)
        rest = pattern.sub(" ", rest)
    if not spans:
        spans += [span for match in _YEAR.finditer(rest) if (span := _span(int(match[0])))]
    return spans + [_look_back(match, moment) for match in _RECENT.finditer(rest)]


def _read(match: re.Match[str], years: Iterable[int]) -> Iterator[Span]:
    parts = match.groupdict()
    day = int(parts["day"] or parts.get("later_day") or 0)
    name = parts["month"].lower()
    if name in ("may", "march") and not (
        day or parts["year"] or _POINTING.search(match.string[: match.start()])
    ):
        return
    month = int(name) if name.isdigit() else _MONTHS.index(name[:3]) + 1
    for year in [int(parts["year"])] if parts["year"] else sorted(years)[-MAX_YEARS:]:
        if span := _span(year, month, day):
            yield span


def _span(year: int, month: int = 0, day: int = 0) -> Span | None:
    try:
        start = datetime(year, month or 1, day or 1, tzinfo=UTC)
    except ValueError:
        return None
    if day:
        end = start + timedelta(days=1)
    elif month:
        end = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    else:
        end = datetime(year + 1, 1, 1, tzinfo=UTC)
    return start.timestamp(), end.timestamp()


def _look_back(match: re.Match[str], moment: float) -> Span:
    day = 86_400.0
    today = moment - moment % day
    if match["today"]:
        return today, today + day
    if match["yesterday"]:
        return today - day, today
    length = _DAYS[(match["unit"] or match["units"]).lower()] * day
    if match["which"]:
        return (
            (moment - length, moment) if match["which"].lower() == "this" else (moment - 2 * length, moment)
        )
    count = match["count"].lower()
    middle = moment - length * int(_COUNTS.get(count) or count)
    return middle - length / 2, middle + length / 2
