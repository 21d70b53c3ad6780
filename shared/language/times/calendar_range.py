"""The days that a question about the calendar asks about."""

import re
from datetime import date, timedelta

from shared.language.times.days import UnclearTime, find_day, is_short, read_amount, read_day
from shared.language.times.time_phrases import NUMBERS, Phrase, find_phrases

_NEXT = re.compile(
    r"(?i)\b(?:next|coming|following)\s+(?P<count>\d{1,3}|two|three|four|five|six|seven|ten)?\s*(?P<unit>days?|weeks?)\b"
)
_PAST = re.compile(r"(?i)\b(?:last|past)\s+(?P<unit>week|month)\b")
_WEEK = re.compile(r"\b(?:this|(?:the|my)\s+(?:whole|rest\s+of\s+the)|all)\s+week\b", re.IGNORECASE)
_WEEKEND = re.compile(r"\bweekend\b", re.IGNORECASE)
_MONTH = re.compile(r"\b(?:this|next)\s+month\b", re.IGNORECASE)
_NEXT_EVENT = re.compile(r"\bnext\s+(?:meeting|appointment|event)s?\b", re.IGNORECASE)


def parse_calendar_range(text: str, today: date) -> tuple[date, int]:
    """The first day and the number of days that ``text`` asks about; just ``today`` if it names none.

    "Next week" is from Monday to Sunday, "the next days" a week, "my next meeting" the 30 days ahead.
    """
    return find_calendar_range(text, today) or (today, 30 if _NEXT_EVENT.search(text) else 1)


def find_calendar_range(text: str, today: date) -> tuple[date, int] | None:
    """As ``parse_calendar_range``; None if ``text`` names no days."""
    if found := _NEXT.search(text):
        words = (found["count"] or "0").lower()
        count = int(words) if words.isdigit() else int(NUMBERS[words])
        if found["unit"].lower() == "week" and not count:
            return today + timedelta(days=7 - today.weekday()), 7
        days = count * (7 if found["unit"].lower().startswith("week") else 1) or 7
        return today, max(1, min(days, 366))
    if found := _PAST.search(text):
        days = 7 if found["unit"].lower() == "week" else 31
        return today - timedelta(days=today.weekday() + 7 if days == 7 else days), days
    if _WEEKEND.search(text):
        saturday = today + timedelta(days=max(0, 5 - today.weekday()))
        return saturday, 7 - saturday.weekday()
    if _WEEK.search(text):
        return today, 7 - today.weekday()
    if _MONTH.search(text):
        return today, 31
    phrases = find_phrases(text[:1_000])
    offset = next((each for each in phrases if each.kind == "offset"), None)
    for phrase in phrases:
        if phrase.kind == "day":
            try:
                return _shift(find_day(read_day(phrase, today), today), offset), 1
            except UnclearTime:
                return None
    return None


def _shift(day: date, offset: Phrase | None) -> date:
    """``day``, or the one so long before or after it as ``offset`` says: "the day after Thursday"."""
    if offset is None or is_short(amount := offset["amount"] or f"1 {offset['unit']}"):
        return day
    away = read_amount(amount)
    shifted: date = day - away if offset["way"].startswith(("before", "prior")) else day + away
    return shifted
