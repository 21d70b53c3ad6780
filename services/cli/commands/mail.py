"""``mailroom mail``: messages of people and agents: list, show, write, reply."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from rich.text import Text

from services.cli.commands.completion import AgentName
from services.cli.commands.options import (
    NumberType,
    TextType,
    format_examples,
    json_option,
    limit_option,
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
from shared.bus import Bus
from shared.contracts import Email
from shared.operations.letters import (
    compose,
    compose_reply,
    find_mail,
    read_latest_mail,
    search_mail,
    send,
    send_and_wait,
)
from shared.text.display import clean, clean_block
from shared.text.times import format_date, format_span, seconds_between
from shared.trail.archives import find_archived
from shared.views.listed import Mail
from shared.views.timeline import format_sender

if TYPE_CHECKING:
    from rich.console import Console


message_argument = click.argument("message", metavar="MESSAGE")


@click.group()
def mail() -> None:
    """Read mail, write to an agent, and reply."""


@mail.command(name="list")
@click.option("--from", "sender", type=AgentName(), default="*", metavar="NAME", help="Only mail from NAME.")
@click.option("--to", "recipient", type=AgentName(), default="*", metavar="NAME", help="Only mail to NAME.")
@click.option("--thread", default="", metavar="ID", help="Only the thread of this message (number or id).")
@click.option("--contains", default="", metavar="TEXT", help="Only mail with this text, ignoring case.")
@click.option(
    "--before", type=NumberType(0), default=0, metavar="NUMBER", help="Only mail before this message."
)
@limit_option
@json_option
def list_mail(
    sender: str, recipient: str, thread: str, contains: str, before: int, limit: int, as_json: bool
) -> None:
    """List messages, reports and answers, latest last.

    Without options, only those from and to you. --thread and --contains search 10,000 messages at a time.
    """
    own = sender == recipient == "*" and not (thread or contains)
    older = ""
    if thread or contains:
        found, left = run_connected(
            lambda bus: search_mail(
                bus, sender, recipient, limit, containing=contains, thread=thread, before=before
            )
        )
        older = f"There is older mail: --before {left} searches it" if left else ""
    else:
        parties = [("*", subjects.USER), (subjects.USER, "*")] if own else [(sender, recipient)]
        found, number_of = run_connected(lambda bus: _read_latest(bus, parties, limit, before))
        if number_of:
            who = ", ".join(f"{number:,} of {name}" for name, number in sorted(number_of.items()))
            older = f"Older mail: {who}. --limit lists more, --from that of one agent"
    if as_json:
        print_json(found)
    elif found:
        _print_list(found, open_console())
    else:
        click.echo("No matching mail.")
    if older:
        click.echo(older, err=as_json)
    elif archived := run_connected(_find_archived_mail):
        click.echo(archived, err=as_json)


async def _find_archived_mail(bus: Bus) -> str:
    """That there is older mail in the archive, and where; empty without one."""
    archived = await find_archived(bus)
    if not archived:
        return ""
    folders = ", ".join(dict.fromkeys(clean(part.folder) for part in archived))
    return f"Mail before {format_date(archived[-1].until)} is in the archive ({folders})"


async def _read_latest(
    bus: Bus, parties: Sequence[tuple[str, str]], limit: int, before: int
) -> tuple[list[Mail], Counter[str]]:
    """The last mail from and to these, and how much older mail of each sender there is."""
    pages = [await read_latest_mail(bus, sender, recipient, limit, before) for sender, recipient in parties]
    found = {item.number: item for items, _ in pages for item in items}
    older = sum((Counter(each) for _, each in pages), Counter[str]())
    numbers = sorted(found)
    left = Counter(found[number].sender for number in numbers[:-limit])
    return [found[number] for number in numbers[-limit:]], older + left


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
@message_argument
@json_option
def show(message: str, as_json: bool) -> None:
    """Show MESSAGE (its number or id) in full."""
    item = run_connected(lambda bus: find_mail(bus, message))
    if as_json:
        print_json(item)
        return
    print_facts(
        {
            "from": format_sender(item.sender, item.person),
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


@mail.command(epilog=format_examples('mailroom mail write scout "What is new in SQLite 3.50?" --wait'))
@click.argument("agent", type=AgentName())
@click.argument("text", type=TextType())
@click.option("--subject", default="", metavar="TEXT", help="The subject line.")
@_wait
@timeout_option(300.0)
@json_option
def write(agent: str, text: str, subject: str, wait: bool, timeout: float, as_json: bool) -> None:
    """Write TEXT to AGENT; '-' reads it from standard input.

    An agent with a model works on it and replies in the same thread; one without a model says so.
    """
    email = compose(agent, subject, _resolve(text))
    run_connected(lambda bus: _send(bus, email, wait, timeout, as_json))


@mail.command()
@message_argument
@click.argument("text", type=TextType())
@_wait
@timeout_option(300.0)
@json_option
def reply(message: str, text: str, wait: bool, timeout: float, as_json: bool) -> None:
    """Reply to MESSAGE (its number or id) with TEXT, in its thread."""
    original = run_connected(lambda bus: find_mail(bus, message))
    email = compose_reply(original, _resolve(text))
    run_connected(lambda bus: _send(bus, email, wait, timeout, as_json))


def _resolve(text: str) -> str:
    text, resolved = resolve_text(text)
    print_resolved(resolved)
    return text


async def _send(bus: Bus, email: Email, wait: bool, timeout: float, as_json: bool) -> None:
    if not wait:
        sent = await send(bus, email)
        text = f"Sent as message {sent}. 'mailroom mail list' will show the reply."
        print_result({"id": email.id, "number": sent}, text, as_json)
        return
    answer = await send_and_wait(bus, email, timeout)
    if as_json:
        print_json(answer)
    else:
        print_block(clean_block(answer.body).strip(), open_console())
