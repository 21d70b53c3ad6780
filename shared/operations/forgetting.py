"""Having memories forgotten: what goes with them, the order, and the record that it is done."""

import contextlib
from collections.abc import Iterator, Sequence

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.contracts import EdgesQuery, MemoryForgotten, MemoryWritten, Node, Relation
from shared.errors import NotFound
from shared.memory import Memory
from shared.queries.records import scan

WORDS = 3
"""The least words of a text that is erased in other memories too."""
LEAST = 8
"""The least characters of a text that is looked for in files and messages."""


class ForgettingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What an order would erase: the ``nodes``, first those that were named, then what was merged with them
    and proposals to change them; ``sharing`` are the ids of others that have a text of these, and lose it.
    """

    nodes: list[Node]
    sharing: list[str]


async def plan_forgetting(memory: Memory, ids: Sequence[str]) -> ForgettingPlan:
    """What an order to forget ``ids`` would erase; raises NotFound if memory lacks one of them."""
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
    more = await memory.get(*sorted(merged - found.keys()))
    sharing = [each for each in sharing if each not in merged]
    return ForgettingPlan(nodes=[*found.values(), *more], sharing=sharing)


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
