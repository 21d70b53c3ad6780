"""Reaching other agents: subtasks, the directory of those at work, and a model's actions for both."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.records import cancel_task, read_presences, read_submitted, read_task, submission_entry
from shared.contracts import Presence, Task, TaskResult, TaskStatus
from shared.errors import ActionError, BusError, Conflict
from shared.llm.leaving import told_kinds
from shared.log import logger
from shared.messaging.correspondence import PendingReplies, RequestReply
from shared.plans import format_agents, pages_of
from shared.tasks.actions import Outcome, register_action
from shared.tasks.context import TaskContext, require_current_task, workspace_name
from shared.tasks.said import pass_on
from shared.tasks.speaker import Speaker

MAX_TASK_ID = 120  # Characters of a subtask's id; a longer one is cut and ends in a digest
UNDONE = (TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELLED)

log = logger(__name__)


Cancel = Callable[[str], Awaitable[object]]  # Cancels what was begun for a task, for the reason it gets


class Delegation:
    """The subtasks that one agent's process submitted and waits for, and what else ends with their task."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._pending: PendingReplies[tuple[str, str], TaskResult] = PendingReplies()
        self._open: dict[str, dict[str, Cancel]] = {}

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
                parent.subtasks |= {workspace_name(candidate): None}
                parent.add_changes(result.metadata.get("patch_targets"))
                return result
        raise ActionError(f"The task for {assignee} has no free id: {fallback.task_id!r} is taken")

    async def close(self, task: Task) -> None:
        """If ``task`` ended without being done, cancel what was begun for it and is still open.

        If it did not end, the next attempt at it needs them.
        """
        try:
            state = await read_task(self._bus, task) if self._open.get(task.id) else None
            if state is not None and not state.status.final:
                return
            begun = self._open.pop(task.id, {}).values()
            if state is None or state.status not in UNDONE:
                return
            for cancel in begun:
                await cancel(f"the task it was for ended as {state.status}")
        except (BusError, Conflict) as error:
            log.warning("subtasks_not_cancelled", task_id=task.task_id, reason=str(error))

    def keep_open(self, task: Task, name: str, cancel: Cancel) -> None:
        """Have what is called ``name`` cancelled if ``task`` ends undone before ``end`` is called."""
        self._open.setdefault(task.id, {})[name] = cancel

    def end(self, task: Task, name: str) -> None:
        """What was begun for ``task`` as ``name`` has ended."""
        self._open.get(task.id, {}).pop(name, None)

    async def accept_result(self, result: TaskResult) -> tuple[()] | None:
        """Give ``result`` to the handler that waits for it; None if none does in this process."""
        return () if self._pending.resolve((result.agent, result.task_id), result) else None

    async def _submit_and_wait(self, parent: TaskContext, task: Task) -> TaskResult | None:
        """The result of ``task``; None if its id is taken by another task's subtask."""
        self.keep_open(parent.task, task.task_id, partial(cancel_task, self._bus, task))
        result = await self._pending.wait(
            (task.assignee, task.task_id), lambda: self._submit(task), lambda: self._result(task)
        )
        self.end(parent.task, task.task_id)
        return result

    def _subtask(
        self, parent: TaskContext, assignee: str, text: str, context: dict[str, Any], name: str
    ) -> Task:
        done = (other for other in parent.subtasks if other != workspace_name(parent.task))
        task_id = f"{parent.task.task_id[:90]}-{name}"
        if len(task_id) > MAX_TASK_ID:
            task_id = f"{parent.task.task_id[:80]}-{self._bus.derive_id('task', parent.task.id, name)}"
        # A named action is a hand of the task itself and works in its workspace; other work gets its own.
        own = workspace_name(parent.task)
        is_hand = bool(context.get("action"))
        try:
            return Task(
                workspace=own if is_hand else "",
                starts_from=parent.task.starts_from if is_hand else (*parent.task.starts_from, own, *done),
                task_id=task_id,
                parent_goal_id=parent.task.parent_goal_id,
                goal_id=parent.task.goal_id,
                cause=parent.task.id,
                text=text,
                assignee=assignee,
                requester=self._bus.name,
                priority=parent.task.priority,
                context={**context, "kinds": parent.facts.get("kinds", [])},
                deadline=parent.task.deadline,
                said=pass_on(self._bus, parent.task),
                asker=Speaker.of(parent.task).name,
                budget=parent.task.budget,
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


# --- the directory of agents at work -----------------------------------------------------------------
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


# --- the actions by which a model reaches other agents -----------------------------------------------
ANSWER_WAIT = 300.0  # Seconds an agent has to answer a question to all
MAX_HOPS = 3
"""How often work may be passed on from agent to agent: the last one gets no actions to pass it on, or two
agents might write to each other for ever."""


def offered_actions(hops: int) -> tuple[str, ...]:
    """The names of the actions for a task that was passed on ``hops`` times; only at 0 may all be asked."""
    if hops >= MAX_HOPS:
        return ()
    return ("delegate_task", "write_to_colleague", *(() if hops else ("ask_everybody",)))


class PeerActions:
    """Actions that wait for another agent's answer while the consumer goes on with other messages."""

    def __init__(self, me: str, delegation: Delegation, requests: RequestReply, directory: Directory) -> None:
        self._me = me
        self._delegation = delegation
        self._requests = requests
        self._directory = directory

    @register_action(
        "Submit a task to another agent and wait for the result",
        {"assignee": "The agent's name", "task": "What is to be done, with all that is needed to do it"},
    )
    async def delegate_task(self, assignee: str, task: str) -> Outcome:
        """The colleague's result; raises ActionError if it failed or no agent of that name is at work."""
        await self._require(assignee)
        result = await self._delegation.run(assignee, task)
        if result.status is not TaskStatus.COMPLETED:
            reason = result.error_message or result.status
            raise ActionError(f"{assignee} could not do it: {reason}".rstrip("."), result.output)
        return Outcome(
            output=result.output,
            evidence_refs=result.evidence_refs,
            output_paths=result.output_paths,
            kinds=told_kinds(result.metadata),
        )

    @register_action(
        "Write to another agent, or to the user, and wait for the answer",
        {"recipient": "Whom to write to", "subject": "What it is about", "body": "The text"},
    )
    async def write_to_colleague(self, recipient: str, subject: str, body: str) -> Outcome:
        """The answer to this email."""
        if recipient != subjects.USER:
            await self._require(recipient)
        answer = await self._requests.send(recipient, subject, body)
        return Outcome(output=answer.body or answer.subject, evidence_refs=(answer.id,))

    @register_action(
        "Ask every running agent the same question, and wait for the answers", {"question": "The question"}
    )
    async def ask_everybody(self, question: str) -> Outcome:
        """The answers by agent; an agent that did not answer in time is listed too."""
        known = await self._directory.read()
        names = sorted(name for name in known if name not in (self._me, *NO_MAIL))
        if not names:
            raise ActionError("No colleague is at work")
        answers = await asyncio.gather(*(self._ask(name, question) for name in names))
        lines = [f"{name}: {answer}" for name, answer in zip(names, answers, strict=True)]
        return Outcome(output="\n\n".join(lines))

    async def _ask(self, name: str, question: str) -> str:
        try:
            async with asyncio.timeout(ANSWER_WAIT):
                answer = await self._requests.send(name, "A question to all", question, key=f"all-{name}")
        except TimeoutError:
            return f"(no answer within {ANSWER_WAIT:g} s)"
        except Conflict:
            raise
        except (ActionError, BusError) as error:
            return f"(could not be asked: {error})"
        return answer.body

    async def _require(self, name: str) -> None:
        known = await self._directory.read()
        if name == self._me:
            raise ActionError("That is you", "Do it yourself, or ask another agent")
        if name not in known:
            at_work = ", ".join(sorted(set(known) - {self._me}))
            raise ActionError(f"Nobody named {name[:60]!r} is at work", f"At work are: {at_work or 'none'}")
