"""Executes tasks until they end, are overdue, are cancelled, or another process takes over."""

import asyncio
import time
from datetime import UTC, datetime

from shared import subjects
from shared.agent.base import Agent
from shared.agent.references import open_references
from shared.bus import Claim
from shared.bus.claim import ClaimWatch
from shared.bus.commit import Throttle, throttle
from shared.bus.records import read_task
from shared.contracts import Task, TaskResult, TaskStatus
from shared.effects import before_effect
from shared.errors import ActionError, BusError, Conflict, Refused
from shared.log import logger
from shared.sandbox import connection_observer
from shared.spans import record_spans_in
from shared.tasks.actions import Outcome
from shared.tasks.context import TaskContext, current_task
from shared.tasks.speaker import Speaker, current_speaker
from shared.web.fetching import unreached

WATCH_CLAIMS = 2.0
"""Seconds between two checks whether a running task was cancelled or taken over: a live message about its
cancellation may get lost, and about a takeover there is none."""
LOST = "the task was cancelled or taken over"
OVERDUE = "its deadline passed before it was done"
FAR_FUTURE = 1e7  # Seconds until a task without a deadline is overdue: four months
GRACE = 5.0  # Seconds a stopped execution has to end; after that it is abandoned, and its writes are refused
MAX_RESULT = 1_000_000
"""The most bytes of a result, which is stored with its task and passed on to tasks that build on it."""

log = logger(__name__)


class Execution:
    """A running task; ``stopped`` is the reason if it was stopped, else empty."""

    __slots__ = ("_over", "_task", "stopped")

    def __init__(self, task: asyncio.Task[Outcome]) -> None:
        self._task = task
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.stopped = ""
        task.add_done_callback(self._end)

    def stop(self, reason: str) -> None:
        """Cancel it; if it does not end within GRACE it is abandoned."""
        if not self.stopped:
            self.stopped = reason
            self._task.cancel()
            asyncio.get_running_loop().call_later(GRACE, self._end)

    async def outcome(self) -> Outcome:
        """Its outcome; raises what it raised, and CancelledError if it was stopped."""
        await self._over
        if not self._task.done():
            log.error("ignores_being_stopped", reason=self.stopped)
            raise asyncio.CancelledError
        return self._task.result()

    def _end(self, _: object = None) -> None:
        if not self._over.done():
            self._over.set_result(None)


class TaskExecutor:
    """Runs the tasks of an agent's process, each claimed before its first effect, or when it takes long."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._bus = agent.context.bus
        self._name = agent.context.profile.name
        self._running: dict[Claim, Execution] = {}
        self._watch = ClaimWatch(self._bus, self._claim_late)

    async def perform(self, held: Claim) -> TaskResult:
        """Perform the task and return its result; raises Conflict if the claim is lost meanwhile."""
        context = TaskContext(held)
        working = asyncio.create_task(self._do(context, held))
        execution = self._running[held] = Execution(working)
        overdue = asyncio.get_running_loop().call_later(time_left(held.task), execution.stop, OVERDUE)
        try:
            outcome = await execution.outcome()
            try:
                result = context.result(self._name, outcome)
                size = len(result.to_json())
            except ValueError as error:
                return context.failure(f"its result cannot be sent: {error}")
            if size > MAX_RESULT:
                return context.failure(
                    f"its result has {size:,} bytes and the limit is {MAX_RESULT:,}. "
                    "Have it write a file, and name that in output_paths",
                )
            return result
        except (ActionError, Refused) as error:
            return context.failure(str(error))
        except asyncio.CancelledError:
            if execution.stopped == OVERDUE:
                return context.failure(OVERDUE, TaskStatus.TIMEOUT)
            if execution.stopped:
                raise Conflict(execution.stopped) from None
            current = asyncio.current_task()
            if current is None or not current.cancelling():
                raise RuntimeError("the action cancelled itself") from None
            working.cancel()
            await asyncio.wait({working}, timeout=GRACE)
            raise
        finally:
            overdue.cancel()
            del self._running[held]

    async def _do(self, context: TaskContext, held: Claim) -> Outcome:
        run = self._watch.watch(held)  # before the rest: a claim that it stores is no effect of the task
        current_task.set(context)
        before_effect.set(lambda: self._require_claim(held))
        throttle.set(Throttle())
        current_speaker.set(Speaker.of(context.task))
        record_spans_in(context.spans)
        connection_observer.set(self._agent.context.record_connections)
        unreached.set(context.note_unreached)
        travelling = self._agent.context.travelling
        with run:
            if not held.first and travelling.roles():
                held.fetched = await travelling.read_origin(held.task)
            held.task = await travelling.open_task(held.task)
            context.references, unopened = await open_references(self._agent.context, context.task)
            if unopened:
                context.facts["unopened"] = unopened
            try:
                return await self._agent.on_task(context.task)
            finally:
                if travelling.roles() and (why := await travelling.store(held)):
                    context.facts["not_stored"] = why

    async def _require_claim(self, held: Claim) -> None:
        """Return once the claim is stored; if it is lost, the execution is stopped."""
        if not await self._begin(held):
            # No error, which the action might take for one of the effect's.
            raise asyncio.CancelledError(LOST)

    async def _claim_late(self, held: Claim) -> None:
        """Store the claim of what takes long."""
        try:
            await self._begin(held)
        except BusError as error:
            log.warning("claim_unstored", task_id=held.task.task_id, reason=str(error))

    async def _begin(self, held: Claim) -> bool:
        """Store the claim; if it is lost, stop the execution and return False."""
        try:
            await held.begin()
        except Conflict:
            if held in self._running:
                self._running[held].stop(LOST)
            return False
        return True

    async def watch_claims(self) -> None:
        """Claim what takes long, and stop what was cancelled or taken over; runs until cancelled."""
        await self._bus.subscribe(subjects.task(self._name, "*", "*", subjects.CANCELLED), self._on_cancelled)
        before: set[Claim] = set()
        with self._watch.running():
            while True:
                await asyncio.sleep(WATCH_CLAIMS)
                for held in before & self._running.keys():
                    await self._stop_if_lost(held)
                before = set(self._running)

    async def _on_cancelled(self, subject: str, _: bytes, __: dict[str, str]) -> None:
        """Look at once at a task that its requester has just ended."""
        requester, task_id = subject.split(".")[2:4]
        for held in list(self._running):
            if (held.task.requester, held.task.task_id) == (requester, task_id):
                await self._stop_if_lost(held)

    async def _stop_if_lost(self, held: Claim) -> None:
        try:
            lost = await self.is_lost(held)
        except BusError as error:
            log.warning("claim_unseen", task_id=held.task.task_id, reason=str(error))
            return
        if lost and held in self._running:
            self._running[held].stop(LOST)

    async def is_lost(self, held: Claim) -> bool:
        """Whether the task has ended, or another process has claimed it."""
        state = await read_task(self._bus, held.task)
        return state is None or not held.is_held(state)


def time_left(task: Task) -> float:
    """Seconds until the deadline of ``task``, 0 if it has passed; FAR_FUTURE if it has none."""
    if not task.deadline:
        return FAR_FUTURE
    deadline = datetime.fromisoformat(task.deadline)
    if deadline.tzinfo is None:
        deadline = deadline.replace(tzinfo=UTC)
    return min(FAR_FUTURE, max(0.0, deadline.timestamp() - time.time()))
