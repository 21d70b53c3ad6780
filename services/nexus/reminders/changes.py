"""Changes of reminders: which are meant, when they are due then, and what is said about it."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo

import msgspec

from services.nexus.reminders.intents import ReminderIntent
from services.nexus.reminders.requests import ReminderRequest, format_question
from services.nexus.reminders.state import (
    DEFAULT_SNOOZE,
    ENDED,
    OPEN,
    WAITING,
    due_time,
    end,
    find_reminders,
    finish,
    format_short,
    replace_reminder,
    require_open,
    reschedule,
    went_off,
)
from services.nexus.reminders.when import read_time_alone
from shared.clock import format_moment, localize
from shared.contracts import Reminder, Reminders, ReminderStatus
from shared.errors import ActionError
from shared.language.times.calendar_range import find_calendar_range
from shared.language.times.days import read_amount
from shared.language.times.time_parser import choose, resolve
from shared.recurrence import describe_recurrence, format_recurrence, next_occurrence, parse_recurrence


def choose_reminders(
    reminders: Reminders, request: ReminderRequest, spoken_of: Sequence[str], zone: tzinfo | None
) -> list[Reminder]:
    """The reminders that ``request`` may mean, by its words, or else by the ids ``spoken_of``.

    Raises ActionError if there is none.
    """
    preferred = frozenset({ReminderStatus.FIRED}) if request.intent is ReminderIntent.SNOOZE else OPEN
    if request.about:
        return find_reminders(reminders, request.about, preferred=preferred, zone=zone)
    waiting = [each for each in reminders.reminders if each.status in WAITING]
    fired = [each for each in reminders.reminders if each.status is ReminderStatus.FIRED]
    if request.everything:
        pool = waiting + fired
    else:
        spoken = [each for each in waiting + fired if each.reminder_id in spoken_of]
        if len(spoken) == 1:
            return spoken
        if request.intent is not ReminderIntent.CANCEL:
            fired += [each for each in waiting if each.repeats and each.fired_at]
        if request.intent is ReminderIntent.SNOOZE and fired:
            return [max(fired, key=lambda each: each.fired_at)]
        pool = fired or waiting
    if not pool:
        raise ActionError("There are no open reminders", "Set one: 'remind me to call Ana tomorrow at 9'")
    return pool


def change_reminders(
    reminders: Reminders,
    found: Sequence[Reminder],
    request: ReminderRequest,
    now: datetime,
    zone: tzinfo | None,
) -> tuple[Reminders, list[Reminder], list[str]]:
    """The record after the change of ``found``, these reminders then, and a line about each."""
    change = _CHANGES[request.intent or ReminderIntent.MOVE]
    changed, lines = [], []
    for each in found:
        after, line = change(each, request, now, zone)
        changed.append(after)
        lines.append(line)
        reminders = replace_reminder(reminders, after)
    return msgspec.structs.replace(reminders, undo=tuple(found)), changed, lines


def _cancel(found: Reminder, *_: object) -> tuple[Reminder, str]:
    return end(found, ReminderStatus.CANCELLED), f"{format_short(found)} is cancelled."


def _finish(found: Reminder, _: ReminderRequest, now: datetime, zone: tzinfo | None) -> tuple[Reminder, str]:
    after = finish(found, now, zone)
    if not after.repeats or after.status in ENDED:
        return after, f"{format_short(after)} is done."
    due = format_moment(due_time(after), zone)
    return after, (
        f"{format_short(after)} is done for this time; it goes off again on {due}. "
        f"No more of it: mailroom reminders cancel {after.reminder_id}"
    )


def _rename(found: Reminder, request: ReminderRequest, *_: object) -> tuple[Reminder, str]:
    if not request.text:
        raise ActionError("That does not say the new text", "Say 'rename the reminder about Ana to call Bob'")
    require_open(found)
    after = msgspec.structs.replace(found, text=request.text)
    return after, f"{found.reminder_id} now says: {after.text}"


def _move(
    found: Reminder, request: ReminderRequest, now: datetime, zone: tzinfo | None
) -> tuple[Reminder, str]:
    require_open(found)
    if request.intent is ReminderIntent.SNOOZE and request.away is None and not request.time:
        request = msgspec.structs.replace(request, away=timedelta(minutes=DEFAULT_SNOOZE))
    if request.away is not None:
        start = now if went_off(found) else due_time(found)
        due = _add(max(start, now) if request.away > timedelta() else start, request, zone)
        if due <= now:
            raise ActionError(f"{format_moment(due, zone)} has passed", "Name a time that is ahead")
        return _told(found, reschedule(found, ReminderStatus.SNOOZED, due), zone)
    if not request.time:
        raise ActionError(f"To when shall I move {format_short(found)}? For example: tomorrow at 9")
    after = move_to(found, request.time, now, zone)
    return _told(found, after, zone)


def move_to(found: Reminder, words: str, now: datetime, zone: tzinfo | None) -> Reminder:
    """``found`` at the time that ``words`` say: a time of day keeps its day, a day its time of day.

    A time of day moves all of what repeats, a day only the next time.
    """
    due = due_time(found).astimezone(zone)
    said = next((each for each in (choose(words), choose(f"at {words}")) if each.chosen), None)
    if said is None:
        when = read_time_alone(words, now, zone)
    elif said["span"]:
        when = resolve(said, now, zone)
    else:
        kept = choose(f"on {due:%Y-%m-%d} at {due:%H:%M}")
        when = resolve(kept.join(said), now, zone)
        if when.missing == "past" and not said["day"]:
            when = resolve(said, now, zone)
    if when.moment is None:
        raise ActionError(format_question(when.missing, when, found.text))
    if when.rrule:
        return msgspec.structs.replace(
            reschedule(found, ReminderStatus.SCHEDULED, when.moment), repeats=when.rrule
        )
    if found.repeats and said is not None and not said["day"] and not said["span"]:
        rule = parse_recurrence(found.repeats)
        if rule.start.tzinfo is None and not rule.zone:
            clock = when.moment.astimezone(zone).time()
            moved = msgspec.structs.replace(rule, start=datetime.combine(rule.start.date(), clock))
            moment = next_occurrence(moved, now, zone)
            if moment:
                after = reschedule(found, ReminderStatus.SCHEDULED, moment)
                return msgspec.structs.replace(after, repeats=format_recurrence(moved))
    return reschedule(found, ReminderStatus.SNOOZED, when.moment)


def _add(start: datetime, request: ReminderRequest, zone: tzinfo | None) -> datetime:
    """Hours run by the clock; days, weeks and months keep the time of day."""
    away = request.away or timedelta()
    if not request.time:
        return start + away
    amount = read_amount(request.time)
    wall = start.astimezone(zone).replace(tzinfo=None)
    return localize(wall + amount if away > timedelta() else wall - amount, zone)


def _told(before: Reminder, after: Reminder, zone: tzinfo | None) -> tuple[Reminder, str]:
    how = "moved to" if due_time(after) < due_time(before) else "put off until"
    every = ""
    if after.repeats != before.repeats:
        every = f" It goes off {describe_recurrence(parse_recurrence(after.repeats))} from now on."
    return after, f"{format_short(after)} is {how} {format_moment(due_time(after), zone)}.{every}"


_Change = Callable[[Reminder, ReminderRequest, datetime, tzinfo | None], tuple[Reminder, str]]
_CHANGES: dict[ReminderIntent, _Change] = {
    ReminderIntent.CANCEL: _cancel,
    ReminderIntent.FINISH: _finish,
    ReminderIntent.RENAME: _rename,
    ReminderIntent.MOVE: _move,
    ReminderIntent.SNOOZE: _move,
}


def list_range(
    reminders: Sequence[Reminder], text: str, now: datetime, zone: tzinfo | None
) -> list[Reminder]:
    """The reminders that ``text`` asks to see: those of its days or about its words, else the open ones.

    Of days that have passed also those that have ended.
    """
    today = now.astimezone(zone).date()
    days = find_calendar_range(text, today)
    if days is None:
        about = re.search(r"(?i)\breminders?\b.*\b(?:about|to|for)\s+(?P<words>.+?)\W*$", text)
        found = [each for each in reminders if each.status not in ENDED]
        if about:
            try:
                return find_reminders(
                    Reminders(reminders=tuple(found)), about["words"], preferred=OPEN, zone=zone
                )
            except ActionError:
                return found
        return found
    start, count = days
    inside = [
        each for each in reminders if 0 <= (due_time(each).astimezone(zone).date() - start).days < count
    ]
    return inside if start < today else [each for each in inside if each.status not in ENDED]
