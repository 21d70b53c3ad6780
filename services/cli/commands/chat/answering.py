"""One answer of the front desk as it is made, and what only a person may do, done after a yes.

The front desk names the command and can do neither. What is shown is read here, and not from its words.
"""

import asyncio
import contextlib
import re
import shlex
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import click
import msgspec
from rich.console import Console
from rich.text import Text

from services.cli import api
from services.cli.commands.approvals import print_approval
from services.cli.output.answers import print_sources
from services.cli.output.console import open_console, print_block
from shared import settings, subjects
from shared.clock import parse_timestamp
from shared.contracts import TOKEN, AnswerWords, Response, generate_id
from shared.errors import BusUnavailable, MailroomError, NotFound, Refused, Unanswered
from shared.text.display import clean, clean_block
from shared.views.approval import Approval, Approvals, Decision
from shared.views.desk import LIFETIME, Note, SessionSummary, Turn
from shared.views.listed import Mail, NewLetter, SentLetter, SubmittedGoal
from shared.views.progress import WAITING_NOTE

LATE_INTERVAL = 2.0  # Seconds until it is looked again whether an answer follows
FOLLOWS = "its answer follows when it comes"  # How an answer says so
RETRY_INTERVAL = 0.5  # Seconds until a gateway that ended is asked again
PATIENCE = 600.0  # Seconds that an answer is waited for
STOP_TIMEOUT = 60.0  # Seconds until the gateway must have stopped an answer, and the goal that it started
RECENT = timedelta(hours=8)  # How long 'mailroom chat' goes on with the last conversation: a day at work
WAITS = re.compile(f"{WAITING_NOTE} (?P<id>[0-9a-f]+)")  # The note of a task that a person holds up
MOST = 100  # Sessions that are listed

