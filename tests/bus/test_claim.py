"""The steps of a task: each follows the one that its writer read, whatever becomes of who asked for it."""

import asyncio
import contextlib

import pytest

from shared import subjects
from shared.bus import Bus, Delivery, Entry
from shared.bus.claim import Claim, claim
from shared.bus.records import TaskState, cancel_task, read_task, read_task_state, submission_entry
from shared.contracts import Effect, Task, TaskPriority, TaskResult, TaskStatus, generate_iso_timestamp
from shared.errors import Conflict, Reject
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
    """Take what is delivered to ``bus``, as an agent does; the list grows with each delivery."""
    taken: list[tuple[Delivery, Claim | None]] = []

    async def handle(delivery: Delivery) -> None:
        held = await claim(bus, delivery, Task.from_json(delivery.data))
        if held is not None and not held.first:
            await held.begin()
        taken.append((delivery, held))

    await consume(bus, handle)
    return taken


async def take_one(bus: Bus, conductor: Bus, task: Task) -> tuple[Delivery, Claim]:
    """Submit ``task``, and have it delivered to ``bus``."""
    taken = await take_up(bus)
    await conductor.commit([submission_entry(task)])
    await eventually(lambda: bool(taken))
    delivery, held = taken[0]
    assert held is not None
    return delivery, held


@pytest.mark.parametrize("priority", TaskPriority)
async def test_a_task_that_only_computes_is_two_messages(server: Server, priority: TaskPriority) -> None:
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    task = sum_task(priority=priority)
    before = generate_iso_timestamp()
    _, held = await take_one(engineer, conductor, task)
    state = await read_task(conductor, task)
    assert state is not None
    assert (state.status, state.attempt) == (TaskStatus.PENDING, 0)
    await held.finish(sum_done(task))
    ended = await read_task(conductor, task)
    assert ended is not None
    assert ended.result is not None
    assert (ended.status, ended.attempt, ended.result.output) == (TaskStatus.COMPLETED, 1, "3")
    assert (ended.worker, ended.result.worker) == (engineer.instance, engineer.instance)
    assert before <= ended.result.begun_at <= generate_iso_timestamp()
    assert await steps(server) == [subjects.NEW[priority], subjects.ENDED]


@pytest.mark.parametrize("kind", ["begin", "note", "effect"])
async def test_the_first_write_claims_it(server: Server, kind: str) -> None:
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    task = sum_task()
    delivery, held = await take_one(engineer, conductor, task)
    match kind:
        case "begin":
            await asyncio.gather(held.begin(), held.begin())
        case "note":
            await held.note("adds")
        case "effect":
            async with held.effect("push the button"):
                state = await read_task(conductor, task)
                assert state is not None
                assert [(each.what, each.finished_at) for each in state.journal] == [("push the button", "")]
    begun = await read_task(conductor, task)
    assert begun is not None
    assert (begun.step, begun.status, begun.attempt) == (subjects.CLAIMED, TaskStatus.IN_PROGRESS, 1)
    assert (begun.origin, begun.worker) == (delivery.seq, engineer.instance)
    assert begun.note == {"begin": "", "note": "adds", "effect": "push the button"}[kind]
    await held.note("goes on")
    await held.finish(sum_done(task))
    found = [each for each in await steps(server) if each != subjects.NOTED]
    assert found == ["new", "claimed", "ended"]


async def test_a_first_write_that_is_refused_claims_nothing(server: Server) -> None:
    """What is stored with it belongs to the same commit."""
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    task = sum_task()
    _, held = await take_one(engineer, conductor, task)
    record = Entry(subjects.record("engineer", "thinking", "t1"), b"{}", "r1", 0)
    await engineer.commit([record])
    with pytest.raises(Conflict):
        await held.note("adds", [record._replace(id="r2", payload=b'{"other": 1}')])
    assert await steps(server) == ["new"]
    await held.finish(sum_done(task))
    assert await steps(server) == ["new", "ended"]


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
    assert await steps(server) == ["new", "ended"]


@pytest.mark.parametrize("written", [True, False])
async def test_an_attempt_that_was_taken_over_changes_nothing(server: Server, written: bool) -> None:
    """Also one that had written nothing yet: it is as late as any other."""
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    other = await server.connect("engineer")
    task = sum_task()
    delivery, slow = await take_one(engineer, conductor, task)
    if written:
        await slow.begin()
    delivery.deliveries = 2
    second = await claim(other, delivery, task)
    assert second is not None
    assert not second.first
    await second.begin()
    assert (slow.attempt, second.attempt) == (1, 2 if written else 1)
    for late in (slow.begin, lambda: slow.note("goes on"), lambda: slow.finish(slow.failure("No"))):
        if written and late == slow.begin:
            continue  # it was stored long ago
        with pytest.raises(Conflict):
            await late()
    with pytest.raises(Conflict):
        async with slow.effect("push the button"):
            raise AssertionError("the effect must not happen")
    await second.finish(sum_done(task))
    # The message may come once more, as when its acknowledgement was lost.
    assert await claim(engineer, delivery, task) is None
    with pytest.raises(Conflict):
        await slow.finish(slow.failure("It cannot be done"))
    state = await read_task(conductor, task)
    assert state is not None
    assert (state.status, state.worker) == (TaskStatus.COMPLETED, other.instance)
    assert await steps(server) == ["new", *["claimed"] * (1 + written), "ended"]


