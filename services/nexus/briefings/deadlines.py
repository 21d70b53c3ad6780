"""Deadlines that memory states: which sentences name one, and the day they name."""

import re
from collections.abc import Iterable
from datetime import date, timedelta

from services.nexus.briefings.lines import Line, Source, line
from shared.clock import parse_timestamp
from shared.contracts import Node

AHEAD = 7
"""Days ahead that a deadline is told."""
MONTHS = "january february march april may june july august september october november december".split()
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_MONTH = "|".join(f"{name}|{name[:3]}" for name in MONTHS)
_STATED = re.compile(
    r"(?i)\b(?:deadline|due|no later than|at the latest|has to be \w+ by|must be \w+ by|expires?|submit\w*"
    r"|deliver\w*|hand(?:ed)? in|ships?|freeze|launch\w*|release\w*|renew\w*)\b"
)
"""Words of a sentence that states a deadline, beside its date."""
_DATE = re.compile(
    r"(?i)\b(?:(?P<iso>\d{4}-\d{2}-\d{2})"
    rf"|(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\.?(?:\s+of)?\s+(?P<month>{_MONTH})\b\.?(?:,?\s+(?P<year>\d{{4}}))?"
    rf"|(?P<month2>{_MONTH})\b\.?\s+(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(?P<year2>\d{{4}}))?"
    rf"|(?:by|on|until|before|due|next|this)\s+(?P<weekday>{'|'.join(WEEKDAYS)}))\b"
)


def find_deadlines(nodes: Iterable[Node], today: date, ahead: int = AHEAD) -> list[tuple[date, Line]]:
    """The deadlines from ``today`` to so many days ahead, the next first, each with its memory node."""
    found = []
    for node in nodes:
        if node.valid_to or node.retired_version or "discovery" in node.tags:
            continue
        for sentence in re.split(r"(?<=[.!?])\s+|\n", f"{node.title}\n{node.body[:2_000]}"):
            when = stated_date(sentence, _day_of(node, today)) if _STATED.search(sentence) else None
            if when is not None and today <= when <= today + timedelta(days=ahead):
                source = Source(kind="memory", id=node.id)
                told = line(f"{say_day(when, today)}: {sentence}", source, score=-float((when - today).days))
                found.append((when, told))
                break
    return sorted(found, key=lambda each: each[0])


def stated_date(sentence: str, said_on: date) -> date | None:
    """The day that a sentence of ``said_on`` names, of several the one nearest to the words of a deadline;
    None if it names none that exists.
    """
    named = _find_nearest(sentence)
    if named is None:
        return None
    try:
        if named["iso"]:
            return date.fromisoformat(named["iso"])
        if named["weekday"]:
            wanted = WEEKDAYS.index(named["weekday"].lower())
            return said_on + timedelta(days=(wanted - said_on.weekday()) % 7)
        month = next(
            number
            for number, name in enumerate(MONTHS, start=1)
            if name.startswith((named["month"] or named["month2"]).lower()[:3])
        )
        day, year = int(named["day"] or named["day2"]), named["year"] or named["year2"]
        when = date(int(year) if year else said_on.year, month, day)
        # without a year it is the next such day after it was said
        return when if year or when >= said_on else when.replace(year=said_on.year + 1)
    except ValueError:
        return None


def _find_nearest(sentence: str) -> re.Match[str] | None:
    """The date nearest to a word of a deadline."""
    stated = [each.span() for each in _STATED.finditer(sentence)] or [(0, 0)]

    def distance(named: re.Match[str]) -> int:
        return min(max(named.start() - end, begin - named.end(), 0) for begin, end in stated)

    return min(_DATE.finditer(sentence), key=distance, default=None)


def say_day(when: date, today: date) -> str:
    """``today``, ``tomorrow``, or the day."""
    days = (when - today).days
    named = {0: "Today", 1: "Tomorrow"}
    return named.get(days, f"{when:%A} {when.day} {when:%B}")


def _day_of(node: Node, today: date) -> date:
    try:
        return parse_timestamp(node.valid_from or node.created_at).date()
    except ValueError:
        return today
