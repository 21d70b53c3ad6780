"""What was discovered, as memory keeps it: one node an item, each with its source."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from services.frontier.brief import address_of
from services.frontier.ledger import item_key
from shared.contracts import Node, Source
from shared.errors import BusError, BusUnavailable
from shared.memory import Memory, WriteRefused
from shared.web.quoting import clean

IMPORTANCE = 0.4
"""What was found, and nobody has looked at yet: above what briefings leave out, below what people say."""


async def remember(memory: Memory, agent: str, items: Sequence[Mapping[str, Any]], topic: str) -> str:
    """Remember ``items``; returns "" or a sentence that says what memory did not take.

    An item found again is the same node. What the write gate refuses, since memory has it, is left to it.
    """
    if not items:
        return ""
    nodes = [make_node(item, agent, topic) for item in items]
    try:
        try:
            await memory.add(*nodes)
            return ""
        except WriteRefused:
            refused = [node for node in nodes if not await _is_taken(memory, node)]
    except BusUnavailable as error:
        return f"Not in memory yet: {error}"
    except BusError as error:
        return f"Memory did not take what was found: {error}"
    return f"Memory had {len(refused)} of {len(nodes)} items already." if refused else ""


async def _is_taken(memory: Memory, node: Node) -> bool:
    try:
        await memory.add(node)
    except WriteRefused:
        return False
    return True


def make_node(item: Mapping[str, Any], agent: str, topic: str) -> Node:
    """The node of a paper or an item of news; its id follows from the item."""
    key = item_key(item)
    paper = "arxiv_id" in item
    kept = ("arxiv_id", "authors", "published", "categories") if paper else ("published", "source")
    said = str(item.get("abstract") or item.get("summary") or "")
    return Node(
        id=f"discovery-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:32]}",
        kind="observation",
        title=clean(f"{'Paper' if paper else 'News'}: {item['title']}", 250),
        body=f"{clean(said, 1_500)}\n\nSource: {address_of(item)}".strip(),
        tags=("discovery", "paper" if paper else "news"),
        metadata={
            **{name: item[name] for name in kept if name in item},
            "url": address_of(item),
            "topic": clean(topic, 300),
        },
        source=Source(agent=agent, channel="arxiv" if paper else "feed"),
        importance=IMPORTANCE,
    )
