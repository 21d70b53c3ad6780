"""Following a goal until it ends."""

import asyncio
from collections.abc import AsyncGenerator

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.records import TaskState
from shared.errors import Refused
from shared.queries.office import find_dead_letter
from shared.queries.records import Listener, read_goal, read_tasks
from shared.queries.results import add_spending, read_results
from shared.settings import Settings
from shared.trail.archives import read_message
from shared.views.progress import Progress, TaskProgress

POLL_INTERVAL = 2.0  # Seconds between reads if no message arrives
SETTLE_TIME = 0.05  # Seconds after a message until the others of the same commit have arrived


async def read_progress(bus: Bus, goal_id: str) -> Progress:
    """The goal and its tasks now."""
    found = await read_goal(bus, goal_id)
    if found is None:
        return Progress()
    issued = [task for task in Progress(goal=found[0]).tasks if task.issued]
    states = await read_tasks(bus, issued)
    return Progress(goal=found[0], states={name: describe_task(state) for name, state in states.items()})


def describe_task(state: TaskState) -> TaskProgress:
    """What is shown of a task's state while its goal is followed."""
    result = state.result
    return TaskProgress(
        status=state.status,
        attempt=state.attempt,
        note=state.note,
        submitted_at=state.submitted_at,
        ended_at=result.completed_at if result else "",
        summary=result.output.partition("\n")[0] if result else "",
    )


class GoalFollower:
    """Follows one goal; if ``listen`` is called before the goal is submitted, nothing is missed."""

    def __init__(self, bus: Bus, goal_id: str) -> None:
        self._bus = bus
        self._goal_id = goal_id
        self._listener = Listener(bus, POLL_INTERVAL)

    async def listen(self) -> None:
        """Subscribe to what concerns the goal."""
        await self._listener.subscribe(subjects.goal(self._goal_id))
        await self._listener.subscribe(subjects.task("*", "*", "*", "*"), containing=self._goal_id)
        await self._listener.subscribe(subjects.dead(subjects.CONDUCTOR))

    async def follow(self, submitted: int = 0) -> AsyncGenerator[Progress, None]:
        """The progress now and after every change, until the goal has ended.

        ``submitted`` is the sequence of the submission: a goal with this id and another text is not
        followed. Raises Refused if the conductor refuses it.
        """
        text = await self._read_text(submitted) if submitted else ""
        try:
            last: Progress | None = None
            while True:
                self._listener.clear()
                progress = await read_progress(self._bus, self._goal_id)
                if text and progress.goal is not None and progress.goal.text != text:
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

    async def _read_text(self, submitted: int) -> str:
        """The text of a submission; empty for a retry, and for what is none."""
        stored = await read_message(self._bus, subjects.OFFICE, submitted)
        try:
            body = msgspec.json.decode(stored.data if stored else b"", type=_Submission)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return ""
        return body.text


class _Submission(msgspec.Struct):
    text: str = ""


async def follow_to_results(
    bus: Bus, settings: Settings, goal_id: str, submitted: int = 0
) -> AsyncGenerator[Progress, None]:
    """The progress of a goal as ``GoalFollower`` has it, and at the end once more with its results."""
    follower = GoalFollower(bus, goal_id)
    await follower.listen()
    async for progress in follower.follow(submitted):
        goal = progress.goal
        if goal is None or not goal.status.final:
            yield progress
            continue
        results = await add_spending(bus, settings, goal, await read_results(bus, goal))
        yield msgspec.structs.replace(progress, results=results)
