"""Reminders as data: which one is meant, and pure functions from one state to the next."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo

import msgspec

from shared.clock import format_moment, parse_timestamp
from shared.contracts import Reminder, Reminders, ReminderStatus
from shared.errors import ActionError
from shared.language.times.clocks import read_clocks
from shared.language.times.days import UnclearTime, find_day, read_day
from shared.language.times.time_parser import choose
from shared.recurrence import describe_recurrence, next_occurrence, parse_recurrence
from shared.text.shorten import flatten
from shared.text.words import find_terms

MAX_OPEN = 1_000
"""The most reminders that may be waiting for their time."""
MAX_ENDED = 200
"""How many reminders that fired or ended are kept."""
MAX_REMINDER = 1_000
"""The most characters of a reminder."""
DEFAULT_SNOOZE = 30.0
"""Minutes to snooze if the request does not say how long."""
MAX_SNOOZE = 60.0 * 24 * 366
"""The most minutes to snooze: a year."""

WAITING = frozenset({ReminderStatus.SCHEDULED, ReminderStatus.SNOOZED})
ENDED = frozenset({ReminderStatus.ACKNOWLEDGED, ReminderStatus.CANCELLED})
OPEN = WAITING | {ReminderStatus.FIRED}


def to_timestamp(moment: datetime) -> str:
    """``moment`` as contracts store it: ISO 8601 in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def due_time(reminder: Reminder) -> datetime:
    """When a reminder fires next, or fired last."""
    return parse_timestamp(reminder.due_at)


def add_reminder(reminders: Reminders, reminder: Reminder) -> Reminders:
    """With ``reminder`` added, unless its id is there; raises ActionError if MAX_OPEN reminders wait."""
    if any(each.reminder_id == reminder.reminder_id for each in reminders.reminders):
        return reminders
    if sum(each.status in WAITING for each in reminders.reminders) >= MAX_OPEN:
        raise ActionError(
            f"{MAX_OPEN:,} reminders are waiting for their time, and more are not taken",
            "Cancel some: 'mailroom reminders list' shows them",
        )
    undone = msgspec.structs.replace(reminder, status=ReminderStatus.CANCELLED)
    return msgspec.structs.replace(
        reminders, reminders=_without_oldest([*reminders.reminders, reminder]), undo=(undone,)
    )


def replace_reminder(reminders: Reminders, reminder: Reminder) -> Reminders:
    """With ``reminder`` in place of the one with its id."""
    return msgspec.structs.replace(
        reminders,
        reminders=_without_oldest(
            reminder if each.reminder_id == reminder.reminder_id else each for each in reminders.reminders
        ),
    )


def undo_change(reminders: Reminders, spoken: Sequence[str] = ()) -> tuple[Reminders, list[Reminder]]:
    """The reminders of the last change as they were, and these.

    Raises ActionError if there is none, or if it was not of those ``spoken`` of.
    """
    known = {each.reminder_id: each for each in reminders.reminders}
    if spoken and not {each.reminder_id for each in reminders.undo} & set(spoken):
        raise ActionError("Another reminder was changed since, so that can no longer be undone")
    restored = [
        msgspec.structs.replace(each, count=known[each.reminder_id].count + 1)
        for each in reminders.undo
        if each.reminder_id in known
    ]
    if not restored:
        raise ActionError("There is no change of a reminder that could be undone")
    for each in restored:
        reminders = replace_reminder(reminders, each)
    return msgspec.structs.replace(reminders, undo=()), restored


def _without_oldest(candidates: Iterable[Reminder]) -> tuple[Reminder, ...]:
    reminders = list(candidates)
    old = [each for each in reminders if each.status not in WAITING]
    surplus = {each.reminder_id for each in old[: max(0, len(old) - MAX_ENDED)]}
    return tuple(each for each in reminders if each.reminder_id not in surplus)


def fire(reminder: Reminder, now: datetime, zone: tzinfo | None) -> Reminder:
    """The reminder after it fired; a recurring one waits for its next time, missed ones are skipped."""
    fired = msgspec.structs.replace(reminder, status=ReminderStatus.FIRED, fired_at=to_timestamp(now))
    if not reminder.repeats:
        return fired
    due = next_occurrence(parse_recurrence(reminder.repeats), max(now, due_time(reminder)), zone)
    return reschedule(fired, ReminderStatus.SCHEDULED, due) if due else fired


def reschedule(reminder: Reminder, status: ReminderStatus, due: datetime) -> Reminder:
    """Waiting for another time."""
    return msgspec.structs.replace(
        reminder, status=status, due_at=to_timestamp(due), count=reminder.count + 1
    )


def went_off(reminder: Reminder) -> bool:
    """Whether it fired; what repeats waits again, but its last time can be put off."""
    return reminder.status is ReminderStatus.FIRED or bool(reminder.repeats and reminder.fired_at)


def require_open(reminder: Reminder) -> None:
    """Raise ActionError if it has ended."""
    if reminder.status in ENDED:
        raise ActionError(
            f"{format_short(reminder)} is {_format_ending(reminder)}, so it cannot be put off",
            "Set a new one",
        )


