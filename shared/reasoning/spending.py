"""What an agent uses of models: the record of its day, its budgets, and what requests set aside of them."""

import asyncio
import functools
import time
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
from shared.llm.protocol import Message, Price, Tool, Usage, estimate_tokens
from shared.tasks.context import TaskContext, current_task

NEAR = 64  # Requests that may be open at once: with room for as many, nothing has to be set aside in a record
PATIENCE = 180.0  # Seconds that a request waits for others whose parts may use a budget up


class DailyUsage:
    """An agent's model usage of the current day (UTC), all its processes together, as a record of its own."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known = (DailySpending(day="never"), 0)
        self._deferred: list[Change] = []
        self._lock = asyncio.Lock()

    async def today(self) -> DailySpending:
        """The usage of today so far; while the server is away, as far as this process knows it."""
        day = _today()
        try:
            known = (await self._read(day))[0]
        except BusUnavailable:
            known = self._known[0] if self._known[0].day == day else DailySpending(day=day)
        return _plus(known, self._deferred)

    async def reserve(self, expected: Usage, budget: "Budget") -> bool:
        """Set ``expected`` aside for a request, so that no other process gives it out too.

        False if what is set aside for other requests may use the day's budget up. Raises BudgetSpent if
        nothing is left of it, and BusUnavailable.
        """
        async with self._lock:
            while True:
                self._known = await self._read(_today())
                spent = _plus(self._known[0], self._deferred)
                if not budget.has_room(spent):
                    return False
                self._deferred.append(Change(reserved=expected))
                if await self._store(self._bus.commit):
                    return True
                self._deferred.pop()

    async def add(self, usage: Usage, *, reserved: Usage | None = None) -> None:
        """Add ``usage`` to the record, on top of what other processes have added meanwhile.

        ``reserved`` is no longer set aside. Within ``deferring`` it is stored later; ``today`` has it now.
        """
        if usage == Usage() and reserved is None:
            return
        self._deferred.append(Change(usage=usage, returned=reserved or Usage()))
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
            if not await self._store(commit):
                await commit(())

    async def _flush(self) -> None:
        async with self._lock:
            while self._deferred:
                await self._store(self._bus.commit)

    async def _store(self, commit: Callable[[Sequence[Entry]], Awaitable[Sequence[int]]]) -> bool:
        """Have what was deferred stored; False if another process has added usage meanwhile."""
        if self._known[0].day != _today():
            self._known = await self._read(_today())
        taken, (spent, after) = len(self._deferred), self._known
        added = amended(
            _plus(spent, self._deferred),
            id=generate_id(),
            created_at=generate_iso_timestamp(),
            sender=self._bus.name,
        )
        try:
            *_, seq = await commit([seal(self._subject(spent.day), added, expect=after)])
        except Conflict:
            self._known = await self._read(added.day)
            return False
        self._known = added, seq
        del self._deferred[:taken]
        return True

    async def _read(self, day: str) -> tuple[DailySpending, int]:
        record = await read_record(self._bus, self._subject(day), DailySpending)
        return (record.value, record.seq) if record else (DailySpending(day=day), 0)

    def _subject(self, day: str) -> str:
        return subjects.record(self._bus.name, "spending", day)


_is_deferring: ContextVar[bool] = ContextVar("is_deferring", default=False)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What changes a day's record: what was used, set aside for a request, and no longer set aside."""

    usage: Usage = Usage()
    reserved: Usage = Usage()
    returned: Usage = Usage()


