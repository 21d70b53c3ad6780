"""Cortex at work: plans handed out over the bus, scripts, and the overnight queue across kill -9."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.conductor.__main__ import Conductor
from services.cortex.__main__ import Cortex
from services.cortex.job_worker import JobWorker
from services.cortex.scripts import find_script, make_command
from shared import subjects
from shared.agent.base import Agent
from shared.contracts import (
    DueKind,
    DueStatus,
    Goal,
    Said,
    StateChanged,
    Task,
    TaskPlan,
    TaskResult,
    TaskStatus,
)
from shared.errors import ActionError
from shared.queries.records import count_subjects, read_last
from shared.settings import Settings
from shared.skills.workspace import snapshots_of
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profiles import Profile
from shared.timetable import KEPT, read_timetable
from tests.support.forking import start_program
from tests.support.team import Team, open_team

pytestmark = pytest.mark.timeout(30)

ROOT = Path(__file__).parents[2]
CORTEX = Profile(name="cortex", description="Plans.", options={"queue_poll": 0.05})
HELPER = Profile(name="helper", description="Helps.", concurrency=8)
CONDUCTOR = Profile(name="conductor", description="Conducts.")


class Helper(Agent):
    """Repeats what it is told, and can fail."""

    @register_action("Repeat", {"text": "What to repeat", "seconds": "How long that takes"})
    async def repeat(self, text: str, seconds: float = 0.0) -> Outcome:
        await asyncio.sleep(seconds)
        return Outcome(output=f"<{text}>", evidence_refs=(f"heard:{text}",))

    @register_action("Fail")
    async def fail(self) -> Outcome:
        raise ActionError("It is broken", "Mend it")


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    agents = ["conductor", "cortex", "helper", "nexus"]
    async with open_team(tmp_path, agents, MAILROOM_COMMAND_TIMEOUT="2") as team:
        await team.join(Conductor, CONDUCTOR)
        await team.join(Helper, HELPER)
        await team.join(Cortex, CORTEX)
        yield team


def step(number: int, action: str, *, after: tuple[int, ...] = (), **params: Any) -> dict[str, Any]:
    context = {"assignee": "helper", "action": action, "params": params}
    return {"step_number": number, "action": f"{action} {number}", "dependencies": after, "context": context}


def script(tmp_path: Path, text: str, name: str = "job.py") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def drop(team: Team, job_id: str, task: str, **fields: object) -> None:
    queue = team.config.state_dir / "job_queue" / "tonight"
    draft = queue / f".{job_id}"
    draft.write_text(json.dumps({"id": job_id, "task": task, **fields}))
    draft.rename(queue / f"{job_id}.json")


async def archived(team: Team, job_id: str) -> TaskResult:
    path = team.config.state_dir / "job_queue" / "archive" / f"{job_id}.json"
    while not path.exists():
        await asyncio.sleep(0.02)
    return TaskResult.from_json(path.read_bytes())


async def running(team: Team) -> list[str]:
    """The ids of the jobs that are at work."""
    found = (await read_timetable(team.user, subjects.CORTEX)).of(DueKind.JOB)
    return [each.due_id for each in found if each.status is DueStatus.WORKING]


async def ended(team: Team) -> None:
    """Wait until no job waits or is at work."""
    while any(each.status in KEPT for each in (await read_timetable(team.user, subjects.CORTEX)).items):
        await asyncio.sleep(0.02)


async def goals(team: Team) -> list[Goal]:
    """The goals that there are, each as it is now."""
    names = await count_subjects(team.user, subjects.OFFICE, subjects.goal("*"))
    stored = await read_last(team.user, subjects.OFFICE, names)
    found = [StateChanged.from_json(each.data).goal for each in stored.values()]
    return [goal for goal in found if goal]


async def only_goal(team: Team) -> Goal:
    (goal,) = await goals(team)
    return goal


async def test_a_text_becomes_a_plan(team: Team) -> None:
    result = await team.perform(
        "cortex", "generate_plan", text="- helper.repeat text=a\n- b\n- c (after 1, 2)"
    )
    plan = TaskPlan.from_dict(result.metadata["plan"])
    assert plan.steps[0].context["action"] == "repeat"
    assert result.metadata["groups"] == [[1, 2], [3]]
    assert result.output.endswith("3. c (after 1, 2)")


async def test_a_plan_is_carried_out_by_those_it_names(team: Team) -> None:
    plan = {
        "steps": [
            *(step(number, "repeat", text=str(number)) for number in range(1, 7)),
            step(7, "repeat", after=(2, 3), text="${2} and ${3}"),
        ]
    }
    result = await team.perform("cortex", "execute_plan", plan=plan)
    assert result.status is TaskStatus.COMPLETED, result.error_message
    assert [entry["output"] for entry in result.metadata["steps"]] == [
        *(f"<{number}>" for number in range(1, 7)),
        "<<2> and <3>>",
    ]
    assert result.evidence_refs[0] == "heard:1"


async def test_a_plan_begins_with_what_it_needs_or_not_at_all(team: Team) -> None:
    plan = {
        "steps": [step(1, "repeat", text="a")],
        "required_tools": ["helper.repeat"],
        "estimated_duration": "2 minutes",
    }
    result = await team.perform("cortex", "execute_plan", plan=plan)
    assert result.status is TaskStatus.COMPLETED, result.error_message
    refused = await team.perform("cortex", "execute_plan", plan={**plan, "required_tools": ["helper.juggle"]})
    assert refused.status is TaskStatus.FAILED
    assert (
        "No step was begun: the plan needs an action 'juggle' that helper does not" in refused.error_message
    )


async def test_the_tasks_of_steps_are_named_after_them(team: Team) -> None:
    """Steps side by side end in any order; a second attempt must find each step's own task."""
    steps = [
        step(1, "repeat", after=(3,), text="a"),
        step(2, "repeat", text="b"),
        step(3, "repeat", text="c"),
    ]
    result = await team.perform("cortex", "execute_plan", plan={"steps": steps})
    for number, text in enumerate("abc", start=1):
        goal_id = (await only_goal(team)).goal_id
        done = await team.result("helper", "conductor", f"{goal_id}-{number}-1")
        assert (done.output, done.goal_id, done.parent_goal_id) == (f"<{text}>", result.task_id, goal_id)


