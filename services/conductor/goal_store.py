"""The goals' records on the bus, those of their tasks, their timers, and the board of all open goals."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from services.conductor.state_machine import state_change
from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import cancelling_entry, read_record, read_submitted, read_task_state
from shared.contracts import (
    Goal,
    GoalDue,
    GoalTask,
    OfficeState,
    StateChanged,
    TaskChanged,
    TaskStatus,
)
from shared.contracts.base import amended
from shared.errors import BusError
from shared.spans import recorded_spans

THINKING = "thinking"
"""The ``what`` of the timer that checks whether a model is still being asked about a goal."""
POST_EVERY = 0.25
"""Seconds between posts of the board while it changes; the goals' own records are always exact."""
MAX_LISTED = 1_000
"""The most goals that the board lists."""
BUSIEST_FIRST = (OfficeState.EXECUTING, OfficeState.REVIEW, OfficeState.PLANNING)
RESULT_FIELDS = (
    "status",
    "output",
    "error_message",
    "metadata",
    "evidence_refs",
    "output_paths",
    "outcome",
)


class StoredGoal(NamedTuple):
    """A goal as it is recorded, and the sequence of that record; 0 for a goal without a record."""

    goal: Goal
    seq: int


class StatusBoard:
    """Keeps ``state.office``, the record of all open goals, in step with them."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._active: dict[str, OfficeState] = {}
        self._posted: dict[str, OfficeState] | None = None
        self._state = OfficeState.IDLE

    async def restore(self) -> None:
        """Begin with the goals of the last post that are still open."""
        posted = await read_record(self._bus, subjects.OFFICE_STATE, StateChanged)
        if posted is None:
            return
        self._state = posted.value.state
        for goal_id in posted.value.active:
            goal = await read_record(self._bus, subjects.goal(goal_id), StateChanged)
            if goal is not None:
                self.update(goal_id, goal.value.state)

    @property
    def active(self) -> tuple[str, ...]:
        """The ids of the open goals, as far as the board knows."""
        return tuple(self._active)

    def update(self, goal_id: str, state: OfficeState) -> None:
        """Note the state of a goal; the next post has it."""
        if state is OfficeState.IDLE:
            self._active.pop(goal_id, None)
        else:
            self._active[goal_id] = state

    async def post_changes(self) -> None:
        """Post every change, until cancelled."""
        while True:
            if self._active != self._posted:
                try:
                    await self.post()
                except BusError:
                    self._posted = None
            await asyncio.sleep(POST_EVERY)

    async def post(self) -> None:
        """Post the board now; raises BusError."""
        active = dict(self._active)
        listed = dict(list(active.items())[:MAX_LISTED])
        state = next((state for state in BUSIEST_FIRST if state in active.values()), OfficeState.IDLE)
        change = StateChanged(sender=subjects.CONDUCTOR, state=state, previous=self._state, active=listed)
        await self._bus.commit([seal(subjects.OFFICE_STATE, change)])
        self._state, self._posted = state, active


class GoalStore:
    """Reads goals and results, and makes the entries that record what becomes of them."""

    def __init__(self, bus: Bus, board: StatusBoard) -> None:
        self._bus = bus
        self.board = board

    async def find(self, goal_id: str) -> StoredGoal | None:
        """A goal by its id; None if there is none."""
        record = await read_record(self._bus, subjects.goal(goal_id), StateChanged) if goal_id else None
        goal = record.value.goal if record else None
        return StoredGoal(goal, record.seq) if record and goal else None

    async def set_deadline(self, goal: Goal) -> None:
        """Set the timer that goes off at the goal's deadline; setting it again changes nothing."""
        await self._set_timer(goal.goal_id, goal.goal_id, datetime.fromisoformat(goal.deadline), "")

    def entry(self, goal: Goal, stored: StoredGoal) -> Entry:
        """The entry that records ``goal``; its commit is refused if ``stored`` is not the last record."""
        change = amended(state_change(goal, stored.goal if stored.seq else None), spans=recorded_spans())
        self.board.update(goal.goal_id, change.state)
        return seal(subjects.goal(goal.goal_id), change, expect=stored.seq)

    async def results(self, goal: Goal) -> dict[str, Any]:
        """The results of a goal's tasks so far, by the tasks' names."""
        results = await asyncio.gather(*(self.result(task) for task in goal.tasks))
        return {task.name: result for task, result in zip(goal.tasks, results, strict=True)}

    async def result(self, task: GoalTask) -> Mapping[str, Any]:
        """The result of a task as the critic, the report and later tasks read it."""
        parties = (task.assignee, subjects.CONDUCTOR, task.task_id)
        state = await read_task_state(self._bus, *parties) if task.issued else None
        if state is None or state.step != subjects.ENDED or state.result is None:
            return {"status": str(task.status), "output": "", "error_message": task.summary}
        values = state.result.to_dict()
        return {"agent": task.assignee, **{name: values[name] for name in RESULT_FIELDS}}

    async def journal(self, task: GoalTask) -> list[Any]:
        """The effects that a task's assignee noted before and after they happened, as its trail has them."""
        parties = (task.assignee, subjects.CONDUCTOR, task.task_id)
        names = [subjects.task(*parties, step) for step in subjects.AT_WORK]
        steps = [await read_record(self._bus, name, TaskChanged) for name in names]
        last = max(filter(None, steps), key=lambda step: step.seq, default=None)
        return msgspec.to_builtins(last.value.journal) if last else []

    async def cancel_task(self, task: GoalTask, status: TaskStatus, reason: str) -> Entry | None:
        """The entry that ends a task with ``status``; None if it has ended already, or was never assigned."""
        submitted = await read_submitted(self._bus, task.assignee, subjects.CONDUCTOR, task.task_id)
        if submitted is None:
            return None
        entry, _ = await cancelling_entry(self._bus, submitted, reason[:500], status=status)
        return entry

    async def check_later(self, goal_id: str, seconds: float) -> None:
        """Set the timer that goes off ``seconds`` from now to check whether a model is still being asked."""
        moment = datetime.now(UTC) + timedelta(seconds=seconds)
        await self._set_timer(f"{THINKING}-{goal_id}", goal_id, moment, THINKING)

    async def _set_timer(self, name: str, goal_id: str, moment: datetime, what: str) -> None:
        due = GoalDue(sender=subjects.CONDUCTOR, recipient=subjects.CONDUCTOR, goal_id=goal_id, what=what)
        headers = {
            "Nats-Schedule": f"@at {moment:%Y-%m-%dT%H:%M:%S.%fZ}",
            "Nats-Schedule-Target": subjects.timer_due(subjects.CONDUCTOR),
        }
        await self._bus.store(subjects.timer(subjects.CONDUCTOR, name), due.to_json(), headers=headers)
