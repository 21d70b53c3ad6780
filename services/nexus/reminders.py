"""Reminders: pure functions from how they stand to how they stand next."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from services.nexus.context import cut
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

_LEAD = re.compile(
    r"^\W*(?:(?:hey|hi|hello|ok|okay|please|kindly|and|also)\b[\s,]*)*"
    r"(?:(?:can|could|would|will)\s+you\s+(?:please\s+)?|(?:i\s+)?(?:want|need)\s+(?:you\s+)?(?:to\s+)?)?"
    r"(?:remind\s+(?:me|us)|(?:(?:set|create|add|make|schedule|give\s+me|i\s+need|new)\s+)?(?:up\s+)?(?:me\s+)?"
    r"(?:a\s+|an\s+|the\s+|another\s+|new\s+)*reminder)\b(?:\s+for\s+(?:me|us))?\s*[:,-]?",
    re.IGNORECASE,
)
_LINKS = re.compile(
    r"^(?:(?:please|for|to|that|about|of|on|at|and|,|:|-|–|—)(?=\s|$|,|:)\s*)+", re.IGNORECASE
)


def read_reminder(text: str, when: str, now: datetime, zone: tzinfo | None) -> When:
    """What to be reminded of and when, from plain words, or from ``when`` where that is given.

    Raises ActionError, which asks back, where either is missing or can be read in two ways.
    """
    if len(text) > 4 * MOST_TEXT:
        raise ActionError(f"A reminder has at most {MOST_TEXT:,} characters, and this one {len(text):,}")
    text = _LEAD.sub("", text, count=1).strip() if _LEAD.search(text) else text.strip()
    found = When(moment=read_when(when, now, zone), rest=text) if when.strip() else find_when(text, now, zone)
    what = _LINKS.sub("", found.rest.strip(" \t\n,;:")).strip(" \t\n,;:?")
    what = re.sub(r"[\s,]+(?:please|thanks|thank you)\W*$", "", what, flags=re.IGNORECASE).strip()
    if not re.search(r"\w", what):
        raise ActionError(
            f"That names a time, {tell(found.moment, zone)}, but not what to be reminded of",
            "Say it in one sentence, such as 'remind me to call Ana tomorrow at 9'",
        )
    if len(what) > MOST_TEXT:
        raise ActionError(f"A reminder has at most {MOST_TEXT:,} characters, and this one {len(what):,}")
    return When(moment=found.moment, rest=what)


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


def fire(reminder: Reminder, now: datetime) -> Reminder:
    """After it went off."""
    return msgspec.structs.replace(reminder, status=ReminderStatus.FIRED, fired_at=to_wire(now))


def snooze(reminder: Reminder, now: datetime, minutes: float) -> Reminder:
    """Put off: from now on where it went off, else from when it was due. Raises ActionError."""
    if reminder.status in ENDED:
        raise ActionError(
            f"{name(reminder)} is {_ending(reminder)}, so it cannot be put off", "Set a new one"
        )
    if not 0 < minutes <= MOST_SNOOZE:
        raise ActionError(f"A reminder is put off by up to a year, not by {minutes:g} minutes")
    start = now if reminder.status is ReminderStatus.FIRED else max(now, due_of(reminder))
    return msgspec.structs.replace(
        reminder,
        status=ReminderStatus.SNOOZED,
        due_at=to_wire(start + timedelta(minutes=minutes)),
        count=reminder.count + 1,
    )


def end(reminder: Reminder, status: ReminderStatus) -> Reminder:
    """Done or cancelled; raises ActionError where it is the other of the two already."""
    if reminder.status in ENDED and reminder.status is not status:
        raise ActionError(f"{name(reminder)} is {_ending(reminder)} already", "Set a new one")
    return msgspec.structs.replace(reminder, status=status)


def _ending(reminder: Reminder) -> str:
    return "done" if reminder.status is ReminderStatus.ACKNOWLEDGED else str(reminder.status)


def find_one(reminders: Reminders, words: str, *, among: frozenset[ReminderStatus]) -> Reminder:
    """The reminder ``words`` mean: its id, the beginning of it, or words of its text.

    Those that stand as in ``among`` go first. Raises ActionError where it is none, or more than one.
    """
    wanted = words.strip()
    if not wanted:
        raise ActionError("That does not say which reminder", "'mailroom reminders list' shows their ids")
    for pool in (
        [each for each in reminders.reminders if each.status in among],
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
    return f"{reminder.reminder_id}: {reminder.text}: {how}"
