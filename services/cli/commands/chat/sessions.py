"""``mailroom sessions``: the conversations with the front desk, and how a command names one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import click
from rich.text import Text

from services.cli.commands.completion import SessionName
from services.cli.commands.options import combine, json_option
from services.cli.connection import run_connected
from services.cli.output.console import open_console, print_json, print_line, shorten
from shared.bus import Bus
from shared.clock import parse_timestamp
from shared.contracts import Conversation, generate_id
from shared.contracts.base import TOKEN
from shared.errors import NotFound
from shared.queries.office import list_conversations
from shared.text.display import count
from shared.text.times import format_span, seconds_between

RECENT = timedelta(hours=8)  # How long 'mailroom chat' goes on with the last conversation: a day at work

MIN_TITLE = 20  # The characters that are shown of how a session began, however narrow the terminal is

session_options = combine(
    click.option("--session", type=SessionName(), default="", metavar="ID", help="Go on with this session."),
    click.option("--continue", "latest", is_flag=True, help="Go on with the latest session."),
)


def make_session() -> str:
    """The id of a new session."""
    return f"chat-{generate_id().replace('-', '')[-12:]}"


async def choose_session(bus: Bus, name: str, *, latest: bool = False, recent: bool = False) -> str:
    """The id of the session ``name``, or of the ``latest``, of a ``recent`` one if there is; else a new one.

    Raises NotFound if there is none to go on with.
    """
    if not (name or latest or recent):
        return make_session()
    known = await list_conversations(bus)
    if name:
        return find_session(known, name).session_id
    last = next(iter(known), None)
    if last is not None and (latest or datetime.now(UTC) - parse_timestamp(last.created_at) < RECENT):
        return last.session_id
    if latest:
        raise NotFound("There is no session to go on with", "Begin one: mailroom chat")
    return make_session()


def find_session(known: list[Conversation], name: str) -> Conversation:
    """The session of an id, or of the beginning or end of one; raises NotFound."""
    same = [each for each in known if each.session_id == name]
    near = same or [
        each for each in known if each.session_id.startswith(name) or each.session_id.endswith(name)
    ]
    if len(near) == 1 and TOKEN.fullmatch(name):
        return near[0]
    what = f"{len(near)} sessions match {name[:60]!r}" if near else f"There is no session {name[:60]!r}"
    raise NotFound(what, "'mailroom sessions' lists them")


@click.command()
@json_option
def sessions(as_json: bool) -> None:
    """List the conversations with the front desk, the latest first.

    'mailroom chat --session ID' goes on with one, in the dashboard it is under Chat. One can be gone on
    with for 30 days.
    """
    found = run_connected(list_conversations)
    if as_json:
        print_json([describe_session(each) for each in found])
        return
    print_sessions(found)


def print_sessions(found: list[Conversation]) -> None:
    """Print sessions, one in each line; ids are never cut."""
    if not found:
        click.echo("There are no sessions. Begin one: mailroom chat")
        return
    rows = [
        (
            each.session_id,
            f"{format_span(seconds_between(each.created_at))} ago",
            count(each.questions, "message"),
            each.owner,
        )
        for each in found
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    console = open_console()
    for row, each in zip(rows, found, strict=True):
        lead = "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True) if width)
        room = max(MIN_TITLE, console.width - len(lead) - 2)
        print_line(Text(f"{lead}  {shorten(each.title, room)}"), console)


def describe_session(conversation: Conversation) -> dict[str, Any]:
    """A session as JSON has it."""
    last = conversation.turns[-1] if conversation.turns else None
    return {
        "session_id": conversation.session_id,
        "title": conversation.title,
        "person": conversation.owner,
        "begun_at": conversation.begun_at,
        "last_at": conversation.created_at,
        "questions": conversation.questions,
        "last_answer": last.answer if last else "",
    }
