"""A text that several files have: one node, which stays as long as one of them has the text."""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from services.memory.ingest.client import MemoryClient
from shared.contracts import Node
from shared.memory.ownership import CHANNEL

ALSO = "also_in"
"""In the metadata of a node: the other files that have its text."""

SHARED = "in-several-files"
"""The tag of such nodes."""

MOST = 20
"""The most other files that are kept of a node: what stands in more of them is no news of any."""


class SharedTexts:
    """Keeps what ``file`` shares with others in step with memory, one file after another."""

    def __init__(self, client: MemoryClient, file: str) -> None:
        self._client = client
        self._file = file
        self._met: list[str] = []

    def meet(self, node: Node) -> None:
        """Note that the file has a text of which memory has a node of another file."""
        if node.source.channel == CHANNEL and not node.retired_version:
            self._met.append(node.id)

    async def keep(self) -> None:
        """Write that the file has the texts that it met, and no others."""
        async with self._client.sharing:
            found = (await self._client.find(self._met)).values()
            known = [node for node in found if not node.retired_version]
            joined = [_add(node, self._file) for node in known if self._file not in find_others(node)]
            left = [
                _remove(node, self._file)
                for node in await self._client.list(tags=(SHARED,))
                if self._file in find_others(node) and node.id not in self._met
            ]
            await self._write([node for node in joined if node is not None] + left)

    async def hand_over(self, nodes: Iterable[Node]) -> list[Node]:
        """Give what the file no longer has to the next file that has it; returns what none has."""
        kept = [node for node in nodes if find_others(node)]
        await self._write([_give(node) for node in kept])
        return [node for node in nodes if not find_others(node)]

    async def _write(self, nodes: Sequence[Node]) -> None:
        async for _ in self._client.write_ungated(nodes):
            pass


def find_others(node: Node) -> tuple[str, ...]:
    """The other files that have a node's text."""
    also = node.metadata.get(ALSO)
    return tuple(file for file in also if isinstance(file, str)) if isinstance(also, list) else ()


def _add(node: Node, file: str) -> Node | None:
    others = find_others(node)
    return None if len(others) >= MOST else _with_files(node, (*others, file))


def _remove(node: Node, file: str) -> Node:
    return _with_files(node, [other for other in find_others(node) if other != file])


def _give(node: Node) -> Node:
    first, *others = find_others(node)
    source = msgspec.structs.replace(node.source, session=first)
    given = msgspec.structs.replace(node, source=source, metadata={**node.metadata, "file": first})
    return _with_files(given, others)


def _with_files(node: Node, others: Collection[str]) -> Node:
    metadata = {name: value for name, value in node.metadata.items() if name != ALSO}
    tags = tuple(tag for tag in node.tags if tag != SHARED)
    if others:
        metadata, tags = {**metadata, ALSO: list(others)}, (*tags, SHARED)
    return msgspec.structs.replace(node, metadata=metadata, tags=tags)
