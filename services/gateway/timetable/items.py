"""What happens by itself, as one list: the timetable's items, jobs of the night, the ends of goals' time."""

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo

from shared.clock import localize, parse_timestamp
from shared.contracts import Due, Goal
from shared.recurrence import describe_recurrence, parse_recurrence
from shared.timetable import list_next
from shared.views.listed import Item, NightJob, NightQueue


def view_due(due: Due, zone: tzinfo | None) -> Item:
    """An item of the timetable as people see it."""
    return Item(
        id=due.due_id,
        what=due.what.value,
        text=due.text,
        at=due.at,
        status=due.status.value,
        every=describe_recurrence(parse_recurrence(due.repeats)) if due.repeats else "",
        next_runs=[moment.isoformat() for moment in list_next(due, zone)],
        runs=due.runs,
        missed=due.missed,
        last_at=due.last_at,
        last=due.last,
        note=due.note,
        due=due,
    )


def list_items(
    dues: Iterable[Due], night: NightQueue, goals: Iterable[Goal], zone: tzinfo | None
) -> list[Item]:
    """All of it: what is going to happen, the next first, then the rest."""
    now = datetime.now(UTC)
    items = [view_due(each, zone) for each in dues]
    items += [
        Item(id=job.id, what="job", text=job.task or job.id, at=_begins(job, night, zone, now))
        for job in night.jobs
        if job.state == "waiting"
    ]
    items += [
        Item(id=goal.goal_id, what="deadline", text=goal.text, at=goal.deadline)
        for goal in goals
        if goal.deadline
    ]
    return sorted(items, key=lambda each: (not each.waits, parse_timestamp(each.at)))


def _begins(job: NightJob, night: NightQueue, zone: tzinfo | None, now: datetime) -> str:
    """When a job may begin: at its time, else at night; now, for one that waits for neither."""
    if night.window and not night.is_night and (job.when == "night" or not (job.run_at or job.when)):
        return night.begins_at
    try:
        moment = datetime.fromisoformat(job.run_at)
        return (moment if moment.tzinfo else localize(moment, zone)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        return now.isoformat()
