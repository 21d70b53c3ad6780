"""Nexus: answers from memory, handles reminders and briefings, and routes other requests to agents."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from services.nexus.answers.model_answer import Answerer
from services.nexus.answers.unsupported_claims import remove_reminder_claims
from services.nexus.briefings.making import PREFIX, BriefingMaker
from services.nexus.briefings.sources import BriefingOptions, BriefingSources
from services.nexus.briefings.told import OvernightReports
from services.nexus.conversation.store import Conversations
from services.nexus.desk import Desk, tool_response
from services.nexus.routing.decision import UNCLEAR, Decision, choose_tool
from services.nexus.routing.request import Request
from services.nexus.timetable.reminders import ReminderService
from services.nexus.timetable.scheduled_goals import ScheduledGoals
from services.nexus.tools.tool import Call
from shared import subjects
from shared.agent.base import Agent, Outbox
from shared.agent.process import run
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import read_submitted
from shared.clock import read_zone
from shared.contracts import (
    AgentReport,
    DueKind,
    Email,
    GoalDue,
    Question,
    Response,
    StopAnswer,
    Task,
    TaskResult,
    TimerDue,
)
from shared.errors import ActionError, BusUnavailable, ConfigError, Conflict, ModelError, Reject
from shared.language.utterance import is_question
from shared.llm.protocol import message_of
from shared.messaging.correspondence import history_of, is_email_task
from shared.settings import Settings
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profiles import Profile
from shared.tasks.speaker import Speaker
from shared.text.prose import asks_about_work
from shared.timetable import TimetableKeeper

MEMORY = "memory"  # The tool that answers from memory: with a model, the model writes the answer
SURELY_KNOWN, SURE_TOOL = 0.8, 0.75
"""The confidence from which memory's sentence answers a question that is like those for another tool; and
the likeness to these below which any sentence does that answers the question."""
WHOLE = 5  # The fewest words of a question that is one by itself, and does not go on with the one before
LATE_TRIES = 5  # How often the answer of a model that was late is stored anew if its conversation went on
MAX_HISTORY = 10  # How many messages of a thread the model gets


class Nexus(Agent):
    """The front desk: answers with citations, reminders, briefings, and routing of everything else."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        options = _parse_options(profile)
        self.zone = read_zone(settings.time_zone)
        self.timetable = TimetableKeeper(bus, settings)
        self.reminders = ReminderService(self.context, self.timetable)
        self.schedules = ScheduledGoals(self.context, self.timetable)
        self.overnight = OvernightReports(bus)
        sources = BriefingSources(self.context, self.timetable, self.overnight, options)
        self.briefings = BriefingMaker(self.context, self.timetable, sources, options)
        self.timetable.kinds = {
            DueKind.MAIL: self.reminders.fire,
            DueKind.GOAL: self.schedules.fire,
            DueKind.BRIEFING: self.briefings.fire,
        }
        self.answerer = Answerer(self.context, self.timetable)
        self.desk = Desk(self.context, self.answerer, self.schedules)
        self.conversations = Conversations(bus, with_model=lambda: self.context.models.model.available)
        self.context.actions.register(self.reminders)
        self.context.actions.register(self.briefings)
        self.context.actions.register(self.schedules)

    async def on_start(self) -> None:
        """Set the timers, while the first messages are handled."""
        self.context.spawn(self.timetable.start(self.briefings.plan))

    # --- actions ---------------------------------------------------------------------------------

    @register_action("Answer a question from memory", {"text": "The question"})
    async def ask(self, text: str) -> Outcome:
        """The answer with its citations; the whole Response in data key ``response``."""
        if not text.strip():
            raise ActionError("The question is empty", "Ask something")
        return _as_outcome(await self._answerer().answer(text))

    @register_action("Find the tool of a message, and why it is that one", {"text": "The message"})
    async def route(self, text: str) -> Outcome:
        """The RoutingDecision in data key ``decision``; nothing is started."""
        decision, _ = await self._decide(text, with_model=True)
        contract = decision.to_contract(self.desk.tools)
        return Outcome(
            output=f"{contract.route}: {contract.rationale}", data={"decision": contract.to_dict()}
        )

    @register_action("Collect what memory knows about a message", {"text": "The message"})
    async def build_context(self, text: str) -> Outcome:
        """The ContextPacket in data key ``packet``: evidence ids, unknowns, assumptions."""
        if not text.strip():
            raise ActionError("The message is empty", "Say what it is about")
        packet, _ = await self._answerer().search(text)
        lines = [f"- [{item.evidence_id}] {item.text}" for item in packet.bullets]
        return Outcome(
            output="\n".join(lines) or "Memory knows nothing about that.",
            data={"packet": packet.to_dict()},
            evidence_refs=tuple(item.evidence_id for item in packet.bullets),
        )

    @register_action(
        "Find the tool of a message with the model, and answer it if memory has to", {"text": "The message"}
    )
    async def think_about(self, text: str) -> Outcome:
        """The decision in data key ``decision``; if memory has to answer, the Response in ``response``."""
        decision, parameters = await self._decide(text, with_model=True)
        data: dict[str, Any] = {
            "decision": msgspec.to_builtins(decision),
            "parameters": msgspec.to_builtins(parameters) if parameters else None,
        }
        if decision.tool != MEMORY:
            return Outcome(output=f"{decision.tool}: {decision.why}", data=data)
        request = Request.of_task(self.context.task)
        history = [message_of(entry) for entry in request.history] if request else []
        if request is None or request.subject is not None:
            return _as_outcome(await self._answerer().answer(text, history), data)
        later = partial(self._add_late_answer, request)
        return _as_outcome(await self._answerer().answer(text, history, request.letter_id, later), data)

    # --- handlers --------------------------------------------------------------------------------

    async def on_question(self, question: Question) -> Outbox:
        """Answer, or start what the question asks for and reply where it went."""
        return await self.conversations.hold(Request.of(question), self._handle)

    async def on_email(self, email: Email) -> Outbox:
        """The same for an email; with a model, an email that no rule routes is answered in its thread.

        An agent's answer to an email is only stored, or two agents might write to each other for ever.
        """
        if email.in_reply_to and email.sender != subjects.USER:
            return ()
        request = Request.of(email)
        if self.context.models.model.available and request.text.strip():
            decision = await self.desk.decider.decide(request.text)
            if decision.tool == MEMORY or not decision.is_certain:
                return await super().on_email(email)
        return await self.conversations.hold(request, self._handle)

    async def on_stop_answer(self, request: StopAnswer) -> Outbox:
        """End what is done for a question, if a person asks for it."""
        if request.sender != subjects.USER:
            raise Reject("only people stop answers")
        return await self.conversations.stop(request)

    async def on_task(self, task: Task) -> Outcome:
        """Run an action, answer the email of an email task, or work on any other text in an agent loop."""
        if not is_email_task(task):
            return await self._run_task(task)
        request = Request.of(Email.from_dict(task.context["letter"]))
        decision, parameters = await self._decide(request.text, with_model=True)
        if decision.tool == MEMORY:
            history = [message_of(entry) for entry in history_of(task.context)][-MAX_HISTORY:]
            return _as_outcome(await self._answerer().answer(request.text, history))
        return _as_outcome(await self._perform(request, decision, parameters))

    async def on_due(self, due: GoalDue | TimerDue) -> Outbox:
        """Fire a reminder, start a briefing, or begin a run of a goal on a schedule."""
        if isinstance(due, TimerDue):
            await self.timetable.on_due(due)
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
        return await self.conversations.complete(request, await self._conclude(request, task, result))

    async def _conclude(self, request: Request, task: Task, result: TaskResult) -> Outbox:
        """What follows from the result of a task that was for a request."""
        context = task.context
        if "decision" not in result.metadata or context.get("action") != "think_about":
            note = str(context.get("note", ""))
            return [request.reply(tool_response(result, context["route"], note))]
        if "response" in result.metadata:
            return [request.reply(Response.from_dict(result.metadata["response"]))]
        decision = msgspec.convert(result.metadata["decision"], Decision)
        kind = self.desk.tools[decision.tool].parameters
        given = result.metadata.get("parameters")
        return await self._follow(request, decision, msgspec.convert(given, kind) if given else None)

    async def on_report(self, report: AgentReport) -> Outbox:
        """Keep cortex's reports of overnight jobs for the briefings; make a briefing that a person wants."""
        if report.sender == subjects.USER:
            return await self.briefings.start_wanted(report)
        if report.sender != "cortex" or report.report_type != "overnight_job":
            return ()
        entry = await self.overnight.add(report)
        return [entry] if entry else ()

    async def _add_late_answer(self, request: Request, response: Response) -> None:
        """Have the answer of a model that was late follow in its conversation."""
        for _ in range(LATE_TRIES):
            await asyncio.sleep(1.0)  # memory's own answer, which was just given, is stored first
            with suppress(Conflict, BusUnavailable):
                outbox = await self.conversations.complete(request, [request.reply(response)])
                mail = subjects.mail(request.asker, self.context.profile.name)
                await self.context.bus.commit(
                    [each if isinstance(each, Entry) else seal(mail, each) for each in outbox]
                )
                return

    def _answerer(self) -> Answerer:
        """What answers whoever the task at hand is for."""
        return self.answerer.read_by(Speaker.of(self.context.task).name)

    async def _run_task(self, task: Task) -> Outcome:
        """As any agent; claims of a model about reminders are removed if their record did not change."""
        before = await self.timetable.position()
        outcome = await super().on_task(task)
        if task.context.get("action") or await self.timetable.position() != before:
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
        decision, me = await self.desk.decider.decide_in(request), self.context.profile.name
        thinks = decision.tool == MEMORY or not decision.is_certain
        if thinks and self.context.models.model.available:
            return await self.desk.submit(request, me, me, "think_about", {"text": request.text})
        if known := await self._find_known(request, decision):
            return [request.reply(known)]
        return await self._follow(request, decision)

    async def _find_known(self, request: Request, decision: Decision) -> Response | None:
        """Memory's answer to a question that likeness gave to another tool, if memory surely has one.

        "At what time is the stand-up?" is like "What time is it?", and memory knows.
        """
        text = request.text
        if decision.is_certain or decision.tool == MEMORY or decision.is_without_memory:
            return None
        if not is_question(text) or asks_about_work(text):
            return None
        known = await self.answerer.read_by(request.asker).quote(text)
        goes_on = bool(request.before) and len(text.split()) < WHOLE
        is_doubtful = decision.tool == UNCLEAR or (decision.sure < SURE_TOOL and not goes_on)
        least = 0.0 if is_doubtful else SURELY_KNOWN
        return known if known.citations and known.confidence >= least else None

    async def _decide(self, text: str, *, with_model: bool = False) -> tuple[Decision, msgspec.Struct | None]:
        """The tool of a message, and its parameters if the model read them."""
        decision = await self.desk.decider.decide(text)
        models = self.context.models
        if decision.is_certain or not with_model or not models.model.available:
            return decision, None
        try:
            # Half of the time of an answer: a model that is late leaves the choice to the rules.
            async with asyncio.timeout(self.context.settings.answer_within / 2):
                return await choose_tool(models, text, self.desk.tools)
        except (ModelError, TimeoutError) as error:
            self.context.log.warning("route_unthought", reason=str(error) or "the model is late")
            return decision, None

    async def _follow(
        self, request: Request, decision: Decision, parameters: msgspec.Struct | None = None
    ) -> Outbox:
        """What follows from a decision: an answer and its entries, or the task that leads to one."""
        request = decision.of(request)
        result = await self.desk.run(request, decision, parameters)
        route = self.desk.tools[decision.tool].used
        if isinstance(result, Call):
            if absent := await self.desk.find_absent(result):
                return [request.reply(self.desk.respond(absent, route))]
            call = (result.assignee, result.action, result.params, result.note)
            return await self.desk.submit(request, route, *call)
        return [*result.entries, request.reply(self.desk.respond(result, route))]

    async def _perform(
        self, request: Request, decision: Decision, parameters: msgspec.Struct | None
    ) -> Response:
        """The same within a task: what the tool starts is stored, and an action's result is waited for."""
        result = await self.desk.run(decision.of(request), decision, parameters)
        route = self.desk.tools[decision.tool].used
        if isinstance(result, Call):
            return await self.desk.wait_for(request, result, route)
        for entry in result.entries:
            await self.context.bus.store(entry.subject, entry.payload, headers={"Nats-Msg-Id": entry.id})
        return self.desk.respond(result, route)


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


if __name__ == "__main__":
    run(Nexus, __file__)
