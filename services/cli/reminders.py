"""``mailroom reminders``: what you want to be reminded of, and when."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from services.cli.connection import connect
from services.cli.moment import parse_span
from services.cli.screen import clean, clean_block, json_option, open_console, print_block, print_json
from services.cli.submission import TextType
from shared import settings, subjects
from shared.clock import read_zone, tell
from shared.contracts import (
    Reminder,
    Reminders,
    ReminderStatus,
    Task,
    TaskResult,
    TaskStatus,
    generate_task_id,
)
from shared.errors import BusUnavailable, MailroomError

if TYPE_CHECKING:
    from shared.bus import Bus

TIMEOUT = 20.0
"""Seconds the front desk has: it answers in a tenth of one where it runs."""
LOOK_EVERY = 0.5
"""Seconds between looks at the task even when nothing is heard."""
ENDED = (ReminderStatus.ACKNOWLEDGED, ReminderStatus.CANCELLED)
STANDS = {
    ReminderStatus.SCHEDULED: "goes off",
    ReminderStatus.SNOOZED: "put off until",
    ReminderStatus.FIRED: "went off, due",
    ReminderStatus.ACKNOWLEDGED: "done, due",
    ReminderStatus.CANCELLED: "cancelled, due",
}


@click.group()
def reminders() -> None:
    """Set reminders, look at them, put them off, and end them."""


@reminders.command(name="list")
@click.option("--all", "everything", is_flag=True, help="Those that are done or cancelled too.")
@json_option
def list_reminders(everything: bool, as_json: bool) -> None:
    """List the reminders, the next one first.

    Those that went off stay until they are done.
    """
    found = asyncio.run(_read())
    shown = sorted(
        (each for each in found if everything or each.status not in ENDED),
        key=lambda each: (each.status in ENDED, each.due_at),
    )
    if as_json:
        print_json([each.to_dict() for each in shown])
        return
    if not shown:
        click.echo("There are no open reminders.\nmailroom reminders add 'call Ana tomorrow at 9'")
        return
    console = open_console()
    zone = read_zone(settings.load().time_zone)
    for each in shown:
        due = tell(_due(each), zone)
        text = f"{each.reminder_id}  {clean(each.text)}\n    {STANDS[each.status]} {due}{_again(each)}"
        print_block(text, console, hang=4, lead=len(each.reminder_id), style="bold")
    click.echo("\nmailroom reminders done|snooze|cancel ID")


def _again(reminder: Reminder) -> str:
    every = reminder.repeats.replace("mon,tue,wed,thu,fri,sat,sun", "day")
    return f", then every {every}" if every and reminder.status is not ReminderStatus.CANCELLED else ""


def _due(reminder: Reminder) -> datetime:
    moment = datetime.fromisoformat(reminder.due_at)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


async def _read() -> tuple[Reminder, ...]:
    async with connect() as bus:
        stored = await bus.last(subjects.OFFICE, subjects.record(subjects.NEXUS, "reminders", "all"))
        return Reminders.from_json(stored.data).reminders if stored else ()


@reminders.command()
@click.argument("text", type=TextType())
@click.option("--at", "when", default="", metavar="TIME", help="When, if TEXT does not say it.")
@json_option
def add(text: str, when: str, as_json: bool) -> None:
    """Set a reminder.

    TEXT says of what and when, such as 'call Ana tomorrow at 9'; '-' reads it from standard input. A time
    that can be read in two ways is asked back.
    """
    _report(_perform(text, "set_reminder", {"text": text, "when": when}), as_json)


@reminders.command()
@click.argument("reminder", metavar="ID")
@json_option
def done(reminder: str, as_json: bool) -> None:
    """Mark a reminder as done.

    ID is its id, the beginning of it, or words of its text.
    """
    _report(_perform(f"Done: {reminder}", "finish_reminder", {"reminder": reminder}), as_json)


@reminders.command()
@click.argument("reminder", metavar="ID")
@click.option("--for", "span", default="30m", show_default=True, metavar="SPAN", help="For how long.")
@json_option
def snooze(reminder: str, span: str, as_json: bool) -> None:
    """Put a reminder off.

    ID is its id, the beginning of it, or words of its text; it goes off again after SPAN, such as 30m or 2h.
    """
    try:
        minutes = parse_span(span) / 60
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--for'") from None
    params = {"reminder": reminder, "minutes": minutes}
    _report(_perform(f"Put off: {reminder}", "snooze_reminder", params), as_json)


@reminders.command()
@click.argument("reminder", metavar="ID")
@json_option
def cancel(reminder: str, as_json: bool) -> None:
    """Cancel a reminder.

    ID is its id, the beginning of it, or words of its text.
    """
    _report(_perform(f"Cancel: {reminder}", "cancel_reminder", {"reminder": reminder}), as_json)


def _report(result: TaskResult, as_json: bool) -> None:
    if result.status is not TaskStatus.COMPLETED:
        raise MailroomError(clean(result.error_message or f"It ended as {result.status}"))
    if as_json:
        print_json(result.metadata.get("reminder"))
        return
    print_block(clean_block(result.output).strip(), open_console())


def _perform(text: str, action: str, params: dict[str, Any]) -> TaskResult:
    task = Task(
        task_id=generate_task_id(),
        text=text,
        assignee=subjects.NEXUS,
        requester=subjects.USER,
        context={"action": action, "params": params},
    )
    return asyncio.run(_hand_in(task))


async def _hand_in(task: Task) -> TaskResult:
    from shared.bus.records import submission_entries

    async with connect() as bus:
        heard = asyncio.Event()

        async def hear(*_: object) -> None:
            heard.set()

        await bus.subscribe(subjects.AUDIT_PREFIX + subjects.mail(subjects.USER, subjects.NEXUS), hear)
        await bus.commit(submission_entries(task, subjects.USER))
        try:
            return await asyncio.wait_for(_await_result(bus, task, heard), TIMEOUT)
        except TimeoutError:
            raise BusUnavailable(
                f"The front desk did not answer within {TIMEOUT:g} s; the task stays in its mailbox",
                f"See with 'mailroom status' whether {subjects.NEXUS} runs",
            ) from None


async def _await_result(bus: "Bus", task: Task, heard: asyncio.Event) -> TaskResult:
    from services.cli.records import read_tasks

    name = subjects.state(task.assignee, task.requester, task.task_id)
    while True:
        heard.clear()
        record = (await read_tasks(bus, [name])).get(name)
        if record is not None and record.result is not None:
            return record.result
        try:
            await asyncio.wait_for(heard.wait(), LOOK_EVERY)
        except TimeoutError:
            continue
