"""The real memory on disk, without the bus in front of it."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

import msgspec

from services.memory.engine import MemoryEngine
from services.memory.writes.change import LoggedWrite
from shared.contracts import EdgesQuery, ListQuery, MemoryWrite, MemoryWritten, Node
from shared.settings import Settings
from tests.support.once import find_models


class DirectMemory:
    """Writes that come at the same time are one batch, numbered in order; ``writes`` are those there were."""

    def __init__(self, engine: MemoryEngine) -> None:
        self.engine = engine
        self.writes: list[MemoryWrite] = []
        self._line: list[tuple[MemoryWrite, asyncio.Future[MemoryWritten]]] = []
        self._turn = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings) -> AsyncIterator[Self]:
        """The memory in the state directory of ``settings``, with the embedding model of this machine."""
        models = find_models()
        engine = await MemoryEngine.open(msgspec.structs.replace(settings, model_dir=models))
        try:
            yield cls(engine)
        finally:
            await engine.close()

    async def write(self, write: MemoryWrite) -> MemoryWritten:
        self.writes.append(write)
        future: asyncio.Future[MemoryWritten] = asyncio.get_running_loop().create_future()
        self._line.append((write, future))
        async with self._turn:
            if self._line:
                batch, self._line = self._line, []
                first = self.engine.version + 1
                entries = [
                    LoggedWrite(seq=first + place, stored_at=time.time(), write=each)
                    for place, (each, _) in enumerate(batch)
                ]
                written = await self.engine.write(entries)
                for (_, waiting), answer in zip(batch, written.answers, strict=True):
                    waiting.set_result(answer)
        return await future

    async def nodes(self, **filters: object) -> dict[str, Node]:
        """Nodes by title."""
        page = await self.engine.list_nodes(ListQuery(limit=1_000, **filters))  # type: ignore[arg-type]
        return {node.title: node for node in page.nodes}

    async def links(self) -> set[tuple[str, str, str]]:
        """Titles of the ends of each edge, and its rule."""
        titles = {node.id: title for title, node in (await self.nodes()).items()}
        page = await self.engine.list_edges(EdgesQuery())
        return {(titles[edge.from_id], titles[edge.to_id], edge.provenance["rule"]) for edge in page.edges}

    async def linked(self, *links: tuple[str, str, str]) -> None:
        """Wait until ``links`` are there."""
        async with asyncio.timeout(15):
            while not set(links) <= await self.links():
                await asyncio.sleep(0.05)
