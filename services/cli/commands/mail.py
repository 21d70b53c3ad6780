"""``mailroom mail``: the letters of people and agents: list, read, write, answer."""

import asyncio
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.text import Text

from services.cli.commands.options import NumberType, TextType, json_option
from services.cli.connection import connect
from services.cli.output.console import (
    clean,
    clean_block,
    open_console,
    print_block,
    print_json,
    print_line,
    shorten,
)
from services.cli.output.times import format_date, format_span, seconds_between
from shared import subjects
from shared.contracts import AgentReport, Email, Question, Response, decode
from shared.errors import BusUnavailable, ConfigError, MailroomError

if TYPE_CHECKING:
    from shared.bus import Bus, Stored


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A letter as it is listed; ``number`` is its place in the log, ``session`` the id it answers."""

    number: int
    id: str
    sender: str
    recipient: str
    created_at: str
    kind: str
    subject: str
    body: str
    session: str = ""

    @property
    def parties(self) -> str:
        """Who wrote to whom."""
        return f"{self.sender} → {self.recipient}"


async def read_letters(bus: "Bus", sender: str, recipient: str, seq: int = 1) -> list[Letter]:
    """Letters from ``sender`` to ``recipient`` (each a name, or * for anybody) from ``seq`` on, in order."""
    from services.cli.queries.records import scan

    letters = scan(bus, subjects.OFFICE, subjects.mail(recipient, sender), seq=seq)
    return [letter async for stored in letters if (letter := _as_letter(stored)) is not None]


async def read_letter(bus: "Bus", number: int) -> Letter:
    """The letter of this number; raises MailroomError where there is none."""
    from services.cli.queries.records import read_one

    stored = await read_one(bus, subjects.OFFICE, number)
    letter = _as_letter(stored) if stored and stored.subject.startswith("mail.") else None
    if letter is None:
        raise MailroomError(f"There is no letter {number}", "'mailroom mail list' shows their numbers")
    return letter


def _as_letter(stored: "Stored") -> Letter | None:
    """A message of a mailbox as a letter; None for what is none, such as the result of a task."""
    try:
        envelope = decode(stored.data)
    except ValueError:
        return None
    match envelope:
        case Email():
            kind, subject, body, session = "letter", envelope.subject, envelope.body, envelope.in_reply_to
        case Response():
            kind, subject, body, session = "answer", "", envelope.text, envelope.cause
        case AgentReport():
            kind, subject, body, session = "report", "", envelope.summary, envelope.cause
        case Question():
            kind, subject, body, session = "question", "", envelope.text, ""
        case _:
            return None
    # The subject names who wrote, and the broker vouches for it.
    _, recipient, sender = stored.subject.split(".")
    return Letter(
        number=stored.seq,
        id=envelope.id,
        sender=sender,
        recipient=recipient,
        created_at=envelope.created_at,
        kind=kind,
        subject=subject,
        body=body,
        session=session,
    )


def thread_of(letters: list[Letter], start: str) -> list[Letter]:
    """The letters that answer one another, from the one named by its number or id."""
    known = {letter.id for letter in letters if start in (str(letter.number), letter.id)}
    size = -1
    while size != len(known):
        size = len(known)
        for letter in letters:
            if letter.id in known or (letter.session and letter.session in known):
                known |= {letter.id, letter.session} - {""}
    return [letter for letter in letters if letter.id in known]


LOOK_EVERY = 0.5
"""Seconds between looks for the answer to a letter."""


@click.group()
def mail() -> None:
    """Read the letters of the office, write to an agent, and answer."""


@mail.command(name="list")
@click.option("--from", "sender", default="*", metavar="NAME", help="Only what this one wrote.")
@click.option("--to", "recipient", default="*", metavar="NAME", help="Only what this one was written.")
@click.option("--thread", default="", metavar="ID", help="Only the thread of this letter.")
@click.option("--contains", default="", metavar="WORDS", help="Only what holds these words, in any case.")
@click.option("--limit", type=NumberType(1), default=30, show_default=True, help="At most so many.")
@json_option
def list_letters(sender: str, recipient: str, thread: str, contains: str, limit: int, as_json: bool) -> None:
    """List letters, reports and answers, the latest last.

    Without options those to and from you.
    """
    mine = sender == recipient == "*" and not (thread or contains)
    found = asyncio.run(_read(sender, recipient))
    found = [letter for letter in found if not mine or subjects.USER in (letter.sender, letter.recipient)]
    if thread:
        found = thread_of(found, thread)
    if contains:
        wanted = contains.casefold()
        found = [letter for letter in found if wanted in f"{letter.subject} {letter.body}".casefold()]
    if as_json:
        print_json(found[-limit:])
        return
    if not found:
        click.echo("There are no such letters.")
        return
    _print_list(found[-limit:], open_console())


def _print_list(letters: list[Letter], console: Console) -> None:
    digits = len(str(letters[-1].number))
    parties = max(len(letter.parties) for letter in letters)
    for letter in letters:
        age = format_span(seconds_between(letter.created_at))
        gist = shorten(f"{letter.subject}: {letter.body}" if letter.subject else letter.body, 200)
        line = f"  {letter.parties:<{parties}}  {letter.kind:<8}  {age:>6} ago  {gist}"
        print_line(Text.assemble((f"{letter.number:>{digits}}", "bold"), line), console)
    click.echo("\nmailroom mail show|reply NUMBER")


@mail.command()
@click.argument("number", type=NumberType(1))
@json_option
def show(number: int, as_json: bool) -> None:
    """Show a letter whole."""
    letter = asyncio.run(_find(number))
    if as_json:
        print_json(letter)
        return
    facts = {
        "from": letter.sender,
        "to": letter.recipient,
        "written": format_date(letter.created_at),
        "subject": letter.subject,
        "answers": letter.session,
        "id": letter.id,
    }
    for name, fact in facts.items():
        if fact:
            click.echo(f"{click.style(name, bold=True)}: {clean(fact)}")
    click.echo()
    print_block(clean_block(letter.body).strip(), open_console())


_wait = click.option("--wait", is_flag=True, help="Wait for the answer and print it.")
_timeout = click.option(
    "--timeout",
    type=NumberType(0.1, whole=False),
    default=300.0,
    show_default=True,
    help="Seconds to wait for the answer.",
)


@mail.command()
@click.argument("agent")
@click.argument("text", type=TextType())
@click.option("--subject", default="", metavar="TEXT", help="What it is about.")
@_wait
@_timeout
@json_option
def write(agent: str, text: str, subject: str, wait: bool, timeout: float, as_json: bool) -> None:
    """Write TEXT to an AGENT; '-' reads it from standard input.

    An agent with a model works on it and answers in the same thread; without one it says so.
    """
    asyncio.run(_send(_letter(agent, subject, text), wait, timeout, as_json))


@mail.command()
@click.argument("number", type=NumberType(1))
@click.argument("text", type=TextType())
@_wait
@_timeout
@json_option
def reply(number: int, text: str, wait: bool, timeout: float, as_json: bool) -> None:
    """Answer letter NUMBER with TEXT, in its thread."""
    asked = asyncio.run(_find(number))
    other = asked.recipient if asked.sender == subjects.USER else asked.sender
    subject = asked.subject if asked.subject.startswith("Re: ") else f"Re: {asked.subject}"
    letter = _letter(other, subject if asked.subject else "", text, asked.id)
    asyncio.run(_send(letter, wait, timeout, as_json))


def _letter(agent: str, subject: str, text: str, in_reply_to: str = "") -> Email:
    try:
        return Email(
            sender=subjects.USER, recipient=agent, subject=subject, body=text, in_reply_to=in_reply_to
        )
    except ValueError as error:
        raise ConfigError(f"The letter cannot be sent: {error}") from None


async def _send(email: Email, wait: bool, timeout: float, as_json: bool) -> None:
    from services.cli.queries.records import absent, read_presences

    async with connect() as bus:
        present = await read_presences(bus)
        if email.recipient not in {presence.agent for presence in present}:
            raise absent(email.recipient, present)
        subject = subjects.mail(email.recipient, subjects.USER)
        stored = await bus.store(subject, email.to_json(), headers={"Nats-Msg-Id": email.id})
        if not wait:
            if as_json:
                print_json({"id": email.id, "number": stored["seq"]})
            else:
                click.echo(f"Sent as letter {stored['seq']}. Its answer will be in: mailroom mail list")
            return
        answer = await _await_answer(bus, email, int(stored["seq"]), timeout)
    if as_json:
        print_json(answer)
    else:
        print_block(clean_block(answer.body).strip(), open_console())


async def _await_answer(bus: "Bus", email: Email, asked: int, timeout: float) -> Letter:
    try:
        async with asyncio.timeout(timeout):
            while True:
                for letter in await read_letters(bus, email.recipient, subjects.USER, asked):
                    if letter.session == email.id:
                        return letter
                await asyncio.sleep(LOOK_EVERY)
    except TimeoutError:
        raise BusUnavailable(
            f"{email.recipient} did not answer within {timeout:g} s; it may still",
            "Look later with 'mailroom mail list'",
        ) from None


async def _read(sender: str, recipient: str) -> list[Letter]:
    async with connect() as bus:
        return await read_letters(bus, sender, recipient)


async def _find(number: int) -> Letter:
    async with connect() as bus:
        return await read_letter(bus, number)
