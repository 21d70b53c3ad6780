"""Submissions: what people may publish on tasks.submit, and what they are told where it is wrong."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from services.conductor.submission import MAX_AHEAD, open_goal, read_submission
from shared.contracts import Goal, TaskPriority, TaskRequest, generate_iso_timestamp
from shared.errors import Reject
from shared.tasks.submission import Submission

BEGIN = datetime(2026, 3, 4, 5, 6, 7, 250_000, tzinfo=UTC)
STORED_AT = 1_772_600_767_250_000_000


def read(**fields: Any) -> Submission:
    return read_submission(json.dumps({"text": "do it", **fields}).encode())


def opened(timeout: float = 60.0, **fields: Any) -> Goal:
    return open_goal(read(**fields), 7, STORED_AT, timeout)


def test_a_text_is_enough() -> None:
    assert read_submission(b'{"text": "do it"}') == Submission(text="do it")


def test_everything_else_can_be_said_too() -> None:
    said = read(
        goal_id="g-1",
        requester="nexus",
        context={"repo": "/r", "deep": [1, {"a": None}]},
        priority="P0",
        deadline="2026-05-01T00:00:00Z",
    )
    assert said.priority is TaskPriority.URGENT
    assert said.context == {"repo": "/r", "deep": [1, {"a": None}]}
    assert (said.goal_id, said.requester, said.deadline) == ("g-1", "nexus", "2026-05-01T00:00:00Z")


def test_fields_of_a_later_version_do_no_harm() -> None:
    assert read(colour="blue").text == "do it"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"text": 5}, "Expected `str`, got `int` - at `$.text`"),
        ({"text": ""}, "text must be a non-empty string"),
        ({"text": " \n\t"}, "text must be a non-empty string"),
        ({"text": "x" * 100_001}, "text has 100,001 characters; the limit is 100,000"),
        ({"goal_id": "a.b"}, "goal_id must be"),
        ({"goal_id": "a" * 81}, "goal_id has more than 80 characters"),
        ({"goal_id": "a" * 129}, "goal_id must be"),
        ({"requester": "The Boss"}, "requester must be a name"),
        ({"requester": ""}, "requester must be a non-empty string"),
        ({"context": ["a"]}, "Expected `object`, got `array` - at `$.context`"),
        ({"priority": "soon"}, "Invalid enum value 'soon' - at `$.priority`"),
        ({"deadline": "tomorrow"}, "deadline must be an ISO 8601 timestamp, not 'tomorrow'"),
        ({"type": "email.v1", "body": "x"}, "email.v1"),
        ({"type": "parcel.v1"}, "unknown envelope type 'parcel.v1'"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(Reject, match="the submission") as raised:
        read(**fields)
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[1]",
        b'"do it"',
        b'{"text": "x"',
        b'{"text": "\xff"}',
        b'{"text": "\\ud800"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_json_object_is_said_so(data: bytes) -> None:
    with pytest.raises(Reject, match="the submission") as raised:
        read_submission(data)
    assert len(str(raised.value)) < 300


def test_a_context_that_is_too_large_is_refused() -> None:
    """The goal's record repeats it with every step."""
    with pytest.raises(
        Reject, match=r"has 1,100,\d+ bytes; the limit is 1,000,000\. Put what it needs into files"
    ):
        read(context={"notes": "x" * 1_100_000})


def test_a_missing_text_is_said_so() -> None:
    with pytest.raises(Reject, match="text must be a non-empty string"):
        read_submission(b"{}")


def test_a_task_request_is_a_submission() -> None:
    request = TaskRequest(
        task_id="r1",
        created_at=generate_iso_timestamp(),
        requester="somebody else",
        task_description="do it",
        priority=TaskPriority.HIGH,
        context={"a": 1},
    )
    said = read_submission(request.to_json())
    assert said == Submission(text="do it", goal_id="r1", context={"a": 1}, priority=TaskPriority.HIGH)


def test_a_task_request_needs_no_type() -> None:
    said = read_submission(
        b'{"task_id": "r1", "created_at": "2026-01-02T14:30:22", "requester": "nexus",'
        b' "task_description": "do it", "priority": "HIGH", "evidence_refs": ["memory:req_001"]}'
    )
    assert said == Submission(
        text="do it", goal_id="r1", priority=TaskPriority.HIGH, evidence_refs=("memory:req_001",)
    )


def plain_task(**metadata: Any) -> Submission:
    return read_submission(json.dumps({"text": "Do it.", "type": "task", "metadata": metadata}).encode())


def test_a_task_as_memory_has_it_is_a_goal_of_one_task() -> None:
    said = plain_task(
        task_id="uuid-v4",
        parent_goal_id="uuid-v4",
        assignee="Engineer",
        status="pending",
        created_at=1768362000,
        context_refs=["/docs/auth_spec.md"],
        priority="P0",
    )
    assert said == Submission(
        text="Do it.",
        context_refs=("/docs/auth_spec.md",),
        goal_id="uuid-v4",
        context={"assignee": "engineer"},
        priority=TaskPriority.URGENT,
    )
    assert plain_task() == Submission(text="Do it.") == read_submission(b'{"text": "Do it.", "type": "task"}')


