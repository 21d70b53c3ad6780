"""Reminders: pure functions from how they stand to how they stand next."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from services.nexus.context import cut
from services.nexus.errand import strip_lead
from services.nexus.repeating import next_of, read_repeat, tell_repeat
from services.nexus.when import When, find_when, read_when
from services.nexus.wording import find_terms
from shared.clock import tell
from shared.contracts import Reminder, Reminders, ReminderStatus
from shared.errors import ActionError

MOST_OPEN = 1_000
"""The most reminders that may be waiting for their time."""
KEPT = 200
"""How many of those that went off or were ended are kept."""
MOST_TEXT = 1_000
"""The most characters of a reminder."""
SNOOZE = 30.0
"""Minutes for which a reminder is put off when nobody says how long."""
MOST_SNOOZE = 60.0 * 24 * 366
"""A year: what lies further off is set anew."""

WAITING = frozenset({ReminderStatus.SCHEDULED, ReminderStatus.SNOOZED})
ENDED = frozenset({ReminderStatus.ACKNOWLEDGED, ReminderStatus.CANCELLED})

_LINKS = re.compile(
    r"^(?:(?:please|for|to|that|about|of|on|at|and|,|:|-|–|—)(?=\s|$|,|:)\s*)+", re.IGNORECASE
)


def read_reminder(text: str, when: str, now: datetime, zone: tzinfo | None) -> When:
    """What to be reminded of and when, from plain words, or from ``when`` where that is given.

    Raises ActionError, which asks back, where either is missing or can be read in two ways.
    """
    if len(text) > 4 * MOST_TEXT:
        raise ActionError(f"A reminder has at most {MOST_TEXT:,} characters, and this one {len(text):,}")
    text = strip_lead(text)
    if when.strip():
        found = msgspec.structs.replace(read_when(when, now, zone), rest=text)
    else:
        found = find_when(text, now, zone)
    what = _LINKS.sub("", found.rest.strip(" \t\n,;:")).strip(" \t\n,;:?")
    what = re.sub(r"[\s,]+(?:please|thanks|thank you)\W*$", "", what, flags=re.IGNORECASE).strip()
    if not re.search(r"\w", what):
        raise ActionError(
            f"That names a time, {tell(found.moment, zone)}, but not what to be reminded of",
            "Say it in one sentence, such as 'remind me to call Ana tomorrow at 9'",
        )
    if len(what) > MOST_TEXT:
        raise ActionError(f"A reminder has at most {MOST_TEXT:,} characters, and this one {len(what):,}")
    return msgspec.structs.replace(found, rest=what)


def to_wire(moment: datetime) -> str:
    """``moment`` as contracts hold it: ISO 8601 in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def due_of(reminder: Reminder) -> datetime:
    """When a reminder goes off, or went off last."""
    moment = datetime.fromisoformat(reminder.due_at)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def add(reminders: Reminders, reminder: Reminder) -> Reminders:
    """With one more; the same where it is there already. Raises ActionError where there are MOST_OPEN."""
    if any(each.reminder_id == reminder.reminder_id for each in reminders.reminders):
        return reminders
    if sum(each.status in WAITING for each in reminders.reminders) >= MOST_OPEN:
        raise ActionError(
            f"{MOST_OPEN:,} reminders are waiting for their time, and more are not taken",
            "Cancel some: 'mailroom reminders list' shows them",
        )
    return _with([*reminders.reminders, reminder])


def replace(reminders: Reminders, reminder: Reminder) -> Reminders:
    """With ``reminder`` in place of the one of its id."""
    return _with(
        reminder if each.reminder_id == reminder.reminder_id else each for each in reminders.reminders
    )


def _with(all_of_them: Iterable[Reminder]) -> Reminders:
    kept = list(all_of_them)
    old = [each for each in kept if each.status not in WAITING]
    surplus = {each.reminder_id for each in old[: max(0, len(old) - KEPT)]}
    return Reminders(reminders=tuple(each for each in kept if each.reminder_id not in surplus))


def fire(reminder: Reminder, now: datetime, zone: tzinfo | None) -> Reminder:
    """After it went off; one that repeats waits for its next time, without those that were missed."""
    fired = msgspec.structs.replace(reminder, status=ReminderStatus.FIRED, fired_at=to_wire(now))
    if not reminder.repeats:
        return fired
    due = next_of(read_repeat(reminder.repeats), max(now, due_of(reminder)), zone)
    return msgspec.structs.replace(
        fired, status=ReminderStatus.SCHEDULED, due_at=to_wire(due), count=reminder.count + 1
    )


