"""The night shift: reports for the morning, jobs tried again or queued by an action, a full disk."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from services.conductor.__main__ import Conductor
from services.cortex import job_worker
from services.cortex.__main__ import Cortex
from services.cortex.job_files import Job, JobFolder, schedule_retry
from shared import subjects
from shared.bus.entry import seal
from shared.contracts import AgentReport, DueKind, TaskResult, TaskStatus
from shared.timetable import LIMITS, Known, TimetableKeeper, read_timetable
from tests.flow.test_cortex_agent import CONDUCTOR, CORTEX, HELPER, Helper, archived, drop, ended, running
from tests.flow.test_cortex_queue import result_of
from tests.support.team import Team, open_team

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, ["cortex", "helper", "nexus", "conductor"]) as team:
        await team.join(Conductor, CONDUCTOR)
        await team.join(Helper, HELPER)
        await team.join(Cortex, CORTEX)
        yield team


async def reports(team: Team) -> list[AgentReport]:
    request = {"seq": 1, "next_by_subj": subjects.mail(subjects.NEXUS, "cortex"), "batch": 100}
    return [AgentReport.from_json(stored.data) async for stored in team.user.read(subjects.OFFICE, request)]


async def reported(team: Team, count: int) -> list[AgentReport]:
    while len(found := await reports(team)) < count:
        await asyncio.sleep(0.02)
    return found


async def test_nexus_gets_one_report_of_each_job_that_ended(team: Team) -> None:
    drop(team, "good", "helper.repeat text=a", priority="high")
    (good,) = await reported(team, 1)
    drop(team, "bad", "helper.fail")
    bad = (await reported(team, 2))[1]
    assert (good.report_type, good.agent, good.recipient) == ("overnight_job", "cortex", "nexus")
    assert good.summary == "Overnight job good completed: 1 of 1 step completed <a>"
    assert (good.metadata["job_id"], good.metadata["priority"]) == ("good", "high")
    assert good.evidence_refs == ("heard:a",)
    assert good.output_paths[-1].endswith("archive/good.json")
    assert "Overnight job bad failed: 0 of 1 step completed" in bad.summary


async def test_a_job_in_words_becomes_a_goal_and_ends_with_its_report_though_cortex_was_away(
    team: Team,
) -> None:
    drop(team, "words", "Check up on the house")
    while (stored := await team.user.last(subjects.OFFICE, subjects.submitted_by("cortex"))) is None:
        await asyncio.sleep(0.02)
    goal = json.loads(stored.data)
    assert (goal["text"], goal["requester"]) == ("Check up on the house", "cortex")
    await team.leave(team.processes[-1].agent)
    conductor = await team.connect(subjects.CONDUCTOR)
    report = AgentReport(
        sender=subjects.CONDUCTOR,
        recipient="cortex",
        goal_id=goal["goal_id"],
        report_id=goal["goal_id"],
        agent=subjects.CONDUCTOR,
        report_type="checkup",
        summary="The house stands.",
        output_paths=("/outputs/report.md",),
        metadata={"status": "completed"},
    )
    await conductor.commit([seal(subjects.mail("cortex", subjects.CONDUCTOR), report)])
    await team.join(Cortex, CORTEX)
    result = await archived(team, "words")
    assert (result.status, result.output) == (TaskStatus.COMPLETED, "The house stands.")
    assert result.output_paths == ("/outputs/report.md",)
    (told,) = await reported(team, 1)
    assert told.summary == "Overnight job words completed: The house stands."
    goals = {message async for message in submitted(team)}
    assert goals == {goal["goal_id"]}


async def submitted(team: Team) -> AsyncIterator[str]:
    request = {"seq": 1, "next_by_subj": subjects.SUBMISSIONS, "batch": 100}
    async for stored in team.user.read(subjects.OFFICE, request):
        yield str(json.loads(stored.data)["goal_id"])


async def test_a_report_is_sent_once_though_the_end_comes_again(team: Team) -> None:
    drop(team, "twice", "helper.repeat text=a")
    result = await archived(team, "twice")
    await ended(team)
    cortex = team.processes[-1].agent
    for _ in range(2):  # as the broker does if a process dies before it acknowledges the result
        await cortex.on_result(result)
    assert len(await reports(team)) == 1
    assert len(list((team.config.state_dir / "job_queue" / "archive").iterdir())) == 1


async def test_a_failed_job_is_tried_again_later_and_then_archived(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.cortex.job_files.RETRY_DELAYS", (0.1, 0.2))
    drop(team, "flaky", "helper.fail", retries=2)
    result = await archived(team, "flaky")
    assert result.status is TaskStatus.FAILED
    job = result.metadata["job"]
    assert len(set(job["tried"])) == 2
    assert result.task_id not in job["tried"]
    (report,) = await reported(team, 1)
    assert "failed after 3 attempts" in report.summary


async def test_a_job_that_waits_or_runs_can_be_cancelled_and_is_answered(team: Team) -> None:
    drop(team, "later", "helper.repeat text=a", run_at="2099-01-01T00:00:00Z", retries=3)
    drop(team, "now", "helper.repeat text=a seconds=20")
    while await running(team) != ["now"]:
        await asyncio.sleep(0.02)
    for name in ("later", "now"):
        assert (await team.perform("cortex", "cancel_job", job_id=name, reason="no need")).output == (
            f"Job {name} is cancelled: helper.repeat text=a{' seconds=20' if name == 'now' else ''}"
        )
        result = await archived(team, name)
        assert (result.status, result.error_message) == (TaskStatus.CANCELLED, "no need")
    assert [report.metadata["status"] for report in await reported(team, 2)] == ["cancelled"] * 2
    again = await team.perform("cortex", "cancel_job", job_id="now")
    assert "No job 'now' waits or runs" in again.error_message
    status = await team.perform("cortex", "queue_status")
    assert status.metadata["counts"] == {"waiting": 0, "running": 0, "ended": 2, "refused": 0}
    known = {goal_id async for goal_id in submitted(team)}
    drop(team, "words", "Check up on the house")
    while not (goals := {goal_id async for goal_id in submitted(team)} - known):
        await asyncio.sleep(0.02)
    await team.perform("cortex", "cancel_job", job_id="words")
    # The process that works on the job tells the conductor when it learns of it.
    while (
        wish := await team.user.last(subjects.OFFICE, subjects.mail(subjects.CONDUCTOR, "cortex"))
    ) is None or (json.loads(wish.data)["goal_id"] not in goals):
        await asyncio.sleep(0.02)


def test_a_job_is_put_off_with_growing_delays() -> None:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    job = Job(id="a", task="x", retries=8)
    waits = []
    while waiting := schedule_retry(job, f"t{len(job.tried)}", now):
        waits.append((datetime.fromisoformat(waiting.run_at) - now).total_seconds())
        job = waiting
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert schedule_retry(Job(id="a", task="x"), "t", now) is None
    with pytest.raises(ValueError, match="retries must be between 0 and 10"):
        Job(id="a", task="x", retries=11)


def test_another_tasks_result_in_the_archive_is_not_overwritten(tmp_path: Path) -> None:
    """A job's id was used before there was a record of it: both results are kept."""
    folder = JobFolder(tmp_path / "job_queue")
    folder.make()
    job, earlier = Job(id="a", task="x"), folder.archive / "a.json"
    earlier.write_bytes(result_of("a-earlier", "kept").to_json())
    path = folder.store_result(job, result_of("a-later", "new"))
    assert path == folder.archive / "a-later.json"
    assert TaskResult.from_json(earlier.read_bytes()).output == "kept"
    assert TaskResult.from_json(path.read_bytes()).output == "new"
    earlier.write_text("{damaged")
    assert folder.store_result(job, result_of("a-later", "new")) == path
    assert earlier.read_text() == "{damaged"


