"""The contracts as their documentation shows them: what was written for it keeps working."""

import datetime
import multiprocessing
import re
import time
import uuid
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from shared.contracts import (
    AgentReport,
    CognitiveContext,
    DiscoveryResult,
    Task,
    TaskPlan,
    TaskPriority,
    TaskRequest,
    TaskResult,
    TaskStatus,
    TaskStep,
    base,
    decode,
    generate_id,
    generate_iso_timestamp,
    generate_task_id,
)

REQUEST = TaskRequest(
    task_id=generate_task_id("cortex"),
    created_at=generate_iso_timestamp(),
    requester="nexus",
    task_description="Implement user authentication system",
    priority=TaskPriority.HIGH,
    context={"language": "python", "framework": "flask"},
    evidence_refs=["memory:req_001"],
)
PLAN = TaskPlan(
    task_id="cortex_20260102_143022_123456",
    created_at="2026-01-02T14:30:22",
    agent="cortex",
    steps=[
        TaskStep(
            step_number=1,
            action="Design database schema",
            estimated_complexity="medium",
            success_criteria="Schema includes all required fields",
        ),
        TaskStep(
            step_number=2,
            action="Implement password hashing",
            dependencies=[1],
            estimated_complexity="low",
            success_criteria="Passwords hashed with bcrypt",
        ),
    ],
    overall_complexity="medium",
    required_tools=["flask", "sqlalchemy", "bcrypt"],
)
RESULT = TaskResult(
    task_id="cortex_20260102_143022_123456",
    completed_at="2026-01-02T14:45:00",
    agent="cortex",
    status=TaskStatus.COMPLETED,
    output="Authentication system implemented successfully",
    output_paths=["shop/auth/models.py", "shop/auth/routes.py"],
    evidence_refs=["test:auth_001", "test:auth_002"],
    metadata={"tests_passed": 12, "coverage": 0.95},
)
DISCOVERY = DiscoveryResult(
    task_id="discovery_20260102_080000",
    completed_at="2026-01-02T08:05:30",
    agent="frontier",
    query="Daily Discovery",
    papers=[
        {
            "title": "Graph Neural Networks for fMRI Analysis",
            "authors": ["First, A.", "Second, B."],
            "arxiv_id": "2401.12345",
            "pdf_url": "https://arxiv.org/pdf/2401.12345.pdf",
        }
    ],
    citations=["arxiv:2401.12345"],
    summary="Discovered 5 papers on brain imaging and ML",
    output_path="outputs/research_brief_20260102.txt",
)
REPORT = AgentReport(
    report_id="report_20260102_080000",
    created_at="2026-01-02T08:10:00",
    agent="frontier",
    report_type="research_brief",
    summary="Discovered 5 papers on fMRI brain connectivity",
    findings=[
        "New graph-based methods show 15% improvement",
        "Transfer learning from animal models is promising",
    ],
    evidence_refs=["arxiv:2401.12345", "arxiv:2401.23456"],
    output_paths=["outputs/research_brief_20260102.txt"],
)


@pytest.mark.parametrize(
    "instance", [REQUEST, PLAN, RESULT, DISCOVERY, REPORT], ids=lambda instance: type(instance).__name__
)
def test_the_examples_survive_a_round_trip(instance):
    assert type(instance).from_dict(instance.to_dict()) == instance
    assert type(instance).from_json(instance.to_json()) == instance
    assert decode(instance.to_json()) == instance


def test_lists_become_tuples_and_stay_equal_to_what_was_given():
    assert PLAN.steps[1].dependencies == (1,)
    assert PLAN.required_tools == ("flask", "sqlalchemy", "bcrypt")
    assert PLAN.to_dict()["required_tools"] == ["flask", "sqlalchemy", "bcrypt"]
    assert TaskPlan(task_id="a", agent="cortex", steps=[{"step_number": 1, "action": "Look"}]).steps == (
        TaskStep(step_number=1, action="Look"),
    )


def test_enumerations_travel_as_their_values_and_are_accepted_as_such():
    assert REQUEST.to_dict()["priority"] == "HIGH"
    assert RESULT.to_dict()["status"] == "completed"
    result = TaskResult(task_id="a", agent="cortex", status="completed", output="")
    assert result.status is TaskStatus.COMPLETED
    assert result.status.final
    assert not TaskStatus.REVIEW.final


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("P0", "URGENT"),
        ("P1", "HIGH"),
        ("P2", "MEDIUM"),
        ("P3", "LOW"),
        ("high", "HIGH"),
        ("critical", "URGENT"),
    ],
)
def test_priorities_are_accepted_by_their_other_names(written, meant):
    task = Task(task_id="a", text="Look", assignee="scout", requester="user", priority=written)
    assert task.priority is TaskPriority[meant]
    assert Task.from_dict(task.to_dict() | {"priority": written}) == task


def test_a_task_is_from_its_requester_to_its_assignee_whatever_the_case():
    task = Task(task_id="a", text="Look", assignee=" Engineer ", requester="NEXUS")
    assert (task.assignee, task.recipient) == ("engineer", "engineer")
    assert (task.requester, task.sender) == ("nexus", "nexus")


def test_a_context_moves_on_by_a_new_one():
    context = CognitiveContext(user_query="Why?", original_query="why")
    assert context.update_stage("planning").processing_stage == "planning"
    assert context.processing_stage == "initialized"


def test_values_of_free_fields_come_back_as_json_has_them():
    metadata = {"ratio": float("nan"), "pair": (1, 2), "when": datetime.date(2026, 1, 2)}
    result = TaskResult(task_id="a", agent="cortex", status="completed", output="", metadata=metadata)
    assert result.to_dict()["metadata"] == {"ratio": None, "pair": [1, 2], "when": "2026-01-02"}


def test_defaults_are_not_shared():
    first, second = (Task(task_id=name, text="Look", assignee="scout", requester="user") for name in "ab")
    first.context["seen"] = True
    assert second.context == {}


def test_a_timestamp_is_in_utc_with_microseconds():
    stamp = generate_iso_timestamp()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", stamp)
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(stamp)
    assert abs(age) < datetime.timedelta(minutes=1)


def test_a_task_id_tells_its_prefix_and_time():
    assert re.fullmatch(r"cortex_\d{8}_\d{6}_\d{6}_[0-9a-f]{8}", generate_task_id("cortex"))
    assert generate_task_id().startswith("task_")


def test_an_id_is_a_uuid_of_version_7_that_tells_its_time():
    before = time.time_ns() // 1_000_000
    made = uuid.UUID(generate_id())
    after = time.time_ns() // 1_000_000
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert before <= made.int >> 80 <= after


def _ids(count: int) -> list[str]:
    return [made for _ in range(count) for made in (generate_id(), generate_task_id("t"))]


def test_ids_made_at_the_same_time_differ():
    spawn = multiprocessing.get_context("spawn")
    with ThreadPoolExecutor(4) as threads, ProcessPoolExecutor(2, mp_context=spawn) as processes:
        made = [
            name for pool in (threads, processes) for names in pool.map(_ids, [2_000] * 4) for name in names
        ]
    assert len(set(made)) == len(made) == 32_000


def test_ids_of_one_microsecond_differ(monkeypatch):
    class Stopped(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 2, 14, 30, 22, 123456, tz)

    monkeypatch.setattr(base, "datetime", Stopped)
    monkeypatch.setattr(base.time, "time_ns", lambda: 1_767_364_222_123_456_789)
    made = _ids(1_000)
    assert made[1].startswith("t_20260102_143022_123456_")
    assert len(set(made)) == 2_000
