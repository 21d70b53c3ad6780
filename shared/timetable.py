"""The timetable: what happens by itself, a record an item, read and changed, and done once when it is due.

Reminders, goals on a schedule and briefings are nexus', jobs of the night cortex'; each writes its own. An
item's record decides; a timer only wakes the agent. A change is stored first and its timers are set after it.
If the process dies in between, the redelivered task sets them again, and at the start the timers of all items
that wait are set: what came due while no process was there is due at once. An item fires by one commit: its
record after that, and the mail, the goal or the task that follows. So neither a crash nor a timer that is
delivered again nor a second process does anything twice. A job has no timer: cortex looks every few seconds
at what holds jobs back, which is more than their time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

import msgspec

from shared import subjects
from shared.bus import Bus, Entry, Stored
from shared.bus.entry import everything, seal
from shared.bus.records import Record, read_record, retry_on_conflict, retry_until_taken
from shared.clock import parse_timestamp, read_zone, utc_now
from shared.contracts import (
    Due,
    DueKind,
    DueStatus,
    TimerDue,
    Timetable,
    generate_id,
    generate_iso_timestamp,
)
from shared.contracts.base import amended
from shared.errors import ActionError
from shared.log import logger
from shared.memory.ownership import audience_read_for, reads_for
from shared.queries.records import count_subjects, read_last
from shared.recurrence import next_occurrence, parse_recurrence
from shared.settings import Settings
from shared.text.display import flatten

WAITING = frozenset({DueStatus.WAITING, DueStatus.SNOOZED})
KEPT = WAITING | {DueStatus.PAUSED, DueStatus.WORKING}
ENDED = frozenset({DueStatus.DONE, DueStatus.CANCELLED})

SIDE_BY_SIDE = 64  # records that an agent reads at a time

CONCEALED = "(private)"  # The text of a private item in what undoes a change
MAX_TIMER = timedelta(days=80)  # then a timer is set again: the broker drops those of 90 days
EARLY = timedelta(seconds=2)  # a timer this early, due to clock skew between machines, is waited for
PUNCTUAL = timedelta(minutes=1)  # what is later than this is said to be late
MAX_CHANGED = 900  # items of one change: a commit has at most 1,000 messages
MAX_TRIES = 20  # how often a change is tried if other processes write at the same time
MAX_PAUSE = 0.05  # seconds between two tries, at most
BATCH = 100  # timers that are set at once
RETRY_DELAY = 5.0  # seconds until the timers are set again after the broker refused them

log = logger(__name__)


class Known(NamedTuple):
    """The items by their ids, in the order in which they were added, and the record of these ids.

    ``damaged`` are the ids of the items whose record cannot be read, and its sequence; they hide no other.
    """

    contents: Timetable
    seq: int
    records: dict[str, Record[Due]]
    damaged: dict[str, int]

    @property
    def items(self) -> list[Due]:
        """All items that can be read."""
        return [record.value for record in self.records.values()]

    def seen(self) -> "Known":
        """The same without what is another person's alone, for the one that is read for."""
        audience = audience_read_for() if (reader := reads_for.get()) else None
        if not reader:
            return self
        kept = {
            due_id: record
            for due_id, record in self.records.items()
            if record.value.audience in ("", audience)
        }
        return self._replace(records=kept)

    def of(self, what: DueKind) -> list[Due]:
        """The items of a kind."""
        return [each for each in self.items if each.what is what]

    @property
    def problem(self) -> str:
        """A sentence that names what is damaged; empty if nothing is."""
        if not self.damaged:
            return ""
        return f"Not shown, because their records are damaged: {', '.join(list(self.damaged)[:20])}."


