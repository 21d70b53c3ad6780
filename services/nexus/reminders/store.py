"""The record of all reminders, and their timers.

The record decides; a timer only wakes the agent. A change is stored first and its timer is set after it. If
the process dies in between, the redelivered task sets it again, and at the start the timers of all waiting
reminders are set. A timer that fires too early, twice, or for an earlier time is recognised by the record.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import msgspec

from services.nexus.reminders.state import WAITING, due_time, replace_reminder
from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import read_record, retry_on_conflict, retry_until_taken
from shared.contracts import Reminder, ReminderDue, Reminders
from shared.log import logger

MAX_TIMER = timedelta(days=80)
"""The longest a timer runs before it is set again: the broker drops those of 90 days."""
MAX_TRIES = 20
"""How often a change is tried if other processes write the record at the same time."""
MAX_PAUSE = 0.05
"""The most seconds between two tries."""
BATCH = 100
"""How many timers are set at once."""
RETRY_DELAY = 5.0
"""Seconds until the timers are set again after the broker refused them."""

log = logger(__name__)

Step = Callable[[Reminders], tuple[Reminders, list[Reminder]]]
"""Makes the record after a change, and the reminders that it changed."""


class ReminderStore:
    """All reminders, in one record of the agent that ``bus`` belongs to."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._subject = subjects.record(bus.name, "reminders", "all")
        self._lock = asyncio.Lock()

    async def read(self) -> tuple[Reminders, int]:
        """All reminders, and the sequence of the record, which a change of it expects."""
        record = await read_record(self._bus, self._subject, Reminders)
        return (record.value, record.seq) if record else (Reminders(), 0)

    async def change(self, step: Step, token: str) -> list[Reminder]:
        """Store what ``step`` makes of the record, and set the timers of the reminders that it changed.

        The last change is not made again if it had the same ``token``: those that it was about are returned.
        """

        def once(before: Reminders) -> tuple[Reminders, list[Reminder], list[Entry]]:
            if before.cause == token:
                return before, [each for each in before.reminders if each.reminder_id in before.changed], []
            return *step(before), []

        return await self._update(once, token)

    async def fire(
        self,
        due: Reminder,
        fire: Callable[[Reminder], Reminder],
        notify: Callable[[Reminder, Reminder], Entry],
    ) -> None:
        """Store ``fire`` of a ``due`` reminder and its email in one commit.

        ``notify`` makes the email from the reminder before and after. A recurring reminder waits for its next
        time in the same commit. Does nothing if the reminder no longer waits, or was snoozed.
        """

        def step(before: Reminders) -> tuple[Reminders, list[Reminder], list[Entry]]:
            found = next((each for each in before.reminders if each.reminder_id == due.reminder_id), None)
            if found is None or found.status not in WAITING or found.count != due.count:
                return before, [], []
            fired = fire(found)
            after = replace_reminder(before, fired)
            undo = tuple(each for each in after.undo if each.reminder_id != due.reminder_id)
            return msgspec.structs.replace(after, undo=undo), [fired], [notify(found, fired)]

        await self._update(step)

    async def _update(
        self, step: Callable[[Reminders], tuple[Reminders, list[Reminder], list[Entry]]], token: str = ""
    ) -> list[Reminder]:
        """Commit what ``step`` makes of the record, again if another process changed it meanwhile.

        ``step`` returns the record (the same if there is nothing to store), the reminders it changed, whose
        timers are then set, and further entries of the commit. Updates within this process take turns: of
        many concurrent ones all but one would have to retry.
        """

        async def attempt() -> list[Reminder]:
            before, seq = await self.read()
            after, changed, others = step(before)
            if after is not before:
                # A new message: one with the id of the record before would be dropped as sent twice.
                record = Reminders(
                    sender=self._bus.name,
                    cause=token,
                    reminders=after.reminders,
                    changed=tuple(each.reminder_id for each in changed),
                    undo=after.undo,
                )
                await self._bus.commit([seal(self._subject, record, expect=seq), *others])
            return changed

        async with self._lock:
            changed = await retry_on_conflict(attempt, tries=MAX_TRIES, pause=MAX_PAUSE)
        for each in changed:
            if each.status in WAITING:
                await self.set_timer(each)
        return changed

    async def set_timer(self, reminder: Reminder) -> None:
        """Have the broker send a ReminderDue when ``reminder`` is due, in place of its earlier timer."""
        due = ReminderDue(
            sender=self._bus.name,
            recipient=self._bus.name,
            reminder_id=reminder.reminder_id,
            count=reminder.count,
        )
        moment = min(due_time(reminder), datetime.now(UTC) + MAX_TIMER)
        await set_timer(self._bus, reminder.reminder_id, due, moment)

    async def set_all_timers(self) -> None:
        """Set the timers of all waiting reminders."""
        reminders, _ = await self.read()
        waiting = [each for each in reminders.reminders if each.status in WAITING]
        for start in range(0, len(waiting), BATCH):
            await asyncio.gather(*map(self.set_timer, waiting[start : start + BATCH]))


async def retry_timers(set_timers: Callable[[], Awaitable[None]]) -> None:
    """Call ``set_timers`` until the broker accepts them."""
    await retry_until_taken(set_timers, pause=RETRY_DELAY, event="timers_not_set")


async def set_timer(bus: Bus, name: str, due: ReminderDue, moment: datetime) -> None:
    """Have the broker deliver ``due`` at ``moment``, at once if that has passed.

    It replaces an earlier timer of that name.
    """
    headers = {
        "Nats-Schedule": f"@at {moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        "Nats-Schedule-Target": subjects.timer_due(bus.name),
    }
    await bus.store(subjects.timer(bus.name, name), due.to_json(), headers=headers)
