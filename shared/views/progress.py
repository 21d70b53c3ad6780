"""How far a goal is: its record, and what each of its tasks is doing."""

import msgspec

from shared import subjects
from shared.contracts import Goal, GoalTask, TaskStatus
from shared.views.timeline import GoalResults


class TaskProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A task that was issued: ``attempt`` is 0 until it is claimed, ``summary`` a line of its result."""

    status: TaskStatus = TaskStatus.IN_PROGRESS
    attempt: int = 0
    note: str = ""
    submitted_at: str = ""
    ended_at: str = ""
    summary: str = ""


WAITING_NOTE = "waits for approval"  # How the note of a task begins that needs a person's approval


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A goal's record (None: not accepted yet), and the states of its tasks by their ids.

    ``results`` come once it has ended: what its tasks found and delivered. ``thoughts`` are what models are
    writing for its tasks, by their ids, as far as it is followed.
    """

    goal: Goal | None = None
    states: dict[str, TaskProgress] = {}
    results: GoalResults | None = None
    thoughts: dict[str, str] = {}

    @property
    def tasks(self) -> tuple[GoalTask, ...]:
        """The goal's tasks; during a review it is the last of them."""
        goal = self.goal
        if goal is None:
            return ()
        if goal.status is not TaskStatus.REVIEW:
            return goal.tasks
        review = self.states.get(goal.review_task_id, TaskProgress())
        as_task = GoalTask(
            name="review",
            task_id=goal.review_task_id,
            text="review",
            assignee=subjects.CRITIC,
            issued=True,
            status=review.status,
            started_at=review.submitted_at,
            ended_at=review.ended_at,
            summary=review.summary,
        )
        return (*goal.tasks, as_task)

    def note(self, task: GoalTask) -> str:
        """What a task is doing, or its result."""
        state = self.states.get(task.task_id)
        if task.status.final or state is None:
            return task.summary
        attempt = f"attempt {state.attempt}: " if state.attempt > 1 else ""
        waiting = "waits for a free process" if state.attempt == 0 else ""
        return attempt + (state.note or waiting)
