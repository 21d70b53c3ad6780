"""One answer of the front desk as it is made, and what only a person may do, done after a yes.

The front desk names the command and can do neither. What is shown is read here, and not from its words.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress

import click
import msgspec
from rich.console import Console
from rich.text import Text

from services.cli.commands.approvals import print_approval
from services.cli.commands.memory.forget import describe_forgotten, describe_plan, erase, with_files
from services.cli.output.answers import print_sources
from services.cli.output.console import open_console, print_block
from shared import subjects
from shared.bus import Bus
from shared.contracts import AnswerWords, Question, Response, StopAnswer, Task, TaskChanged
from shared.errors import BusUnavailable, Refused
from shared.operations.approvals import answer_request, find_approvals
from shared.operations.forgetting import plan_forgetting
from shared.queries.office import find_dead_letter
from shared.queries.records import scan
from shared.text.display import clean, clean_block

POLL_INTERVAL = 1.0  # Seconds between reads if no message arrives
STOP_TIMEOUT = 10.0  # Seconds until an answer that was stopped must have ended
_ANSWERS = subjects.mail(subjects.USER, subjects.NEXUS)


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent does for an answer: it ``begins`` a task, or says how far it is."""

    agent: str
    text: str


Step = AnswerWords | Note | Response


async def follow_answer(bus: Bus, question: Question) -> AsyncGenerator[Step, None]:
    """Ask ``question``, and yield what is done for it until its Response; raises Refused and BusError."""
    events: asyncio.Queue[Step | None] = asyncio.Queue()
    notes = _Notes(question.id)

    async def on_words(_: str, payload: bytes, __: dict[str, str]) -> None:
        with suppress(ValueError):
            events.put_nowait(AnswerWords.from_json(payload))

    async def on_step(subject: str, payload: bytes, _: dict[str, str]) -> None:
        if note := notes.read(subject.removeprefix(subjects.AUDIT_PREFIX), payload):
            events.put_nowait(note)

    async def on_letter(_: str, __: bytes, ___: dict[str, str]) -> None:
        events.put_nowait(None)

    steps = subjects.task("*", subjects.NEXUS, "*", "*")
    refusals = subjects.dead(subjects.NEXUS)
    ends = [
        await bus.subscribe(subjects.words(question.id), on_words),
        await bus.subscribe(subjects.AUDIT_PREFIX + steps, on_step),
        await bus.subscribe(subjects.AUDIT_PREFIX + _ANSWERS, on_letter),
        await bus.subscribe(subjects.AUDIT_PREFIX + refusals, on_letter),
    ]
    try:
        subject = subjects.mail(subjects.NEXUS, subjects.USER)
        stored = await bus.store(subject, question.to_json(), headers={"Nats-Msg-Id": question.id})
        while True:
            event = await _next(events)
            if event is None:
                event = await _read_answer(bus, question, int(stored["seq"]))
            if event is not None:
                yield event
            if isinstance(event, Response):
                return
    finally:
        for end in ends:
            await end()


async def _next(events: asyncio.Queue[Step | None]) -> Step | None:
    """The next event; None if the stream has to be read."""
    try:
        # wait_for of Python 3.11 forgets a Ctrl-C that comes together with a message.
        async with asyncio.timeout(POLL_INTERVAL):
            return await events.get()
    except TimeoutError:
        return None


async def _read_answer(bus: Bus, question: Question, asked: int) -> Response | None:
    async with aclosing(scan(bus, subjects.OFFICE, _ANSWERS, seq=asked)) as found:
        async for stored in found:
            if question.id.encode() not in stored.data:
                continue
            with suppress(ValueError):
                answer = Response.from_json(stored.data)
                if answer.cause == question.id:
                    return answer
    if (refusal := await find_dead_letter(bus, subjects.NEXUS, asked)) is not None:
        raise Refused(f"The front desk could not handle the question: {refusal.reason}")
    return None


