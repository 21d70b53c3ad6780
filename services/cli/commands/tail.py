"""``mailroom tail``: following the log."""

import asyncio
import contextlib
import os
import select
import signal
import stat
from collections.abc import Coroutine
from contextlib import aclosing
from datetime import datetime
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from services.cli.commands.completion import AgentName, GoalName
from services.cli.commands.options import format_examples, json_option, since_option
from services.cli.connection import connect
from services.cli.output.console import (
    colour,
    open_console,
    print_json_line,
    print_line,
    status_style,
)
from shared.bus import Stored
from shared.queries.audit_log import AuditFollower, Gap, read_audit_log
from shared.queries.records import read_goal
from shared.queries.results import expand_goal_id
from shared.queries.summaries import summarize
from shared.text.display import clean
from shared.text.times import format_clock
from shared.views.timeline import MessageSummary

NOTICE_AFTER = 1.0  # Seconds without a message after which a notice says that the command waits
WATCHED = 0.5  # Seconds between two looks at whether a pipe was closed
NARROW = 110  # Columns below which a text that does not fit beside its sender has a line of its own
KIND_STYLES = {
    "dead": "red",
    "given up": "red",
    "unreadable": "red",
    "submission": "bold",
    "report": "bold",
    "answer": "bold",
}
"""The styles of kinds that have no status."""


class MessageFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages to print; an empty field matches all."""

    task: str = ""
    agent: str = ""
    goal: str = ""

    def matches(self, stored: Stored, summary: MessageSummary) -> bool:
        """Whether the message belongs to the task and the goal, and is from or to the agent."""
        if self.task and self.task not in (summary.task_id, *_ids_of(stored)):
            return False
        if self.goal and self.goal not in (summary.goal_id, *_ids_of(stored)):
            return False
        return not self.agent or self.agent in (summary.sender, summary.recipient)


def _ids_of(stored: Stored) -> list[str]:
    """The id in the subject of a record, else the message id, which a submission takes from its goal."""
    match stored.subject.split("."):
        case ["task", _, _, name, _] | ["state", _, name]:
            return [name]
    return [stored.headers.get("Nats-Msg-Id", "")]


@click.command(epilog=format_examples("mailroom tail --since 1h", "mailroom tail --goal last --no-follow"))
@click.option("--task", default="", metavar="ID", help="Only messages of this task.")
@click.option(
    "--agent", type=AgentName(), default="", metavar="NAME", help="Only messages from or to this agent."
)
@click.option("--goal", type=GoalName(), default="", metavar="ID", help="Only messages of this goal.")
@since_option
@click.option("--no-follow", is_flag=True, help="Print stored messages (all without --since), and exit.")
@json_option
def tail(task: str, agent: str, goal: str, since: datetime | None, no_follow: bool, as_json: bool) -> None:
    """Follow all messages as they are stored.

    A line each: time, sender, recipient, kind, text. Ctrl-C ends it, and so does the end of the program that
    it writes to, or whose pipe it has as input.
    """
    message_filter = MessageFilter(task=task, agent=agent, goal=goal)
    try:
        asyncio.run(_until_abandoned(_tail(message_filter, since, no_follow, as_json)))
    except KeyboardInterrupt:
        click.echo("", err=True)


async def _until_abandoned(work: Coroutine[Any, Any, None]) -> None:
    """Do ``work`` until SIGTERM, or until a pipe of standard input or output is closed at its other end.

    As the first process of a container it would ignore SIGTERM otherwise. The client of a container may be
    killed and tell it nothing: that its pipes are closed is all that is seen of it inside.
    """
    loop, working = asyncio.get_running_loop(), asyncio.ensure_future(work)
    loop.add_signal_handler(signal.SIGTERM, working.cancel)
    watching = asyncio.create_task(_wait_until_closed())
    try:
        await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (watching, working):
            task.cancel()
        await asyncio.wait({working, watching})
    if not working.cancelled():
        working.result()


async def _wait_until_closed() -> None:
    """Return when one of the pipes that are open now is closed; never, if there is none."""
    pipes = select.poll()
    for stream in (0, 1):
        with contextlib.suppress(OSError):
            if not stat.S_ISCHR(os.fstat(stream).st_mode):
                alone = select.poll()
                alone.register(stream, 0)
                if not alone.poll(0):
                    pipes.register(stream, 0)
    while True:
        if pipes.poll(0):
            return
        await asyncio.sleep(WATCHED)


async def _tail(
    message_filter: MessageFilter, since: datetime | None, no_follow: bool, as_json: bool
) -> None:
    console = open_console()
    async with connect() as bus:
        goal = await expand_goal_id(bus, message_filter.goal) if message_filter.goal else ""
        message_filter = msgspec.structs.replace(message_filter, goal=goal)
        unknown = goal if goal and await read_goal(bus, goal) is None else ""
        messages = read_audit_log(bus, since) if no_follow else AuditFollower(bus).follow(since)
        async with aclosing(messages) as items:
            shown = 0
            notice = asyncio.get_running_loop().call_later(NOTICE_AFTER, _print_waiting, since, unknown)
            async for item in items:
                if isinstance(item, Gap):
                    print_gap(item)
                else:
                    shown += print_message(item, message_filter, console, as_json)
                if shown or no_follow:
                    notice.cancel()
            notice.cancel()
    if not shown:
        click.echo("No matching messages.", err=True)


def _print_waiting(since: datetime | None, unknown: str) -> None:
    """Say that the command waits; ``unknown`` is the id of a goal that there is no record of."""
    if unknown:
        click.echo(f"There is no goal {unknown!r} yet; 'mailroom tasks --all' lists all goals.", err=True)
    earlier = "" if since else "; --since 1h shows earlier ones"
    click.echo(f"Waiting for matching messages{earlier}. Ctrl-C ends it.", err=True)


def print_message(stored: Stored, message_filter: MessageFilter, console: Console, as_json: bool) -> bool:
    """Print a message as a line of text or JSON, if it matches; returns whether it does."""
    summary = summarize(stored.subject, stored.data)
    if not message_filter.matches(stored, summary):
        return False
    if as_json:
        place = {"seq": stored.seq, "stream": stored.stream, "time": stored.time, "subject": stored.subject}
        print_json_line({**place, **msgspec.structs.asdict(summary)})
        return True
    style = status_style(summary.status) or KIND_STYLES.get(summary.kind, "")
    head = Text.assemble(
        (format_clock(stored.time), "dim"),
        " ",
        (f"{clean(summary.parties):<22}", "bold"),
        f" {summary.kind:<10} ",
    )
    text = Text(summary.text, style)
    if console.is_terminal and console.width < NARROW and head.cell_len + text.cell_len > console.width:
        print_line(head, console)
        print_line(Text("    ") + text, console)
    else:
        print_line(head + text, console)
    return True


def print_gap(gap: Gap) -> None:
    """Print a warning about messages that were not received live."""
    missed = gap.last - gap.first + 1
    text = f"-- {missed} messages ({gap.stream} {gap.first} to {gap.last}) were missed live; read now:"
    click.echo(colour(text, "yellow"), err=True)
