"""The router: takes a request to the answer from memory, to a tool, or to a goal."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from services.nexus.answers.model_answer import choose_route
from services.nexus.reminders.time_phrases import DATES, SPAN, TIMES, VAGUE
from services.nexus.routing.rules import UNDECIDED, RouteExamples, candidate_routes, route_request
from services.nexus.routing.sentence_type import inflect
from shared import subjects
from shared.agent.base import Outbox
from shared.agent.context import AgentContext
from shared.bus import Entry
from shared.bus.records import read_task
from shared.contracts import (
    MAX_TEXT,
    Contract,
    Email,
    Question,
    Response,
    ResultOutcome,
    RoutingDecision,
    Said,
    Task,
    TaskResult,
    TaskStatus,
)
from shared.errors import ActionError, BusError, ConfigError, ModelError
from shared.tasks.said import sign_said
from shared.text.shorten import flatten, shorten

AGENTS = {
    "cortex": "plans and carries out work: writes, changes, runs and debugs code, scripts and projects",
    "conductor": "checks up on a repository, and whatever takes several agents",
    "frontier": "finds out what is new: research, papers, trends",
}
"""The agents that requests are routed to, and what each does."""
REQUEST_KEY = "visit"
"""The key of a task's context that holds the request it is for; stored tasks have it."""

_COURTESY = re.compile(r"[,\s]*\b(?:please|thanks|like|going|to be|be)\s*$", re.IGNORECASE)
_VAGUE_DAYS = re.compile(
    r"(?i)\b(?:this|next|the|coming|for|over|at|in|on|like|now|right)\b|\bweek(?:end)?\b"
)
_LINK = re.compile(r"^[\s:,-]*(?:(?:on|about|for|of|regarding|in|concerning)\b\s*)?", re.IGNORECASE)


class Request(Contract, frozen=True, kw_only=True):
    """A question or an email to nexus, with what is needed to answer it later.

    ``subject`` is None for a question. ``asked_at`` is when it was written: "in 20 minutes" counts from then.
    ``history`` are the messages of its session before it.
    """

    asker: str
    letter_id: str
    text: str
    subject: str | None = None
    session: str = ""
    asked_at: str = ""
    history: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(cls, message: Question | Email) -> "Request":
        """The request of a question, or of an email: its body, or its subject if the body is blank."""
        if isinstance(message, Question):
            text, subject, history = message.text, None, message.history
        else:
            history = ()
            text, subject = message.body if message.body.strip() else message.subject, message.subject
        return cls(
            asker=message.sender,
            letter_id=message.id,
            text=text,
            subject=subject,
            session=message.user_session_id,
            asked_at=message.created_at,
            history=history,
        )

    @classmethod
    def of_task(cls, task: Task) -> "Request | None":
        """The request that nexus submitted ``task`` for; None if it is for something else."""
        return cls.from_dict(task.context[REQUEST_KEY]) if REQUEST_KEY in task.context else None

    def reply(self, response: Response) -> Response | Email:
        """``response`` addressed to the asker: an email in the same thread if the request was one."""
        if self.subject is None:
            return msgspec.structs.replace(response, recipient=self.asker, cause=self.letter_id)
        is_reply = not self.subject.strip() or self.subject.lower().startswith("re:")
        subject = self.subject if is_reply else f"Re: {self.subject}"
        return Email(
            sender="nexus",
            recipient=self.asker,
            subject=subject[:500],
            body=response.text,
            in_reply_to=self.letter_id,
            cause=self.letter_id,
            goal_id=response.goal_id,
            user_session_id=self.session,
        )


