"""The steps of a task: each follows the one that its writer read, whatever becomes of who asked for it."""

import asyncio
import contextlib

import pytest

from shared import subjects
from shared.bus import Bus, Delivery
from shared.bus.claim import Claim, claim
from shared.bus.records import cancel_task, read_task, read_task_state, submission_entry
from shared.contracts import Task, TaskPriority, TaskResult, TaskStatus
from shared.errors import Conflict
from tests.bus.conftest import consume
from tests.support.server import Server
from tests.support.waiting import eventually


async def test_a_note_that_is_given_up_on_its_way_does_not_lose_the_claim(server: Server) -> None:
    conductor, bus = await server.connect("conductor"), await server.connect("engineer")
    claims: list[Claim] = []

    async def handle(delivery: Delivery) -> None:
        held = await claim(bus, delivery, Task.from_json(delivery.data))
        assert held
        claims.append(held)

    await consume(bus, handle)
    task = Task(task_id="sum", text="Add", assignee="engineer", requester="conductor")
    await conductor.commit([submission_entry(task)])
    await eventually(lambda: bool(claims))
    for turns in range(12):
        note = asyncio.create_task(claims[0].note(f"note {turns}"))
        for _ in range(turns):
            await asyncio.sleep(0)
        note.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await note
    await claims[0].note("the last")
    await claims[0].finish(claims[0].failure("It cannot be done"))
    state = await read_task(conductor, task)
    assert state
    assert state.status.final


# --- one message a step --------------------------------------------------------------------------


def sum_task(**more: object) -> Task:
    return Task(task_id="sum", text="Add", assignee="engineer", requester="conductor", **more)  # type: ignore[arg-type]


def sum_done(task: Task) -> TaskResult:
    return task.result("engineer", TaskStatus.COMPLETED, output="3")


async def steps(server: Server) -> list[str]:
    """The steps of every task in the order in which they were stored."""
    user = await server.connect(subjects.USER)
    request = {"seq": 1, "next_by_subj": "task.>", "batch": 100}
    return [stored.subject.rpartition(".")[2] async for stored in user.read(subjects.OFFICE, request)]


async def take_up(bus: Bus) -> list[tuple[Delivery, Claim | None]]:
    """Claim what is delivered to ``bus``; the list grows with each delivery."""
    taken: list[tuple[Delivery, Claim | None]] = []

    async def handle(delivery: Delivery) -> None:
        taken.append((delivery, await claim(bus, delivery, Task.from_json(delivery.data))))

    await consume(bus, handle)
    return taken


@pytest.mark.parametrize("priority", TaskPriority)
async def test_a_task_takes_one_message_a_step(server: Server, priority: TaskPriority) -> None:
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    taken = await take_up(engineer)
    task = sum_task(priority=priority)
    (seq,) = await conductor.commit([submission_entry(task)])
    await eventually(lambda: bool(taken))
    held = taken[0][1]
    assert held is not None
    begun = await read_task(conductor, task)
    assert begun is not None
    assert (begun.step, begun.status, begun.attempt) == (subjects.CLAIMED, TaskStatus.IN_PROGRESS, 1)
    assert (begun.origin, begun.worker) == (seq, engineer.instance)
    await held.finish(sum_done(task))
    ended = await read_task(conductor, task)
    assert ended is not None
    assert ended.result is not None
    assert (ended.status, ended.attempt, ended.result.output) == (TaskStatus.COMPLETED, 1, "3")
    assert await steps(server) == [subjects.NEW[priority], subjects.CLAIMED, subjects.ENDED]


async def test_a_task_is_submitted_once(server: Server) -> None:
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    first = submission_entry(sum_task())
    (seq,) = await conductor.commit([first])
    assert await conductor.commit([first]) == (seq,)
    for other in (sum_task(), sum_task(priority="URGENT")):
        with pytest.raises(Conflict):
            await conductor.commit([submission_entry(other)])
    taken = await take_up(engineer)
    await eventually(lambda: bool(taken))
    held = taken[0][1]
    assert held is not None
    await held.finish(sum_done(held.task))
    with pytest.raises(Conflict):
        await conductor.commit([submission_entry(sum_task())])
    assert await steps(server) == ["new", "claimed", "ended"]


