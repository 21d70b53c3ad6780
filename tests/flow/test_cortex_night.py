"""The night shift: reports for the morning, jobs tried again or queued by an action, a full disk."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from services.cortex import job_queue as queue_module
from services.cortex.__main__ import Cortex
from services.cortex.job_queue import JobQueue
from services.cortex.jobs import Job, schedule_retry
from shared import subjects
from shared.bus.entry import seal
from shared.contracts import AgentReport, TaskResult, TaskStatus
from shared.errors import ActionError
from tests.flow.test_cortex_agent import CORTEX, HELPER, Helper, archived, drop, gone
from tests.flow.test_cortex_queue import result_of
from tests.support.team import Team, open_team

pytestmark = pytest.mark.timeout(30)


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, ["cortex", "helper", "nexus", "conductor"]) as team:
        await team.join(Helper, HELPER)
        await team.join(Cortex, CORTEX)
        yield team


@pytest.fixture
def queue(tmp_path: Path) -> JobQueue:
    queue = JobQueue(tmp_path / "job_queue")
    queue.make_folders()
    return queue


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


async def test_a_report_is_sent_once_though_the_claim_is_found_again(team: Team) -> None:
    drop(team, "twice", "helper.repeat text=a")
    result = await archived(team, "twice")
    queue = team.config.state_dir / "job_queue"
    claim = queue / "claimed" / f"{result.task_id}.json"
    await gone(claim)
    # As if cortex had died between the report and the end of the claim.
    claim.write_text('{"id": "twice", "task": "helper.repeat text=a"}')
    await gone(claim)
    assert len(await reports(team)) == 1
    assert len(list((queue / "archive").iterdir())) == 1


async def test_a_failed_job_is_tried_again_later_and_then_archived(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.cortex.jobs.RETRY_DELAYS", (0.1, 0.2))
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
    claimed = team.config.state_dir / "job_queue" / "claimed"
    while not list(claimed.glob("now-*")):
        await asyncio.sleep(0.02)
    for name in ("later", "now"):
        assert (await team.perform("cortex", "cancel_job", job_id=name, reason="no need")).output == (
            f"Job {name} is cancelled."
        )
        result = await archived(team, name)
        assert (result.status, result.error_message) == (TaskStatus.CANCELLED, "no need")
    assert [report.metadata["status"] for report in await reported(team, 2)] == ["cancelled"] * 2
    again = await team.perform("cortex", "cancel_job", job_id="now")
    assert "No job 'now' waits or runs" in again.error_message
    status = await team.perform("cortex", "queue_status")
    assert status.metadata["counts"] == {"tonight": 0, "claimed": 0, "archive": 2, "failed": 0}
    drop(team, "words", "Check up on the house")
    while not (goals := {goal_id async for goal_id in submitted(team)}):
        await asyncio.sleep(0.02)
    await team.perform("cortex", "cancel_job", job_id="words")
    wish = await team.user.last(subjects.OFFICE, subjects.mail(subjects.CONDUCTOR, "cortex"))
    assert wish is not None
    assert json.loads(wish.data)["goal_id"] in goals


def test_a_job_is_put_off_with_growing_delays() -> None:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    job = Job(id="a", task="x", retries=8)
    waits = []
    while waiting := schedule_retry(job, f"t{len(job.tried)}", now):
        waits.append((datetime.fromisoformat(waiting.run_at) - now).total_seconds())
        assert schedule_retry(waiting, waiting.tried[-1], now + timedelta(days=1)) == waiting, (
            "a repeat changes nothing"
        )
        job = waiting
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert schedule_retry(Job(id="a", task="x"), "t", now) is None
    with pytest.raises(ValueError, match="retries must be between 0 and 10"):
        Job(id="a", task="x", retries=11)


def test_a_job_that_is_put_back_waits_under_a_new_task(queue: JobQueue) -> None:
    (queue.tonight / "a.json").write_text('{"id": "a", "task": "x", "retries": 1}')
    (claimed,) = queue.take(1)
    waiting = schedule_retry(claimed.job, claimed.task_id, datetime.now(UTC) - timedelta(hours=1))
    assert waiting is not None
    queue.put_back(waiting, claimed.task_id)
    assert queue.count() == {"tonight": 1, "claimed": 0, "archive": 0, "failed": 0}
    (again,) = queue.take(1)
    assert again.job.tried == (claimed.task_id,)
    assert again.task_id != claimed.task_id


def test_another_tasks_result_in_the_archive_is_not_overwritten(queue: JobQueue) -> None:
    """A job's id was used before, under a claim made by hand: both results are kept."""
    earlier = queue.archive / "a.json"
    earlier.write_bytes(result_of("a-earlier", "kept").to_json())
    (queue.claimed / "a-later.json").write_text('{"id": "a", "task": "x"}')
    path = queue.store_result(result_of("a-later", "new"))
    assert path == queue.archive / "a-later.json"
    assert TaskResult.from_json(earlier.read_bytes()).output == "kept"
    assert TaskResult.from_json(path.read_bytes()).output == "new"
    earlier.write_text("{damaged")
    assert queue.store_result(result_of("a-later", "new")) == path
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
    tonight = team.config.state_dir / "job_queue" / "tonight"
    jobs = [json.loads((tonight / f"job-{day}-00{number}.json").read_text()) for number in (3, 4)]
    assert [job["by_agent"] for job in jobs] == [False, True], "the second's words are a step's, no person's"
    wrong = await team.perform("cortex", "queue_job", task="x", priority="now")
    assert "priority must be one of critical, high, medium, low" in wrong.error_message


def test_a_full_queue_takes_no_job(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "MAX_ACTIVE", 2)
    assert queue.drop(Job(id="new", task="x"), "20260102").id == "job-20260102-001"
    assert queue.drop(Job(id="new", task="x"), "20260102").id == "job-20260102-002"
    with pytest.raises(ActionError, match="The queue is full: 2 jobs are active"):
        queue.drop(Job(id="new", task="x"), "20260102")
    assert json.loads((queue.tonight / "job-20260102-001.json").read_text())["task"] == "x"


async def test_a_result_the_disk_refuses_is_archived_when_it_takes_it(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = JobQueue.store_result
    refused: list[str] = []

    def refuse(queue: JobQueue, result: TaskResult) -> Path | None:
        if len(refused) < 2:
            refused.append(result.task_id)
            raise OSError(28, "No space left on device")
        return stored(queue, result)

    monkeypatch.setattr(JobQueue, "store_result", refuse)
    drop(team, "full", "helper.repeat text=a")
    assert (await archived(team, "full")).output.endswith("<a>")
    assert len(set(refused)) == 1
