"""``mailroom submit``: submit a goal, and follow it until it ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from rich.console import Console

from services.cli.commands.goal_view import print_outcome, show_progress
from services.cli.commands.options import (
    TextType,
    TimeType,
    context_option,
    fail_on_option,
    format_examples,
    json_option,
    print_resolved,
    report_options,
    resolve_context,
    resolve_text,
    write_reports,
)
from services.cli.connection import connect, run_connected
from services.cli.output.console import open_console, print_json, print_result
from services.cli.output.outcomes import exit_code
from shared import settings
from shared.bus import Bus
from shared.contracts import Goal, TaskPriority
from shared.operations.submission import GOAL_ID, make_body, submit_and_follow, submit_once
from shared.queries.progress import Progress
from shared.queries.results import add_spending, read_results
from shared.text.times import format_utc
from shared.views.timeline import GoalResults

T = TypeVar("T")
Ended = tuple[Goal, GoalResults]  # A goal that has ended, and the results of its tasks
PRIORITIES = [*map(str, TaskPriority), "P0", "P1", "P2", "P3"]


def _require_goal_id(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not GOAL_ID.fullmatch(value):
        raise click.BadParameter("it must be 1 to 80 letters, digits, '_' or '-'", ctx, param)
    return value


@click.command(
    epilog=format_examples(
        'mailroom submit "Run the tests of ." --wait',
        "mailroom submit latest -c assignee=engineer -c action=git_log -c repo=.",
    )
)
@click.argument("text", type=TextType())
@click.option("--wait", is_flag=True, help="Show the progress until the goal ends.")
@fail_on_option
@report_options
@context_option
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
    fail_on: str | None,
    junit: Path | None,
    sarif: Path | None,
    goal_id: str | None,
    context: dict[str, Any],
    priority: str | None,
    deadline: datetime | None,
    as_json: bool,
) -> None:
    """Submit a goal.

    TEXT is the goal in your own words; '-' reads it from standard input. Relative paths in it, such as
    './x' or '.', and repo=PATH are made absolute.

    With --wait it exits with 0 if the goal is done, 1 if it failed or could not be checked, 3 if it is done
    with findings that --fail-on names.
    """
    if (fail_on or junit or sarif) and not wait:
        raise click.UsageError("--fail-on, --junit and --sarif need --wait: nothing has been found yet")
    if "action" not in context and (fields := sorted({"priority", "deadline", "id"} & context.keys())):
        raise click.UsageError(f"-c {fields[0]}=... says nothing to the work: use --{fields[0]}")
    text, resolved = resolve_text(text)
    context, more = resolve_context(context)
    print_resolved(resolved | more)
    body = make_body(text, context, goal_id)
    if priority:
        body["priority"] = TaskPriority(priority)
    if deadline:
        body["deadline"] = format_utc(deadline)
    if wait:
        goal, results = run_watched(partial(submit_and_watch, body=body), as_json)
        write_reports(results, junit, sarif)
        raise SystemExit(print_goal(goal, results, fail_on, as_json))
    known = run_connected(lambda bus: submit_once(bus, body))
    goal_id = str(body["goal_id"])
    said = f"Submitted before; it is {known.status}" if known else f"Submitted as {goal_id}"
    status = str(known.status) if known else "submitted"
    print_result({"goal_id": goal_id, "status": status}, f"{said}\n{format_hint(goal_id)}", as_json)


def format_hint(goal_id: str) -> str:
    """How to follow a goal."""
    return f"Follow it: mailroom tail --since 1h --goal {goal_id}\nStatus:    mailroom show {goal_id}"


def run_watched(
    follow: Callable[[Bus, Console], Awaitable[T]],
    as_json: bool,
    open_bus: Callable[[], AbstractAsyncContextManager[Bus]] = connect,
) -> T:
    """Run what follows goals, with a connection and a console for the progress; Ctrl-C exits with 1."""
    console = open_console(stderr=as_json)
    console.quiet = as_json and not console.is_terminal

    async def connected() -> T:
        async with open_bus() as bus:
            return await follow(bus, console)

    try:
        return asyncio.run(connected())
    except KeyboardInterrupt:
        raise SystemExit(1) from None


async def submit_and_watch(bus: Bus, console: Console, body: dict[str, Any]) -> Ended:
    """Submit a goal and show its progress; returns it once it has ended, with its results."""
    changes = await submit_and_follow(bus, body)
    return await watch(bus, console, str(body["goal_id"]), changes, "Submitted as")


async def watch(
    bus: Bus, console: Console, goal_id: str, changes: AsyncIterator[Progress], heading: str
) -> Ended:
    """Show the progress of a goal to its end; says how to go on if it is interrupted."""
    console.print(f"{heading} {goal_id}", soft_wrap=True)
    return (await watch_all(bus, console, {goal_id: ("", changes)}))[0]


async def watch_all(
    bus: Bus, console: Console, goals: Mapping[str, tuple[str, AsyncIterator[Progress]]]
) -> list[Ended]:
    """Show the progress of several goals, by their ids, each under its name, as ``watch`` does of one."""
    try:
        ended = await show_progress(dict(goals.values()), console)
    except asyncio.CancelledError:
        hints = "\n".join(format_hint(goal_id) for goal_id in goals)
        running = "the goal keeps" if len(goals) == 1 else "the goals keep"
        click.echo(f"\nDetached; {running} running.\n{hints}", err=True)
        raise
    config = settings.load()
    return [
        (goal, await add_spending(bus, config, goal, await read_results(bus, goal)))
        for goal in ended
        if goal is not None
    ]


def print_goal(goal: Goal, results: GoalResults, fail_on: str | None, as_json: bool) -> int:
    """Print a goal that has ended; returns the exit code."""
    if as_json:
        print_json(goal.to_dict() | ({"spent": msgspec.to_builtins(results.spent)} if results.spent else {}))
    else:
        print_outcome(goal, open_console(), results)
    return exit_code(goal, results, fail_on)
