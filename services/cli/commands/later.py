"""``mailroom reminders``, ``schedule`` and ``queue``: three views of what happens later.

Nexus keeps reminders and goals on a schedule, cortex the jobs of the night.
"""

import re
from datetime import datetime, timedelta, tzinfo
from typing import Any

import click

from services.cli import api
from services.cli.commands.options import (
    NumberType,
    TextType,
    context_option,
    format_examples,
    json_option,
    limit_option,
    print_resolved,
    resolve_context,
    resolve_text,
)
from services.cli.output.console import open_console, print_block, print_json, print_more
from shared import settings
from shared.clock import format_moment, localize, parse_timestamp, read_zone, utc_now
from shared.contracts import Due, DueStatus
from shared.recurrence import describe_recurrence, parse_recurrence
from shared.text.display import clean, clean_block
from shared.text.times import parse_span
from shared.views.listed import TimetablePage

STATES = {
    DueStatus.WAITING: "due",
    DueStatus.SNOOZED: "moved to",
    DueStatus.FIRED: "sent, was due",
    DueStatus.DONE: "done, was due",
    DueStatus.CANCELLED: "cancelled, was due",
}
PRIORITIES = ("critical", "high", "medium", "low")
id_argument = click.argument("name", metavar="ID")


def _perform(action: str, params: dict[str, Any], text: str, as_json: bool, *keys: str) -> None:
    """Run an action as a task of the person's, and print its result; as JSON the first of ``keys`` it has."""
    result = api.perform(action, params, text)
    if as_json:
        print_json(next((result.metadata[key] for key in keys if key in result.metadata), None))
        return
    console = open_console()
    for line in clean_block(result.output).strip().splitlines():
        print_block(line, console, hang=2 if line.startswith("- ") else 4 if line[:1] != " " else 6)


@click.group()
def reminders() -> None:
    """Set, list, snooze and end reminders."""


@reminders.command(name="list")
@click.option("--all", "everything", is_flag=True, help="Include those that are done or cancelled.")
@limit_option
@json_option
def list_reminders(everything: bool, limit: int, as_json: bool) -> None:
    """List the open reminders, next one first.

    A reminder that was sent stays open until it is done.
    """
    page = api.get("/timetable", TimetablePage, {"what": "mail", "everything": everything})
    ended = (DueStatus.DONE, DueStatus.CANCELLED)
    chosen = [each.due for each in page.items if each.due]
    chosen.sort(key=lambda each: (each.status in ended, each.at))
    if page.problem:
        click.echo(clean(page.problem), err=True)
    shown, more = chosen[:limit], len(chosen) - limit
    if as_json:
        print_json([each.to_dict() for each in shown])
        print_more(max(0, more), as_json=True)
        return
    if not shown:
        click.echo("There are no open reminders.\nmailroom reminders add 'call Ana tomorrow at 9'")
        return
    console = open_console()
    zone = read_zone(page.time_zone)
    for each in shown:
        state = f"{STATES[each.status]} {format_moment(parse_timestamp(each.at), zone)}{_format_repeat(each)}"
        text = f"{each.due_id}  {clean(each.text)}\n    {state}"
        print_block(text, console, hang=4, lead=len(each.due_id), style="bold")
    print_more(max(0, more), as_json=False)
    click.echo("\nmailroom reminders done|snooze|cancel ID")


def _format_repeat(item: Due) -> str:
    if not item.repeats or item.status is DueStatus.CANCELLED:
        return ""
    return f", then {describe_recurrence(parse_recurrence(item.repeats))}"


@reminders.command(name="add", epilog=format_examples('mailroom reminders add "call the bank tomorrow at 9"'))
@click.argument("text", type=TextType())
@click.option("--at", "when", default="", metavar="TIME", help="The time, if TEXT has none.")
@json_option
def add_reminders(text: str, when: str, as_json: bool) -> None:
    """Set a reminder.

    TEXT has what and when, such as 'call Ana tomorrow at 9'; '-' reads it from standard input.
    If the time is missing or unclear, nothing is set, and the question is printed.
    """
    _remind("set_reminder", {"text": text, "when": when}, text, as_json)


@reminders.command(name="done")
@id_argument
@json_option
def done_reminders(name: str, as_json: bool) -> None:
    """Mark a reminder as done.

    ID is its id, the beginning of it, or words of its text.
    """
    _remind("finish_reminder", {"reminder": name}, f"Done: {name}", as_json)


@reminders.command(name="snooze")
@id_argument
@click.option("--for", "span", default="30m", show_default=True, metavar="SPAN", help="The time from now.")
@json_option
def snooze_reminders(name: str, span: str, as_json: bool) -> None:
    """Send a reminder again after SPAN, such as 30m or 2h.

    ID is its id, the beginning of it, or words of its text.
    """
    try:
        minutes = parse_span(span) / 60
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--for'") from None
    params = {"reminder": name, "minutes": minutes}
    _remind("snooze_reminder", params, f"Put off: {name}", as_json)


@reminders.command(name="cancel")
@id_argument
@json_option
def cancel_reminders(name: str, as_json: bool) -> None:
    """Cancel a reminder.

    ID is its id, the beginning of it, or words of its text.
    """
    _remind("cancel_reminder", {"reminder": name}, f"Cancel: {name}", as_json)


def _remind(action: str, params: dict[str, Any], text: str, as_json: bool) -> None:
    _perform(action, params, text, as_json, "reminder")


