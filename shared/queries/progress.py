"""Following a goal until it ends."""

import asyncio
from collections.abc import AsyncGenerator

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.records import TaskState
from shared.contracts import Goal, GoalTask, TaskStatus
from shared.errors import Refused
from shared.queries.office import find_dead_letter
from shared.queries.records import Listener, read_goal, read_tasks

POLL_INTERVAL = 2.0  # Seconds between reads if no message arrives
SETTLE_TIME = 0.05  # Seconds after a message until the others of the same commit have arrived


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """A goal's record (None: not accepted yet), and the states of its tasks by their ids."""

    goal: Goal | None = None
    states: dict[str, TaskState] = {}

    @property
    def tasks(self) -> tuple[GoalTask, ...]:
        """The goal's tasks; during a review it is the last of them."""
        goal = self.goal
        if goal is None:
            return ()
        if goal.status is not TaskStatus.REVIEW:
            return goal.tasks
        return (*goal.tasks, _review_task(goal, self.states.get(goal.review_task_id)))

    def note(self, task: GoalTask) -> str:
        """What a task is doing, or its result."""
        state = self.states.get(task.task_id)
        if task.status.final or state is None:
            return task.summary
        attempt = f"attempt {state.attempt}: " if state.attempt > 1 else ""
        waiting = "waits for a free process" if state.attempt == 0 else ""
        return attempt + (state.note or waiting)


def _review_task(goal: Goal, state: TaskState | None) -> GoalTask:
    """The review of a goal as a task of it, by its state (None: not read yet)."""
    result = state.result if state else None
    return GoalTask(
        name="review",
        task_id=goal.review_task_id,
        text="review",
        assignee=subjects.CRITIC,
        issued=True,
        status=result.status if result else TaskStatus.IN_PROGRESS,
        started_at=state.submitted_at if state else "",
        ended_at=result.completed_at if result else "",
        summary=result.output.partition("\n")[0] if result else "",
    )


async def read_progress(bus: Bus, goal_id: str) -> Progress:
    """The goal and its tasks now."""
    found = await read_goal(bus, goal_id)
    if found is None:
        return Progress()
    issued = [task for task in Progress(goal=found[0]).tasks if task.issued]
    return Progress(goal=found[0], states=await read_tasks(bus, issued))


class GoalFollower:
    """Follows one goal; if ``listen`` is called before the goal is submitted, nothing is missed.

    ``text`` is the goal's, if it is known: another one with this id is not followed.
    """

    def __init__(self, bus: Bus, goal_id: str, text: str = "") -> None:
        self._bus = bus
        self._goal_id = goal_id
        self._text = text
        self._listener = Listener(bus, POLL_INTERVAL)

    async def listen(self) -> None:
        """Subscribe to what concerns the goal."""
        await self._listener.subscribe(subjects.goal(self._goal_id))
        await self._listener.subscribe(subjects.task("*", "*", "*", "*"), containing=self._goal_id)
        await self._listener.subscribe(subjects.dead(subjects.CONDUCTOR))

    async def follow(self, submitted: int = 0) -> AsyncGenerator[Progress, None]:
        """The progress now and after every change, until the goal has ended.

        ``submitted`` is the sequence of the submission. Raises Refused if the conductor refuses it.
        """
        try:
            last: Progress | None = None
            while True:
                self._listener.clear()
                progress = await read_progress(self._bus, self._goal_id)
                if self._text and progress.goal is not None and progress.goal.text != self._text:
                    progress = Progress()
                if progress != last:
                    yield progress
                    last = progress
                if progress.goal is not None and progress.goal.status.final:
                    return
                if progress.goal is None and submitted:
                    letter = await find_dead_letter(self._bus, subjects.CONDUCTOR, submitted)
                    if letter is not None:
                        raise Refused(
                            f"The conductor refuses the goal: {letter.reason}",
                            "Correct it and submit it again",
                        )
                if await self._listener.wait():
                    await asyncio.sleep(SETTLE_TIME)
        finally:
            await self._listener.close()
