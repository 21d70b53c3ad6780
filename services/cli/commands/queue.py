"""``mailroom queue``: the overnight queue, whose jobs cortex works on."""

import re
from datetime import datetime, timedelta, tzinfo
from typing import Any

import click

from services.cli.commands.actions import perform_action
from services.cli.commands.options import (
    NumberType,
    TextType,
    format_examples,
    json_option,
    parse_context,
    print_resolved,
    resolve_context,
    resolve_text,
)
from services.cli.output.console import open_console, print_block, print_json
from shared import settings, subjects
from shared.clock import localize, read_zone, utc_now
from shared.contracts import TaskResult
from shared.text.printable import clean_block

PRIORITIES = ("critical", "high", "medium", "low")
id_argument = click.argument("job", metavar="ID")


class MomentType(click.ParamType[str]):
    """A time of day such as 23:30, which is the next one, or ISO 8601; in the office's time zone."""

    name = "time"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The time as ISO 8601 with its zone; a usage error for anything else, and if it has passed."""
        zone, now = read_zone(settings.load().time_zone), utc_now()
        try:
            moment = parse_moment(value, now, zone)
        except ValueError:
            self.fail(f"{value!r} is no time such as 23:30 or 2026-01-31T02:00", param, ctx)
        if moment <= now:
            self.fail(f"{value!r} has passed", param, ctx)
        return moment.isoformat()


def parse_moment(text: str, now: datetime, zone: tzinfo | None) -> datetime:
    """The moment that ``text`` names, seen from ``now``; raises ValueError."""
    if not re.fullmatch(r"\d\d?:\d\d", text):
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else localize(moment, zone)
    hour, minute = map(int, text.split(":"))
    here = now.astimezone(zone).replace(tzinfo=None, hour=hour, minute=minute, second=0, microsecond=0)
    moment = localize(here, zone)
    return moment if moment > now else localize(here + timedelta(days=1), zone)


@click.group()
def queue() -> None:
    """The overnight queue: what waits for the night.

    A job waits for the night (setting 'night') unless it has a time of its own, and while the night's budget
    is spent or the machine is busy. One that is not done when the night ends goes on to its end.
    """


@queue.command(name="list")
@json_option
def list_jobs(as_json: bool) -> None:
    """List what runs and what waits, and why it waits."""
    result = perform_action(subjects.CORTEX, "queue_status", {}, "List the overnight queue")
    if as_json:
        shown = {key: result.metadata.get(key) for key in ("counts", "night", "jobs", "failed")}
        print_json(shown)
        return
    console = open_console()
    for line in clean_block(result.output).strip().splitlines():
        print_block(line, console, hang=2 if line.startswith("- ") else 0)


@queue.command(epilog=format_examples('mailroom queue add "Run the tests of ."'))
@click.argument("text", type=TextType())
@click.option("--at", "run_at", type=MomentType(), metavar="TIME", help="When: 23:30, or ISO 8601.")
@click.option("--now", "at_once", is_flag=True, help="Begin as soon as there is room.")
@click.option("--priority", type=click.Choice(PRIORITIES), default="medium", show_default=True)
@click.option("--retries", type=NumberType(0, 10), default=0, help="How often to try again if it fails.")
@click.option(
    "-c",
    "--context",
    metavar="KEY=VALUE",
    multiple=True,
    callback=parse_context,
    help="Context, as for 'mailroom submit'. Repeatable.",
)
@json_option
def add(
    text: str,
    run_at: str | None,
    at_once: bool,
    priority: str,
    retries: int,
    context: dict[str, Any],
    as_json: bool,
) -> None:
    """Put a job into the queue: a goal, as for 'mailroom submit'.

    Without --at and --now it begins at night.
    """
    if run_at and at_once:
        raise click.UsageError("--at and --now exclude each other")
    text, resolved = resolve_text(text)
    context, more = resolve_context(context)
    print_resolved(resolved | more)
    params = {
        "task": text,
        "priority": priority,
        "run_at": run_at or "",
        "when": "now" if at_once else "",
        "context": context,
        "retries": retries,
    }
    _print(perform_action(subjects.CORTEX, "queue_job", params, text), as_json)


@queue.command(epilog=format_examples("mailroom queue move job-20260102-001 --at 2:00"))
@id_argument
@click.option("--at", "run_at", type=MomentType(), metavar="TIME", help="When: 23:30, or ISO 8601.")
@json_option
def move(job: str, run_at: str | None, as_json: bool) -> None:
    """Change when a waiting job begins.

    Without --at it begins at night.
    """
    params = {"job_id": job, "run_at": run_at or ""}
    _print(perform_action(subjects.CORTEX, "move_job", params, f"Move the job {job}"), as_json)


@queue.command()
@id_argument
@json_option
def remove(job: str, as_json: bool) -> None:
    """Take a job out of the queue; one that runs is cancelled."""
    params = {"job_id": job, "reason": "It was removed from the queue"}
    _print(perform_action(subjects.CORTEX, "cancel_job", params, f"Remove the job {job}"), as_json)


@queue.command()
@id_argument
@json_option
def run(job: str, as_json: bool) -> None:
    """Begin a job now, whatever it waits for."""
    _print(perform_action(subjects.CORTEX, "run_job", {"job_id": job}, f"Begin the job {job}"), as_json)


def _print(result: TaskResult, as_json: bool) -> None:
    if as_json:
        shown = ("id", "reason", "task_id")
        print_json({key: value for key, value in result.metadata.items() if key in shown})
    else:
        print_block(clean_block(result.output).strip(), open_console())
