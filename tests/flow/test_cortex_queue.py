"""The overnight queue: real files, and processes that take them at the same time or die over them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import msgspec
import pytest

from services.cortex import job_queue as queue_module
from services.cortex.job_queue import KEEP_DAYS, JobQueue
from services.cortex.jobs import Job, job_of
from services.cortex.night import Night
from services.cortex.queue_status import describe_queue
from shared.contracts import ResultOutcome, TaskResult, TaskStatus
from shared.errors import ActionError
from shared.settings import Settings

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def queue(tmp_path: Path) -> JobQueue:
    queue = JobQueue(tmp_path / "job_queue")
    queue.make_folders()
    return queue


def drop(queue: JobQueue, name: str, age: float = 60.0, **fields: object) -> Path:
    """A job file as somebody left it ``age`` seconds ago."""
    return drop_text(queue, name, json.dumps({"id": name, "task": "look", **fields}), age)


def drop_text(queue: JobQueue, name: str, text: str, age: float = 60.0) -> Path:
    path = queue.tonight / f"{name}.json"
    path.write_text(text)
    os.utime(path, (time.time() - age,) * 2)
    return path


def result_of(task_id: str, output: str = "done") -> TaskResult:
    return TaskResult(task_id=task_id, agent="cortex", status=TaskStatus.COMPLETED, output=output)


def finish(queue: JobQueue, task_id: str) -> None:
    queue.store_result(result_of(task_id))
    queue.end_claim(task_id)


def reason(queue: JobQueue, name: str) -> str:
    return (queue.failed / f"{name}.json.reason").read_text()


def test_jobs_are_taken_by_priority_then_time_then_id(queue: JobQueue) -> None:
    drop(queue, "e", priority="low")
    drop(queue, "d", created_at="2026-01-02T00:00:00Z")
    drop(queue, "c", created_at="2026-01-01T00:00:00Z")
    drop(queue, "b", created_at="2026-01-01T00:00:00Z")
    drop(queue, "g", run_at="2026-11-20T00:00:00Z")
    drop(queue, "f", run_at="2026-11-19T00:00:00Z")
    drop(queue, "a", priority="HIGH")
    drop(queue, "z", priority="critical", created_at="2026-11-01T00:00:00Z")
    taken = [claimed.job.id for claimed in queue.take(100, NOW)]
    assert taken == ["z", "a", "b", "c", "d", "f", "g", "e"]
    assert queue.count() == {"tonight": 0, "claimed": 8, "archive": 0, "failed": 0}


def test_files_written_earlier_come_first_where_nothing_else_tells(queue: JobQueue) -> None:
    drop(queue, "a", age=10)
    drop(queue, "b", age=30)
    assert [claimed.job.id for claimed in queue.take(1, NOW)] == ["b"]
    assert [claimed.job.id for claimed in queue.take(1, NOW)] == ["a"]


def test_a_job_waits_until_it_is_due(queue: JobQueue) -> None:
    drop(queue, "later", run_at="2026-11-21T13:00:00+00:00")
    assert queue.take(10, NOW) == []
    assert queue.take(10, NOW + timedelta(hours=1))[0].job.id == "later"


def test_a_run_at_without_a_zone_is_in_the_offices(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    in_tokyo = Job(id="b", task="x", run_at="2026-11-21T21:00:00")
    assert in_tokyo.is_due(NOW, ZoneInfo("Asia/Tokyo"))
    assert not in_tokyo.is_due(NOW - timedelta(minutes=1), ZoneInfo("Asia/Tokyo"))
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        job = Job(id="a", task="x", run_at="2026-11-21T14:00:00")
        assert job.is_due(NOW, None)
        assert not job.is_due(NOW - timedelta(minutes=1), None)
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
def test_what_is_no_job_goes_to_failed_with_its_reason(queue: JobQueue, text: str, words: str) -> None:
    drop_text(queue, "bad", text)
    drop(queue, "good")
    assert [claimed.job.id for claimed in queue.take(10, NOW)] == ["good"]
    assert (queue.failed / "bad.json").read_text() == text
    assert words in reason(queue, "bad")
    assert list(queue.tonight.iterdir()) == []


def test_links_pipes_and_folders_are_not_followed(queue: JobQueue, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"id": "secret", "task": "x"}')
    (queue.tonight / "link.json").symlink_to(secret)
    (queue.tonight / "loose.json").symlink_to(tmp_path / "nowhere")
    os.mkfifo(queue.tonight / "pipe.json")
    (queue.tonight / "folder.json").mkdir()
    assert queue.take(10, NOW) == []
    assert "it is a link" in reason(queue, "link")
    assert "it is a link" in reason(queue, "loose")
    assert "not a regular file" in reason(queue, "pipe")
    assert "not a regular file" in reason(queue, "folder")
    assert secret.exists()
    assert list(queue.tonight.iterdir()) == []


@pytest.mark.parametrize("name", ["\udcff", "x" * 250, "ü" * 125])
def test_a_name_that_is_no_text_or_too_long_for_a_note_stops_nothing(queue: JobQueue, name: str) -> None:
    drop_text(queue, name, "{broken")
    drop(queue, "good")
    assert [claimed.job.id for claimed in queue.take(10, NOW)] == ["good"]
    assert "it is not valid JSON" in queue.refused.reasons()[0]
    assert len(list(queue.failed.iterdir())) == 2


def test_the_state_of_the_queue_counts_what_it_lists(tmp_path: Path) -> None:
    settings, bus = Settings(state_dir=tmp_path, time_zone="UTC"), SimpleNamespace(name="cortex")
    queue, night = JobQueue(tmp_path / "job_queue"), Night(settings, bus, list)  # type: ignore[arg-type]
    queue.make_folders()
    drop_text(queue, "broken", "{")
    drop_text(queue, "coming", '{"id": "com', age=0)
    told = describe_queue(queue, night, NOW).output.splitlines()
    assert told[0] == (
        "Overnight queue: 1 waiting, 0 running, 0 done, 1 refused. "
        "The night begins on Saturday 21 November 2026 at 22:00 (UTC)."
    )
    assert told[1] == "- waiting: 1 that cannot be read yet, perhaps half-written"
    assert told[2].startswith("- refused: broken.json: it is not valid JSON")


def test_other_files_are_left_alone(queue: JobQueue) -> None:
    for name in (".hidden.json", "notes.txt", "job.json.tmp"):
        (queue.tonight / name).write_text("x")
    assert queue.take(10, NOW) == []
    assert len(list(queue.tonight.iterdir())) == 3


def test_a_half_written_file_is_left_until_it_is_whole(queue: JobQueue) -> None:
    path = drop_text(queue, "slow", '{"id": "slow", "ta', age=0)
    assert queue.take(10, NOW) == []
    assert path.exists()
    path.write_text('{"id": "slow", "task": "look"}')
    assert [claimed.job.id for claimed in queue.take(10, NOW)] == ["slow"]


def test_the_same_name_can_fail_twice(queue: JobQueue) -> None:
    for text in ("one", "two"):
        drop_text(queue, "bad", text)
        queue.take(1, NOW)
    assert (queue.failed / "bad.json").read_text() == "one"
    assert (queue.failed / "bad-1.json").read_text() == "two"
    assert (queue.failed / "bad-1.json.reason").exists()


def test_a_result_is_archived_once_however_often_it_comes(queue: JobQueue) -> None:
    drop(queue, "job-20260102-001")
    (claimed,) = queue.take(1, NOW)
    copy = claimed.path.read_bytes()
    path = queue.store_result(result_of(claimed.task_id))
    assert path == queue.archive / "job-20260102-001.json"
    queue.end_claim(claimed.task_id)
    assert not claimed.path.exists()
    stored = TaskResult.from_json(path.read_bytes())
    assert stored.task_id == claimed.task_id
    assert stored.metadata["job"]["task"] == "look"
    assert queue.store_result(result_of(claimed.task_id)) is None
    # As if the process had died between storing the result and ending the claim.
    claimed.path.write_bytes(copy)
    assert queue.store_result(result_of(claimed.task_id)) == path
    queue.end_claim(claimed.task_id)
    assert len(list(queue.archive.iterdir())) == 1
    assert queue.store_result(result_of("somebody-elses-task")) is None


def test_an_id_is_used_once(queue: JobQueue) -> None:
    drop(queue, "a")
    (claimed,) = queue.take(1, NOW)
    drop_text(queue, "a-again", '{"id": "a", "task": "other"}')
    assert queue.take(1, NOW) == []
    assert "running or in the archive already" in reason(queue, "a-again")
    finish(queue, claimed.task_id)
    drop(queue, "a")
    assert queue.take(1, NOW) == []
    assert "running or in the archive already" in reason(queue, "a")


def test_the_task_id_follows_from_the_file(queue: JobQueue) -> None:
    path = drop(queue, "a")
    first = queue.scan()[0][0].task_id
    assert JobQueue(queue.tonight.parent).scan()[0][0].task_id == first
    os.utime(path, (1, 1))
    assert queue.scan()[0][0].task_id != first
    assert first.startswith("a-")


def test_an_idle_look_reads_nothing(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(queue.tonight, (1, 1))
    assert queue.take(1, NOW) == []

    def refuse(_: JobQueue) -> None:
        raise AssertionError("looked although nothing changed")

    monkeypatch.setattr(JobQueue, "scan", refuse)
    assert queue.take(1, NOW) == []
    drop(queue, "a")
    with pytest.raises(AssertionError, match="nothing changed"):
        queue.take(1, NOW)


def test_no_more_jobs_are_active_than_allowed(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_module, "MAX_ACTIVE", 5)
    for number in range(8):
        drop(queue, f"j{number}", age=100 - number, priority="high" if number == 7 else "low")
    assert len(queue.take(3, NOW)) == 3
    assert [entry.job.id for entry in queue.scan()[0]] == ["j3", "j4"]
    for claimed in queue.find_claimed():
        finish(queue, claimed.task_id)
    assert [claimed.job.id for claimed in queue.take(3, NOW)] == ["j7", "j3", "j4"]


def test_old_results_are_deleted(queue: JobQueue) -> None:
    for name, days in (("old", KEEP_DAYS + 1), ("young", KEEP_DAYS - 1)):
        path = queue.archive / f"{name}.json"
        path.write_text("{}")
        os.utime(path, (time.time() - days * 86_400,) * 2)
    assert queue.prune() == 1
    assert [path.name for path in queue.archive.iterdir()] == ["young.json"]


def test_what_was_no_job_is_forgotten_after_as_long(queue: JobQueue) -> None:
    (queue.tonight / "a.JSON").write_text('{"id": "a", "task": " "}')
    (queue.tonight / "b.json").symlink_to(queue.tonight)
    (queue.tonight / "c.json").mkdir()
    (queue.tonight / "d.json").write_text(json.dumps({"id": "d", "task": "x" * 100_001}))
    assert queue.take(9, NOW) == []
    assert "limit is 100,000" in (queue.failed / "d.json.reason").read_text()
    assert queue.prune() == 0
    assert queue.prune(time.time() + (KEEP_DAYS + 1) * 86_400) == 4
    assert [path.name for path in queue.failed.iterdir()] == ["c.json"]


def test_jobs_as_data() -> None:
    assert job_of({"id": "a", "task": "x", "note": "more is allowed"}).priority == "medium"
    with pytest.raises(ActionError, match=r"This is not a job: .*task"):
        job_of({"id": "a"})


TAKER = """
import sys, time
from pathlib import Path
from zoneinfo import ZoneInfo
from services.cortex.job_queue import JobQueue
queue = JobQueue(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
while taken := queue.take(int(sys.argv[2])):
    print(*(claimed.job.id for claimed in taken), sep="\\n", flush=True)
print("end", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def takers(queue: JobQueue) -> Iterator[list[subprocess.Popen[str]]]:
    command = [sys.executable, "-c", TAKER, str(queue.tonight.parent)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    processes = [subprocess.Popen([*command, size], **pipes) for size in ("1", "3")]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def begin(process: subprocess.Popen[str]) -> None:
    process.stdin.write("go\n")
    process.stdin.flush()


def read_taken(process: subprocess.Popen[str]) -> list[str]:
    return [line.strip() for line in iter(process.stdout.readline, "end\n")]


def test_two_processes_never_take_a_job_twice(queue: JobQueue, takers: list[subprocess.Popen[str]]) -> None:
    for number in range(60):
        drop(queue, f"j{number}")
    for taker in takers:
        begin(taker)
    first, second = (read_taken(taker) for taker in takers)
    assert sorted(first + second) == sorted(f"j{number}" for number in range(60))
    assert queue.count() == {"tonight": 0, "claimed": 60, "archive": 0, "failed": 0}


def test_what_a_killed_process_had_taken_is_found_again(
    queue: JobQueue, takers: list[subprocess.Popen[str]]
) -> None:
    for number in range(5):
        drop(queue, f"j{number}")
    begin(takers[0])
    assert len(read_taken(takers[0])) == 5
    takers[0].kill()
    found = queue.find_claimed()
    assert sorted(claimed.job.id for claimed in found) == [f"j{number}" for number in range(5)]
    for claimed in found:
        assert claimed.path.name == f"{claimed.task_id}.json"
        finish(queue, claimed.task_id)
    assert queue.count() == {"tonight": 0, "claimed": 0, "archive": 5, "failed": 0}


def test_jobs_that_ended_and_are_not_done_are_told_apart(tmp_path: Path) -> None:
    settings, bus = Settings(state_dir=tmp_path, time_zone="UTC"), SimpleNamespace(name="cortex")
    queue, night = JobQueue(tmp_path / "job_queue"), Night(settings, bus, list)  # type: ignore[arg-type]
    queue.make_folders()
    for name in ("good", "broken", "open"):
        drop(queue, name)
    ended = {
        "good": result_of("x"),
        "broken": msgspec.structs.replace(
            result_of("x"), status=TaskStatus.FAILED, error_message="step 2 failed"
        ),
        "open": msgspec.structs.replace(result_of("x", "no tests"), outcome=ResultOutcome.NOT_CHECKED),
    }
    for claimed in queue.take(10, NOW):
        queue.store_result(msgspec.structs.replace(ended[claimed.job.id], task_id=claimed.task_id))
        queue.end_claim(claimed.task_id)
    told = describe_queue(queue, night, NOW)
    assert told.output.startswith("Overnight queue: 0 waiting, 0 running, 1 done, 2 not done, 0 refused.")
    assert sorted(told.data["undone"]) == ["failed: broken: step 2 failed", "not checked: open: no tests"]
