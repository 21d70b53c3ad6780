"""The office's metrics, from messages as the log holds them."""

import msgspec
import pytest

from services.gateway.metrics.computing import compute_velocity
from shared import subjects
from shared.bus import Stored
from shared.contracts import (
    ApprovalAnswer,
    ApprovalRequest,
    CommandJudged,
    CommandVerdict,
    ContextItem,
    ContextPacket,
    Effect,
    Response,
    Task,
    TaskChanged,
    TaskResult,
    TaskStatus,
)
from shared.views.metrics import Metrics
from tests.support.indexing import compute_metrics

AT = "2026-01-02T03:04:05+00:00"
LATER = "2026-01-02T03:04:09+00:00"
ANSWER = "mail.user.nexus"
JUDGED = "event.engineer.command_judged"


class Log:
    """Messages in the order in which they are added."""

    def __init__(self) -> None:
        self._messages: list[Stored] = []

    def add(self, subject: str, data: bytes) -> None:
        number = len(self._messages) + 1
        self._messages.append(Stored(subjects.OFFICE, subject, number, data, {}, AT))

    def metrics(self, since: str = "2000-01-01") -> Metrics:
        return compute_metrics(self._messages, since)


def add_task(
    log: Log,
    task_id: str,
    ended: str = "2026-01-02T03:04:15+00:00",
    *,
    agent: str = "engineer",
    status: TaskStatus = TaskStatus.COMPLETED,
    attempt: int = 1,
    journal: tuple[Effect, ...] = (),
    **metadata: object,
) -> None:
    task = Task(
        task_id=task_id,
        text="Run the tests",
        assignee=agent,
        requester="conductor",
        created_at=AT,
        context={"action": "run_tests"},
    )
    result = TaskResult(
        task_id=task_id,
        agent=agent,
        status=status,
        output="done",
        error_message="no" if status is TaskStatus.FAILED else "",
        completed_at=ended,
        metadata=metadata,
        attempt=attempt,
    )
    log.add(subjects.task(agent, "conductor", task_id, subjects.NEW["MEDIUM"]), task.to_json())
    if journal:
        note = TaskChanged(task_id=task_id, origin=1, attempt=attempt, worker="w", journal=journal)
        log.add(subjects.task(agent, "conductor", task_id, subjects.NOTED), note.to_json())
    log.add(subjects.task(agent, "conductor", task_id, subjects.ENDED), result.to_json())


def judged(command: str, verdict: CommandVerdict = CommandVerdict.DENY, task_id: str = "t1") -> bytes:
    return CommandJudged(
        command=command, verdict=verdict, rule="r1", why="w", task_id=task_id, goal_id="g", created_at=AT
    ).to_json()


def ran(command: str, at: str = LATER) -> tuple[Effect, ...]:
    return (Effect(what=f"run: {command}", started_at=at, finished_at=at),)


def test_without_data_it_says_so() -> None:
    metrics = Log().metrics()
    assert (metrics.velocity, metrics.context_hits, metrics.drift, metrics.safety) == (None,) * 4
    assert (metrics.tasks, metrics.agents) == ({}, ())


def test_velocity_counts_from_handed_out_to_completed() -> None:
    log = Log()
    for number in range(18):
        add_task(log, f"t{number}")
    add_task(log, "s1", "2026-01-02T03:05:05+00:00", agent="scout")
    add_task(log, "s2", "2026-01-02T03:06:05+00:00", agent="scout", status=TaskStatus.FAILED)
    # one that has not ended, and one that cannot be read
    waiting = Task(task_id="p", text="x", assignee="scout", requester="conductor")
    log.add("task.scout.conductor.p.new", waiting.to_json())
    log.add("task.scout.conductor.q.ended", b"\xff{")
    metrics = log.metrics()
    assert metrics.tasks == {"completed": 19, "failed": 1}
    assert metrics.velocity is not None
    assert (metrics.velocity.tasks, metrics.velocity.p50, metrics.velocity.p95) == (19, 10.0, 60.0)
    assert metrics.velocity.within_target == 18 / 19
    assert metrics.velocity_by_agent["scout"].p50 == 60.0


@pytest.mark.parametrize(("count", "p50", "p95"), [(1, 1, 1), (2, 1, 2), (20, 10, 19), (100, 50, 95)])
def test_percentiles_are_the_least_that_the_share_does_not_exceed(count: int, p50: int, p95: int) -> None:
    found = compute_velocity(range(count, 0, -1))
    assert found is not None
    assert (found.p50, found.p95) == (p50, p95)


def test_context_hits_come_from_answers_and_from_tasks() -> None:
    log = Log()
    packet = ContextPacket(
        query="q",
        bullets=(
            ContextItem(text="a", evidence_id="n1", score=0.9),
            ContextItem(text="b", evidence_id="n2", score=0.5),
        ),
    )
    log.add(ANSWER, Response(text="x", context_used=packet).to_json())
    measured = msgspec.structs.replace(packet, best=0.7)
    log.add(ANSWER, Response(text="x", context_used=measured).to_json())
    log.add(ANSWER, Response(text="x").to_json())
    add_task(log, "t1", context={"scores": [0.76, 0.75], "best": 0.76})
    hits = log.metrics().context_hits
    assert hits is not None, "scores of a search are on another scale and are not counted"
    assert (hits.items, hits.hits, hits.rate, hits.mean) == (2, 1, 0.5, 0.73)


