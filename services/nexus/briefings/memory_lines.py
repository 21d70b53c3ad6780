"""What briefings tell from memory: what was learned, what contradicts itself, what holds now, deadlines."""

import re
from collections.abc import Iterable
from datetime import date, datetime, timedelta

from services.nexus.answers.weighing import is_noted
from services.nexus.briefings.lines import Line, Section, Source, line
from shared.clock import parse_timestamp
from shared.contracts import EdgesQuery, ListQuery, Node, Relation
from shared.memory import Memory

MAX_CONTRADICTIONS = 10
"""The most contradictions that a briefing lists."""
MAX_LEARNED = 10
"""The most memories of a day that an evening tells."""
MAX_NODES = 5_000
"""The most nodes of memory that are looked through for deadlines."""
LEARNED_KINDS = ("decision", "preference", "fact", "pattern", "goal")
"""What an evening tells of memory: what people and agents found out, and no log of events."""


async def read_current_nodes(memory: Memory) -> list[Node]:
    """The nodes that hold now, as far as MAX_NODES; raises BusError."""
    query = EdgesQuery(relations=(Relation.SUPERSEDES,))
    over = {edge.to_id async for edge in memory.iterate_edges(query)}
    found = []
    async for node in memory.iterate_nodes(ListQuery(limit=1_000)):
        if node.id not in over:
            found.append(node)
        if len(found) >= MAX_NODES:
            break
    return found


async def learned_since(memory: Memory, since: datetime) -> Section:
    """What was remembered after ``since``, the most important first; raises BusError."""
    query = ListQuery(kinds=LEARNED_KINDS, since=since.isoformat(), limit=1_000)
    nodes = [node async for node in memory.iterate_nodes(query)]
    shown = [each for each in nodes if "discovery" not in each.tags and not is_noted(each)]
    ordered = sorted(shown, key=lambda each: (-each.importance, each.created_at))
    lines = tuple(line(each.title, Source(kind="memory", id=each.id)) for each in ordered[:MAX_LEARNED])
    more = f"{len(ordered) - MAX_LEARNED} more: mailroom memory list" if len(ordered) > MAX_LEARNED else ""
    return Section(lines=lines, problem=more)


async def find_contradictions(memory: Memory) -> Section:
    """The pairs of memories that contradict each other and both hold; raises BusError."""
    page = await memory.edges(EdgesQuery(relations=(Relation.CONTRADICTS,), limit=100))
    pairs = list(dict.fromkeys(tuple(sorted((edge.from_id, edge.to_id))) for edge in page.edges))
    nodes = {node.id: node for node in await memory.get(*{each for pair in pairs for each in pair})}
    live = [pair for pair in pairs if all(each in nodes and not nodes[each].retired_version for each in pair)]
    lines = tuple(
        line(
            f"{nodes[one].title} - but: {nodes[other].title}",
            Source(kind="memory", id=one),
            Source(kind="memory", id=other),
        )
        for one, other in live[:MAX_CONTRADICTIONS]
    )
    more = f"{len(live) - MAX_CONTRADICTIONS} more." if len(live) > MAX_CONTRADICTIONS else ""
    return Section(lines=lines, problem=more)


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
