"""``mailroom show --thoughts``: what happened inside tasks, with a model, without one, and after a kill."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import yaml

from shared import subjects
from shared.bus.records import submission_entry
from shared.contracts import Task, TaskResult, TaskStatus
from shared.views.timeline import Activity, Row, RowKind
from tests.support.office import Office
from tests.support.waiting import eventually


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    return {"call": {"name": name, "arguments": arguments}}


async def submit(office: Office, task_id: str, text: str, **context: Any) -> None:
    task = Task(task_id=task_id, text=text, assignee="engineer", requester=subjects.USER, context={**context})
    await office.user.commit([submission_entry(task)])


async def rows_of(office: Office, name: str) -> list[Row]:
    (details,) = msgspec.json.decode(await shown(office, name, "--json"), type=Activity).tasks
    return details.rows


async def shown(office: Office, *arguments: str) -> str:
    finished = await asyncio.to_thread(office.server.mailroom, "show", *arguments, "--thoughts")
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout


async def test_thoughts_calls_and_their_cost_are_told_after_the_end(tmp_path: Path) -> None:
    script = [
        {
            "agent": "engineer",
            "replies": [
                {
                    **calls("run_shell", command="echo from the jail"),
                    "text": "First I say something.",
                    "delay": 0.2,
                },
                calls("run_shell", command="exit 3"),
                calls("finish_task", result="It spoke."),
            ],
        }
    ]
    path = tmp_path / "script.yaml"
    path.write_text(yaml.safe_dump(script))
    office = Office(tmp_path, MAILROOM_BRAIN=f"scripted:{path}", MAILROOM_BRAIN_PRICE="3/15")
    try:
        await office.open(["engineer", subjects.GATEWAY])
        await submit(office, "talk", "Say something")
        assert (await office.result("engineer", "talk")).status is TaskStatus.COMPLETED
        # Submitted, claimed, for each of two calls a checkpoint before and after it, a note and an effect,
        # and the end: as many as before there were spans. Of the two notes, at most one a second is stored.
        steps = await office.stored(subjects.task("engineer", "*", "talk", "*"))
        assert 9 <= len(steps) <= 11, [subject for _, subject, _ in steps]
        text, as_json = await shown(office, "talk"), await shown(office, "talk", "--json")
        (activity,) = msgspec.json.decode(as_json, type=Activity).tasks
    finally:
        await office.close()
    thoughts = [row for row in activity.rows if row.kind is RowKind.MODEL]
    assert thoughts[0].output == "First I say something."
    assert len(thoughts) == 3
    assert all(row.input_tokens and row.output_tokens and row.cost for row in thoughts)
    assert activity.cost == sum(row.cost for row in thoughts) > 0
    ran = [row for row in activity.rows if row.kind is RowKind.ACTION]
    assert [json.loads(row.input) for row in ran] == [
        {"command": "echo from the jail"},
        {"command": "exit 3"},
    ]
    commands = [row for row in activity.rows if row.kind is RowKind.COMMAND]
    assert {row.parent for row in commands} == {row.id for row in ran}
    assert [(row.output.strip(), row.status) for row in commands] == [
        ("from the jail", "done"),
        ("", "failed"),
    ]
    assert "First I say something." in text
    assert "tokens in" in text
    assert max(map(len, text.splitlines())) <= 80
    assert json.loads(as_json)["tasks"][0]["rows"][0]["status"] == "done"


async def test_without_a_model_the_commands_of_an_action_are_told(tmp_path: Path) -> None:
    office = Office(tmp_path)
    try:
        await office.open(["engineer", subjects.GATEWAY])
        params = {"command": "printf '\\033[2J<img src=x onerror=alert(1)>'"}
        await submit(office, "plain", "Say it", action="run_shell", params=params)
        await office.result("engineer", "plain")
        rows = await rows_of(office, "plain")
        text = await shown(office, "plain")
    finally:
        await office.close()
    (command,) = [row for row in rows if row.kind is RowKind.COMMAND]
    assert "<img src=x onerror=alert(1)>" in command.output
    assert "\033" not in text
    assert "no model was asked" in text


async def test_an_attempt_that_was_killed_is_told_apart(tmp_path: Path) -> None:
    script = [
        {
            "agent": "engineer",
            "replies": [
                {**calls("run_shell", command="echo one"), "text": "One first."},
                {**calls("run_shell", command="sleep 1; echo two"), "delay": 1.5},
                calls("finish_task", result="Both."),
            ],
        }
    ]
    path = tmp_path / "script.yaml"
    path.write_text(yaml.safe_dump(script))
    office = Office(tmp_path, MAILROOM_BRAIN=f"scripted:{path}")
    try:
        await office.open(["engineer", subjects.GATEWAY])
        await submit(office, "talk", "Say two things")

        async def thinks_again() -> bool:
            steps = await office.stored(subjects.task("engineer", "*", "talk", subjects.NOTED))
            return len(steps) >= 4  # the first command's result is stored, and the model asked again

        await eventually(thinks_again, 20)
        office.kill("engineer")
        office.start("engineer")
        result: TaskResult = await office.result("engineer", "talk", timeout=40)
        assert result.attempt == 2
        rows = await rows_of(office, "talk")
        text = await shown(office, "talk")
    finally:
        await office.close()
    attempts = [(row.name, row.status) for row in rows if row.kind is RowKind.ATTEMPT]
    assert attempts == [("attempt 1", "killed"), ("attempt 2", "done")]
    first = [row for row in rows if row.attempt == 1 and row.kind is RowKind.COMMAND]
    assert [row.output.strip() for row in first] == ["one"]
    assert "its process ended, and another took over" in text
