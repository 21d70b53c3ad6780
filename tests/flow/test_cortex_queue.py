"""The overnight queue: files that are dropped, results that are kept, and how it is described."""

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import msgspec
import pytest

from services.cortex.job_files import KEEP_DAYS, Job, JobFolder, job_of
from services.cortex.job_reports import describe_queue
from services.cortex.night_window import Night
from shared.contracts import ResultOutcome, TaskResult, TaskStatus
from shared.errors import ActionError
from shared.settings import Settings

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def queue(tmp_path: Path) -> JobFolder:
    queue = JobFolder(tmp_path / "job_queue")
    queue.make()
    return queue


def drop(queue: JobFolder, name: str, age: float = 60.0, **fields: object) -> Path:
    """A job file as somebody left it ``age`` seconds ago."""
    return drop_text(queue, name, json.dumps({"id": name, "task": "look", **fields}), age)


def drop_text(queue: JobFolder, name: str, text: str, age: float = 60.0) -> Path:
    path = queue.tonight / f"{name}.json"
    path.write_text(text)
    os.utime(path, (time.time() - age,) * 2)
    return path


def result_of(task_id: str, output: str = "done") -> TaskResult:
    return TaskResult(task_id=task_id, agent="cortex", status=TaskStatus.COMPLETED, output=output)


def night_of(tmp_path: Path, **settings: str) -> Night:
    chosen = Settings(state_dir=tmp_path, time_zone="UTC", **settings)  # type: ignore[arg-type]
    return Night(chosen, SimpleNamespace(name="cortex"), list)  # type: ignore[arg-type]


def reason(queue: JobFolder, name: str) -> str:
    return (queue.failed / f"{name}.json.reason").read_text()


def taken(queue: JobFolder) -> list[str]:
    """The ids of the jobs that are read, in the order in which they begin."""
    found = queue.scan(100)[0]
    return [each.job.id for each in sorted(found, key=lambda each: each.job.rank(None))]


def test_jobs_are_taken_by_priority_then_time_then_id(queue: JobFolder) -> None:
    drop(queue, "e", priority="low")
    drop(queue, "d", created_at="2026-01-02T00:00:00Z")
    drop(queue, "c", created_at="2026-01-01T00:00:00Z")
    drop(queue, "b", created_at="2026-01-01T00:00:00Z")
    drop(queue, "g", run_at="2026-11-20T00:00:00Z")
    drop(queue, "f", run_at="2026-11-19T00:00:00Z")
    drop(queue, "a", priority="HIGH")
    drop(queue, "z", priority="critical", created_at="2026-11-01T00:00:00Z")
    assert taken(queue) == ["z", "a", "b", "c", "d", "f", "g", "e"]


def test_files_written_earlier_come_first_where_nothing_else_tells(queue: JobFolder) -> None:
    drop(queue, "a", age=10)
    drop(queue, "b", age=30)
    assert taken(queue) == ["b", "a"]
    assert [each.job.id for each in queue.scan(1)[0]] == ["b"]


def test_a_job_waits_until_it_is_due(queue: JobFolder, tmp_path: Path) -> None:
    night = night_of(tmp_path, night="always")
    job = Job(id="later", task="x", run_at="2026-11-21T13:00:00+00:00")
    assert night.hold_reason(job, NOW) == "until Saturday 21 November 2026 at 13:00 (UTC)"
    assert night.hold_reason(job, NOW + timedelta(hours=1)) == ""


def test_a_run_at_without_a_zone_is_in_the_offices(monkeypatch: pytest.MonkeyPatch) -> None:
    in_tokyo = Job(id="b", task="x", run_at="2026-11-21T21:00:00")
    assert in_tokyo.begins_at(ZoneInfo("Asia/Tokyo")) == NOW
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        assert Job(id="a", task="x", run_at="2026-11-21T14:00:00").begins_at(None) == NOW
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{broken", "it is not valid JSON"),
        ("", "it is not valid JSON"),
        ("[1]", "it is not a job"),
        ('{"id": "x"}', "missing required field `task`"),
        ('{"id": "x", "task": " "}', "task must be a non-empty string"),
        ('{"id": "../../x", "task": "y"}', "id must be 1 to 80 letters"),
        (
            '{"id": "x", "task": "y", "priority": "now"}',
            "priority must be one of critical, high, medium, low",
        ),
        ('{"id": "x", "task": "y", "run_at": "tonight"}', "run_at must be an ISO 8601 date"),
        ('{"id": "x", "task": "y", "context": 5}', "Expected `object`"),
        ('{"id": "x", "task": "y", "context": {"a": ' + "[" * 100_000, "it is not valid JSON"),
        ('{"id": "x", "task": "' + "y" * 1_000_000 + '"}', "the limit is 1,000,000"),
    ],
)
def test_what_is_no_job_goes_to_failed_with_its_reason(queue: JobFolder, text: str, words: str) -> None:
    drop_text(queue, "bad", text)
    drop(queue, "good")
    assert taken(queue) == ["good"]
    assert (queue.failed / "bad.json").read_text() == text
    assert words in reason(queue, "bad")
    assert [path.name for path in queue.tonight.iterdir()] == ["good.json"]


def test_links_pipes_and_folders_are_not_followed(queue: JobFolder, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"id": "secret", "task": "x"}')
    (queue.tonight / "link.json").symlink_to(secret)
    (queue.tonight / "loose.json").symlink_to(tmp_path / "nowhere")
    os.mkfifo(queue.tonight / "pipe.json")
    (queue.tonight / "folder.json").mkdir()
    assert taken(queue) == []
    assert "it is a link" in reason(queue, "link")
    assert "it is a link" in reason(queue, "loose")
    assert "not a regular file" in reason(queue, "pipe")
    assert "not a regular file" in reason(queue, "folder")
    assert secret.exists()
    assert list(queue.tonight.iterdir()) == []


