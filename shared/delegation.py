"""Tasks an agent hands to others in the middle of its own, and their results."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.claim import pending
from shared.contracts import Task, TaskChanged, TaskResult
from shared.errors import ActionError, Conflict
from shared.job import Job
from shared.log import logger

POLL = (0.05, 1.0)
"""Seconds until the first look at what is waited for, doubling to the most there are between two.
It may reach another replica, or a mailbox whose only hand waits for it."""

log = logger(__name__)


class Delegation:
    """What one agent's process handed out and waits for."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._waiting: dict[tuple[str, str], asyncio.Future[TaskResult]] = {}

    async def hand_out(
        self, job: Job, assignee: str, text: str, context: Mapping[str, Any], key: str
    ) -> TaskResult:
        """Hand ``assignee`` a task of ``job`` and wait for its result; see BaseAgent.delegate."""
        task = Task(
            task_id=f"{job.task.task_id[:90]}-{key}",
            parent_goal_id=job.task.parent_goal_id,
            goal_id=job.task.goal_id,
            cause=job.task.id,
            text=text,
            assignee=assignee,
            requester=self._bus.name,
            priority=job.task.priority,
            context=dict(context),
            deadline=job.task.deadline,
        )
        # Where another job's id begins like this one's, its task has the name already.
        apart = msgspec.structs.replace(
            task, task_id=f"{task.task_id[:90]}-{self._bus.derive_id(task.cause)}"
        )
        for named in (task, apart):
            arrived = self._waiting[named.assignee, named.task_id] = _future()
            try:
                if await self._is_handed_out(named):
                    return await self._await(named, arrived)
            finally:
                del self._waiting[named.assignee, named.task_id]
        raise ActionError(f"The task for {assignee} cannot be named: {apart.task_id!r} is taken")

    def take(self, result: TaskResult) -> bool:
        """Give ``result`` to the handler that waits for it, if one does here."""
        waiting = self._waiting.get((result.agent, result.task_id))
        if waiting is None:
            return False
        if not waiting.done():
            waiting.set_result(result)
        return True

    async def _is_handed_out(self, task: Task) -> bool:
        """Store the task, or find it stored by an earlier attempt; False where another job's has its id."""
        try:
            await self._bus.commit(pending(task, self._bus.name))
        except Conflict:
            record = await self._record(task)
            if record is not None and record.task.cause != task.cause:
                return False
            log.info("delegated_before", task_id=task.task_id)
        return True

    async def _record(self, task: Task) -> TaskChanged | None:
        subject = subjects.state(task.assignee, task.requester, task.task_id)
        stored = await self._bus.last(subjects.OFFICE, subject)
        return TaskChanged.from_json(stored.data) if stored else None

    async def _await(self, task: Task, arrived: asyncio.Future[TaskResult]) -> TaskResult:
        pause, longest = POLL
        while True:
            done, _ = await asyncio.wait({arrived}, timeout=pause)
            if done:
                return arrived.result()
            pause = min(longest, 2 * pause)
            record = await self._record(task)
            if record is not None and record.result is not None:
                return record.result


def _future() -> asyncio.Future[TaskResult]:
    return asyncio.get_running_loop().create_future()
