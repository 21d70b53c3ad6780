"""``mailroom tasks`` and ``mailroom cancel``: the goals of the office and their tasks."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from services.cli.commands.options import json_option
from services.cli.connection import connect
from services.cli.output.console import SIGNS, STYLES, clean, open_console, print_json, print_line, shorten
from services.cli.output.times import format_span, parse_time, seconds_between
from shared import subjects
from shared.contracts import TOKEN, CancelGoal, Goal, GoalTask
from shared.errors import MailroomError

if TYPE_CHECKING:
    from shared.bus import Bus


RECENT = timedelta(hours=24)
"""Goals that ended longer ago are shown with --all only."""
CANCEL_PATIENCE = 10.0
"""Seconds the conductor is given to end a goal before the command says that it will."""


@click.command()
@click.option("--all", "everything", is_flag=True, help="Goals that ended more than a day ago too.")
@json_option
def tasks(everything: bool, as_json: bool) -> None:
    """List the goals and their tasks, the latest last."""
    goals = asyncio.run(_read_goals())
    shown = goals if everything else [goal for goal in goals if _is_current(goal)]
    if as_json:
        print_json(shown)
        return
    console = open_console()
    for goal in shown:
        _print_goal(goal, console)
    hidden = len(goals) - len(shown)
    if hidden:
        click.echo(f"{hidden} goals ended more than a day ago: mailroom tasks --all")
    elif not shown:
        click.echo('There is no goal yet. Give the office one: mailroom submit "..."')


async def _read_goals() -> list[Goal]:
    from services.cli.queries.records import read_goals

    async with connect() as bus:
        return await read_goals(bus)


def _is_current(goal: Goal) -> bool:
    return not goal.ended_at or parse_time(goal.ended_at) > datetime.now(UTC) - RECENT


def _print_goal(goal: Goal, console: Console) -> None:
    status = str(goal.status)
    took = format_span(seconds_between(goal.submitted_at, goal.ended_at))
    head = Text.assemble(
        (goal.goal_id, "bold"), "  ", (f"{SIGNS[status]} {status}", STYLES[status]), f"  {took}"
    )
    console.print(head, soft_wrap=True)
    print_line(Text(f"  {clean(goal.text)}"), console)
    for task in goal.tasks:
        print_line(_task_line(task), console)
    if goal.reason:
        print_line(Text(f"  {clean(goal.reason)}", style="dim"), console)
    console.print()


def _task_line(task: GoalTask) -> Text:
    status = str(task.status)
    took = format_span(seconds_between(task.started_at, task.ended_at)) if task.started_at else ""
    return Text.assemble(
        (f"    {SIGNS[status]} {shorten(task.name, 18):<18}", STYLES[status]),
        f" {shorten(task.assignee, 10):<10} {took:>7}  ",
        (clean(task.summary), "dim"),
    )


@click.command()
@click.argument("goal_id", metavar="ID")
@click.option("--reason", default="", help="Why; it is written into the goal's record.")
@json_option
def cancel(goal_id: str, reason: str, as_json: bool) -> None:
    """End the goal ID and every task of it that is still open."""
    goal = asyncio.run(_cancel(goal_id, reason))
    if as_json:
        print_json({"goal_id": goal_id, "status": goal.status, "reason": goal.reason})
    elif goal.status.final:
        click.echo(f"{goal_id} ended: {goal.status}")
    else:
        click.echo(f"The conductor has the request, and has not acted on it yet: mailroom show {goal_id}")


async def _cancel(goal_id: str, reason: str) -> Goal:
    async with connect() as bus:
        goal = await _find_open(bus, goal_id)
        request = CancelGoal(
            sender=subjects.USER,
            recipient=subjects.CONDUCTOR,
            goal_id=goal_id,
            reason=reason or "a person asked for it",
        )
        letter = subjects.mail(subjects.CONDUCTOR, subjects.USER)
        await bus.store(letter, request.to_json(), headers={"Nats-Msg-Id": request.id})
        return await _await_end(bus, goal)


async def _find_open(bus: "Bus", goal_id: str) -> Goal:
    from services.cli.queries.records import read_goal

    found = await read_goal(bus, goal_id) if TOKEN.fullmatch(goal_id) else None
    if found is None:
        raise MailroomError(f"There is no goal {goal_id[:130]!r}", "'mailroom tasks' lists them")
    if found[0].status.final:
        raise MailroomError(f"The goal {goal_id} has ended already: {found[0].status}")
    return found[0]


async def _await_end(bus: "Bus", goal: Goal) -> Goal:
    """The goal as it ended, or as it stands when the conductor takes its time."""
    from services.cli.queries.progress import Follower

    follower = Follower(bus, goal.goal_id)
    await follower.listen()
    try:
        async with asyncio.timeout(CANCEL_PATIENCE):
            async for progress in follower.follow():
                goal = progress.goal or goal
    except TimeoutError:
        pass
    return goal