@click.group()
def schedule() -> None:
    """Goals on a schedule: each run is a goal of its own.

    A run that was missed because Mailroom was stopped begins when it starts again, unless it is more than a
    day late. A run is left out if the goal of the run before still works.
    """


@schedule.command(
    name="add", epilog=format_examples('mailroom schedule add "every weekday at 7" "Check up on ."')
)
@click.argument("when", type=TextType())
@click.argument("text", metavar="GOAL", type=TextType())
@json_option
def add_schedule(when: str, text: str, as_json: bool) -> None:
    """Put a goal on a schedule.

    WHEN is in plain words, such as 'every weekday at 7', 'every night at 2' or 'tomorrow at 6', which is a
    single run; or a rule of RFC 5545, as 'RRULE:FREQ=WEEKLY;BYDAY=MO;BYHOUR=7;BYMINUTE=0'. GOAL is as for
    'mailroom submit'.
    """
    text, resolved = resolve_text(text)
    print_resolved(resolved)
    _plan("schedule_goal", {"text": text, "when": when}, f"{when}: {text}", as_json)


@schedule.command(name="list")
@click.option("--all", "everything", is_flag=True, help="Include those that ended or were removed.")
@json_option
def list_schedules(everything: bool, as_json: bool) -> None:
    """List the goals on a schedule, the next one first."""
    _plan("list_schedules", {"everything": everything}, "List the goals on a schedule", as_json)


@schedule.command(name="show")
@id_argument
@json_option
def show_schedule(name: str, as_json: bool) -> None:
    """Show a goal on a schedule, with its next runs.

    ID is its id, the beginning of it, or words of its goal.
    """
    _plan("show_schedule", {"schedule": name}, f"Show {name}", as_json)


@schedule.command(name="remove")
@id_argument
@json_option
def remove_schedule(name: str, as_json: bool) -> None:
    """Remove a goal from the schedule; a run that has begun goes on.

    ID is its id, the beginning of it, or words of its goal.
    """
    _plan("remove_schedule", {"schedule": name}, f"Remove {name}", as_json)


@schedule.command(name="pause")
@id_argument
@json_option
def pause_schedule(name: str, as_json: bool) -> None:
    """Pause a goal on a schedule until 'resume'.

    What it misses meanwhile is not made up for.
    """
    _plan("pause_schedule", {"schedule": name}, f"Pause {name}", as_json)


@schedule.command(name="resume")
@id_argument
@json_option
def resume_schedule(name: str, as_json: bool) -> None:
    """Have a goal that is paused go on with its next run."""
    _plan("resume_schedule", {"schedule": name}, f"Resume {name}", as_json)


@schedule.command(name="run")
@id_argument
@json_option
def run_schedule(name: str, as_json: bool) -> None:
    """Begin a run now; the further runs stay as they are."""
    _plan("run_schedule", {"schedule": name}, f"Run {name}", as_json)


def _plan(action: str, params: dict[str, Any], text: str, as_json: bool) -> None:
    _perform(action, params, text, as_json, "schedules", "schedule")


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
    result = api.perform("queue_status", {}, "List the overnight queue")
    if as_json:
        shown = {key: result.metadata.get(key) for key in ("counts", "night", "jobs", "failed")}
        print_json(shown)
        return
    console = open_console()
    for line in clean_block(result.output).strip().splitlines():
        print_block(line, console, hang=2 if line.startswith("- ") else 0)


@queue.command(name="add", epilog=format_examples('mailroom queue add "Run the tests of ."'))
@click.argument("text", type=TextType())
@click.option("--at", "run_at", type=MomentType(), metavar="TIME", help="When: 23:30, or ISO 8601.")
@click.option("--now", "at_once", is_flag=True, help="Begin as soon as there is room.")
@click.option("--priority", type=click.Choice(PRIORITIES), default="medium", show_default=True)
@click.option("--retries", type=NumberType(0, 10), default=0, help="How often to try again if it fails.")
@context_option
@json_option
def add_queue(
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
    _queue("queue_job", params, text, as_json)


@queue.command(name="move", epilog=format_examples("mailroom queue move job-20260102-001 --at 2:00"))
@id_argument
@click.option("--at", "run_at", type=MomentType(), metavar="TIME", help="When: 23:30, or ISO 8601.")
@json_option
def move_queue(name: str, run_at: str | None, as_json: bool) -> None:
    """Change when a waiting job begins.

    Without --at it begins at night.
    """
    params = {"job_id": name, "run_at": run_at or ""}
    _queue("move_job", params, f"Move the job {name}", as_json)


@queue.command(name="remove")
@id_argument
@json_option
def remove_queue(name: str, as_json: bool) -> None:
    """Take a job out of the queue; one that runs is cancelled."""
    params = {"job_id": name, "reason": "It was removed from the queue"}
    _queue("cancel_job", params, f"Remove the job {name}", as_json)


@queue.command(name="run")
@id_argument
@json_option
def run_queue(name: str, as_json: bool) -> None:
    """Begin a job now, whatever it waits for."""
    _queue("run_job", {"job_id": name}, f"Begin the job {name}", as_json)


def _queue(action: str, params: dict[str, Any], text: str, as_json: bool) -> None:
    result = api.perform(action, params, text)
    if as_json:
        shown = ("id", "reason", "task_id")
        print_json({key: value for key, value in result.metadata.items() if key in shown})
    else:
        print_block(clean_block(result.output).strip(), open_console())