class Tool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A single ``action`` of the agent ``assignee``, routed to by keyword.

    Its parameter ``subject`` gets what a request is about, unless it is ``optional`` and nothing is named;
    ``message`` is the parameter that gets the whole request. The keywords of a ``personal`` tool also count
    in questions about the people themselves. ``description`` tells a model what the tool is for.
    """

    keywords: tuple[str, ...]
    assignee: str
    action: str
    description: str = ""
    subject: str = ""
    optional: bool = False
    message: str = ""
    personal: bool = False

    def __post_init__(self) -> None:
        if not self.keywords or not all(keyword.strip() for keyword in self.keywords):
            raise ValueError("keywords must have at least one entry and no empty one")


def read_tools(options: dict[str, Any]) -> dict[str, Tool]:
    """The tools in a profile's options; raises ConfigError naming the field that is wrong."""
    try:
        return msgspec.convert(options.get("tools", {}), dict[str, Tool])
    except msgspec.ValidationError as error:
        raise ConfigError(f"The option 'tools' of the nexus profile is wrong: {error}") from None


def find_place(text: str, tool: Tool) -> str:
    """The optional subject of a tool: what ``text`` names beside times, such as the town."""
    found = re.search(r"\b(?:in|for|at|of)\s+(?=(?-i:[A-ZÀ-Þ]))(?P<rest>.*)", text, re.IGNORECASE | re.DOTALL)
    rest = found["rest"] if found else find_subject(text, tool)
    for pattern in (SPAN, DATES, TIMES, VAGUE, _VAGUE_DAYS):
        rest = pattern.sub(" ", rest)
    return " ".join(_COURTESY.sub("", re.split(r"[?!.\n]", rest)[0]).strip(" \"'“”,;").split())


def find_subject(text: str, tool: Tool) -> str:
    """What ``text`` asks the tool about: the words after the keyword, without link words and courtesies."""
    for keyword in sorted(tool.keywords, key=len, reverse=True):
        found = re.search(inflect(keyword) + r"(?P<rest>.*)", text, re.IGNORECASE | re.DOTALL)
        if found:
            rest = re.split(r"[?!\n]|\.(?:\s|$)", _LINK.sub("", found["rest"]))[0]
            places = "|".join(re.escape(word) for word in tool.keywords if " " not in word) or "$"
            closing = rf"[,\s]*\b(?:please|thanks|(?:are|is) there|(?:on|in|from) (?:{places}))\s*$"
            return re.sub(closing, "", rest, flags=re.IGNORECASE).strip(" \"'“”,;")
    return ""


def fill_params(text: str, tool: Tool) -> dict[str, str] | None:
    """The parameters that ``text`` gives a tool; None if a required subject is missing."""
    if tool.message:
        return {tool.message: text}
    if not tool.subject:
        return {}
    subject = find_place(text, tool) if tool.optional else find_subject(text, tool)
    if not subject and not tool.optional:
        return None
    return {tool.subject: subject} if subject else {}


