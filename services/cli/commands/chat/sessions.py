"""``mailroom sessions``: the conversations with the front desk, as a list."""

import click
import msgspec
from rich.text import Text

from services.cli.commands.chat.answering import list_sessions
from services.cli.commands.completion import SessionName
from services.cli.commands.options import combine, json_option
from services.cli.output.console import open_console, print_json, print_line, shorten
from shared.text.display import count
from shared.text.times import format_span, seconds_between
from shared.views.desk import SessionSummary

MIN_TITLE = 20  # The characters that are shown of how a session began, however narrow the terminal is

session_options = combine(
    click.option("--session", type=SessionName(), default="", metavar="ID", help="Go on with this session."),
    click.option("--continue", "latest", is_flag=True, help="Go on with the latest session."),
)


@click.command()
@json_option
def sessions(as_json: bool) -> None:
    """List the conversations with the front desk, the latest first.

    'mailroom chat --session ID' goes on with one, in the dashboard it is under Chat. One can be gone on
    with for 30 days.
    """
    found = list_sessions()
    if as_json:
        shown = [msgspec.to_builtins(each) for each in found]
        print_json([{name: each[name] for name in each if name != "next"} for each in shown])
        return
    print_sessions(found)


def print_sessions(found: list[SessionSummary]) -> None:
    """Print sessions, one in each line; ids are never cut."""
    if not found:
        click.echo("There are no sessions. Begin one: mailroom chat")
        return
    rows = [
        (
            each.session_id,
            f"{format_span(seconds_between(each.last_at))} ago",
            count(each.questions, "message"),
            each.person,
        )
        for each in found
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    console = open_console()
    for row, each in zip(rows, found, strict=True):
        lead = "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True) if width)
        room = max(MIN_TITLE, console.width - len(lead) - 2)
        print_line(Text(f"{lead}  {shorten(each.title, room)}"), console)
