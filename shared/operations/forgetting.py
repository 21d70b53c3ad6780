"""Having memories forgotten: what goes with them, the order, and the record that it is done."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.contracts import EdgesQuery, MemoryForgotten, MemoryWrite, MemoryWritten, Node, Relation
from shared.errors import NotFound
from shared.memory import Memory
from shared.operations.erasure.eraser import Report, find_quotations
from shared.operations.erasure.orders import leave_order
from shared.operations.erasure.texts import texts_of_nodes
from shared.queries.records import scan
from shared.text.quotations import Quotations, find_short

WORDS = 3
"""The least words of a text that is erased in other memories too."""
LEAST = 8
"""The least characters of a text that is looked for in other memories."""
SHOWN_SHORT = 5
"""The most texts that are named as too short to be looked for."""
_PLACES = {
    "mail": "letters, questions and answers",
    "task": "steps and results of tasks",
    "tasks": "goals as they were submitted",
    "state": "states of goals",
    "dead": "dead letters",
    "event": "events",
    "approval": "requests for approval",
    "record": "records of agents, such as conversations",
}


class ForgettingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What an order would erase: the ``nodes``, first those that were named, then what was merged with them
    and proposals to change them; ``sharing`` are the ids of others that have a text of these, and lose it.

    ``messages`` are how many of the office quote them, by what they are, ``short`` the texts of them that are
    too short to be looked for there: they stay wherever they stand.
    """

    nodes: list[Node]
    sharing: list[str]
    messages: dict[str, int] = {}
    short: list[str] = []


async def count_messages(bus: Bus, nodes: Sequence[Node], report: Report = lambda *_: None) -> dict[str, int]:
    """How many messages of the office quote the texts of nodes, by what they are."""
    found: Counter[str] = Counter()
    async for page in find_quotations(bus, Quotations(texts_of_nodes(nodes)), report=report):
        found.update(_PLACES.get(stored.subject.partition(".")[0], "other messages") for stored in page)
    return dict(found)


async def order_forgetting(bus: Bus, nodes: Sequence[Node], person: str = "") -> MemoryWritten:
    """Order that nodes be forgotten, as a person: by memory now, in OFFICE, AUDIT and files soon after.

    The texts are left for the admin first, so that no crash keeps quotations that nobody looks for.
    """
    order = MemoryWrite(sender=subjects.USER, person=person, forget=tuple(node.id for node in nodes))
    await leave_order(bus, order.id, nodes)
    return await Memory(bus).write(order)


async def plan_forgetting(bus: Bus, ids: Sequence[str]) -> ForgettingPlan:
    """What an order to forget ``ids`` would erase; raises NotFound if memory lacks one of them."""
    nodes, sharing = await find_nodes(Memory(bus), ids)
    short = find_short(line for text in texts_of_nodes(nodes) for line in text.splitlines())
    messages = await count_messages(bus, nodes)
    return ForgettingPlan(nodes=nodes, sharing=sharing, messages=messages, short=short[:SHOWN_SHORT])


async def find_nodes(memory: Memory, ids: Sequence[str]) -> tuple[list[Node], list[str]]:
    """The nodes that an order to forget ``ids`` is about, and the ids of others with the same text.

    Raises NotFound if memory lacks one of them.
    """
    found = {node.id: node for node in await memory.get(*ids)}
    if missing := [each for each in ids if each not in found]:
        raise NotFound(
            f"{', '.join(missing)} is not in memory, so nothing was forgotten",
            "'mailroom memory search' finds ids",
        )
    merged = {each for node in found.values() for each in _merged_from(node)}
    texts = [text for node in found.values() for text in texts_of(node) if len(text.split()) >= WORDS]
    sharing = []
    async for node in memory.iterate_nodes():
        if found.keys() & set(_merged_from(node)):
            merged.add(node.id)
        elif node.id not in found and any(text in node.title or text in node.body for text in texts):
            sharing.append(node.id)
    for node_id in ids:
        for edge in (await memory.edges(EdgesQuery(node=node_id))).edges:
            is_proposal = edge.relation is Relation.CONTRADICTS and edge.from_id.startswith("proposal-")
            if is_proposal and edge.to_id == node_id:
                merged.add(edge.from_id)
    nodes = [*found.values(), *await memory.get(*sorted(merged - found.keys()))]
    return nodes, [each for each in sharing if each not in merged]


async def find_record(bus: Bus, order: MemoryWritten) -> MemoryForgotten | None:
    """The record that an order is done; None until it is."""
    own = subjects.memory_write(subjects.MEMORY_DAEMON)
    async for stored in scan(bus, subjects.MEMORY, own, seq=order.version + 1):
        if b'"memory_forgotten.v1"' in stored.data:
            with contextlib.suppress(ValueError):
                record = MemoryForgotten.from_json(stored.data)
                if order.cause in record.orders:
                    return record
    return None


def texts_of(node: Node) -> Iterator[str]:
    """What of a node is looked for elsewhere: title and body, unless they are short."""
    for text in (node.title, node.body):
        if len(text.strip()) >= LEAST:
            yield text.strip()


def _merged_from(node: Node) -> list[str]:
    merged = node.metadata.get("merged_from", [])
    return [each for each in merged if isinstance(each, str)] if isinstance(merged, list) else []
