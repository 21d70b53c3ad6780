"""The base of every agent: its context, and handlers for the messages that arrive."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from shared import subjects
from shared.agent.context import AgentContext, load_skills
from shared.bus import Bus, Entry
from shared.contracts import (
    AgentReport,
    CancelGoal,
    Email,
    Envelope,
    GoalDue,
    Question,
    StopAnswer,
    Task,
    TaskResult,
    TimerDue,
)
from shared.errors import ActionError, Reject
from shared.llm.leaving import UNKNOWN
from shared.llm.protocol import message_of
from shared.messaging.correspondence import history_of, is_email_task
from shared.reasoning.checkpoint import read_talk
from shared.reasoning.prompts import (
    conclude,
    decline,
    frame_objections,
    frame_task,
    show_references,
    words_of,
)
from shared.settings import Settings
from shared.tasks.actions import Outcome, kinds_of
from shared.tasks.profiles import Profile

Outbox = Sequence[Envelope | Entry]
"""A handler's return value: messages committed together before the handled one is acknowledged."""


class Agent:
    """An agent: override the ``on_...`` handlers it needs, and mark its actions with @register_action.

    A handler raises Reject for a message that can never be handled; after any other exception the message is
    delivered again. ``context`` holds everything the agent works with, and is shared with its skills. Raises
    ConfigError if a skill does not exist or an action has a reserved name.
    """

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        self.context = AgentContext(profile, settings, bus)
        self.context.actions.register(self)
        for skill in load_skills(self.context):
            self.context.actions.register(skill)

    async def on_start(self) -> None:
        """Called once, after connecting and before the first message is handled."""

    async def on_stop(self) -> None:
        """Called once, after the last message was handled."""

    async def on_task(self, task: Task) -> Outcome:
        """Do a task: run the action that its context names; otherwise work on its text in an agent loop.

        One that a review sent back goes on in the conversation it had, if that is there.
        """
        context = self.context
        name = task.context.get("action")
        if not name and context.models.model.available and (talk := await read_talk(context.bus, task)):
            conclusion = await context.run_loop(frame_objections(task), talk=talk)
            refs = tuple(dict.fromkeys((*talk.evidence_refs, *conclusion.evidence_refs)))
            return conclude(msgspec.structs.replace(conclusion, evidence_refs=refs))
        if not name and context.models.model.available:
            memories, scores = await context.models.recall(task.text)
            if scores:
                context.current_task.facts["context"] = scores
            history = [message_of(entry) for entry in history_of(task.context)]
            if words_of(task) != task.text:  # of a thread between agents it is not known what it tells
                history = [msgspec.structs.replace(message, kinds=(UNKNOWN,)) for message in history]
            framed = frame_task(
                task, memories, context.models.context_characters // 3, context.current_task.references
            )
            conclusion = await context.run_loop(
                "\n\n".join(filter(None, (framed, await self.prepare(task)))),
                history=[*history, *show_references(context.current_task.references)],
                may_rest=is_email_task(task),
            )
            return conclude(conclusion)
        if not name:
            names = ", ".join(context.actions)
            raise ActionError(
                f"{context.profile.name} cannot work out what to do from words without a model",
                f"Name one of its actions in the task's context: {names}"
                if names
                else "It has no actions; set MAILROOM_BRAIN",
            )
        params = task.context.get("params", {})
        if not isinstance(params, Mapping):
            raise ActionError(f"{name}: params must be an object, not {type(params).__name__}")
        outcome = await context.actions.perform(str(name), params)
        if kinds := kinds_of(str(name), outcome):
            facts = context.current_task.facts
            facts["kinds"] = sorted({*facts.get("kinds", ()), *kinds})
        return outcome

    async def prepare(self, task: Task) -> str:
        """Do what a task given as text needs in any case; what was done, for the model that works on it."""
        return ""

    async def on_email(self, email: Email) -> Outbox:
        """Answer an email in its thread, by an agent loop; without a model the answer explains what works.

        Another agent's answer that nothing waits for is not answered, or the two might go on for ever.
        """
        if email.in_reply_to and email.sender != subjects.USER:
            return ()
        context = self.context
        if context.models.model.available:
            return await context.threads.open_email(email)
        return [decline(email, tuple(context.actions))]

    async def on_question(self, question: Question) -> Outbox:
        """Answer a question."""
        raise Reject(f"{self.context.profile.name} does not answer questions; ask {subjects.NEXUS}")

    async def on_stop_answer(self, request: StopAnswer) -> Outbox:
        """End what is done for a question."""
        raise Reject(f"{self.context.profile.name} does not answer questions; ask {subjects.NEXUS}")

    async def on_result(self, result: TaskResult) -> Outbox:
        """Handle the result of a task this agent submitted, if nothing in this process waits for it."""
        return ()

    async def on_cancel(self, request: CancelGoal) -> Outbox:
        """End a goal."""
        raise Reject(f"{self.context.profile.name} runs no goals; write to {subjects.CONDUCTOR}")

    async def on_report(self, report: AgentReport) -> Outbox:
        """Handle another agent's report; by default nothing is done, and it stays in the audit log."""
        return ()

    async def on_due(self, due: GoalDue | TimerDue) -> Outbox:
        """Handle a timer that this agent set."""
        return ()

    async def on_submission(
        self, data: bytes, seq: int, stored_at: int, sender: str, priority: str = ""
    ) -> Outbox:
        """Handle a goal that ``sender``, an agent or ``user``, submitted; only the conductor gets these.

        ``priority`` is that of its subject, empty if this names none.
        """
        raise Reject(f"{self.context.profile.name} takes no submissions")

    def endpoints(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        """The handlers of requests to ``<name>.<endpoint>``; called once, after ``on_start``."""
        return {}

    def signed_endpoints(self) -> Mapping[str, Callable[[bytes, str], Awaitable[bytes]]]:
        """As ``endpoints``, for handlers that also take the name of the requester, verified by the broker."""
        return {}
