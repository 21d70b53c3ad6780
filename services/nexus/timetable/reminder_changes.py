"""Changes of reminders: which are meant, when they are due then, and what is said about it."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from services.nexus.timetable.reminder_requests import (
    ReminderIntent,
    ReminderRequest,
    format_question,
    read_time_alone,
)
from shared.clock import format_moment, localize
from shared.contracts import Due, DueStatus
from shared.errors import ActionError
from shared.language.times.clocks import read_clocks
from shared.language.times.days import UnclearTime, find_calendar_range, find_day, read_amount, read_day
from shared.language.times.time_parser import choose, resolve
from shared.recurrence import describe_recurrence, format_recurrence, next_occurrence, parse_recurrence
from shared.text.prose import find_terms
from shared.timetable import CONCEALED, ENDED, WAITING, due_time, format_short, move, next_time, to_timestamp

DEFAULT_SNOOZE = 30.0  # minutes, if the request does not say how long
OPEN = WAITING | {DueStatus.FIRED}


def choose_reminders(
    reminders: Sequence[Due], request: ReminderRequest, spoken_of: Sequence[str], zone: tzinfo | None
) -> list[Due]:
    """The reminders that ``request`` may mean, by its words, or else by the ids ``spoken_of``.

    Raises ActionError if there is none.
    """
    preferred = frozenset({DueStatus.FIRED}) if request.intent is ReminderIntent.SNOOZE else OPEN
    if request.about:
        return find_reminders(reminders, request.about, preferred=preferred, zone=zone)
    waiting = [each for each in reminders if each.status in WAITING]
    fired = [each for each in reminders if each.status is DueStatus.FIRED]
    if request.everything:
        pool = waiting + fired
    else:
        spoken = [each for each in waiting + fired if each.due_id in spoken_of]
        if len(spoken) == 1:
            return spoken
        if request.intent is not ReminderIntent.CANCEL:
            fired += [each for each in waiting if each.repeats and each.last_at]
        if request.intent is ReminderIntent.SNOOZE and fired:
            return [max(fired, key=lambda each: each.last_at)]
        pool = fired or waiting
    if not pool:
        raise ActionError("There are no open reminders", "Set one: 'remind me to call Ana tomorrow at 9'")
    return pool


def change_reminders(
    found: Sequence[Due], request: ReminderRequest, now: datetime, zone: tzinfo | None
) -> tuple[list[Due], list[str]]:
    """The reminders after the change of ``found``, and a line about each."""
    change = _CHANGES[request.intent or ReminderIntent.MOVE]
    changes = [change(each, request, now, zone) for each in found]
    return [after for after, _ in changes], [line for _, line in changes]


def _cancel(found: Due, *_: object) -> tuple[Due, str]:
    return end(found, DueStatus.CANCELLED), f"{format_short(found)} is cancelled."


def _finish(found: Due, _: ReminderRequest, now: datetime, zone: tzinfo | None) -> tuple[Due, str]:
    after = finish(found, now, zone)
    if not after.repeats or after.status in ENDED:
        return after, f"{format_short(after)} is done."
    due = format_moment(due_time(after), zone)
    return after, (
        f"{format_short(after)} is done for this time; it goes off again on {due}. "
        f"No more of it: mailroom reminders cancel {after.due_id}"
    )


def _rename(found: Due, request: ReminderRequest, *_: object) -> tuple[Due, str]:
    if not request.text:
        raise ActionError("That does not say the new text", "Say 'rename the reminder about Ana to call Bob'")
    require_open(found)
    after = msgspec.structs.replace(found, text=request.text)
    return after, f"{found.due_id} now says: {after.text}"


def _move(found: Due, request: ReminderRequest, now: datetime, zone: tzinfo | None) -> tuple[Due, str]:
    require_open(found)
    if request.intent is ReminderIntent.SNOOZE and request.away is None and not request.time:
        request = msgspec.structs.replace(request, away=timedelta(minutes=DEFAULT_SNOOZE))
    if request.away is not None:
        start = now if went_off(found) else due_time(found)
        due = _add(max(start, now) if request.away > timedelta() else start, request, zone)
        if due <= now:
            raise ActionError(f"{format_moment(due, zone)} has passed", "Name a time that is ahead")
        return _told(found, move(found, due, DueStatus.SNOOZED), zone)
    if not request.time:
        raise ActionError(f"To when shall I move {format_short(found)}? For example: tomorrow at 9")
    after = move_to(found, request.time, now, zone)
    return _told(found, after, zone)


def move_to(found: Due, words: str, now: datetime, zone: tzinfo | None) -> Due:
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
        return msgspec.structs.replace(move(found, when.moment), repeats=when.rrule)
    if found.repeats and said is not None and not said["day"] and not said["span"]:
        rule = parse_recurrence(found.repeats)
        if rule.start.tzinfo is None and not rule.zone:
            clock = when.moment.astimezone(zone).time()
            moved = msgspec.structs.replace(rule, start=datetime.combine(rule.start.date(), clock))
            moment = next_occurrence(moved, now, zone)
            if moment:
                after = move(found, moment)
                return msgspec.structs.replace(after, repeats=format_recurrence(moved))
    return move(found, when.moment, DueStatus.SNOOZED)


def _add(start: datetime, request: ReminderRequest, zone: tzinfo | None) -> datetime:
    """Hours run by the clock; days, weeks and months keep the time of day."""
    away = request.away or timedelta()
    if not request.time:
        return start + away
    amount = read_amount(request.time)
    wall = start.astimezone(zone).replace(tzinfo=None)
    return localize(wall + amount if away > timedelta() else wall - amount, zone)


def _told(before: Due, after: Due, zone: tzinfo | None) -> tuple[Due, str]:
    how = "moved to" if due_time(after) < due_time(before) else "put off until"
    every = ""
    if after.repeats != before.repeats:
        every = f" It goes off {describe_recurrence(parse_recurrence(after.repeats))} from now on."
    return after, f"{format_short(after)} is {how} {format_moment(due_time(after), zone)}.{every}"


_Change = Callable[[Due, ReminderRequest, datetime, tzinfo | None], tuple[Due, str]]
_CHANGES: dict[ReminderIntent, _Change] = {
    ReminderIntent.CANCEL: _cancel,
    ReminderIntent.FINISH: _finish,
    ReminderIntent.RENAME: _rename,
    ReminderIntent.MOVE: _move,
    ReminderIntent.SNOOZE: _move,
}


def list_range(reminders: Sequence[Due], text: str, now: datetime, zone: tzinfo | None) -> list[Due]:
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
                return find_reminders(found, about["words"], preferred=OPEN, zone=zone)
            except ActionError:
                return found
        return found
    start, count = days
    inside = [
        each for each in reminders if 0 <= (due_time(each).astimezone(zone).date() - start).days < count
    ]
    return inside if start < today else [each for each in inside if each.status not in ENDED]


def find_reminders(
    reminders: Sequence[Due], words: str, *, preferred: frozenset[DueStatus], zone: tzinfo | None
) -> list[Due]:
    """The reminders that ``words`` may mean: by id, the beginning of it, words of the text, or the time.

    Those with a ``preferred`` status go first, then those that have not ended. Raises ActionError if none is.
    """
    wanted = words.strip()
    if not wanted:
        raise ActionError("That does not say which reminder", "'mailroom reminders list' shows their ids")
    for matches in (_by_ids, _by_words, _by_time, _by_some_words):
        for pool in (
            [each for each in reminders if each.status in preferred],
            [each for each in reminders if each.status not in ENDED],
            list(reminders),
        ):
            if found := matches(pool, wanted, zone):
                return found
    raise ActionError(
        f"There is no reminder {wanted[:60]!r}", "'mailroom reminders list' shows those there are"
    )


def _by_ids(pool: Sequence[Due], wanted: str, _: tzinfo | None) -> list[Due]:
    words = wanted.lower().split()
    if exact := [each for each in pool if each.due_id in words]:
        return exact
    return [each for each in pool if len(wanted) > 2 and each.due_id.startswith(wanted.lower())]


def _by_words(pool: Sequence[Due], wanted: str, _: tzinfo | None) -> list[Due]:
    terms = find_terms(wanted).keys()
    return [each for each in pool if terms and terms <= find_terms(each.text).keys()]


def _by_some_words(pool: Sequence[Due], wanted: str, _: tzinfo | None) -> list[Due]:
    terms = find_terms(wanted).keys()
    shared = [(len(terms & find_terms(each.text).keys()), each) for each in pool]
    most = max((number for number, _ in shared), default=0)
    return [each for number, each in shared if number == most and 2 * number >= len(terms) > 0]


def _by_time(pool: Sequence[Due], wanted: str, zone: tzinfo | None) -> list[Due]:
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


def format_reminder(reminder: Due, zone: tzinfo | None) -> str:
    """One line about a reminder."""
    due = format_moment(due_time(reminder), zone)
    how = {
        DueStatus.WAITING: f"goes off on {due}",
        DueStatus.SNOOZED: f"moved to {due}",
        DueStatus.FIRED: f"went off; it was due on {due}",
        DueStatus.DONE: "done",
        DueStatus.CANCELLED: "cancelled",
    }[reminder.status]
    again = reminder.repeats and reminder.status not in ENDED
    every = f", {describe_recurrence(parse_recurrence(reminder.repeats))}" if again else ""
    return f"{reminder.due_id}: {reminder.text}: {how}{every}"


def undo_change(items: Iterable[Due], undo: Sequence[Due], spoken: Sequence[str] = ()) -> list[Due]:
    """The items of the last change as they were before it, but for those that went off since.

    Raises ActionError if there is none, or if it was not of those ``spoken`` of.
    """
    known = {each.due_id: each for each in items}
    if spoken and not {each.due_id for each in undo} & set(spoken):
        raise ActionError("Another reminder was changed since, so that can no longer be undone")
    restored = [
        msgspec.structs.replace(each, text=known[each.due_id].text, audience=known[each.due_id].audience)
        if each.text == CONCEALED
        else each
        for each in undo
        if each.due_id in known and known[each.due_id].runs == each.runs
    ]
    if not restored:
        raise ActionError("There is no change of a reminder that could be undone")
    return restored


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
