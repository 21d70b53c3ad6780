"""Reminders and goals as data: pure functions from one state to the next."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

import msgspec

from shared.clock import format_moment
from shared.contracts import Due, DueStatus
from shared.errors import ActionError
from shared.recurrence import next_occurrence, parse_recurrence
from shared.text.display import count, flatten
from shared.timetable import ENDED, KEPT, WAITING, due_time, move, to_timestamp

LATEST = timedelta(days=1)  # a run of a goal that is later than this is left out
PUNCTUAL = timedelta(minutes=1)  # what is later than this is said to be late
MAX_MISSED = 1_500  # missed runs are counted up to this: one each minute makes 1,440 a day


def next_time(item: Due, after: datetime, zone: tzinfo | None) -> datetime | None:
    """The first time of what repeats after ``after``; None if there is none."""
    return next_occurrence(parse_recurrence(item.repeats), after, zone) if item.repeats else None


def undo_change(items: Iterable[Due], undo: Sequence[Due], spoken: Sequence[str] = ()) -> list[Due]:
    """The items of the last change as they were before it, but for those that went off since.

    Raises ActionError if there is none, or if it was not of those ``spoken`` of.
    """
    known = {each.due_id: each for each in items}
    if spoken and not {each.due_id for each in undo} & set(spoken):
        raise ActionError("Another reminder was changed since, so that can no longer be undone")
    restored = [each for each in undo if each.due_id in known and known[each.due_id].runs == each.runs]
    if not restored:
        raise ActionError("There is no change of a reminder that could be undone")
    return restored


# --- reminders -----------------------------------------------------------------------------------


def fire(item: Due, now: datetime, zone: tzinfo | None) -> Due:
    """A reminder after it went off; a recurring one waits for its next time, missed ones are skipped."""
    fired = msgspec.structs.replace(
        item, status=DueStatus.FIRED, last_at=to_timestamp(now), runs=item.runs + 1
    )
    moment = next_time(item, max(now, due_time(item)), zone)
    return move(fired, moment) if moment else fired


def went_off(item: Due) -> bool:
    """Whether a reminder fired; what repeats waits again, but its last time can be put off."""
    return item.status is DueStatus.FIRED or bool(item.repeats and item.last_at)


def require_open(item: Due) -> None:
    """Raise ActionError if a reminder has ended."""
    if item.status in ENDED:
        raise ActionError(f"{format_short(item)} is {item.status}, so it cannot be put off", "Set a new one")


def end(item: Due, status: DueStatus) -> Due:
    """A reminder that is done or cancelled; raises ActionError if it has already ended in the other way.

    A recurring one is done for this time only: it stays, and fires again at its next time.
    """
    if item.status in ENDED and item.status is not status:
        raise ActionError(f"{format_short(item)} is {item.status} already", "Set a new one")
    if item.repeats and status is DueStatus.DONE:
        return item
    return msgspec.structs.replace(item, status=status)


def finish(item: Due, now: datetime, zone: tzinfo | None) -> Due:
    """Done, as in ``end``; the snoozed occurrence of a recurring one is dropped."""
    if item.repeats and item.last_at and item.status is DueStatus.SNOOZED:
        moment = next_time(item, now, zone)
        if moment:
            return move(item, moment)
    return end(item, DueStatus.DONE)


def format_short(item: Due) -> str:
    """The id and the beginning of the text of an item."""
    return f"{item.due_id} ({flatten(item.text, 60)})"


# --- goals ---------------------------------------------------------------------------------------


class Run(NamedTuple):
    """What a goal on a schedule becomes when it is due, and the moment of its run; None: none begins."""

    after: Due
    moment: datetime | None


def find_scheduled(goals: Iterable[Due], name: str) -> Due:
    """The one whose id ``name`` is or begins, else the one whose text has these words; raises ActionError."""
    words, kept = name.strip().lower(), [each for each in goals if each.status in KEPT]
    tests: tuple[Callable[[Due], bool], ...] = (
        lambda each: each.due_id == words,
        lambda each: each.due_id.startswith(words),
        lambda each: words in each.text.lower(),
    )
    for test in tests:
        found = [each for each in kept if words and test(each)]
        if len(found) == 1:
            return found[0]
        if found:
            named = "; ".join(format_short(each) for each in found[:5])
            raise ActionError(f"{name[:60]!r} may mean {len(found)} schedules: {named}", "Name one by its id")
    raise ActionError(f"There is no schedule {name[:60]!r}", "'mailroom schedule list' shows them")


def pause(item: Due) -> Due:
    """Without runs until it is resumed."""
    return msgspec.structs.replace(item, status=DueStatus.PAUSED)


def resume(item: Due, now: datetime, zone: tzinfo | None) -> Due:
    """With its next run after ``now``; raises ActionError if there is none left."""
    if item.status is DueStatus.WAITING:
        return item
    moment = next_time(item, now, zone)
    if moment is None:
        raise ActionError("It has no further run", "Add it again, with a later time")
    return move(item, moment)


def remove(item: Due) -> Due:
    """Without any further run."""
    return msgspec.structs.replace(item, status=DueStatus.CANCELLED)


def postpone(item: Due, until: datetime, why: str) -> Due:
    """With its run at ``until``."""
    return msgspec.structs.replace(move(item, until), note=f"The run waits: {why}")


def advance(item: Due, now: datetime, zone: tzinfo | None, held: str = "") -> Run:
    """A goal that is due, with its next run; the latest run that is due begins, and no other.

    It is left out if it is more than a day late, or if ``held`` says why it cannot begin.
    """
    latest, left_out = _latest(item, due_time(item), now, zone)
    if left_out == MAX_MISSED and (recent := next_time(item, now - LATEST, zone)) and recent <= now:
        latest = _latest(item, recent, now, zone)[0]
    upcoming = next_time(item, max(now, latest), zone)
    late = now - latest
    runs = late <= LATEST and not held
    note = _note(latest, left_out, late, held, zone) or ("" if runs else item.note)
    after = msgspec.structs.replace(item, missed=item.missed + left_out + (not runs), note=note)
    after = move(after, upcoming) if upcoming else msgspec.structs.replace(after, status=DueStatus.DONE)
    return Run(after, latest if runs else None)


def begun(item: Due, goal_id: str, now: datetime) -> Due:
    """With a run that began."""
    return msgspec.structs.replace(item, runs=item.runs + 1, last=goal_id, last_at=to_timestamp(now))


def list_next(item: Due, zone: tzinfo | None, most: int = 3) -> list[datetime]:
    """The next times of an item that waits, at most so many."""
    if item.status not in WAITING:
        return []
    moments = [due_time(item)]
    while len(moments) < most and (later := next_time(item, moments[-1], zone)):
        moments.append(later)
    return moments


def _latest(item: Due, due: datetime, now: datetime, zone: tzinfo | None) -> tuple[datetime, int]:
    """The last run from ``due`` on that is not after ``now``, and how many come before it (MAX_MISSED)."""
    before = 0
    while before < MAX_MISSED and (later := next_time(item, due, zone)) and later <= now:
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
