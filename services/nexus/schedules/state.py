"""Schedules as data: pure functions from one state to the next."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from shared.clock import format_moment, parse_timestamp
from shared.contracts import Schedule, Schedules, ScheduleStatus
from shared.errors import ActionError
from shared.recurrence import next_occurrence, parse_recurrence
from shared.text.phrases import count
from shared.text.shorten import flatten

MAX_ACTIVE = 200
"""The most schedules that go on or are paused."""
MAX_ENDED = 50
"""How many that ended or were removed are kept."""
LATEST = timedelta(days=1)
"""A run that is later than this is left out."""
PUNCTUAL = timedelta(minutes=1)
"""A run that is later than this is said to be late."""
MAX_MISSED = 1_500
"""Runs that were missed are counted up to this: one each minute makes 1,440 a day."""
KEPT = (ScheduleStatus.ACTIVE, ScheduleStatus.PAUSED)


class Run(msgspec.Struct, frozen=True):
    """What a schedule becomes when it is due, and the moment of the run that begins; None: none does."""

    after: Schedule
    moment: datetime | None


def add_schedule(before: Schedules, new: Schedule) -> Schedules:
    """With ``new``, once for each id; raises ActionError if there are too many."""
    if any(each.schedule_id == new.schedule_id for each in before.schedules):
        return before
    if sum(each.status in KEPT for each in before.schedules) >= MAX_ACTIVE:
        raise ActionError(
            f"There are {MAX_ACTIVE} schedules already", "Remove one: mailroom schedule remove ID"
        )
    return _kept((*before.schedules, new))


def replace_schedule(before: Schedules, changed: Schedule) -> Schedules:
    """With ``changed`` in the place of the one with its id."""
    return _kept(changed if each.schedule_id == changed.schedule_id else each for each in before.schedules)


def find_schedule(schedules: Schedules, name: str) -> Schedule:
    """The one whose id ``name`` is or begins, else the one whose text has these words; raises ActionError."""
    words, kept = name.strip().lower(), [each for each in schedules.schedules if each.status in KEPT]
    tests: tuple[Callable[[Schedule], bool], ...] = (
        lambda each: each.schedule_id == words,
        lambda each: each.schedule_id.startswith(words),
        lambda each: words in each.text.lower(),
    )
    for test in tests:
        found = [each for each in kept if words and test(each)]
        if len(found) == 1:
            return found[0]
        if found:
            named = "; ".join(f"{each.schedule_id} ({flatten(each.text, 60)})" for each in found[:5])
            raise ActionError(f"{name[:60]!r} may mean {len(found)} schedules: {named}", "Name one by its id")
    raise ActionError(f"There is no schedule {name[:60]!r}", "'mailroom schedule list' shows them")


def pause(schedule: Schedule) -> Schedule:
    """Without runs until it is resumed."""
    return msgspec.structs.replace(schedule, status=ScheduleStatus.PAUSED, next_at="")


def resume(schedule: Schedule, now: datetime, zone: tzinfo | None) -> Schedule:
    """With its next run after ``now``; raises ActionError if there is none left."""
    if schedule.status is ScheduleStatus.ACTIVE:
        return schedule
    moment = _next(schedule, now, zone)
    if moment is None:
        raise ActionError("It has no further run", "Add it again, with a later time")
    return msgspec.structs.replace(schedule, status=ScheduleStatus.ACTIVE, next_at=_stamp(moment))


def remove(schedule: Schedule) -> Schedule:
    """Without any further run."""
    return msgspec.structs.replace(schedule, status=ScheduleStatus.REMOVED, next_at="")


def postpone(schedule: Schedule, until: datetime, why: str) -> Schedule:
    """With its run at ``until``."""
    return msgspec.structs.replace(schedule, next_at=_stamp(until), note=f"The run waits: {why}")


def advance(schedule: Schedule, now: datetime, zone: tzinfo | None, held: str = "") -> Run:
    """``schedule``, which is due, with its next run; the latest run that is due begins, and no other.

    It is left out if it is more than a day late, or if ``held`` says why it cannot begin.
    """
    due = parse_timestamp(schedule.next_at)
    latest, left_out = _latest(schedule, due, now, zone)
    if left_out == MAX_MISSED and (recent := _next(schedule, now - LATEST, zone)) and recent <= now:
        latest = _latest(schedule, recent, now, zone)[0]
    upcoming = _next(schedule, max(now, latest), zone)
    late = now - latest
    runs = late <= LATEST and not held
    note = _note(latest, left_out, late, held, zone) or ("" if runs else schedule.note)
    after = msgspec.structs.replace(
        schedule,
        next_at=_stamp(upcoming) if upcoming else "",
        status=schedule.status if upcoming else ScheduleStatus.ENDED,
        missed=schedule.missed + left_out + (not runs),
        note=note,
    )
    return Run(after, latest if runs else None)


def begun(schedule: Schedule, goal_id: str, now: datetime) -> Schedule:
    """With a run that began."""
    return msgspec.structs.replace(schedule, runs=schedule.runs + 1, last_goal=goal_id, last_at=_stamp(now))


def list_next(schedule: Schedule, zone: tzinfo | None, most: int = 3) -> list[datetime]:
    """The next runs, at most so many."""
    if not schedule.next_at:
        return []
    moments = [parse_timestamp(schedule.next_at)]
    while len(moments) < most and (later := _next(schedule, moments[-1], zone)):
        moments.append(later)
    return moments


def _latest(schedule: Schedule, due: datetime, now: datetime, zone: tzinfo | None) -> tuple[datetime, int]:
    """The last run from ``due`` on that is not after ``now``, and how many come before it (MAX_MISSED)."""
    before = 0
    while before < MAX_MISSED and (later := _next(schedule, due, zone)) and later <= now:
        due, before = later, before + 1
    return due, before


def _note(latest: datetime, left_out: int, late: timedelta, held: str, zone: tzinfo | None) -> str:
    when = format_moment(latest, zone)
    if late > LATEST:
        return f"The run of {when} was left out: Mailroom was stopped for more than a day after it"
    if held:
        return f"The run of {when} was left out: {held}"
    missed = f"; {count(left_out, 'earlier run')} left out" if left_out else ""
    return f"The run of {when} began late, because Mailroom was stopped{missed}" if late > PUNCTUAL else ""


def _next(schedule: Schedule, after: datetime, zone: tzinfo | None) -> datetime | None:
    if not schedule.repeats:
        return None
    moment = next_occurrence(parse_recurrence(schedule.repeats), after, zone)
    return moment.astimezone(UTC) if moment else None


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def _kept(schedules: Iterable[Schedule]) -> Schedules:
    every = list(schedules)
    ended = [each.schedule_id for each in every if each.status not in KEPT]
    dropped = set(ended[: max(0, len(ended) - MAX_ENDED)])
    return Schedules(schedules=tuple(each for each in every if each.schedule_id not in dropped))
