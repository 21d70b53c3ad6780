"""``mailroom submit``: submit a goal, and follow it until it ends."""

import asyncio
import re
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

import click
import msgspec

from services.cli.commands.goal_view import print_outcome, show_progress
from services.cli.commands.options import TextType, TimeType, json_option, parse_context
from services.cli.connection import connect, run_connected
from services.cli.output.console import open_console, print_json, print_result, shorten
from services.cli.output.times import format_utc
from services.cli.queries.progress import GoalFollower, Progress
from services.cli.queries.records import read_goal
from shared import subjects
from shared.bus import Bus
from shared.contracts import Goal, TaskPriority, TaskStatus, generate_id, generate_task_id
from shared.errors import BusError, Refused
from shared.tasks.said import names_something, strings_in

GOAL_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
"""The ids that the conductor takes."""
PRIORITIES = [*map(str, TaskPriority), "P0", "P1", "P2", "P3"]


def _require_goal_id(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not GOAL_ID.fullmatch(value):
        raise click.BadParameter("it must be 1 to 80 letters, digits, '_' or '-'", ctx, param)
    return value


@click.command()
@click.argument("text", type=TextType())
@click.option("--wait", is_flag=True, help="Show the progress until the goal ends; exit with 1 if it fails.")
@click.option(
    "-c",
    "--context",
    metavar="KEY=VALUE",
    multiple=True,
    callback=parse_context,
    help="Context for the work, such as repo=PATH. A JSON object or list is decoded, so a number goes into "
    "params='{\"limit\": 3}'. Repeatable.",
)
@click.option(
    "--priority", type=click.Choice(PRIORITIES, case_sensitive=False), help="Priority (default: medium)."
)
@click.option(
    "--deadline", type=TimeType(future=True), help="When it must be done: a span such as 10m, or ISO 8601."
)
@click.option(
    "--id",
    "goal_id",
    metavar="ID",
    callback=_require_goal_id,
    help="An id of your choice: submitting the same again with it begins nothing twice.",
)
@json_option
def submit(
    text: str,
    wait: bool,
    goal_id: str | None,
    context: dict[str, Any],
    priority: str | None,
    deadline: datetime | None,
    as_json: bool,
) -> None:
    """Submit a goal.

    TEXT is the goal in your own words; '-' reads it from standard input.
    """
    body = {
        "text": text,
        "goal_id": goal_id or generate_task_id("goal"),
        "requester": subjects.USER,
        "context": context,
    }
    if priority:
        body["priority"] = TaskPriority(priority)
    if deadline:
        body["deadline"] = format_utc(deadline)
    if wait:
        _print_goal(_submit_and_wait(body, as_json), as_json)
        return
    known = run_connected(lambda bus: _submit_once(bus, body))
    goal_id = str(body["goal_id"])
    said = f"Submitted before; it is {known.status}" if known else f"Submitted as {goal_id}"
    status = str(known.status) if known else "submitted"
    print_result({"goal_id": goal_id, "status": status}, f"{said}\n{_format_hint(goal_id)}", as_json)


def _format_hint(goal_id: str) -> str:
    return f"Follow it: mailroom tail --since 1h --goal {goal_id}\nStatus:    mailroom show {goal_id}"


async def submit_and_follow(bus: Bus, body: dict[str, Any]) -> AsyncGenerator[Progress, None]:
    """Submit a goal; returns its progress until it ends, of which nothing is missed."""
    follower = GoalFollower(bus, str(body["goal_id"]), str(body["text"]))
    await follower.listen()
    known = await _find_known(bus, body)
    return follower.follow(0 if known else await _publish(bus, body))


async def _submit_once(bus: Bus, body: dict[str, Any]) -> Goal | None:
    """Submit a goal, unless it was submitted before under its id: then that goal is returned."""
    known = await _find_known(bus, body)
    if known is None:
        await _publish(bus, body)
    return known


async def _find_known(bus: Bus, body: dict[str, Any]) -> Goal | None:
    """The goal that was submitted before under this id; raises Refused if it is another one.

    If two are submitted at the same moment, the conductor decides.
    """
    found = await read_goal(bus, str(body["goal_id"]))
    if found is None:
        return None
    known = found[0]
    same = all(getattr(known, name) == body[name] for name in ("text", "requester", "context"))
    words = "\n".join([str(body["text"]), *strings_in(body["context"])])
    if not same or (names_something(words) and not known.said):
        raise Refused(
            f"The id {known.goal_id!r} is that of another goal, of {known.requester}: "
            f"{shorten(known.text, 80)!r}",
            "Choose another with --id, or leave that out",
        )
    return known


async def _publish(bus: Bus, body: dict[str, Any]) -> int:
    """Publish a submission; returns its sequence in OFFICE.

    Its message id is random. The goal's id would not do: the server drops a message whose id any other
    message had in the last two minutes, from any sender.
    """
    payload = msgspec.json.encode(body)
    stored = await bus.store(subjects.SUBMIT, payload, headers={"Nats-Msg-Id": generate_id()})
    if stored.get("duplicate"):
        raise BusError("The server took the submission for a repeated message", "Submit it again")
    return int(stored["seq"])


def _submit_and_wait(body: dict[str, Any], as_json: bool) -> Goal:
    try:
        return asyncio.run(_submit_and_watch(body, as_json))
    except KeyboardInterrupt:
        raise SystemExit(1) from None


async def _submit_and_watch(body: dict[str, Any], as_json: bool) -> Goal:
    goal_id = str(body["goal_id"])
    console = open_console(stderr=as_json)
    console.quiet = as_json and not console.is_terminal
    async with connect() as bus:
        changes = await submit_and_follow(bus, body)
        console.print(f"Submitted as {goal_id}", soft_wrap=True)
        try:
            goal = await show_progress(changes, console)
        except asyncio.CancelledError:
            click.echo(f"\nDetached; the goal keeps running.\n{_format_hint(goal_id)}", err=True)
            raise
    assert goal is not None
    return goal


def _print_goal(goal: Goal, as_json: bool) -> None:
    if as_json:
        print_json(goal)
    else:
        print_outcome(goal, open_console())
    if goal.status is not TaskStatus.COMPLETED:
        raise SystemExit(1)
