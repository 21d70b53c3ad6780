"""The course of a goal: pure functions from how it stands and what happened to how it stands next."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from shared import subjects
from shared.contracts import (
    Goal,
    GoalTask,
    OfficeState,
    Task,
    TaskResult,
    TaskStatus,
    Verdict,
    generate_iso_timestamp,
)

MAX_REVIEWS = 3
"""How often the critic is asked about one goal; what it says the last time is told and not acted upon."""

ALLOWED: Mapping[OfficeState, frozenset[OfficeState]] = {
    OfficeState.IDLE: frozenset({OfficeState.PLANNING, OfficeState.EXECUTING}),
    OfficeState.PLANNING: frozenset(
        {OfficeState.PLANNING, OfficeState.EXECUTING, OfficeState.REVIEW, OfficeState.IDLE}
    ),
    OfficeState.EXECUTING: frozenset(
        {OfficeState.EXECUTING, OfficeState.REVIEW, OfficeState.PLANNING, OfficeState.IDLE}
    ),
    OfficeState.REVIEW: frozenset(
        {OfficeState.REVIEW, OfficeState.IDLE, OfficeState.PLANNING, OfficeState.EXECUTING}
    ),
}
"""Which state may follow which; ending (IDLE) is always allowed. While a model is asked, a goal's state is
told once more."""

REVIEW = "review"
"""The name of the review among a goal's results."""
REPAIR = "repair"
"""The ``thinking`` of a goal for which another plan is asked for."""


def state_of(goal: Goal) -> OfficeState:
    """What is being done about a goal."""
    if goal.status.final:
        return OfficeState.IDLE
    if not goal.tasks or goal.thinking == REPAIR:
        return OfficeState.PLANNING
    return OfficeState.REVIEW if goal.status is TaskStatus.REVIEW else OfficeState.EXECUTING


def record_result(goal: Goal, result: TaskResult) -> Goal:
    """``goal`` after one of its tasks ended; the same goal where the result is not news.

    Only a task's own assignee can say how it ended: anybody may write to the conductor.
    """
    if not result.status.final:
        return goal
    now = generate_iso_timestamp()
    changed = False
    tasks = []
    for task in goal.tasks:
        if (task.task_id, task.assignee) == (result.task_id, result.sender) and not task.status.final:
            summary = (result.error_message or result.output).strip().partition("\n")[0][:200]
            task = msgspec.structs.replace(task, status=result.status, ended_at=now, summary=summary)
            changed = True
        tasks.append(task)
    return msgspec.structs.replace(goal, tasks=skip_blocked(tasks)) if changed else goal


def skip_blocked(tasks: Sequence[GoalTask]) -> tuple[GoalTask, ...]:
    """Tasks whose dependencies cannot be met any more are cancelled, and theirs in turn."""
    lost: dict[str, str] = {}
    result = []
    for task in tasks:
        blocker = next((name for name in task.depends_on if name in lost), None)
        if blocker is not None and not task.status.final:
            task = msgspec.structs.replace(
                task,
                status=TaskStatus.CANCELLED,
                ended_at=generate_iso_timestamp(),
                summary=f"skipped: it needs {blocker!r}, which {lost[blocker]}",
            )
        if task.status.final and task.status is not TaskStatus.COMPLETED:
            lost[task.name] = f"ended as {task.status}"
        result.append(task)
    return tuple(result)


def ready_tasks(goal: Goal) -> list[GoalTask]:
    """Tasks that can be handed out now: not yet out, and all they depend on is done."""
    done = {task.name for task in goal.tasks if task.status is TaskStatus.COMPLETED}
    return [
        task
        for task in goal.tasks
        if not task.issued and not task.status.final and done >= set(task.depends_on)
    ]


def mark_issued(goal: Goal, issued: Sequence[GoalTask]) -> Goal:
    """``goal`` with these tasks handed out."""
    names, now = {task.name for task in issued}, generate_iso_timestamp()
    tasks = tuple(
        msgspec.structs.replace(task, issued=True, status=TaskStatus.IN_PROGRESS, started_at=now)
        if task.name in names
        else task
        for task in goal.tasks
    )
    return msgspec.structs.replace(goal, tasks=tasks, status=TaskStatus.IN_PROGRESS)


def all_ended(goal: Goal) -> bool:
    """Whether no task is left to do."""
    return all(task.status.final for task in goal.tasks)


class Step(NamedTuple):
    """The next step of a goal: hand out ``issued``, have it reviewed, end it, or, with none of them, wait."""

    goal: Goal
    issued: tuple[GoalTask, ...] = ()
    review: bool = False
    over: bool = False