@pytest.mark.parametrize("claimed", [True, False])
async def test_of_two_that_have_it_at_once_one_gets_the_task(server: Server, claimed: bool) -> None:
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
    both = [await claim(bus, seen[0], task) for bus in (engineer, other)]
    held = [each for each in both if each is not None]
    assert [each.first for each in held] == [True, True]
    if claimed:
        refused = await asyncio.gather(*(each.begin() for each in held), return_exceptions=True)
        assert sum(isinstance(each, Conflict) for each in refused) == 1
    ends = await asyncio.gather(*(each.finish(sum_done(task)) for each in held), return_exceptions=True)
    assert sum(isinstance(each, Conflict) for each in ends) == 1
    assert await steps(server) == ["new", *["claimed"] * claimed, "ended"]


async def test_a_thread_claims_it_and_the_next_write_goes_on_from_there(server: Server) -> None:
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    task = sum_task()
    _, held = await take_one(engineer, conductor, task)
    entry = held.claiming_entry()
    await asyncio.to_thread(asyncio.run, engineer.store_apart([entry]))
    await asyncio.to_thread(asyncio.run, engineer.store_apart([entry]))  # refused, and no error
    async with held.effect("push the button"):
        pass
    await held.finish(sum_done(task))
    assert await steps(server) == ["new", "claimed", "noted", "ended"]


async def test_what_is_over_writes_no_more(server: Server) -> None:
    """Code that goes on after its attempt was given up is no part of the next one in the same process."""
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    task = sum_task()
    delivery, first = await take_one(engineer, conductor, task)
    first.over = True
    delivery.deliveries = 2
    second = await claim(engineer, delivery, task)
    assert second is not None
    await second.begin()
    for late in (first.begin(), first.note("goes on"), first.finish(sum_done(task))):
        with pytest.raises(Conflict):
            await late
    await second.finish(sum_done(task))
    assert await steps(server) == ["new", "claimed", "ended"]


@pytest.mark.parametrize("written", [True, False])
async def test_what_was_cancelled_cannot_be_finished_nor_begun(server: Server, written: bool) -> None:
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    task = sum_task()
    delivery, held = await take_one(engineer, conductor, task)
    if written:
        await held.begin()
    result = await cancel_task(conductor, task, "it rained")
    assert result is not None
    assert (result.status, result.error_message) == (TaskStatus.CANCELLED, "it rained")
    assert result.attempt == written
    with pytest.raises(Conflict):
        await held.finish(sum_done(task))
    delivery.deliveries = 2
    assert await claim(engineer, delivery, task) is None
    assert await cancel_task(conductor, task, "again") is None
    assert await steps(server) == ["new", *["claimed"] * written, "cancelled"]


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


@pytest.mark.parametrize(
    ("host", "began", "fetched", "lost"),
    [
        ("north", "2026-11-30T10:00:05.000Z", ("north", "2026-11-30T10:00:04.000Z"), True),
        ("north", "2026-11-30T10:00:05.000Z", ("north", "2026-11-30T10:00:05.001Z"), False),  # stored since
        ("north", "2026-11-30T10:00:05.000Z", ("", ""), True),  # it begins again
        ("north", "2026-11-30T10:00:05.000Z", ("west", "2026-11-30T10:00:04.000Z"), False),  # another clock
        ("north", "2026-11-30T10:00:05.000Z", None, False),  # it is not known
        ("", "2026-11-30T10:00:05.000Z", ("north", "2026-11-30T10:00:04.000Z"), False),  # it reached further
        ("office", "2026-11-30T10:00:05.000Z", ("", ""), False),  # the same workspace
    ],
)
async def test_only_what_was_lost_with_another_host_is_repeated(
    server: Server, host: str, began: str, fetched: tuple[str, str] | None, lost: bool
) -> None:
    bus = await server.connect("engineer")
    effect = Effect(what="run: make", host=host, started_at=began)
    earlier = TaskState(
        step="claimed", seq=5, stored_at=began, status=TaskStatus.IN_PROGRESS, attempt=1, journal=(effect,)
    )
    held = Claim(bus, sum_task(), 5, origin=1, earlier=earlier)
    held.fetched = fetched
    held._advance = no_write  # type: ignore[method-assign, assignment]
    if not lost:
        with pytest.raises(Reject, match="not repeated"):
            async with held.effect("run: make", confined=True):
                pass
    else:
        async with held.effect("run: make", confined=True):
            pass


async def no_write(**_: object) -> tuple[int, ...]:
    return ()
