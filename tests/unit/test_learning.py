"""What the conductor learns, and how it chooses between agents by that."""

import pytest

from services.conductor.learning import MetaLearner, record_name
from shared.contracts import Experience, Goal, GoalTask, TaskResult, TaskStatus
from shared.contracts.cognition import RECENT, kind_of
from shared.plans import AgentPage

AT = "2026-01-02T03:04:05+00:00"
GOAL = Goal(goal_id="g", text="x", requester="user", submitted_at=AT, playbook="checkup")
SCHEMAS = {"read": {"properties": {"path": {"type": "string"}}}}


def page(name: str, **schemas: object) -> AgentPage:
    return AgentPage(name=name, actions={"read": "Reads"}, schemas=schemas or SCHEMAS, at_work=True)  # type: ignore[arg-type]


def task(number: int = 1, assignee: str = "scout", action: str = "read") -> GoalTask:
    return GoalTask(
        name="reading",
        task_id=f"t{number}",
        text="Read it all",
        assignee=assignee,
        action=action,
        params={"path": "/a"} if action else {},
        started_at=AT,
    )


def result(
    number: int = 1, *, done: bool = True, seconds: int = 2, agent: str = "scout", **metadata: object
) -> TaskResult:
    return TaskResult(
        task_id=f"t{number}",
        agent=agent,
        status=TaskStatus.COMPLETED if done else TaskStatus.FAILED,
        output="x",
        error_message="" if done else "no",
        completed_at=f"2026-01-02T03:04:{5 + seconds:02d}+00:00",
        metadata=metadata,
    )


def learner() -> MetaLearner:
    return MetaLearner(None)  # type: ignore[arg-type]


def train(known: MetaLearner, agent: str, *, completed: int, failed: int, seconds: int = 2) -> None:
    for number in range(completed + failed):
        done = number < completed
        known.learn(GOAL, task(number, agent), result(number, done=done, seconds=seconds, agent=agent), 1)


def test_a_result_is_one_small_record_and_counted_once() -> None:
    known = learner()
    first = known.learn(
        GOAL, task(), result(usage={"input_tokens": 7, "output_tokens": 3, "cost": 0.25}), attempts=2
    )
    assert [entry.subject for entry in first] == [
        "record.conductor.learning.scout-read",
        "record.conductor.learning.all",
    ]
    seen = known.experience("scout", "read")
    assert seen is not None
    assert (seen.samples, seen.retries, seen.duration, seen.tokens, seen.cost) == (1, 1.0, 2.0, 10, 0.25)
    # the commit may have lost a race: it is counted once, and stored with the next try
    again = known.learn(GOAL, task(), result(), 1)
    assert [entry.subject for entry in again] == [entry.subject for entry in first]
    # by another id: a commit with a message that is stored already would be refused whole, again and again
    assert not {entry.id for entry in again} & {entry.id for entry in first}
    now = known.experience("scout", "read")
    assert now is not None
    assert (now.samples, now.counted) == (seen.samples, seen.counted)
    known.learn(GOAL, task(2), result(2), 1)
    assert len(known.learn(GOAL, task(3), result(3), 1)) == 1


def test_what_was_called_off_teaches_nothing() -> None:
    known = learner()
    cancelled_record = TaskResult(task_id="t1", agent="scout", status=TaskStatus.CANCELLED, output="")
    assert known.learn(GOAL, task(), cancelled_record, 1) == []


@pytest.mark.parametrize("usage", [None, [], {"input_tokens": "many"}, {"cost": "dear"}])
def test_nonsense_in_a_result_counts_as_nothing(usage: object) -> None:
    known = learner()
    known.learn(GOAL, task(), result(usage=usage), 1)
    seen = known.experience("scout", "read")
    assert seen is not None
    assert (seen.tokens, seen.cost) == (0, 0.0)


def test_the_last_durations_are_kept() -> None:
    seen = Experience(agent="a", kind="k")
    for number in range(RECENT + 5):
        seen = seen.plus(f"t{number}", completed=True, seconds=number)
    assert (len(seen.seconds), seen.seconds[0], seen.samples) == (RECENT, 5.0, RECENT + 5)


def test_the_kind_of_a_task_is_its_action_else_its_name_else_its_first_word() -> None:
    assert kind_of("Summarise: the page", "read_page") == "read_page"
    assert kind_of("Summarise: the page", "", "checkup.reading") == "checkup.reading"
    assert kind_of("Summarise: the page") == "summarise"
    assert kind_of("?!") == "task"


def test_a_records_name_can_stand_in_a_subject() -> None:
    assert record_name("scout", "checkup.reading") == "scout-checkup_reading"
    assert len(record_name("s" * 64, "k" * 100)) == 128
