"""``mailroom mail``: messages of people and agents: list, show, write, reply."""

import time

import click
from rich.console import Console
from rich.text import Text

from services.cli import api
from services.cli.commands.completion import AgentName
from services.cli.commands.options import (
    NumberType,
    TextType,
    format_examples,
    json_option,
    print_resolved,
    resolve_text,
    timeout_option,
)
from services.cli.output.console import (
    open_console,
    print_block,
    print_facts,
    print_json,
    print_line,
    print_result,
    shorten,
)
from shared import settings, subjects
from shared.errors import BusUnavailable
from shared.text.display import clean, clean_block
from shared.text.times import format_date, format_span, seconds_between
from shared.views.listed import Mail, MailList, NewLetter, SentLetter
from shared.views.timeline import format_sender

WAIT = 30.0  # The most seconds for which one request waits for a reply

message_argument = click.argument("message", metavar="MESSAGE")


@click.group()
def mail() -> None:
    """Read mail, write to an agent, and reply."""


@mail.command(name="list")
@click.option("--from", "sender", type=AgentName(), default="", metavar="NAME", help="Only mail from NAME.")
@click.option("--to", "recipient", type=AgentName(), default="", metavar="NAME", help="Only mail to NAME.")
@click.option("--thread", default="", metavar="ID", help="Only the thread of this message (number or id).")
@click.option("--contains", default="", metavar="TEXT", help="Only mail with this text, ignoring case.")
@click.option("--about", default="", metavar="TEXT", help="Only mail about this, by its words or in meaning.")
@click.option(
    "--before", type=NumberType(0), default=0, metavar="NUMBER", help="Only mail before this message."
)
@click.option("--limit", type=NumberType(1, 1_000), default=30, show_default=True, help="The most to list.")
@json_option
def list_mail(
    sender: str,
    recipient: str,
    thread: str,
    contains: str,
    about: str,
    before: int,
    limit: int,
    as_json: bool,
) -> None:
    """List messages, reports and answers, latest last.

    With --about the best come first. Without options, only those from and to you. --thread and --contains
    search 10,000 messages at a time.
    """
    query: api.Query = {
        "sender": sender,
        "recipient": recipient,
        "thread": thread,
        "contains": contains,
        "about": about,
        "before": before,
        "limit": limit,
    }
    page = api.get("/mail", MailList, query)
    if as_json:
        print_json(page.mail)
    elif page.mail:
        _print_list(page.mail, open_console())
    else:
        click.echo("No matching mail.")
    if page.older:
        who = ", ".join(f"{number:,} of {name}" for name, number in sorted(page.older.items()))
        click.echo(f"Older mail: {who}. --limit lists more, --from that of one agent", err=as_json)
    elif page.next:
        click.echo(f"There is older mail: --before {page.next} searches it", err=as_json)
    elif page.away:
        folders = ", ".join(dict.fromkeys(clean(part.folder) for part in page.away))
        until = format_date(page.away[-1].until)
        click.echo(f"Mail before {until} is in the archive ({folders})", err=as_json)


def _print_list(items: list[Mail], console: Console) -> None:
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
    item = _read(message)
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
    _send(NewLetter(to=agent, subject=subject, body=_resolve(text)), agent, wait, timeout, as_json)


@mail.command()
@message_argument
@click.argument("text", type=TextType())
@_wait
@timeout_option(300.0)
@json_option
def reply(message: str, text: str, wait: bool, timeout: float, as_json: bool) -> None:
    """Reply to MESSAGE (its number or id) with TEXT, in its thread."""
    original = _read(message)
    other = original.recipient if original.sender == subjects.USER else original.sender
    _send(NewLetter(reply_to=original.number, body=_resolve(text)), other, wait, timeout, as_json)


def _read(message: str) -> Mail:
    return api.get(f"/mail/{api.segment(message)}", Mail)


def _resolve(text: str) -> str:
    """The text with paths as the agents know them; raises MailroomError if they have not got them."""
    text, resolved = resolve_text(text)
    for path in resolved.values():
        api.require_here(settings.load(), path, "Write what it holds, or name a path there")
    print_resolved(resolved)
    return text


def _send(letter: NewLetter, who: str, wait: bool, timeout: float, as_json: bool) -> None:
    """Send a letter, and if wanted wait for the reply; raises BusUnavailable after ``timeout`` seconds."""
    until = time.monotonic() + timeout
    sent = api.post("/mail", SentLetter, letter)
    if not wait:
        text = f"Sent as message {sent.number}. 'mailroom mail list' will show the reply."
        print_result(sent, text, as_json)
        return
    while True:
        left = max(0.0, until - time.monotonic())
        query = {"wait": f"{min(left, WAIT):.3f}"}
        replies = api.get(f"/mail/{sent.number}/replies", MailList, query).mail
        if replies:
            break
        if not left:
            raise BusUnavailable(
                f"{who} did not answer within {timeout:g} s; it may still",
                "Check later with 'mailroom mail list'",
            )
    if as_json:
        print_json(replies[0])
    else:
        print_block(clean_block(replies[0].body).strip(), open_console())