async def test_jobs_are_queued_under_ids_of_the_day(team: Team) -> None:
    terms: dict[str, Any] = {"run_at": "2099-01-01T00:00:00Z", "priority": "critical", "retries": 1}
    first = await team.perform("cortex", "queue_job", task="helper.repeat text=a", **terms)
    second = await team.perform("cortex", "queue_job", task="helper.repeat text=b")
    day = datetime.now().astimezone().strftime("%Y%m%d")
    assert (first.metadata["id"], second.metadata["id"]) == (f"job-{day}-001", f"job-{day}-002")
    assert (await archived(team, second.metadata["id"])).output.endswith("<b>")
    status = await team.perform("cortex", "queue_status")
    assert status.metadata["waiting"] == [f"job-{day}-001"]
    third = await team.perform(
        "cortex", "queue_job", task="helper.repeat text=c", run_at="2099-01-01T00:00:00Z"
    )
    assert third.metadata["id"] == f"job-{day}-003"
    later = {"task": "${1}", "run_at": "2099-01-01T00:00:00Z"}
    steps = [
        {"step_number": 1, "action": "helper.repeat text=run_script"},
        {"step_number": 2, "action": "q", "context": {"action": "queue_job", "params": later}}
        | {"dependencies": [1]},
    ]
    await team.perform("cortex", "execute_plan", plan={"steps": steps})
    known = (await read_timetable(team.user, subjects.CORTEX)).records
    jobs = [known[f"job-{day}-00{number}"].value.job for number in (3, 4)]
    assert [job["by_agent"] for job in jobs] == [False, True], "the second's words are a step's, no person's"
    wrong = await team.perform("cortex", "queue_job", task="x", priority="now")
    assert "priority must be one of critical, high, medium, low" in wrong.error_message