def to_timestamp(moment: datetime) -> str:
    """``moment`` as contracts store it: ISO 8601 in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def due_time(item: Due) -> datetime:
    """When an item is due next, or was last."""
    return parse_timestamp(item.at)


def move(item: Due, moment: datetime, status: DueStatus = DueStatus.WAITING) -> Due:
    """Waiting for another time."""
    return msgspec.structs.replace(item, status=status, at=to_timestamp(moment))


def next_time(item: Due, after: datetime, zone: tzinfo | None) -> datetime | None:
    """The first time of what repeats after ``after``; None if there is none."""
    return next_occurrence(parse_recurrence(item.repeats), after, zone) if item.repeats else None


def list_next(item: Due, zone: tzinfo | None, most: int = 3) -> list[datetime]:
    """The next times of an item that waits, at most so many."""
    if item.status not in WAITING:
        return []
    moments = [due_time(item)]
    while len(moments) < most and (later := next_time(item, moments[-1], zone)):
        moments.append(later)
    return moments


def format_short(item: Due) -> str:
    """The id and the beginning of the text of an item."""
    return f"{item.due_id} ({flatten(item.text, 60)})"


def due_record(due_id: str, owner: str = subjects.NEXUS) -> str:
    """The subject of the record of an item."""
    return subjects.record(owner, subjects.DUE, due_id)


def contents_record(owner: str = subjects.NEXUS) -> str:
    """The subject of the record of the items' ids."""
    return subjects.record(owner, subjects.TIMETABLE, "all")


async def read_timetable(bus: Bus, owner: str = subjects.NEXUS) -> Known:
    """What ``owner`` keeps; raises BusError. If the record of ids is damaged, the log says what there is."""
    found = await bus.last(subjects.OFFICE, contents_record(owner))
    try:
        contents = Timetable.from_json(found.data) if found else Timetable()
    except ValueError as error:
        log.warning("timetable_damaged", reason=str(error))
        logged = await count_subjects(bus, subjects.OFFICE, due_record("*", owner))
        contents = Timetable(ids=tuple(sorted(subjects.Address.of(each).id for each in logged)))
    names = {each: due_record(each, owner) for each in contents.ids}
    stored = await _read_items(bus, list(names.values()))
    records: dict[str, Record[Due]] = {}
    damaged: dict[str, int] = {}
    for due_id, subject in names.items():
        if (last := stored.get(subject)) is None:
            continue
        try:
            records[due_id] = Record(Due.from_json(last.data), last.seq, last.time)
        except ValueError as error:
            log.warning("due_damaged", due=due_id, reason=str(error))
            damaged[due_id] = last.seq
    return Known(contents, found.seq if found else 0, records, damaged)


async def _read_items(bus: Bus, names: Sequence[str]) -> dict[str, Stored]:
    """The last message of each; an agent may read its own records alone, and those one by one."""
    if bus.name in (*subjects.PEOPLE, subjects.ADMIN):
        return await read_last(bus, subjects.OFFICE, names)
    found: dict[str, Stored] = {}
    for begin in range(0, len(names), SIDE_BY_SIDE):
        part = names[begin : begin + SIDE_BY_SIDE]
        read = await asyncio.gather(*(bus.last(subjects.OFFICE, name) for name in part))
        found |= {stored.subject: stored for stored in read if stored is not None}
    return found


class Limit(NamedTuple):
    """How many items of a kind may be at hand, how many others are kept, and what is said beyond."""

    kept: int
    over: int
    cause: str
    cure: str


LIMITS = {
    DueKind.MAIL: Limit(
        1_000,
        200,
        "1,000 reminders are waiting for their time, and more are not taken",
        "Cancel some: 'mailroom reminders list' shows them",
    ),
    DueKind.GOAL: Limit(
        200, 50, "There are 200 schedules already", "Remove one: mailroom schedule remove ID"
    ),
    DueKind.BRIEFING: Limit(100, 10, "Too many briefings wait", "Restart nexus"),
    DueKind.JOB: Limit(1_000, 0, "The queue is full: 1,000 jobs are active", "Wait until some are done"),
}


