"""When what tasks changed is made one, and what becomes of a conflict."""

from typing import Any

import msgspec
import pytest

from services.conductor.merging import authors_of, list_made, without_merged
from services.conductor.review import send_back
from services.conductor.state_machine import advance, outcome_of_goal, record_result, task_for
from shared.contracts import Goal, GoalTask, ResultOutcome, TaskResult, TaskStatus, Verdict

REPO = "/srv/shop"


def goal(**needs: tuple[str, ...]) -> Goal:
    tasks = tuple(
        GoalTask(name=name, task_id=f"g-{name}-1", text=f"Do {name}", assignee="engineer", depends_on=given)
        for name, given in needs.items()
    )
    return Goal(goal_id="g", text="x", requester="user", submitted_at="2026-01-01", tasks=tasks)


def path_of(name: str) -> str:
    return f"/out/{name}.patch"


def end(now: Goal, name: str, *paths: str, folder: str = REPO, **more: Any) -> Goal:
    """The goal after the task ``name`` ended with these patches (by default one of its own), and went on."""
    task = next(task for task in now.tasks if task.name == name)
    targets = [{"path": path, "folder": folder} for path in paths or (path_of(task.task_id),)]
    result = TaskResult(
        sender="engineer",
        agent="engineer",
        task_id=task.task_id,
        status=TaskStatus.COMPLETED,
        output="done",
        metadata={"patch_targets": targets},
    )
    return advance(record_result(now, msgspec.structs.replace(result, **more))).goal


def conflict(now: Goal, name: str, patch: str) -> Goal:
    found = {"patch": patch, "files": ["a.py"], "repo": REPO, "folder": "shop"}
    return end(now, name, status=TaskStatus.FAILED, error_message="no", metadata={"conflicts": found})


def names(now: Goal) -> list[str]:
    return [task.name for task in now.tasks]


def test_one_change_costs_nothing() -> None:
    now = end(advance(goal(a=())).goal, "a")
    assert names(now) == ["a"]
    assert now.status is TaskStatus.REVIEW
    now = end(end(advance(goal(a=(), b=())).goal, "a"), "b", metadata={"patch_targets": [{"path": 5}, "x"]})
    assert names(now) == ["a", "b"]


def test_changes_of_two_projects_are_not_merged() -> None:
    now = end(end(advance(goal(a=(), b=())).goal, "a"), "b", folder="/srv/other")
    assert names(now) == ["a", "b"]


def test_two_changes_are_merged_in_the_order_of_the_plan() -> None:
    now = end(end(advance(goal(a=(), b=())).goal, "b"), "a")
    merge = now.tasks[2]
    assert (merge.action, merge.merges) == ("merge_changes", (path_of("g-a-1"), path_of("g-b-1")))
    assert merge.params == {"repo": REPO, "patches": list(merge.merges), "test": True}
    assert merge.issued
    assert task_for(now, merge, {}).starts_from == ()
    done = end(now, "merge")
    assert done.status is TaskStatus.REVIEW
    assert [row.path for row in list_made(done)[REPO]] == [path_of(merge.task_id)]
    shown = without_merged(done, {"a": {"output_paths": ["/log", path_of("g-a-1")]}, "b": {}})
    assert shown == {"a": {"output_paths": ["/log"]}, "b": {}}


def test_the_changes_of_subtasks_are_merged_too() -> None:
    now = end(advance(goal(a=())).goal, "a", "/out/1.patch", "/out/2.patch")
    assert now.tasks[1].merges == ("/out/1.patch", "/out/2.patch")
    assert now.tasks[1].depends_on == ("a",)


def test_a_task_begins_with_what_it_builds_on() -> None:
    now = end(end(advance(goal(a=(), b=("a",), c=("b",))).goal, "a"), "b")
    assert names(now) == ["a", "b", "c"]  # b began with what a changed
    assert task_for(now, now.tasks[2], {}).starts_from == ("g-a-1", "g-b-1")
    last = end(now, "c").tasks[-1]
    assert last.merges == tuple(path_of(f"g-{name}-1") for name in "abc")


def test_a_task_that_builds_on_two_waits_until_they_are_merged() -> None:
    plan = goal(a=(), b=(), c=("a", "b"), d=("a", "b"))
    now = end(end(advance(plan).goal, "a"), "b")
    assert names(now) == ["a", "b", "merge", "c", "d"]
    assert [task.issued for task in now.tasks] == [True, True, True, False, False]
    assert now.tasks[2].params["test"] is False
    assert [task.depends_on for task in now.tasks[3:]] == [("a", "b", "merge")] * 2
    now = end(now, "merge")
    assert task_for(now, now.tasks[3], {}).starts_from == ("g-a-1", "g-b-1", now.tasks[2].task_id)
    now = end(end(now, "c"), "d", metadata={})
    last = now.tasks[-1]
    assert (last.name, last.params["test"]) == ("merge-2", True)
    assert last.merges == (path_of(now.tasks[2].task_id), path_of("g-c-1"))


