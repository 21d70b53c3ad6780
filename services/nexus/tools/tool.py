"""A tool of the desk: what it is for, how people ask for it, and what it does."""

import asyncio
import functools
import importlib
import pkgutil
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import msgspec

from services.nexus.answers.model_answer import Answerer
from services.nexus.conversation.pending import format_question
from services.nexus.office.query import OfficeQuery, read_query
from services.nexus.office.things import Thing, list_things, read_installed, read_reports
from services.nexus.routing.request import Request
from services.nexus.timetable.scheduled_goals import ScheduledGoals
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus import Entry
from shared.clock import parse_timestamp, read_zone
from shared.contracts import AskedBack, Choice, Email, Response, ResultOutcome, Said
from shared.queries.office import OfficeReader
from shared.tasks.said import sign_said
from shared.text.display import shorten

EXAMPLES = Path(__file__).parent / "examples"  # A file of messages for each tool


class Effect(Enum):
    """What running a tool changes: nothing, something that is kept, or that work begins."""

    READS = "reads"
    WRITES = "writes"
    STARTS = "starts work"


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a tool that reads them from the message itself."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool answers at once.

    ``entries`` are committed together with the answer; ``asks`` is what it asks back.
    """

    text: str
    outcome: ResultOutcome = ResultOutcome.DONE
    citations: tuple[str, ...] = ()
    confidence: float = 1.0
    goal_id: str = ""
    entries: tuple[Entry, ...] = ()
    response: Response | None = None
    asks: AskedBack | None = None


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """An action of an agent whose result is the answer; ``note`` stands before it."""

    assignee: str
    action: str
    params: dict[str, Any] = {}
    note: str = ""


class ToolContext:
    """What tools work with: the agent's context, memory's answers, the schedules, the office as it stands."""

    def __init__(self, agent: AgentContext, answerer: Answerer, schedules: ScheduledGoals) -> None:
        self.agent = agent
        self.answerer = answerer
        self.schedules = schedules
        self.office = OfficeReader(agent.bus)
        self.zone = read_zone(agent.settings.time_zone)

    def now(self, request: Request) -> datetime:
        """When the person wrote, in the people's time zone."""
        moment = parse_timestamp(request.asked_at) if request.asked_at else datetime.now(UTC)
        return moment.astimezone(self.zone)

    @functools.cached_property
    def installed(self) -> dict[str, str]:
        """What each agent is for that was installed when it was first asked."""
        return read_installed(self.agent.settings)

    async def read_query(self, request: Request) -> OfficeQuery:
        """What the message asks of the office."""
        names = {*self.installed, *await self.agent.directory.read()}
        return read_query(request.utterance, self.now(request), names)

    async def list_things(self, request: Request) -> list[Thing]:
        """What there is in the office; with the reports of goals, if findings or tests are asked for."""
        things = await list_things(self.agent, self.office, self.installed, self.now(request))
        asks = {"finding", "tests"} & (await self.read_query(request)).shows
        return await asyncio.to_thread(read_reports, things) if asks else things

    def make_goal(self, request: Request) -> tuple[Entry, str]:
        """The submission of a goal for ``request``, and its id, which is derived from the request's.

        The goal is the team's: of a conversation that is one person's alone only the message is in it.
        """
        if request.audience:
            text = request.wrote or request.text
            request = msgspec.structs.replace(request, history=(), talk=None, wrote=text)
        goal_id = f"goal_{self.agent.bus.derive_id('goal', request.asker, request.key)}"
        goal = {
            "text": request.text,
            "goal_id": goal_id,
            "requester": request.asker,
            "context": {"route": subjects.CONDUCTOR, "letter_id": request.letter_id, **_thread(request)},
            "said": self.sign(request),
            "person": request.person if request.asker == subjects.USER else "",
        }
        return Entry(subjects.SUBMIT, msgspec.json.encode(goal), goal_id), goal_id

    def make_letter(self, request: Request, agent: str, subject: str, body: str) -> Email:
        """A letter of the desk to an agent, once for each request."""
        return Email(
            id=self.agent.bus.derive_id("letter", request.key, agent),
            sender=self.agent.profile.name,
            recipient=agent,
            subject=subject[:500],
            body=body,
            cause=request.letter_id,
        )

    def sign(self, request: Request) -> Said | None:
        """What the asker said, if that is a person: the broker and the dispatcher checked who it is."""
        return sign_said(self.agent.bus, request.words) if request.asker == subjects.USER else None


THREAD = 5  # How many earlier messages of its conversation a goal carries, the last ones
MAX_EARLIER = 1_000  # Characters of each


def _thread(request: Request) -> dict[str, list[str]]:
    """What the asker said before in the same conversation, for the context of a goal."""
    said = [str(each.get("text", "")) for each in request.history if each.get("role") == "user"]
    earlier = [shorten(text, MAX_EARLIER) for text in said if text.strip() and text != request.text][-THREAD:]
    return {"thread": earlier} if earlier else {}


Run = Callable[[ToolContext, Request, Any], Awaitable[Answer | Call]]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the desk does.

    ``description`` is one line, for people and for a model; messages that ask for it are in
    ``examples/<name>.txt``, one a line. ``run`` gets what tools work with, the request and ``parameters``:
    those of a model, else what ``read`` finds in the message.
    ``route`` is what an answer names as its route. A message in which ``needs`` is not found is for another
    tool, one that ``says`` matches at its beginning is for this one. A ``hidden`` tool is not among what the
    desk says it can do. What a ``personal`` one reads is a person's; agents may not have it read, and have
    nothing written either (shared/tasks/speaker.py). A model gives one that ``takes_parts`` its parameters,
    and any other a whole request.
    """

    name: str
    description: str
    run: Run
    effect: Effect = Effect.READS
    parameters: type[msgspec.Struct] = Words
    read: Callable[[ToolContext, Request], msgspec.Struct] | None = None
    route: str = ""
    needs: re.Pattern[str] | None = None
    says: re.Pattern[str] | None = None
    hidden: bool = False
    personal: bool = False
    takes_parts: bool = False

    @property
    def used(self) -> str:
        """The route that an answer names."""
        return self.route or f"tool:{self.name}"

    @property
    def sentences(self) -> tuple[str, ...]:
        """Messages that ask for it."""
        return read_examples(self.name)


@functools.cache
def read_examples(name: str) -> tuple[str, ...]:
    """Messages that ask for the tool ``name``; none for one that is found by other words."""
    path = EXAMPLES / f"{name}.txt"
    return tuple(path.read_text(encoding="utf-8").splitlines()) if path.exists() else ()


@functools.cache
def load_tools() -> dict[str, Tool]:
    """The tools that the modules of this package define, by their names and in the order of these."""
    names = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    modules = [importlib.import_module(f"{__package__}.{name}") for name in names]
    found = [each for module in modules for each in vars(module).values() if isinstance(each, Tool)]
    return {tool.name: tool for tool in sorted(found, key=lambda tool: tool.name)}


def ask_back(
    text: str,
    template: str = "",
    choices: Sequence[Choice] = (),
    expects: Literal["choice", "time", "text"] = "text",
) -> Answer:
    """An answer that asks for what is missing; nothing was done. See AskedBack for what settles it."""
    asks = AskedBack(choices=tuple(choices), template=template[:4_000], expects=expects)
    return Answer(
        text=format_question(text, asks),
        outcome=ResultOutcome.FAILED,
        confidence=0.0,
        asks=asks if choices or template else None,
    )


def command(tool: str, text: str) -> str:
    """The whole message that has ``tool`` read ``text``."""
    return f"/{tool} {text}"[:4_000]
