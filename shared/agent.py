"""What every agent is: a profile, a mailbox, actions, and handlers for what arrives."""

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from shared import subjects
from shared.actions import Outcome, collect_actions, perform
from shared.bus import Bus, Entry
from shared.bus.claim import pending
from shared.contracts import (
    CancelGoal,
    Email,
    Envelope,
    GoalDue,
    Question,
    Task,
    TaskChanged,
    TaskResult,
    generate_task_id,
)
from shared.errors import ActionError, ConfigError, Conflict, Reject
from shared.job import Job, current_job
from shared.log import logger
from shared.memory import Memory
from shared.profile import Profile
from shared.settings import Settings

POLL_DELEGATED = (0.05, 1.0)
"""Seconds until the first look at the record of a delegated task, doubling to the most there are between two.
Its result may reach another replica, or a mailbox whose only hand waits for it."""

Replies = Sequence[Envelope | Entry]


class BaseAgent:
    """An agent: override the ``on_...`` methods it needs, mark what it can do with @register_action.

    What a handler returns is committed together, and the message is acknowledged after that. A
    handler raises Reject for what can never be handled; anything else it raises is tried again.
    """

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        self.profile = profile
        self.settings = settings
        self.bus = bus
        self.memory = Memory(bus)
        self.actions = collect_actions(self)
        self.log = logger(profile.name)
        self._background: set[asyncio.Task[Any]] = set()
        self._delegated: dict[tuple[str, str], asyncio.Future[TaskResult]] = {}

    # --- what a subclass overrides ---------------------------------------------------------------

    async def on_start(self) -> None:
        """Called once, connected, before any message is handled."""

    async def on_stop(self) -> None:
        """Called once, after the last message was handled."""

    async def on_task(self, task: Task) -> Outcome:
        """Do a task: the action its context names, as it stands."""
        name = task.context.get("action")
        if not name:
            raise ActionError(
                f"{self.profile.name} cannot work out what to do from words without a model",
                f"Name one of its actions in the task's context: {', '.join(self.actions) or 'it has none'}",
            )
        action = self.actions.get(str(name))
        if action is None:
            raise ActionError(
                f"{self.profile.name} has no action {str(name)[:60]!r}",
                f"Its actions are {', '.join(self.actions) or 'none'}",
            )
        params = task.context.get("params", {})
        if not isinstance(params, Mapping):
            raise ActionError(f"{name}: params must be an object, not {type(params).__name__}")
        return await perform(self, action, params)

    async def on_email(self, email: Email) -> Replies:
        """Answer a letter; by default it is read and filed: it stays on the audit trail."""
        return ()

    async def on_question(self, question: Question) -> Replies:
        """Answer a question."""
        raise Reject(f"{self.profile.name} does not answer questions; ask {subjects.NEXUS}")

    async def on_result(self, result: TaskResult) -> Replies:
        """Take the result of a task this agent handed out, when nothing here waits for it."""
        return ()

    async def on_cancel(self, request: CancelGoal) -> Replies:
        """End a goal."""
        raise Reject(f"{self.profile.name} runs no goals; write to {subjects.CONDUCTOR}")

    async def on_due(self, due: GoalDue) -> Replies:
        """A timer this agent set went off."""
        return ()

    async def on_submission(self, data: bytes, seq: int, stored_at: int) -> Replies:
        """Take what was published on tasks.submit; only the conductor gets these."""
        raise Reject(f"{self.profile.name} takes no submissions")

    def endpoints(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        """What it answers by request and reply, as ``<name>.<endpoint>``; asked for after ``on_start``."""
        return {}

    def signed_endpoints(self) -> Mapping[str, Callable[[bytes, str], Awaitable[bytes]]]:
        """What it does on behalf of whoever asks for ``<name>.<endpoint>``; that one's name comes along."""
        return {}

    # --- what a subclass uses --------------------------------------------------------------------

    @property
    def job(self) -> Job:
        """The task being worked on; raises RuntimeError outside of one."""
        job = current_job.get()
        if job is None:
            raise RuntimeError("No task is being worked on here")
        return job

    async def progress(self, text: str) -> None:
        """A note for whoever watches the task; outside of a task it goes to the log."""
        job = current_job.get()
        if job is None:
            self.log.info("progress", note=text)
        else:
            await job.progress(text)

    def effect(self, what: str, *, repeatable: bool = False) -> AbstractAsyncContextManager[None]:
        """Journal something with an effect outside the office around doing it; see Claim.effect."""
        return self.job.effect(what, repeatable=repeatable)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background until the agent stops; what it raises is logged."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._on_background_end)

    async def submit(
        self, text: str, context: Mapping[str, Any] | None = None, *, requester: str = "user"
    ) -> str:
        """Submit a goal on somebody's behalf; returns its id."""
        goal_id = generate_task_id("goal")
        body = {"text": text, "goal_id": goal_id, "requester": requester, "context": dict(context or {})}
        await self.bus.store(subjects.SUBMIT, msgspec.json.encode(body), headers={"Nats-Msg-Id": goal_id})
        return goal_id

    async def delegate(
        self,
        assignee: str,
        text: str,
        action: str = "",
        params: Mapping[str, Any] | None = None,
        *,
        key: str = "",
    ) -> TaskResult:
        """Hand a task to another agent and wait for its result.

        The mailbox goes on meanwhile. A second attempt at the same job finds the tasks the first one
        handed out instead of handing them out again: by ``key``, else by their order, so what is
        delegated side by side needs a key.
        """
        job = self.job
        job.delegations += 1
        context = {"action": action, "params": dict(params or {})} if action else {}
        task = Task(
            task_id=f"{job.task.task_id[:90]}-{key or job.delegations}",
            parent_goal_id=job.task.parent_goal_id,
            goal_id=job.task.goal_id,
            cause=job.task.id,
            text=text,
            assignee=assignee,
            requester=self.profile.name,
            priority=job.task.priority,
            context=context,
            deadline=job.task.deadline,
        )
        # Where another job's id begins like this one's, its task has the name already.
        apart = msgspec.structs.replace(task, task_id=f"{task.task_id[:90]}-{self.bus.derive_id(task.cause)}")
        for named in (task, apart):
            arrived = self._delegated[named.assignee, named.task_id] = _future()
            try:
                if await self._is_handed_out(named):
                    return await self._await_result(named, arrived)
            finally:
                del self._delegated[named.assignee, named.task_id]
        raise ActionError(f"The task for {assignee} cannot be named: {apart.task_id!r} is taken")

    async def _is_handed_out(self, task: Task) -> bool:
        """Store the task, or find it stored by an earlier attempt; False where another job's has its id."""
        try:
            await self.bus.commit(pending(task, self.profile.name))
        except Conflict:
            record = await self._delegated_record(task)
            if record is not None and record.task.cause != task.cause:
                return False
            self.log.info("delegated_before", task_id=task.task_id)
        return True

    async def _delegated_record(self, task: Task) -> TaskChanged | None:
        subject = subjects.state(task.assignee, task.requester, task.task_id)
        stored = await self.bus.last(subjects.OFFICE, subject)
        return TaskChanged.from_json(stored.data) if stored else None

    async def _await_result(self, task: Task, arrived: asyncio.Future[TaskResult]) -> TaskResult:
        pause, longest = POLL_DELEGATED
        while True:
            done, _ = await asyncio.wait({arrived}, timeout=pause)
            if done:
                return arrived.result()
            pause = min(longest, 2 * pause)
            record = await self._delegated_record(task)
            if record is not None and record.result is not None:
                return record.result

    def take_delegated(self, result: TaskResult) -> bool:
        """Give ``result`` to the handler that waits for it, if one does here."""
        waiting = self._delegated.get((result.agent, result.task_id))
        if waiting is None:
            return False
        if not waiting.done():
            waiting.set_result(result)
        return True

    async def stop_background(self) -> None:
        """Cancel what ``spawn`` started and wait for its end."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def _on_background_end(self, task: asyncio.Task[Any]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self.log.error("background_failed", exc_info=error)


def _future() -> asyncio.Future[TaskResult]:
    return asyncio.get_running_loop().create_future()


def compose(base: type[BaseAgent], profile: Profile) -> type[BaseAgent]:
    """``base`` with the mixins the profile names; raises ConfigError for one that does not exist or fit."""
    mixins = [_mixin(path, profile) for path in profile.mixins]
    if not mixins:
        return base
    try:
        return type(base.__name__, (*mixins, base), {"__doc__": base.__doc__})
    except TypeError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"The skills of {profile.name!r} do not go together: {reason}",
            "Correct 'mixins' in its profile.yaml",
        ) from None


def _mixin(path: str, profile: Profile) -> type:
    module_name, _, class_name = path.rpartition(".")
    try:
        mixin = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"The profile of {profile.name!r} names the skill {path!r}, which does not exist: {error}",
            "Correct 'mixins' in its profile.yaml; the skills that come with Mailroom are in shared/skills",
        ) from None
    if not isinstance(mixin, type):
        raise ConfigError(f"The profile of {profile.name!r} names {path!r} as a skill, which is not a class")
    return mixin
