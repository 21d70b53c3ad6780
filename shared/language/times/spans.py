"""Past times that a text names: days, weeks, months, quarters and years, as spans or as one period."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NamedTuple

from shared.language.sayings import read_sayings
from shared.language.times.days import is_short, read_amount
from shared.language.times.time_phrases import MONTHS, WEEKDAYS

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
PAST_WAYS = read_sayings(__file__, "past_periods")
_POINTED_DAY = re.compile(r"(?i)\b(?:on|since|from)\s+$")
NIGHT_BEGINS, NIGHT_ENDS = 18, 9  # The hours between which "last night" and "overnight" are
_PARTS_OF_DAY = {"morning": (4, 12), "afternoon": (12, 18), "evening": (17, 24), "night": (18, 33)}
_AROUND = {"week": 3, "month": 15, "year": 182}  # The days before and after what is so many of these ago
LONGEST_DAY = 90_000.0  # Seconds of a day on which clocks are put back
MAX_LENGTH = 1_000  # The characters of a text that are looked through for a time


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
    now = datetime.fromtimestamp(moment, zone)
    recent = [
        (match, span)
        for match in PAST_WAYS["when"].finditer(text)
        if _is_pointed(match, text[: match.start()])
        and (span := _read_past(match, text[: match.start()], now))
    ]
    taken = [match.span() for match, _ in recent]
    found = [NamedSpan(Span(*(each.timestamp() for each in span)), *match.span()) for match, span in recent]
    return [*_find_dates(text, years, zone, taken), *found]


def _is_pointed(match: re.Match[str], lead: str) -> bool:
    """Whether it is a time wherever it stands: a weekday has to be pointed at, a date is read as such."""
    if match["older"] or match["clock"]:
        return False
    return not match["weekday"] or bool(match["late"]) or bool(_POINTED_DAY.search(lead))


def _find_dates(
    text: str, years: Iterable[int], zone: tzinfo, taken: list[tuple[int, int]] | None = None
) -> list[NamedSpan]:
    """The dates, months and years that ``text`` names, but for places that are ``taken``."""
    taken = taken or []
    dates = [match for match in _DATES.finditer(text) if not _is_within(match, taken)]
    named = [NamedSpan(span, *match.span()) for match in dates for span in _read(match, years, zone)]
    if not named:
        taken = [*taken, *(match.span() for match in dates)]
        alone = [match for match in _YEAR.finditer(text) if not _is_within(match, taken)]
        named = [NamedSpan(span, *match.span()) for match in alone if (span := _make(zone, int(match[0])))]
    return named


class Period(NamedTuple):
    """A time that a text names, without its end; ``start`` and ``stop`` are where."""

    since: datetime
    until: datetime
    start: int
    stop: int


def find_past(text: str, now: datetime, *, alone: bool = False) -> Period | None:
    """The first time behind, or up to now, that ``text`` names, in the zone of ``now``.

    A weekday is the last one: "on Monday"; "this" and "next" ones are ahead. "Last week" is from Monday to
    Sunday, "the past week" and "the last 7 days" count back from now, what is "since" a time lasts until now.
    A month without a year is the last one that has begun; so is a day if the time has to stand ``alone``,
    else it is one of this year. If several times are named, none stands alone.
    """
    text, zone = text[:MAX_LENGTH], now.tzinfo or UTC
    begun = [
        each
        for each in _find_dates(text, (now.year - 1, now.year), zone)
        if each.span.start <= now.timestamp()
    ]
    this_year = now.replace(month=1, day=1, hour=0, minute=0, second=0, microsecond=0).timestamp()
    dates = [
        each
        for each in begun
        if alone or each.span.start >= this_year or each.span.end - each.span.start > LONGEST_DAY
    ]
    latest = {each.begin: each for each in sorted(dates, key=lambda each: each.span.start)}
    found = [
        Period(_moment(each.span.start, now), _moment(each.span.end, now), each.begin, each.end)
        for each in latest.values()
    ]
    places = [(each.start, each.stop) for each in found]
    found += [
        Period(*span, *match.span())
        for match in PAST_WAYS["when"].finditer(text)
        if not _is_within(match, places) and (span := _read_past(match, text[: match.start()], now))
    ]
    if not found or (alone and len({each.start for each in found}) > 1):
        return None
    first = min(found, key=lambda each: each.start)
    before = PAST_WAYS["since"].search(text[: first.start])
    if before or text[first.start : first.stop].lower().startswith("since"):
        return first._replace(until=now, start=before.start() if before else first.start)
    return first


def _moment(stamp: float, now: datetime) -> datetime:
    return datetime.fromtimestamp(stamp, now.tzinfo)


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


def _read_past(found: re.Match[str], lead: str, now: datetime) -> tuple[datetime, datetime] | None:
    """The time of a match of PAST_WAYS; None if there is none, or it is ahead."""
    midnight, day = now.replace(hour=0, minute=0, second=0, microsecond=0), timedelta(1)
    try:
        if found["unit"]:
            return _read_last(found, now, midnight)
        if found["quarter"] or found["named"]:
            return _read_of_year(found, midnight)
        if found["night"]:
            return midnight - day + timedelta(hours=NIGHT_BEGINS), midnight + timedelta(hours=NIGHT_ENDS)
        if part := (found["part"] or found["whole"] or "").strip().lower():
            begins, ends = _PARTS_OF_DAY.get(part, (0, 24))
            words = (found["day"] or part).lower()
            of = midnight - day * ("yesterday" in words) - day * ("before" in words)
            return of + timedelta(hours=begins), of + timedelta(hours=ends)
        if this := found["this"]:
            return _read_whole(this.lower(), midnight)
        if weekend := found["weekend"]:
            saturday = midnight + day * (5 - now.weekday())
            saturday -= 7 * day * (saturday > now or "last" in weekend.lower())
            return saturday, saturday + 2 * day
        if ago := found["ago"]:
            return _read_ago(ago[:-4], now)
        return _read_named(found, lead, now)
    except (ValueError, OverflowError):
        return None


def _read_last(found: re.Match[str], now: datetime, midnight: datetime) -> tuple[datetime, datetime]:
    """The last whole week, month, quarter or year, or the time as long up to now."""
    unit = found["unit"].lower().replace("wk", "week")
    if found["count"] or found["which"].lower() == "past":
        amount = f"{(found['count'] or '1').strip()} {unit.replace('night', 'day')}"
        return now - read_amount(amount), now
    if unit.rstrip("s") not in ("week", "month", "quarter", "year"):
        return now - read_amount(f"1 {unit}"), now
    start = _read_whole(unit, midnight)[0]
    return _read_whole(unit, start - timedelta(1))[0], start


def _read_whole(unit: str, midnight: datetime) -> tuple[datetime, datetime]:
    """The week, month, quarter or year that ``midnight`` is in."""
    if unit.startswith("w"):
        monday = midnight - timedelta(days=midnight.weekday())
        return monday, monday + timedelta(7)
    months = {"q": 3, "y": 12}.get(unit[0], 1)
    return _read_months(midnight.replace(month=midnight.month - (midnight.month - 1) % months, day=1), months)


def _read_months(first: datetime, months: int) -> tuple[datetime, datetime]:
    return first, datetime.combine(_later(first.date(), months), time(), first.tzinfo)


def _read_of_year(found: re.Match[str], midnight: datetime) -> tuple[datetime, datetime]:
    """A quarter, or a month that "last" or "this" stands before: the latest that has begun."""
    months, month = (
        (3, 3 * int(found["quarter"]) - 2) if found["quarter"] else (1, MONTHS[found["named"][:3].lower()])
    )
    first = midnight.replace(year=int(found["of_year"] or midnight.year), month=month, day=1)
    is_last = (found["of_named"] or "").lower() == "last" and first >= midnight.replace(day=1)
    if not found["of_year"] and (first > midnight or is_last):
        first = first.replace(year=first.year - 1)
    return _read_months(first, months)


def _read_ago(amount: str, now: datetime) -> tuple[datetime, datetime]:
    moment, half = now - read_amount(amount), timedelta(minutes=30)
    if is_short(amount):
        return moment - half, moment + half
    start = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    around = timedelta(days=next((days for unit, days in _AROUND.items() if unit in amount), 0))
    return start - around, start + timedelta(1) + around


def _read_named(found: re.Match[str], lead: str, now: datetime) -> tuple[datetime, datetime] | None:
    """A weekday, what is older than so much, or what was since a time of day."""
    midnight, day = now.replace(hour=0, minute=0, second=0, microsecond=0), timedelta(1)
    if weekday := found["weekday"]:
        if not found["late"] and PAST_WAYS["ahead"].search(lead):
            return None
        number = WEEKDAYS[weekday[:3].lower()]
        start = midnight - day * ((now.weekday() - number) % 7 or 7)
        if found["of"]:
            start = midnight + day * (number - 7 - now.weekday())
        return start, start + day
    if older := found["older"]:
        return datetime.fromtimestamp(0, now.tzinfo), now - read_amount(older)
    return (_read_since(found["clock"].lower(), midnight, now), now) if found["clock"] else None


def _read_since(clock: str, midnight: datetime, now: datetime) -> datetime:
    """The last moment at which it was ``clock``: "noon", "9", "10:30 pm"."""
    digits = re.match(r"(\d+)(?::(\d+))?", clock)
    hour = int(digits[1]) if digits else {"midnight": 0}.get(clock, 12)
    hour = hour % 12 + 12 if clock.endswith("pm") else hour
    moment = midnight + timedelta(hours=hour % 24, minutes=int((digits and digits[2]) or 0))
    return moment if moment <= now else moment - timedelta(days=1)