Step = AnswerWords | Note | Response


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is said in a session; by its ``id`` it is asked once, however often it is sent."""

    session: str
    text: str
    id: str = msgspec.field(default_factory=generate_id)

    @property
    def path(self) -> str:
        """Where the gateway has it."""
        return f"/desk/sessions/{api.segment(self.session)}/messages"


async def follow_answer(question: Question, login: api.Login | None = None) -> AsyncGenerator[Step, None]:
    """Ask ``question``, and yield what is done for it until its Response; raises Refused and what api raises.

    If the gateway ends meanwhile, the answer is followed on when it runs again.
    """
    is_asked = False
    while True:
        try:
            stream = await asyncio.to_thread(
                api.EventStream,
                question.path,
                {"accepted": _Accepted, "note": Note, "words": AnswerWords, "answer": Turn},
                "answer",
                body={"text": question.text},
                key=question.id,
                timeout=PATIENCE,
                login=login,
            )
            async with aclosing(stream.events()) as events:
                async for event in events:
                    is_asked = True
                    if isinstance(event, Note | AnswerWords):
                        yield event
                    elif isinstance(event, Turn) and event.state == "refused":
                        raise Refused(f"The front desk could not handle the question: {event.reason}")
                    elif isinstance(event, Turn) and event.state == "answered":
                        path = f"{question.path}/{question.id}/answer"
                        yield await asyncio.to_thread(api.get, path, Response, login=login)
                        return
        except api.GatewayAway:
            if not is_asked:
                raise
            await asyncio.sleep(RETRY_INTERVAL)


class _Accepted(msgspec.Struct, frozen=True):
    id: str


def format_note(note: Note) -> str:
    """What an agent does for an answer: it is asked for it, or says how far it is; empty for other notes."""
    if note.step == "asked":
        return f"is asked: {clean(note.text)}" if note.agent != subjects.NEXUS else ""
    return clean(note.text) if note.step in ("begun", "noted") else ""


async def ask_nexus(question: Question, timeout: float, login: api.Login | None = None) -> Response:
    """The answer of nexus; raises BusUnavailable after ``timeout`` seconds, or Refused."""
    waits = None
    try:
        async with asyncio.timeout(timeout), aclosing(follow_answer(question, login)) as steps:
            async for step in steps:
                if isinstance(step, Response):
                    return step
                if isinstance(step, Note) and (found := WAITS.match(step.text)):
                    waits = found
                    _tell_waiting(clean(step.text), found["id"])
    except TimeoutError:
        pass
    if waits:
        raise Unanswered(
            f"Nobody approved it within {timeout:g} s: it is done once you approve",
            f"'mailroom approvals grant {waits['id']}' does so",
        )
    raise BusUnavailable(
        f"The front desk did not answer within {timeout:g} s; the question stays in its mailbox",
        f"'mailroom status' shows whether {subjects.NEXUS} runs",
    )


def _tell_waiting(text: str, approval: str) -> None:
    """Say on standard error what an answer waits for, and how it goes on."""
    console = open_console(stderr=True)
    print_block(text, console, hang=2)
    print_block(f"In another terminal: mailroom approvals grant {approval} (or refuse)", console, hang=2)


async def wait_for_late(question: Question, first: Response) -> Response | None:
    """The answer that follows on ``first``, for which a model was late; None after PATIENCE."""
    path, until = f"{question.path}/{question.id}/answer", time.monotonic() + PATIENCE
    while time.monotonic() < until:
        await asyncio.sleep(LATE_INTERVAL)
        with contextlib.suppress(MailroomError):  # a gateway that is away is asked again
            answer = await asyncio.to_thread(api.get, path, Response)
            if answer.id != first.id:
                return answer
    return None


def stop_answer(question: Question) -> Turn:
    """Have nexus end what it does for a question, and the goal that it started; returns the turn then."""
    return api.post(f"{question.path}/{question.id}/stop", Turn, timeout=STOP_TIMEOUT)


def list_sessions() -> list[SessionSummary]:
    """The sessions that can be gone on with, the latest first."""
    since = datetime.now(UTC) - LIFETIME
    found = api.get("/desk/sessions", _Sessions, {"limit": MOST}).sessions
    return [each for each in found if parse_timestamp(each.last_at) > since]


class _Sessions(msgspec.Struct, frozen=True):
    sessions: list[SessionSummary]


def choose_session(name: str, *, latest: bool = False, recent: bool = False) -> str:
    """The id of the session ``name``, or of the ``latest``, of a ``recent`` one if there is; else a new one.

    Raises NotFound if there is none to go on with.
    """
    if not (name or latest or recent):
        return make_session()
    known = list_sessions()
    if name:
        return find_session(known, name).session_id
    last = next(iter(known), None)
    if last is not None and (latest or datetime.now(UTC) - parse_timestamp(last.last_at) < RECENT):
        return last.session_id
    if latest:
        raise NotFound("There is no session to go on with", "Begin one: mailroom chat")
    return make_session()


def make_session() -> str:
    """The id of a new session."""
    return f"chat-{generate_id().replace('-', '')[-12:]}"


def find_session(known: list[SessionSummary], name: str) -> SessionSummary:
    """The session of an id, or of the beginning or end of one; raises NotFound."""
    same = [each for each in known if each.session_id == name]
    near = same or [
        each for each in known if each.session_id.startswith(name) or each.session_id.endswith(name)
    ]
    if len(near) == 1 and TOKEN.fullmatch(name):
        return near[0]
    what = f"{len(near)} sessions match {name[:60]!r}" if near else f"There is no session {name[:60]!r}"
    raise NotFound(what, "'mailroom sessions' lists them")


class ShownAnswer:
    """One answer on the console; on a terminal with what is done for it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = console.is_terminal
        self._written = ""
        self._status = console.status("The front desk is answering") if self._live else None
        if self._status:
            self._status.start()

    def close(self) -> None:
        """Take the sign that it is being answered away."""
        if self._status:
            self._status.stop()
            self._status = None

    def show_note(self, note: Note) -> None:
        """Show what an agent does, on a terminal."""
        if self._live and (text := format_note(note)):
            line = Text(f"  {note.agent}: {text}", style="dim")
            self._console.print(line, no_wrap=True, overflow="ellipsis", crop=True)

    def show_hint(self, text: str) -> None:
        """Show what one can do while nothing comes."""
        click.echo(text, err=True)

    def show_words(self, words: AnswerWords) -> None:
        """Show words as they come, on a terminal."""
        if not self._live:
            return
        self.close()
        if words.number == 0 and self._written:
            self._console.print()
            self._written = ""
        self._written += words.text
        self._console.print(Text(clean_block(words.text)), end="", soft_wrap=True)

    def show(self, answer: Response) -> None:
        """Show the answer, or what is not shown of it yet, and its sources."""
        self.close()
        text = answer.text.strip()
        begun = self._written.strip()
        if begun and text.startswith(begun):
            rest = text.removeprefix(begun)
            self._console.print(Text(clean_block(rest)), soft_wrap=True)
        else:
            if begun:
                self._console.print("\n")
            print_block(clean_block(text), self._console)
        if not self._console.quiet:
            print_sources(answer)


