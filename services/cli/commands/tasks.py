"""``mailroom tasks`` and ``mailroom cancel``: goals and their tasks."""

from datetime import UTC, datetime, timedelta

import click
import msgspec
from rich.console import Console
from rich.text import Text

from services.cli import api
from services.cli.commands.completion import GoalName
from services.cli.commands.options import json_option, limit_option
from services.cli.output.console import (
    format_end,
    open_console,
    print_json,
    print_line,
    print_more,
    print_result,
    print_wrapped,
    shorten,
)
from services.cli.output.outcomes import format_headline
from shared.contracts import Goal, GoalTask
from shared.text.display import count
from shared.text.times import format_span, parse_time, seconds_between
from shared.views.listed import LatestGoals

RECENT = timedelta(hours=24)  # Goals that ended longer ago are listed with --all only
MAX_REASON = 2_000  # The most characters of a reason that the gateway takes
MAX_LINE = 200
"""The most characters of a text, also where no terminal cuts the line; ``mailroom show`` has all of it."""


@click.command()
@click.option("--all", "everything", is_flag=True, help="Include goals that ended more than a day ago.")
@limit_option
@json_option
def tasks(everything: bool, limit: int, as_json: bool) -> None:
    """List goals and their tasks, latest last.

    Of many, those that are open and those that changed last.
    """
    found = api.get("/latest-goals", LatestGoals, {"limit": limit})
    goals, others = found.goals, found.others
    shown = goals if everything else [goal for goal in goals if _is_current(goal)]
    hidden = len(goals) - len(shown)
    if as_json:
        print_json(shown)
    else:
        console = open_console()
        for goal in shown:
            _print_goal(goal, console)
    if hidden:  # those of the page changed last, so that others ended before
        ended = count(hidden + others, "goal")
        click.echo(f"{ended} ended more than a day ago: mailroom tasks --all", err=as_json)
    else:
        print_more(others, as_json=as_json)
    if not goals and not as_json:
        click.echo('There is no goal yet. Submit one: mailroom submit "..."')


def _is_current(goal: Goal) -> bool:
    return not goal.ended_at or parse_time(goal.ended_at) > datetime.now(UTC) - RECENT


def _print_goal(goal: Goal, console: Console) -> None:
    head = Text.assemble((goal.goal_id, "bold"), "  ", format_headline(goal))
    print_wrapped(head, console)
    print_line(Text(f"  {shorten(goal.text, MAX_LINE)}"), console)
    for task in goal.tasks:
        print_line(_format_task(task), console)
    if goal.reason:
        print_line(Text(f"  {shorten(goal.reason, MAX_LINE)}", style="dim"), console)
    console.print()


def _format_task(task: GoalTask) -> Text:
    took = format_span(seconds_between(task.started_at, task.ended_at)) if task.started_at else ""
    return Text.assemble(
        "    ",
        format_end(str(task.status), task.outcome, f"{shorten(task.name, 18):<18}"),
        f" {shorten(task.assignee, 10):<10} {took:>7}  ",
        (shorten(task.summary, MAX_LINE), "dim"),
    )


class _Cancelled(msgspec.Struct, frozen=True):
    goal_id: str
    status: str
    state: str
    summary: str


@click.command()
@click.argument("goal_id", metavar="ID", type=GoalName())
@click.option("--reason", default="", help="The reason, stored in the goal's record.")
@json_option
def cancel(goal_id: str, reason: str, as_json: bool) -> None:
    """Cancel the goal ID and its open tasks."""
    body = {"reason": reason[:MAX_REASON], "must_be_open": True}
    goal = api.post(f"{api.goal_path(goal_id)}/cancel", _Cancelled, body)
    text = f"Requested; the conductor has not acted on it yet: mailroom show {goal.goal_id}"
    if goal.state == "ended":
        text = f"{goal.goal_id} ended: {goal.status}"
    print_result({"goal_id": goal.goal_id, "status": goal.status, "reason": goal.summary}, text, as_json)
