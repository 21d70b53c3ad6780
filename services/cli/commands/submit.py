"""``mailroom submit``: submit a goal, and follow it until it ends."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from rich.console import Console

from services.cli import api
from services.cli.commands.goal_view import print_outcome, show_progress
from services.cli.commands.options import (
    TextType,
    TimeType,
    budget_option,
    context_option,
    fail_on_option,
    find_repository_here,
    format_examples,
    json_option,
    names_path,
    print_resolved,
    report_options,
    resolve_context,
    resolve_text,
    write_reports,
)
from services.cli.commands.sending import must_send, send_named
from services.cli.output.console import open_console, print_json, print_result
from services.cli.output.outcomes import exit_code
from shared import settings
from shared.contracts import Goal, GoalBudget, TaskPriority, TaskThoughts
from shared.errors import BusUnavailable
from shared.text.times import format_utc
from shared.views.listed import GOAL_ID, NewGoal, SubmittedGoal
from shared.views.progress import Progress
from shared.views.timeline import GoalResults

T = TypeVar("T")
Ended = tuple[Goal, GoalResults]  # A goal that has ended, and the results of its tasks
SILENCE = 45.0  # Seconds without any event after which the gateway counts as gone: it sends one every 15
PRIORITIES = [*map(str, TaskPriority), "P0", "P1", "P2", "P3"]


def _require_goal_id(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(GOAL_ID, value):
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
@budget_option
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
    budget: GoalBudget | None,
    as_json: bool,
) -> None:
    """Submit a goal.

    TEXT is the goal in your own words; '-' reads it from standard input. Relative paths in it, such as
    './x' or '.', and repo=PATH are made absolute. Where it names no folder, it is about the git repository
    in which you are, if there is one. To an office elsewhere, what it names here is sent: what git knows,
    and what is not committed.

    With --wait it exits with 0 if the goal is done, 1 if it failed or could not be checked, 3 if it is done
    with findings that --fail-on names.
    """
    if (fail_on or junit or sarif) and not wait:
        raise click.UsageError("--fail-on, --junit and --sarif need --wait: nothing has been found yet")
    if "action" not in context and (fields := sorted({"priority", "deadline", "id"} & context.keys())):
        raise click.UsageError(f"-c {fields[0]}=... says nothing to the work: use --{fields[0]}")
    text, resolved = resolve_text(text)
    context, more = resolve_context(context)
    if folder := find_repository_here(context):
        context["folder"] = folder
        more |= {} if as_json or names_path(text) else {"The folder": folder}
    if must_send() and any((resolved | more).values()):
        text, context = send_named(text, context, [*(resolved | more).values(), folder])
    else:
        print_resolved(resolved | more)
    goal = NewGoal(
        text=text,
        context=context,
        priority=TaskPriority(priority or TaskPriority.MEDIUM),
        deadline=format_utc(deadline) if deadline else "",
        goal_id=goal_id or "",
        is_resolved=True,
        budget=budget,
    )
    submitted = send_goal(goal)
    if wait:
        ended = run_watched(partial(watch, submitted, "Submitted as"), as_json)
        write_reports(ended[1], junit, sarif)
        raise SystemExit(print_goal(*ended, fail_on, as_json))
    known = submitted.status != "submitted"
    said = f"Submitted before; it is {submitted.status}" if known else f"Submitted as {submitted.goal_id}"
    shown = {"goal_id": submitted.goal_id, "status": submitted.status}
    print_result(shown, f"{said}\n{format_hint(submitted.goal_id)}", as_json)


def format_hint(goal_id: str) -> str:
    """How to follow a goal."""
    return f"Follow it: mailroom tail --since 1h --goal {goal_id}\nStatus:    mailroom show {goal_id}"


def send_goal(goal: NewGoal) -> SubmittedGoal:
    """Submit a goal to the gateway; on the bus if the gateway of this machine is away."""
    try:
        return api.post("/goals", SubmittedGoal, goal, login=api.find_login(settings.load(), wait=0))
    except api.GatewayAway as error:
        away = error

    async def submit() -> SubmittedGoal:
        from services.cli.connection import connect_instead
        from shared.operations.submission import make_body, submit_once

        body = make_body(goal.text, goal.context, goal.goal_id) | {"priority": goal.priority}
        body |= {"deadline": goal.deadline} if goal.deadline else {}
        body |= {"budget": goal.budget} if goal.budget else {}
        async with connect_instead(away) as bus:
            return await submit_once(bus, body)

    return asyncio.run(submit())


async def follow_goal(goal: SubmittedGoal) -> AsyncGenerator[Progress, None]:
    """The progress of a goal until it has ended; goes on on the bus if the gateway of this machine ends."""
    try:
        stream = await asyncio.to_thread(
            api.EventStream,
            f"/goals/{api.segment(goal.goal_id)}/progress",
            {"progress": Progress, "ended": Progress, "thinking": TaskThoughts},
            "ended",
            query={"submitted": goal.seq},
            timeout=SILENCE,
            login=api.find_login(settings.load(), wait=0),
        )
        async with aclosing(stream.events()) as events:
            progress, thoughts = Progress(), dict[str, str]()
            async for event in events:
                if isinstance(event, TaskThoughts):
                    thoughts[event.task_id] = event.text
                else:
                    progress = event
                yield msgspec.structs.replace(progress, thoughts=dict(thoughts))
        return
    except api.GatewayAway as error:
        away = error
    from services.cli.connection import connect_instead
    from shared.queries.progress import follow_to_results

    async with connect_instead(away) as bus:
        async for progress in follow_to_results(bus, settings.load(), goal.goal_id, goal.seq):
            yield progress


def run_watched(
    follow: Callable[[Console], Awaitable[T]],
    as_json: bool,
    office: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> T:
    """Run what follows goals, with a console for the progress, in an ``office``; Ctrl-C exits with 1."""
    console = open_console(stderr=as_json)
    console.quiet = as_json and not console.is_terminal

    async def run() -> T:
        async with office():
            return await follow(console)

    try:
        return asyncio.run(run())
    except KeyboardInterrupt:
        raise SystemExit(1) from None


async def watch(goal: SubmittedGoal, heading: str, console: Console) -> Ended:
    """Show the progress of a goal to its end; says how to go on if it is interrupted."""
    console.print(f"{heading} {goal.goal_id}", soft_wrap=True)
    return (await watch_all({"": goal}, console))[0]


async def watch_all(goals: Mapping[str, SubmittedGoal], console: Console) -> list[Ended]:
    """Show the progress of several goals, each under its name, as ``watch`` does of one."""
    try:
        ended = await show_progress({name: follow_goal(goal) for name, goal in goals.items()}, console)
    except (asyncio.CancelledError, BusUnavailable):
        hints = "\n".join(format_hint(goal.goal_id) for goal in goals.values())
        running = "the goal keeps" if len(goals) == 1 else "the goals keep"
        click.echo(f"\nDetached; {running} running.\n{hints}", err=True)
        raise
    return [(each.goal, each.results) for each in ended if each.goal and each.results]


def print_goal(goal: Goal, results: GoalResults, fail_on: str | None, as_json: bool) -> int:
    """Print a goal that has ended; returns the exit code."""
    if as_json:
        print_json(goal.to_dict() | ({"spent": msgspec.to_builtins(results.spent)} if results.spent else {}))
    else:
        print_outcome(goal, open_console(), results)
    return exit_code(goal, results, fail_on)
