"""Nexus: answers from memory, handles reminders and briefings, and routes other requests to agents."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from services.nexus.answers.model_answer import Answerer
from services.nexus.answers.unsupported_claims import remove_reminder_claims
from services.nexus.briefings.making import PREFIX, BriefingMaker
from services.nexus.briefings.sources import BriefingOptions, BriefingSources
from services.nexus.briefings.told import OvernightReports
from services.nexus.conversation.resolve import resolve
from services.nexus.conversation.store import Conversations, place, reply_of
from services.nexus.desk import Desk, tool_response
from services.nexus.routing.decision import UNCLEAR, Decision
from services.nexus.routing.request import Request
from services.nexus.routing.unmistakable import decide_whole
from services.nexus.servers.serving import MCP, USE
from services.nexus.thinking import LATE, Thinker
from services.nexus.timetable.reminders import ReminderService
from services.nexus.timetable.scheduled_goals import ScheduledGoals
from services.nexus.tools.tool import Call
from shared import subjects
from shared.agent.base import Agent, Outbox
from shared.agent.process import run
from shared.bus import Bus
from shared.bus.entry import current_audience, withhold_others
from shared.bus.records import read_submitted, submission_entry
from shared.clock import read_zone
from shared.contracts import (
    MAX_TEXT,
    AgentReport,
    DueKind,
    Email,
    GoalBudget,
    GoalDue,
    Question,
    Response,
    StopAnswer,
    Task,
    TaskResult,
    TimerDue,
)
from shared.errors import ActionError, ConfigError, Reject
from shared.language.utterance import Act, is_question, read_utterance
from shared.llm.protocol import Message, message_of
from shared.memory.ownership import reader_of, reads_for
from shared.messaging.correspondence import history_of, is_email_task
from shared.queries.people import limited_budget, read_limits
from shared.reasoning.spending import charged_to
from shared.settings import Settings
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profiles import Profile
from shared.tasks.speaker import Speaker
from shared.text.prose import asks_about_work
from shared.timetable import TimetableKeeper

FOLLOWS = "; its answer follows when it comes"
MEMORY = "memory"  # The tool that answers from memory: with a model, the model writes the answer
SURELY_KNOWN, SURE_TOOL = 0.8, 0.75
"""The confidence from which memory's sentence answers a question that is like those for another tool; and
the likeness to these below which any sentence does that answers the question."""
WHOLE = 5  # The fewest words of a question that is one by itself, and does not go on with the one before
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
        self.answerer = Answerer(self.context)
        self.desk = Desk(self.context, self.answerer, self.schedules)
        self.thinker = Thinker(self.context, self.desk, self.timetable, self.schedules)
        self.conversations = Conversations(bus, with_model=lambda: self.context.models.model.available)
        self.context.actions.register(self.reminders)
        self.context.actions.register(self.briefings)
        self.context.actions.register(self.schedules)
        self.context.actions.register(self.desk.appointments)

    async def on_start(self) -> None:
        """Set the timers, while the first messages are handled."""
        self.context.spawn(self.timetable.start(self.briefings.plan))

    # --- actions ---------------------------------------------------------------------------------

    @register_action("Answer a question from memory", {"text": "The question"}, planned=False)
    async def ask(self, text: str) -> Outcome:
        """As ``think_about``; without a model by quotations from memory."""
        if not text.strip():
            raise ActionError("The question is empty", "Ask something")
        return await self.think_about(text)

    @register_action(
        "Find the tool of a message, and why it is that one", {"text": "The message"}, planned=False
    )
    async def route(self, text: str) -> Outcome:
        """The RoutingDecision in data key ``decision``; nothing is started."""
        decision = await self.desk.decider.decide(text)
        contract = decision.to_contract(self.desk.tools)
        return Outcome(
            output=f"{contract.route}: {contract.rationale}", data={"decision": contract.to_dict()}
        )

    @register_action("Collect what memory knows about a message", {"text": "The message"}, planned=False)
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

    @register_action(
        "Find letters and reports of the office by what is in them, who wrote them, and when",
        {"wanted": "What to find, such as: unanswered letters of scout about the sensors since Monday"},
        personal=True,
        planned=False,
    )
    async def find_letters(self, wanted: str) -> Outcome:
        """What a person is told at the desk who asks for them; evidence are the ids of letters and goals."""
        answer = await self.desk.find_letters(wanted, self.context.task)
        return Outcome(output=answer.text, evidence_refs=answer.citations)

    @register_action(
        "Answer a message with the model and the tools of the desk",
        {
            "text": "The message",
            "things": "What it may refer to, with ids",
            "late": "Rules answered",
        },
        planned=False,
    )
    async def think_about(self, text: str, things: str = "", late: bool = False) -> Outcome:
        """The whole Response in data key ``response``."""
        task = self.context.task
        request = Request.of_task(task)
        request = request or self._request_of(task, text)
        if not self.context.models.model.available:
            return _as_outcome(await self.answerer.quote(text))
        if late:
            patience = self.context.settings.brain_timeout
            return _as_outcome(await self.thinker.answer(request, things, (), patience, is_late=True))
        return _as_outcome(await self._think(request, things))

    @register_action(
        "Have a tool of an MCP server do what a message says",
        {"text": "The message"},
        personal=True,
        planned=False,
    )
    async def use_server(self, text: str) -> Outcome:
        """The whole Response in data key ``response``; the desk's own if no server is meant after all."""
        request = Request.of_task(self.context.task) or self._request_of(self.context.task, text)
        request = msgspec.structs.replace(request, text=text)
        answer = await self.desk.use_server(request)
        if answer is not None:
            return _as_outcome(self.desk.respond(answer, self.desk.tools[MCP].used))
        return _as_outcome(await self._answer_by_rules(request))

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
        thinks = self.context.models.model.available and request.text.strip()
        if thinks and not decide_whole(request, self.desk.tools):
            return await super().on_email(email)
        return await self.conversations.hold(request, self._handle)

    async def on_stop_answer(self, request: StopAnswer) -> Outbox:
        """End what is done for a question, if a person asks for it."""
        if request.sender != subjects.USER:
            raise Reject("only people stop answers")
        return await self.conversations.stop(request)

    async def on_task(self, task: Task) -> Outcome:
        """Run an action, answer the email of an email task, or work on any other text in an agent loop."""
        serve(Speaker.of(task).name, task.audience)
        request = Request.of(Email.from_dict(task.context["letter"])) if is_email_task(task) else None
        charged_to.set(await self._budget_of(request or Request.of_task(task)))
        if request is None:
            return await self._run_task(task)
        history = [message_of(entry) for entry in history_of(task.context)][-MAX_HISTORY:]
        return _as_outcome(await self._think(request, await self.thinker.look(request), history))

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
        current_audience.set(request.audience)
        return await self.conversations.complete(request, self._conclude(request, task, result))

    def _conclude(self, request: Request, task: Task, result: TaskResult) -> Outbox:
        """What follows from the result of a task that was for a request."""
        action = task.context.get("action")
        if "response" in result.metadata and action in ("think_about", USE):
            return [request.reply(Response.from_dict(result.metadata["response"]))]
        if action == "think_about" and task.context["params"].get("late"):
            return ()  # the rules have answered
        note = str(task.context.get("note", ""))
        return [request.reply(tool_response(result, task.context["route"], note))]

    async def on_report(self, report: AgentReport) -> Outbox:
        """Keep cortex's reports of overnight jobs for the briefings; make a briefing that a person wants."""
        if report.sender == subjects.USER:
            return await self.briefings.start_wanted(report)
        if report.sender != "cortex" or report.report_type != "overnight_job":
            return ()
        entry = await self.overnight.add(report)
        return [entry] if entry else ()

    async def _budget_of(self, request: Request | None) -> GoalBudget | None:
        """What models may use for who asks in a day; None without limits, and where no model is asked."""
        person = request.person if request is not None and request.asker == subjects.USER else ""
        if not (person and self.context.models.model.available):
            return None
        limits = await read_limits(self.context.bus, person)
        return limited_budget(None, "", msgspec.structs.replace(limits, whose=person)) if limits else None

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
        serve(request.asker, request.audience)
        if not request.text.strip():
            text = "The email is empty. Ask a question, or write what is to be done."
            return [request.reply(Response(text=text))]
        if not self.context.models.model.available:
            decision, known = await self._decide(request)
            return [request.reply(known)] if known else await self._follow(request, decision)
        if found := decide_whole(request, self.desk.tools):
            return await self._follow(request, found)
        me, things = self.context.profile.name, await self.thinker.look(request)
        params = {"text": request.text, "things": things}
        return await self.desk.submit(request, me, me, "think_about", params)

    def _request_of(self, task: Task, text: str) -> Request:
        return Request(asker=Speaker.of(task).name, letter_id=task.id, text=text, asked_at=task.created_at)

    async def _think(self, request: Request, things: str, history: Sequence[Message] = ()) -> Response:
        """The model's answer to a request; if it cannot be asked or is late the rules', which says so."""
        try:
            settings = self.context.settings
            patience = settings.answer_within if request.subject is None else settings.brain_timeout
            return await self.thinker.answer(request, things, history, patience)
        except ActionError as error:
            self.context.log.warning("unthought", reason=str(error))
            response = await self._answer_by_rules(request)
            follows = LATE in str(error) and await self._ask_on(request, things, response)
            note = f"(The rules answered, for the model could not be asked: {error}{FOLLOWS * follows})"
            return msgspec.structs.replace(response, text=f"{response.text}\n{note}"[:MAX_TEXT])

    async def _ask_on(self, request: Request, things: str, response: Response) -> bool:
        """Have the model that was late answer when it can, if the rules did nothing; whether it was asked."""
        did = response.goal_id or response.asks or not self.desk.only_told(response.route_used)
        if did or request.asker != subjects.USER or request.subject is not None:
            return False
        me = self.context.profile.name
        params = {"text": request.text, "things": things, "late": True}
        for task in await self.desk.submit(request, me, me, "think_about", params, key="late"):
            await self.context.bus.commit([submission_entry(task)])
        return True

    async def _answer_by_rules(self, request: Request) -> Response:
        """The answer without a model, within a task."""
        if request.talk is not None:
            said = read_utterance(request.wrote)
            resolved = resolve(said, request.talk, datetime.now(UTC))
            if resolved.reply:
                return reply_of(resolved)
            request = place(request, request.talk, resolved)
        decision, known = await self._decide(request)
        if known:
            return known
        request = decision.of(request)
        result = await self.desk.run(request, decision)
        if isinstance(result, Call):
            result = await self.desk.find_absent(result) or await self.desk.perform(request, result)
        for entry in result.entries:
            await self.context.bus.store(entry.subject, entry.payload, headers={"Nats-Msg-Id": entry.id})
        return self.desk.respond(result, self.desk.tools[decision.tool].used)

    async def _decide(self, request: Request) -> tuple[Decision, Response | None]:
        """The tool that a request is for, and memory's answer if it has one in that tool's place.

        What names something of the office is for the office; of what only shares words with a thing of it
        memory is asked first.
        """
        decision = await self.desk.decide(request)
        asks = is_question(request.text) or request.utterance.act is Act.QUESTION
        if decision.tool != MEMORY or not asks:
            of_office = await self.desk.find_of_office(request, decision)
            return (of_office, None) if of_office else (decision, await self._find_known(request, decision))
        if of_office := await self.desk.find_of_office(request, decision, named=True):
            return of_office, None
        if of_office := await self.desk.find_of_office(request, decision, least=0):
            known = await self.answerer.quote(request.text)
            if not known.citations or not known.confidence:
                return of_office, None
            if known.confidence < SURELY_KNOWN:
                return await self.desk.find_of_office(request, decision) or decision, None
        return decision, None

    async def _find_known(self, request: Request, decision: Decision) -> Response | None:
        """Memory's answer to a question that likeness gave to another tool, if memory surely has one.

        "At what time is the stand-up?" is like "What time is it?", and memory knows.
        """
        text = request.text
        if decision.is_certain or decision.tool == MEMORY or decision.is_without_memory:
            return None
        if not is_question(text) or asks_about_work(text):
            return None
        known = await self.answerer.quote(text)
        goes_on = bool(request.before) and len(text.split()) < WHOLE
        is_doubtful = decision.tool == UNCLEAR or (decision.sure < SURE_TOOL and not goes_on)
        least = 0.0 if is_doubtful else SURELY_KNOWN
        return known if known.citations and known.confidence >= least else None

    async def _follow(self, request: Request, decision: Decision) -> Outbox:
        """What follows from a decision: an answer and its entries, or the task that leads to one."""
        request = decision.of(request)
        result = await self.desk.run(request, decision)
        route = self.desk.tools[decision.tool].used
        if isinstance(result, Call):
            if absent := await self.desk.find_absent(result):
                return [request.reply(self.desk.respond(absent, route))]
            call = (result.assignee, result.action, result.params, result.note)
            return await self.desk.submit(request, route, *call)
        return [*result.entries, request.reply(self.desk.respond(result, route))]


def serve(asker: str, audience: str) -> None:
    """Read for the one who asks from now on, and keep what follows for that one alone, if it is so."""
    reads_for.set(reader_of(asker, audience))
    current_audience.set(audience)
    withhold_others(audience)


def _parse_options(profile: Profile) -> BriefingOptions:
    try:
        return msgspec.convert(profile.options, BriefingOptions)
    except msgspec.ValidationError as error:
        raise ConfigError(f"The options of the nexus profile are wrong: {error}") from None


def _as_outcome(response: Response) -> Outcome:
    return Outcome(
        output=response.text,
        data={"response": response.to_dict()},
        evidence_refs=response.citations,
    )


if __name__ == "__main__":
    run(Nexus, __file__)
