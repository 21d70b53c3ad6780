"""``mailroom retry`` and ``mailroom resume``: doing a goal again, and going on with one."""

from typing import Any

import click
from rich.console import Console

from services.cli.commands.options import (
    TextType,
    fail_on_option,
    goal_argument,
    json_option,
    print_resolved,
    resolve_text,
)
from services.cli.commands.submit import Ended, format_hint, print_goal, publish, run_watched, watch
from services.cli.connection import run_connected
from services.cli.output.console import print_result
from shared import subjects
from shared.bus import Bus
from shared.contracts import AgentReport, Goal, generate_task_id
from shared.errors import BusUnavailable, MailroomError, Refused
from shared.queries.progress import GoalFollower
from shared.queries.records import Listener, find_dead_letter, read_goal, scan
from shared.queries.results import find_goal

ACCEPT_TIMEOUT = 20.0
"""Seconds until the conductor must have accepted or refused a resumption."""
POLL_INTERVAL = 1.0
"""Seconds between reads if no message arrives."""
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
        goal = await _find_ended(bus, name)
        body = _retry_body(goal)
        await publish(bus, body)
        return str(body["goal_id"])

    goal_id = run_connected(submit)
    text = f"Submitted as {goal_id}\n{format_hint(goal_id)}"
    print_result({"goal_id": goal_id, "status": "submitted"}, text, as_json)


@click.command()
@goal_argument
@click.option(
    "--say", "text", type=TextType(), default=None, metavar="TEXT", help="What to mind; '-' reads it."
)
@wait_option
@fail_on_option
@json_option
def resume(name: str, text: str | None, wait: bool, fail_on: str | None, as_json: bool) -> None:
    """Go on with GOAL, minding what you --say.

    If it is running, its agents read that before their next step. If it has ended, what was completed is
    kept and the rest is done again.
    """
    _require_wait(fail_on, wait)
    words, resolved = resolve_text(text or "")
    print_resolved(resolved)
    if wait:
        ended = run_watched(lambda bus, console: _resume_and_watch(bus, console, name, words), as_json)
        raise SystemExit(print_goal(*ended, fail_on, as_json))
    goal = run_connected(lambda bus: _resume(bus, name, words))
    text = f"{goal.goal_id} goes on\n{format_hint(goal.goal_id)}"
    print_result({"goal_id": goal.goal_id, "status": str(goal.status)}, text, as_json)


def _require_wait(fail_on: str | None, wait: bool) -> None:
    if fail_on and not wait:
        raise click.UsageError("--fail-on needs --wait: without it nothing has been found yet")


# --- retry -----------------------------------------------------------------------------------------


async def _find_ended(bus: Bus, name: str) -> Goal:
    goal, _ = await find_goal(bus, name)
    if not goal.status.final:
        raise MailroomError(
            f"The goal {goal.goal_id} has not ended: it is {goal.status}",
            f"Steer it with 'mailroom resume {goal.goal_id} --say ...', or end it with 'mailroom cancel'",
        )
    return goal


def _retry_body(goal: Goal) -> dict[str, Any]:
    return {"retry": goal.goal_id, "goal_id": generate_task_id("goal"), "requester": subjects.USER}


async def _retry_and_watch(bus: Bus, console: Console, name: str) -> Ended:
    goal = await _find_ended(bus, name)
    body = _retry_body(goal)
    goal_id = str(body["goal_id"])
    follower = GoalFollower(bus, goal_id, goal.text)
    await follower.listen()
    changes = follower.follow(await publish(bus, body))
    return await watch(bus, console, goal_id, changes, f"{goal.goal_id} again, as")


# --- resume ----------------------------------------------------------------------------------------


async def _resume_and_watch(bus: Bus, console: Console, name: str, text: str) -> Ended:
    goal = await _resume(bus, name, text)
    follower = GoalFollower(bus, goal.goal_id)
    await follower.listen()
    return await watch(bus, console, goal.goal_id, follower.follow(), "Going on with")


async def _resume(bus: Bus, name: str, text: str) -> Goal:
    """Have the conductor resume a goal; returns it as accepted. Raises Refused, BusUnavailable."""
    known, _ = await find_goal(bus, name)
    if not text and not known.status.final:
        raise MailroomError(f"The goal {known.goal_id} is running", "Say what it should mind with --say")
    request_id = generate_task_id("resume")
    refusals = subjects.mail(subjects.USER, subjects.CONDUCTOR)
    listener = Listener(bus, POLL_INTERVAL)
    await listener.subscribe(subjects.goal(known.goal_id), refusals, subjects.dead(subjects.CONDUCTOR))
    body = {"resume": known.goal_id, "text": text, "request_id": request_id, "requester": subjects.USER}
    seq = await publish(bus, body)

    async def read_answer() -> Goal | None:
        found = await read_goal(bus, known.goal_id)
        if found and any(each.id == request_id for each in found[0].instructions):
            return found[0]
        await _require_not_refused(bus, refusals, seq, request_id)
        return None

    try:
        return await listener.wait_for(read_answer, ACCEPT_TIMEOUT)
    except TimeoutError:
        raise BusUnavailable(
            f"The conductor has not answered within {ACCEPT_TIMEOUT:g} s; the request stays in its mailbox",
            "'mailroom status' shows whether it runs",
        ) from None


async def _require_not_refused(bus: Bus, refusals: str, seq: int, request_id: str) -> None:
    letter = await find_dead_letter(bus, subjects.CONDUCTOR, seq)
    if letter is not None:
        raise Refused(f"The conductor refuses it: {letter.reason}")
    async for stored in scan(bus, subjects.OFFICE, refusals, seq=seq):
        if request_id.encode() in stored.data and (report := AgentReport.from_json(stored.data)):
            raise Refused(report.summary.rstrip("."))
