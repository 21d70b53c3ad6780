"""Subtasks that an agent submits to others, and the directory of agents at work."""

import time
from collections.abc import Mapping
from typing import Any

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.records import cancel_task, read_presences, read_submitted, read_task, submission_entry
from shared.contracts import Presence, Task, TaskResult, TaskStatus
from shared.errors import ActionError, BusError, Conflict
from shared.log import logger
from shared.messaging.correspondence import PendingReplies
from shared.plans import format_agents, pages_of
from shared.tasks.context import TaskContext, require_current_task
from shared.tasks.said import pass_on
from shared.tasks.speaker import Speaker

MAX_TASK_ID = 120  # Characters of a subtask's id; a longer one is cut and ends in a digest
UNDONE = (TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELLED)

log = logger(__name__)


class Delegation:
    """The subtasks that one agent's process submitted and waits for."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._pending: PendingReplies[tuple[str, str], TaskResult] = PendingReplies()
        self._open: dict[str, dict[str, Task]] = {}

    async def run(
        self,
        assignee: str,
        text: str,
        action: str = "",
        params: Mapping[str, Any] | None = None,
        *,
        key: str = "",
    ) -> TaskResult:
        """Submit a subtask of the current task to another agent and wait for its result.

        The consumer slot is free meanwhile. A second attempt at the current task finds the subtasks of the
        first one instead of submitting them again: by ``key``, else by their order, so subtasks that run
        side by side need a key. Raises ActionError if the arguments make no valid task.
        """
        parent = require_current_task()
        name = parent.own_key(key) if key else parent.next_key()
        context: dict[str, Any] = {"hops": parent.hops + 1}
        if action:
            context |= {"action": action, "params": dict(params or {})}
        task = self._subtask(parent, assignee, text, context, name)
        # If another task's id begins like the parent's, a subtask of that one may have the id already.
        fallback = msgspec.structs.replace(
            task, task_id=f"{parent.task.task_id[:80]}-{self._bus.derive_id(task.cause, name)}"
        )
        for candidate in (task, fallback):
            if (result := await self._submit_and_wait(parent, candidate)) is not None:
                return result
        raise ActionError(f"The task for {assignee} has no free id: {fallback.task_id!r} is taken")

    async def close(self, task: Task) -> None:
        """If ``task`` ended without being done, cancel its subtasks that are still open.

        If it did not end, the next attempt at it needs them.
        """
        try:
            state = await read_task(self._bus, task) if self._open.get(task.id) else None
            if state is not None and not state.status.final:
                return
            subtasks = self._open.pop(task.id, {}).values()
            if state is None or state.status not in UNDONE:
                return
            for subtask in subtasks:
                await cancel_task(self._bus, subtask, f"the task it was for ended as {state.status}")
        except (BusError, Conflict) as error:
            log.warning("subtasks_not_cancelled", task_id=task.task_id, reason=str(error))

    async def accept_result(self, result: TaskResult) -> tuple[()] | None:
        """Give ``result`` to the handler that waits for it; None if none does in this process."""
        return () if self._pending.resolve((result.agent, result.task_id), result) else None

    async def _submit_and_wait(self, parent: TaskContext, task: Task) -> TaskResult | None:
        """The result of ``task``; None if its id is taken by another task's subtask."""
        self._open.setdefault(parent.task.id, {})[task.task_id] = task
        result = await self._pending.wait(
            (task.assignee, task.task_id), lambda: self._submit(task), lambda: self._result(task)
        )
        self._open.get(parent.task.id, {}).pop(task.task_id, None)
        return result

    def _subtask(
        self, parent: TaskContext, assignee: str, text: str, context: dict[str, Any], name: str
    ) -> Task:
        task_id = f"{parent.task.task_id[:90]}-{name}"
        if len(task_id) > MAX_TASK_ID:
            task_id = f"{parent.task.task_id[:80]}-{self._bus.derive_id('task', parent.task.id, name)}"
        try:
            return Task(
                task_id=task_id,
                parent_goal_id=parent.task.parent_goal_id,
                goal_id=parent.task.goal_id,
                cause=parent.task.id,
                text=text,
                assignee=assignee,
                requester=self._bus.name,
                priority=parent.task.priority,
                context=context,
                deadline=parent.task.deadline,
                said=pass_on(self._bus, parent.task),
                asker=Speaker.of(parent.task).name,
            )
        except ValueError as error:
            raise ActionError(f"That is not a valid task for {assignee[:64]!r}: {error}") from None

    async def _submit(self, task: Task) -> bool:
        """Store the task, or find it stored by an earlier attempt; False if another task has its id."""
        try:
            await self._bus.commit([submission_entry(task)])
        except Conflict:
            before = await read_submitted(self._bus, task.assignee, task.requester, task.task_id)
            if before is not None and before.cause != task.cause:
                return False
            log.info("delegated_before", task_id=task.task_id)
        return True

    async def _result(self, task: Task) -> TaskResult | None:
        state = await read_task(self._bus, task)
        return state.result if state else None


CACHE_SECONDS = 10.0  # Seconds for which the presences that were read are reused
NO_MAIL = frozenset({subjects.MEMORY_DAEMON, subjects.CONDUCTOR})  # Agents that do not answer mail


class Directory:
    """Which agents are at work now."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known: dict[str, Presence] = {}
        self._read_at = 0.0

    async def read(self) -> dict[str, Presence]:
        """One presence of each agent at work, by name, including the reader's own; raises BusError."""
        if not self._read_at or time.monotonic() - self._read_at > CACHE_SECONDS:
            present = await read_presences(self._bus)
            self._known = {each.agent: each for each in present if each.agent != subjects.GATEWAY}
            self._read_at = time.monotonic()
        return self._known

    async def text(self, me: str) -> str:
        """Every agent at work but ``me``, and how to write to it, for a prompt; empty if unreadable."""
        try:
            known = await self.read()
        except BusError as error:
            log.warning("no_directory", reason=str(error))
            return ""
        others = {name: presence for name, presence in known.items() if name not in (me, *NO_MAIL)}
        return format_agents(pages_of(others).values(), actions=False)