async def test_a_full_queue_takes_no_job_and_leaves_files(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_worker, "MAX_ACTIVE", 2)
    limit = LIMITS[DueKind.JOB]
    monkeypatch.setitem(LIMITS, DueKind.JOB, limit._replace(kept=2))
    for number in range(4):
        drop(team, f"j{number}", "helper.repeat text=a", run_at="2099-01-01T00:00:00Z")
        await asyncio.sleep(0.01)
    while len((await read_timetable(team.user, subjects.CORTEX)).items) < 2:
        await asyncio.sleep(0.02)
    full = await team.perform("cortex", "queue_job", task="x", run_at="2099-01-01T00:00:00Z")
    assert "The queue is full" in full.error_message
    tonight = team.config.state_dir / "job_queue" / "tonight"
    assert sorted(path.name for path in tonight.iterdir()) == ["j2.json", "j3.json"]
    await team.perform("cortex", "cancel_job", job_id="j0")
    while len(list(tonight.iterdir())) == 2:
        await asyncio.sleep(0.02)
    assert [path.name for path in tonight.iterdir()] == ["j3.json"]


async def test_an_idle_look_reads_no_job(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    drop(team, "later", "helper.repeat text=a", run_at="2099-01-01T00:00:00Z")
    while not (await read_timetable(team.user, subjects.CORTEX)).items:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    reads = []
    read = TimetableKeeper.read

    async def count(keeper: TimetableKeeper) -> Known:
        reads.append(1)
        return await read(keeper)

    monkeypatch.setattr(TimetableKeeper, "read", count)
    await asyncio.sleep(0.5)
    assert not reads


async def test_a_result_the_disk_refuses_is_archived_when_it_takes_it(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = JobFolder.store_result
    refused: list[str] = []

    def refuse(folder: JobFolder, job: Job, result: TaskResult) -> Path:
        if len(refused) < 2:
            refused.append(result.task_id)
            raise OSError(28, "No space left on device")
        return stored(folder, job, result)

    monkeypatch.setattr(JobFolder, "store_result", refuse)
    drop(team, "full", "helper.repeat text=a")
    assert (await archived(team, "full")).output.endswith("<a>")
    assert len(set(refused)) == 1
