"""What briefings tell from memory: what was learned, what contradicts itself, what holds now, deadlines."""

import re
from collections.abc import Iterable
from datetime import date, datetime, timedelta

from services.nexus.answers.weighing import is_noted
from services.nexus.briefings.lines import Line, Section, Source, line
from shared.clock import parse_timestamp
from shared.contracts import EdgesQuery, ListQuery, Node, Relation
from shared.language.times.calendar_range import NamedDay, read_named_days
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
