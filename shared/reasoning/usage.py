"""The tokens and cost of an agent's model calls today, all its processes together."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

import msgspec

from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.contracts import DailySpending, generate_id, generate_iso_timestamp
from shared.contracts.base import amended
from shared.errors import BudgetSpent, BusUnavailable, Conflict
from shared.llm.protocol import Usage


class DailyUsage:
    """An agent's model usage of the current day (UTC), all its processes together, as a record of its own."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known = (DailySpending(day="never"), 0)
        self._deferred: list[Usage] = []
        self._lock = asyncio.Lock()

    async def today(self) -> DailySpending:
        """The usage of today so far; while the server is away, as far as this process knows it."""
        day = _today()
        try:
            known = (await self._read(day))[0]
        except BusUnavailable:
            known = self._known[0] if self._known[0].day == day else DailySpending(day=day)
        return _plus(known, self._deferred)

    async def add(self, usage: Usage) -> None:
        """Add ``usage`` to the record, on top of what other processes have added meanwhile.

        Within ``deferring`` it is stored later; ``today`` has it at once.
        """
        if usage == Usage():
            return
        self._deferred.append(usage)
        if not _is_deferring.get():
            await self._flush()

    @asynccontextmanager
    async def deferring(self) -> AsyncIterator[None]:
        """A block in which usage is added by ``store_with``; what is left is stored at its end."""
        token = _is_deferring.set(True)
        try:
            yield
        finally:
            _is_deferring.reset(token)
            await self._flush()

    async def store_with(self, commit: Callable[[Sequence[Entry]], Awaitable[Sequence[int]]]) -> None:
        """Have ``commit`` store its own entries, and with them what was deferred.

        It gets the entry to add, or none, and returns the sequences, that of the entry last. If another
        process has added usage meanwhile, it is called again without: what was deferred then waits.
        """
        if self._lock.locked() or not self._deferred:
            await commit(())
            return
        async with self._lock:
            await self._require_today()
            taken = len(self._deferred)
            added, entry = self._added(*self._known, self._deferred)
            try:
                *_, seq = await commit([entry])
            except Conflict:
                self._known = await self._read(added.day)
                await commit(())
            else:
                self._known = added, seq
                del self._deferred[:taken]

    async def _flush(self) -> None:
        async with self._lock:
            while self._deferred:
                await self._require_today()
                taken = len(self._deferred)
                added, entry = self._added(*self._known, self._deferred)
                try:
                    (seq,) = await self._bus.commit([entry])
                except Conflict:  # another process has added meanwhile
                    self._known = await self._read(added.day)
                else:
                    self._known = added, seq
                    del self._deferred[:taken]

    async def _require_today(self) -> None:
        if self._known[0].day != _today():
            self._known = await self._read(_today())

    def _added(self, spent: DailySpending, seq: int, usages: Sequence[Usage]) -> tuple[DailySpending, Entry]:
        added = amended(
            _plus(spent, usages),
            id=generate_id(),
            created_at=generate_iso_timestamp(),
            sender=self._bus.name,
        )
        return added, seal(self._subject(spent.day), added, expect=seq)

    async def _read(self, day: str) -> tuple[DailySpending, int]:
        record = await read_record(self._bus, self._subject(day), DailySpending)
        return (record.value, record.seq) if record else (DailySpending(day=day), 0)

    def _subject(self, day: str) -> str:
        return subjects.record(self._bus.name, "spending", day)


_is_deferring: ContextVar[bool] = ContextVar("is_deferring", default=False)


def _plus(spent: DailySpending, usages: Sequence[Usage]) -> DailySpending:
    return msgspec.structs.replace(
        spent,
        input_tokens=spent.input_tokens + sum(usage.input_tokens for usage in usages),
        output_tokens=spent.output_tokens + sum(usage.output_tokens for usage in usages),
        cost=spent.cost + sum(usage.cost for usage in usages),
        calls=spent.calls + sum(usage.calls for usage in usages),
    )


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
