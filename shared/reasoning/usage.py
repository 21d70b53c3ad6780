"""The tokens and cost of an agent's model calls today, all its processes together."""

import asyncio
from datetime import UTC, datetime

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.contracts import Spending, generate_id, generate_iso_timestamp
from shared.errors import BusUnavailable, Conflict
from shared.llm.protocol import Usage


class DailyUsage:
    """An agent's model usage of the current day (UTC), all its processes together, as a record of its own."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known = (Spending(day="never"), 0)
        self._lock = asyncio.Lock()

    async def today(self) -> Spending:
        """The usage of today so far; while the server is away, as far as this process knows it."""
        day = _today()
        try:
            return (await self._read(day))[0]
        except BusUnavailable:
            return self._known[0] if self._known[0].day == day else Spending(day=day)

    async def add(self, usage: Usage) -> None:
        """Add ``usage`` to the record, on top of what other processes have added meanwhile."""
        if usage == Usage():
            return
        async with self._lock:
            if self._known[0].day != _today():
                self._known = await self._read(_today())
            while True:  # every lost race means that another process succeeded
                try:
                    self._known = await self._write(*self._known, usage)
                except Conflict:
                    self._known = await self._read(self._known[0].day)
                else:
                    return

    async def _write(self, spent: Spending, seq: int, usage: Usage) -> tuple[Spending, int]:
        added = msgspec.structs.replace(
            spent,
            id=generate_id(),
            created_at=generate_iso_timestamp(),
            sender=self._bus.name,
            input_tokens=spent.input_tokens + usage.input_tokens,
            output_tokens=spent.output_tokens + usage.output_tokens,
            cost=spent.cost + usage.cost,
            calls=spent.calls + usage.calls,
        )
        (seq,) = await self._bus.commit([seal(self._subject(spent.day), added, expect=seq)])
        return added, seq

    async def _read(self, day: str) -> tuple[Spending, int]:
        record = await read_record(self._bus, self._subject(day), Spending)
        return (record.value, record.seq) if record else (Spending(day=day), 0)

    def _subject(self, day: str) -> str:
        return subjects.record(self._bus.name, "spending", day)


def _today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"