def _plus(spent: DailySpending, changes: Sequence[Change]) -> DailySpending:
    used = functools.reduce(Usage.plus, (each.usage for each in changes), Usage())
    more = sum(each.reserved.tokens - each.returned.tokens for each in changes)
    dearer = sum(each.reserved.cost - each.returned.cost for each in changes)
    return msgspec.structs.replace(
        spent,
        input_tokens=spent.input_tokens + used.input_tokens,
        output_tokens=spent.output_tokens + used.output_tokens,
        cost=spent.cost + used.cost,
        calls=spent.calls + used.calls,
        reserved_tokens=max(0, spent.reserved_tokens + more),
        reserved_cost=max(0.0, spent.reserved_cost + dearer),
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
                f"The task has used {task.tokens:,} tokens of the {self.task_tokens:,} it may use",
                "Ask for less at once, or raise MAILROOM_TASK_TOKENS",
            )
        today = day.input_tokens + day.output_tokens
        if self.day_tokens and today >= self.day_tokens:
            raise BudgetSpent(
                f"The agent has used {today:,} tokens on {day.day} of the {self.day_tokens:,} of a day",
                "Try again tomorrow (UTC), or raise MAILROOM_DAY_TOKENS",
            )
        if self.day_cost and day.cost >= self.day_cost:
            raise BudgetSpent(
                f"The agent has spent ${day.cost:.2f} on {day.day} of the ${self.day_cost:.2f} of a day",
                "Try again tomorrow (UTC), or raise MAILROOM_DAY_COST",
            )

    def has_room(self, day: DailySpending) -> bool:
        """Whether something is left of the day beside what is set aside; raises BudgetSpent as ``check``."""
        self.check(Usage(), day)
        tokens = day.input_tokens + day.output_tokens + day.reserved_tokens
        return not (
            (self.day_tokens and day.reserved_tokens and tokens >= self.day_tokens)
            or (self.day_cost and day.reserved_cost and day.cost + day.reserved_cost >= self.day_cost)
        )

    def is_near(self, day: DailySpending, expected: Usage) -> bool:
        """Whether so little is left of the day that requests at once could pass its end together."""
        used = day.input_tokens + day.output_tokens
        return bool(
            (self.day_tokens and self.day_tokens - used <= NEAR * expected.tokens)
            or (self.day_cost and self.day_cost - day.cost <= NEAR * expected.cost)
        )


class Spending:
    """What an agent may use of models, and used: a request has its part set aside before it is sent.

    So requests at once do not pass a limit together: one that comes to it waits for those that are open. The
    parts of a task are kept by its process. Those of the day are in its record once it comes near its end.
    """

    def __init__(
        self, budget: Budget, usage: DailyUsage, prices: Sequence[Price], *, answer: int, pause: float = 0.5
    ) -> None:
        """``answer``: the tokens of an answer at most; the dearest of ``prices`` counts."""
        self._budget = budget
        self._usage = usage
        self._prices = prices
        self._answer = answer
        self._pause = pause
        self._open: dict[str, int] = {}

    @asynccontextmanager
    async def reserving(
        self, messages: Sequence[Message], tools: Sequence[Tool], max_tokens: int
    ) -> AsyncIterator[Callable[[Usage], None]]:
        """A block for one request, which gets what to tell its usage to; raises BudgetSpent before it."""
        expected = self._expect(messages, tools, max_tokens)
        task = current_task.get()
        name = task.task.task_id if task else ""
        until = time.monotonic() + PATIENCE
        while (recorded := await self._take(task, name, expected)) is None:
            if time.monotonic() > until:
                raise BudgetSpent(
                    f"What is left of the budget is set aside for requests that were open for {PATIENCE:g} s",
                    "Try again once they are answered, or raise the budget",
                )
            await asyncio.sleep(self._pause)
        told: list[Usage] = []
        try:
            yield told.append
        finally:
            self._close(name, expected)
            used = functools.reduce(Usage.plus, told, Usage())
            if task is not None and told:
                task.count_usage(used)
            await self._usage.add(used, reserved=expected if recorded else None)

    async def _take(self, task: TaskContext | None, name: str, expected: Usage) -> bool | None:
        """Set a part aside; whether the day's record has it too. None if it is to be tried again."""
        day = await self._usage.today()
        used = task.usage if task else Usage()
        self._budget.check(used, day)
        others = self._open.get(name, 0) if task else 0
        if self._budget.task_tokens and others and used.tokens + others >= self._budget.task_tokens:
            return None
        self._open[name] = self._open.get(name, 0) + expected.tokens
        if not self._budget.is_near(day, expected):
            return False
        recorded: bool | None = None
        try:
            recorded = await self._usage.reserve(expected, self._budget) or None
        except BusUnavailable:
            recorded = False
        finally:
            if recorded is None:
                self._close(name, expected)
        return recorded

    def _close(self, name: str, expected: Usage) -> None:
        self._open[name] -= expected.tokens
        if not self._open[name]:
            del self._open[name]

    def _expect(self, messages: Sequence[Message], tools: Sequence[Tool], max_tokens: int) -> Usage:
        read, written = estimate_tokens(messages, tools), max_tokens or self._answer
        cost = max((read * each.input + written * each.output for each in self._prices), default=0.0)
        return Usage(input_tokens=read, output_tokens=written, cost=cost / 1e6)
