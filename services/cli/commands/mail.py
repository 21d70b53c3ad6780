"""``mailroom mail``: messages of people and agents: list, show, write, reply."""

from typing import TYPE_CHECKING

import click
import msgspec
from rich.text import Text

from services.cli.commands.options import (
    NumberType,
    TextType,
    json_option,
    print_resolved,
    resolve_text,
    timeout_option,
)
from services.cli.connection import run_connected
from services.cli.output.console import (
    open_console,
    print_block,
    print_facts,
    print_json,
    print_line,
    print_result,
    shorten,
)
from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.records import read_presences
from shared.contracts import AgentReport, Email, Question, Response, decode
from shared.errors import BusUnavailable, ConfigError, MailroomError
from shared.queries.records import Listener, read_message, scan, unknown_agent_error
from shared.text.printable import clean_block
from shared.text.times import format_date, format_span, seconds_between

if TYPE_CHECKING:
    from rich.console import Console

POLL_INTERVAL = 0.5
"""Seconds between reads if no message arrives."""


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it is listed; ``number`` is its sequence, ``session`` the id of the one it answers."""

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
        """``sender → recipient``."""
        return f"{self.sender} → {self.recipient}"


async def read_mail(bus: Bus, sender: str, recipient: str, seq: int = 1) -> list[Mail]:
    """Mail from ``sender`` to ``recipient`` (a name, or * for any) from sequence ``seq`` on."""
    found = scan(bus, subjects.OFFICE, subjects.mail(recipient, sender), seq=seq)
    return [item async for stored in found if (item := _parse_mail(stored)) is not None]


async def read_mail_item(bus: Bus, number: int) -> Mail:
    """The message with this number; raises MailroomError if there is none."""
    stored = await read_message(bus, subjects.OFFICE, number)
    item = _parse_mail(stored) if stored and stored.subject.startswith("mail.") else None
    if item is None:
        raise MailroomError(f"There is no message {number}", "'mailroom mail list' shows their numbers")
    return item


def _parse_mail(stored: Stored) -> Mail | None:
    """A message of a mailbox; None for envelopes that are not mail, such as the result of a task."""
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
    # The broker enforces the sender in the subject, not the one in the envelope.
    _, recipient, sender = stored.subject.split(".")
    return Mail(
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


def select_thread(items: list[Mail], start: str) -> list[Mail]:
    """The messages that answer one another, found from the number or id of one of them."""
    known = {item.id for item in items if start in (str(item.number), item.id)}
    size = -1
    while size != len(known):
        size = len(known)
        for item in items:
            if item.id in known or (item.session and item.session in known):
                known |= {item.id, item.session} - {""}
    return [item for item in items if item.id in known]


@click.group()
def mail() -> None:
    """Read mail, write to an agent, and reply."""


@mail.command(name="list")
@click.option("--from", "sender", default="*", metavar="NAME", help="Only mail from NAME.")
@click.option("--to", "recipient", default="*", metavar="NAME", help="Only mail to NAME.")
@click.option("--thread", default="", metavar="ID", help="Only the thread of this message (number or id).")
@click.option("--contains", default="", metavar="TEXT", help="Only mail with this text, ignoring case.")
@click.option("--limit", type=NumberType(1), default=30, show_default=True, help="The most to list.")
@json_option
def list_mail(sender: str, recipient: str, thread: str, contains: str, limit: int, as_json: bool) -> None:
    """List messages, reports and answers, latest last.

    Without options, only those from and to you.
    """
    own = sender == recipient == "*" and not (thread or contains)
    found = run_connected(lambda bus: read_mail(bus, sender, recipient))
    found = [item for item in found if not own or subjects.USER in (item.sender, item.recipient)]
    if thread:
        found = select_thread(found, thread)
    if contains:
        text = contains.casefold()
        found = [item for item in found if text in f"{item.subject} {item.body}".casefold()]
    if as_json:
        print_json(found[-limit:])
    elif found:
        _print_list(found[-limit:], open_console())
    else:
        click.echo("No matching mail.")


def _print_list(items: list[Mail], console: "Console") -> None:
    digits = len(str(items[-1].number))
    parties = max(len(item.parties) for item in items)
    for item in items:
        age = format_span(seconds_between(item.created_at))
        text = shorten(f"{item.subject}: {item.body}" if item.subject else item.body, 200)
        kind = "email" if item.kind == "letter" else item.kind  # the JSON keeps its value
        line = f"  {item.parties:<{parties}}  {kind:<8}  {age:>6} ago  {text}"
        print_line(Text.assemble((f"{item.number:>{digits}}", "bold"), line), console)
    click.echo("\nmailroom mail show|reply NUMBER")


@mail.command()
@click.argument("number", type=NumberType(1))
@json_option
def show(number: int, as_json: bool) -> None:
    """Show a message in full."""
    item = run_connected(lambda bus: read_mail_item(bus, number))
    if as_json:
        print_json(item)
        return
    print_facts(
        {
            "from": item.sender,
            "to": item.recipient,
            "written": format_date(item.created_at),
            "subject": item.subject,
            "answers": item.session,
            "id": item.id,
        }
    )
    click.echo()
    print_block(clean_block(item.body).strip(), open_console())


_wait = click.option("--wait", is_flag=True, help="Wait for the reply and print it.")


@mail.command()
@click.argument("agent")
@click.argument("text", type=TextType())
@click.option("--subject", default="", metavar="TEXT", help="The subject line.")
@_wait
@timeout_option(300.0)
@json_option
def write(agent: str, text: str, subject: str, wait: bool, timeout: float, as_json: bool) -> None:
    """Write TEXT to AGENT; '-' reads it from standard input.

    An agent with a model works on it and replies in the same thread; one without a model says so.
    """
    email = _compose(agent, subject, text)
    run_connected(lambda bus: _send(bus, email, wait, timeout, as_json))


@mail.command()
@click.argument("number", type=NumberType(1))
@click.argument("text", type=TextType())
@_wait
@timeout_option(300.0)
@json_option
def reply(number: int, text: str, wait: bool, timeout: float, as_json: bool) -> None:
    """Reply to message NUMBER with TEXT, in its thread."""
    original = run_connected(lambda bus: read_mail_item(bus, number))
    other = original.recipient if original.sender == subjects.USER else original.sender
    subject = original.subject
    if subject.strip() and not subject.lower().startswith("re:"):
        subject = f"Re: {subject}"
    email = _compose(other, subject, text, original.id)
    run_connected(lambda bus: _send(bus, email, wait, timeout, as_json))


def _compose(agent: str, subject: str, text: str, in_reply_to: str = "") -> Email:
    text, resolved = resolve_text(text)
    print_resolved(resolved)
    try:
        return Email(
            sender=subjects.USER, recipient=agent, subject=subject, body=text, in_reply_to=in_reply_to
        )
    except ValueError as error:
        raise ConfigError(f"The message cannot be sent: {error}") from None


async def _send(bus: Bus, email: Email, wait: bool, timeout: float, as_json: bool) -> None:
    presences = await read_presences(bus)
    if email.recipient not in {presence.agent for presence in presences}:
        raise unknown_agent_error(email.recipient, presences)
    listener = Listener(bus, POLL_INTERVAL)
    if wait:
        await listener.subscribe(subjects.mail(subjects.USER, email.recipient))
    subject = subjects.mail(email.recipient, subjects.USER)
    stored = await bus.store(subject, email.to_json(), headers={"Nats-Msg-Id": email.id})
    sent = int(stored["seq"])
    if wait:
        answer = await _wait_for_reply(bus, listener, email, sent, timeout)
        if as_json:
            print_json(answer)
        else:
            print_block(clean_block(answer.body).strip(), open_console())
    else:
        text = f"Sent as message {sent}. 'mailroom mail list' will show the reply."
        print_result({"id": email.id, "number": sent}, text, as_json)


async def _wait_for_reply(bus: Bus, listener: Listener, email: Email, sent: int, timeout: float) -> Mail:
    async def read_reply() -> Mail | None:
        items = await read_mail(bus, email.recipient, subjects.USER, sent)
        return next((item for item in items if item.session == email.id), None)

    try:
        return await listener.wait_for(read_reply, timeout)
    except TimeoutError:
        raise BusUnavailable(
            f"{email.recipient} did not answer within {timeout:g} s; it may still",
            "Check later with 'mailroom mail list'",
        ) from None
