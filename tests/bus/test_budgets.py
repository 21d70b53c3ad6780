"""Requests at once do not pass a budget together: of a task, and of a day over several processes."""

import asyncio

import pytest

from shared.bus import Bus
from shared.errors import BudgetSpent
from shared.llm import Message
from shared.llm.protocol import Price, Usage
from shared.reasoning.spending import Budget, DailyUsage, Spending
from shared.tasks.context import current_task
from tests.support.server import Server

ASK = [Message(role="user", text="x" * 400)]  # 100 tokens, and at most 100 of an answer
USED = Usage(input_tokens=100, output_tokens=60, cost=0.0016, calls=1)


def spending(bus: Bus, **limits: float) -> Spending:
    budget = Budget(**limits)  # type: ignore[arg-type]
    return Spending(budget, DailyUsage(bus), [Price(input=10, output=10)], answer=100, pause=0.02)


async def ask(within: Spending, gate: asyncio.Event | None = None) -> bool:
    """Whether a request of 160 tokens was let through; it stays open until the ``gate`` is."""
    try:
        async with within.reserving(ASK, (), 0) as count:
            if gate:
                await gate.wait()
            await asyncio.sleep(0.05)
            count(USED)
    except BudgetSpent:
        return False
    return True


async def test_processes_of_an_agent_do_not_pass_the_limit_of_a_day_together(server: Server) -> None:
    buses = [await server.connect("engineer") for _ in range(3)]
    within = [spending(bus, day_tokens=1_000) for bus in buses]
    done = await asyncio.gather(*(ask(each) for each in within for _ in range(6)))
    # One after another they would be seven: the one that crosses the limit is the last.
    assert sum(done) <= 7
    assert sum(done) >= 5
    day = await DailyUsage(buses[0]).today()
    assert (day.calls, day.reserved_tokens) == (sum(done), 0)
    assert day.input_tokens + day.output_tokens == 160 * sum(done)


async def test_what_is_set_aside_counts_in_dollars_too_and_is_given_back(server: Server) -> None:
    first, second = [spending(await server.connect("critic"), day_cost=0.002) for _ in range(2)]
    gate = asyncio.Event()
    open_one = asyncio.create_task(ask(first, gate))
    await asyncio.sleep(0.3)
    waiting = asyncio.create_task(ask(second))
    await asyncio.sleep(0.3)
    assert not waiting.done()  # $0.002 are set aside, which is all there is
    gate.set()
    assert (await open_one, await waiting) == (True, True)  # it took less
    assert not await ask(first)


async def test_a_request_that_fails_gives_back_its_part(server: Server) -> None:
    within = spending(await server.connect("critic"), day_tokens=300)
    for _ in range(5):
        with pytest.raises(RuntimeError):
            async with within.reserving(ASK, (), 0):
                raise RuntimeError("no answer")
    assert await ask(within)


class Task:
    """What a budget asks of a task."""

    class task:
        task_id = "one"

    def __init__(self) -> None:
        self.usage = Usage()

    def count_usage(self, usage: Usage) -> None:
        self.usage = self.usage.plus(usage)


async def test_requests_of_one_task_do_not_pass_its_limit_together(server: Server) -> None:
    within, task = spending(await server.connect("engineer"), task_tokens=500), Task()
    token = current_task.set(task)  # type: ignore[arg-type]
    try:
        done = await asyncio.gather(*(ask(within) for _ in range(10)))
    finally:
        current_task.reset(token)
    assert sum(done) == 4  # the fourth crosses it, as one after another
    assert task.usage.calls == 4
