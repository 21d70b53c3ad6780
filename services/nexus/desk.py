"""The desk: the tools, which of them a message is for, and what follows from what a tool answers."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from services.nexus.answers.model_answer import Answerer
from services.nexus.conversation.pending import ASKS, read_asked
from services.nexus.office.altering import read_altering
from services.nexus.office.query import HINTS, TOOLS, Kind, OfficeQuery
from services.nexus.office.telling import is_of_office, list_asked, match
from services.nexus.office.things import Thing
from services.nexus.routing.decider import Decider
from services.nexus.routing.decision import UNCLEAR, Decision
from services.nexus.routing.request import REQUEST_KEY, Request
from services.nexus.servers.serving import MCP, Servers, tell
from services.nexus.servers.serving import TOOL as SERVER_TOOL
from services.nexus.timetable.scheduled_goals import ScheduledGoals
from services.nexus.tools.appointments import Appointments
from services.nexus.tools.keeping import PREFERENCE, find_kind
from services.nexus.tools.office import answer_of_office
from services.nexus.tools.talk import answer_without_memory, ask_for_whole, ask_which
from services.nexus.tools.tool import Answer, Call, Effect, ToolContext, load_tools
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus.records import read_task
from shared.contracts import MAX_TEXT, Response, ResultOutcome, Task, TaskResult, TaskStatus
from shared.errors import ActionError, BusError, MailroomError
from shared.language.utterance import Act, Utterance
from shared.tasks.speaker import Speaker
from shared.text.display import shorten

CALENDAR, MEMORY, STATEMENT = "calendar", "memory", "statement"  # Tools
REMEMBER, SMALL_TALK = "remember", "small_talk"
SURE_PREFERENCE = (
    0.4  # The score from which what is told is kept as a preference; moods were seen at up to .35
)
SURE_NAMED = 0.9  # How sure an order is for what it names, and a question for memory that names no thing
SURE_ELSEWHERE = 0.8
"""The likeness to a tool that tells of something else than the office from which the office is not asked:
of 129 such messages of the seen halves none was a question about the office."""
_MAY_ASK_OFFICE = frozenset({*HINTS, MEMORY, "brief", "project", STATEMENT, UNCLEAR})
SURE_TALK = 0.6  # The likeness to small talk from which it is no more than that


class Desk:
    """The tools, what decides which one a message is for, and what they work with."""

    def __init__(self, context: AgentContext, answerer: Answerer, schedules: ScheduledGoals) -> None:
        self.context = context
        self.answerer = answerer
        self.servers = Servers(context)
        self.tools = {**load_tools(), MCP: SERVER_TOOL}
        self.decider = Decider(context.memory, self.tools)
        self.appointments = Appointments(context)
        self._work = ToolContext(context, answerer, schedules)

    async def decide(self, request: Request) -> Decision:
        """The tool that a request is for: the calendar if it asks of an event that is in it."""
        decision = await self.decider.decide_in(request)
        said = request.utterance
        if served := await self.servers.decide(request, decision):
            return served
        is_heard = decision.tool == STATEMENT or (decision.tool == SMALL_TALK and decision.sure < SURE_TALK)
        if is_heard and not (said.has_pronoun or said.asks) and await self._prefers(request.text):
            return Decision(tool=REMEMBER, why="it tells a preference", act=decision.act)
        alters = decision.tool == UNCLEAR or self.tools[decision.tool].effect is Effect.STARTS
        if (
            alters
            and request.asker == subjects.USER
            and not said.asks
            and (found := await self._find_altered(said))
        ):
            return found
        asks = (said.act is Act.QUESTION or said.asks) and request.asker == subjects.USER
        reads = self.tools[decision.tool].effect is Effect.READS and not decision.is_without_memory
        known = decision.tool == CALENDAR or request.text.lstrip().startswith("/")
        if asks and reads and not known:
            names = await self.appointments.names_event(request.text, self._work.now(request))
            return Decision(tool=CALENDAR, why="it asks of an event of the calendar") if names else decision
        return decision

    async def _find_altered(self, said: Utterance) -> Decision | None:
        """That a message alters what it names by its words."""
        try:
            found = await read_altering(self.context, self._work.office, said)
        except BusError:
            return None
        if found is None:
            return None
        why = "it names what it alters"
        return Decision(tool=found.tool, why=why, sure=SURE_NAMED, text=found.text, is_joined=True)

    async def _prefers(self, text: str) -> bool:
        """Whether ``text`` tells how the person likes things: that is kept, though it is said in passing."""
        try:
            kind, like = await find_kind(self.context.memory, text)
        except BusError:
            return False
        return kind == PREFERENCE and like >= SURE_PREFERENCE

    async def find_of_office(
        self, request: Request, decision: Decision, least: int = 1, *, named: bool = False
    ) -> Decision | None:
        """That a person's message is a question about the office, whatever it is like; None if it is not.

        See ``is_of_office`` for ``least``; with ``named`` it has to say what of the office it asks for.
        """
        by_rule = decision.sure == 1.0 and not decision.is_without_memory
        is_served = decision.tool == MCP
        if request.asker != subjects.USER or by_rule or is_served or decision.is_joined or request.joined:
            return None
        has_effect = self.tools[decision.tool].effect is not Effect.READS
        if not (has_effect or decision.tool in _MAY_ASK_OFFICE) and decision.sure >= SURE_ELSEWHERE:
            return None  # "any new papers on glaze?" shares a word with a letter
        query = await self._work.read_query(request)
        if not query.only_asks or (named and query.kind is None):
            return None
        is_who = query.kind is Kind.AGENT and query.is_vague
        if is_who and decision.tool == MEMORY and decision.sure >= SURE_NAMED:
            return None  # "who works for us?" is a question to memory, though it has words of the office
        if query.is_name and query.terms and has_effect and "shown_after" not in query.shows:
            return None  # "every Sunday back up the photos" names a plan that there is
        things, hint = await self._work.list_things(request), HINTS.get(decision.tool)
        if hint is Kind.SPENDING and query.terms:
            hint = None  # "what does the cheapest sensor cost?" asks of a letter, if one tells of it
        priced = "price" in query.shows and decision.tool == "spending" and not decision.is_certain
        if "of_thing" in query.shows or (priced and not is_of_office(query, things, None)):
            why = f"it asks of a thing itself: {decision.why}"
            return Decision(tool=MEMORY, why=why) if decision.tool in HINTS else None
        if not is_of_office(query, things, hint, least):
            return None
        if decision.tool == "brief" and not {"why", "just"} & query.shows and not query.terms:
            return None
        kind = query.kind or hint or _kind_of(query, things)
        return Decision(tool=TOOLS[kind], why=f"it asks of the office, and {decision.why}")

    async def run(
        self, request: Request, decision: Decision, parameters: msgspec.Struct | None = None
    ) -> Answer | Call:
        """What the tool of ``decision`` answers, if the asker may use it; a failure is an answer too."""
        tool, speaker = self.tools[decision.tool], Speaker(name=request.asker)
        if not speaker.may(personal=tool.personal, writes=tool.effect is Effect.WRITES):
            return Answer(text=f"{speaker.refuse(tool.name)}.", outcome=ResultOutcome.FAILED, confidence=0.0)
        if decision.is_without_memory:
            return answer_without_memory(self.tools)
        if decision.tool == UNCLEAR and decision.others:
            return ask_which(self.tools, decision.others, request.text)
        if decision.says_part:
            return ask_for_whole(decision.tool, request)
        try:
            if parameters is None:
                parameters = tool.read(self._work, request) if tool.read else tool.parameters()
            return await tool.run(self._work, request, parameters)
        except MailroomError as error:
            return Answer(text=str(error), outcome=ResultOutcome.FAILED, confidence=0.0)

    async def use_server(self, request: Request) -> Answer | None:
        """Within a task: what comes of a message for a tool of a server; None if it is for the desk."""
        decision = await self.decider.decide_in(request)
        found = await self.servers.use(request, decision)
        if not isinstance(found, Call):
            return found
        key = f"{found.action}{request.part}"
        result = await self.context.delegation.run(
            found.assignee, request.text, found.action, found.params, key=key
        )
        response = tool_response(result, found.assignee)
        return Answer(text=tell(response.text), outcome=response.outcome, confidence=response.confidence)

    async def find_letters(self, wanted: str, task: Task) -> Answer:
        """The letters and reports that a task asks for in words."""
        request = Request(
            asker=Speaker.of(task).name, letter_id=task.id, text=wanted, asked_at=task.created_at
        )
        return await answer_of_office(self._work, request, Kind.LETTER)

    def respond(self, answer: Answer, route: str) -> Response:
        """The response that an answer makes."""
        if answer.response is not None:
            return answer.response
        return Response(
            text=shorten(answer.text.strip() or "There is nothing.", MAX_TEXT),
            citations=answer.citations,
            route_used=route,
            confidence=answer.confidence,
            outcome=answer.outcome,
            goal_id=answer.goal_id,
            asks=answer.asks,
        )

    async def submit(
        self,
        request: Request,
        route: str,
        assignee: str,
        action: str,
        params: Mapping[str, Any],
        note: str = "",
        key: str = "",
    ) -> list[Task]:
        """The task of ``action``, once for each request and ``key``; its result answers, after ``note``."""
        names = filter(None, (request.asker, request.letter_id, action, key))
        task_id = self.context.bus.derive_id("ask", *names)
        task = Task(
            task_id=f"ask_{task_id}",
            cause=request.letter_id,
            text=request.text,
            assignee=assignee,
            requester=self.context.profile.name,
            said=self._work.sign(request),
            asker=request.asker,
            audience=request.audience,
            context={
                "action": action,
                "params": dict(params),
                "route": route,
                **({"note": note} if note else {}),
                REQUEST_KEY: request.to_dict(),
            },
        )
        return [] if await read_task(self.context.bus, task) else [task]

    def only_told(self, route: str) -> bool:
        """Whether the answer of ``route`` changed nothing."""
        return all(tool.effect is Effect.READS for tool in self.tools.values() if tool.used == route)

    async def find_absent(self, call: Call) -> Answer | None:
        """The answer that the agent of ``call`` is not at work, if it is not."""
        if call.assignee == self.context.profile.name or call.assignee in await self.context.directory.read():
            return None
        text = (
            f"{call.assignee} would do that, and is not at work: see 'mailroom status'. Nothing was started."
        )
        return Answer(text=text, outcome=ResultOutcome.FAILED, confidence=0.0)

    async def perform(self, request: Request, call: Call) -> Answer:
        """Within a task: what comes of the action of ``call``; what it asks back is asked of the person."""
        if call.assignee != self.context.profile.name:
            result = await self.context.delegation.run(
                call.assignee, request.text, call.action, call.params, key=f"tool{request.part}"
            )
            response = tool_response(result, call.assignee, call.note)
            return Answer(
                text=response.text,
                outcome=response.outcome,
                citations=response.citations,
                confidence=response.confidence,
                asks=response.asks,
            )
        try:
            outcome = await self.context.actions.perform(call.action, call.params)
        except ActionError as error:
            asks = read_asked(self.context.current_task.facts)
            self.context.current_task.facts.pop(ASKS, None)
            return Answer(text=str(error), outcome=ResultOutcome.FAILED, confidence=0.0, asks=asks)
        text = f"{call.note}\n\n{outcome.output}" if call.note else outcome.output
        return Answer(text=text, citations=outcome.evidence_refs)


def _kind_of(query: OfficeQuery, things: Sequence[Thing]) -> Kind:
    """The kind of the thing that a query is about which names none."""
    return match(list_asked(query, things), query.terms).things[0].kind


def tool_response(result: TaskResult, route: str, note: str = "") -> Response:
    """The response that a tool's result makes, after ``note``."""
    done = result.status is TaskStatus.COMPLETED
    text = (result.output if done else result.error_message).strip() or "There is no result."
    return Response(
        text=shorten(f"{note}\n\n{text}" if note else text, MAX_TEXT),
        citations=result.evidence_refs,
        route_used=route,
        confidence=1.0 if done else 0.0,
        outcome=ResultOutcome.DONE if done else ResultOutcome.FAILED,
        asks=read_asked(result.metadata),
    )
