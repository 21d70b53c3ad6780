"""Writes on their way from the stream into the store, in batches, and the answers to them."""

import asyncio
from collections import OrderedDict

from services.memory.daemon import MemoryDaemon
from shared import subjects
from shared.bus import Bus, Delivery
from shared.bus.claim import letter_of_death
from shared.bus.entry import seal
from shared.contracts import MemoryWrite, MemoryWritten, decode
from shared.errors import ActionError, Reject

REMEMBERED_ANSWERS = 10_000
"""Answers kept for whoever asks after a write; older ones are looked up in the store."""
MAX_BATCH = 1_000
"""The most writes of one commit to the store."""
ANSWER_WAIT = 25.0
"""Seconds an asker waits here for a write that is still on its way."""


class Intake:
    """Gathers what arrives while one batch is stored into the next, so that one sync serves many."""

    def __init__(self, daemon: MemoryDaemon, bus: Bus) -> None:
        self._daemon = daemon
        self._bus = bus
        self._waiting: list[tuple[MemoryWrite, asyncio.Future[MemoryWritten]]] = []
        self._arrived = asyncio.Event()
        self._answers: OrderedDict[str, MemoryWritten] = OrderedDict()
        self._asked: dict[str, set[asyncio.Future[MemoryWritten]]] = {}

    async def run(self) -> None:
        """Store batch after batch until cancelled."""
        while True:
            await self._arrived.wait()
            batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
            if not self._waiting:
                self._arrived.clear()
            await self._store(batch)

    async def take(self, delivery: Delivery) -> None:
        """Handle one write from the stream; returns once it is on disk or refused for good."""
        try:
            write = decode(delivery.data)
        except ValueError as error:
            raise Reject(str(error)) from None
        if not isinstance(write, MemoryWrite):
            raise Reject(f"memory stores memory_write.v1, not {type(write).__struct_config__.tag}")
        sender = subjects.sender_of(delivery.subject)
        if write.sender not in ("", sender):
            raise Reject(f"it says it is from {write.sender!r}, but {sender!r} sent it")
        future: asyncio.Future[MemoryWritten] = asyncio.get_running_loop().create_future()
        self._waiting.append((write, future))
        self._arrived.set()
        self._remember(write.id, await future)

    async def bury(self, delivery: Delivery, reason: str) -> None:
        """Write the dead letter of a write that cannot be read."""
        await self._bus.commit(
            [seal(subjects.dead(self._bus.name), letter_of_death(self._bus, delivery, reason))]
        )

    async def answer(self, write_id: str) -> MemoryWritten:
        """What became of a write, once that is known; raises ActionError where it takes too long."""
        known = self._answers.get(write_id) or await self._daemon.written(write_id)
        if known is not None:
            return known
        future: asyncio.Future[MemoryWritten] = asyncio.get_running_loop().create_future()
        self._asked.setdefault(write_id, set()).add(future)
        try:
            if write_id in self._answers:  # meanwhile, while the store was asked
                return self._answers[write_id]
            return await asyncio.wait_for(future, ANSWER_WAIT)
        except TimeoutError:
            raise ActionError(
                "The write is still in line", "Ask again, or see 'mailroom memory health'"
            ) from None
        finally:
            self._stop_asking(write_id, future)

    def _stop_asking(self, write_id: str, future: asyncio.Future[MemoryWritten]) -> None:
        asking = self._asked.get(write_id, set())
        asking.discard(future)
        if not asking:
            self._asked.pop(write_id, None)

    async def _store(self, batch: list[tuple[MemoryWrite, asyncio.Future[MemoryWritten]]]) -> None:
        try:
            written = await self._daemon.write([write for write, _ in batch])
        except Exception as error:
            for _, future in batch:
                future.set_exception(error)
            return
        if written.event is not None:
            await self._bus.commit([seal(subjects.GRAPH_VERSION, written.event)])
        for (_, future), answer in zip(batch, written.answers, strict=True):
            if not future.done():
                future.set_result(answer)

    def _remember(self, write_id: str, answer: MemoryWritten) -> None:
        self._answers[write_id] = answer
        while len(self._answers) > REMEMBERED_ANSWERS:
            self._answers.popitem(last=False)
        for future in self._asked.pop(write_id, ()):
            if not future.done():
                future.set_result(answer)
