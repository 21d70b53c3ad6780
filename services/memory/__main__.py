"""The memory daemon on the bus: writes from its stream in batches, questions as a micro service."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec

from services.memory.daemon import MemoryDaemon
from services.memory.intake import Intake
from shared import subjects
from shared.agent import BaseAgent
from shared.contracts import MemoryQuery
from shared.memory import EmbedQuery, NodesQuery, WrittenQuery
from shared.process import run

WRITES_AT_ONCE = 2_000
"""Writes in hand at most: what arrives while one batch is stored makes the next one."""

Query = TypeVar("Query")


class MemoryService(BaseAgent):
    """Keeps the office's memory: stores what agents remember, finds what they look for."""

    async def on_start(self) -> None:
        """Open the store and begin to take writes."""
        self._daemon = await MemoryDaemon.open(self.settings)
        self._intake = Intake(self._daemon, self.bus)
        self.spawn(self._intake.run())
        await self.bus.consume(
            subjects.MEMORY,
            self.profile.name,
            self._intake.take,
            self._intake.bury,
            concurrency=WRITES_AT_ONCE,
            ack_wait=self.settings.task_ack_wait,
            max_attempts=self.settings.max_attempts,
        )

    async def on_stop(self) -> None:
        """Close the store."""
        await self._daemon.close()

    def endpoints(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        """What memory answers, as ``memory.<verb>``."""
        daemon, intake = self._daemon, self._intake

        async def stats(_: bytes) -> bytes:
            return msgspec.json.encode(daemon.stats())

        async def health(_: bytes) -> bytes:
            return msgspec.json.encode(daemon.health())

        return {
            "written": _answering(WrittenQuery, lambda query: intake.answer(query.id)),
            "search": _answering(MemoryQuery, daemon.search),
            "get": _answering(NodesQuery, lambda query: daemon.get(query.ids)),
            "embed": _answering(EmbedQuery, lambda query: daemon.embed(query.texts)),
            "stats": stats,
            "health": health,
        }


def _answering(
    kind: type[Query], answer: Callable[[Query], Awaitable[object]]
) -> Callable[[bytes], Awaitable[bytes]]:
    async def respond(data: bytes) -> bytes:
        return msgspec.json.encode(await answer(msgspec.json.decode(data, type=kind)))

    return respond


if __name__ == "__main__":
    run(MemoryService, __file__)
