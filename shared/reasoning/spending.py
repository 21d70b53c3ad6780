"""What an agent uses of models: the record of its day, its budgets, and what requests set aside of them."""

import asyncio
import contextlib
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
from shared.contracts import DailySpending, GoalBudget, Instructions, generate_id, generate_iso_timestamp
from shared.contracts.base import amended
from shared.errors import BudgetSpent, BusUnavailable, Conflict
from shared.llm.protocol import Message, Price, Tool, Usage, estimate_tokens
from shared.reasoning.entries import Amount, SharedBudget
from shared.tasks.context import TaskContext, current_task
from shared.tasks.submission import OVER_BUDGET, format_budget

NEAR = 64  # Requests that may be open at once: with room for as many, the day's budget need not be shared
PATIENCE = 180.0  # Seconds that a request waits for others whose parts may use a budget up
GOAL, DAY, PERSON = "goal-", "day-", "person-"  # How the names of budgets begin
KEPT = 100  # Budgets that a process remembers its share of


class DailyUsage:
    """An agent's model usage of the current day (UTC), all its processes together, as a record of its own."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self._known = (DailySpending(day="never"), 0)
        self._deferred: list[Usage] = []
        self._tried: dict[str, int] = {}  # Records that may be stored, and how many of the deferred they have
        self._lock = asyncio.Lock()

    async def today(self) -> DailySpending:
        """The usage of today so far; while the server is away, as far as this process knows it."""
        day = _today()
        try:
            known = (await self._read(day))[0]
        except BusUnavailable:
            known = self._known[0] if self._known[0].day == day else DailySpending(day=day)
        return _plus(known, self._deferred)

    async def add(self, usage: Usage, *, at_once: bool = False) -> None:
        """Add ``usage`` to the record, on top of what other processes have added meanwhile.

        Within ``deferring`` it is stored later, unless ``at_once``; ``today`` has it now.
        """
        if usage == Usage():
            return
        self._deferred.append(usage)
        if not _is_deferring.get():
            await self._flush()
        elif at_once:
            with contextlib.suppress(BusUnavailable):  # it is stored with the next one
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
                await self._store(self.bus.commit)

    async def _store(self, commit: Callable[[Sequence[Entry]], Awaitable[Sequence[int]]]) -> bool:
        """Have what was deferred stored; False if another process has added usage meanwhile."""
        if self._known[0].day != _today():
            self._known = await self._read(_today())
        taken, (spent, after) = len(self._deferred), self._known
        added = amended(
            _plus(spent, self._deferred),
            id=generate_id(),
            created_at=generate_iso_timestamp(),
            sender=self.bus.name,
        )
        self._tried[added.id] = taken
        try:
            *_, seq = await commit([seal(self._subject(spent.day), added, expect=after)])
        except Conflict:
            del self._tried[added.id]
            self._known = await self._read(added.day)
            return False
        self._settle(added)
        self._known = added, seq
        return True

    def _settle(self, record: DailySpending) -> None:
        """Drop what ``record`` has of the deferred: the server may not have told that it stored it."""
        del self._deferred[: self._tried.get(record.id, 0)]
        if record.id in self._tried:
            self._tried.clear()

    async def _read(self, day: str) -> tuple[DailySpending, int]:
        record = await read_record(self.bus, self._subject(day), DailySpending)
        if record is None:
            return DailySpending(day=day), 0
        self._settle(record.value)
        return record.value, record.seq

    def _subject(self, day: str) -> str:
        return subjects.record(self.bus.name, "spending", day)


_is_deferring: ContextVar[bool] = ContextVar("is_deferring", default=False)


def _plus(spent: DailySpending, usages: Sequence[Usage]) -> DailySpending:
    used = functools.reduce(Usage.plus, usages, Usage())
    return msgspec.structs.replace(
        spent,
        input_tokens=spent.input_tokens + used.input_tokens,
        output_tokens=spent.output_tokens + used.output_tokens,
        cost=spent.cost + used.cost,
        calls=spent.calls + used.calls,
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

    def has_room(self, day: DailySpending, held: Amount) -> bool:
        """Whether something is left of the day beside what is ``held``; raises BudgetSpent as ``check``."""
        self.check(Usage(), day)
        used = Amount(tokens=day.input_tokens + day.output_tokens, cost=day.cost)
        return _is_left(used, held, self.day_tokens, self.day_cost)

    def is_near(self, day: DailySpending, expected: Amount) -> bool:
        """Whether so little is left of the day that requests at once could pass its end together."""
        used = day.input_tokens + day.output_tokens
        return bool(
            (self.day_tokens and self.day_tokens - used <= NEAR * expected.tokens)
            or (self.day_cost and self.day_cost - day.cost <= NEAR * expected.cost)
        )


def _is_left(used: Amount, held: Amount, tokens: int, cost: float) -> bool:
    """Whether a request may begin: nothing is ``held``, or something is left beside it."""
    return not (
        (tokens and held.tokens and used.tokens + held.tokens >= tokens)
        or (cost and held.cost and used.cost + held.cost >= cost)
    )


charged_to: ContextVar[GoalBudget | None] = ContextVar("charged_to", default=None)
"""The budget of the goal or the person for whom requests are made that are of no task with a budget."""


def _has_room(most: Amount, used: Amount, held: Amount, who: str, may: str, cure: str) -> bool:
    """Whether something is left of ``most`` beside what is ``held``; raises BudgetSpent if it is all used."""
    sums = (
        (most.tokens, used.tokens, f"{used.tokens:,} tokens of the {most.tokens:,}"),
        (most.cost, used.cost, f"${used.cost:.2f} of the ${most.cost:.2f}"),
    )
    for limit, amount, said in sums:
        if limit and amount >= limit:
            raise BudgetSpent(f"{who} has used {said} {may}", cure)
    return _is_left(used, held, most.tokens, most.cost)


async def goal_has_room(budget: GoalBudget, used: Amount, held: Amount) -> bool:
    """Whether something is left of the goal's budget beside what is ``held``.

    Raises BudgetSpent, which names the cure, if nothing is left of it.
    """
    cure = (
        f"Go on with more: mailroom resume {budget.goal_id} --budget {format_budget(budget, 2)}; "
        "MAILROOM_GOAL_TOKENS and MAILROOM_GOAL_COST are what goals have otherwise"
    )
    most = Amount(tokens=budget.tokens, cost=budget.cost)
    return _has_room(most, used, held, "The goal", "it may use", cure)


def name_day_of(person: str) -> str:
    """The name of the budget that the goals of a person share today (UTC)."""
    return f"{PERSON}{person}-{_today()}"


async def person_has_room(budget: GoalBudget, used: Amount, held: Amount) -> bool:
    """Whether something is left of the day's budget of the person whose goal it is, beside what is ``held``.

    Raises BudgetSpent if nothing is left of it.
    """
    most = Amount(tokens=budget.day_tokens, cost=budget.day_cost)
    cure = "Try again tomorrow, or have an admin raise it: mailroom limits set"
    return _has_room(most, used, held, budget.person, "that a person may use today (UTC)", cure)


async def read_used(bus: Bus, budget: GoalBudget) -> Amount:
    """What a goal has used of its budget, by the processes that asked models for it; raises BusError."""
    return await SharedBudget(bus, f"{GOAL}{budget.goal_id}").read_used()


class Spending:
    """What an agent may use of models, and used: a request has its part set aside before it is sent.

    So requests at once do not pass a limit together: one that comes to it waits for those that are open. The
    parts of a task are kept by its process; those of a goal, and of the day once it comes near its end, are
    shared by all processes.
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
        self._shared: dict[str, SharedBudget] = {}

    @asynccontextmanager
    async def reserving(
        self, messages: Sequence[Message], tools: Sequence[Tool], max_tokens: int
    ) -> AsyncIterator[Callable[[Usage], None]]:
        """A block for one request, which gets what to tell its usage to; raises BudgetSpent before it."""
        expected = self._expect(messages, tools, max_tokens)
        task = current_task.get()
        name = task.task.task_id if task else ""
        until = time.monotonic() + PATIENCE
        while (taken := await self._take(task, name, expected)) is None:
            if time.monotonic() > until:
                raise BudgetSpent(
                    f"What is left of the budget is set aside for requests that were open for {PATIENCE:g} s",
                    "Try again once they are answered, or raise the budget",
                )
            await asyncio.sleep(self._pause)
        told: list[Usage] = []
        renewing = [asyncio.ensure_future(each.renew()) for each in taken]
        try:
            yield told.append
        finally:
            for each in renewing:
                each.cancel()
            self._close(name, expected)
            used = functools.reduce(Usage.plus, told, Usage())
            if task is not None and told:
                task.count_usage(used)
            try:
                await self._usage.add(used, at_once=any(each.scope.startswith(DAY) for each in taken))
            finally:
                amount = Amount(tokens=used.tokens, cost=used.cost)
                await asyncio.shield(asyncio.gather(*(each.close(expected, amount) for each in taken)))

    async def _take(self, task: TaskContext | None, name: str, expected: Amount) -> list[SharedBudget] | None:
        """The shared budgets of which a part was set aside; None if it is to be tried again."""
        day = await self._usage.today()
        used = task.usage if task else Usage()
        self._budget.check(used, day)
        others = self._open.get(name, 0) if task else 0
        if self._budget.task_tokens and others and used.tokens + others >= self._budget.task_tokens:
            return None
        self._open[name] = self._open.get(name, 0) + expected.tokens
        taken: list[SharedBudget] = []
        granted = False
        try:
            budget = (task.task.budget if task else None) or charged_to.get()
            if budget and not await self._take_of(budget, task, expected, taken):
                return None
            if self._budget.is_near(day, expected):
                shared = self._find_shared(f"{DAY}{day.day}", self._usage.bus.name)
                if not await shared.take(expected, self._day_has_room):
                    return None
                taken.append(shared)
            granted = True
            return taken
        finally:
            if not granted:
                self._close(name, expected)
                for each in taken:
                    await each.close(expected, Amount())

    async def _take_of(
        self, budget: GoalBudget, task: TaskContext | None, expected: Amount, taken: list[SharedBudget]
    ) -> bool:
        """Set parts of the goal's and the person's budgets aside, which ``taken`` gets; whether both were."""
        if budget.goal_id:
            shared = self._find_shared(f"{GOAL}{budget.goal_id}")
            budget = await self._read_present(budget)
            try:
                if not await shared.take(expected, functools.partial(goal_has_room, budget)):
                    return False
            except BudgetSpent:
                if task is not None:
                    task.facts[OVER_BUDGET] = budget.goal_id
                raise
            taken.append(shared)
        if budget.person:
            shared = self._find_shared(name_day_of(budget.person))
            if not await shared.take(expected, functools.partial(person_has_room, budget)):
                return False
            taken.append(shared)
        return True

    async def _read_present(self, budget: GoalBudget) -> GoalBudget:
        """``budget``, or what a person has set in its place since the task was issued."""
        subject = subjects.record(subjects.CONDUCTOR, subjects.INSTRUCTIONS, budget.goal_id)
        record = await read_record(self._usage.bus, subject, Instructions)
        return (record and record.value.budget) or budget

    async def _day_has_room(self, _: Amount, held: Amount) -> bool:
        """By the record, read after what is ``held``: a request is in one of them, perhaps in both."""
        return self._budget.has_room(await self._usage.today(), held)

    def _find_shared(self, scope: str, agent: str = "*") -> SharedBudget:
        if scope not in self._shared:
            if len(self._shared) >= KEPT:
                self._shared = {key: each for key, each in self._shared.items() if not each.is_idle}
            self._shared[scope] = SharedBudget(self._usage.bus, scope, agent)
        return self._shared[scope]

    def _close(self, name: str, expected: Amount) -> None:
        self._open[name] -= expected.tokens
        if not self._open[name]:
            del self._open[name]

    def _expect(self, messages: Sequence[Message], tools: Sequence[Tool], max_tokens: int) -> Amount:
        read, written = estimate_tokens(messages, tools), max_tokens or self._answer
        cost = max((read * each.input + written * each.output for each in self._prices), default=0.0)
        return Amount(tokens=read + written, cost=cost / 1e6)
