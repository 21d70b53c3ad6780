"""``mailroom reminders``: set, list and end reminders, which nexus keeps."""

from typing import Any

import click

from services.cli.commands.actions import perform_action
from services.cli.commands.options import TextType, format_examples, json_option, limit_option
from services.cli.connection import run_connected
from services.cli.output.console import open_console, print_block, print_json, print_more
from shared import settings, subjects
from shared.bus import Bus
from shared.bus.records import read_record
from shared.clock import format_moment, parse_timestamp, read_zone
from shared.contracts import (
    Reminder,
    Reminders,
    ReminderStatus,
)
from shared.recurrence import describe_recurrence, parse_recurrence
from shared.text.printable import clean, clean_block
from shared.text.times import parse_span

ENDED = (ReminderStatus.ACKNOWLEDGED, ReminderStatus.CANCELLED)
STATES = {
    ReminderStatus.SCHEDULED: "due",
    ReminderStatus.SNOOZED: "moved to",
    ReminderStatus.FIRED: "sent, was due",
    ReminderStatus.ACKNOWLEDGED: "done, was due",
    ReminderStatus.CANCELLED: "cancelled, was due",
}
id_argument = click.argument("reminder", metavar="ID")


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
    found = run_connected(_read_reminders)
    chosen = sorted(
        (each for each in found if everything or each.status not in ENDED),
        key=lambda each: (each.status in ENDED, each.due_at),
    )
    shown, more = chosen[:limit], len(chosen) - limit
    if as_json:
        print_json([each.to_dict() for each in shown])
        print_more(max(0, more), as_json=True)
        return
    if not shown:
        click.echo("There are no open reminders.\nmailroom reminders add 'call Ana tomorrow at 9'")
        return
    console = open_console()
    zone = read_zone(settings.load().time_zone)
    for each in shown:
        state = (
            f"{STATES[each.status]} {format_moment(parse_timestamp(each.due_at), zone)}{_format_repeat(each)}"
        )
        text = f"{each.reminder_id}  {clean(each.text)}\n    {state}"
        print_block(text, console, hang=4, lead=len(each.reminder_id), style="bold")
    print_more(max(0, more), as_json=False)
    click.echo("\nmailroom reminders done|snooze|cancel ID")


def _format_repeat(reminder: Reminder) -> str:
    if not reminder.repeats or reminder.status is ReminderStatus.CANCELLED:
        return ""
    return f", then {describe_recurrence(parse_recurrence(reminder.repeats))}"


async def _read_reminders(bus: Bus) -> tuple[Reminder, ...]:
    record = await read_record(bus, subjects.record(subjects.NEXUS, "reminders", "all"), Reminders)
    return record.value.reminders if record else ()


@reminders.command(epilog=format_examples('mailroom reminders add "call the bank tomorrow at 9"'))
@click.argument("text", type=TextType())
@click.option("--at", "when", default="", metavar="TIME", help="The time, if TEXT has none.")
@json_option
def add(text: str, when: str, as_json: bool) -> None:
    """Set a reminder.

    TEXT has what and when, such as 'call Ana tomorrow at 9'; '-' reads it from standard input.
    If the time is missing or unclear, nothing is set, and the question is printed.
    """
    _perform(text, "set_reminder", {"text": text, "when": when}, as_json)


@reminders.command()
@id_argument
@json_option
def done(reminder: str, as_json: bool) -> None:
    """Mark a reminder as done.

    ID is its id, the beginning of it, or words of its text.
    """
    _perform(f"Done: {reminder}", "finish_reminder", {"reminder": reminder}, as_json)


@reminders.command()
@id_argument
@click.option("--for", "span", default="30m", show_default=True, metavar="SPAN", help="The time from now.")
@json_option
def snooze(reminder: str, span: str, as_json: bool) -> None:
    """Send a reminder again after SPAN, such as 30m or 2h.

    ID is its id, the beginning of it, or words of its text.
    """
    try:
        minutes = parse_span(span) / 60
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--for'") from None
    params = {"reminder": reminder, "minutes": minutes}
    _perform(f"Put off: {reminder}", "snooze_reminder", params, as_json)


@reminders.command()
@id_argument
@json_option
def cancel(reminder: str, as_json: bool) -> None:
    """Cancel a reminder.

    ID is its id, the beginning of it, or words of its text.
    """
    _perform(f"Cancel: {reminder}", "cancel_reminder", {"reminder": reminder}, as_json)


def _perform(text: str, action: str, params: dict[str, Any], as_json: bool) -> None:
    """Run an action of nexus as a task, and print its result."""
    result = perform_action(subjects.NEXUS, action, params, text)
    if as_json:
        print_json(result.metadata.get("reminder"))
    else:
        print_block(clean_block(result.output).strip(), open_console())
