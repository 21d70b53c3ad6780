"""Memory for scripts: plain functions that each use a connection of their own."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from shared import settings
from shared.bus import Bus
from shared.bus.connecting import find_url
from shared.contracts import Hit, Node, Source
from shared.memory.client import Memory
from shared.text.prose import split_title

CONNECT_WAIT = 5.0  # Seconds a script waits for a server that may be just starting

T = TypeVar("T")


def get_memory_health() -> dict[str, Any]:
    """Whether memory can read and write (``status`` is "ok" then), its version, and what is wrong if not.

    Like all functions here it works under the name in MAILROOM_IDENTITY (``user`` without it), and raises
    StartError, BusUnavailable or Denied, with the cure, if the office cannot be reached.
    """
    return _ask(lambda memory: memory.health())


def add_memory_entry(
    text: str,
    type: str = "fact",  # noqa: A002  # what an entry calls it
    metadata: Mapping[str, Any] | None = None,
    *,
    tags: Sequence[str] = (),
    importance: float = 0.5,
    session: str = "",
    insist: bool = False,
) -> str:
    """Remember ``text``; returns the id of its node once it is on disk.

    The first sentence becomes the title, the whole of a longer text the body; ``type`` is the node's kind.
    Raises ValueError for an invalid node, WriteRefused (with ``rejection``) if memory refuses it, unless
    ``insist``.
    """
    title, body = split_title(text)
    node = Node(
        kind=type,
        title=title,
        body=body,
        tags=tuple(tags),
        metadata=dict(metadata or {}),
        source=Source(session=session, channel="script"),
        importance=importance,
    )
    _ask(lambda memory: memory.add(node, insist=insist))
    return node.id


def search_memory(query: str, limit: int = 10, **filters: Any) -> list[dict[str, Any]]:
    """The entries nearest to ``query``, best first.

    Each has id, text, type, metadata, score (0 to 1), agent, tags and created_at. ``filters`` are those of
    Memory.search: kinds, tags, agent, session, since, until, anchors, at, deep.
    """
    return _ask(lambda memory: _search(memory, query, limit, filters))


async def _search(memory: Memory, query: str, limit: int, filters: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_as_entry(hit) for hit in await memory.search(query, limit=limit, **filters)]


def _as_entry(hit: Hit) -> dict[str, Any]:
    node = hit.node
    title = node.title.removesuffix("…")
    return {
        "id": node.id,
        "text": node.body if node.body.startswith(title) else f"{node.title}\n{node.body}".strip(),
        "type": node.kind,
        "metadata": node.metadata,
        "score": hit.score,
        "agent": node.source.agent,
        "tags": list(node.tags),
        "created_at": node.created_at,
    }


def _ask(work: Callable[[Memory], Awaitable[T]]) -> T:
    """Run ``work`` with a new connection; in a thread if an event loop is running here already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_connected(work))
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_connected(work))).result()


async def _connected(work: Callable[[Memory], Awaitable[T]]) -> T:
    config = settings.load()
    name = config.identity
    bus = await Bus.connect(name, find_url(config), config.keys / f"{name}.nk", wait=CONNECT_WAIT)
    try:
        return await work(Memory(bus))
    finally:
        await bus.close()
