"""Nexus: the front desk, which answers from memory, minds reminders, and passes on what has to be done."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from services.nexus.answer import answer
from services.nexus.asking import ask_brain
from services.nexus.claims import strike_reminders
from services.nexus.context import build_context
from services.nexus.diary import read_span, wants_change
from services.nexus.greeting import greet
from services.nexus.reception import Reception, tell_result
from services.nexus.reminders import ENDED
from services.nexus.rounds import BRIEF
from services.nexus.visit import Visit
from shared import subjects
from shared.agent.base import Outbox
from shared.agent.process import run
from shared.contracts import (
    ContextPacket,
    Email,
    GoalDue,
    Hit,
    Question,
    ReminderDue,
    Response,
    RoutingDecision,
    Task,
    TaskChanged,
    TaskResult,
)
from shared.errors import ActionError, BusError, ModelError
from shared.llm.protocol import Message
from shared.messaging.threads import history_of, is_email_task
from shared.tasks.actions import Outcome, register_action

MEMORIES = 8
"""How many remembered things a context packet holds at most."""
THREAD = 10
"""How many messages of a thread the model is told."""


class Nexus(Reception):
    """The front desk: answers with citations, minds reminders, writes the briefings, and passes work on."""

    async def on_start(self) -> None:
        """Set the timers anew, and have the examples embedded, while the first messages are handled."""
        self.context.spawn(self.book.arm_all())
        self.context.spawn(self.schedule())
        self.context.spawn(self.prepare_examples())

    # --- actions ---------------------------------------------------------------------------------

    @register_action("Answer a question from memory", {"text": "The question"})
    async def ask(self, text: str) -> Outcome:
        """The answer with its citations; the whole Response in data key ``response``."""
        if not text.strip():
            raise ActionError("The question is empty", "Ask something")
        return _as_outcome(await self._answer(text))

    @register_action("Say who a message is for, and by which rule", {"text": "The message"})
    async def route(self, text: str) -> Outcome:
        """The RoutingDecision in data key ``decision``; nothing is passed on."""
        decision = await self.find_route(text, thinking=True)
        return Outcome(
            output=f"{decision.route}: {decision.rationale}", data={"decision": decision.to_dict()}
        )

    @register_action("Collect what memory knows about a message", {"text": "The message"})
    async def build_context(self, text: str) -> Outcome:
        """The ContextPacket in data key ``packet``: evidence ids, unknowns, assumptions."""
        if not text.strip():
            raise ActionError("The message is empty", "Say what it is about")
        packet, _ = await self._remember(text)
        lines = [f"- [{item.evidence_id}] {item.text}" for item in packet.bullets]
        return Outcome(
            output="\n".join(lines) or "Memory knows nothing about that.",
            data={"packet": packet.to_dict()},
            evidence_refs=tuple(item.evidence_id for item in packet.bullets),
        )

    @register_action("Tell the appointments that a message asks after", {"text": "The message"})
    async def consult_calendar(self, text: str) -> Outcome:
        """As show_calendar, for the days that are named; without any, for today. It changes nothing there."""
        if wants_change(text):
            raise ActionError(
                "I read the calendar and cannot write into it",
                "Change it where it is kept; a reminder I can set: 'remind me to call Ana tomorrow at 9'",
            )
        start, days = read_span(text, datetime.now(UTC).astimezone(self.zone).date())
        return await self.context.actions.perform("show_calendar", {"days": days, "start": start.isoformat()})

    @register_action(
        "Find the route of a message with the model, and answer it where it is to be answered",
        {"text": "The message"},
    )
    async def think_about(self, text: str) -> Outcome:
        """The decision in data key ``decision``, and where it stays here the Response in ``response``."""
        decision = await self.find_route(text, thinking=True)
        data: dict[str, Any] = {"decision": decision.to_dict()}
        if decision.route != self.context.profile.name:
            return Outcome(output=f"{decision.route}: {decision.rationale}", data=data)
        return _as_outcome(await self._answer(text), data)

    # --- what arrives ----------------------------------------------------------------------------

    async def on_question(self, question: Question) -> Outbox:
        """Answer, or pass on what the question asks to be done and say where it went."""
        return await self.process_message(Visit.of_question(question))

    async def on_email(self, email: Email) -> Outbox:
        """The same for a letter; an agent's answer to a letter is only filed, or two might never end.

        With a model, what no rule passes on is talked about in its thread.
        """
        if email.in_reply_to and email.sender != subjects.USER:
            return ()
        visit = Visit.of_email(email)
        if self.context.models.model.available and visit.text.strip():
            decision = await self.find_route(visit.text)
            if decision.route == self.context.profile.name:
                return await super().on_email(email)
        return await self.process_message(visit)

    async def on_task(self, task: Task) -> Outcome:
        """An action as it stands; a letter is answered in its thread; anything else is thought about."""
        if not is_email_task(task):
            return await self._do(task)
        visit = Visit.of_email(Email.from_dict(task.context["letter"]))
        decision = await self.find_route(visit.text, thinking=True)
        if decision.route != self.context.profile.name:
            return _as_outcome(await self.do_at_once(visit, decision))
        said = [_as_message(each) for each in history_of(task.context)][-THREAD:]
        return _as_outcome(await self._answer(visit.text, said))

    async def on_due(self, due: GoalDue | ReminderDue) -> Outbox:
        """A reminder or a briefing is due."""
        if not isinstance(due, ReminderDue):
            return ()
        if due.reminder_id.startswith(BRIEF):
            return await self.begin_round(due)
        await self.remind(due)
        return ()

    async def on_result(self, result: TaskResult) -> Outbox:
        """Hand what a tool brought to whoever asked for it."""
        if result.agent == self.context.profile.name and result.task_id.startswith(BRIEF):
            return self.deliver_round(result)
        stored = await self.context.bus.last(
            subjects.OFFICE, subjects.state(result.agent, self.context.profile.name, result.task_id)
        )
        context = TaskChanged.from_json(stored.data).task.context if stored else {}
        if "visit" not in context:
            return ()
        visit = Visit.from_dict(context["visit"])
        if "decision" in result.metadata and context.get("action") == "think_about":
            return await self._after_thought(visit, result)
        return [visit.reply(tell_result(result, context["route"]))]

    async def _do(self, task: Task) -> Outcome:
        """A task; what a train of thought says of reminders is struck where their record did not change."""
        _, before = await self.book.read()
        outcome = await super().on_task(task)
        if task.context.get("action") or (await self.book.read())[1] != before:
            return outcome
        text, claimed = strike_reminders(outcome.output)
        if not claimed:
            return outcome
        told = f"{text}\n\n(No reminder was set or changed.)".strip()
        return msgspec.structs.replace(outcome, output=told)

    async def _after_thought(self, visit: Visit, result: TaskResult) -> Outbox:
        if "response" in result.metadata:
            return [visit.reply(Response.from_dict(result.metadata["response"]))]
        return await self._follow(visit, RoutingDecision.from_dict(result.metadata["decision"]))

    async def process_message(self, visit: Visit) -> Outbox:
        """The reply to a message, or what brings it: a tool's task, a goal, a thought."""
        if not visit.text.strip():
            text = "The letter is empty. Ask a question, or say what is to be done."
            return [visit.reply(Response(text=text))]
        if said := greet(visit.text, {name: tool.description for name, tool in self.tools.items()}):
            return [visit.reply(Response(text=said, confidence=1.0))]
        decision = await self.find_route(visit.text)
        if decision.route == self.context.profile.name and self.context.models.model.available:
            params = {"text": visit.text}
            return await self.hand_out(
                visit, decision.route, self.context.profile.name, "think_about", params
            )
        return await self._follow(visit, decision)

    async def _follow(self, visit: Visit, decision: RoutingDecision) -> Outbox:
        if decision.tool_name:
            return await self.use_tool(visit, decision)
        if decision.route != self.context.profile.name:
            goal, response = self.open_goal(visit, decision)
            return [goal, visit.reply(response)]
        return [visit.reply(await self._recall(visit.text))]

    # --- what is known ---------------------------------------------------------------------------

    async def _answer(self, text: str, said: Sequence[Message] = ()) -> Response:
        """The model's answer from memory, checked; without one, or where it fails, memory's own words.

        ``said`` came before it in a thread: what was asked last helps to find what is meant now.
        """
        if not self.context.models.model.available:
            return await self._recall(text)
        try:
            before = [message.text for message in said if message.role == "user"][-1:]
            (packet, _), (reminders, _) = await asyncio.gather(
                self._remember("\n".join([*before, text])), self.book.read()
            )
            waiting = [each for each in reminders.reminders if each.status not in ENDED]
            return await ask_brain(self.context.models, text, packet, waiting, said)
        except ModelError as error:
            return await self._recall(text, str(error))
        except BusError as error:
            return Response(text=f"I cannot look into memory just now. {error}")

    async def _recall(self, text: str, problem: str = "") -> Response:
        try:
            packet, hits = await self._remember(text)
        except BusError as error:
            return Response(text=f"I cannot look into memory just now. {error}")
        return answer(text, packet, hits, problem)

    async def _remember(self, text: str) -> tuple[ContextPacket, list[Hit]]:
        hits = await self.context.memory.search(text, limit=MEMORIES)
        return build_context(text, hits, limit=MEMORIES), hits


def _as_outcome(response: Response, more: dict[str, Any] | None = None) -> Outcome:
    return Outcome(
        output=response.text,
        data={**(more or {}), "response": response.to_dict()},
        evidence_refs=response.citations,
    )


def _as_message(said: dict[str, Any]) -> Message:
    role: Literal["user", "assistant"] = "assistant" if said.get("role") == "assistant" else "user"
    return Message(role=role, text=str(said.get("text", "")))


if __name__ == "__main__":
    run(Nexus, __file__)
