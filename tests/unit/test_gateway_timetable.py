"""The night's files, whatever is dropped there; the order of what comes; what changed in a briefing."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from services.gateway.api.memory import diff_lines
from services.gateway.night_queue import list_items, read_night_queue
from shared.contracts import Due, DueKind, DueStatus, Goal, NightState
from shared.settings import Settings
from shared.views.listed import NightJob, NightQueue

ZONE = ZoneInfo("Europe/Zurich")


def read(state_dir: Path, now: datetime | None = None, **settings: str) -> NightQueue:
    chosen = Settings(state_dir=state_dir, **{"night": "always", "time_zone": "Europe/Zurich", **settings})
    return read_night_queue(chosen, NightState(held="the machine is busy"), now=now)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    queue = read(tmp_path)
    assert not queue.reachable
    assert queue.jobs == []


def test_whatever_is_dropped_is_read_without_harm(tmp_path: Path) -> None:
    night = tmp_path / "job_queue" / "tonight"
    night.mkdir(parents=True)
    (night / "a.json").write_text(json.dumps({"id": "a", "task": "Count\nthe   gulls", "priority": "high"}))
    (night / "broken.json").write_text("{")
    (night / "list.json").write_text("[1]")
    (night / "binary.json").write_bytes(b"\xff\xfe")
    (night / "deep.json").write_text("[" * 100_000)
    (night / "folder.json").mkdir()
    (night / "link.json").symlink_to("/etc/passwd")
    os.mkfifo(night / "pipe.json")
    (night / ".hidden.json").write_text("{}")
    with (night / "huge.json").open("wb") as file:
        file.truncate(50_000_000)
    queue = read(tmp_path)
    found = {job.id: job for job in queue.jobs}
    assert found["a"].task == "Count the gulls"
    assert {"broken", "list", "binary", "deep", "folder", "link", "pipe", "huge"} <= found.keys()
    assert all(not job.task for job in queue.jobs if job.id != "a")
    assert ".hidden" not in found
    assert queue.counts["waiting"] == 9


def test_what_ended_and_what_was_refused(tmp_path: Path) -> None:
    folder = tmp_path / "job_queue"
    for name in ("archive", "failed"):
        (folder / name).mkdir(parents=True)
    result = {"task_id": "t1", "status": "failed", "metadata": {"job": {"task": "Count the gulls"}}}
    (folder / "archive" / "a.json").write_text(json.dumps(result))
    (folder / "failed" / "b.json").write_text("{")
    (folder / "failed" / "b.json.reason").write_text("b.json: it is not valid JSON\n")
    ended, refused = read(tmp_path).jobs
    assert (ended.id, ended.outcome, ended.task, ended.task_id) == ("a", "failed", "Count the gulls", "t1")
    assert refused.reason == "b.json: it is not valid JSON"


def make_due(due_id: str, at: datetime, what: DueKind = DueKind.MAIL, **more: Any) -> Due:
    return Due(due_id=due_id, what=what, text=due_id, requester="user", at=at.isoformat(), **more)


def test_what_comes_next_comes_first() -> None:
    now = datetime.now(UTC)
    daily = "DTSTART:20240101T070000\nRRULE:FREQ=DAILY"
    dues = [
        make_due("r1", now + timedelta(days=9)),
        make_due("r2", now - timedelta(days=1), status=DueStatus.FIRED),
        make_due("morning", now + timedelta(hours=5), DueKind.BRIEFING, repeats=daily),
        make_due("s1", datetime(2098, 1, 1, 6, tzinfo=UTC), DueKind.GOAL, repeats=daily),
        make_due("s2", now, DueKind.GOAL, repeats=daily, status=DueStatus.PAUSED),
    ]
    jobs = [
        NightJob(id="j1", state="waiting", task="at once"),
        NightJob(id="j2", state="waiting", run_at="2099-01-01T02:00:00"),
        NightJob(id="j3", state="waiting", run_at="whenever"),
        NightJob(id="j4", state="ended", task="over"),
    ]
    goal = Goal(
        goal_id="g1",
        text="x",
        requester="user",
        submitted_at=now.isoformat(),
        deadline="2098-01-01T00:00:00+00:00",
    )
    found = list_items(dues, NightQueue(reachable=True, jobs=jobs), [goal], ZONE)
    assert [each.id for each in found] == ["j1", "j3", "morning", "r1", "g1", "s1", "j2", "r2", "s2"]
    waiting = [datetime.fromisoformat(each.at) for each in found if each.waits]
    assert waiting == sorted(waiting)
    by_id = {each.id: each for each in found}
    assert by_id["j2"].at == "2099-01-01T01:00:00+00:00"
    assert (by_id["s1"].every, len(by_id["s1"].next_runs)) == ("every day at 07:00", 3)
    assert (by_id["s2"].status, by_id["s2"].next_runs) == ("paused", [])


def test_the_difference_of_two_briefings() -> None:
    old = "\n".join(f"line {number}" for number in range(20))
    lines = diff_lines(old, old.replace("line 10", "line ten"))
    assert [(line.kind, line.text) for line in lines] == [
        ("skipped", "7"),
        *[("same", f"line {number}") for number in (7, 8, 9)],
        ("removed", "line 10"),
        ("added", "line ten"),
        *[("same", f"line {number}") for number in (11, 12, 13)],
        ("skipped", "6"),
    ]
    assert diff_lines(old, old) == []
    assert [line.kind for line in diff_lines("", "a\nb")] == ["added", "added"]


def test_jobs_say_what_they_wait_for(tmp_path: Path) -> None:
    night = tmp_path / "job_queue" / "tonight"
    night.mkdir(parents=True)
    for name, more in (("a", {}), ("b", {"when": "now"}), ("c", {"run_at": "2026-11-23T12:00:00"})):
        (night / f"{name}.json").write_text(json.dumps({"id": name, "task": "Look", **more}))
    noon = datetime(2026, 11, 23, 12, tzinfo=ZONE)
    by_day = read(tmp_path, noon, night="22:00-06:00")
    reasons = {job.id: job.reason for job in by_day.jobs}
    assert reasons == {"a": "waits for the night (22:00 to 06:00)", "b": "", "c": "the machine is busy"}
    assert not by_day.is_night
    moments = {each.id: each.at for each in list_items([], by_day, [], ZONE)}
    assert moments["a"] == "2026-11-23T21:00:00+00:00"
    assert moments["c"] == "2026-11-23T11:00:00+00:00"
    at_night = read(tmp_path, noon + timedelta(hours=11), night="22:00-06:00")
    assert at_night.is_night
    assert at_night.jobs[0].reason == "the machine is busy"


def test_jobs_are_shown_as_they_are_recorded_though_their_folder_is_elsewhere(tmp_path: Path) -> None:
    noon = datetime(2026, 11, 23, 12, tzinfo=ZONE)
    job = {"id": "a", "task": "Look", "run_at": "2026-11-23T12:00:00", "priority": "high"}
    items = [
        make_due("a", noon, DueKind.JOB, job=job),
        make_due("b", noon, DueKind.JOB, job={"id": "b", "task": "x"}, status=DueStatus.WORKING, last="b-1"),
        make_due("c", noon, DueKind.JOB, job={"id": "c", "task": "x"}, status=DueStatus.DONE),
    ]
    settings = Settings(state_dir=tmp_path / "elsewhere", time_zone="Europe/Zurich")
    queue = read_night_queue(settings, NightState(held="the machine is busy"), items, noon)
    waiting, running = queue.jobs
    assert (queue.reachable, queue.counts["waiting"], queue.counts["running"]) == (False, 1, 1)
    assert (waiting.id, waiting.priority, waiting.reason) == ("a", "high", "the machine is busy")
    assert (running.id, running.state, running.task_id) == ("b", "running", "b-1")
