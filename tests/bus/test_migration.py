"""An office of an earlier version: its tasks are brought to the present subjects, and none is lost."""

import json

import pytest

from services.cli.supervisor.provisioning import provision_streams
from shared import subjects
from shared.bus import Bus, Delivery, Entry
from shared.bus.claim import claim
from shared.bus.migration import OLD_SUBJECTS
from shared.bus.records import read_submitted, read_task
from shared.contracts import Effect, Task, TaskRecordV1, TaskStatus, generate_id
from shared.contracts.base import amended
from tests.bus.conftest import consume
from tests.support.server import Server
from tests.support.waiting import eventually


async def make_old(bus: Bus) -> None:
    """Give OFFICE the subjects of an earlier version."""
    info = json.loads(await bus.request(f"$JS.API.STREAM.INFO.{subjects.OFFICE}"))
    kept = [each for each in info["config"]["subjects"] if not each.startswith(("task.", "state."))]
    config = {**info["config"], "subjects": [*kept, *OLD_SUBJECTS]}
    answer = await bus.request(f"$JS.API.STREAM.UPDATE.{subjects.OFFICE}", json.dumps(config).encode())
    assert "error" not in json.loads(answer)


def old_task(task_id: str) -> Task:
    return Task(task_id=task_id, text="Add", assignee="engineer", requester="conductor")


async def store_old(bus: Bus, record: TaskRecordV1) -> None:
    task = record.task
    subject = f"state.{task.assignee}.{task.requester}.{task.task_id}"
    hand_out = Entry(f"task.{task.assignee}.{task.requester}", task.to_json(), generate_id())
    await bus.commit([Entry(subject, record.to_json(), record.id), hand_out])
    if record.result is not None:
        mail = subjects.mail(task.requester, task.assignee)
        await bus.commit([Entry(mail, record.result.to_json(), record.result.id)])


@pytest.mark.parametrize("times", [1, 2])
async def test_the_tasks_of_an_older_office_go_on_where_they_were(server: Server, times: int) -> None:
    admin, conductor = await server.connect(subjects.ADMIN), await server.connect("conductor")
    engineer = await server.connect("engineer")
    await make_old(admin)
    waiting, begun, done = old_task("waiting"), old_task("begun"), old_task("done")
    paid = Effect(what="pay the bill", started_at="2026-01-01T00:00:00+00:00")
    result = done.result("engineer", TaskStatus.COMPLETED, output="4")
    ended = amended(done, status=TaskStatus.COMPLETED)
    working = amended(begun, status=TaskStatus.IN_PROGRESS)
    await store_old(admin, TaskRecordV1(task=waiting))
    await store_old(admin, TaskRecordV1(task=working, attempt=2, worker="dead", journal=(paid,)))
    await store_old(admin, TaskRecordV1(task=ended, attempt=1, worker="dead", result=result))

    for _ in range(times):
        lines = await provision_streams(server.config, server.url, server.agents)
    assert (times == 1) == any("moved 3 tasks" in line for line in lines)

    attempts: dict[str, int] = {}

    async def handle(delivery: Delivery) -> None:
        task = Task.from_json(delivery.data)
        if (held := await claim(engineer, delivery, task)) is not None:
            attempts[task.task_id] = held.attempt
            assert held.record.journal == ((paid,) if task.task_id == "begun" else ())
            await held.finish(task.result("engineer", TaskStatus.COMPLETED, output="done"))

    await consume(engineer, handle)
    await eventually(lambda: len(attempts) == 2)
    assert attempts == {"waiting": 1, "begun": 3}
    state = await read_task(conductor, done)
    assert state is not None
    assert state.result is not None
    assert state.result.output == "4"
    assert await read_submitted(conductor, "engineer", "conductor", "done") == done
