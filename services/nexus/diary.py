"""The diary: which days a question about the calendar is after."""

import re
from datetime import date, timedelta

from services.nexus.days import find_day
from services.nexus.phrases import DATES
from shared.errors import ActionError

_NEXT = re.compile(
    r"\b(?:next|coming|following)\s+(?P<count>\d{1,3}|two|three|four|five|six|seven|ten)?\s*(?P<unit>days?|weeks?)\b",
    re.IGNORECASE,
)
_COUNTS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "ten": 10}
_WEEK = re.compile(r"\bthis\s+week\b", re.IGNORECASE)
_WEEKEND = re.compile(r"\bweekend\b", re.IGNORECASE)
_MONTH = re.compile(r"\b(?:this|next)\s+month\b", re.IGNORECASE)
_COMING = re.compile(r"\bnext\s+(?:meeting|appointment|event)s?\b", re.IGNORECASE)


_CHANGE = re.compile(
    r"^\W*(?:(?:please|can|could|would|will|you|i\s+want\s+you\s+to)\s+)*"
    r"(?:put|add|enter|book|schedule|create|move|shift|delete|remove|cancel|postpone)\b",
    re.IGNORECASE,
)


def wants_change(text: str) -> bool:
    """Whether ``text`` wants something put into the calendar, moved in it, or taken out of it."""
    return bool(_CHANGE.search(text))


def read_span(text: str, today: date) -> tuple[date, int]:
    """The first day and how many days ``text`` asks after, seen from ``today``; today where none is named.

    "Next week" is from Monday to Sunday, "the next days" a week, "my next meeting" the 30 days ahead.
    """
    monday = today + timedelta(days=7 - today.weekday())
    if found := _NEXT.search(text):
        count = _COUNTS.get((found["count"] or "").lower()) or int(found["count"] or 0)
        if found["unit"].lower() == "week" and not count:
            return monday, 7
        days = count * (7 if found["unit"].lower().startswith("week") else 1) or 7
        return today, max(1, min(days, 366))
    if _COMING.search(text):
        return today, 30
    if _WEEKEND.search(text):
        saturday = today + timedelta(days=max(0, 5 - today.weekday()))
        return saturday, 7 - saturday.weekday()
    if _WEEK.search(text):
        return today, 7 - today.weekday()
    if _MONTH.search(text):
        return today, 31
    day = DATES.search(text)
    if day is None:
        return today, 1
    try:
        return find_day(day, today), 1
    except ActionError:
        return today, 1