def advance(goal: Goal) -> Step:
    """What is to be done about a planned goal now, and how it stands then."""
    if ready := ready_tasks(goal):
        return Step(mark_issued(goal, ready), issued=tuple(ready))
    if not all_ended(goal):
        return Step(goal)
    if all(task.status is TaskStatus.CANCELLED for task in goal.tasks):
        return Step(goal, over=True)
    return Step(ask_for_review(goal), review=True)


def take_verdict(goal: Goal, verdict: Verdict) -> Goal:
    """``goal`` after a review: with tasks to be done again, or as it was where it is over.

    It is over when the critic approves, when it was asked for the last time, and when nothing it
    names could be done again.
    """
    if not verdict.approved and goal.reviews < MAX_REVIEWS:
        again = send_back(goal, verdict)
        if not all_ended(again):
            return again
    reason = goal.reason if verdict.approved else f"the review did not approve: {'; '.join(verdict.reasons)}"
    return msgspec.structs.replace(goal, verdict=verdict.to_dict(), reason=reason[:2_000])


def send_back(goal: Goal, verdict: Verdict) -> Goal:
    """``goal`` with the tasks the critic named to be done again, and what builds on them."""
    again = set(verdict.redo)
    for task in goal.tasks:
        if again & set(task.depends_on):
            again.add(task.name)
    attempt = goal.reviews + 1
    tasks = tuple(
        msgspec.structs.replace(
            task,
            task_id=f"{goal.goal_id}-{task.name}-{attempt}",
            status=TaskStatus.PENDING,
            issued=False,
            started_at="",
            ended_at="",
            summary="",
        )
        if task.name in again
        else task
        for task in goal.tasks
    )
    return msgspec.structs.replace(
        goal,
        tasks=skip_blocked(tasks),
        status=TaskStatus.IN_PROGRESS,
        verdict=verdict.to_dict(),
        review_task_id="",
    )


def ask_for_review(goal: Goal) -> Goal:
    """``goal`` on the critic's desk."""
    review = goal.reviews + 1
    return msgspec.structs.replace(
        goal, status=TaskStatus.REVIEW, reviews=review, review_task_id=f"{goal.goal_id}-{REVIEW}-{review}"
    )


def end(goal: Goal, status: TaskStatus, reason: str = "", **changes: Any) -> Goal:
    """``goal`` ended; tasks still open are cancelled."""
    now = generate_iso_timestamp()
    tasks = tuple(
        task
        if task.status.final
        else msgspec.structs.replace(task, status=TaskStatus.CANCELLED, ended_at=now, summary=reason[:200])
        for task in goal.tasks
    )
    return msgspec.structs.replace(goal, status=status, reason=reason, ended_at=now, tasks=tasks, **changes)


def outcome_of(goal: Goal) -> tuple[TaskStatus, str]:
    """How a goal whose tasks all ended ends itself: it failed where nothing of it was done."""
    failed = [task for task in goal.tasks if task.status is not TaskStatus.COMPLETED]
    if len(failed) < len(goal.tasks):
        return TaskStatus.COMPLETED, ""
    return TaskStatus.FAILED, "; ".join(f"{task.name}: {task.summary}" for task in failed)


def task_for(goal: Goal, task: GoalTask, inputs: Mapping[str, Any]) -> Task:
    """The task as it is handed to its assignee, with the results it builds on."""
    context: dict[str, Any] = {"inputs": dict(inputs)} if inputs else {}
    if task.action:
        context["action"] = task.action
    if task.action or task.params:
        context["params"] = task.params
    if goal.verdict.get("reasons"):
        context["feedback"] = goal.verdict["reasons"]
    return Task(
        task_id=task.task_id,
        parent_goal_id=goal.goal_id,
        goal_id=goal.goal_id,
        text=task.text,
        assignee=task.assignee,
        requester=subjects.CONDUCTOR,
        priority=goal.priority,
        context=context,
        depends_on=tuple(other.task_id for other in goal.tasks if other.name in task.depends_on),
        deadline=goal.deadline,
    )


def review_for(goal: Goal, results: Mapping[str, Any], *, with_goal: bool = False) -> Task:
    """The task that asks the critic whether the results hold; ``with_goal`` tells it which goal."""
    params = {"results": dict(results), "repo": str(goal.parameters.get("repo", ""))}
    if with_goal:
        params["goal"] = goal.text
    return Task(
        task_id=goal.review_task_id,
        parent_goal_id=goal.goal_id,
        goal_id=goal.goal_id,
        text=f"Review what came of: {goal.text[:500]}",
        assignee=subjects.CRITIC,
        requester=subjects.CONDUCTOR,
        priority=goal.priority,
        context={"action": REVIEW, "params": params},
        deadline=goal.deadline,
    )
