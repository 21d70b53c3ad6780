"""The real memory on disk, without the bus in front of it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import msgspec

from services.memory.daemon import MemoryDaemon
from services.memory.model import fetch
from services.memory.writes.change import Entry
from shared.contracts import EdgesQuery, ListQuery, MemoryWrite, MemoryWritten, Node
from shared.settings import Settings, load


class DirectMemory:
    """Writes that come at the same time are one batch, numbered in order; ``writes`` are those there were."""

    def __init__(self, daemon: MemoryDaemon) -> None:
        self.daemon = daemon
        self.writes: list[MemoryWrite] = []
        self._line: list[tuple[MemoryWrite, asyncio.Future[MemoryWritten]]] = []
        self._turn = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings) -> AsyncIterator[Self]:
        """The memory in the state directory of ``settings``, with the embedding model of this machine."""
        models = fetch(load().models, lambda line: None)
        daemon = await MemoryDaemon.open(msgspec.structs.replace(settings, model_dir=models))
        try:
            yield cls(daemon)
        finally:
            await daemon.close()

    async def write(self, write: MemoryWrite) -> MemoryWritten:
        self.writes.append(write)
        future: asyncio.Future[MemoryWritten] = asyncio.get_running_loop().create_future()
        self._line.append((write, future))
        async with self._turn:
            if self._line:
                batch, self._line = self._line, []
                first = self.daemon.version + 1
                entries = [
                    Entry(version=first + place, stored_at=time.time(), write=each)
                    for place, (each, _) in enumerate(batch)
                ]
                written = await self.daemon.write(entries)
                for (_, waiting), answer in zip(batch, written.answers, strict=True):
                    waiting.set_result(answer)
        return await future

    async def nodes(self, **filters: object) -> dict[str, Node]:
        """Nodes by title."""
        page = await self.daemon.list_nodes(ListQuery(limit=1_000, **filters))  # type: ignore[arg-type]
        return {node.title: node for node in page.nodes}

    async def links(self) -> set[tuple[str, str, str]]:
        """Titles of the ends of each edge, and its rule."""
        titles = {node.id: title for title, node in (await self.nodes()).items()}
        page = await self.daemon.list_edges(EdgesQuery())
        return {(titles[edge.from_id], titles[edge.to_id], edge.provenance["rule"]) for edge in page.edges}

    async def linked(self, *links: tuple[str, str, str]) -> None:
        """Wait until ``links`` are there."""
        async with asyncio.timeout(15):
            while not set(links) <= await self.links():
                await asyncio.sleep(0.05)
