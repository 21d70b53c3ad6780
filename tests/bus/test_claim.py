"""A claim's writes: one after another, whatever becomes of who asked for them."""

import asyncio
import contextlib

from shared.bus import Delivery
from shared.bus.claim import Claim, claim
from shared.bus.records import read_task, submission_entry
from shared.contracts import Task
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
