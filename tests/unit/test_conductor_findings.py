"""What a goal leaves in memory: an event, and what was found as observations that it led to."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from services.conductor.report import MAX_OBSERVATIONS, find_gone, memories_of
from shared.contracts import (
    DriftRule,
    Edge,
    Finding,
    Goal,
    GoalTask,
    Inspection,
    Node,
    Relation,
    TaskStatus,
    TestFailure,
    TestRun,
)

REPORT = Path("/outputs/g1/report.md")
TASK = GoalTask(
    name="tests",
    task_id="t",
    text="Run",
    assignee="engineer",
    status=TaskStatus.COMPLETED,
    summary="2 passed",
)
GOAL = Goal(
    goal_id="g1",
    text="Check up on /home/x/kettle\nplease",
    requester="user",
    playbook="checkup",
    parameters={"repo": "/home/x/kettle"},
    tasks=(TASK,),
    submitted_at="2026-03-04T05:06:07+00:00",
    ended_at="2026-03-04T05:07:00+00:00",
)
LOW = Finding(tool="ruff", rule="F401", severity="low", file="a.py", line=3, message="unused import")
HIGH = Finding(tool="bandit", rule="B307", severity="high", file="b.py", line=9, message="eval\nis evil")
BROKEN = Finding(tool="drift", rule="imports", severity="medium", file="c.py", line=1, message="c imports d")
FAILURE = TestFailure(test="test_x", message="assert 1 == 2", source="tests/test_x.py:5")


def results(tests: TestRun | None = None, inspection: Inspection | None = None) -> dict[str, Any]:
    parts = {"tests": tests, "inspection": inspection}
    return {
        name: {"status": "completed", "metadata": {name: part.to_dict()} if part else {}}
        for name, part in parts.items()
    }


def remember(found: dict[str, Any], goal: Goal = GOAL) -> tuple[list[Node], list[Edge]]:
    return memories_of(goal, found, REPORT, lambda *parts: "-".join(parts))


def test_an_event_tells_what_was_done() -> None:
    (event,), edges = remember({})
    assert (event.id, event.kind, event.title) == ("g1-node-0", "event", "Check-up of kettle (2026-03-04)")
    assert "tests by engineer: completed. 2 passed" in event.body
    assert event.body.startswith("It was asked: Check up on /home/x/kettle\nplease")
    assert event.tags == ("checkup", "kettle", "engineer")
    assert event.metadata == {"goal_id": "g1", "report_path": str(REPORT)}
    assert (event.source.agent, event.source.session) == ("conductor", "g1")
    assert edges == []


def test_findings_are_observations_that_the_event_led_to() -> None:
    drift = DriftRule(rule="c must not import d", source="ARCHITECTURE.md:4", violations=(BROKEN,))
    found = results(TestRun(failures=(FAILURE,)), Inspection(findings=(HIGH, LOW), total=2, drift=(drift,)))
    (event, *observations), edges = remember(found)
    assert [node.title for node in observations] == [
        "kettle: failing test test_x: assert 1 == 2",
        "kettle: c imports d",
        "kettle: eval",
        "kettle: unused import",
    ]
    assert [node.metadata["place"] for node in observations] == [
        "tests/test_x.py:5",
        "c.py:1",
        "b.py:9",
        "a.py:3",
    ]
    assert [node.importance for node in observations] == [0.8, 0.6, 0.8, 0.4]
    assert observations[0].body == "Found at tests/test_x.py:5 (high, tests failure)"
    assert observations[2].body == "Found at b.py:9 (high, bandit B307): eval\nis evil"
    assert {(edge.from_id, edge.to_id, edge.relation) for edge in edges} == {
        (event.id, node.id, Relation.LED_TO) for node in observations
    }


PINS = tuple(
    Finding(
        tool="zizmor", rule="unpinned-uses", severity="medium", file=f"ci{number}.yml", line=4, message=said
    )
    for number, said in enumerate(["unpinned action"] * 12)
)


@pytest.mark.parametrize(
    ("alike", "title", "told"),
    [
        (
            PINS,
            "unpinned action (12 times)",
            "Found at ci0.yml:4, ci1.yml:4, ci2.yml:4, ci3.yml:4, ci4.yml:4 and 7",
        ),
        (PINS[:2], "unpinned action (2 times)", "Found at ci0.yml:4 and ci1.yml:4 (medium"),
        (PINS[:1], "unpinned action", "Found at ci0.yml:4 (medium"),
        ((HIGH, HIGH), "eval (2 times)", "Found at b.py:9 and b.py:9 (high, bandit B307)"),
        (
            (LOW, msgspec.structs.replace(LOW, line=8, message="unused os")),
            "unused import (2 times)",
            "a.py:8: unused os",
        ),
        ((BROKEN,) * 40, "c imports d (40 times)", "and 35 more"),
    ],
)
def test_what_one_rule_finds_is_one_memory(alike: tuple[Finding, ...], title: str, told: str) -> None:
    """40 nearly equal rows of one linter crowded memory, and each check-up added as many."""
    found = results(inspection=Inspection(findings=alike, total=len(alike)))
    (_, node), _ = remember(found)
    assert node.title == f"kettle: {title}"
    assert told in node.body
    assert node.metadata["count"] == len(alike)
    again = msgspec.structs.replace(GOAL, goal_id="g2", parameters={"repo": "/home/x/kettle"})
    assert remember(found, again)[0][1].id == node.id
    elsewhere = msgspec.structs.replace(GOAL, parameters={"repo": "/home/y/kettle"})
    assert remember(found, elsewhere)[0][1].id != node.id


def test_of_several_workers_each_is_known_by_its_part() -> None:
    other = msgspec.structs.replace(TASK, name="inspection", assignee="critic", summary="1 finding")
    (event,), _ = remember({}, msgspec.structs.replace(GOAL, tasks=(TASK, other), answer="2 passed"))
    assert event.metadata["work"] == {"engineer": "2 passed", "critic": "1 finding"}
    assert event.body.count("2 passed") == 1


def test_the_same_goal_leaves_the_same_ids() -> None:
    found = results(TestRun(failures=(FAILURE,)))
    assert [node.id for node in remember(found)[0]] == [node.id for node in remember(found)[0]]


def test_of_very_many_findings_the_first_are_memories_of() -> None:
    rules = tuple(msgspec.structs.replace(LOW, rule=f"F{number}") for number in range(500))
    many = results(inspection=Inspection(findings=rules, total=500))
    nodes, edges = remember(many)
    assert (len(nodes), len(edges)) == (1 + MAX_OBSERVATIONS, MAX_OBSERVATIONS)


def test_what_cannot_be_read_is_left_out() -> None:
    """The report says so; the goal must end all the same."""
    for broken in ({"failures": [{"test": 1}]}, {"failures": 3}, ["x"], "x"):
        found = {
            "tests": {"status": "completed", "metadata": {"tests": broken}},
            "inspection": {"metadata": {"inspection": {"findings": [{"severity": "awful"}]}}},
        }
        assert len(remember(found)[0]) == 1


def test_other_goals_are_told_by_their_words() -> None:
    asked = msgspec.structs.replace(GOAL, playbook="model plan", parameters={}, text="x" * 400)
    (event,), _ = remember({"task": {"status": "completed", "output": "done"}}, asked)
    assert event.title == "x" * 256
    assert event.tags == ("model-plan", "engineer")
    long = msgspec.structs.replace(GOAL, text="\n" + "y" * 9_000, playbook="")
    (event,), _ = remember({}, long)
    assert event.title.strip()
    assert len(event.body) == 4_000


def test_a_single_action_leaves_no_memory_and_an_event_weighs_less_than_what_people_say() -> None:
    named = msgspec.structs.replace(GOAL, playbook="named action")
    assert remember({"task": {"status": "completed", "output": "done"}}, named) == ([], [])
    ended = {status: msgspec.structs.replace(GOAL, status=status) for status in TaskStatus}
    weights = {status: remember({}, goal)[0][0].importance for status, goal in ended.items()}
    assert weights[TaskStatus.COMPLETED] == 0.3
    assert weights[TaskStatus.FAILED] == 0.4
    assert all(0.2 <= weight <= 0.4 < Node(title="said").importance for weight in weights.values())


def test_an_event_begins_with_what_was_found() -> None:
    found = results(inspection=Inspection(findings=(HIGH, LOW), total=2))
    nodes, _ = remember(found, msgspec.structs.replace(GOAL, answer="kettle: 1 high finding."))
    first, second = nodes[0].body.splitlines()[:2]
    assert first == "kettle: 1 high finding."
    assert second.startswith("The worst: eval")


def test_what_a_later_check_up_does_not_find_again_is_gone() -> None:
    there, _ = remember(results(TestRun(failures=(FAILURE,)), Inspection(findings=(HIGH, LOW))))
    fixed = results(TestRun(), Inspection(findings=(HIGH,)))
    found = {node.id for node in remember(fixed)[0]}
    gone = find_gone(GOAL, fixed, there, found)
    assert [node.metadata["place"] for node in there if node.id in gone] == [FAILURE.source, LOW.source]


@pytest.mark.parametrize("part", ["tests", "inspection"])
def test_what_was_not_looked_for_is_not_gone(part: str) -> None:
    there, _ = remember(results(TestRun(failures=(FAILURE,)), Inspection(findings=(HIGH, LOW))))
    done = results(**{part: TestRun() if part == "tests" else Inspection()})
    gone = find_gone(GOAL, done, there, {node.id for node in remember(done)[0]})
    assert {node.metadata["part"] for node in there if node.id in gone} == {part}
    elsewhere = msgspec.structs.replace(GOAL, parameters={"repo": "/home/y/kettle"})
    assert find_gone(elsewhere, done, there, set()) == []
