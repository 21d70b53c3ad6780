"""Deadlines that memory states: which sentences name one, and the day they name."""

import re
from collections.abc import Iterable
from datetime import date, timedelta

from services.nexus.briefings.lines import Line, Source, line
from shared.clock import parse_timestamp
from shared.contracts import Node
from shared.language.times.calendar_range import NamedDay, read_named_days

AHEAD = 7
"""Days ahead that a deadline is told."""
_STATED = re.compile(
    r"(?i)\b(?:deadline|due|no later than|at the latest|has to be \w+ by|must be \w+ by|expires?|submit\w*"
    r"|deliver\w*|hand(?:ed)? in|ships?|freeze|launch\w*|release\w*|renew\w*)\b"
)
"""Words of a sentence that states a deadline, beside its date."""


def find_deadlines(nodes: Iterable[Node], today: date, ahead: int = AHEAD) -> list[tuple[date, Line]]:
    """The deadlines from ``today`` to so many days ahead, the next first, each with its memory node."""
    found = []
    for node in nodes:
        if node.valid_to or node.retired_version or "discovery" in node.tags:
            continue
        for sentence in re.split(r"(?<=[.!?])\s+|\n", f"{node.title}\n{node.body[:2_000]}"):
            when = stated_date(sentence, _day_of(node, today))
            if when is not None and today <= when <= today + timedelta(days=ahead):
                source = Source(kind="memory", id=node.id)
                told = line(f"{say_day(when, today)}: {sentence}", source, score=-float((when - today).days))
                found.append((when, told))
                break
    return sorted(found, key=lambda each: each[0])


def stated_date(sentence: str, said_on: date) -> date | None:
    """The day that a sentence of ``said_on`` names, of several the one nearest to the words of a deadline;
    None if it states no deadline, or names no day that exists. Without a year it is the next such day.
    """
    stated = [each.span() for each in _STATED.finditer(sentence)]

    def distance(named: NamedDay) -> int:
        return min(max(named.start - end, begin - named.end, 0) for begin, end in stated)

    named = read_named_days(sentence, said_on) if stated else []
    return min(named, key=distance).day if named else None


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
