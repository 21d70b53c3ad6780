"""Requests at once do not pass a budget together: of a task, and of a day over several processes."""

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.contracts import GoalBudget, Instructions
from shared.errors import BudgetSpent, BusUnavailable, Conflict, Denied
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
    assert day.calls == sum(done)
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

    def __init__(self, budget: GoalBudget | None = None) -> None:
        self.usage = Usage()
        self.facts: dict[str, object] = {}
        self.task = SimpleNamespace(task_id="one", budget=budget)

    def count_usage(self, usage: Usage) -> None:
        self.usage = self.usage.plus(usage)


@contextmanager
def working(budget: GoalBudget | None = None) -> Iterator[Task]:
    """A block in which a task of a goal with ``budget`` is worked on."""
    task = Task(budget)
    token = current_task.set(task)  # type: ignore[arg-type]
    try:
        yield task
    finally:
        current_task.reset(token)


async def test_requests_of_one_task_do_not_pass_its_limit_together(server: Server) -> None:
    within = spending(await server.connect("engineer"), task_tokens=500)
    with working() as task:
        done = await asyncio.gather(*(ask(within) for _ in range(10)))
    assert sum(done) == 4  # the fourth crosses it, as one after another
    assert task.usage.calls == 4


@pytest.mark.parametrize(
    ("budget", "most"),
    [
        (GoalBudget(goal_id="g", tokens=1_000), 7),
        (GoalBudget(goal_id="g", cost=0.008), 5),
        (GoalBudget(goal_id="g", tokens=1_000, cost=0.004), 3),
        (GoalBudget(goal_id="g", tokens=1), 1),
        (GoalBudget(goal_id="g", tokens=10**9), 15),
    ],
)
async def test_agents_do_not_pass_the_budget_of_a_goal_together(
    server: Server, budget: GoalBudget, most: int
) -> None:
    names = ("engineer", "critic", "critic")
    within = [spending(await server.connect(name)) for name in names]
    with working(budget) as task:
        done = await asyncio.gather(*(ask(each) for each in within for _ in range(5)))
        assert sum(done) == most  # the one that crosses it is the last
        if most < 15:
            with pytest.raises(BudgetSpent, match=r"The goal has used .*mailroom resume g --budget"):
                async with within[0].reserving(ASK, (), 0):
                    pass
            assert task.facts == {"over_budget": "g"}
        # Another process, as after all these have died, begins with what they used.
        fresh = spending(await server.connect("conductor"))
        assert await ask(fresh) == (most == 15)
    with working(GoalBudget(goal_id="other", tokens=200)):
        assert await ask(within[0])


async def test_what_a_process_that_is_gone_had_set_aside_is_free_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.reasoning.entries.HELD", 1.5)
    for limits, budget in (({"day_tokens": 200}, None), ({}, GoalBudget(goal_id="g", tokens=200))):
        bus = await server.connect("engineer")
        with working(budget):
            left = asyncio.create_task(ask(spending(bus, **limits), asyncio.Event()))
            await asyncio.sleep(0.3)
            await bus.close()  # nothing is heard of it any more, as after kill -9
            waiting = asyncio.create_task(ask(spending(await server.connect("engineer"), **limits)))
            await asyncio.sleep(0.5)
            assert not waiting.done()
            async with asyncio.timeout(10):
                assert await waiting
            left.cancel()
            await asyncio.wait({left})


async def test_a_part_that_was_not_stored_or_is_not_wanted_any_more_stays_nobodys(server: Server) -> None:
    """The server stops right after a conflict, or the request is cancelled: nothing is set aside for ever."""
    buses = [await server.connect("engineer") for _ in range(2)]
    first, second = (DailyUsage(bus) for bus in buses)
    await first.add(USED)
    await second.add(USED)
    real = buses[0].commit

    async def commit(entries: Sequence[Entry]) -> tuple[int, ...]:
        try:
            return await real(entries)
        except Conflict:
            await server.freeze()
            raise

    buses[0].commit = commit  # type: ignore[method-assign]
    with pytest.raises(BusUnavailable):
        await first.add(USED)  # refused, since it is the second; then it cannot be read
    buses[0].commit = real  # type: ignore[method-assign]
    server.process.send_signal(signal.SIGCONT)
    within = Spending(Budget(day_tokens=800), first, [Price(input=10, output=10)], answer=100, pause=0.02)
    open_one = asyncio.create_task(ask(within, asyncio.Event()))
    await asyncio.sleep(0.3)
    open_one.cancel()
    await asyncio.wait({open_one})
    async with asyncio.timeout(10):
        assert await ask(within)
        assert await ask(within)
    day = await DailyUsage(buses[1]).today()
    assert (day.calls, day.input_tokens) == (5, 500)


async def test_usage_that_was_stored_without_an_answer_is_counted_once(server: Server) -> None:
    usage = DailyUsage(await server.connect("critic"))
    await usage.add(USED)
    await server.freeze()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await usage.add(USED)  # it lies before the server, which stores it once it goes on
    server.process.send_signal(signal.SIGCONT)
    await asyncio.sleep(0.5)
    await usage.add(USED)
    assert (await usage.today()).calls == 4
    assert (await DailyUsage(await server.connect("critic")).today()).calls == 4


async def test_no_agent_writes_what_another_uses_of_a_budget(server: Server) -> None:
    engineer = await server.connect("engineer")
    await engineer.store(subjects.share("goal_1", "engineer", "one"), b"{}")
    for other in ("critic", "conductor", "user"):
        with pytest.raises((Denied, BusUnavailable)):
            await engineer.store(subjects.share("goal_1", other, "one"), b"{}", timeout=1)


async def test_a_budget_that_a_person_raised_holds_for_the_tasks_at_work(server: Server) -> None:
    """A task has the budget that its goal had when it was issued; the conductor records the present one."""
    within = spending(await server.connect("engineer"))
    record = subjects.record(subjects.CONDUCTOR, subjects.INSTRUCTIONS, "g")

    def raised(tokens: int, goal_id: str = "g") -> Instructions:
        budget = GoalBudget(goal_id=goal_id, tokens=tokens)
        return Instructions(sender=subjects.CONDUCTOR, goal_id=goal_id, budget=budget)

    with working(GoalBudget(goal_id="g", tokens=100)):
        assert await ask(within)
        assert not await ask(within)
        critic = await server.connect("critic")
        with pytest.raises((Denied, BusUnavailable)):  # no agent raises it for itself or for others
            await critic.store(record, raised(10**6).to_json(), timeout=1)
        conductor = await server.connect("conductor")
        await conductor.commit([seal(record, raised(400))])
        with working(GoalBudget(goal_id="g2", tokens=1)):
            assert await ask(within)
            assert not await ask(within)  # the other goal's is what it was
        assert await ask(within)
        assert await ask(within)
        with pytest.raises(BudgetSpent, match=r"480 tokens of the 400 .*resume g --budget 800"):
            async with within.reserving(ASK, (), 0):
                pass
        await conductor.commit([seal(record, raised(300))])  # one that is lowered holds too
        assert not await ask(within)
