"""The record of all schedules, and their timers.

The record decides; a timer only wakes the agent. A run begins by one commit: the record with the next run and
the submission of its goal, whose id follows from the schedule and the time of the run. So neither a crash
nor a timer that is delivered again nor a second process begins a run twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from services.nexus.reminders.store import MAX_PAUSE, MAX_TIMER, MAX_TRIES, set_timer
from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import read_record, retry_on_conflict
from shared.clock import parse_timestamp
from shared.contracts import ReminderDue, Schedule, Schedules, ScheduleStatus, StateChanged, generate_id

PREFIX = "schedule_"
"""How the names of their timers begin."""
S = TypeVar("S", bound=Schedule | None)
Change = Callable[[Schedules], Awaitable[tuple[Schedules, S, Sequence[Entry]]]]
"""From the record before: the record after, the schedule that is meant, and what is committed with it."""


class ScheduleStore:
    """All schedules, in one record of the agent that ``bus`` belongs to."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._subject = subjects.record(bus.name, "schedules", "all")
        self._lock = asyncio.Lock()

    async def read(self) -> tuple[Schedules, int]:
        """All schedules, and the sequence of their record."""
        record = await read_record(self._bus, self._subject, Schedules)
        return (record.value, record.seq) if record else (Schedules(), 0)

    async def change(self, change: Change[S], now: datetime) -> S:
        """Commit what ``change`` makes of the record, again if another process wrote it meanwhile.

        Sets the timer of the schedule's next run; returns the schedule.
        """

        async def attempt() -> S:
            before, seq = await self.read()
            after, meant, entries = await change(before)
            if after is not before or entries:
                record = msgspec.structs.replace(after, id=generate_id(), sender=self._bus.name)
                await self._bus.commit([seal(self._subject, record, expect=seq), *entries])
            return meant

        async with self._lock:
            meant = await retry_on_conflict(attempt, tries=MAX_TRIES, pause=MAX_PAUSE)
        if meant is not None:
            await self.set_timer(meant, now)
        return meant

    async def is_open(self, goal_id: str) -> bool:
        """Whether a goal has begun and not ended."""
        record = await read_record(self._bus, subjects.goal(goal_id), StateChanged) if goal_id else None
        return bool(record and record.value.goal and not record.value.goal.status.final)

    async def set_timer(self, schedule: Schedule, now: datetime) -> None:
        """Have the broker send a ReminderDue at the next run, if there is one."""
        if schedule.status is not ScheduleStatus.ACTIVE or not schedule.next_at:
            return
        name, me = f"{PREFIX}{schedule.schedule_id}", self._bus.name
        due = ReminderDue(sender=me, recipient=me, reminder_id=name)
        await set_timer(self._bus, name, due, min(parse_timestamp(schedule.next_at), now + MAX_TIMER))

    async def set_all_timers(self, now: datetime) -> None:
        """Set the timers of all schedules; a run that was missed wakes the agent at once."""
        schedules, _ = await self.read()
        for each in schedules.schedules:
            await self.set_timer(each, now)


def is_early(schedule: Schedule, now: datetime, allowed: timedelta) -> bool:
    """Whether the next run lies more than ``allowed`` ahead, so that the timer was an earlier one."""
    return parse_timestamp(schedule.next_at) - now > allowed
