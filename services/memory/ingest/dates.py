"""Days that notes name, in English and German words, in figures, or as ISO dates."""

import re
from datetime import UTC, date, datetime, timedelta

from services.memory.ingest.fields import ISO, parse_date

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january januar jan jänner",
            "february februar feb",
            "march märz mar mrz",
            "april apr",
            "may mai",
            "june juni jun",
            "july juli jul",
            "august aug",
            "september sept sep",
            "october oktober oct okt",
            "november nov",
            "december dezember dec dez",
        ),
        1,
    )
    for name in names.split()
}
_WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            "monday montag mon mo",
            "tuesday dienstag tues tue di",
            "wednesday mittwoch wed mi",
            "thursday donnerstag thurs thur thu do",
            "friday freitag fri fr",
            "saturday samstag sonnabend sat sa",
            "sunday sonntag sun so",
        )
    )
    for name in names.split()
}
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b\.?"
_WEEKDAY = (
    rf"(?:(?P<weekday>{'|'.join(sorted(_WEEKDAYS, key=len, reverse=True))})\b\.?,?\s+(?:(?:the|den)\s+)?)?"
)
_WEEKDAY_NAME = re.compile(rf"\b(?:{'|'.join(sorted(_WEEKDAYS, key=len, reverse=True))})\b", re.IGNORECASE)
_YEAR = r"(?:,?\s+(?P<year>(?:19|20)\d\d)\b)?"
_FORMS = tuple(
    re.compile(rf"(?<![\w.]){_WEEKDAY}{form}", re.IGNORECASE)
    for form in (
        rf"(?P<day>[0-3]?\d)(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}{_YEAR}",
        rf"{_MONTH}\s+(?P<day>[0-3]?\d)(?:st|nd|rd|th)?(?![\w:.]\d|\d){_YEAR}",
        r"(?P<day>[0-3]?\d)\.\s?(?P<month>[01]?\d)\.(?:\s?(?P<year>(?:19|20)?\d\d)(?![\d:]))?(?!\d)",
        r"(?P<day>1[3-9]|2\d|3[01])/(?P<month>[01]?\d)/(?P<year>(?:19|20)\d\d)\b",
        r"(?P<month>[01]?\d)/(?P<day>1[3-9]|2\d|3[01])/(?P<year>(?:19|20)\d\d)\b",
    )
)
MARKS = re.compile(r"^(?:[\s>*+\-•\[({\"'#`_\]]|[xX]\]|\d+[.)]\s)*")
"""What may stand before the first word of a line: bullets, brackets and check boxes."""
_ON = re.compile(r"(?:on|am|vom)\s+", re.IGNORECASE)
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::[0-5]\d)?(?![\d:])")
YEARS = 8  # How far back the year of a day without one is looked for, when its weekday is named


def find_day(text: str, known: date) -> str:
    """The first day that a heading names, as ISO 8601 in UTC; "" if it names none.

    A day without a year is the last one that was not after ``known``, on the weekday that stands with it.
    """
    if match := ISO.search(text):
        return parse_date(match[0])
    for form in _FORMS:
        for match in form.finditer(text):
            if day := _read(match, known):
                return _stamp(day)
    return ""


def is_only_day(text: str) -> bool:
    """Whether a text names a day and has no other word."""
    found = (match for form in (ISO, *_FORMS) if (match := form.search(text)))
    rests = (text[: match.start()] + text[match.end() :] for match in found)
    return any(not re.search(r"\w", _WEEKDAY_NAME.sub("", rest)) for rest in rests)


def find_leading_day(text: str, known: date) -> str:
    """The day that the first line of a text begins with, behind a bullet or "on"; "" if it does with none."""
    line = text.lstrip().partition("\n")[0][:200]
    start = MARKS.match(line)
    begin = start.end() if start else 0
    if match := ISO.match(line, begin):
        return parse_date(match[0])
    if lead := _ON.match(line, begin):
        begin = lead.end()
    for form in _FORMS:
        if (match := form.match(line, begin)) and (day := _read(match, known)):
            return _stamp(day)
    return ""


def find_clock(text: str) -> tuple[int, int] | None:
    """The time of day that a line begins with, as hour and minute."""
    match = _CLOCK.match(text, start.end() if (start := MARKS.match(text)) else 0)
    return (int(match[1]), int(match[2])) if match else None


def cut_lead(line: str) -> str:
    """A line without the marks, the date and the time that it begins with; the line itself if nothing else
    is there.
    """
    rest = MARKS.sub("", line, count=1)
    for form in (ISO, *_FORMS, _CLOCK):
        if match := form.match(rest):
            rest = rest[match.end() :].lstrip(" \t,;:.)]-–—|")
    return rest or line.strip()


def _read(match: re.Match[str], known: date) -> date | None:
    parts = match.groupdict()
    named = parts["month"].lower()
    month = int(named) if named.isdigit() else _MONTHS[named]
    day, year = int(parts["day"]), parts.get("year")
    if year:
        return _day(int(year) + (2000 if len(year) == 2 else 0), month, day)
    latest = min(known, date.max - timedelta(days=1)) + timedelta(days=1)
    days = [found for back in range(YEARS) if (found := _day(latest.year - back, month, day))]
    past = [found for found in days if found <= latest]
    weekday = _WEEKDAYS.get((parts["weekday"] or "").lower())
    return next((found for found in past if found.weekday() == weekday), past[0] if past else None)


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:  # 31 June
        return None


def _stamp(day: date) -> str:
    return parse_date(datetime(day.year, day.month, day.day, tzinfo=UTC))
