"""``mailroom retry`` and ``mailroom resume`` as the conductor gets them, and what they print."""

import asyncio
import json

import msgspec
import pytest

from shared import subjects
from shared.bus.entry import seal
from shared.contracts import (
    AgentReport,
    Instruction,
    ResultOutcome,
    TaskStatus,
    generate_iso_timestamp,
    generate_task_id,
)
from tests.flow.test_cli import heard, run, stand_in
from tests.support.server import ROOT, Server

pytestmark = pytest.mark.usefixtures("office_gateway")


async def ended_goal(office: Server, status: TaskStatus = TaskStatus.FAILED) -> str:
    goal_id = generate_task_id("goal")
    async with stand_in(office, goal_id) as conductor:
        await conductor.take_up()
        await conductor.finish(status, "it rained")
    return goal_id


async def test_a_retry_is_a_new_goal_that_is_followed(office_server: Server) -> None:
    goal_id = await ended_goal(office_server)
    async with heard(office_server, subjects.SUBMIT) as following:
        running = asyncio.create_task(run(office_server, "retry", goal_id, "--wait", "--fail-on", "any"))
        body = json.loads((await following())[0])
        assert body == {"retry": goal_id, "goal_id": body["goal_id"], "requester": "user"}
        assert body["goal_id"] != goal_id
        async with stand_in(office_server, body["goal_id"]) as conductor:
            await conductor.take_up()
            await conductor.finish(TaskStatus.COMPLETED, outcome=ResultOutcome.DONE)
        done = await running
    assert done.returncode == 0, done.stderr
    assert f"{goal_id} again, as {body['goal_id']}" in done.stdout
    assert "✓ done in" in done.stdout
    last = await run(office_server, "show", "last", "--json")
    assert json.loads(last.stdout)["goal"]["goal_id"] == body["goal_id"]


async def test_what_runs_is_not_retried(office_server: Server) -> None:
    goal_id = generate_task_id("goal")
    async with stand_in(office_server, goal_id) as conductor:
        await conductor.take_up()
        running = await run(office_server, "retry", goal_id)
        silent = await run(office_server, "resume", goal_id)
        await conductor.finish(TaskStatus.COMPLETED)
    assert running.returncode == 1
    assert f"mailroom resume {goal_id} --say" in running.stderr
    assert silent.returncode == 1
    assert "Say what it should mind with --say" in silent.stderr


async def test_a_resumption_is_accepted_and_followed(office_server: Server) -> None:
    goal_id = generate_task_id("goal")
    async with (
        heard(office_server, subjects.SUBMIT_AS["URGENT"]) as following,
        stand_in(office_server, goal_id) as conductor,
    ):
        await conductor.take_up()
        await conductor.finish(TaskStatus.FAILED, "it rained")
        words = ("--say", "leave ./tests alone", "--wait")
        running = asyncio.create_task(run(office_server, "resume", goal_id, *words))
        body = json.loads((await following())[0])
        said = f"leave {ROOT}/tests alone"
        assert {**body, "request_id": ""} == {
            "resume": goal_id,
            "text": said,
            "request_id": "",
            "requester": "user",
        }
        given = Instruction(id=body["request_id"], text=said, given_at=generate_iso_timestamp())
        conductor.goal = msgspec.structs.replace(
            conductor.goal, status=TaskStatus.IN_PROGRESS, ended_at="", reason="", instructions=(given,)
        )
        await conductor.take_up()
        await asyncio.sleep(0.5)
        assert not running.done()
        await conductor.finish(TaskStatus.COMPLETED, outcome=ResultOutcome.DONE)
        done = await running
    assert done.returncode == 0, done.stderr
    assert f"Going on with {goal_id}" in done.stdout
    assert "✓ done in" in done.stdout


async def test_a_refused_resumption_says_why(office_server: Server) -> None:
    goal_id = await ended_goal(office_server, TaskStatus.COMPLETED)
    async with (
        heard(office_server, subjects.SUBMIT_AS["URGENT"]) as following,
        office_server.connection("conductor") as conductor,
    ):
        running = asyncio.create_task(run(office_server, "resume", goal_id, "--say", "faster"))
        body = json.loads((await following())[0])
        refusal = AgentReport(
            sender="conductor",
            recipient="user",
            goal_id=goal_id,
            report_id=body["request_id"],
            agent="conductor",
            report_type="refused",
            summary="Nothing of it is open. Use mailroom retry",
        )
        await conductor.commit([seal(subjects.mail("user", "conductor"), refusal)])
        done = await running
    assert done.returncode == 1
    assert "Nothing of it is open. Use mailroom retry" in done.stderr
