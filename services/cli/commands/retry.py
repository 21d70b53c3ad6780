"""``mailroom retry`` and ``mailroom resume``: doing a goal again, and going on with one."""

from functools import partial

import click

from services.cli import api
from services.cli.commands.options import (
    TextType,
    budget_option,
    fail_on_option,
    format_examples,
    goal_argument,
    json_option,
    print_resolved,
    resolve_text,
)
from services.cli.commands.submit import format_hint, print_goal, run_watched, watch
from services.cli.output.console import print_result
from shared.contracts import GoalBudget
from shared.views.listed import SubmittedGoal

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
    submitted = api.post(f"{api.goal_path(name)}/retry", SubmittedGoal)
    if wait:
        ended = run_watched(partial(watch, submitted, f"{name} again, as"), as_json)
        raise SystemExit(print_goal(*ended, fail_on, as_json))
    text = f"Submitted as {submitted.goal_id}\n{format_hint(submitted.goal_id)}"
    print_result({"goal_id": submitted.goal_id, "status": submitted.status}, text, as_json)


@click.command(
    epilog=format_examples(
        'mailroom resume last --say "leave the tests alone" --wait', "mailroom resume last --budget 300k"
    )
)
@goal_argument
@click.option(
    "--say",
    "text",
    type=TextType(),
    default=None,
    metavar="TEXT",
    help="A further instruction; '-' reads it.",
)
@budget_option
@wait_option
@fail_on_option
@json_option
def resume(
    name: str, text: str | None, budget: GoalBudget | None, wait: bool, fail_on: str | None, as_json: bool
) -> None:
    """Continue GOAL, with what you --say as a further instruction.

    If it is running, its agents read that before their next step, and a --budget holds from their next
    question to a model on. If it has ended, what was completed is kept and the rest is done again.
    """
    _require_wait(fail_on, wait)
    words, resolved = resolve_text(text or "")
    print_resolved(resolved)
    goal = api.post(f"{api.goal_path(name)}/say", SubmittedGoal, {"text": words, "budget": budget})
    if wait:
        ended = run_watched(partial(watch, goal, "Going on with"), as_json)
        raise SystemExit(print_goal(*ended, fail_on, as_json))
    text = f"{goal.goal_id} goes on\n{format_hint(goal.goal_id)}"
    print_result({"goal_id": goal.goal_id, "status": goal.status}, text, as_json)


def _require_wait(fail_on: str | None, wait: bool) -> None:
    if fail_on and not wait:
        raise click.UsageError("--fail-on needs --wait: without it nothing has been found yet")
