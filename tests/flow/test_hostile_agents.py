"""An agent that works badly on purpose, with its own key: others' goals and people's commands hold."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shared import subjects
from shared.bus.entry import seal
from shared.contracts import CancelGoal, DeadLetter, Presence, TaskStatus
from shared.tasks.profiles import Profile
from tests.flow.test_cli_dead import run, send
from tests.flow.test_conductor_goals import Judge, Planned, Stage, Worker
from tests.support.server import Server
from tests.support.team import open_team

PRESENT = Presence(sender="typist", agent="typist", instance="i", version="1", actions={"do": "Do something"})
pytestmark = pytest.mark.timeout(60)


async def test_a_goal_ends_though_an_agent_ends_its_task_with_garbage_or_others_cancel_it(
    tmp_path: Path,
) -> None:
    async with open_team(tmp_path, ["conductor", "critic", "engineer", "memory", "worker"]) as team:
        await team.join(Planned, Profile(name="conductor", description="Conducts.", concurrency=8))
        worker = await team.join(Worker, Profile(name="worker", description="Works."))
        judge = await team.join(Judge, Profile(name="critic", description="Judges."))
        playing = Stage(team, worker, judge)
        worker.gate.clear()
        await playing.submit("g1", {"playbook": "one"}, text="one")
        await playing.until(lambda goal: goal.tasks and goal.tasks[0].issued)
        engineer = await team.connect("engineer")
        order = CancelGoal(sender="engineer", recipient="conductor", goal_id="g1")
        await engineer.commit([seal(subjects.mail("conductor", "engineer"), order)])
        while (buried := await team.user.last(subjects.OFFICE, subjects.dead("conductor"))) is None:
            await asyncio.sleep(0.02)
        assert "not engineer's to cancel" in json.loads(buried.data)["reason"]
        goal = await playing.goal("g1")
        assert goal is not None
        assert not goal.status.final
        ended = subjects.task("worker", "conductor", goal.tasks[0].task_id, subjects.ENDED)
        await (await team.connect("worker")).store(ended, b"garbage")
        goal = await playing.ended("g1")
        worker.gate.set()
    assert goal.status is TaskStatus.FAILED
    assert "Its result cannot be read" in goal.tasks[0].summary


async def test_a_goal_ends_at_its_deadline_though_a_step_of_its_task_is_garbage(tmp_path: Path) -> None:
    async with open_team(tmp_path, ["conductor", "critic", "memory", "typist"]) as team:
        conductor = await team.join(
            Planned, Profile(name="conductor", description="Conducts.", concurrency=8)
        )
        playing = Stage(team, conductor, conductor)
        deadline = (datetime.now(UTC) + timedelta(seconds=3)).isoformat()
        body = {"text": "x", "goal_id": "g1", "deadline": deadline, "context": {"playbook": "unstaffed"}}
        typist = await team.connect("typist")
        await typist.store(subjects.presence("typist", "i"), PRESENT.to_json())
        await team.user.store(subjects.SUBMIT, json.dumps(body).encode())
        await playing.until(lambda goal: goal.tasks and goal.tasks[0].issued)
        goal = await playing.goal("g1")
        assert goal is not None
        noted = subjects.task("typist", "conductor", goal.tasks[0].task_id, subjects.NOTED)
        await typist.store(noted, b"garbage")
        goal = await playing.ended("g1")
    assert goal.status is TaskStatus.TIMEOUT


async def test_a_dead_letter_gets_nothing_sent_again_that_its_writer_did_not_receive(
    office_server: Server,
    office_gateway: Server,
) -> None:
    """Letters are sent again as the admin, so one must not name whatever its writer likes."""
    async with office_server.connection("scout") as scout, office_server.connection("nexus") as nexus:
        mine, data = await send(nexus, "scout", "for scout")
        others, _ = await send(nexus, "critic", "for the critic")
        await scout.store(subjects.dead("scout"), b"garbage")
        for seq in (mine, others):
            letter = DeadLetter(
                sender="critic",
                reason="it looks harmless",
                subject=subjects.mail("scout", "nexus"),
                stream=subjects.OFFICE,
                stream_seq=seq,
                original=data.decode(),
            )
            await scout.store(subjects.dead("scout"), letter.to_json())
    listed = json.loads((await run(office_server, "dead", "list", "--agent", "scout", "--json")).stdout)
    garbage, for_scout, for_critic = [str(letter["number"]) for letter in listed[-3:]]
    assert {letter["agent"] for letter in listed} == {"scout"}
    assert "This is no dead letter" in listed[-3]["reason"]
    for number in (garbage, for_critic):
        refused = await run(office_server, "dead", "retry", number)
        assert refused.returncode == 1
        assert "was not for scout, who wrote the letter" in refused.stderr
    assert (await run(office_server, "dead", "retry", for_scout)).returncode == 0
    assert (await run(office_server, "dead", "drop", garbage, for_critic)).returncode == 0