class Router:
    """Finds the route of a request, and starts what it asks for: a tool's task or a goal."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._home = context.profile.name
        self.tools = read_tools(context.profile.options)
        tools = {f"tool:{name}": tool.description for name, tool in self.tools.items()}
        self._routes = {**AGENTS, **tools}
        self.examples = RouteExamples(context.memory, self._routes, home=self._home)

    async def prepare(self) -> None:
        """Embed the examples in advance; without memory that happens on first use."""
        try:
            await self.examples.prepare()
        except BusError as error:
            self._context.log.info("examples_not_ready", reason=str(error))

    async def find_route(self, text: str, *, with_model: bool = False) -> RoutingDecision:
        """The route by the rules, else by the nearest example, else by the model if ``with_model``."""
        personal = {name for name, tool in self.tools.items() if tool.personal}
        keywords = {name: tool.keywords for name, tool in self.tools.items()}
        decision = route_request(text, keywords, personal)
        if decision.route != self._home or not text.strip():
            return decision
        candidates = candidate_routes(text, self._routes, {f"tool:{name}" for name in personal})
        try:
            nearest = await self.examples.decide(text, candidates)
        except BusError as error:
            self._context.log.warning("examples_unknown", reason=str(error))
            nearest = None
        models = self._context.models
        if nearest or not with_model or decision.rationale != UNDECIDED or not models.model.available:
            return nearest or decision
        offered = {route: what for route, what in self._routes.items() if route in candidates}
        try:
            return await choose_route(models, text, {**offered, self._home: "answers from memory"})
        except ModelError as error:
            self._context.log.warning("route_unthought", reason=str(error))
            return decision

    async def submit_tool(self, request: Request, decision: RoutingDecision) -> Outbox:
        """The task of a tool, or a reply that asks for its missing subject."""
        tool = self.tools[decision.tool_name]
        params = fill_params(request.text, tool)
        if params is None:
            text = f"I can ask {tool.assignee} for that, but not about what. Name the {tool.subject}."
            failed = ResultOutcome.FAILED
            return [request.reply(Response(text=text, route_used=decision.route, outcome=failed))]
        return await self.submit(request, decision.route, tool.assignee, tool.action, params)

    async def submit(
        self, request: Request, route: str, assignee: str, action: str, params: Mapping[str, Any]
    ) -> Outbox:
        """The task of ``action``, once for each request; its result comes to ``on_result``."""
        task_id = self._context.bus.derive_id("ask", request.asker, request.letter_id, action)
        task = Task(
            task_id=f"ask_{task_id}",
            cause=request.letter_id,
            text=request.text,
            assignee=assignee,
            requester=self._home,
            said=self._said(request),
            context={
                "action": action,
                "params": dict(params),
                "route": route,
                REQUEST_KEY: request.to_dict(),
            },
        )
        return () if await read_task(self._context.bus, task) else [task]

    def make_goal(self, request: Request, decision: RoutingDecision) -> tuple[Entry, Response]:
        """The submission of a goal for ``request``, its id derived from it, and the reply that names it."""
        goal_id = f"goal_{self._context.bus.derive_id('goal', request.asker, request.letter_id)}"
        goal = {
            "text": request.text,
            "goal_id": goal_id,
            "requester": request.asker,
            "context": {"route": decision.route, "letter_id": request.letter_id},
            "said": self._said(request),
        }
        asked = flatten(request.text, 200)
        text = (
            f"That is work for the office, so I started goal {goal_id}: {asked}\n"
            f"The conductor plans it, and its report comes by mail. Follow it with: mailroom show {goal_id}"
        )
        response = Response(text=text, route_used=decision.route, goal_id=goal_id, confidence=1.0)
        return Entry(subjects.SUBMIT, msgspec.json.encode(goal), goal_id), response

    def _said(self, request: Request) -> Said | None:
        """What the asker said, if that is a person: the broker and the dispatcher checked who it is."""
        return sign_said(self._context.bus, request.text) if request.asker == subjects.USER else None

    async def follow_now(self, request: Request, decision: RoutingDecision) -> Response:
        """Within a task: start the goal, or run the tool and wait for its result."""
        if not decision.tool_name:
            entry, response = self.make_goal(request, decision)
            await self._context.bus.store(entry.subject, entry.payload, headers={"Nats-Msg-Id": entry.id})
            return response
        tool = self.tools[decision.tool_name]
        params = fill_params(request.text, tool)
        if params is None:
            raise ActionError(
                f"I can ask {tool.assignee} for that, but not about what", f"Name the {tool.subject}"
            )
        result = await self._context.delegation.run(
            tool.assignee, request.text, tool.action, params, key="tool"
        )
        return tool_response(result, decision.route)


def tool_response(result: TaskResult, route: str) -> Response:
    """The response that a tool's result makes."""
    done = result.status is TaskStatus.COMPLETED
    text = (result.output if done else result.error_message).strip() or "There is no result."
    return Response(
        text=shorten(text, MAX_TEXT),
        citations=result.evidence_refs,
        route_used=route,
        confidence=1.0 if done else 0.0,
        outcome=ResultOutcome.DONE if done else ResultOutcome.FAILED,
    )
