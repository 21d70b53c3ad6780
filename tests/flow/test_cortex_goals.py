"""Plans of cortex are goals: bounded in depth, cancelled with their task, tested, worth their tokens."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.conductor.__main__ import Conductor
from services.cortex.__main__ import Cortex
from shared import subjects
from shared.bus.records import cancel_task, submission_entry
from shared.contracts import AgentReport, Goal, ResultOutcome, Task, TaskResult, TaskStatus, generate_task_id
from shared.queries.records import read_goals
from tests.flow.test_cortex_agent import CONDUCTOR, CORTEX, HELPER, Helper, goals, only_goal, step
from tests.flow.test_cortex_cognition import WELL, finish, says
from tests.support.model_server import Answer, Request, serve_model
from tests.support.office import Office
from tests.support.team import Team, open_team
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(100)


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, ["conductor", "cortex", "helper"]) as team:
        await team.join(Conductor, CONDUCTOR)
        await team.join(Helper, HELPER)
        await team.join(Cortex, CORTEX)
        yield team


def nested(plan: dict[str, Any]) -> dict[str, Any]:
    call = {"assignee": "cortex", "action": "execute_plan", "params": {"plan": plan}}
    return {"steps": [{"step_number": 1, "action": "go deeper", "context": call}]}


async def test_a_goal_lies_in_two_goals_at_most(team: Team) -> None:
    plan = {"steps": [step(1, "repeat", text="a")]}
    within = await team.perform("cortex", "execute_plan", plan=nested(plan))
    assert within.status is TaskStatus.COMPLETED, within.error_message
    assert {goal.depth for goal in await goals(team)} == {1, 2}
    assert {goal.part_of for goal in await goals(team)} == {within.task_id}
    (outer,) = (goal for goal in await goals(team) if goal.depth == 1)
    assert outer.cause == within.cause, "its tasks are shown under the one that they are steps of"
    deeper = await team.perform("cortex", "execute_plan", plan=nested(nested(plan)))
    assert "It lies in 3 goals, and 2 are the most" in deeper.error_message
    assert await read_goals(team.user) == [], "parts of tasks are no goals of people's"


async def test_a_plan_is_cancelled_with_its_task(team: Team) -> None:
    plan = {"steps": [step(1, "repeat", text="a", seconds=30), step(2, "repeat", after=(1,), text="b")]}
    task = Task(
        task_id=generate_task_id(),
        text="go",
        assignee="cortex",
        requester="user",
        context={"action": "execute_plan", "params": {"plan": plan}},
    )
    await team.user.commit([submission_entry(task)])
    while not [goal for goal in await goals(team) if goal.tasks]:
        await asyncio.sleep(0.02)
    await cancel_task(team.user, task, "no need")
    while (goal := await only_goal(team)).status is not TaskStatus.CANCELLED:
        await asyncio.sleep(0.02)
    assert [each.status for each in goal.tasks] == [TaskStatus.CANCELLED] * 2


async def test_a_reference_that_nothing_fills_fails_its_step_alone(team: Team) -> None:
    steps = [
        step(1, "repeat", text="a"),
        step(2, "repeat", after=(1,), text="${1.path}"),
        step(3, "repeat", after=(1,), text="${1}"),
    ]
    result = await team.perform("cortex", "execute_plan", plan={"steps": steps})
    assert "2 of 3 steps completed; step 2 ('repeat 2') failed: " in result.error_message
    assert "refers to a file, but step 1 left none" in result.error_message
    assert "<<a>>" in result.output


async def test_a_goal_can_be_submitted_with_its_plan(team: Team) -> None:
    plan = {"steps": [step(1, "repeat", text="a"), step(2, "repeat", after=(1,), text="${1}")]}
    body = {"text": "Twice", "goal_id": "g1", "context": {"plan": plan}}
    await team.user.store(subjects.SUBMIT, json.dumps(body).encode())

    async def asked_for_review() -> Goal | None:
        found = [goal for goal in await read_goals(team.user) if goal.status is TaskStatus.REVIEW]
        return found[0] if found else None

    goal: Goal = await eventually(asked_for_review, 20)
    assert [task.name for task in goal.tasks] == ["step-1", "step-2"]
    wrong = {"text": "Once", "goal_id": "g2", "context": {"plan": {"steps": [{"step_number": 1}]}}}
    await team.user.store(subjects.SUBMIT, json.dumps(wrong).encode())
    report = AgentReport.from_dict(await team.receive(subjects.CONDUCTOR))
    assert "This is not a plan" in report.summary


# --- repositories ---------------------------------------------------------------------------------

CALC = "def add(a, b):\n    return a + b\n"
TESTS = """\
from calc import add


def test_right():
    assert add(1, 2) == 3


def test_wrong():
    assert add(1, 2) == 4
