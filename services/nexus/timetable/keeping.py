"""The records of the timetable and their timers: what is kept, changed together, and fired once.

An item's record decides; a timer only wakes the agent. A change is stored first and its timers are set after
it. If the process dies in between, the redelivered task sets them again, and at the start the timers of all
items that wait are set: what came due while no process was there is due at once. An item fires by one commit:
its record after that, and the mail, the goal or the task that follows. So neither a crash nor a timer that is
delivered again nor a second process does anything twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from services.nexus.timetable.items import drop_oldest, due_time, require_room
from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import read_record, retry_on_conflict, retry_until_taken
from shared.clock import read_zone, utc_now
from shared.contracts import (
    Due,
    DueKind,
    TimerDue,
    Timetable,
    generate_id,
    generate_iso_timestamp,
)
from shared.contracts.base import amended
from shared.errors import ActionError
from shared.queries.timetable import WAITING, Known, due_record, read_timetable
from shared.settings import Settings

MAX_TIMER = timedelta(days=80)  # then a timer is set again: the broker drops those of 90 days
EARLY = timedelta(seconds=2)  # a timer this early, due to clock skew between machines, is waited for
MAX_CHANGED = 900  # items of one change: a commit has at most 1,000 messages
MAX_TRIES = 20  # how often a change is tried if other processes write at the same time
MAX_PAUSE = 0.05  # seconds between two tries, at most
BATCH = 100  # timers that are set at once
RETRY_DELAY = 5.0  # seconds until the timers are set again after the broker refused them


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The items after a change, new ones too, what is committed with them, and what undoes it."""

    items: Sequence[Due] = ()
    entries: Sequence[Entry] = ()
    undo: Sequence[Due] = ()


Step = Callable[[Known], Awaitable[Change]]
Fire = Callable[[Due, datetime], Awaitable[tuple[Due, Sequence[Entry]]]]
"""From an item that is due, and the time: the item after that, and what is committed with it."""


class TimetableKeeper:
    """Keeps the items in records of the agent of ``bus``, which must be among subjects.TIMED.

    ``kinds`` says what happens when an item of a kind is due; its owner fills it.
    """

    def __init__(self, bus: Bus, settings: Settings, clock: Callable[[], datetime] = utc_now) -> None:
        self.bus = bus
        self.zone = read_zone(settings.time_zone)
        self.clock = clock
        self.kinds: dict[DueKind, Fire] = {}
        self._lock = asyncio.Lock()

    async def read(self) -> Known:
        """Everything that is kept."""
        return await read_timetable(self.bus)

    async def position(self) -> int:
        """The sequence of the last change of reminders, or of an item that was added."""
        stored = await self.bus.last(subjects.OFFICE, subjects.CONTENTS)
        return stored.seq if stored else 0

    async def change(self, step: Step, token: str = "") -> list[Due]:
        """Store what ``step`` makes of the items, again if another process changed them; set their timers.

        The last change is not made again if it had the same ``token``: the items that it was about are
        returned. An item that is new and was there before stays as it is; a damaged record is replaced.
        Changes within this process take turns: of many concurrent ones all but one would have to retry.
        Raises ActionError if there are too many items.
        """

        async def attempt() -> list[Due]:
            known = await self.read()
            if token and known.contents.cause == token:
                return [known.records[each].value for each in known.contents.changed if each in known.records]
            change = await step(known)
            if len(change.items) > MAX_CHANGED:
                raise ActionError(f"At most {MAX_CHANGED} are changed at once", "Name fewer of them")
            items = {each.due_id: each for each in change.items}
            for due_id in items.keys() - known.records.keys() - known.damaged.keys():
                if (dropped := await read_record(self.bus, due_record(due_id), Due)) is not None:
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
                undo=tuple(change.undo) if token else known.contents.undo,
            )
            entries.append(seal(subjects.CONTENTS, contents, expect=known.seq))
        await self.bus.commit([*entries, *change.entries])

    def _entry(self, item: Due, expect: int) -> Entry:
        # A new message: one with the id of the record before would be dropped as sent twice.
        fresh = amended(item, id=generate_id(), sender=self.bus.name, created_at=generate_iso_timestamp())
        return seal(due_record(item.due_id), fresh, expect=expect)

    # --- timers --------------------------------------------------------------------------------------

    async def on_due(self, timer: TimerDue) -> None:
        """Do what is due, if the item's record says that it is: the timer may be that of an earlier time."""
        item = await self._find_waiting(timer.due_id)
        if item is None:
            return
        ahead = due_time(item) - self.clock()
        if ahead > EARLY:  # also the first part of a long wait
            await self.set_timer(item)
            return
        if ahead > timedelta():
            await asyncio.sleep(ahead.total_seconds())
        now = max(self.clock(), due_time(item))

        async def attempt() -> Due | None:
            record = await read_record(self.bus, due_record(timer.due_id), Due)
            if record is None or record.value.status not in WAITING or due_time(record.value) > now:
                return record.value if record else None
            after, entries = await self.kinds[record.value.what](record.value, now)
            await self.bus.commit([self._entry(after, record.seq), *entries])
            return after

        after = await retry_on_conflict(attempt, tries=MAX_TRIES, pause=MAX_PAUSE)
        await self._set_timers([after] if after else [])

    async def _find_waiting(self, due_id: str) -> Due | None:
        record = await read_record(self.bus, due_record(due_id), Due)
        return record.value if record and record.value.status in WAITING else None

    async def set_timer(self, item: Due) -> None:
        """Have the broker send a TimerDue when ``item`` is due, in place of its earlier timer."""
        me = self.bus.name
        timer = TimerDue(sender=me, recipient=me, due_id=item.due_id)
        await set_timer(self.bus, item.due_id, timer, min(due_time(item), self.clock() + MAX_TIMER))

    async def _set_timers(self, items: Sequence[Due]) -> None:
        waiting = [each for each in items if each.status in WAITING]
        for start in range(0, len(waiting), BATCH):
            await asyncio.gather(*map(self.set_timer, waiting[start : start + BATCH]))

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
