"""``mailroom tail``: the audit trail as it grows, one line an envelope."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console
from rich.text import Text

from services.cli.commands.options import PastType, json_option
from services.cli.connection import connect
from services.cli.output.console import STYLES, clean, colour, open_console, print_json_line, print_line
from services.cli.output.summaries import Sentence, describe
from services.cli.output.times import format_clock

if TYPE_CHECKING:
    from services.cli.queries.audit_log import Copy, Gap


PATIENCE = 1.0
"""Seconds of silence after which a person is told that the tail waits."""
KIND_STYLES = {
    "dead": "red",
    "given up": "red",
    "unreadable": "red",
    "submission": "bold",
    "report": "bold",
    "answer": "bold",
}
"""How kinds of message look that are neither a state nor a result."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which envelopes to show; what is empty admits all."""

    task: str = ""
    agent: str = ""
    goal: str = ""

    def admits(self, copy: "Copy", sentence: Sentence) -> bool:
        """Whether the envelope is of this task, of this goal, and from or to this agent."""
        if self.task and self.task not in (sentence.task_id, *_ids_of(copy)):
            return False
        if self.goal and self.goal not in (sentence.goal_id, *_ids_of(copy)):
            return False
        return not self.agent or self.agent in (sentence.sender, sentence.recipient)


def _ids_of(copy: "Copy") -> list[str]:
    """The id in the subject of a record, else the id a submission was given."""
    if copy.subject.startswith("state."):
        return copy.subject.split(".")[-1:]
    return [copy.headers.get("Nats-Msg-Id", "")]


@click.command()
@click.option("--task", default="", metavar="ID", help="Only what belongs to this task.")
@click.option("--agent", default="", metavar="NAME", help="Only what this agent wrote or was sent.")
@click.option("--goal", default="", metavar="ID", help="Only what belongs to this goal.")
@click.option(
    "--since",
    type=PastType(),
    metavar="TIME",
    help="Begin with what came since: 10m ago, or an ISO 8601 time.",
)
@click.option("--no-follow", is_flag=True, help="Show what is stored, all of it without --since, and stop.")
@json_option
def tail(task: str, agent: str, goal: str, since: datetime | None, no_follow: bool, as_json: bool) -> None:
    """Show every envelope as the broker stores it.

    One line each: time, who wrote to whom, kind, gist. Ctrl-C ends it.
    """
    wanted = Wanted(task=task, agent=agent, goal=goal)
    try:
        asyncio.run(_tail(wanted, since, no_follow, as_json))
    except KeyboardInterrupt:
        click.echo("", err=True)


async def _tail(wanted: Wanted, since: datetime | None, no_follow: bool, as_json: bool) -> None:
    from services.cli.queries.audit_log import Copy, Tail, read_trail

    console = open_console()
    async with connect() as bus:
        trail: AsyncGenerator[Copy | Gap, None] = (
            read_trail(bus, since) if no_follow else Tail(bus).follow(since)
        )
        async with aclosing(trail) as items:
            shown = 0
            quiet = asyncio.get_running_loop().call_later(PATIENCE, _say_that_it_waits, since)
            async for item in items:
                if isinstance(item, Copy):
                    shown += show(item, wanted, console, as_json)
                else:
                    warn(item)
                if shown or no_follow:
                    quiet.cancel()
            quiet.cancel()
    if not shown:
        click.echo("Nothing that fits is stored.", err=True)


def _say_that_it_waits(since: datetime | None) -> None:
    earlier = "" if since else "; --since 1h shows earlier ones"
    click.echo(f"Waiting for an envelope that fits{earlier}. Ctrl-C ends it.", err=True)


def show(copy: "Copy", wanted: Wanted, console: Console, as_json: bool) -> bool:
    """Print an envelope, as a line for people or as JSON; whether it was wanted, and so printed."""
    sentence = describe(copy.subject, copy.data)
    if not wanted.admits(copy, sentence):
        return False
    if as_json:
        print_json_line(line_of(copy, sentence))
    else:
        print_line(_render(copy, sentence), console)
    return True


def line_of(copy: "Copy", sentence: Sentence) -> dict[str, object]:
    """The line as data."""
    described = msgspec.structs.asdict(sentence)
    return {
        "seq": copy.source_seq,
        "stream": copy.source,
        "time": copy.time,
        "subject": copy.subject,
        **described,
    }


def _render(copy: "Copy", sentence: Sentence) -> Text:
    style = STYLES.get(sentence.status) or KIND_STYLES.get(sentence.kind, "")
    return Text.assemble(
        (format_clock(copy.time), "dim"),
        " ",
        (f"{clean(sentence.who):<22}", "bold"),
        f" {sentence.kind:<10} ",
        (sentence.text, style),
    )


def warn(gap: "Gap") -> None:
    """Say that something was not heard live."""
    missed = gap.last - gap.first + 1
    text = f"-- {missed} messages ({gap.audit} {gap.first} to {gap.last}) were missed live; read now:"
    click.echo(colour(text, "yellow"), err=True)