def test_references_count_wherever_they_are_named() -> None:
    refs = {"context_refs": ["n-1"], "evidence_refs": ["src/a.py:3"]}
    bodies: list[dict[str, Any]] = [
        {"text": "x", **refs},
        {"text": "x", "context": {"a": 1, **refs}},
        {"text": "x", "type": "task", **refs},
        {"text": "x", "type": "task", "metadata": refs},
        {"task_description": "x", "task_id": "t", "requester": "r", "priority": "LOW", **refs},
    ]
    for body in bodies:
        goal = open_goal(read_submission(json.dumps(body).encode()), 7, STORED_AT, 60.0)
        assert (goal.context_refs, goal.evidence_refs) == (("n-1",), ("src/a.py:3",))
        assert goal.context == ({"a": 1} if "context" in body else {})
    with pytest.raises(Reject, match=r"Expected `array`, got `str` - at `\$.context_refs`"):
        read(context={"context_refs": "n-1"})


def test_a_task_takes_its_fields_from_beside_its_text_too() -> None:
    body = {"type": "task", "text": "Do it.", "task_id": "t1", "assignee": "scout", "priority": "P1"}
    said = read_submission(json.dumps(body).encode())
    assert (said.goal_id, said.context, said.priority) == ("t1", {"assignee": "scout"}, TaskPriority.HIGH)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"text": "x", "prioritty": "HIGH"}, "'prioritty' is no field of it; did you mean priority?"),
        ({"text": "x", "evidence_ref": ["n-1"]}, "did you mean evidence_refs?"),
        ({"text": "x", "assignee": "scout"}, "assignee is no field of it; put it into context"),
        ({"text": "x", "type": "task", "metadata": {"asignee": "scout"}}, "did you mean assignee?"),
        ({"text": "x", "type": "task", "metadata": {"task_id": "t" * 81}}, "goal_id has more than 80"),
        (
            {"task_description": "x", "task_id": "t", "requester": "r", "priority": "LOW", "deadlin": "9"},
            "'deadlin' is no field of it; did you mean deadline?",
        ),
    ],
)
def test_a_field_that_was_meant_is_never_dropped(body: dict[str, Any], reason: str) -> None:
    with pytest.raises(Reject, match=r"the submission (cannot be read|is wrong)") as raised:
        read_submission(json.dumps(body).encode())
    assert reason in str(raised.value)


def test_a_task_that_has_ended_is_not_begun() -> None:
    with pytest.raises(Reject, match="a task that is 'completed' is not begun; send it as 'pending'"):
        plain_task(status="completed")
    with pytest.raises(Reject, match="text must be a non-empty string"):
        read_submission(b'{"type": "task", "metadata": {"assignee": "engineer"}}')


def test_a_goal_takes_over_what_was_said() -> None:
    goal = opened(goal_id="g1", context={"a": 1}, priority="LOW", requester="nexus")
    assert (goal.goal_id, goal.text, goal.requester, goal.priority) == (
        "g1",
        "do it",
        "nexus",
        TaskPriority.LOW,
    )
    assert goal.context == {"a": 1}
    assert goal.submitted_at == "2026-03-04T05:06:07.250000+00:00"


def test_without_an_id_it_gets_one_that_is_the_same_on_every_delivery() -> None:
    assert opened().goal_id == "goal_20260304_050607_250000_7"
    assert opened() == opened()


@pytest.mark.parametrize(
    ("named", "deadline"),
    [
        ("", BEGIN + timedelta(seconds=60)),
        ("2026-03-05T00:00:00", datetime(2026, 3, 5, tzinfo=UTC)),
        ("2026-03-05T00:00:00Z", datetime(2026, 3, 5, tzinfo=UTC)),
        ("2026-03-05T00:00:00+02:00", datetime(2026, 3, 4, 22, tzinfo=UTC)),
        ("20260305", datetime(2026, 3, 5, tzinfo=UTC)),
        ("2020-01-01", datetime(2020, 1, 1, tzinfo=UTC)),
    ],
)
def test_a_deadline_is_in_utc(named: str, deadline: datetime) -> None:
    assert datetime.fromisoformat(opened(deadline=named).deadline) == deadline


def test_a_timeout_longer_than_timers_are_kept_is_cut() -> None:
    assert datetime.fromisoformat(opened(timeout=1e9).deadline) == BEGIN + MAX_AHEAD


@pytest.mark.parametrize(
    ("deadline", "reason"),
    [
        ("2300-01-01T00:00:00Z", "deadline lies more than 89 days ahead"),
        ("9999-12-31T23:59:59-05:00", "'9999-12-31T23:59:59-05:00' lies outside of the calendar"),
        ("0001-01-01T00:00:00+05:00", "lies outside of the calendar"),
    ],
)
def test_a_deadline_no_timer_can_be_set_for_is_refused(deadline: str, reason: str) -> None:
    """The broker takes a date it cannot count up to for one that has passed."""
    with pytest.raises(Reject, match=reason):
        opened(deadline=deadline)
