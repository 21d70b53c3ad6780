"""What every agent is: a member of the office with handlers for what arrives in its mailbox."""

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from shared import subjects
from shared.agent.member import Member
from shared.bus import Entry
from shared.contracts import (
    AgentReport,
    CancelGoal,
    Email,
    Envelope,
    GoalDue,
    Question,
    ReminderDue,
    Task,
    TaskResult,
)
from shared.errors import ActionError, Reject
from shared.llm.protocol import Message
from shared.messaging.threads import history_of, is_letter
from shared.reasoning.prompt import conclude, decline, frame_task
from shared.tasks.actions import Outcome, perform

Outbox = Sequence[Envelope | Entry]


class Agent(Member):
    """An agent: override the ``on_...`` methods it needs, mark what it can do with @register_action.

    What a handler returns is committed together, and the message is acknowledged after that. A
    handler raises Reject for what can never be handled; anything else it raises is tried again.
    """

    # --- what a subclass overrides ---------------------------------------------------------------

    async def on_start(self) -> None:
        """Called once, connected, before any message is handled."""

    async def on_stop(self) -> None:
        """Called once, after the last message was handled."""

    async def on_task(self, task: Task) -> Outcome:
        """Do a task: the action its context names, as it stands; else what its words ask, by thinking."""
        name = task.context.get("action")
        if not name and self.brain.available:
            return await self._work_out(task)
        if not name:
            raise ActionError(
                f"{self.profile.name} cannot work out what to do from words without a model",
                f"Name one of its actions in the task's context: {', '.join(self.actions) or 'it has none'}",
            )
        action = self.actions.get(str(name))
        if action is None:
            near = difflib.get_close_matches(str(name)[:60], self.actions, n=1)
            meant = f"Did you mean {near[0]!r}?" if near else ""
            raise ActionError(
                f"{self.profile.name} has no action {str(name)[:60]!r}",
                meant or f"Its actions are {', '.join(self.actions) or 'none'}",
            )
        params = task.context.get("params", {})
        if not isinstance(params, Mapping):
            raise ActionError(f"{name}: params must be an object, not {type(params).__name__}")
        return await perform(self, action, params)

    async def on_email(self, email: Email) -> Outbox:
        """Answer a letter, in its thread, by thinking about it.

        Without a model it is answered with what there is instead. What an agent answers to a letter that
        nothing waits for is only filed, or two might write to each other for ever.
        """
        if email.in_reply_to and email.sender != subjects.USER:
            return ()
        if self.brain.available:
            return await self._threads.open_letter(email)
        return [decline(email, self.profile.name, tuple(self.actions))]

    async def on_question(self, question: Question) -> Outbox:
        """Answer a question."""
        raise Reject(f"{self.profile.name} does not answer questions; ask {subjects.NEXUS}")

    async def on_result(self, result: TaskResult) -> Outbox:
        """Take the result of a task this agent handed out, when nothing here waits for it."""
        return ()

    async def on_cancel(self, request: CancelGoal) -> Outbox:
        """End a goal."""
        raise Reject(f"{self.profile.name} runs no goals; write to {subjects.CONDUCTOR}")

    async def on_report(self, report: AgentReport) -> Outbox:
        """Take what another agent reports; by default it is read and filed: it stays on the audit trail."""
        return ()

    async def on_due(self, due: GoalDue | ReminderDue) -> Outbox:
        """A timer this agent set went off."""
        return ()

    async def on_submission(self, data: bytes, seq: int, stored_at: int) -> Outbox:
        """Take what was published on tasks.submit; only the conductor gets these."""
        raise Reject(f"{self.profile.name} takes no submissions")

    def endpoints(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        """What it answers by request and reply, as ``<name>.<endpoint>``; asked for after ``on_start``."""
        return {}

    def signed_endpoints(self) -> Mapping[str, Callable[[bytes, str], Awaitable[bytes]]]:
        """What it does on behalf of whoever asks for ``<name>.<endpoint>``; that one's name comes along."""
        return {}

    async def _work_out(self, task: Task) -> Outcome:
        """Do a task that names no action, by thinking."""
        known, facts = await self.mind.recall(task.text)
        if facts:
            self.job.facts["context"] = facts
        conclusion = await self.think(
            frame_task(task, known, self.mind.reach // 3),
            history=[_message(said) for said in history_of(task.context)],
            may_rest=is_letter(task),
        )
        return conclude(conclusion)

    # --- what the desk calls ---------------------------------------------------------------------

    def take_delegated(self, result: TaskResult) -> bool:
        """Give ``result`` to the handler that waits for it, if one does here."""
        return self._delegation.take(result)

    async def let_go(self, task: Task) -> None:
        """The task is out of this process's hands: what it handed out for it may have to be called off."""
        await self._delegation.close(task)

    async def receive_letter(self, email: Email) -> Outbox:
        """A letter: the answer somebody here waits for, else ``on_email``."""
        answer = await self._exchange.take_answer(email)
        return await self.on_email(email) if answer is None else answer

    async def receive_result(self, result: TaskResult) -> Outbox:
        """A result: what a letter led to, else ``on_result``."""
        closed = await self._threads.take_result(result)
        return await self.on_result(result) if closed is None else closed


def _message(said: Mapping[str, Any]) -> Message:
    role: Literal["user", "assistant"] = "assistant" if said.get("role") == "assistant" else "user"
    return Message(role=role, text=str(said.get("text", "")))
