"""Tasks an agent hands to others in the middle of its own, and their results."""

import contextlib
from collections.abc import Mapping
from typing import Any

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.claim import cancelled_record, pending
from shared.bus.entry import seal
from shared.contracts import Task, TaskChanged, TaskResult, TaskStatus
from shared.errors import ActionError, BusError, Conflict
from shared.log import logger
from shared.messaging.pending import PendingReplies
from shared.tasks.context import TaskContext

LONGEST = 120
"""Characters of a task's id; a longer one ends in a digest instead."""

CALLS = 5
"""How often a task is called off whose worker writes into its record at the same moment."""
UNDONE = (TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELLED)

log = logger(__name__)


class Delegation:
    """What one agent's process handed out and waits for."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._waiting: PendingReplies[tuple[str, str], TaskResult] = PendingReplies()
        self._open: dict[str, dict[str, Task]] = {}

    async def hand_out(
        self, job: TaskContext, assignee: str, text: str, context: Mapping[str, Any], key: str
    ) -> TaskResult:
        """Hand ``assignee`` a task of ``job`` and wait for its result; see Agent.delegate."""
        task = self._task(job, assignee, text, context, key)
        # Where another job's id begins like this one's, its task has the name already.
        apart = msgspec.structs.replace(
            task, task_id=f"{job.task.task_id[:80]}-{self._bus.derive_id(task.cause, key)}"
        )
        for named in (task, apart):
            self._open.setdefault(job.task.id, {})[named.task_id] = named
            result = await self._waiting.wait(
                (named.assignee, named.task_id),
                lambda named=named: self._is_handed_out(named),  # type: ignore[misc]
                lambda named=named: self._result(named),  # type: ignore[misc]
            )
            self._open.get(job.task.id, {}).pop(named.task_id, None)
            if result is not None:
                return result
        raise ActionError(f"The task for {assignee} cannot be named: {apart.task_id!r} is taken")

    async def close(self, task: Task) -> None:
        """Where ``task`` ended otherwise than done, call off what was handed out for it and still goes on.

        Where it did not end, another attempt at it needs that.
        """
        try:
            record = await self._record(task) if self._open.get(task.id) else None
            if record is not None and not record.task.status.final:
                return
            parts = self._open.pop(task.id, {}).values()
            if record is None or record.task.status not in UNDONE:
                return
            for part in parts:
                await self._call_off(part, f"the task it was for ended as {record.task.status}")
        except BusError as error:
            log.warning("not_called_off", task_id=task.task_id, reason=str(error))

    async def _call_off(self, task: Task, reason: str) -> None:
        """End a task in its record: whoever works on it sees that within seconds, and nobody begins it."""
        subject = subjects.state(task.assignee, task.requester, task.task_id)
        for _ in range(CALLS):
            stored = await self._bus.last(subjects.OFFICE, subject)
            record = TaskChanged.from_json(stored.data) if stored else None
            if (
                stored is None
                or record is None
                or record.task.status.final
                or record.task.cause != task.cause
            ):
                return
            ended = cancelled_record(record, reason)
            with contextlib.suppress(Conflict):  # its worker just wrote something
                await self._bus.commit([seal(subject, ended, expect=stored.seq)])
                return

    def take(self, result: TaskResult) -> bool:
        """Give ``result`` to the handler that waits for it, if one does here."""
        return self._waiting.give((result.agent, result.task_id), result)

    def _task(self, job: TaskContext, assignee: str, text: str, context: Mapping[str, Any], key: str) -> Task:
        task_id = f"{job.task.task_id[:90]}-{key}"
        if len(task_id) > LONGEST:
            task_id = f"{job.task.task_id[:80]}-{self._bus.derive_id('task', job.task.id, key)}"
        try:
            return Task(
                task_id=task_id,
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
        except ValueError as error:
            raise ActionError(f"That is no task for {assignee[:64]!r}: {error}") from None

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

    async def _result(self, task: Task) -> TaskResult | None:
        record = await self._record(task)
        return record.result if record else None