Ask = Callable[[str], Awaitable[bool]]  # Asks a person, and tells whether the answer was yes
_OFFERED = re.compile(
    r"\bmailroom (?:approvals (?P<verb>grant|refuse) (?P<approval>[0-9a-f-]{12,36})"
    r"|memory forget (?P<memory>[\w-]+)"
    r"|(?P<send>resume|mail reply) (?P<to>[\w-]+) (?:--say )?(?P<words>'.*'|[^\s']+)$)",
    re.MULTILINE | re.DOTALL,
)
ROUTES = frozenset({"tool:approve", "tool:forget", "tool:send_mail"})
"""The answers after which it is asked whether what they name is to be done."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One act of a person: ``verb`` is grant, refuse, forget, resume a goal or mail reply, ``ref`` the id of
    what it is about, ``words`` what is sent.
    """

    verb: str
    ref: str
    words: str = ""


def find_offers(answer: Response) -> list[Offer]:
    """The acts whose commands an answer names; of several memories none, for a person is to choose one."""
    if answer.route_used not in ROUTES:
        return []
    offers = [
        Offer(
            verb=found["verb"] or found["send"] or "forget",
            ref=found["approval"] or found["to"] or found["memory"],
            words=" ".join(shlex.split(found["words"] or "")),
        )
        for found in _OFFERED.finditer(answer.text)
    ]
    is_open = len(offers) > 1 and offers[0].verb not in ("grant", "refuse")  # which one, a person says
    return [] if is_open else offers


async def carry_out(offer: Offer, ask: Ask) -> None:
    """Show what an act is about as it is stored, ask, and do it after a yes."""
    if offer.words:
        await _send(offer, ask)
    else:
        await (_forget(offer, ask) if offer.verb == "forget" else _answer(offer, ask))


async def _send(offer: Offer, ask: Ask) -> None:
    """Send what is answered to a goal or a letter, after a yes."""
    if not await ask(f"Send “{clean(offer.words)}”?"):
        click.echo("It is not sent.")
    elif offer.verb == "resume":
        api.post(f"{api.goal_path(offer.ref)}/say", SubmittedGoal, {"text": offer.words})
        click.echo("The goal goes on.")
    else:
        letter = api.get(f"/mail/{api.segment(offer.ref)}", Mail)
        api.post("/mail", SentLetter, NewLetter(reply_to=letter.number, body=offer.words))
        click.echo("Sent.")


async def _answer(offer: Offer, ask: Ask) -> None:
    asked = api.get("/approvals", Approvals).approvals
    found = [each for each in asked if each.request.approval_id.startswith(offer.ref)]
    if len(found) != 1 or found[0].state != "waiting":
        return
    print_approval(found[0], open_console())
    if not await ask(f"{offer.verb.capitalize()} it?"):
        click.echo("It waits on.")
        return
    decision = Decision(granted=offer.verb == "grant")
    path = f"/approvals/{api.segment(found[0].request.approval_id)}"
    request = api.post(path, Approval, decision).request
    may = "granted: {} may do it" if offer.verb == "grant" else "refused: {} may not do it"
    click.echo(f"{request.approval_id[:12]} {may.format(request.sender)}.")


async def _forget(offer: Offer, ask: Ask) -> None:
    if url := api.find_office_elsewhere(settings.load()):
        click.echo(f"Texts are erased on the machine of {url} alone: mailroom memory forget {offer.ref}")
        return
    # the whole way to the bus takes long to import, and this is rare
    from services.cli.commands.memory.forget import describe_forgotten, describe_plan, erase, with_files
    from services.cli.connection import connect
    from shared.operations.forgetting import plan_forgetting

    async with connect() as bus:
        plan = with_files(await plan_forgetting(bus, [offer.ref]))
        click.echo("\n".join(describe_plan(plan)))
        if not plan.nodes or not await ask("Erase it for good? Nothing brings a text back."):
            click.echo("It is kept.")
            return
        click.echo("\n".join(describe_forgotten(await erase(bus, plan))))