def require_room(items: Iterable[Due], new: Sequence[Due]) -> None:
    """Raise ActionError if there are too many of a kind with those that are ``new``."""
    known = list(items)
    for what in {each.what for each in new}:
        added = sum(each.what is what and each.status in KEPT for each in new)
        if added + sum(each.what is what and each.status in KEPT for each in known) > LIMITS[what].kept:
            raise ActionError(LIMITS[what].cause, LIMITS[what].cure)


def drop_oldest(items: Sequence[Due]) -> list[Due]:
    """All that wait, are paused or at work, and of the others the latest of each kind."""
    over = {
        what: [each.due_id for each in items if each.what is what and each.status not in KEPT]
        for what in DueKind
    }
    dropped = {one for what, ids in over.items() for one in ids[: max(0, len(ids) - LIMITS[what].over)]}
    return [each for each in items if each.due_id not in dropped]


def _conceal(item: Due) -> Due:
    """An item as the record of all has it: what is one person's alone is not in it."""
    return amended(item, text=CONCEALED, audience="") if item.audience else item


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The items after a change, new ones too, what is committed with them, and what undoes it."""

    items: Sequence[Due] = ()
    entries: Sequence[Entry] = ()
    undo: Sequence[Due] = ()


Step = Callable[[Known], Awaitable[Change]]
Fire = Callable[[Due, datetime], Awaitable[tuple[Due, Sequence[Entry]]]]
"""From an item that is due, and the time: the item after that, and what is committed with it."""


class TimetableKeeper:
    """Keeps the items in records of the agent of ``bus``, which must be among subjects.TIMED to set timers.

    ``kinds`` says what happens when an item of a kind is due; its owner fills it.
    """

    def __init__(self, bus: Bus, settings: Settings, clock: Callable[[], datetime] = utc_now) -> None:
        self.bus = bus
        self.zone = read_zone(settings.time_zone)
        self.clock = clock
        self.kinds: dict[DueKind, Fire] = {}
        self._lock = asyncio.Lock()

    async def read(self) -> Known:
        """What is kept, as far as the one that is read for may know it."""
        return (await self._read()).seen()

    async def _read(self) -> Known:
        with everything():
            return await read_timetable(self.bus, self.bus.name)

    async def position(self) -> int:
        """The sequence of the last change of reminders, or of an item that was added."""
        stored = await self.bus.last(subjects.OFFICE, contents_record(self.bus.name))
        return stored.seq if stored else 0

    async def change(self, step: Step, token: str = "") -> list[Due]:
        """Store what ``step`` makes of the items, again if another process changed them; set their timers.

        The last change is not made again if it had the same ``token``: the items that it was about are
        returned. An item that is new and was there before stays as it is; a damaged record is replaced.
        Changes within this process take turns: of many concurrent ones all but one would have to retry.
        Raises ActionError if there are too many items.
        """

        async def attempt() -> list[Due]:
            known = await self._read()
            if token and known.contents.cause == token:
                return [known.records[each].value for each in known.contents.changed if each in known.records]
            change = await step(known.seen())
            if len(change.items) > MAX_CHANGED:
                raise ActionError(f"At most {MAX_CHANGED} are changed at once", "Name fewer of them")
            items = {each.due_id: each for each in change.items}
            for due_id in items.keys() - known.records.keys() - known.damaged.keys():
                if (dropped := await self.find(due_id)) is not None:
                    items[due_id] = dropped.value
                    known.records[due_id] = dropped
            await self._commit(known, list(items.values()), change, token)
            return list(items.values())

        async with self._lock:
            changed = await retry_on_conflict(attempt, tries=MAX_TRIES, pause=MAX_PAUSE)
        await self._set_timers(changed)
        return changed

    async def _commit(self, known: Known, items: Sequence[Due], change: Change, token: str) -> None:
        seqs = known.damaged | {due_id: record.seq for due_id, record in known.records.items()}
        new = [each for each in items if each.due_id not in known.records]
        require_room(known.items, new)
        written = [each for each in items if each in new or each != known.records[each.due_id].value]
        entries = [self._entry(each, seqs.get(each.due_id, 0)) for each in written]
        if new or (token and written):
            after = {**{each.due_id: each for each in known.items}, **{each.due_id: each for each in items}}
            kept = {each.due_id for each in drop_oldest(list(after.values()))}
            contents = Timetable(
                sender=self.bus.name,
                cause=token or known.contents.cause,
                ids=tuple(
                    each
                    for each in dict.fromkeys((*known.contents.ids, *after))
                    if each in kept or each in known.damaged
                ),
                changed=tuple(each.due_id for each in items) if token else known.contents.changed,
                undo=tuple(map(_conceal, change.undo)) if token else known.contents.undo,
            )
            entries.append(seal(contents_record(self.bus.name), contents, expect=known.seq, own=True))
        await self.bus.commit([*entries, *change.entries])

    def _entry(self, item: Due, expect: int) -> Entry:
        # A new message: one with the id of the record before would be dropped as sent twice.
        fresh = amended(item, id=generate_id(), sender=self.bus.name, created_at=generate_iso_timestamp())
        return seal(due_record(item.due_id, self.bus.name), fresh, expect=expect, own=True)

    async def find(self, due_id: str) -> Record[Due] | None:
        """The record of an item, also of one that is over; raises ValueError if it is damaged."""
        with everything():
            return await read_record(self.bus, due_record(due_id, self.bus.name), Due)

    async def fire(self, due_id: str, now: datetime) -> Due | None:
        """Do what is due at ``now`` if the record says so; the item after that, None if there is none."""

        async def attempt() -> Due | None:
            record = await self.find(due_id)
            if record is None or record.value.status not in WAITING or due_time(record.value) > now:
                return record.value if record else None
            after, entries = await self.kinds[record.value.what](record.value, now)
            await self.bus.commit([self._entry(after, record.seq), *entries])
            return after

        return await retry_on_conflict(attempt, tries=MAX_TRIES, pause=MAX_PAUSE)

    # --- timers --------------------------------------------------------------------------------------

    async def on_due(self, timer: TimerDue) -> None:
        """Do what is due, if the item's record says that it is: the timer may be that of an earlier time."""
        record = await self.find(timer.due_id)
        if record is None or record.value.status not in WAITING:
            return
        ahead = due_time(record.value) - self.clock()
        if ahead > EARLY:  # also the first part of a long wait
            await self._set_timers([record.value])
            return
        if ahead > timedelta():
            await asyncio.sleep(ahead.total_seconds())
        after = await self.fire(timer.due_id, max(self.clock(), due_time(record.value)))
        await self._set_timers([after] if after else [])

    async def _set_timers(self, items: Sequence[Due]) -> None:
        """Have the broker send a TimerDue when each of ``items`` is due, in place of its earlier timer."""
        me, latest = self.bus.name, self.clock() + MAX_TIMER
        waiting = [each for each in items if each.status in WAITING and each.what is not DueKind.JOB]
        for start in range(0, len(waiting), BATCH):
            timers = [
                set_timer(
                    self.bus,
                    each.due_id,
                    TimerDue(sender=me, recipient=me, due_id=each.due_id),
                    min(due_time(each), latest),
                )
                for each in waiting[start : start + BATCH]
            ]
            await asyncio.gather(*timers)

    async def start(self, prepare: Callable[[], Awaitable[None]]) -> None:
        """Call ``prepare`` and set the timers of all items that wait, until the broker accepts them."""

        async def attempt() -> None:
            await prepare()
            await self._set_timers((await self.read()).items)

        await retry_until_taken(attempt, pause=RETRY_DELAY, event="timers_not_set")


async def set_timer(bus: Bus, name: str, timer: TimerDue, moment: datetime) -> None:
    """Have the broker deliver ``timer`` at ``moment``, at once if that has passed.

    It replaces an earlier timer of that name.
    """
    headers = {
        "Nats-Schedule": f"@at {moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        "Nats-Schedule-Target": subjects.timer_due(bus.name),
    }
    await bus.store(subjects.timer(bus.name, name), timer.to_json(), headers=headers)