async def test_a_failed_step_fails_the_plan_and_only_its_dependents_are_skipped(team: Team) -> None:
    steps = [step(1, "fail"), step(2, "repeat", after=(1,), text="never"), step(3, "repeat", text="still")]
    result = await team.perform("cortex", "execute_plan", plan={"steps": steps})
    assert result.status is TaskStatus.FAILED
    assert (
        "1 of 3 steps completed; step 1 ('fail 1') failed: helper: It is broken. Mend it"
        in result.error_message
    )
    assert "step 2 ('repeat 2') skipped: it needs 'step-1', which ended as failed" in result.error_message
    assert "<still>" in result.output


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (
            {"steps": [{"step_number": 1, "action": "Design it"}]},
            "cannot work out what to do from words without a model",
        ),
        ({"steps": []}, "This is not a plan"),
        (
            {"steps": [{"step_number": 1, "action": "x", "context": {"action": "dance"}}]},
            "cortex has no action 'dance'",
        ),
        (
            {
                "steps": [
                    {
                        "step_number": 1,
                        "action": "x",
                        "context": {"action": "execute_plan", "params": {"plan": {}}},
                    }
                ]
            },
            "This is not a plan",
        ),
        ({"steps": [step(1, "dance")]}, "helper has no action 'dance'"),
    ],
)
async def test_what_cannot_be_carried_out_is_said(team: Team, plan: dict[str, Any], words: str) -> None:
    result = await team.perform("cortex", "execute_plan", plan=plan)
    assert result.status is TaskStatus.FAILED
    assert words in result.error_message


async def test_an_agent_that_nobody_knows_begins_no_step(team: Team) -> None:
    steps = [step(1, "repeat", text="a"), {**step(2, "x"), "context": {"assignee": "nobody", "action": "x"}}]
    result = await team.perform("cortex", "execute_plan", plan={"steps": steps})
    assert "There is no agent 'nobody'" in result.error_message
    assert not (await only_goal(team)).tasks


