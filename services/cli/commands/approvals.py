"""``mailroom approvals``: what agents may not do without a person's word, and that word."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from services.cli.commands.options import json_option
from services.cli.connection import connect
from services.cli.output.console import clean, open_console, print_block, print_json, print_line
from services.cli.output.times import format_span, parse_time, seconds_between
from shared import subjects

if TYPE_CHECKING:
    from services.cli.queries.approvals import Standing
    from shared.contracts import ApprovalRequest


STYLES = {"waiting": "yellow", "granted": "green", "refused": "red", "expired": "dim", "over": "dim"}
NOTE = click.option("--note", default="", help="A word to the agent; it is kept with the answer.")


@click.group()
def approvals() -> None:
    """Allow what agents may not do without a person, or refuse it.

    What nobody answers in time is refused. A grant holds for the very same thing in the same goal, and no
    further. Any NATS client with the key of 'user' can answer too:

    \b
      nats pub approval.AGENT.answered.ID \\
        '{"type": "approval_answer.v1", "approval_id": "ID", "granted": true}'
    """  # noqa: D301 - click reads the backspace as "keep these lines"


@approvals.command(name="list")
@click.option("--all", "everything", is_flag=True, help="What was answered, has expired or is over too.")
@json_option
def list_approvals(everything: bool, as_json: bool) -> None:
    """List what waits for an answer, the latest last."""
    found = [one for one in asyncio.run(_read()) if everything or one.state == "waiting"]
    if as_json:
        print_json([one.to_dict() for one in found])
        return
    if not found:
        click.echo("There is nothing yet." if everything else "Nothing waits for approval.")
        return
    console = open_console()
    for one in found:
        _print(one, console)
    if any(one.state == "waiting" for one in found):
        click.echo("mailroom approvals grant|refuse ID")


async def _read() -> "list[Standing]":
    from services.cli.queries.approvals import read_standings

    async with connect() as bus:
        return await read_standings(bus)


def _print(one: "Standing", console: Console) -> None:
    request = one.request
    when = f"{format_span(seconds_between(request.created_at))} ago"
    if one.state == "waiting":
        left = (parse_time(request.expires_at) - datetime.now(UTC)).total_seconds()
        when += f", {format_span(max(left, 0.0))} left"
    head = Text.assemble(
        (request.approval_id[:12], "bold"),
        "  ",
        (one.state, STYLES[one.state]),
        f"  {request.sender}  {when}",
    )
    print_line(head, console)
    # All of it, and nothing hidden in it: this is what is being allowed.
    console.print(Padding(visible(request.what), (0, 0, 0, 4), expand=False))
    if request.why or request.rule:
        reason = f"{clean(request.rule)}: {clean(request.why)}".strip(": ")
        print_block(f"{'':4}{reason}", console, hang=4)
    if one.answer is not None and one.answer.note:
        console.print(Padding(f"Note: {clean(one.answer.note)}", (0, 0, 0, 4), expand=False))
    if request.goal_id:
        console.print(
            Padding(Text(f"goal {clean(request.goal_id)}", style="dim"), (0, 0, 0, 4), expand=False)
        )
    console.print()


def visible(text: str) -> str:
    """``text`` with its lines; what a terminal would act on or not show stands there as its number."""
    shown = (each if each.isprintable() or each == "\n" else f"\\u{{{ord(each):x}}}" for each in text)
    return "".join(shown)


@approvals.command()
@click.argument("approval_id", metavar="ID")
@NOTE
@json_option
def grant(approval_id: str, note: str, as_json: bool) -> None:
    """Allow what ID asks for, in its goal.

    ID may be cut short as long as it is the only one that begins so.
    """
    _answer(approval_id, True, note, as_json)


@approvals.command()
@click.argument("approval_id", metavar="ID")
@NOTE
@json_option
def refuse(approval_id: str, note: str, as_json: bool) -> None:
    """Refuse what ID asks for, in its goal.

    ID may be cut short as long as it is the only one that begins so.
    """
    _answer(approval_id, False, note, as_json)


def _answer(approval_id: str, granted: bool, note: str, as_json: bool) -> None:
    request = asyncio.run(_send(approval_id, granted, note))
    word = "granted" if granted else "refused"
    if as_json:
        print_json({"approval_id": request.approval_id, "agent": request.sender, "state": word, "note": note})
        return
    may = "may" if granted else "may not"
    click.echo(f"{request.approval_id[:12]} {word}: {request.sender} {may} {clean(request.what)[:500]}")


async def _send(approval_id: str, granted: bool, note: str) -> "ApprovalRequest":
    from services.cli.queries.approvals import answer

    async with connect(subjects.USER) as bus:
        return await answer(bus, approval_id, granted, note)
