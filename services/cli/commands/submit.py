"""``mailroom submit``: give the office a goal, and watch it being done."""

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from services.cli.commands.options import FutureType, TextType, json_option, parse_context
from services.cli.connection import connect
from services.cli.output.console import open_console, print_json
from services.cli.output.times import to_wire
from shared import subjects
from shared.contracts import TaskPriority, TaskStatus, generate_task_id

if TYPE_CHECKING:
    from shared.bus import Bus
    from shared.contracts import Goal


PRIORITIES = [*map(str, TaskPriority), "P0", "P1", "P2", "P3"]


@click.command()
@click.argument("text", type=TextType())
@click.option("--wait", is_flag=True, help="Show what happens until it is done; exit with 1 if it fails.")
@click.option(
    "-c",
    "--context",
    metavar="KEY=VALUE",
    multiple=True,
    callback=parse_context,
    help="Something the work needs to know, such as repo=PATH; an object or a list in JSON is taken as such.",
)
@click.option(
    "--priority",
    type=click.Choice(PRIORITIES, case_sensitive=False),
    help="How urgent it is (default MEDIUM).",
)
@click.option(
    "--deadline", type=FutureType(), help="When it must be done: 10m from now, or an ISO 8601 time."
)
@json_option
def submit(
    text: str,
    wait: bool,
    context: dict[str, Any],
    priority: str | None,
    deadline: datetime | None,
    as_json: bool,
) -> None:
    """Give the office a goal.

    TEXT says what is wanted; '-' reads it from standard input.
    """
    body = {"text": text, "goal_id": generate_task_id("goal"), "requester": subjects.USER, "context": context}
    if priority:
        body["priority"] = TaskPriority(priority)
    if deadline:
        body["deadline"] = to_wire(deadline)
    if wait:
        _report(_wait_for(body, as_json), as_json)
    else:
        asyncio.run(_submit(body))
        _confirm(str(body["goal_id"]), as_json)


def _confirm(goal_id: str, as_json: bool) -> None:
    if as_json:
        print_json({"goal_id": goal_id, "status": "submitted"})
        return
    click.echo(f"Submitted as {goal_id}\n{follow_hint(goal_id)}")


def follow_hint(goal_id: str) -> str:
    """How to see what becomes of a goal."""
    return f"Watch it:      mailroom tail --since 1h --goal {goal_id}\nHow it stands: mailroom show {goal_id}"


async def _submit(body: dict[str, Any]) -> int:
    async with connect() as bus:
        return await publish(bus, body)


async def publish(bus: "Bus", body: dict[str, Any]) -> int:
    """Publish a submission; returns its sequence in OFFICE."""
    payload = msgspec.json.encode(body)
    stored = await bus.store(subjects.SUBMIT, payload, headers={"Nats-Msg-Id": str(body["goal_id"])})
    return int(stored["seq"])


def _wait_for(body: dict[str, Any], as_json: bool) -> "Goal":
    try:
        return asyncio.run(_submit_and_watch(body, as_json))
    except KeyboardInterrupt:
        raise SystemExit(1) from None


async def _submit_and_watch(body: dict[str, Any], as_json: bool) -> "Goal":
    from services.cli.commands.goal_view import watch
    from services.cli.queries.progress import Follower

    goal_id = str(body["goal_id"])
    console = open_console(stderr=as_json)
    console.quiet = as_json and not console.is_terminal
    async with connect() as bus:
        follower = Follower(bus, goal_id)
        await follower.listen()
        submitted = await publish(bus, body)
        console.print(f"Submitted as {goal_id}", soft_wrap=True)
        try:
            goal = await watch(follower.follow(submitted), console)
        except asyncio.CancelledError:
            click.echo(f"\nThe goal goes on without you.\n{follow_hint(goal_id)}", err=True)
            raise
    assert goal is not None
    return goal


def _report(goal: "Goal", as_json: bool) -> None:
    from services.cli.commands.goal_view import print_outcome

    if as_json:
        print_json(goal)
    else:
        print_outcome(goal, open_console())
    if goal.status is not TaskStatus.COMPLETED:
        raise SystemExit(1)
