"""Tasks being done by one process: performed, stopped when they are no longer its own."""

import asyncio
import time
from datetime import UTC, datetime

from shared import subjects
from shared.agent.base import Agent
from shared.bus import Claim
from shared.contracts import Task, TaskChanged, TaskResult, TaskStatus
from shared.errors import ActionError, BusError, Conflict, Refused
from shared.log import logger
from shared.tasks.actions import Outcome
from shared.tasks.context import TaskContext, current_task

WATCH_CLAIMS = 2.0
"""Seconds between looks at whether long-running tasks were cancelled or taken over."""
LOST = "the task was cancelled or taken over"
OVERDUE = "its deadline passed before it was done"
FAR_FUTURE = 1e7
"""Seconds that a task without a deadline has: four months."""
GRACE = 5.0
"""Seconds that work which was told to stop has to end; what goes on after that changes nothing any more."""
MAX_RESULT = 1_000_000
"""The most bytes of a result: it is stored with its task, and passed on to tasks that build on it."""

log = logger(__name__)


class Execution:
    """A task being done; ``stopped`` is why it was told to stop, if it was."""

    __slots__ = ("_over", "_task", "stopped")

    def __init__(self, task: asyncio.Task[Outcome]) -> None:
        self._task = task
        self._over = asyncio.Event()
        self.stopped = ""
        task.add_done_callback(lambda _: self._over.set())

    def stop(self, reason: str) -> None:
        """Cancel it; what does not end by that is left to itself after GRACE."""
        if not self.stopped:
            self.stopped = reason
            self._task.cancel()
            asyncio.get_running_loop().call_later(GRACE, self._over.set)

    async def outcome(self) -> Outcome:
        """What it came to; raises what it raised, and CancelledError where it was stopped."""
        await self._over.wait()
        if not self._task.done():
            log.error("ignores_being_stopped", reason=self.stopped)
            raise asyncio.CancelledError
        return self._task.result()


class TaskExecutor:
    """The claims that an agent's process works on."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._bus = agent.bus
        self._name = agent.profile.name
        self._works: dict[Claim, Execution] = {}

    async def perform(self, held: Claim) -> TaskResult:
        """Do the task, unless its deadline passes or the claim is lost before it is done."""
        job = TaskContext(held)
        working = asyncio.create_task(self._do(job))
        work = self._works[held] = Execution(working)
        overdue = asyncio.get_running_loop().call_later(_time_left(held.task), work.stop, OVERDUE)
        try:
            return self._result(job, await work.outcome())
        except (ActionError, Refused) as error:
            return job.failure(str(error))
        except asyncio.CancelledError:
            if work.stopped == OVERDUE:
                return job.failure(OVERDUE, TaskStatus.TIMEOUT)
            if work.stopped:
                raise Conflict(work.stopped) from None
            if not _is_being_cancelled():
                raise RuntimeError("the action cancelled itself") from None
            working.cancel()
            await asyncio.wait({working}, timeout=GRACE)
            raise
        finally:
            overdue.cancel()
            del self._works[held]

    def _result(self, job: TaskContext, outcome: Outcome) -> TaskResult:
        try:
            result = job.result(self._name, outcome)
            size = len(result.to_json())
        except ValueError as error:
            return job.failure(f"its result cannot be sent: {error}")
        if size > MAX_RESULT:
            return job.failure(
                f"its result has {size:,} bytes and the limit is {MAX_RESULT:,}. "
                "Have it write a file, and name that in output_paths",
            )
        return result

    async def _do(self, job: TaskContext) -> Outcome:
        current_task.set(job)
        return await self._agent.on_task(job.task)

    async def watch_claims(self) -> None:
        """Stop work whose task was cancelled or taken over meanwhile; runs until cancelled."""
        before: set[Claim] = set()
        while True:
            await asyncio.sleep(WATCH_CLAIMS)
            for held in before & self._works.keys():
                try:
                    lost = await self.is_lost(held)
                except BusError as error:
                    log.warning("claim_unseen", task_id=held.task.task_id, reason=str(error))
                    continue
                if lost and held in self._works:
                    self._works[held].stop(LOST)
            before = set(self._works)

    async def is_lost(self, held: Claim) -> bool:
        """Whether the task ended meanwhile, or another process claimed it."""
        task = held.task
        stored = await self._bus.last(
            subjects.OFFICE, subjects.state(task.assignee, task.requester, task.task_id)
        )
        record = TaskChanged.from_json(stored.data) if stored else None
        return record is None or record.task.status.final or record.attempt != held.attempt


def _is_being_cancelled() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


def _time_left(task: Task) -> float:
    if not task.deadline:
        return FAR_FUTURE
    deadline = datetime.fromisoformat(task.deadline)
    if deadline.tzinfo is None:
        deadline = deadline.replace(tzinfo=UTC)
    return min(FAR_FUTURE, max(0.0, deadline.timestamp() - time.time()))
