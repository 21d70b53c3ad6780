"""What briefings tell from memory: what was learned, what contradicts itself, and the nodes that hold now."""

from datetime import datetime

from services.nexus.answers.weighing import is_noted
from services.nexus.briefings.lines import Section, Source, line
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
