"""The critic's review of a goal: what it is asked, what it says, and what the goal becomes by that."""

from collections.abc import Mapping
from typing import Any

import msgspec

from services.conductor.merging import authors_of
from services.conductor.playbook import find_folders
from services.conductor.state_machine import REVIEW, add_dependents, all_ended, begin_again, with_setbacks
from shared import subjects
from shared.contracts import (
    Checked,
    Goal,
    GoalTask,
    Task,
    TaskPriority,
    TaskResult,
    TaskStatus,
    Verdict,
)

MAX_REVIEWS = 3
"""How often the critic is asked about one goal; its last verdict is reported and not acted upon."""
MAX_WORDS = 2_000  # Characters of a task's text that go with its result to the review
REPOSITORY = ("repo", "folder", "path")
"""The names under which parameters and context have a folder, the most telling first."""

REVIEW_PRIORITY = {
    TaskPriority.LOW: TaskPriority.HIGH,
    TaskPriority.MEDIUM: TaskPriority.HIGH,
    TaskPriority.HIGH: TaskPriority.HIGH,
    TaskPriority.URGENT: TaskPriority.URGENT,
}
"""The priority of a goal's review: a goal under way goes before the inspections of new ones like it, except
that the lane of what is urgent is left to urgent goals, which people alone submit."""


def review_task(goal: Goal, results: Mapping[str, Any], *, with_goal: bool = False) -> Task:
    """The task that asks the critic whether the results hold; ``with_goal`` passes the goal's text too.

    Each result has the repository that its task is about, where its parameters, the goal's or the goal's
    context name one, and the task's words, which may.
    """
    tasks = {task.name: task for task in goal.tasks}
    told = {
        name: {
            **result,
            "repo": repository_of(goal, tasks[name]),
            "task": tasks[name].text[:MAX_WORDS],
            **({"success_criteria": stated} if (stated := tasks[name].success_criteria) else {}),
            # What an action counted needs no model's judgement.
            **({"judged": False} if tasks[name].action and not (stated or tasks[name].merges) else {}),
        }
        if name in tasks
        else result
        for name, result in results.items()
    }
    named = {repository_of(goal, task) for task in goal.tasks}
    params = {"results": told, "repo": named.pop() if len(named) == 1 else ""}
    if with_goal:
        params["goal"] = goal.text
    return Task(
        task_id=goal.review_task_id,
        parent_goal_id=goal.goal_id,
        goal_id=goal.goal_id,
        text=f"Review what came of: {goal.text[:500]}",
        assignee=subjects.CRITIC,
        requester=subjects.CONDUCTOR,
        priority=REVIEW_PRIORITY[goal.priority],
        context={"action": REVIEW, "params": params},
        deadline=goal.deadline,
        said=goal.said,
        asker=goal.asker or goal.requester,
        budget=goal.budget,
    )


def repository_of(goal: Goal, task: GoalTask) -> str:
    """The repository that a task of ``goal`` is about, as parameters or context name it; empty for none.

    The goal's context does not count for a task whose words name another folder.
    """
    context = goal.context.get("params")
    places = [task.params, goal.parameters, goal.context, context if isinstance(context, Mapping) else {}]
    given = goal.context.get("folder")
    if given and any(each.path != given for each in find_folders(task.text) if not each.problem):
        places = places[:2]
    named = (place.get(key) for place in places for key in REPOSITORY)
    return next((path for path in named if isinstance(path, str) and path.startswith("/")), "")


def read_verdict(result: TaskResult) -> Verdict:
    """The critic's verdict; not checked, with the reason, if there is none that can be read."""
    verdict = result.metadata.get("verdict")
    why = result.error_message or "the critic gave no verdict"
    if result.status is TaskStatus.COMPLETED and verdict:
        try:
            return Verdict.from_dict(verdict)
        except ValueError as error:
            why = f"the critic's verdict cannot be read: {error}"
    return Verdict(approved=False, decision="not_checked", checked=Checked(unjudged=(why,)))


def apply_verdict(goal: Goal, verdict: Verdict) -> Goal:
    """``goal`` after a review: with tasks to be done again, or with all of them ended.

    They stay ended unless the critic sends something back, if it was asked for the last time, and if nothing
    it names can be done again.
    """
    sent_back = verdict.decision == "sent_back"
    if sent_back and goal.reviews < MAX_REVIEWS:
        again = send_back(goal, verdict)
        if not all_ended(again):
            return again
    reason = f"the review did not approve: {'; '.join(verdict.reasons)}" if sent_back else goal.reason
    return msgspec.structs.replace(goal, verdict=verdict.to_dict(), reason=reason[:2_000])


def send_back(goal: Goal, verdict: Verdict) -> Goal:
    """``goal`` with the tasks that the critic named, and those that build on them, to be done again.

    Who worked one out goes on where it stopped, unless what the task builds on is done again too.
    """
    redo = authors_of(goal, verdict.redo)
    named = [task for task in goal.tasks if task.name in redo]
    again = add_dependents(goal, redo)
    going_on = {each.name: each.task_id for each in named if not (each.action or again & {*each.depends_on})}
    tasks = tuple(
        msgspec.structs.replace(task, continues=going_on.get(task.name, task.continues))
        for task in begin_again(goal, again, str(goal.reviews + 1))
    )
    return msgspec.structs.replace(
        with_setbacks(goal, named, "; ".join(verdict.objections or verdict.reasons), review=True),
        tasks=tasks,
        status=TaskStatus.IN_PROGRESS,
        verdict=verdict.to_dict(),
        review_task_id="",
    )
