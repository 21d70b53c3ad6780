"""What an agent's thinking took today, all its processes together."""

import asyncio
from datetime import UTC, datetime

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import Spending, generate_id, generate_iso_timestamp
from shared.errors import BusUnavailable, Conflict
from shared.llm.protocol import Usage


class DailyUsage:
    """What an agent's thinking took today (UTC), all its processes together, as a record of its own."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known = (Spending(day="never"), 0)
        self._lock = asyncio.Lock()

    async def today(self) -> Spending:
        """The spending of this day until now; while the server is away, as far as this process saw it."""
        day = _today()
        try:
            return (await self._read(day))[0]
        except BusUnavailable:
            return self._known[0] if self._known[0].day == day else Spending(day=day)

    async def add(self, usage: Usage) -> None:
        """Count ``usage``, if it is any; where another process counted meanwhile, on top of that."""
        if usage == Usage():
            return
        async with self._lock:
            if self._known[0].day != _today():
                self._known = await self._read(_today())
            while True:
                spent, seq = self._known
                counted = msgspec.structs.replace(
                    spent,
                    id=generate_id(),
                    created_at=generate_iso_timestamp(),
                    sender=self._bus.name,
                    input_tokens=spent.input_tokens + usage.input_tokens,
                    output_tokens=spent.output_tokens + usage.output_tokens,
                    cost=spent.cost + usage.cost,
                    calls=spent.calls + usage.calls,
                )
                try:
                    (seq,) = await self._bus.commit([seal(self._subject(spent.day), counted, expect=seq)])
                except Conflict:
                    self._known = await self._read(spent.day)
                    continue
                self._known = (counted, seq)
                return

    async def _read(self, day: str) -> tuple[Spending, int]:
        stored = await self._bus.last(subjects.OFFICE, self._subject(day))
        return (Spending.from_json(stored.data), stored.seq) if stored else (Spending(day=day), 0)

    def _subject(self, day: str) -> str:
        return subjects.record(self._bus.name, "spending", day)


def _today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"
