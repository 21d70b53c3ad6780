"""What a goal came to: pure functions of its tasks' outcomes and the critic's verdict."""

from shared.contracts import Goal, GoalTask, ResultOutcome, TaskResult, TaskStatus
from shared.contracts.task import worst_of
from shared.tasks.verdict import verdict_of
from shared.text.phrases import count
from shared.text.shorten import shorten

CHECKUP = "checkup"
"""The playbook whose tasks look at one repository independently: one that fails leaves the others whole."""
HISTORY = "read_history"
"""The action of a check-up that reads a repository's history, if there is one."""
LISTED = 3
"""Tasks that a sentence names; the others are counted."""


def outcome_of_result(result: TaskResult) -> ResultOutcome:
    """What a task came to; results of earlier versions say it by their status alone."""
    if result.status is not TaskStatus.COMPLETED:
        return ResultOutcome.FAILED
    return result.outcome or ResultOutcome.DONE


def decision_of(goal: Goal) -> str:
    """The critic's last decision about a goal; empty if there is none."""
    verdict = verdict_of(goal)
    return verdict.decision if verdict else ""


def outcome_of_goal(goal: Goal) -> ResultOutcome:
    """What an ended goal came to; NONE for one that has not ended.

    It is *done* only if every task did what was asked for, and the critic found that true or had nothing to
    check. It *failed* if it ended as anything but completed, if what its results say does not hold, or if a
    task of it failed; of a check-up, whose tasks do not build on each other, that part is *not checked*
    instead.
    """
    if not goal.status.final:
        return ResultOutcome.NONE
    if goal.status is not TaskStatus.COMPLETED or decision_of(goal) == "sent_back":
        return ResultOutcome.FAILED
    outcomes = {_outcome_of_task(goal, task) for task in goal.tasks}
    if decision_of(goal) not in ("approved", "nothing_checked"):
        outcomes.add(ResultOutcome.NOT_CHECKED)
    return worst_of(outcomes)


def _outcome_of_task(goal: Goal, task: GoalTask) -> ResultOutcome:
    if task.status is TaskStatus.COMPLETED:
        # A project need not be in a git repository to be checked.
        without = goal.playbook == CHECKUP and task.action == HISTORY
        return ResultOutcome.DONE if without else task.outcome or ResultOutcome.DONE
    return ResultOutcome.NOT_CHECKED if goal.playbook == CHECKUP else ResultOutcome.FAILED


def format_undone(goal: Goal) -> str:
    """Which tasks did not complete, and why, in a sentence; empty for none."""
    left = [task for task in goal.tasks if task.status is not TaskStatus.COMPLETED]
    named = [f"{task.name} was not done: {task.summary or task.status}" for task in left[:LISTED]]
    more = [f"{count(len(left) - LISTED, 'more task')} not done"] if len(left) > LISTED else []
    return shorten("; ".join([*named, *more]), 2_000)
