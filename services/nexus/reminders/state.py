"""Reminders as data: what a request means, and pure functions from one state to the next."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from services.nexus.reminders.intents import strip_request
from services.nexus.reminders.recurrence import decode_recurrence, format_recurrence, next_occurrence
from services.nexus.reminders.time_parser import ParsedTime, find_time, parse_time
from shared.clock import format_moment, parse_timestamp
from shared.contracts import Reminder, Reminders, ReminderStatus
from shared.errors import ActionError
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

_LINKS = re.compile(r"(?i)^(?:(?:please|for|to|that|about|of|on|at|and|,|:|-|–|—)(?=\s|$|,|:)\s*)+")


def parse_reminder(text: str, when: str, now: datetime, zone: tzinfo | None) -> ParsedTime:
    """The text and time of a reminder in plain words; the time is in ``when`` if that is not empty.

    Raises ActionError, with a question to the person, if either is missing or ambiguous.
    """
    if len(text) > 4 * MAX_REMINDER:
        raise ActionError(f"A reminder has at most {MAX_REMINDER:,} characters, and this one {len(text):,}")
    text = strip_request(text)
    if when.strip():
        found = msgspec.structs.replace(parse_time(when, now, zone), rest=text)
    else:
        found = find_time(text, now, zone)
    what = _LINKS.sub("", found.rest.strip(" \t\n,;:")).strip(" \t\n,;:?")
    what = re.sub(r"[\s,]+(?:please|thanks|thank you)\W*$", "", what, flags=re.IGNORECASE).strip()
    if not re.search(r"\w", what):
        raise ActionError(
            f"That names a time, {format_moment(found.moment, zone)}, but not what to be reminded of",
            "Say it in one sentence, such as 'remind me to call Ana tomorrow at 9'",
        )
    if len(what) > MAX_REMINDER:
        raise ActionError(f"A reminder has at most {MAX_REMINDER:,} characters, and this one {len(what):,}")
    return msgspec.structs.replace(found, rest=what)


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
    return _without_oldest([*reminders.reminders, reminder])


def replace_reminder(reminders: Reminders, reminder: Reminder) -> Reminders:
    """With ``reminder`` in place of the one with its id."""
    return _without_oldest(
        reminder if each.reminder_id == reminder.reminder_id else each for each in reminders.reminders
    )


def _without_oldest(candidates: Iterable[Reminder]) -> Reminders:
    reminders = list(candidates)
    old = [each for each in reminders if each.status not in WAITING]
    surplus = {each.reminder_id for each in old[: max(0, len(old) - MAX_ENDED)]}
    return Reminders(reminders=tuple(each for each in reminders if each.reminder_id not in surplus))


def fire(reminder: Reminder, now: datetime, zone: tzinfo | None) -> Reminder:
    """The reminder after it fired; a recurring one waits for its next time, missed ones are skipped."""
    fired = msgspec.structs.replace(reminder, status=ReminderStatus.FIRED, fired_at=to_timestamp(now))
    if not reminder.repeats:
        return fired
    due = next_occurrence(decode_recurrence(reminder.repeats), max(now, due_time(reminder)), zone)
    return _rescheduled(fired, ReminderStatus.SCHEDULED, due)


def _rescheduled(reminder: Reminder, status: ReminderStatus, due: datetime) -> Reminder:
    return msgspec.structs.replace(
        reminder, status=status, due_at=to_timestamp(due), count=reminder.count + 1
    )


def snooze(reminder: Reminder, now: datetime, minutes: float) -> Reminder:
    """Snoozed by ``minutes`` from ``now`` if it fired, else from when it was due. Raises ActionError.

    For a recurring one the last occurrence is snoozed, and comes again before the next.
    """
    if not 0 < minutes <= MAX_SNOOZE:
        raise ActionError(f"A reminder is put off by up to a year, not by {minutes:g} minutes")
    went_off = reminder.status is ReminderStatus.FIRED or bool(reminder.repeats and reminder.fired_at)
    start = now if went_off else max(now, due_time(reminder))
    return snooze_until(reminder, start + timedelta(minutes=minutes))


def snooze_until(reminder: Reminder, until: datetime) -> Reminder:
    """Snoozed until a moment; raises ActionError if it has ended."""
    if reminder.status in ENDED:
        raise ActionError(
            f"{format_short(reminder)} is {_format_ending(reminder)}, so it cannot be put off",
            "Set a new one",
        )
    return _rescheduled(reminder, ReminderStatus.SNOOZED, until)


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
        due = next_occurrence(decode_recurrence(reminder.repeats), now, zone)
        return _rescheduled(reminder, ReminderStatus.SCHEDULED, due)
    return end(reminder, ReminderStatus.ACKNOWLEDGED)


def _format_ending(reminder: Reminder) -> str:
    return "done" if reminder.status is ReminderStatus.ACKNOWLEDGED else str(reminder.status)


def find_reminder(reminders: Reminders, words: str, *, preferred: frozenset[ReminderStatus]) -> Reminder:
    """The reminder that ``words`` identify: by id, the beginning of it, or words of its text.

    Reminders with a ``preferred`` status go first, then those that have not ended. Raises ActionError if none
    or several match.
    """
    wanted = words.strip()
    if not wanted:
        raise ActionError("That does not say which reminder", "'mailroom reminders list' shows their ids")
    for pool in (
        [each for each in reminders.reminders if each.status in preferred],
        [each for each in reminders.reminders if each.status not in ENDED],
        list(reminders.reminders),
    ):
        found = _by_id(pool, wanted) or _by_words(pool, wanted)
        if len(found) == 1:
            return found[0]
        if found:
            named = "; ".join(map(format_short, found[:5]))
            raise ActionError(
                f"{wanted[:60]!r} may mean {len(found)} reminders: {named}", "Name one by its id"
            )
    raise ActionError(
        f"There is no reminder {wanted[:60]!r}", "'mailroom reminders list' shows those there are"
    )


def _by_id(pool: Sequence[Reminder], wanted: str) -> list[Reminder]:
    exact = [each for each in pool if each.reminder_id == wanted.lower()]
    return exact or [each for each in pool if len(wanted) > 2 and each.reminder_id.startswith(wanted.lower())]


def _by_words(pool: Sequence[Reminder], wanted: str) -> list[Reminder]:
    terms = find_terms(wanted).keys()
    return [each for each in pool if terms and terms <= find_terms(each.text).keys()]


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
    every = f", {format_recurrence(decode_recurrence(reminder.repeats))}" if again else ""
    return f"{reminder.reminder_id}: {reminder.text}: {how}{every}"
