"""The facts of messages: what figures are computed from, whatever agents write."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from services.gateway.index.facts import MAX_COUNT, facts_of
from services.gateway.index.rows import Indexed, Position, goal_record, make_row
from services.gateway.index.store import Store
from services.gateway.metrics.drilldown import CONDITIONS
from services.gateway.metrics.figures import KINDS
from services.gateway.metrics.reading import read_log
from services.gateway.metrics.targets import Period, read_figures
from shared import subjects
from shared.bus import Stored
from shared.contracts import Goal, OfficeState, StateChanged, Task, TaskStatus

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
        self.store.add([Indexed(row=row, goal=goal_record(stored), facts=facts_of(stored))])

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
    figures = read_figures(log.store, Period.make(now=NOW))
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
    found = read_figures(log.store, Period.make(now=NOW))
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
    assert read_figures(log.store, Period.make(now=NOW)).metrics.safety.catch_rate == 1.0  # type: ignore[union-attr]
    journal = [{"what": "run: rm -rf /", "started_at": LATER}]
    log.task(step="noted", origin=1, attempt=1, worker="w", journal=journal)
    safety = read_figures(log.store, Period.make(now=NOW)).metrics.safety
    assert safety is not None
    assert safety.ran == ("rm -rf /",)


def test_a_figure_leads_to_the_goals_that_it_counts(log: Log) -> None:
    assert CONDITIONS.keys() - {""} == KINDS.keys() - {"recall"}
    facts: dict[str, dict[str, Any]] = {
        "plain": {},
        "failed": {"status": "failed", "metadata": {"usage": {"input_tokens": 7, "cost": 0.5}}},
        "cold": {"status": "failed", "metadata": {"unreached": ["example.org"]}},
        "checked": {"metadata": {"drift": [{"violations": []}], "context": {"scores": [0.8]}}},
        "old": {"completed_at": "2026-11-01T10:00:00.000000+00:00"},
    }
    for name, more in facts.items():
        patterns = ("p1",) if name == "plain" else ()
        goal = Goal(
            goal_id=name,
            text=name,
            requester="user",
            submitted_at=AT,
            status=TaskStatus.COMPLETED,
            ended_at=more.get("completed_at", LAST),
            patterns=patterns,
        )
        state = StateChanged(sender="conductor", recipient="user", state=OfficeState.IDLE, goal=goal)
        log.write(subjects.goal(name), state.to_dict())
        task = Task(
            task_id=name, text="x", assignee="scout", requester="conductor", created_at=AT, goal_id=name
        )
        log.write(subjects.task("scout", "conductor", name, "new"), task.to_dict())
        end = {"task_id": name, "goal_id": name, **ended(**more)}
        log.write(subjects.task("scout", "conductor", name, "ended"), end)
    judged = {"type": "command_judged.v1", "command": "x", "verdict": "deny", "rule": "r", "why": "w"}
    log.write("event.scout.command_judged", judged | {"goal_id": "cold", "created_at": AT})
    period = Period.make("2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z")

    def goals_of(figure: str) -> set[str]:
        found = log.store.goals(also=(CONDITIONS[figure], period.bounds))
        return {goal.goal_id for _, goal in found}

    day = {"plain", "failed", "cold", "checked"}
    assert goals_of("tasks") == goals_of("handoffs") == goals_of("improvement") == day
    assert goals_of("") == {*day, "old"}, "all were submitted on the day"
    assert goals_of("velocity") == {"plain", "checked"}
    assert goals_of("tokens") == goals_of("cost") == {"failed"}
    assert goals_of("drift") == goals_of("context") == {"checked"}
    assert goals_of("delegation") == {"plain", "failed", "checked"}, "no network says nothing of agents"
    assert goals_of("patterns") == goals_of("adaptation") == {"plain"}
    assert goals_of("safety") == {"cold"}
    found = {each.name: each for each in read_figures(log.store, period).figures}
    assert found["tasks"].value == 4
    assert found["delegation"].detail.startswith("2 of 3")
    assert found["handoffs"].detail.startswith("4 of 4")
    assert len(found["tasks"].trend) == 25
    assert found["tasks"].trend[11].day == "2026-11-23T11"
    assert found["tasks"].trend[11].value == 4
    assert sum(point.value or 0 for point in found["tasks"].trend) == 4


@pytest.mark.parametrize("given", [("yesterday", ""), ("2026-11-02", "2026-11-01"), ("", "x")])
def test_a_period_that_is_none_is_refused(given: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=r"period|neither"):
        Period.make(*given, now=NOW)


@pytest.mark.parametrize(
    ("since", "days", "first"),
    [
        ("", 30, "2026-10-25"),
        ("2026-11-23T00:00:00Z", 13, "2026-11-23T00"),
        ("2026-11-22T12:00:00Z", 25, "2026-11-22T12"),
        ("2026-11-17T00:00:00Z", 7, "2026-11-17"),
        ("2001-01-01T00:00:00Z", 366, "2025-11-23"),
    ],
)
def test_the_course_of_a_period_is_by_day_or_by_hour(since: str, days: int, first: str) -> None:
    found = Period.make(since, now=NOW).days
    assert (len(found), found[0], found[-1][:10]) == (days, first, "2026-11-23")
