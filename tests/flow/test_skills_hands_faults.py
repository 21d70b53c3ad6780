"""Commands that need a person, and an engineer that dies meanwhile: what runs, runs once."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from services.engineer.__main__ import Engineer
from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import read_task_state, submission_entry
from shared.contracts import ApprovalAnswer, ApprovalRequest, Task, TaskResult, TaskStatus
from shared.tasks.profiles import load_profile
from tests.support.office import Office
from tests.support.team import Team, open_team
from tests.support.waiting import eventually

PROFILE = load_profile(Path(__file__).parents[2] / "services" / "engineer" / "profile.yaml")
UNDOING = "git stash drop 2>/dev/null || echo ran >> ran.log"
"""A command that drops work git does not bring back: a person has to say."""


def run_action(task_id: str, action: str, params: dict[str, object], goal_id: str = "goal_1") -> Task:
    return Task(
        task_id=task_id,
        goal_id=goal_id,
        text="Run it",
        assignee="engineer",
        requester="user",
        context={"action": action, "params": params},
    )


def run_shell(task_id: str, command: str, goal_id: str = "goal_1") -> Task:
    return run_action(task_id, "run_shell", {"command": command}, goal_id)


async def hand_out(user: Bus, task: Task) -> None:
    await user.commit([submission_entry(task)])


async def result_of(user: Bus, task_id: str, timeout: float = 30.0) -> TaskResult:
    found: list[TaskResult] = []

    async def ended() -> bool:
        state = await read_task_state(user, "engineer", "user", task_id)
        if state is not None and state.result is not None:
            found.append(state.result)
        return bool(found)

    await eventually(ended, timeout)
    return found[0]


async def asked(user: Bus, count: int = 1, timeout: float = 15.0) -> list[ApprovalRequest]:
    found: list[ApprovalRequest] = []

    async def read() -> bool:
        request = {"seq": 1, "next_by_subj": subjects.approval_asked("*", "*"), "batch": 100}
        found[:] = [ApprovalRequest.from_json(m.data) async for m in user.read(subjects.OFFICE, request)]
        return len(found) >= count

    await eventually(read, timeout)
    return found


async def answer(user: Bus, request: ApprovalRequest, granted: bool) -> None:
    said = ApprovalAnswer(
        sender="user",
        recipient="engineer",
        approval_id=request.approval_id,
        granted=granted,
        note="because",
        digest=request.digest,
    )

    await user.commit([seal(subjects.approval_answered("engineer", request.approval_id), said)])


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, ["engineer"], MAILROOM_APPROVAL_TIMEOUT="2.5") as opened:
        await opened.join(Engineer, PROFILE)
        yield opened


async def test_a_grant_holds_for_the_same_command_in_the_same_goal_only(team: Team) -> None:
    log = team.config.workspaces / "goal_1" / "t1" / "ran.log"
    await hand_out(team.user, run_shell("t1", UNDOING))
    (request,) = await asked(team.user)
    assert request.what == f"run in the workspace: {UNDOING}"
    assert request.rule == "git.discard"
    assert not log.exists()
    await answer(team.user, request, True)
    assert (await result_of(team.user, "t1")).status == TaskStatus.COMPLETED
    await hand_out(team.user, run_shell("t2", UNDOING))
    assert (await result_of(team.user, "t2")).status == TaskStatus.COMPLETED
    assert [(log.parents[1] / name / "ran.log").read_text() for name in ("t1", "t2")] == ["ran\n", "ran\n"]
    assert len(await asked(team.user)) == 1
    await hand_out(team.user, run_shell("t3", f"{UNDOING} "))
    await hand_out(team.user, run_shell("t4", UNDOING, "goal_2"))
    more = await asked(team.user, 3)
    assert len({each.approval_id for each in more}) == 3
    assert not (team.config.workspaces / "goal_2" / "t4" / "ran.log").exists()
    for each in more[1:]:
        await answer(team.user, each, False)
    refused = await result_of(team.user, "t4")
    assert refused.status == TaskStatus.FAILED
    assert "A person refused it (because)" in (refused.error_message or "")


async def test_without_an_answer_it_does_not_run(team: Team) -> None:
    await hand_out(team.user, run_shell("t1", UNDOING))
    result = await result_of(team.user, "t1")
    assert result.status == TaskStatus.FAILED
    assert "Nobody approved it in time" in (result.error_message or "")
    (request,) = await asked(team.user)
    await answer(team.user, request, True)  # too late
    await hand_out(team.user, run_shell("t2", UNDOING))
    assert (await result_of(team.user, "t2")).status == TaskStatus.FAILED
    assert not (team.config.workspaces / "goal_1" / "t2" / "ran.log").exists()


async def test_what_is_denied_is_not_even_asked_for(team: Team) -> None:
    await hand_out(team.user, run_shell("t1", "sudo id; echo ran >> ran.log"))
    result = await result_of(team.user, "t1")
    assert result.status == TaskStatus.FAILED
    assert "The policy denies this command (privilege.raise)" in (result.error_message or "")
    assert not (team.config.workspaces / "goal_1" / "t1" / "ran.log").exists()


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    running = Office(tmp_path)
    try:
        await running.open(["engineer"])
        yield running
    finally:
        await running.close()


async def revive(office: Office) -> None:
    office.kill("engineer")
    office.start("engineer")
    await office.ready("engineer")


async def test_a_question_outlives_who_asked_it(office: Office) -> None:
    log = office.config.workspaces / "goal_1" / "t1" / "ran.log"
    await hand_out(office.user, run_shell("t1", UNDOING))
    (request,) = await asked(office.user)
    await revive(office)
    await asyncio.sleep(3)  # the task is handed out again, and finds its question
    assert len(await asked(office.user)) == 1
    office.kill("engineer")
    await answer(office.user, request, True)
    office.start("engineer")
    assert (await result_of(office.user, "t1")).status == TaskStatus.COMPLETED
    assert log.read_text() == "ran\n"


async def test_a_command_that_was_cut_short_is_reported_and_not_repeated(office: Office) -> None:
    log = office.config.workspaces / "goal_1" / "t1" / "ran.log"
    await hand_out(office.user, run_shell("t1", "echo begun >> ran.log; sleep 98.7654"))
    await eventually(log.exists)
    await revive(office)
    result = await result_of(office.user, "t1")
    assert result.status == TaskStatus.FAILED
    assert "interrupted while it did this: run: echo begun >> ran.log" in (result.error_message or "")
    assert log.read_text() == "begun\n"
    listing = await asyncio.to_thread(
        subprocess.run, ["ps", "ax"], capture_output=True, text=True, check=True
    )
    assert "98.7654" not in listing.stdout


async def test_kill_9_while_cloning_and_merging_loses_nothing(office: Office, tmp_path: Path) -> None:
    project = tmp_path / "project"
    for number in range(300):
        file = project / f"p{number % 10}" / f"f{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"line {line} of {number}\n" for line in range(40)))
    office.start("engineer", "-2")  # another process of it
    places = []
    for number, delay in enumerate((0.1, 0.4)):
        params = {"repo": str(project), "folder": "p"}
        await hand_out(office.user, run_action(f"c{number}", "copy_project", params))
        await asyncio.sleep(delay)
        office.kill("engineer-2")
        await revive(office)
        office.start("engineer", "-2")
        result = await result_of(office.user, f"c{number}")
        assert result.status == TaskStatus.COMPLETED, result.error_message
        places.append(office.config.workspaces / "goal_1" / f"c{number}" / "p")
    assert all(len(list(place.glob("p*/*.txt"))) == 300 for place in places)
    assert [each for each in office.config.snapshots.glob("goal_1/.bases/*") if (each / "start").exists()]
    patches = []
    for name, old, new in (("a", "line 0 of 0", "first"), ("b", "line 39 of 0", "last")):
        path = office.config.outputs / "goal_1" / "changes" / name / "p.patch"
        path.parent.mkdir(parents=True)
        text = (project / "p0" / "f0.txt").read_text()
        (tmp_path / "new").write_text(text.replace(f"{old}\n", f"{new}\n"))
        command = ["git", "diff", "--no-index", str(project / "p0" / "f0.txt"), str(tmp_path / "new")]
        made = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        hunk = made.stdout[made.stdout.index("@@") :]
        path.write_text(f"--- a/p0/f0.txt\n+++ b/p0/f0.txt\n{hunk}")
        patches.append(str(path))
    merged = set()
    for number, delay in enumerate((0.2, 0.6)):
        params = {"repo": str(project), "patches": patches, "test": False}
        await hand_out(office.user, run_action(f"m{number}", "merge_changes", params))
        await asyncio.sleep(delay)
        office.kill("engineer-2")
        await revive(office)
        office.start("engineer", "-2")
        result = await result_of(office.user, f"m{number}")
        assert result.status == TaskStatus.COMPLETED, result.error_message
        merged.add(Path(result.metadata["patches"][0]).read_text())
    (patch,) = merged
    assert "+first\n" in patch
    assert "+last\n" in patch


SCRIPT = [
    {"call": {"name": "copy_project", "arguments": {"repo": "@PROJECT", "folder": "calc"}}},
    {"call": {"name": "read_file", "arguments": {"path": "calc/calc.py"}}},
    {"call": {"name": "run_shell", "arguments": {"command": "id", "sandbox": False}}},
    {
        "call": {
            "name": "run_shell",
            "arguments": {"command": "unshare -r id; sudo sh -c 'echo x > /etc/evil'"},
        }
    },
    {"call": {"name": "switch_off_sandbox", "arguments": {}}},
    # What fails may be tried again: it was not interrupted.
    {"call": {"name": "apply_diff", "arguments": {"diff": "--- a/no\n+++ b/no\n@@ -1 +1 @@\n-a\n+b\n"}}},
    {"call": {"name": "apply_diff", "arguments": {"diff": "--- a/no\n+++ b/no\n@@ -1 +1 @@\n-a\n+b\n"}}},
    {
        "call": {
            "name": "edit_file",
            "arguments": {"path": "calc/calc.py", "edits": [{"old": "a - b", "new": "a + b"}]},
        }
    },
    {"call": {"name": "test_changes", "arguments": {"folder": "calc"}}},
    {"call": {"name": "finish_task", "arguments": {"result": "It subtracted; now it adds."}}},
]


async def test_a_model_changes_code_and_gets_nothing_it_may_not_have(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (project / "test_calc.py").write_text(
        "import unittest, calc\nclass T(unittest.TestCase):\n"
        "    def test_a(self): self.assertEqual(calc.add(1, 2), 3)\n"
    )
    script = tmp_path / "script.yaml"
    replies = yaml.safe_dump(SCRIPT).replace("'@PROJECT'", str(project))
    script.write_text(yaml.safe_dump([{"agent": "engineer", "replies": yaml.safe_load(replies)}]))
    office = Office(tmp_path, MAILROOM_BRAIN=f"scripted:{script}")
    try:
        await office.open(["engineer"])
        task = Task(task_id="t1", goal_id="goal_1", text="Mend add", assignee="engineer", requester="user")
        await hand_out(office.user, task)
        result = await result_of(office.user, "t1", 60)
        judged = [data for _, _, data in await office.stored("event.engineer.command_judged")]
    finally:
        await office.close()
    assert result.status == TaskStatus.COMPLETED, result.error_message
    assert result.output.startswith("It subtracted; now it adds.")
    assert "+    return a + b" in Path(result.output_paths[0]).read_text()
    assert (project / "calc.py").read_text() == "def add(a, b):\n    return a - b\n"
    assert result.metadata["commands"] == []
    assert b'"verdict":"deny"' in judged[0]
    assert not Path("/etc/evil").exists()


async def test_who_dies_while_it_thinks_goes_on_and_repeats_no_command(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    replies = [
        {"call": {"name": "run_shell", "arguments": {"command": "echo ran >> ran.log; exit 3"}}},
        {"delay": 3.0, "call": {"name": "finish_task", "arguments": {"result": "It ended with 3."}}},
    ]
    script.write_text(yaml.safe_dump([{"agent": "engineer", "replies": replies}]))
    office = Office(tmp_path, MAILROOM_BRAIN=f"scripted:{script}")
    log = office.config.workspaces / "goal_1" / "t1" / "ran.log"
    try:
        await office.open(["engineer"])
        task = Task(task_id="t1", goal_id="goal_1", text="Run it", assignee="engineer", requester="user")
        await hand_out(office.user, task)
        await eventually(log.exists)
        await asyncio.sleep(1)
        await revive(office)
        result = await result_of(office.user, "t1")
    finally:
        await office.close()
    assert result.status == TaskStatus.COMPLETED, result.error_message
    assert log.read_text() == "ran\n"
    assert "- echo ran >> ran.log; exit 3 (exit code 3)" in result.output
    assert [ran["exit_code"] for ran in result.metadata["commands"]] == [3]


async def test_a_shell_task_of_a_goal_waits_for_a_person_without_any_model(tmp_path: Path) -> None:
    office = Office(tmp_path)
    try:
        await office.open(["conductor", "engineer", "critic"])
        context = {
            "assignee": "engineer",
            "action": "run_shell",
            "command": f"{UNDOING}; cat ran.log",
        }
        await office.submit({"text": "Run it", "goal_id": "goal_9", "context": context})
        (request,) = await asked(office.user)
        assert request.goal_id == "goal_9"
        await answer(office.user, request, True)
        goal = await office.finished("goal_9")
    finally:
        await office.close()
    assert goal.status == TaskStatus.COMPLETED, goal.reason
    assert (office.config.workspaces / "goal_9" / "goal_9-task-1" / "ran.log").read_text() == "ran\n"
    (log,) = (office.config.outputs / "goal_9" / "commands").glob("*.log")
    assert log.read_text() == "ran\n"
