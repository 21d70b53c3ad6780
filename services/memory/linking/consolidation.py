"""Consolidation and expiry: old events that are alike become one, and what was kept long enough is retired.

Both only change what is found: the log and older versions keep every event.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from services.memory.graph.decay import parse_time
from services.memory.linking.rules import move_edges
from services.memory.writes.change import key_of
from shared.contracts import Edge, MemoryWrite, Node, Relation, Source
from shared.contracts.base import amended
from shared.language.times.time_phrases import MONTH_NAMES, WEEKDAY_NAMES

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

DAY = 86_400.0
AGE = 7 * DAY  # Seconds until an event is old enough
MANY = 5  # So many alike events become one; those that come later join it
UNIMPORTANT = 0.6  # The highest importance of an event that is taken for one of many
MOST = 500  # The most nodes of one write; the rest is done with the next
MOST_EDGES = 50  # The most edges that the one takes over from the many, the weightiest
SUMMARY = "events-"  # What the id of a consolidated event begins with

_NAMES = "|".join(name for name in (*WEEKDAY_NAMES, *MONTH_NAMES) if name != "may")
_VARIES = re.compile(rf"\S*\d\S*|\b({_NAMES})\b")
"""What differs from one occurrence to the next: numbers, ids, dates, days and months."""
_COUNTED = re.compile(r" \(\d+ times\)$")
_STATEMENTS = (Relation.SUPERSEDES, Relation.CONTRADICTS)


def consolidate(view: "View", moment: float) -> MemoryWrite | None:
    """The write that makes one event of the next many that are alike and older than AGE; None for none.

    Alike are events of one agent whose titles differ in numbers, ids and days alone. Important ones, and
    those that supersede or contradict something, stay. To be repeated until None; then it changes nothing.
    """
    groups: dict[tuple[str, str], list[Node]] = defaultdict(list)
    for node in view.nodes(view.select(kinds=("event",))):
        words = shape(node.title)
        old = _seconds(_began(node)) <= moment - AGE
        if not (words and old) or node.importance > UNIMPORTANT or node.id.startswith(SUMMARY):
            continue
        if not any(edge.relation in _STATEMENTS for edge in view.graph.edges_of(node.id)):
            groups[node.source.agent, words].append(node)
    for key in sorted(groups):
        many = sorted(groups[key], key=lambda node: (_began(node), node.id))[:MOST]
        one = view.node(_id_of(key))
        joined = one is not None and not one.retired_version
        if joined or len(many) >= MANY:
            summary = _sum_up(_id_of(key), many, one if joined else None)
            edges = _edges_of(view, many, summary.id)
            retire = tuple(node.id for node in many)
            return MemoryWrite(sender="memory", nodes=(summary,), edges=edges, retire=retire, insist=True)
    return None


def expire(view: "View", moment: float, keep: Mapping[str, int]) -> MemoryWrite | None:
    """The write that retires the next nodes of the kinds in ``keep`` that are older than so many days."""
    for kind, days in sorted(keep.items()):
        nodes = view.nodes(view.select(kinds=(kind,)))
        old = [node.id for node in nodes if _last_seconds(node) < moment - days * DAY]
        if old:
            return MemoryWrite(sender="memory", retire=tuple(sorted(old)[:MOST]))
    return None


def shape(title: str) -> str:
    """A title without what differs from one occurrence to the next; empty if little else is left."""
    words = _VARIES.sub("#", title.casefold()).split()
    return " ".join(words) if sum(word != "#" for word in words) >= 2 else ""


def _sum_up(node_id: str, many: Sequence[Node], one: Node | None) -> Node:
    """One event for many, and for those that ``one`` stands for already."""
    said: dict[str, Any] = one.metadata if one is not None else {}
    before = said.get("count", 0)
    number = len(many) + (before if isinstance(before, int) else 0)
    first = min(filter(None, (str(said.get("first", "")), _began(many[0]))), key=_seconds)
    last = max(filter(None, (str(said.get("last", "")), _ended(many[-1]))), key=_seconds)
    everyone = [*many, *([one] if one is not None else [])]
    tags = [tag for tag in everyone[0].tags if all(tag in node.tags for node in everyone)]
    made = Node(
        id=node_id,
        kind="event",
        title=f"{_common_title(everyone)[:230]} ({number} times)",
        body=f"{number} times from {first[:10]} to {last[:10]}.",
        tags=tuple(tags),
        metadata={"count": number, "first": first, "last": last},
        source=Source(agent=many[0].source.agent, channel="consolidation"),
        importance=max(node.importance for node in everyone),
        created_at=first,
        updated_at=last,
        valid_from=first,
    )
    # With the version at which it was read, so that what was written meanwhile is not overwritten.
    return made if one is None else amended(made, version=one.version)


def _common_title(nodes: Sequence[Node]) -> str:
    """The words that the titles share, with … for those in which they differ."""
    titles = [_COUNTED.sub("", node.title).split() for node in nodes]
    return " ".join(words[0] if len(set(words)) == 1 else "…" for words in zip(*titles, strict=False))


def _edges_of(view: "View", many: Iterable[Node], stays: str) -> tuple[Edge, ...]:
    """The edges of the many to others, as edges of the one: of equal ones the weightiest."""
    gone = {node.id for node in many}
    best: dict[tuple[str, str, str], Edge] = {}
    for node_id in sorted(gone):
        outer = [e for e in view.graph.edges_of(node_id) if not {e.from_id, e.to_id} <= gone]
        for edge in move_edges(outer, node_id, stays):
            key = key_of(edge)
            there = best.get(key) or view.graph.edge(*key)
            if there is None or edge.weight > there.weight:
                best[key] = edge
    chosen = sorted(best.items(), key=lambda pair: (-pair[1].weight, pair[0]))[:MOST_EDGES]
    return tuple(edge for _, edge in chosen)


def _id_of(key: tuple[str, str]) -> str:
    return f"{SUMMARY}{hashlib.sha256(chr(0).join(key).encode()).hexdigest()[:32]}"


def _began(node: Node) -> str:
    return node.valid_from or node.created_at


def _ended(node: Node) -> str:
    """When something was last so: an event that stands for many has its last date there."""
    last = node.metadata.get("last")
    return last if node.id.startswith(SUMMARY) and isinstance(last, str) else _began(node)


def _last_seconds(node: Node) -> float:
    return max(_seconds(stamp) for stamp in (_ended(node), node.updated_at) if stamp)


def _seconds(stamp: str) -> float:
    """A time in seconds since 1970; of no time it is now, so that nothing is done to what has none."""
    try:
        return parse_time(stamp)
    except ValueError:
        return datetime.now(UTC).timestamp()