def snooze(reminder: Reminder, now: datetime, minutes: float) -> Reminder:
    """Put off: from now on where it went off, else from when it was due. Raises ActionError.

    Of one that repeats the time that was told last is put off, and comes before the next.
    """
    if not 0 < minutes <= MOST_SNOOZE:
        raise ActionError(f"A reminder is put off by up to a year, not by {minutes:g} minutes")
    went_off = reminder.status is ReminderStatus.FIRED or bool(reminder.repeats and reminder.fired_at)
    start = now if went_off else max(now, due_of(reminder))
    return put_off(reminder, start + timedelta(minutes=minutes))


def put_off(reminder: Reminder, until: datetime) -> Reminder:
    """Put off until a moment; raises ActionError where it is ended."""
    if reminder.status in ENDED:
        raise ActionError(
            f"{name(reminder)} is {_ending(reminder)}, so it cannot be put off", "Set a new one"
        )
    return msgspec.structs.replace(
        reminder, status=ReminderStatus.SNOOZED, due_at=to_wire(until), count=reminder.count + 1
    )


def end(reminder: Reminder, status: ReminderStatus) -> Reminder:
    """Done or cancelled; raises ActionError where it is the other of the two already.

    One that repeats is done for this time: it stays, and goes off again at its next.
    """
    if reminder.status in ENDED and reminder.status is not status:
        raise ActionError(f"{name(reminder)} is {_ending(reminder)} already", "Set a new one")
    if reminder.repeats and status is ReminderStatus.ACKNOWLEDGED:
        return reminder
    return msgspec.structs.replace(reminder, status=status)


def finish(reminder: Reminder, now: datetime, zone: tzinfo | None) -> Reminder:
    """Done, as ``end`` has it; where one that repeats went off and was put off, that time is dropped."""
    if reminder.repeats and reminder.fired_at and reminder.status is ReminderStatus.SNOOZED:
        due = next_of(read_repeat(reminder.repeats), now, zone)
        return msgspec.structs.replace(
            reminder, status=ReminderStatus.SCHEDULED, due_at=to_wire(due), count=reminder.count + 1
        )
    return end(reminder, ReminderStatus.ACKNOWLEDGED)


def _ending(reminder: Reminder) -> str:
    return "done" if reminder.status is ReminderStatus.ACKNOWLEDGED else str(reminder.status)


def find_one(reminders: Reminders, words: str, *, among: frozenset[ReminderStatus]) -> Reminder:
    """The reminder ``words`` mean: its id, the beginning of it, or words of its text.

    Those that stand as in ``among`` go first, then those that are not ended. Raises ActionError where it is
    none, or more than one.
    """
    wanted = words.strip()
    if not wanted:
        raise ActionError("That does not say which reminder", "'mailroom reminders list' shows their ids")
    for pool in (
        [each for each in reminders.reminders if each.status in among],
        [each for each in reminders.reminders if each.status not in ENDED],
        list(reminders.reminders),
    ):
        found = _by_id(pool, wanted) or _by_words(pool, wanted)
        if len(found) == 1:
            return found[0]
        if found:
            told = "; ".join(map(name, found[:5]))
            raise ActionError(
                f"{wanted[:60]!r} may mean {len(found)} reminders: {told}", "Name one by its id"
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


def name(reminder: Reminder) -> str:
    """Its id and text, as people are told which is meant."""
    return f"{reminder.reminder_id} ({cut(' '.join(reminder.text.split()), 60)})"


def describe(reminder: Reminder, zone: tzinfo | None) -> str:
    """One line about a reminder."""
    due = tell(due_of(reminder), zone)
    how = {
        ReminderStatus.SCHEDULED: f"goes off on {due}",
        ReminderStatus.SNOOZED: f"put off until {due}",
        ReminderStatus.FIRED: f"went off; it was due on {due}",
        ReminderStatus.ACKNOWLEDGED: "done",
        ReminderStatus.CANCELLED: "cancelled",
    }[reminder.status]
    again = reminder.repeats and reminder.status not in ENDED
    every = f", {tell_repeat(read_repeat(reminder.repeats))}" if again else ""
    return f"{reminder.reminder_id}: {reminder.text}: {how}{every}"