async def test_scripts(team: Team, tmp_path: Path) -> None:
    good = script(tmp_path, "import os, sys; print(sys.argv[1:], os.getcwd())")
    result = await team.perform("cortex", "run_script", path=good, args=["a b", "c"])
    assert result.status is TaskStatus.COMPLETED, result.error_message
    assert result.output == f"['a b', 'c'] {team.config.workspaces / result.task_id / result.task_id}"
    assert result.metadata["exit_code"] == 0
    assert Path(result.output_paths[0]).read_text().strip() == result.output
    shell = script(tmp_path, "echo from the shell; exit 3", "job.sh")
    failed = await team.perform("cortex", "run_script", path=shell)
    assert failed.error_message.startswith("job.sh ended with exit code 3: from the shell. Its output is in ")
    slow = script(tmp_path, "import time; print('begun', flush=True); time.sleep(30)", "slow.py")
    stopped = await team.perform("cortex", "run_script", path=slow)
    assert stopped.error_message.startswith("slow.py was stopped after 2 s, because its time was up. ")
    for path, words in (
        (str(tmp_path / "no.py"), "There is no script"),
        (script(tmp_path, "x", "x.dat"), "How to run"),
    ):
        assert words in (await team.perform("cortex", "run_script", path=path)).error_message


async def test_a_snapshot_is_taken_before_a_script_runs(team: Team, tmp_path: Path) -> None:
    path = script(tmp_path, "open('made', 'w').close()")
    result = await team.perform("cortex", "run_script", path=path)
    workspace = team.config.workspaces / result.task_id / result.task_id
    assert (workspace / "made").exists()
    done = Task(task_id=result.task_id, text="x", assignee="cortex", requester="user")
    assert snapshots_of(team.config, done).undo().label == f"run the script {path}"
    assert not (workspace / "made").exists()


def task(text: str, requester: str = "user", **context: Any) -> Task:
    return Task(task_id="t", text=text, assignee="cortex", requester=requester, context=context)


def test_a_script_elsewhere_has_to_be_named_by_a_person(tmp_path: Path) -> None:
    office = Settings(state_dir=tmp_path / "state")
    own, path = office.workspaces / "t" / "t", str(tmp_path / "jobs" / "a.py")
    assert find_script("a.py", task("x"), office) == (own, "a.py")
    assert find_script(f"{own}/b/a.py", task("x"), office) == (own, f"{own}/b/a.py")
    said = Said(text=f"run_script path={path}", by="cortex", until="2999-01-01", signature="checked")
    for named in (
        task(f"Run {path}"),
        task(f"Run what is in {tmp_path}/jobs"),
        task("x", params={"path": path}),
        msgspec.structs.replace(task("x", "cortex"), said=said),
    ):
        assert find_script(path, named, office) == (tmp_path / "jobs", "a.py")
    for unnamed in (
        task("Sum it up"),
        task(f"Run {path}", "scout"),
        task(f"Run {path}", "cortex"),
        task(f"Run {path}", "conductor"),
    ):
        with pytest.raises(ActionError, match="no person named it"):
            find_script(path, unnamed, office)
    own.mkdir(parents=True)
    climbing = find_script(f"{tmp_path}/jobs/../x/a.py", task(f"Run {path}"), office)
    with pytest.raises(ActionError, match="not inside the workspace"):
        make_command(*climbing, ())


def test_a_script_of_another_goal_is_run_only_where_it_is_named_itself(tmp_path: Path) -> None:
    office = Settings(state_dir=tmp_path / "state")
    other = office.workspaces / "other"
    with pytest.raises(ActionError, match="no person named it"):
        find_script(f"{other}/b/a.py", task(f"Look into {tmp_path}"), office)
    assert find_script(f"{other}/b/a.py", task(f"Run {other}/b/a.py"), office) == (other, "b/a.py")


