"""The days that a request names: "last week", "since 2026-01-31", "in the last 10 days"."""

import re
from datetime import date, timedelta

DAYS = {"day": 1, "week": 7, "month": 30, "year": 365, "fortnight": 14}
NUMBERS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "ten": 10}
UNIT = r"(?P<unit>day|week|month|year|fortnight)s?\b"
LAST = re.compile(
    rf"\b(?:(?:last|past|previous|this|recent)\s+(?:(?P<number>\d{{1,4}}|[a-z]+)\s+)?|(?P<ago>\d{{1,4}}|an?|one)\s+)"
    rf"{UNIT}(?P<is_ago>\s+ago)?",
    re.IGNORECASE,
)
DATE = r"(\d{4}-\d{2}-\d{2})"
SINCE = re.compile(rf"\b(?:since|after|from|between)\s+{DATE}", re.IGNORECASE)
UNTIL = re.compile(rf"\b(?:until|till|to|before|and)\s+{DATE}", re.IGNORECASE)
ON = re.compile(rf"\bon\s+{DATE}", re.IGNORECASE)
MONTH = re.compile(r"\b(?:in|during)\s+(\d{4})(?:-(\d{2}))?\b(?!-)", re.IGNORECASE)


def read_period(text: str, today: date) -> tuple[str, str]:
    """The first and the last day that ``text`` names, as ISO dates; empty for what it does not name.

    "Last week" and the like are the last seven days, as git understands them.
    """
    since, until = SINCE.search(text), UNTIL.search(text)
    if since or until:
        return _valid(since[1] if since else ""), _valid(until[1] if until else "")
    if on := ON.search(text):
        return _valid(on[1]), _valid(on[1])
    if month := MONTH.search(text):
        return _month(int(month[1]), int(month[2] or 0))
    if re.search(r"\byesterday\b", text, re.IGNORECASE):
        day = (today - timedelta(days=1)).isoformat()
        return day, day
    if re.search(r"\btoday\b", text, re.IGNORECASE):
        return today.isoformat(), ""
    return _last(text, today), ""


def _last(text: str, today: date) -> str:
    for found in LAST.finditer(text):
        word = (found["number"] or found["ago"] or "1").lower()
        number = int(word) if word.isdigit() else NUMBERS.get(word, 1)
        if found["ago"] and not found["is_ago"]:
            continue
        days = min(number * DAYS[found["unit"].lower()], (today - date.min).days)
        return (today - timedelta(days=days)).isoformat()
    return ""


def _month(year: int, month: int) -> tuple[str, str]:
    try:
        first = date(year, month or 1, 1)
        after = date(year + (month in (0, 12)), month % 12 + 1 if month else 1, 1)
    except ValueError:
        return "", ""
    return first.isoformat(), (after - timedelta(days=1)).isoformat()


def _valid(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        return ""
