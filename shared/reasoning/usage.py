"""The tokens and cost of an agent's model calls today, all its processes together."""

import asyncio
from datetime import UTC, datetime

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.contracts import DailySpending, generate_id, generate_iso_timestamp
from shared.errors import BudgetSpent, BusUnavailable, Conflict
from shared.llm.protocol import Usage


class DailyUsage:
    """An agent's model usage of the current day (UTC), all its processes together, as a record of its own."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known = (DailySpending(day="never"), 0)
        self._lock = asyncio.Lock()

    async def today(self) -> DailySpending:
        """The usage of today so far; while the server is away, as far as this process knows it."""
        day = _today()
        try:
            return (await self._read(day))[0]
        except BusUnavailable:
            return self._known[0] if self._known[0].day == day else DailySpending(day=day)

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

    async def _write(self, spent: DailySpending, seq: int, usage: Usage) -> tuple[DailySpending, int]:
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

    async def _read(self, day: str) -> tuple[DailySpending, int]:
        record = await read_record(self._bus, self._subject(day), DailySpending)
        return (record.value, record.seq) if record else (DailySpending(day=day), 0)

    def _subject(self, day: str) -> str:
        return subjects.record(self._bus.name, "spending", day)


def _today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of an agent; 0 is no limit. Cost is in US dollars, a day is one of UTC."""

    task_tokens: int = 0
    day_tokens: int = 0
    day_cost: float = 0.0

    def check(self, task: Usage, day: DailySpending) -> None:
        """Raise BudgetSpent, which names the budget and the cure, if nothing is left.

        Call it before each model call: the call that crosses a limit is the last one.
        """
        if self.task_tokens and task.tokens >= self.task_tokens:
            raise BudgetSpent(
                f"The task has used {_tokens(task.tokens)} of the {self.task_tokens:,} it may use",
                "Ask for less at once, or raise MAILROOM_TASK_TOKENS",
            )
        today = day.input_tokens + day.output_tokens
        if self.day_tokens and today >= self.day_tokens:
            raise BudgetSpent(
                f"The agent has used {_tokens(today)} on {day.day} of the {self.day_tokens:,} of a day",
                "Try again tomorrow (UTC), or raise MAILROOM_DAY_TOKENS",
            )
        if self.day_cost and day.cost >= self.day_cost:
            raise BudgetSpent(
                f"The agent has spent ${day.cost:.2f} on {day.day} of the ${self.day_cost:.2f} of a day",
                "Try again tomorrow (UTC), or raise MAILROOM_DAY_COST",
            )


def _tokens(count: int) -> str:
    return f"{count:,} tokens"