def test_a_script_that_is_or_passes_through_a_link_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.py").touch()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "root" / "a.py").symlink_to(tmp_path / "outside" / "a.py")
    for name in ("link/a.py", "a.py", "../outside/a.py", str(tmp_path / "outside" / "a.py"), "link"):
        with pytest.raises(ActionError):
            make_command(tmp_path / "root", name, ())


def test_folders_that_may_hold_secrets_are_shown_to_no_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    office = Settings(state_dir=tmp_path / ".local" / "state")
    (tmp_path / "link").symlink_to(tmp_path / ".ssh")

    def find(path: Path) -> tuple[Path, str]:
        return find_script(str(path), task(f"Run {path}"), office)

    assert find(tmp_path / "jobs" / "a.py") == (tmp_path / "jobs", "a.py")
    own = office.workspaces / "t" / "t"
    assert find(own / "a.py")[0] == own
    assert find(office.outputs / "g" / "b" / "a.py") == (office.outputs / "g", "b/a.py")
    for folder in (".ssh", "link", ".local/state", ".local/state/keys", ".local/state/workspaces"):
        with pytest.raises(ActionError, match="may hold secrets"):
            find(tmp_path / folder / "a.py")


async def test_an_executable_runs_by_its_own_first_line(team: Team, tmp_path: Path) -> None:
    path = Path(script(tmp_path, "#!/bin/sh\necho own", "own"))
    path.chmod(0o755)
    assert (await team.perform("cortex", "run_script", path=str(path))).output == "own"


async def test_steps_side_by_side_share_the_record_of_their_task(team: Team, tmp_path: Path) -> None:
    path = script(tmp_path, "import sys; print(sys.argv[1])")
    steps = [
        {
            "step_number": number,
            "action": "run it",
            "context": {"action": "run_script", "params": {"path": path, "args": [str(number)]}},
        }
        for number in range(1, 5)
    ]
    result = await team.perform("cortex", "execute_plan", plan={"steps": steps})
    assert [entry["output"] for entry in result.metadata["steps"]] == ["1", "2", "3", "4"]


async def test_jobs_of_the_night_are_done_and_archived(team: Team, tmp_path: Path) -> None:
    path = script(tmp_path, "print('ran')")
    drop(team, "job-1", f"run_script path={path}; helper.repeat text=${{1}}")
    drop(team, "job-2", "helper.repeat text=z; think about life")
    drop(team, "job-3", "repeat", context={"assignee": "helper", "action": "repeat", "params": {"text": "x"}})
    drop(
        team,
        "job-4",
        "a plan",
        context={"plan": {"steps": [step(1, "repeat", text="y")]}},
        priority="critical",
    )
    results = [await archived(team, f"job-{number}") for number in range(1, 5)]
    assert [result.status.value for result in results] == ["completed", "failed", "completed", "completed"]
    assert results[0].output == "2 of 2 steps completed\n\nran\n\n<ran>"
    assert "cannot work out what to do from words without a model" in results[1].error_message
    assert [result.metadata["job"]["id"] for result in results] == [f"job-{number}" for number in range(1, 5)]
    assert results[0].task_id.startswith("job-1-")
    await ended(team)
    status = await team.perform("cortex", "queue_status")
    assert status.metadata["counts"] == {"waiting": 0, "running": 0, "ended": 4, "refused": 0}


async def test_the_state_of_the_queue(team: Team) -> None:
    drop(team, "later", "look", run_at="2099-01-01T00:00:00Z", priority="low")
    drop(team, "wrong", " ")
    drop(team, "now", "helper.repeat text=a seconds=1")
    while await running(team) != ["now"]:
        await asyncio.sleep(0.02)
    status = await team.perform("cortex", "queue_status")
    assert status.output.startswith("Overnight queue: 1 waiting, 1 running, 0 done, 1 refused.")
    assert status.metadata["waiting"] == ["later"]
    assert status.metadata["running"] == ["now"]
    assert "task must be a non-empty string" in status.metadata["failed"][0]
    assert "- waiting: later, low: look; it waits until Thursday 1 January 2099 at " in status.output