class _Notes:
    """Reads the steps of the tasks that nexus gives out for one question."""

    def __init__(self, question_id: str) -> None:
        self._id = question_id
        self._tasks: set[str] = set()

    def read(self, subject: str, payload: bytes) -> Note | None:
        """What a step says; None if it says nothing, or is of another question."""
        _, agent, _, task_id, step = subject.split(".")
        with suppress(ValueError):
            if step in subjects.NEW.values() and self._id.encode() in payload:
                self._tasks.add(task_id)
                if agent != subjects.NEXUS:
                    return Note(agent=agent, text=f"is asked: {clean(Task.from_json(payload).text)}")
            if step in subjects.AT_WORK and task_id in self._tasks:
                note = TaskChanged.from_json(payload).note
                return Note(agent=agent, text=clean(note)) if note else None
        return None


async def ask_nexus(bus: Bus, question: Question, timeout: float) -> Response:
    """The answer of nexus; raises BusUnavailable after ``timeout`` seconds, or Refused."""
    try:
        async with asyncio.timeout(timeout), aclosing(follow_answer(bus, question)) as steps:
            async for step in steps:
                if isinstance(step, Response):
                    return step
    except TimeoutError:
        pass
    raise BusUnavailable(
        f"The front desk did not answer within {timeout:g} s; the question stays in its mailbox",
        f"'mailroom status' shows whether {subjects.NEXUS} runs",
    )


async def stop_answer(bus: Bus, question: Question) -> None:
    """Have nexus end what it does for a question; what comes of it is the answer."""
    request = StopAnswer(
        sender=subjects.USER,
        recipient=subjects.NEXUS,
        question_id=question.id,
        session_id=question.user_session_id or question.id,
    )
    subject = subjects.mail(subjects.NEXUS, subjects.USER)
    await bus.store(subject, request.to_json(), headers={"Nats-Msg-Id": request.id})


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
        if self._live:
            line = Text(f"  {note.agent}: {note.text}", style="dim")
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
    r"|memory forget (?P<memory>[\w-]+))"
)
ROUTES = frozenset({"tool:approve", "tool:forget"})
"""The answers after which it is asked whether what they name is to be done."""


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One act of a person: ``verb`` is grant, refuse or forget, ``ref`` the id of what it is about."""

    verb: str
    ref: str


def find_offers(answer: Response) -> list[Offer]:
    """The acts whose commands an answer names; of several memories none, for a person is to choose one."""
    if answer.route_used not in ROUTES:
        return []
    offers = [
        Offer(verb=found["verb"] or "forget", ref=found["approval"] or found["memory"])
        for found in _OFFERED.finditer(answer.text)
    ]
    return [] if len(offers) > 1 and offers[0].verb == "forget" else offers


async def carry_out(bus: Bus, offer: Offer, ask: Ask) -> None:
    """Show what an act is about as it is stored, ask, and do it after a yes."""
    await (_forget(bus, offer, ask) if offer.verb == "forget" else _answer(bus, offer, ask))


async def _answer(bus: Bus, offer: Offer, ask: Ask) -> None:
    found = [
        each
        for each in await find_approvals(bus, offer.ref)
        if each.request.approval_id.startswith(offer.ref)
    ]
    if len(found) != 1 or found[0].state != "waiting":
        return
    print_approval(found[0], open_console())
    if not await ask(f"{offer.verb.capitalize()} it?"):
        click.echo("It waits on.")
        return
    request = await answer_request(bus, found[0].request.approval_id, offer.verb == "grant", "")
    may = "granted: {} may do it" if offer.verb == "grant" else "refused: {} may not do it"
    click.echo(f"{request.approval_id[:12]} {may.format(request.sender)}.")


async def _forget(bus: Bus, offer: Offer, ask: Ask) -> None:
    plan = with_files(await plan_forgetting(bus, [offer.ref]))
    click.echo("\n".join(describe_plan(plan)))
    if not plan.nodes or not await ask("Erase it for good? Nothing brings a text back."):
        click.echo("It is kept.")
        return
    click.echo("\n".join(describe_forgotten(await erase(bus, plan))))
