"""What happens next, in the order of time."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import msgspec

from services.gateway.schedule.night_queue import NightJob, NightQueue
from services.gateway.schedule.orders import ScheduledGoal
from shared.clock import localize, parse_timestamp
from shared.contracts import Goal, Reminder, ReminderStatus
from shared.errors import ConfigError
from shared.log import logger
from shared.recurrence import describe_recurrence, parse_recurrence
from shared.tasks.profile import load_profile

NEXUS = Path(__file__).resolve().parents[2] / "nexus" / "profile.yaml"
WAITING = (ReminderStatus.SCHEDULED, ReminderStatus.SNOOZED)
BRIEFINGS = {"morning": "The morning briefing", "evening": "The evening briefing"}

log = logger(__name__)


class Upcoming(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is going to happen at ``at``: a reminder, a briefing, a job of the night, or the end of
    the time that a goal has. ``id`` is that of the reminder, job or goal; ``repeats`` says in English how
    often.
    """

    at: str
    kind: str
    title: str
    id: str = ""
    repeats: str = ""


def list_upcoming(
    reminders: Iterable[Reminder],
    night: NightQueue,
    goals: Iterable[Goal],
    zone: tzinfo | None,
    schedules: Iterable[ScheduledGoal] = (),
) -> list[Upcoming]:
    """All of it, the next first."""
    now = datetime.now(UTC)
    found = [*_briefings(now, zone)]
    found += [
        Upcoming(
            at=each.due_at,
            kind="reminder",
            title=each.text,
            id=each.reminder_id,
            repeats=describe_recurrence(parse_recurrence(each.repeats)) if each.repeats else "",
        )
        for each in reminders
        if each.status in WAITING
    ]
    found += [
        Upcoming(at=_due(job, night, zone, now), kind="job", title=job.task or job.id, id=job.id)
        for job in night.jobs
        if job.state == "waiting"
    ]
    found += [
        Upcoming(at=each.next_at, kind="goal", title=each.text, id=each.schedule_id, repeats=each.every)
        for each in schedules
        if each.next_at
    ]
    found += [
        Upcoming(at=goal.deadline, kind="deadline", title=goal.text, id=goal.goal_id)
        for goal in goals
        if goal.deadline
    ]
    return sorted(found, key=lambda each: parse_timestamp(each.at))


def _briefings(now: datetime, zone: tzinfo | None) -> Iterable[Upcoming]:
    try:
        options = load_profile(NEXUS).options
    except ConfigError as error:
        log.warning("briefings_unknown", reason=str(error))
        return
    for name, title in BRIEFINGS.items():
        hour, _, minute = str(options.get(name, "")).partition(":")
        if hour.isdecimal() and minute.isdecimal():
            at = _next_time(int(hour), int(minute), now, zone)
            yield Upcoming(
                at=at.isoformat(), kind="briefing", title=title, repeats=f"every day {hour}:{minute}"
            )


def _next_time(hour: int, minute: int, now: datetime, zone: tzinfo | None) -> datetime:
    today = now.astimezone(zone).replace(tzinfo=None, hour=hour, minute=minute, second=0, microsecond=0)
    moment = localize(today, zone)
    return (moment if moment > now else localize(today + timedelta(days=1), zone)).astimezone(UTC)


def _due(job: NightJob, night: NightQueue, zone: tzinfo | None, now: datetime) -> str:
    """When a job may begin: at its time, else at night; now, for one that waits for neither."""
    if night.window and not night.is_night and (job.when == "night" or not (job.run_at or job.when)):
        return night.begins_at
    try:
        moment = datetime.fromisoformat(job.run_at)
        return (moment if moment.tzinfo else localize(moment, zone)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        return now.isoformat()
