"""The reminder book: the record of all reminders, and the timers that have the broker wake us.

The record decides, the timers only wake. A change is stored first and its timer set after it; whoever is
killed in between sets it again, for the task comes back, and at the start all that wait are set anew. A timer
that goes off too early, twice, or for an earlier setting finds that in the record.
"""

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec

from services.nexus.reminders import WAITING, due_of, replace
from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.contracts import Reminder, ReminderDue, Reminders
from shared.errors import BusError, Conflict
from shared.log import logger

LONGEST = timedelta(days=80)
"""The longest a timer runs before it is set again: the broker forgets those of 90 days."""
TRIES = 20
"""How often a change is tried that other processes keep crossing."""
PAUSE = 0.05
"""The most seconds between two tries."""
AT_ONCE = 100
"""Timers that are set side by side."""
TRY_AGAIN = 5.0
"""Seconds until the timers are set again where the broker did not take them."""

log = logger(__name__)


class Book:
    """The reminders of the office, as the identity of ``bus`` keeps them."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._subject = subjects.record(bus.name, "reminders", "all")
        self._turn = asyncio.Lock()

    async def read(self) -> tuple[Reminders, int]:
        """All reminders, and the sequence that a change of them has to name."""
        stored = await self._bus.last(subjects.OFFICE, self._subject)
        return (Reminders.from_json(stored.data), stored.seq) if stored else (Reminders(), 0)

    def entry(self, reminders: Reminders, expect: int, token: str = "") -> Entry:
        """The entry that stores ``reminders`` where nobody else changed them meanwhile."""
        record = msgspec.structs.replace(reminders, sender=self._bus.name, cause=token)
        return seal(self._subject, record, expect=expect)

    async def add(self, reminder: Reminder, add: Callable[[Reminders, Reminder], Reminders]) -> Reminder:
        """Store a new reminder by ``add`` and set its timer; once, however often it is called for one id."""
        stored = reminder

        def make(before: Reminders, seq: int) -> list[Entry]:
            nonlocal stored
            after = add(before, reminder)
            stored = _find(after, reminder.reminder_id) or reminder
            return [] if after is before else [self.entry(after, seq)]

        await self._commit(make)
        if stored.status in WAITING:
            await self.arm(stored)
        return stored

    async def change(
        self,
        find: Callable[[Reminders], Reminder],
        step: Callable[[Reminder], Reminder],
        token: str,
    ) -> Reminder:
        """Store what ``step`` makes of the reminder that ``find`` finds, and set its timer anew.

        A change of the same ``token`` that was the last one is not made again.
        """
        changed: list[Reminder] = []

        def make(before: Reminders, seq: int) -> list[Entry]:
            found = find(before)
            changed[:] = [found if before.cause == token else step(found)]
            return [] if before.cause == token else [self.entry(replace(before, changed[0]), seq, token)]

        await self._commit(make)
        if changed[0].status in WAITING:
            await self.arm(changed[0])
        return changed[0]

    async def fire(
        self,
        due: Reminder,
        fire: Callable[[Reminder], Reminder],
        tell: Callable[[Reminder, Reminder], Entry],
    ) -> None:
        """Store what ``fire`` makes of a reminder that is ``due``, together with the letter that tells it.

        ``tell`` gets the reminder as it was and as it is then. One that repeats waits for its next time in
        that same commit. Nothing where it does not wait any more, or was put off: whoever comes second finds
        that.
        """
        again: list[Reminder] = []

        def make(before: Reminders, seq: int) -> list[Entry]:
            found = _find(before, due.reminder_id)
            if found is None or found.status not in WAITING or found.count != due.count:
                return []
            fired = fire(found)
            again[:] = [fired] if fired.status in WAITING else []
            return [self.entry(replace(before, fired), seq), tell(found, fired)]

        await self._commit(make)
        for each in again:
            await self.arm(each)

    async def _commit(self, make: Callable[[Reminders, int], list[Entry]]) -> None:
        """Store what ``make`` makes of the reminders, again while other processes cross it.

        Those of one process take turns: of many that try at once one wins a round, and the last gave up.
        """
        async with self._turn:
            for remaining in reversed(range(TRIES)):
                if not (entries := make(*await self.read())):
                    return
                try:
                    await self._bus.commit(entries)
                except Conflict:
                    if not remaining:
                        raise
                    await asyncio.sleep(random.uniform(0, PAUSE))  # noqa: S311  # no secret
                else:
                    return

    async def arm(self, reminder: Reminder) -> None:
        """Have the broker wake us when a reminder is due; instead of any timer it had."""
        due = ReminderDue(
            sender=self._bus.name,
            recipient=self._bus.name,
            reminder_id=reminder.reminder_id,
            count=reminder.count,
        )
        moment = min(due_of(reminder), datetime.now(UTC) + LONGEST)
        await set_timer(self._bus, reminder.reminder_id, due, moment)

    async def arm_all(self) -> None:
        """Set the timers of all that wait; tried until the broker takes them."""
        while True:
            try:
                reminders, _ = await self.read()
                waiting = [each for each in reminders.reminders if each.status in WAITING]
                for start in range(0, len(waiting), AT_ONCE):
                    await asyncio.gather(*map(self.arm, waiting[start : start + AT_ONCE]))
            except BusError as error:
                log.warning("timers_not_set", reason=str(error))
                await asyncio.sleep(TRY_AGAIN)
            else:
                return


async def set_timer(bus: Bus, name: str, due: ReminderDue, moment: datetime) -> None:
    """Have the broker deliver ``due`` at ``moment``, in place of an earlier timer of that name.

    A moment that has passed is now.
    """
    headers = {
        "Nats-Schedule": f"@at {moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
        "Nats-Schedule-Target": subjects.timer_due(bus.name),
    }
    await bus.store(subjects.timer(bus.name, name), due.to_json(), headers=headers)


def _find(reminders: Reminders, reminder_id: str) -> Reminder | None:
    return next((each for each in reminders.reminders if each.reminder_id == reminder_id), None)
