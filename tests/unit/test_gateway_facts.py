"""The facts of messages: what figures are computed from, whatever agents write."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from services.gateway.index.facts import MAX_COUNT, facts_of
from services.gateway.index.rows import Indexed, Position, make_row
from services.gateway.index.store import Store
from services.gateway.metrics.reading import read_log
from services.gateway.metrics.targets import read_figures
from shared import subjects
from shared.bus import Stored
from shared.contracts import Task, TaskStatus

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
AT = "2026-11-23T11:00:00.000000+00:00"
LATER = "2026-11-23T11:00:02.500000+00:00"
LAST = "2026-11-23T11:00:10.000000+00:00"


class Log:
    """A log that is indexed as it is written."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "index.db")
        self.seq = 0

    def write(self, subject: str, body: object) -> None:
        self.seq += 1
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        stored = Stored(subjects.OFFICE, subject, self.seq, data, {}, "2026-11-23T11:00:00.123456789Z")
        row = make_row(stored, Position(self.seq, 0))
        self.store.add([Indexed(row=row, facts=facts_of(stored))])

    def task(self, task_id: str = "t1", *, step: str = "new", **body: Any) -> None:
        task = Task(task_id=task_id, text="Look", assignee="scout", requester="user", created_at=AT)
        given = task.to_dict() if step.startswith("new") else {"task_id": task_id, "created_at": LATER}
        self.write(subjects.task("scout", "user", task_id, step), given | body)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def ended(**more: Any) -> dict[str, Any]:
    return {
        "step": "ended",
        "status": "completed",
        "outcome": "done",
        "completed_at": LAST,
        "attempt": 1,
        **more,
    }


def test_a_task_is_followed_from_its_submission_to_its_end(log: Log) -> None:
    log.task(step="new_high")
    log.task(step="claimed", attempt=1)
    log.task(step="claimed", attempt=2, created_at=LAST)
    assert read_log(log.store).working == {"scout": 1}
    log.task(**ended(attempt=2))
    log.task(**ended(attempt=7, status="failed"))
    found = read_log(log.store)
    assert found.tasks == [("scout", "completed", "done", 1)]
    waited, worked = found.hops
    assert (waited.hop, waited.total, waited.seconds) == ("claim", 1, pytest.approx(2.5, abs=0.001))
    assert (worked.hop, worked.seconds) == ("work", pytest.approx(7.5, abs=0.001))
    assert found.working == {}


@pytest.mark.parametrize("begun_at", [LATER, "", "yesterday"])
def test_the_end_of_a_task_that_was_not_claimed_says_when_it_began(log: Log, begun_at: str) -> None:
    log.task()
    log.task(**ended(begun_at=begun_at))
    found = read_log(log.store)
    assert found.tasks == [("scout", "completed", "done", 1)]
    hops = [(hop.hop, hop.seconds) for hop in found.hops]
    close = pytest.approx(2.5, abs=0.001), pytest.approx(7.5, abs=0.001)
    assert hops == ([("claim", close[0]), ("work", close[1])] if begun_at == LATER else [])


def test_the_same_submission_again_changes_nothing(log: Log) -> None:
    log.task()
    log.task(**ended())
    log.task()
    assert read_log(log.store).tasks == [("scout", "completed", "done", 1)]


def test_steps_without_a_submission_are_left_out(log: Log) -> None:
    log.task("unknown", step="claimed", attempt=1)
    log.task("unknown", **ended())
    assert read_log(log.store).tasks == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"status": 5}',
        b"\xff",
        b"[" * 5_000,
        b'{"attempt": ' + b"9" * 400 + b"}",
        json.dumps(
            ended(attempt=10**40, metadata={"usage": {"input_tokens": 10**40, "cost": "much"}})
        ).encode(),
        json.dumps(
            ended(completed_at="yesterday", metadata={"context": {"scores": ["x", None, {}]}})
        ).encode(),
        json.dumps(ended(metadata={"drift": [1, {"violations": "none"}]})).encode(),
        json.dumps(ended(spans=[{"kind": "model"}, 5])).encode(),
    ],
)
def test_garbage_of_an_agent_stops_neither_the_index_nor_the_figures(log: Log, body: object) -> None:
    log.task()
    for step in ("claimed", "noted", "ended"):
        log.write(subjects.task("scout", "user", "t1", step), body)
    for subject in (
        "event.scout.command_judged",
        "approval.scout.asked.a1",
        "mail.user.nexus",
        "state.goal.g",
    ):
        log.write(subject, body)
    log.task("t2")
    log.task("t2", **ended())
    found = read_log(log.store)
    assert sum(row[-1] for row in found.tasks) == 2
    figures = read_figures(log.store, NOW)
    assert figures.metrics.velocity is not None


def test_an_end_that_cannot_be_read_is_a_failure(log: Log) -> None:
    log.task()
    log.write(subjects.task("scout", "user", "t1", "ended"), b"garbage")
    assert read_log(log.store).tasks == [("scout", str(TaskStatus.FAILED), "", 1)]


def test_states_that_agents_make_up_share_a_label(log: Log) -> None:
    for number in range(5):
        log.task(f"t{number}")
        log.task(f"t{number}", **ended(status=f"state-{number}", outcome=f"outcome-{number}"))
        verdict = {"verdict": f"verdict-{number}", "task_id": "t1", "created_at": AT}
        log.write("event.scout.command_judged", verdict)
    found = read_log(log.store)
    assert found.tasks == [("scout", "other", "other", 5)]
    assert found.judged == [("scout", "other", 5)]


def test_counts_are_limited(log: Log) -> None:
    span = {"number": 1, "kind": "model", "name": "m", "started_at": AT, "seconds": 1.0}
    log.task()
    log.task(**ended(spans=[span | {"input_tokens": 10**30, "output_tokens": 3}]))
    assert read_log(log.store).usage == [("scout", "m", 1, MAX_COUNT, 3, 0.0)]


def test_figures_are_those_of_30_days(log: Log) -> None:
    log.task("old")
    log.task("old", **ended(completed_at="2026-09-01T10:00:00+00:00"))
    log.task("now")
    log.task("now", **ended(metadata={"drift": [{"violations": ["a", "b"]}, {"violations": []}]}))
    found = read_figures(log.store, NOW)
    by_name = {figure.name: figure for figure in found.figures}
    assert by_name["tasks"].value == 1
    assert by_name["velocity"].value == 10.0
    assert [point.value for point in by_name["drift"].trend][-1] == 2
    assert not by_name["drift"].met
    assert found.metrics.drift is not None
    assert (found.metrics.drift.rules, found.metrics.drift.broken) == (2, 1)
    assert by_name["safety"].met is True, "the planted commands are always judged"


def test_a_command_that_ran_all_the_same_is_found(log: Log) -> None:
    log.task()
    judged = {"type": "command_judged.v1", "command": "rm -rf /", "verdict": "deny", "rule": "r", "why": "w"}
    log.write("event.scout.command_judged", judged | {"task_id": "t1", "created_at": AT})
    assert read_figures(log.store, NOW).metrics.safety.catch_rate == 1.0  # type: ignore[union-attr]
    journal = [{"what": "run: rm -rf /", "started_at": LATER}]
    log.task(step="noted", origin=1, attempt=1, worker="w", journal=journal)
    safety = read_figures(log.store, NOW).metrics.safety
    assert safety is not None
    assert safety.ran == ("rm -rf /",)
