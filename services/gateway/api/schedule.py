"""Reminders, and what else is going to happen by itself."""

import asyncio
from typing import Annotated

import msgspec

from services.gateway.context import Call
from services.gateway.routing import Endpoint
from services.gateway.schedule.night_queue import NightQueue, read_night_queue
from services.gateway.schedule.reminders import ENDED, change_reminder, read_reminders, set_reminder
from services.gateway.schedule.upcoming import Upcoming, list_upcoming
from services.gateway.security.scopes import Scope
from shared.clock import read_zone
from shared.contracts import Reminder, TaskStatus

API = "/api/v1"
REMINDERS = f"{API}/reminders"
RUNNING = [status.value for status in TaskStatus if not status.final]
MAX_GOALS = 100
"""The most goals whose deadlines are shown."""

Phrase = Annotated[str, msgspec.Meta(max_length=500)]


class RemindersQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``everything``: those too that are done or cancelled."""

    everything: bool = False


class ReminderPage(msgspec.Struct, frozen=True, kw_only=True):
    """Reminders, the open ones first and of these the next one."""

    reminders: list[Reminder]


class NewReminder(msgspec.Struct, frozen=True, kw_only=True):
    """What to be reminded of; ``when`` if the text has no time, in words or as ISO 8601."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    when: Phrase = ""


class Snooze(msgspec.Struct, frozen=True, kw_only=True):
    """Until when a reminder is put off: so many minutes from now, or a time in words or as ISO 8601."""

    minutes: Annotated[int, msgspec.Meta(ge=1, le=525_600)] = 30
    until: Phrase = ""


class ReminderAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A reminder as it is now, and what the front desk says about it."""

    text: str
    reminder: Reminder


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """What happens next, the open reminders, and the night's queue; ``time_zone`` is that of the office."""

    time_zone: str
    upcoming: list[Upcoming]
    reminders: list[Reminder]
    night: NightQueue


async def list_reminders(call: Call, query: RemindersQuery) -> ReminderPage:
    """The reminders that are open, or all that are known."""
    found = await read_reminders(call)
    return ReminderPage(reminders=[each for each in found if query.everything or each.status not in ENDED])


async def add_reminder(call: Call, body: NewReminder) -> ReminderAnswer:
    """Set a reminder; a time that is not clear is refused with its meanings."""
    text, reminder = await set_reminder(call, body.text, body.when)
    return ReminderAnswer(text=text, reminder=reminder)


async def cancel_reminder(call: Call) -> ReminderAnswer:
    """Cancel a reminder."""
    return await _change(call, "Cancel {}")


async def finish_reminder(call: Call) -> ReminderAnswer:
    """Mark a reminder as done; one that repeats goes on with its next time."""
    return await _change(call, "Mark {} as done")


async def snooze_reminder(call: Call, body: Snooze) -> ReminderAnswer:
    """Put a reminder off."""
    until = body.until.replace("{", "").replace("}", "").strip()
    return await _change(
        call, f"Snooze {{}} until {until}" if until else f"Snooze {{}} for {body.minutes} minutes"
    )


async def _change(call: Call, words: str) -> ReminderAnswer:
    text, reminder = await change_reminder(call, call.path["id"], words)
    return ReminderAnswer(text=text, reminder=reminder)


async def read_schedule(call: Call) -> Schedule:
    """What is going to happen by itself: reminders, briefings, jobs of the night, ends of goals."""
    settings = call.gateway.settings
    reminders, night = await asyncio.gather(
        read_reminders(call), asyncio.to_thread(read_night_queue, settings.state_dir / "job_queue")
    )
    running = call.gateway.index.store.goals(statuses=RUNNING, limit=MAX_GOALS)
    return Schedule(
        time_zone=settings.time_zone,
        upcoming=list_upcoming(
            reminders, night.jobs, [goal for _, goal in running], read_zone(settings.time_zone)
        ),
        reminders=[each for each in reminders if each.status not in ENDED],
        night=night,
    )


ENDPOINTS = (
    Endpoint("GET", REMINDERS, list_reminders, scope=Scope.READ, tag="schedule"),
    Endpoint("POST", REMINDERS, add_reminder, scope=Scope.SUBMIT, tag="schedule", status=201),
    Endpoint("DELETE", f"{REMINDERS}/{{id}}", cancel_reminder, scope=Scope.SUBMIT, tag="schedule"),
    Endpoint("POST", f"{REMINDERS}/{{id}}/done", finish_reminder, scope=Scope.SUBMIT, tag="schedule"),
    Endpoint("POST", f"{REMINDERS}/{{id}}/snooze", snooze_reminder, scope=Scope.SUBMIT, tag="schedule"),
    Endpoint("GET", f"{API}/schedule", read_schedule, scope=Scope.READ, tag="schedule"),
)
