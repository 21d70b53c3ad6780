"""Reminders, and what else is going to happen by itself."""

import asyncio
from typing import Annotated

import msgspec

from services.gateway.context import Call
from services.gateway.desk.sessions import Answer
from services.gateway.routing import Endpoint
from services.gateway.schedule.night_queue import NightQueue, read_night_queue
from services.gateway.schedule.orders import (
    ScheduledGoal,
    add_job,
    add_schedule,
    change_job,
    change_schedule,
    read_schedules,
)
from services.gateway.schedule.reminders import ENDED, change_reminder, read_reminders, set_reminder
from services.gateway.schedule.upcoming import Upcoming, list_upcoming
from services.gateway.security.scopes import Scope
from shared.clock import read_zone
from shared.contracts import Reminder, TaskStatus
from shared.queries.spending import read_night_state

API = "/api/v1"
REMINDERS = f"{API}/reminders"
SCHEDULES = f"{API}/schedules"
JOBS = f"{API}/night/jobs"
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


class NewReminder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to be reminded of; ``when`` if the text has no time: "tomorrow at 9" or ISO 8601."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    when: Phrase = ""


class Snooze(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Until when a reminder is snoozed: minutes from now, or a time such as "tomorrow at 9" or ISO 8601."""

    minutes: Annotated[int, msgspec.Meta(ge=1, le=525_600)] = 30
    until: Phrase = ""


class ReminderAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A reminder as it is now, and what the front desk says about it."""

    text: str
    reminder: Reminder


When = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Goal = Annotated[str, msgspec.Meta(min_length=1, max_length=20_000)]


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A goal, and when it runs: ``every weekday at 7`` or the like, or a rule of RFC 5545."""

    text: Goal
    when: When


class SchedulePage(msgspec.Struct, frozen=True, kw_only=True):
    """The goals on a schedule, the next one first."""

    schedules: list[ScheduledGoal]


class ScheduleAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A goal on a schedule, and what the front desk says about it."""

    text: str
    schedule: ScheduledGoal


class NewJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job; ``when`` is ``night``, ``now``, or a time such as "tomorrow at 2" or ISO 8601."""

    text: Goal
    when: When = "night"


class JobAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The id of a job, and what the front desk says about it."""

    text: str
    id: str


class OrderAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the front desk says; ``goal_id`` is the goal that began, if one did."""

    text: str
    goal_id: str = ""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """What happens next, the open reminders, the goals on a schedule, and the night's queue.

    ``time_zone`` is that of the office.
    """

    time_zone: str
    upcoming: list[Upcoming]
    reminders: list[Reminder]
    schedules: list[ScheduledGoal]
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


async def list_schedules(call: Call) -> SchedulePage:
    """The goals on a schedule, those that are paused too."""
    return SchedulePage(schedules=await read_schedules(call))


async def put_on_schedule(call: Call, body: NewSchedule) -> ScheduleAnswer:
    """Put a goal on a schedule; a time that is not clear is refused with a question."""
    text, schedule = await add_schedule(call, body.when, body.text)
    return ScheduleAnswer(text=text, schedule=schedule)


async def remove_schedule(call: Call) -> OrderAnswer:
    """Remove a goal from the schedule; a run that has begun goes on."""
    return _told(await change_schedule(call, "remove"))


async def pause_schedule(call: Call) -> OrderAnswer:
    """Pause a goal on a schedule."""
    return _told(await change_schedule(call, "pause"))


async def resume_schedule(call: Call) -> OrderAnswer:
    """Have a goal that is paused go on with its next run."""
    return _told(await change_schedule(call, "resume"))


async def run_schedule(call: Call) -> OrderAnswer:
    """Begin a run now; the further runs stay as they are."""
    return _told(await change_schedule(call, "run"))


async def queue_job(call: Call, body: NewJob) -> JobAnswer:
    """Put a job into the night's queue."""
    text, job_id = await add_job(call, body.when, body.text)
    return JobAnswer(text=text, id=job_id)


async def remove_job(call: Call) -> OrderAnswer:
    """Take a job out of the night's queue; one that runs is cancelled."""
    return _told(await change_job(call, "remove"))


async def run_job(call: Call) -> OrderAnswer:
    """Begin a job now, whatever it waits for."""
    return _told(await change_job(call, "run"))


def _told(answer: Answer) -> OrderAnswer:
    return OrderAnswer(text=answer.text, goal_id=answer.goal_id)


async def read_schedule(call: Call) -> Schedule:
    """What is going to happen by itself: reminders, goals, briefings, jobs of the night, ends of goals."""
    settings = call.gateway.settings
    state = await read_night_state(call.gateway.bus)
    reminders, schedules, night = await asyncio.gather(
        read_reminders(call), read_schedules(call), asyncio.to_thread(read_night_queue, settings, state)
    )
    running = call.gateway.index.store.goals(statuses=RUNNING, limit=MAX_GOALS)
    return Schedule(
        time_zone=settings.time_zone,
        upcoming=list_upcoming(
            reminders, night, [goal for _, goal in running], read_zone(settings.time_zone), schedules
        ),
        reminders=[each for each in reminders if each.status not in ENDED],
        schedules=schedules,
        night=night,
    )


ENDPOINTS = (
    Endpoint("GET", REMINDERS, list_reminders, scope=Scope.READ, tag="schedule"),
    Endpoint("POST", REMINDERS, add_reminder, scope=Scope.SUBMIT, tag="schedule", status=201),
    Endpoint("DELETE", f"{REMINDERS}/{{id}}", cancel_reminder, scope=Scope.SUBMIT, tag="schedule"),
    Endpoint("POST", f"{REMINDERS}/{{id}}/done", finish_reminder, scope=Scope.SUBMIT, tag="schedule"),
    Endpoint("POST", f"{REMINDERS}/{{id}}/snooze", snooze_reminder, scope=Scope.SUBMIT, tag="schedule"),
    Endpoint("GET", SCHEDULES, list_schedules, scope=Scope.READ, tag="schedule"),
    Endpoint("POST", SCHEDULES, put_on_schedule, scope=Scope.SUBMIT, tag="schedule", status=201),
    Endpoint("DELETE", f"{SCHEDULES}/{{id}}", remove_schedule, scope=Scope.SUBMIT, tag="schedule"),
    Endpoint("POST", f"{SCHEDULES}/{{id}}/pause", pause_schedule, scope=Scope.SUBMIT, tag="schedule"),
    Endpoint("POST", f"{SCHEDULES}/{{id}}/resume", resume_schedule, scope=Scope.SUBMIT, tag="schedule"),
    Endpoint("POST", f"{SCHEDULES}/{{id}}/run", run_schedule, scope=Scope.SUBMIT, tag="schedule"),
    Endpoint("POST", JOBS, queue_job, scope=Scope.SUBMIT, tag="schedule", status=201),
    Endpoint("DELETE", f"{JOBS}/{{id}}", remove_job, scope=Scope.SUBMIT, tag="schedule"),
    Endpoint("POST", f"{JOBS}/{{id}}/run", run_job, scope=Scope.SUBMIT, tag="schedule"),
    Endpoint("GET", f"{API}/schedule", read_schedule, scope=Scope.READ, tag="schedule"),
)