def test_drift_is_counted_over_all_inspections_and_in_the_last() -> None:
    log = Log()
    rule = {"rule": "a", "source": "b", "violations": [{}, {}]}
    kept = {"rule": "a", "source": "b", "violations": []}
    vague = {"rule": "Code is beautiful", "violations": [], "not_checked": "no tool can tell"}
    add_task(log, "late", "2026-01-02T05:00:00+00:00", inspection={"drift": [kept, vague]})
    add_task(log, "early", inspection={"drift": [rule, kept]})
    drift = log.metrics().drift
    assert drift is not None
    assert (drift.inspections, drift.rules, drift.broken, drift.violations) == (2, 4, 1, 2)
    assert drift.last_violations == 0
    assert drift.not_checked == ("Code is beautiful",)


def test_what_was_denied_and_ran_all_the_same_is_found() -> None:
    long = "rm -rf / " + "x" * 3_000
    log = Log()
    log.add(JUDGED, judged("rm  -rf\n/"))
    log.add(JUDGED, judged("curl x | sh", task_id="t2"))
    log.add(JUDGED, judged(long, task_id="t3"))
    add_task(log, "t1", journal=ran("rm -rf /… [0123456789ab]"))
    add_task(log, "t2", journal=ran("ls"))
    note = Effect(what=f"run: {long[:150]}… [0123456789ab]", started_at=LATER)
    add_task(log, "t3", journal=(note,))
    safety = log.metrics().safety
    assert safety is not None
    assert (safety.judged, safety.denied, safety.asked) == (3, 3, 0)
    assert [command[:8] for command in safety.ran] == ["rm  -rf\n", "rm -rf /"]
    assert safety.catch_rate == pytest.approx(1 / 3)
    assert safety.rules == {"r1": 3}


def test_what_a_person_granted_may_run_and_nothing_else() -> None:
    log = Log()
    for number, command in enumerate(["make deploy", "make other"], start=1):
        log.add(JUDGED, judged(command, CommandVerdict.ASK, f"t{number}"))
        add_task(log, f"t{number}", journal=ran(command))
    asked = ApprovalRequest(
        approval_id="a1", what="run in the workspace: make deploy", goal_id="g", expires_at=AT
    )
    log.add("approval.engineer.asked.a1", asked.to_json())
    log.add("approval.engineer.answered.a1", ApprovalAnswer(approval_id="a1", granted=True).to_json())
    safety = log.metrics().safety
    assert safety is not None
    assert (safety.asked, safety.granted, safety.ran) == (2, 1, ("make other",))


def test_only_answers_about_what_was_judged_are_counted() -> None:
    log = Log()
    log.add(JUDGED, judged("cp -r /etc copy", CommandVerdict.ASK))
    for number, what in enumerate(
        ("copy /etc into the workspace", "run in the workspace: make old"), start=1
    ):
        asked = ApprovalRequest(
            approval_id=f"a{number}", what=what, goal_id="g", rule="r1", why="w", expires_at=AT
        )
        log.add(f"approval.engineer.asked.a{number}", asked.to_json())
        answer = ApprovalAnswer(approval_id=f"a{number}", granted=number == 2)
        log.add(f"approval.engineer.answered.a{number}", answer.to_json())
    safety = log.metrics().safety
    assert safety is not None
    assert (safety.asked, safety.granted, safety.refused) == (1, 0, 1)


def test_a_command_that_ran_before_it_was_denied_is_no_breach() -> None:
    log = Log()
    log.add(JUDGED, judged("make"))
    add_task(log, "t1", journal=ran("make", "2026-01-02T03:04:00+00:00"))
    safety = log.metrics().safety
    assert safety is not None
    assert safety.catch_rate == 1.0


def test_what_an_agent_did_is_told_by_kind_of_task() -> None:
    log = Log()
    usage = {"input_tokens": 100, "output_tokens": 20, "cost": 0.5}
    add_task(log, "t1", attempt=3, usage=usage)
    add_task(log, "t2", status=TaskStatus.FAILED, usage="none")
    (seen,) = log.metrics().agents
    assert (seen.agent, seen.kind, seen.samples, seen.success) == ("engineer", "run_tests", 2, 0.5)
    assert (seen.retries, seen.tokens, seen.cost, seen.duration) == (1.0, 120, 0.5, 10.0)
    assert msgspec.json.decode(seen.to_json())["type"] == "experience.v1"


def test_what_ended_before_the_time_that_is_asked_for_does_not_count() -> None:
    log = Log()
    add_task(log, "t1")
    add_task(log, "t2", "2026-01-02T03:06:00+00:00", context={"scores": [0.8]})
    log.add(JUDGED, judged("rm -rf /"))
    metrics = log.metrics("2026-01-02T03:05:00.000000Z")
    assert metrics.tasks == {"completed": 1}
    assert metrics.context_hits is not None
    assert metrics.safety is None
    assert log.metrics(LATER).tasks == {"completed": 2}


def test_the_end_of_a_task_that_was_never_submitted_does_not_count() -> None:
    log = Log()
    add_task(log, "t1")
    end = TaskResult(task_id="t2", agent="cortex", status=TaskStatus.CANCELLED, output="", completed_at=LATER)
    log.add(subjects.task("cortex", "cortex", "t2", subjects.ENDED), end.to_json())
    metrics = log.metrics()
    assert metrics.tasks == {"completed": 1}
    assert [seen.agent for seen in metrics.agents] == ["engineer"]
