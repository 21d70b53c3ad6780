"""A goal that a model plans, through real processes; and kill -9 of the conductor while it thinks."""

from pathlib import Path

import pytest
import yaml

from shared.contracts import OfficeState, StateChanged, TaskStatus
from shared.subjects import goal as goal_subject
from tests.support.office import Office
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(100)

PLAN = {
    "tasks": [
        {"name": "look", "assignee": "scout", "text": "Say what a heron eats."},
        {"name": "sum up", "assignee": "engineer", "text": "Put it in one word.", "depends_on": ["look"]},
    ]
}
SCRIPT = [
    {"agent": "conductor", "match": "^Make a plan", "replies": [{"json": PLAN, "delay": 1.5}]},
    {
        "agent": "conductor",
        "match": "^Answer the person",
        "replies": [{"json": {"answer": "Fish [sum-up].", "citations": ["sum-up"]}}],
    },
    {
        "agent": "scout",
        "match": "heron",
        "replies": [{"call": {"name": "finish_task", "arguments": {"result": "Herons eat fish and frogs."}}}],
    },
    {
        "agent": "engineer",
        "match": "(?s)one word.*Herons eat fish and frogs",
        "replies": [{"call": {"name": "finish_task", "arguments": {"result": "Fish."}}}],
    },
]


async def test_the_conductor_is_killed_while_it_plans_and_the_goal_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(yaml.safe_dump(SCRIPT))
    office = Office(tmp_path, MAILROOM_BRAIN=f"scripted:{path}")
    try:
        await office.open(["memory", "conductor", "scout", "engineer", "critic"])
        await office.submit({"text": "What do herons like best?", "goal_id": "g1"})

        async def planning() -> bool:
            goal = await office.goal("g1")
            return goal is not None and goal.thinking == "plan"

        await eventually(planning, 20)
        office.kill("conductor")
        office.start("conductor")
        goal = await office.finished("g1", 40)
        assert goal.status is TaskStatus.COMPLETED, goal.reason
        assert goal.answer.startswith("Fish [sum-up].")
        assert [task.name for task in goal.tasks] == ["look", "sum-up"]
        assert goal.plans == 1
        changes = [StateChanged.from_json(data) for _, _, data in await office.stored(goal_subject("g1"))]
        planned = [change for change in changes if change.previous is OfficeState.PLANNING]
        assert sum(change.state is OfficeState.EXECUTING for change in planned) == 1
        letters = [data for _, _, data in await office.stored("mail.user.conductor")]
        assert len(letters) == 1
    finally:
        await office.close()