async def test_a_claim_that_was_taken_over_changes_nothing(server: Server) -> None:
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    other = await server.connect("engineer")
    taken = await take_up(engineer)
    task = sum_task()
    await conductor.commit([submission_entry(task)])
    await eventually(lambda: bool(taken))
    delivery, slow = taken[0]
    assert slow is not None
    delivery.deliveries = 2
    second = await claim(other, delivery, task)
    assert second is not None
    assert (slow.attempt, second.attempt) == (1, 2)
    with pytest.raises(Conflict):
        await slow.note("goes on")
    with pytest.raises(Conflict):
        await slow.finish(slow.failure("It cannot be done"))
    await second.finish(sum_done(task))
    # The message may come once more, as when its acknowledgement was lost.
    assert await claim(engineer, delivery, task) is None
    with pytest.raises(Conflict):
        await slow.finish(slow.failure("It cannot be done"))
    state = await read_task(conductor, task)
    assert state is not None
    assert (state.status, state.attempt) == (TaskStatus.COMPLETED, 2)
    assert await steps(server) == ["new", "claimed", "claimed", "ended"]


async def test_of_two_that_claim_at_once_one_gets_the_task(server: Server) -> None:
    """Both take it for the first delivery, and neither reads: the server alone decides."""
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    other = await server.connect("engineer")
    seen: list[Delivery] = []

    async def handle(delivery: Delivery) -> None:
        seen.append(delivery)

    await consume(engineer, handle)
    task = sum_task()
    await conductor.commit([submission_entry(task)])
    await eventually(lambda: bool(seen))
    claims = await asyncio.gather(*(claim(bus, seen[0], task) for bus in (engineer, other)))
    assert sorted(held.attempt for held in claims if held) == [1, 2]
    last = max((held for held in claims if held), key=lambda held: held.attempt)
    for held in claims:
        if held is not None and held is not last:
            with pytest.raises(Conflict):
                await held.finish(sum_done(task))
    await last.finish(sum_done(task))


async def test_what_was_cancelled_cannot_be_finished_nor_begun(server: Server) -> None:
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    taken = await take_up(engineer)
    task = sum_task()
    await conductor.commit([submission_entry(task)])
    await eventually(lambda: bool(taken))
    delivery, held = taken[0]
    assert held is not None
    result = await cancel_task(conductor, task, "it rained")
    assert result is not None
    assert (result.status, result.error_message, result.attempt) == (TaskStatus.CANCELLED, "it rained", 1)
    with pytest.raises(Conflict):
        await held.finish(sum_done(task))
    delivery.deliveries = 2
    assert await claim(engineer, delivery, task) is None
    assert await cancel_task(conductor, task, "again") is None
    assert await steps(server) == ["new", "claimed", "cancelled"]


async def test_a_task_can_be_cancelled_before_it_is_submitted(server: Server) -> None:
    conductor = await server.connect("conductor")
    assert await cancel_task(conductor, sum_task(), "it rained") is None
    assert await read_task_state(conductor, "engineer", "conductor", "sum") is None
    assert await cancel_task(conductor, sum_task(), "it rained", unsubmitted=True) is not None
    with pytest.raises(Conflict):
        await conductor.commit([submission_entry(sum_task())])


# --- published by any client ---------------------------------------------------------------------


async def publish_raw(server: Server, task: Task) -> None:
    """Submit ``task`` as a program does that knows the subject and nothing of the steps."""
    async with server.raw_client("conductor") as client:
        await client.request("task.engineer.conductor.sum.new", task.to_json(), timeout=5)


async def test_a_plain_message_twice_before_it_is_begun_is_done_once(server: Server) -> None:
    engineer = await server.connect("engineer")
    task = sum_task()
    await publish_raw(server, task)
    await publish_raw(server, task)
    taken = await take_up(engineer)
    await eventually(lambda: len(taken) == 2)
    (held,) = [held for _, held in taken if held is not None]
    await held.finish(sum_done(task))
    assert await steps(server) == ["new", "new", "claimed", "ended"]


async def test_a_plain_message_again_while_it_is_worked_on_is_done_once(server: Server) -> None:
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    taken = await take_up(engineer)
    task = sum_task()
    await publish_raw(server, task)
    await eventually(lambda: len(taken) == 1)
    await publish_raw(server, task)
    await eventually(lambda: len(taken) == 2)
    (held,) = [held for _, held in taken if held is not None]
    await held.note("goes on")
    await held.finish(sum_done(task))
    state = await read_task(conductor, task)
    assert state is not None
    assert state.status is TaskStatus.COMPLETED


async def test_a_plain_message_again_after_the_end_is_not_done_again(server: Server) -> None:
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    taken = await take_up(engineer)
    task = sum_task()
    await publish_raw(server, task)
    await eventually(lambda: len(taken) == 1)
    held = taken[0][1]
    assert held is not None
    await held.finish(sum_done(task))
    await publish_raw(server, task)
    await eventually(lambda: len(taken) == 2)
    assert taken[1][1] is None
    state = await read_task(conductor, task)
    assert state is not None
    assert state.status is TaskStatus.COMPLETED