def end(reminder: Reminder, status: ReminderStatus) -> Reminder:
    """Done or cancelled; raises ActionError if it has already ended in the other way.

    A recurring one is done for this time only: it stays, and fires again at its next time.
    """
    if reminder.status in ENDED and reminder.status is not status:
        raise ActionError(f"{format_short(reminder)} is {_format_ending(reminder)} already", "Set a new one")
    if reminder.repeats and status is ReminderStatus.ACKNOWLEDGED:
        return reminder
    return msgspec.structs.replace(reminder, status=status)


def finish(reminder: Reminder, now: datetime, zone: tzinfo | None) -> Reminder:
    """Done, as in ``end``; the snoozed occurrence of a recurring one is dropped."""
    if reminder.repeats and reminder.fired_at and reminder.status is ReminderStatus.SNOOZED:
        due = next_occurrence(parse_recurrence(reminder.repeats), now, zone)
        if due:
            return reschedule(reminder, ReminderStatus.SCHEDULED, due)
    return end(reminder, ReminderStatus.ACKNOWLEDGED)


def _format_ending(reminder: Reminder) -> str:
    return "done" if reminder.status is ReminderStatus.ACKNOWLEDGED else str(reminder.status)


def find_reminders(
    reminders: Reminders, words: str, *, preferred: frozenset[ReminderStatus], zone: tzinfo | None
) -> list[Reminder]:
    """The reminders that ``words`` may mean: by id, the beginning of it, words of the text, or the time.

    Those with a ``preferred`` status go first, then those that have not ended. Raises ActionError if none is.
    """
    wanted = words.strip()
    if not wanted:
        raise ActionError("That does not say which reminder", "'mailroom reminders list' shows their ids")
    for matches in (_by_ids, _by_words, _by_time, _by_some_words):
        for pool in (
            [each for each in reminders.reminders if each.status in preferred],
            [each for each in reminders.reminders if each.status not in ENDED],
            list(reminders.reminders),
        ):
            if found := matches(pool, wanted, zone):
                return found
    raise ActionError(
        f"There is no reminder {wanted[:60]!r}", "'mailroom reminders list' shows those there are"
    )


def _by_ids(pool: Sequence[Reminder], wanted: str, _: tzinfo | None) -> list[Reminder]:
    words = wanted.lower().split()
    if exact := [each for each in pool if each.reminder_id in words]:
        return exact
    return [each for each in pool if len(wanted) > 2 and each.reminder_id.startswith(wanted.lower())]


def _by_words(pool: Sequence[Reminder], wanted: str, _: tzinfo | None) -> list[Reminder]:
    terms = find_terms(wanted).keys()
    return [each for each in pool if terms and terms <= find_terms(each.text).keys()]


def _by_some_words(pool: Sequence[Reminder], wanted: str, _: tzinfo | None) -> list[Reminder]:
    terms = find_terms(wanted).keys()
    shared = [(len(terms & find_terms(each.text).keys()), each) for each in pool]
    most = max((number for number, _ in shared), default=0)
    return [each for number, each in shared if number == most and 2 * number >= len(terms) > 0]


def _by_time(pool: Sequence[Reminder], wanted: str, zone: tzinfo | None) -> list[Reminder]:
    """Those that are due on the day, or at the time of day, that is all ``wanted`` names."""
    phrases = next((each for each in map(choose, (wanted, f"at {wanted}")) if each.chosen), None)
    if phrases is None or re.search(r"\w", phrases.rest):
        return []
    wall = datetime.now(UTC).astimezone(zone).replace(tzinfo=None)
    today = wall.date()
    try:
        days = {find_day(read_day(each, today), today) for each in phrases["day"]}
        clocks = [clock for each in phrases["clock"] for clock in read_clocks(each, wall)]
    except (UnclearTime, ValueError):
        return []
    hours = {
        (hour % 24, each.minute)
        for each in clocks
        for hour in (each.hour, *(() if each.sure else (each.hour + 12,)))
    }
    found = []
    for each in pool:
        due = due_time(each).astimezone(zone)
        if (
            (days or hours)
            and (not days or due.date() in days)
            and (not hours or (due.hour, due.minute) in hours)
        ):
            found.append(each)
    return found


def format_short(reminder: Reminder) -> str:
    """The id and the beginning of the text of a reminder."""
    return f"{reminder.reminder_id} ({flatten(reminder.text, 60)})"


def format_reminder(reminder: Reminder, zone: tzinfo | None) -> str:
    """One line about a reminder."""
    due = format_moment(due_time(reminder), zone)
    how = {
        ReminderStatus.SCHEDULED: f"goes off on {due}",
        ReminderStatus.SNOOZED: f"moved to {due}",
        ReminderStatus.FIRED: f"went off; it was due on {due}",
        ReminderStatus.ACKNOWLEDGED: "done",
        ReminderStatus.CANCELLED: "cancelled",
    }[reminder.status]
    again = reminder.repeats and reminder.status not in ENDED
    every = f", {describe_recurrence(parse_recurrence(reminder.repeats))}" if again else ""
    return f"{reminder.reminder_id}: {reminder.text}: {how}{every}"
