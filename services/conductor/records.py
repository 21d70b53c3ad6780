"""The goals' records: how a goal stands, what came of its tasks, and how a task is taken back."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from services.conductor.office_state import OfficeBoard
from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.contracts import Goal, GoalDue, GoalTask, OfficeState, StateChanged, TaskChanged, TaskStatus

THINKING = "thinking"
"""What a timer is for that looks whether a model answered: in case the process that asked it is gone."""


class Records:
    """Reads and writes what the office knows of goals."""

    def __init__(self, bus: Bus, board: OfficeBoard) -> None:
        self._bus = bus
        self._board = board

    async def find(self, goal_id: str) -> tuple[Goal, int] | None:
        """A goal as it stands, and the sequence that says so."""
        if not goal_id:
            return None
        stored = await self._bus.last(subjects.OFFICE, subjects.goal(goal_id))
        change = StateChanged.from_json(stored.data) if stored else None
        if stored is None or change is None or change.goal is None:
            return None
        return change.goal, stored.seq

    def entry(self, goal: Goal, state: OfficeState, before: OfficeState, expect: int) -> Entry:
        """The entry that says how a goal stands now."""
        self._board.post(goal.goal_id, state)
        change = StateChanged(
            sender=subjects.CONDUCTOR, goal_id=goal.goal_id, state=state, previous=before, goal=goal
        )
        return seal(subjects.goal(goal.goal_id), change, expect=expect)

    async def results(self, goal: Goal) -> dict[str, Any]:
        """What came of every task of a goal, by name."""
        results = await asyncio.gather(*(self.result(task) for task in goal.tasks))
        return {task.name: result for task, result in zip(goal.tasks, results, strict=True)}

    async def result(self, task: GoalTask) -> Mapping[str, Any]:
        """What came of a task, as the critic, the report and later tasks read it."""
        found = await self.task(task) if task.issued else None
        if found is None or found[0].result is None:
            return {"status": str(task.status), "output": "", "error_message": task.summary}
        fields = ("status", "output", "error_message", "metadata", "evidence_refs", "output_paths")
        values = found[0].result.to_dict()
        return {"agent": task.assignee, **{name: values[name] for name in fields}}

    async def task(self, task: GoalTask) -> tuple[TaskChanged, int] | None:
        """The record of a task, and its sequence."""
        subject = subjects.state(task.assignee, subjects.CONDUCTOR, task.task_id)
        stored = await self._bus.last(subjects.OFFICE, subject)
        return (TaskChanged.from_json(stored.data), stored.seq) if stored else None

    async def recall(self, goal: Goal, task: GoalTask, status: TaskStatus, reason: str) -> Entry | None:
        """The entry that takes a task back from whoever works on it; None where it ended."""
        found = await self.task(task)
        if found is None or found[0].task.status.final:
            return None
        record, seq = found
        recalled = TaskChanged(
            sender=subjects.CONDUCTOR,
            recipient=task.assignee,
            goal_id=goal.goal_id,
            task=msgspec.structs.replace(record.task, status=status),
            attempt=record.attempt,
            worker=record.worker,
            note=reason[:500],
            journal=record.journal,
        )
        return seal(subjects.state(task.assignee, subjects.CONDUCTOR, task.task_id), recalled, expect=seq)

    async def set_deadline(self, goal: Goal) -> None:
        """Have the broker say so when the goal's deadline has come."""
        await self._set_timer(goal.goal_id, goal.goal_id, datetime.fromisoformat(goal.deadline), "")

    async def look_again(self, goal_id: str, seconds: float) -> None:
        """Have the broker ask, ``seconds`` from now, whether a model answered about the goal."""
        moment = datetime.now(UTC) + timedelta(seconds=seconds)
        await self._set_timer(f"{THINKING}-{goal_id}", goal_id, moment, THINKING)

    async def _set_timer(self, name: str, goal_id: str, moment: datetime, what: str) -> None:
        due = GoalDue(sender=subjects.CONDUCTOR, recipient=subjects.CONDUCTOR, goal_id=goal_id, what=what)
        headers = {
            "Nats-Schedule": f"@at {moment:%Y-%m-%dT%H:%M:%S.%fZ}",
            "Nats-Schedule-Target": subjects.timer_due(subjects.CONDUCTOR),
        }
        await self._bus.store(subjects.timer(subjects.CONDUCTOR, name), due.to_json(), headers=headers)
