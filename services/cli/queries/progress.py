"""Following a goal until it ends."""

import asyncio
from collections.abc import AsyncGenerator

import msgspec

from services.cli.queries.records import read_goal, read_tasks, scan
from shared import subjects
from shared.bus import Bus
from shared.contracts import DeadLetter, Goal, GoalTask, TaskChanged, TaskStatus
from shared.errors import Refused

LOOK_EVERY = 2.0
"""Seconds between looks even when nothing is heard: a live message may be lost with a connection."""
SETTLE = 0.05
"""Seconds in which what is committed together arrives together."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How a goal stands: its record (None: not taken up yet), and the records of its tasks by their ids."""

    goal: Goal | None = None
    records: dict[str, TaskChanged] = {}

    @property
    def tasks(self) -> tuple[GoalTask, ...]:
        """The goal's tasks; while the critic looks at them, the review is the last."""
        goal = self.goal
        if goal is None:
            return ()
        if goal.status is not TaskStatus.REVIEW:
            return goal.tasks
        return (*goal.tasks, review_of(goal, self.records.get(goal.review_task_id)))

    def note(self, task: GoalTask) -> str:
        """What a task is at, or what came of it."""
        record = self.records.get(task.task_id)
        if task.status.final or record is None:
            return task.summary
        attempt = f"attempt {record.attempt}: " if record.attempt > 1 else ""
        waiting = "waits for a free hand" if record.attempt == 0 else ""
        return attempt + (record.note or waiting)


def review_of(goal: Goal, record: TaskChanged | None) -> GoalTask:
    """The review of a goal as a task of it, by its record (None: not read yet)."""
    ended = record is not None and record.task.status.final
    return GoalTask(
        name="review",
        task_id=goal.review_task_id,
        text="review",
        assignee=subjects.CRITIC,
        issued=True,
        status=record.task.status if record and ended else TaskStatus.IN_PROGRESS,
        started_at=record.task.created_at if record else "",
        ended_at=record.created_at if record and ended else "",
        summary=record.result.output.partition("\n")[0] if record and record.result else "",
    )


async def look(bus: Bus, goal_id: str) -> Progress:
    """How the goal stands now."""
    found = await read_goal(bus, goal_id)
    if found is None:
        return Progress()
    goal = found[0]
    out = [task for task in Progress(goal=goal).tasks if task.issued]
    names = [subjects.state(task.assignee, subjects.CONDUCTOR, task.task_id) for task in out]
    records = (await read_tasks(bus, names)).values()
    return Progress(goal=goal, records={record.task.task_id: record for record in records})


class Follower:
    """Follows one goal; made before the goal is submitted, it misses nothing."""

    def __init__(self, bus: Bus, goal_id: str) -> None:
        self._bus = bus
        self._goal_id = goal_id
        self._heard = asyncio.Event()

    async def listen(self) -> None:
        """Begin to hear what happens."""
        await self._bus.subscribe(f"{subjects.AUDIT_PREFIX}state.>", self._hear)
        await self._bus.subscribe(
            f"{subjects.AUDIT_PREFIX}{subjects.dead(subjects.CONDUCTOR)}", self._hear_all
        )

    async def follow(self, submitted: int = 0) -> AsyncGenerator[Progress, None]:
        """How the goal stands, now and at every change, until it has ended.

        ``submitted`` is the sequence of the submission: raises Refused where the conductor refuses it.
        """
        last: Progress | None = None
        while True:
            self._heard.clear()
            progress = await look(self._bus, self._goal_id)
            if progress != last:
                yield progress
                last = progress
            if progress.goal is not None and progress.goal.status.final:
                return
            if progress.goal is None and submitted:
                await self._require_accepted(submitted)
            await self._wait()

    async def _wait(self) -> None:
        try:
            await asyncio.wait_for(self._heard.wait(), LOOK_EVERY)
        except TimeoutError:
            return
        await asyncio.sleep(SETTLE)

    async def _require_accepted(self, submitted: int) -> None:
        letter = await find_refusal(self._bus, subjects.CONDUCTOR, submitted)
        if letter is not None:
            raise Refused(
                f"The conductor refuses the goal: {letter.reason}", "Correct it and submit it again"
            )

    async def _hear(self, _: str, payload: bytes, __: dict[str, str]) -> None:
        if self._goal_id.encode() in payload:
            self._heard.set()

    async def _hear_all(self, _: str, __: bytes, ___: dict[str, str]) -> None:
        self._heard.set()


async def find_refusal(bus: Bus, agent: str, seq: int) -> DeadLetter | None:
    """The dead letter about message ``seq`` of OFFICE in the mailbox of ``agent``."""
    async for stored in scan(bus, subjects.OFFICE, subjects.dead(agent), seq=seq):
        letter = DeadLetter.from_json(stored.data)
        if (letter.stream, letter.stream_seq) == (subjects.OFFICE, seq):
            return letter
    return None