def test_what_was_merged_on_the_way_is_tested_at_the_end() -> None:
    now = end(end(end(advance(goal(a=(), b=(), c=("a", "b"))).goal, "a"), "b"), "merge")
    assert end(now, "c", metadata={}).tasks[-1].params["test"] is True


def test_a_conflict_becomes_a_task_in_its_place() -> None:
    before = end(end(end(advance(goal(a=(), b=(), c=())).goal, "a"), "b"), "c")
    merge = before.tasks[3]
    now = conflict(before, "merge", path_of("g-b-1"))
    both = now.tasks[3]
    assert (both.name, both.action, both.status) == ("merge", "", TaskStatus.IN_PROGRESS)
    assert both.workspace == merge.task_id
    assert both.task_id != merge.task_id
    assert both.merges == (path_of("g-a-1"), path_of("g-b-1"))
    assert "what a made of it first" in both.text
    assert "what b made of it" in both.text
    assert "- b: Do b" in both.text
    assert not now.setbacks
    now = end(now, "merge")
    assert now.tasks[4].merges == (path_of(both.task_id), path_of("g-c-1"))
    again = conflict(now, "merge-2", path_of("g-c-1"))
    assert again.tasks[4].merges == (path_of(both.task_id), path_of("g-c-1"))
    ended = end(end(again, "merge-2"), "merge-3")
    assert ended.status is TaskStatus.REVIEW
    assert len(ended.tasks) == 6


@pytest.mark.parametrize("status", [TaskStatus.FAILED, TaskStatus.TIMEOUT])
def test_what_cannot_be_made_one_is_left_out_and_said(status: TaskStatus) -> None:
    now = end(end(end(advance(goal(a=(), b=(), c=())).goal, "a"), "b"), "c")
    now = conflict(now, "merge", path_of("g-b-1"))
    now = end(now, "merge", status=status, error_message="it was too hard", metadata={"patch_targets": []})
    assert now.tasks[4].merges == (path_of("g-a-1"), path_of("g-c-1"))
    now = end(now, "merge-2")
    assert now.status is TaskStatus.REVIEW
    assert now.tasks[3].summary.startswith("what b changed could not be merged with a, and its patch is left")
    assert now.tasks[3].summary.endswith(f"{path_of('g-b-1')}: it was too hard")
    over = msgspec.structs.replace(now, status=TaskStatus.COMPLETED, verdict={"approved": True})
    assert outcome_of_goal(over) is ResultOutcome.FAILED


def test_a_merge_that_failed_is_not_tried_for_ever() -> None:
    now = end(end(advance(goal(a=(), b=())).goal, "a"), "b")
    now = end(now, "merge", status=TaskStatus.FAILED, error_message="the disk is full", metadata={})
    assert names(now) == ["a", "b", "merge"]
    assert now.status is TaskStatus.REVIEW
    assert now.tasks[2].summary == "what a and b changed could not be merged: the disk is full"


def test_together_they_may_change_nothing() -> None:
    now = end(end(end(advance(goal(a=(), b=())).goal, "a"), "b"), "merge", metadata={})
    assert now.status is TaskStatus.REVIEW
    assert list_made(now) == {REPO: []}


def test_what_is_done_again_goes_on_in_its_workspace_and_is_merged_again() -> None:
    now = end(end(advance(goal(a=(), b=(), c=("a", "b"))).goal, "a"), "b")
    now = end(end(end(now, "merge"), "c"), "merge-2")
    sent = send_back(now, Verdict(approved=False, decision="sent_back", reasons=("no",), redo=("a",)))
    again = advance(sent).goal
    assert names(again) == ["a", "b", "c"]
    a, b, c = again.tasks
    assert (a.workspace, b.workspace, c.workspace) == ("g-a-1", "", "")
    assert c.depends_on == ("a", "b")
    assert a.changes == ()
    now = end(again, "a", "/out/a2.patch")
    assert now.tasks[2].merges == ("/out/a2.patch", path_of("g-b-1"))
    assert len({task.task_id for task in now.tasks}) == 4


def test_an_objection_to_a_merge_goes_to_its_authors() -> None:
    now = end(end(end(advance(goal(a=(), b=())).goal, "a"), "b"), "merge")
    assert authors_of(now, ["merge"]) == {"a", "b"}
    assert authors_of(now, ["merge", "b"]) == {"b"}