@pytest.mark.parametrize("name", ["\udcff", "x" * 250, "ü" * 125])
def test_a_name_that_is_no_text_or_too_long_for_a_note_stops_nothing(queue: JobFolder, name: str) -> None:
    drop_text(queue, name, "{broken")
    drop(queue, "good")
    assert taken(queue) == ["good"]
    assert "it is not valid JSON" in queue.reasons()[0]
    assert len(list(queue.failed.iterdir())) == 2


def test_the_state_of_the_queue_counts_what_it_lists(queue: JobFolder, tmp_path: Path) -> None:
    drop_text(queue, "broken", "{")
    drop_text(queue, "coming", '{"id": "com', age=0)
    assert queue.scan(10) == ([], 1)
    told = describe_queue([], queue, night_of(tmp_path), NOW, 1).output.splitlines()
    assert told[0] == (
        "Overnight queue: 1 waiting, 0 running, 0 done, 1 refused. "
        "The night begins on Saturday 21 November 2026 at 22:00 (UTC)."
    )
    assert told[1] == "- waiting: 1 that cannot be read yet, perhaps half-written"
    assert told[2].startswith("- refused: broken.json: it is not valid JSON")


def test_other_files_are_left_alone(queue: JobFolder) -> None:
    for name in (".hidden.json", "notes.txt", "job.json.tmp"):
        (queue.tonight / name).write_text("x")
    assert taken(queue) == []
    assert len(list(queue.tonight.iterdir())) == 3


def test_a_half_written_file_is_left_until_it_is_whole(queue: JobFolder) -> None:
    path = drop_text(queue, "slow", '{"id": "slow", "ta', age=0)
    assert taken(queue) == []
    assert path.exists()
    path.write_text('{"id": "slow", "task": "look"}')
    assert taken(queue) == ["slow"]


def test_the_same_name_can_fail_twice(queue: JobFolder) -> None:
    for text in ("one", "two"):
        drop_text(queue, "bad", text)
        taken(queue)
    assert (queue.failed / "bad.json").read_text() == "one"
    assert (queue.failed / "bad-1.json").read_text() == "two"
    assert (queue.failed / "bad-1.json.reason").exists()


def test_a_result_is_archived_once_however_often_it_comes(queue: JobFolder) -> None:
    job = Job(id="job-20260102-001", task="look")
    for _ in range(2):
        path = queue.store_result(job, result_of("t1"))
        assert path == queue.archive / "job-20260102-001.json"
    stored = TaskResult.from_json(path.read_bytes())
    assert stored.task_id == "t1"
    assert stored.metadata["job"]["task"] == "look"
    assert len(list(queue.archive.iterdir())) == 1
    assert queue.is_archived("job-20260102-001")


def test_the_digest_names_the_file_as_it_was_dropped(queue: JobFolder) -> None:
    path = drop(queue, "a")
    (first,), _ = queue.scan(1)
    assert queue.scan(1)[0][0].digest == first.digest
    os.utime(path, (1, 1))
    assert queue.scan(1)[0][0].digest != first.digest
    queue.remove(first)
    assert path.exists(), "another file was put in its place"
    queue.remove(queue.scan(1)[0][0])
    assert not path.exists()


def test_old_results_are_deleted(queue: JobFolder) -> None:
    for name, days in (("old", KEEP_DAYS + 1), ("young", KEEP_DAYS - 1)):
        path = queue.archive / f"{name}.json"
        path.write_text("{}")
        os.utime(path, (time.time() - days * 86_400,) * 2)
    assert queue.prune() == 1
    assert [path.name for path in queue.archive.iterdir()] == ["young.json"]


def test_what_was_no_job_is_forgotten_after_as_long(queue: JobFolder) -> None:
    (queue.tonight / "a.JSON").write_text('{"id": "a", "task": " "}')
    (queue.tonight / "b.json").symlink_to(queue.tonight)
    (queue.tonight / "c.json").mkdir()
    (queue.tonight / "d.json").write_text(json.dumps({"id": "d", "task": "x" * 100_001}))
    assert taken(queue) == []
    assert "limit is 100,000" in (queue.failed / "d.json.reason").read_text()
    assert queue.prune() == 0
    assert queue.prune(time.time() + (KEEP_DAYS + 1) * 86_400) == 4
    assert [path.name for path in queue.failed.iterdir()] == ["c.json"]


def test_jobs_as_data() -> None:
    assert job_of({"id": "a", "task": "x", "note": "more is allowed"}).priority == "medium"
    with pytest.raises(ActionError, match=r"This is not a job: .*task"):
        job_of({"id": "a"})


def test_jobs_that_ended_and_are_not_done_are_told_apart(queue: JobFolder, tmp_path: Path) -> None:
    broken = msgspec.structs.replace(result_of("x"), status=TaskStatus.FAILED, error_message="step 2 failed")
    unsure = msgspec.structs.replace(result_of("x", "no tests"), outcome=ResultOutcome.NOT_CHECKED)
    for name, result in {"good": result_of("x"), "broken": broken, "open": unsure}.items():
        queue.store_result(Job(id=name, task="look"), result)
    told = describe_queue([], queue, night_of(tmp_path), NOW, 0)
    assert told.output.startswith("Overnight queue: 0 waiting, 0 running, 1 done, 2 not done, 0 refused.")
    assert sorted(told.data["undone"]) == ["failed: broken: step 2 failed", "not checked: open: no tests"]