"""


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    repo = tmp_path / "calc"
    repo.mkdir()
    (repo / "calc.py").write_text(CALC)
    (repo / "test_calc.py").write_text(TESTS)
    script = tmp_path / "script.yaml"
    plan = {"tasks": [{"name": "look", "text": "Look at calc.py", "assignee": "cortex"}]}
    entries = [
        says("Make a plan", plan),
        says("Answer the person", {"answer": "All is well.", "citations": ["look"]}),
        says("", finish("All is well.")),
    ]
    script.write_text(
        yaml.safe_dump(
            [
                {**entry, "agent": agent}
                for agent, entry in zip(("conductor", "conductor", "cortex"), entries, strict=True)
            ]
        )
    )
    office = Office(
        tmp_path, MAILROOM_BRAIN=f"scripted:{script}", MAILROOM_NIGHT="always", MAILROOM_NIGHT_LOAD="0"
    )
    try:
        await office.open(["memory", "conductor", "cortex", "engineer"])
        yield office
    finally:
        await office.close()


async def test_jobs_on_a_repository_end_with_its_tests_on_record(office: Office, tmp_path: Path) -> None:
    """Whatever the model says of it, by cortex itself and by the conductor."""
    queue, repo = office.config.state_dir / "job_queue", tmp_path / "calc"
    for name, context in (("own", {"mode": "simple"}), ("told", {"mode": "simple", "repo": str(repo)})):
        job = {"id": name, "task": f"See whether {repo} is well", "context": context}
        (queue / "tonight" / f"{name}.json").write_text(json.dumps(job))

    def archived() -> bool:
        return len(list((queue / "archive").glob("*.json"))) == 2

    await eventually(archived, 60)
    for name in ("own", "told"):
        result = TaskResult.from_json((queue / "archive" / f"{name}.json").read_bytes())
        assert result.output.startswith("All is well."), result.error_message
        assert f"The tests of {repo}: 1 passed, 1 failed." in result.output
        assert result.outcome is ResultOutcome.FINDINGS
        assert result.metadata["tests"]["failed"] == 1
    ran = [
        task
        for task in await office.submitted("engineer", "conductor")
        if task.context["action"] == "run_tests"
    ]
    assert len(ran) == 2


@pytest.mark.parametrize("repo", ["calc", "/nowhere/at/all"])
async def test_a_repository_that_is_none_is_refused(office: Office, repo: str) -> None:
    task = Task(
        task_id=generate_task_id(),
        text="look",
        assignee="cortex",
        requester="user",
        context={"action": "work_out", "params": {"task": "Look", "mode": "simple", "repo": repo}},
    )
    await office.user.commit([submission_entry(task)])
    result = await office.result("cortex", task.task_id)
    assert "Give the whole path" in result.error_message or "is no folder" in result.error_message


# --- what it costs --------------------------------------------------------------------------------


async def test_a_usual_goal_takes_six_calls_and_twenty_thousand_tokens(tmp_path: Path) -> None:
    """Cognitive, two steps in words: a plan, two calls a step, and one that judges and answers."""
    repo = tmp_path / "shop"
    repo.mkdir()
    (repo / "parser.py").write_text("def parse(text):\n    return text.split(',')\n")
    steps = [
        {"step_number": 1, "description": "Read how the parser handles quotes"},
        {"step_number": 2, "description": "Compare it with the README", "dependencies": [1]},
    ]
    asked: list[str] = []

    def answer(request: Request) -> Answer:
        body = request.body
        messages = body["messages"]
        asked.append(json.dumps([body.get("tools", []), messages]))
        told = next(message["content"] for message in messages if message["role"] == "user")
        if "Plan how" in told:
            return Answer(text=json.dumps({"steps": steps}))
        if "Judge as JSON" in told:
            return Answer(text=json.dumps({**WELL, "answer": "It splits at each comma."}))
        assert "compare that with what its README promises" in told, "a step is told of the whole"
        if messages[-1]["role"] == "user":
            call = ("run_shell", {"command": f"cat {repo}/parser.py"})
            return Answer(calls=(call,))
        return Answer(calls=(("finish_task", {"result": "It knows no quotes."}),))

    with serve_model(by=answer) as server:
        office = Office(tmp_path, MAILROOM_BRAIN="openai:small", MAILROOM_BRAIN_URL=server.url)
        try:
            await office.open(["memory", "conductor", "cortex", "engineer", "scout", "frontier", "critic"])
            text = f"Find out how {repo} parses quotes, compare that with what its README promises"
            task = Task(
                task_id=generate_task_id(),
                text=text,
                assignee="cortex",
                requester="user",
                context={"mode": "cognitive"},
            )
            await office.user.commit([submission_entry(task)])
            result = await office.result("cortex", task.task_id, timeout=60)
        finally:
            await office.close()
    assert result.output == "It splits at each comma.", result.error_message
    assert len(asked) <= 6
    assert sum(map(len, asked)) / 4 <= 20_000