async def test_two_cortex_processes_do_each_job_once(team: Team) -> None:
    await team.join(Cortex, CORTEX)
    for number in range(20):
        drop(team, f"job-{number}", f"helper.repeat text=n{number}")
    for number in range(20):
        assert (await archived(team, f"job-{number}")).output.endswith(f"<n{number}>")
    request = {"seq": 1, "next_by_subj": subjects.task("cortex", "cortex", "*", "*"), "batch": 100}
    steps = [stored.subject async for stored in team.user.read(subjects.OFFICE, request)]
    handed_out = [step for step in steps if step.rpartition(".")[2] in subjects.NEW.values()]
    assert len(handed_out) == 20


async def test_a_job_whose_process_died_before_its_end_was_stored_is_found_at_the_next_start(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(*_: object) -> None:
        """As if the process had died when the task ended."""

    with monkeypatch.context() as dying:
        dying.setattr(JobWorker, "end", die)
        drop(team, "left", "helper.repeat text=a")
        while not await running(team):
            await asyncio.sleep(0.02)
        (item,) = (await read_timetable(team.user, subjects.CORTEX)).items
        await team.result("cortex", "cortex", item.last)
        await team.leave(team.processes[-1].agent)
    assert await running(team) == ["left"]
    await team.join(Cortex, CORTEX)
    result = await archived(team, "left")
    assert (result.output.endswith("<a>"), result.task_id) == (True, item.last)
    await ended(team)


async def test_a_file_that_a_process_took_and_died_before_it_deleted_it_is_deleted(team: Team) -> None:
    queue = team.config.state_dir / "job_queue"
    drop(team, "once", "helper.repeat text=a")
    file = queue / "tonight" / "once.json"
    text, written = file.read_text(), file.stat().st_mtime_ns
    await archived(team, "once")
    await ended(team)
    draft = queue / "tonight" / ".once"
    draft.write_text(text)
    os.utime(draft, ns=(written, written))
    draft.rename(file)
    while file.exists():
        await asyncio.sleep(0.02)
    assert not list((queue / "failed").iterdir())
    drop(team, "once", "helper.repeat text=b")
    while not (queue / "failed" / "once.json").exists():
        await asyncio.sleep(0.02)
    assert "running or in the archive already" in (queue / "failed" / "once.json.reason").read_text()
    request = {"seq": 1, "next_by_subj": subjects.task("helper", "conductor", "*", "*"), "batch": 100}
    steps = [stored.subject async for stored in team.user.read(subjects.OFFICE, request)]
    assert sum(step.rpartition(".")[2] in subjects.NEW.values() for step in steps) == 1


async def test_a_job_survives_kill_9_of_cortex(tmp_path: Path) -> None:
    async with open_team(tmp_path, ["conductor", "cortex", "helper"]) as team:
        await team.join(Conductor, CONDUCTOR)
        await team.join(Helper, HELPER)
        first = start_cortex(team)
        try:
            queue = team.config.state_dir / "job_queue"
            while not (queue / "tonight").is_dir():
                await asyncio.sleep(0.02)
            drop(team, "job-1", "helper.repeat text=a seconds=1.5; helper.repeat text=b")
            while await running(team) != ["job-1"]:
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.5)
        finally:
            first.send_signal(signal.SIGKILL)
            first.wait()
        second = start_cortex(team)
        try:
            result = await archived(team, "job-1")
        finally:
            second.terminate()
            second.wait()
    assert result.output == "2 of 2 steps completed\n\n<a>\n\n<b>"
    assert {path.name for path in queue.iterdir() if any(path.iterdir())} == {"archive"}


def start_cortex(team: Team) -> subprocess.Popen[bytes]:
    environment = {
        "PATH": os.environ["PATH"],
        "NATS_URL": team.server.url,
        "MAILROOM_STATE_DIR": str(team.config.state_dir),
        "MAILROOM_TASK_ACK_WAIT": "2",
        "MAILROOM_NIGHT": "always",
        "MAILROOM_NIGHT_LOAD": "0",
    }
    return start_program(
        [sys.executable, "-m", "services.cortex"], environment, team.config.logs / "cortex.log"
    )
