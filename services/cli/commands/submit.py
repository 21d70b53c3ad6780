"""``mailroom submit``: submit a goal, and follow it until it ends."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime
from typing import Any

import click
import msgspec

from services.cli.commands.goal_view import print_outcome, show_progress
from services.cli.commands.options import TextType, TimeType, json_option, parse_context
from services.cli.connection import connect, run_connected
from services.cli.output.console import open_console, print_json, print_result
from services.cli.output.times import format_utc
from services.cli.queries.progress import GoalFollower, Progress
from shared import subjects
from shared.bus import Bus
from shared.contracts import Goal, TaskPriority, TaskStatus, generate_task_id

PRIORITIES = [*map(str, TaskPriority), "P0", "P1", "P2", "P3"]


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
@json_option
def submit(
    text: str,
    wait: bool,
    context: dict[str, Any],
    priority: str | None,
    deadline: datetime | None,
    as_json: bool,
) -> None:
    """Submit a goal.

    TEXT is the goal in your own words; '-' reads it from standard input.
    """
    body = {"text": text, "goal_id": generate_task_id("goal"), "requester": subjects.USER, "context": context}
    if priority:
        body["priority"] = TaskPriority(priority)
    if deadline:
        body["deadline"] = format_utc(deadline)
    if wait:
        _print_goal(_submit_and_wait(body, as_json), as_json)
        return
    run_connected(lambda bus: _publish(bus, body))
    goal_id = str(body["goal_id"])
    text = f"Submitted as {goal_id}\n{_format_hint(goal_id)}"
    print_result({"goal_id": goal_id, "status": "submitted"}, text, as_json)


def _format_hint(goal_id: str) -> str:
    return f"Follow it: mailroom tail --since 1h --goal {goal_id}\nStatus:    mailroom show {goal_id}"


async def submit_and_follow(bus: Bus, body: dict[str, Any]) -> AsyncGenerator[Progress, None]:
    """Submit a goal; returns its progress until it ends, of which nothing is missed."""
    follower = GoalFollower(bus, str(body["goal_id"]))
    await follower.listen()
    return follower.follow(await _publish(bus, body))


async def _publish(bus: Bus, body: dict[str, Any]) -> int:
    """Publish a submission; returns its sequence in OFFICE."""
    payload = msgspec.json.encode(body)
    stored = await bus.store(subjects.SUBMIT, payload, headers={"Nats-Msg-Id": str(body["goal_id"])})
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
