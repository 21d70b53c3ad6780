"""Nexus: answers from memory, handles reminders and briefings, and routes other requests to agents."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from services.nexus.answers.model_answer import Answerer
from services.nexus.answers.unsupported_claims import remove_reminder_claims
from services.nexus.briefings.overnight import OvernightReports
from services.nexus.briefings.schedule import PREFIX, BriefingSchedule
from services.nexus.briefings.sources import BriefingOptions, BriefingSources
from services.nexus.reminders.service import ReminderService
from services.nexus.reminders.store import ReminderStore, retry_timers
from services.nexus.routing.calendar_range import parse_calendar_range, wants_calendar_change
from services.nexus.routing.router import Request, Router, tool_response
from services.nexus.routing.rules import is_by_example
from services.nexus.routing.sentence_type import greeting_reply, is_question
from shared import subjects
from shared.agent.base import Agent, Outbox
from shared.agent.process import run
from shared.bus import Bus
from shared.bus.records import read_submitted
from shared.clock import read_zone
from shared.contracts import (
    AgentReport,
    Email,
    GoalDue,
    Question,
    ReminderDue,
    Response,
    RoutingDecision,
    Task,
    TaskResult,
)
from shared.errors import ActionError, ConfigError
from shared.llm.protocol import Message, message_of
from shared.messaging.threads import history_of, is_email_task
from shared.settings import Settings
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profile import Profile

MAX_HISTORY = 10
"""How many messages of a thread the model gets."""


class Nexus(Agent):
    """The front desk: answers with citations, reminders, briefings, and routing of everything else."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        options = _parse_options(profile)
        self.zone = read_zone(settings.time_zone)
        self.store = ReminderStore(bus)
        self.reminders = ReminderService(self.context, self.store)
        self.overnight = OvernightReports(bus)
        sources = BriefingSources(self.context, self.store, self.overnight, options)
        self.briefings = BriefingSchedule(self.context, sources, options)
        self.router = Router(self.context)
        self.answerer = Answerer(self.context, self.store)
        self.context.actions.register(self.reminders)
        self.context.actions.register(self.briefings)

    async def on_start(self) -> None:
        """Set the timers and embed the examples, while the first messages are handled."""
        self.context.spawn(retry_timers(self.store.set_all_timers))
        self.context.spawn(retry_timers(self.briefings.set_timers))
        self.context.spawn(self.router.prepare())

    # --- actions ---------------------------------------------------------------------------------

    @register_action("Answer a question from memory", {"text": "The question"})
    async def ask(self, text: str) -> Outcome:
        """The answer with its citations; the whole Response in data key ``response``."""
        if not text.strip():
            raise ActionError("The question is empty", "Ask something")
        return _as_outcome(await self.answerer.answer(text))

    @register_action("Find the route of a message, and the rule that decides it", {"text": "The message"})
    async def route(self, text: str) -> Outcome:
        """The RoutingDecision in data key ``decision``; nothing is started."""
        decision = await self.router.find_route(text, with_model=True)
        return Outcome(
            output=f"{decision.route}: {decision.rationale}", data={"decision": decision.to_dict()}
        )

    @register_action("Collect what memory knows about a message", {"text": "The message"})
    async def build_context(self, text: str) -> Outcome:
        """The ContextPacket in data key ``packet``: evidence ids, unknowns, assumptions."""
        if not text.strip():
            raise ActionError("The message is empty", "Say what it is about")
        packet, _ = await self.answerer.search(text)
        lines = [f"- [{item.evidence_id}] {item.text}" for item in packet.bullets]
        return Outcome(
            output="\n".join(lines) or "Memory knows nothing about that.",
            data={"packet": packet.to_dict()},
            evidence_refs=tuple(item.evidence_id for item in packet.bullets),
        )

    @register_action("List the appointments that a message asks about", {"text": "The message"})
    async def consult_calendar(self, text: str) -> Outcome:
        """As show_calendar, for the days that are named, or today; raises ActionError for a change."""
        if wants_calendar_change(text):
            raise ActionError(
                "I read the calendar and cannot write into it",
                "Change it where it is kept; a reminder I can set: 'remind me to call Ana tomorrow at 9'",
            )
        start, days = parse_calendar_range(text, datetime.now(UTC).astimezone(self.zone).date())
        return await self.context.actions.perform("show_calendar", {"days": days, "start": start.isoformat()})

    @register_action(
        "Find the route of a message with the model, and answer it if no other agent has to",
        {"text": "The message"},
    )
    async def think_about(self, text: str) -> Outcome:
        """The decision in data key ``decision``; if nexus answers itself, the Response in ``response``."""
        decision = await self.router.find_route(text, with_model=True)
        data: dict[str, Any] = {"decision": decision.to_dict()}
        if decision.route != self.context.profile.name:
            return Outcome(output=f"{decision.route}: {decision.rationale}", data=data)
        request = Request.of_task(self.context.task)
        history = [message_of(entry) for entry in request.history] if request else []
        return _as_outcome(await self.answerer.answer(text, history), data)

    # --- handlers --------------------------------------------------------------------------------

    async def on_question(self, question: Question) -> Outbox:
        """Answer, or start what the question asks for and reply where it went."""
        return await self._handle(Request.of(question))

    async def on_email(self, email: Email) -> Outbox:
        """The same for an email; with a model, an email that no rule routes is answered in its thread.

        An agent's answer to an email is only stored, or two agents might write to each other for ever.
        """
        if email.in_reply_to and email.sender != subjects.USER:
            return ()
        request = Request.of(email)
        if self.context.models.model.available and request.text.strip():
            decision = await self.router.find_route(request.text)
            if decision.route == self.context.profile.name:
                return await super().on_email(email)
        return await self._handle(request)

    async def on_task(self, task: Task) -> Outcome:
        """Run an action, answer the email of an email task, or work on any other text in an agent loop."""
        if not is_email_task(task):
            return await self._run_task(task)
        request = Request.of(Email.from_dict(task.context["letter"]))
        decision = await self.router.find_route(request.text, with_model=True)
        if decision.route != self.context.profile.name:
            return _as_outcome(await self.router.follow_now(request, decision))
        return _as_outcome(await self.answerer.answer(request.text, _history(task)))

    async def on_due(self, due: GoalDue | ReminderDue) -> Outbox:
        """Fire a reminder, or start a briefing."""
        if not isinstance(due, ReminderDue):
            return ()
        if due.reminder_id.startswith(PREFIX):
            return await self.briefings.start(due)
        await self.reminders.on_due(due)
        return ()

    async def on_result(self, result: TaskResult) -> Outbox:
        """Report a briefing, or reply to the request that a task was for."""
        me = self.context.profile.name
        if result.agent == me and result.task_id.startswith(PREFIX):
            return await self.briefings.report(result)
        task = await read_submitted(self.context.bus, result.agent, me, result.task_id)
        request = Request.of_task(task) if task else None
        if task is None or request is None:
            return ()
        context = task.context
        if "decision" not in result.metadata or context.get("action") != "think_about":
            return [request.reply(tool_response(result, context["route"]))]
        if "response" in result.metadata:
            return [request.reply(Response.from_dict(result.metadata["response"]))]
        return await self._follow(request, RoutingDecision.from_dict(result.metadata["decision"]))

    async def on_report(self, report: AgentReport) -> Outbox:
        """Keep cortex's reports of overnight jobs for the next briefings."""
        if report.sender != "cortex" or report.report_type != "overnight_job":
            return ()
        entry = await self.overnight.add(report)
        return [entry] if entry else ()

    async def _run_task(self, task: Task) -> Outcome:
        """As any agent; claims of a model about reminders are removed if their record did not change."""
        _, before = await self.store.read()
        outcome = await super().on_task(task)
        if task.context.get("action") or (await self.store.read())[1] != before:
            return outcome
        text, has_claims = remove_reminder_claims(outcome.output)
        if not has_claims:
            return outcome
        output = f"{text}\n\n(No reminder was set or changed.)".strip()
        return msgspec.structs.replace(outcome, output=output)

    async def _handle(self, request: Request) -> Outbox:
        """The reply to a request, or the task or goal that leads to one."""
        if not request.text.strip():
            text = "The email is empty. Ask a question, or write what is to be done."
            return [request.reply(Response(text=text))]
        tools = {name: tool.description for name, tool in self.router.tools.items()}
        if greeting := greeting_reply(request.text, tools):
            return [request.reply(Response(text=greeting, confidence=1.0))]
        decision, me = await self.router.find_route(request.text), self.context.profile.name
        if decision.route == me and self.context.models.model.available:
            return await self.router.submit(request, me, me, "think_about", {"text": request.text})
        return await self._follow(request, decision)

    async def _follow(self, request: Request, decision: RoutingDecision) -> Outbox:
        if decision.tool_name:
            if is_question(request.text) and is_by_example(decision):
                # Likeness to an example decides, unless memory knows: "How warm is it in the cold room?"
                known = await self.answerer.quote(request.text)
                if known.citations:
                    return [request.reply(known)]
            return await self.router.submit_tool(request, decision)
        if decision.route != self.context.profile.name:
            goal, response = self.router.make_goal(request, decision)
            return [goal, request.reply(response)]
        return [request.reply(await self.answerer.quote(request.text))]


def _parse_options(profile: Profile) -> BriefingOptions:
    try:
        return msgspec.convert(profile.options, BriefingOptions)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The options of the nexus profile are wrong: {error}") from None


def _as_outcome(response: Response, more: dict[str, Any] | None = None) -> Outcome:
    return Outcome(
        output=response.text,
        data={**(more or {}), "response": response.to_dict()},
        evidence_refs=response.citations,
    )


def _history(task: Task) -> Sequence[Message]:
    return [message_of(entry) for entry in history_of(task.context)][-MAX_HISTORY:]


if __name__ == "__main__":
    run(Nexus, __file__)
