"""When a model is asked about a goal, and how the goal stands before and after: pure functions."""

from collections.abc import Sequence

import msgspec

from services.conductor.course import all_ended, skip_blocked
from shared.contracts import Goal, GoalTask, TaskStatus

BRAIN = "brain"
"""What stands as the playbook of a goal that a model planned."""
PLAN, ANSWER = "plan", "answer"
"""With REPAIR, what a model is asked for about a goal: its ``thinking``."""
MAX_REPAIRS = 2
"""How often another plan is asked for after the first; what fails then is told and not acted upon."""


def think_of(goal: Goal, what: str) -> Goal:
    """``goal`` while a model is asked for ``what``."""
    return msgspec.structs.replace(goal, thinking=what, playbook=goal.playbook or BRAIN)


def may_repair(goal: Goal) -> bool:
    """Whether another plan may be asked for: the last one was a model's, and too often it was not yet."""
    return goal.playbook == BRAIN and 0 < goal.plans <= MAX_REPAIRS and not goal.status.final


def needs_repair(goal: Goal) -> bool:
    """Whether all of a plan ended, and something of it failed."""
    failed = (TaskStatus.FAILED, TaskStatus.TIMEOUT)
    return may_repair(goal) and all_ended(goal) and any(task.status in failed for task in goal.tasks)


def was_sent_back_in_vain(goal: Goal) -> bool:
    """Whether the critic did not approve, and nothing that it names can be done again."""
    return may_repair(goal) and goal.verdict.get("approved") is False and all_ended(goal)


def take_plan(goal: Goal, tasks: Sequence[GoalTask]) -> Goal:
    """``goal`` with a plan's ``tasks``: what is completed stays, the rest is kept as ``earlier``."""
    done = tuple(task for task in goal.tasks if task.status is TaskStatus.COMPLETED)
    given_up = tuple(task for task in goal.tasks if task.status is not TaskStatus.COMPLETED)
    return msgspec.structs.replace(
        goal,
        tasks=skip_blocked((*done, *tasks)),
        earlier=(*goal.earlier, *given_up),
        plans=goal.plans + 1,
        thinking="",
        status=TaskStatus.IN_PROGRESS,
        review_task_id="",
    )


def give_up_repair(goal: Goal, reason: str) -> Goal:
    """``goal`` as it goes on where no other plan could be had."""
    note = f"it could not be planned anew: {reason}"
    return msgspec.structs.replace(goal, thinking="", plans=MAX_REPAIRS + 1, reason=note[:2_000])


def take_answer(goal: Goal, answer: str) -> Goal:
    """``goal`` with its answer; an empty one leaves it to the report."""
    return msgspec.structs.replace(goal, thinking="", answer=answer)


def undone(goal: Goal) -> str:
    """What of a goal was not done, in a sentence; empty for nothing."""
    left = [task for task in goal.tasks if task.status is not TaskStatus.COMPLETED]
    return "; ".join(f"{task.name} was not done: {task.summary or task.status}" for task in left)[:2_000]
