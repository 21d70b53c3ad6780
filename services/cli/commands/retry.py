"""``mailroom retry`` and ``mailroom resume``: doing a goal again, and going on with one."""

import click
from rich.console import Console

from services.cli.commands.options import (
    TextType,
    fail_on_option,
    format_examples,
    goal_argument,
    json_option,
    print_resolved,
    resolve_text,
)
from services.cli.commands.submit import Ended, format_hint, print_goal, run_watched, watch
from services.cli.connection import run_connected
from services.cli.output.console import print_result
from shared.bus import Bus
from shared.operations.goals import find_ended, make_retry, resume_goal
from shared.operations.submission import publish
from shared.queries.progress import GoalFollower

wait_option = click.option("--wait", is_flag=True, help="Show the progress until the goal ends.")


@click.command()
@goal_argument
@wait_option
@fail_on_option
@json_option
def retry(name: str, wait: bool, fail_on: str | None, as_json: bool) -> None:
    """Do GOAL again from the beginning, as a new goal.

    It works on the folders as they are now.
    """
    _require_wait(fail_on, wait)
    if wait:
        ended = run_watched(lambda bus, console: _retry_and_watch(bus, console, name), as_json)
        raise SystemExit(print_goal(*ended, fail_on, as_json))

    async def submit(bus: Bus) -> str:
        goal = await find_ended(bus, name)
        body = make_retry(goal)
        await publish(bus, body)
        return str(body["goal_id"])

    goal_id = run_connected(submit)
    text = f"Submitted as {goal_id}\n{format_hint(goal_id)}"
    print_result({"goal_id": goal_id, "status": "submitted"}, text, as_json)


@click.command(epilog=format_examples('mailroom resume last --say "leave the tests alone" --wait'))
@goal_argument
@click.option(
    "--say",
    "text",
    type=TextType(),
    default=None,
    metavar="TEXT",
    help="A further instruction; '-' reads it.",
)
@wait_option
@fail_on_option
@json_option
def resume(name: str, text: str | None, wait: bool, fail_on: str | None, as_json: bool) -> None:
    """Continue GOAL, with what you --say as a further instruction.

    If it is running, its agents read that before their next step. If it has ended, what was completed is
    kept and the rest is done again.
    """
    _require_wait(fail_on, wait)
    words, resolved = resolve_text(text or "")
    print_resolved(resolved)
    if wait:
        ended = run_watched(lambda bus, console: _resume_and_watch(bus, console, name, words), as_json)
        raise SystemExit(print_goal(*ended, fail_on, as_json))
    goal = run_connected(lambda bus: resume_goal(bus, name, words))
    text = f"{goal.goal_id} goes on\n{format_hint(goal.goal_id)}"
    print_result({"goal_id": goal.goal_id, "status": str(goal.status)}, text, as_json)


def _require_wait(fail_on: str | None, wait: bool) -> None:
    if fail_on and not wait:
        raise click.UsageError("--fail-on needs --wait: without it nothing has been found yet")


async def _retry_and_watch(bus: Bus, console: Console, name: str) -> Ended:
    goal = await find_ended(bus, name)
    body = make_retry(goal)
    goal_id = str(body["goal_id"])
    follower = GoalFollower(bus, goal_id, goal.text)
    await follower.listen()
    changes = follower.follow(await publish(bus, body))
    return await watch(bus, console, goal_id, changes, f"{goal.goal_id} again, as")


async def _resume_and_watch(bus: Bus, console: Console, name: str, text: str) -> Ended:
    goal = await resume_goal(bus, name, text)
    follower = GoalFollower(bus, goal.goal_id)
    await follower.listen()
    return await watch(bus, console, goal.goal_id, follower.follow(), "Going on with")
