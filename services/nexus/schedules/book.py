"""What can be done with goals on a schedule, and what happens when one is due."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from services.nexus.schedules.state import (
    KEPT,
    add_schedule,
    advance,
    begun,
    find_schedule,
    list_next,
    pause,
    postpone,
    remove,
    replace_schedule,
    resume,
)
from services.nexus.schedules.store import PREFIX, ScheduleStore, is_early
from services.nexus.schedules.times import When, describe
from shared import subjects
from shared.bus import Bus, Entry
from shared.clock import format_moment, parse_timestamp, read_night, read_zone, utc_now
from shared.contracts import ReminderDue, Schedule, Schedules, ScheduleStatus
from shared.errors import ActionError
from shared.log import logger
from shared.queries.spending import format_overspent, read_night_state
from shared.settings import Settings
from shared.tasks.actions import Outcome
from shared.tasks.said import sign_said
from shared.text.shorten import flatten

EARLY = timedelta(seconds=2)
"""A timer that fires early by at most this, due to clock skew between machines, is waited for."""

log = logger(__name__)


class ScheduleBook:
    """The goals on a schedule: the caller has made sure that a person wants it.

    The agent of ``bus`` must be among subjects.TIMED and subjects.SUBMITTING.
    """

    def __init__(self, bus: Bus, settings: Settings, clock: Callable[[], datetime] = utc_now) -> None:
        self._bus = bus
        self.store = ScheduleStore(bus)
        self.clock = clock
        self.zone = read_zone(settings.time_zone)
        self._settings, self._night = settings, read_night(settings.night, self.zone)

    async def add(self, text: str, words: str, when: When, token: str) -> Outcome:
        """The schedule, in data key ``schedule``; the same ``token`` adds it once."""
        new = Schedule(
            schedule_id=f"s{token[:7]}",
            text=text.strip(),
            requester=subjects.USER,
            repeats=when.repeats,
            words=flatten(words, 500),
            next_at=when.first.isoformat(),
        )

        async def change(before: Schedules) -> tuple[Schedules, Schedule, Sequence[Entry]]:
            return add_schedule(before, new), new, ()

        stored = await self.store.change(change, self.clock())
        note = f" ({when.note.strip().rstrip('.')})" if when.note else ""
        return self._outcome(
            stored,
            f"{stored.schedule_id} runs {self._every(stored)}{note}: {stored.text}\n"
            f"{self._format_next(stored)} To stop it: mailroom schedule remove {stored.schedule_id}",
        )

    async def list(self, *, everything: bool = False) -> Outcome:
        """The schedules, the next one first, in data key ``schedules``, each with its next runs."""
        known, _ = await self.store.read()
        shown = sorted(
            (each for each in known.schedules if everything or each.status in KEPT),
            key=lambda each: (each.status not in KEPT, each.next_at or "9", each.schedule_id),
        )
        lines = [self._format(each) for each in shown] or ["No goal is on a schedule."]
        return Outcome(output="\n".join(lines), data={"schedules": [self._data(each) for each in shown]})

    async def show(self, name: str) -> Outcome:
        """One of them, with its next runs; raises ActionError if there is none."""
        known, _ = await self.store.read()
        found = find_schedule(known, name)
        runs = [f"- {format_moment(moment, self.zone)}" for moment in list_next(found, self.zone, 5)]
        more = ["Next runs:", *runs] if runs else []
        if found.last_goal:
            more.append(f"The last run: mailroom show {found.last_goal}")
        return self._outcome(found, "\n".join([self._format(found), *more]))

    async def pause(self, name: str) -> Outcome:
        """It has no runs until it is resumed; those that would have been are not made up for."""
        changed = await self._change(name, pause)
        cure = f"mailroom schedule resume {changed.schedule_id}"
        return self._outcome(changed, f"{self._name(changed)} is paused. To go on: {cure}")

    async def resume(self, name: str) -> Outcome:
        """It goes on with its next run."""
        changed = await self._change(name, lambda found: resume(found, self.clock(), self.zone))
        return self._outcome(changed, f"{self._name(changed)} goes on. {self._format_next(changed)}")

    async def remove(self, name: str) -> Outcome:
        """It has no further run; one that has begun goes on."""
        changed = await self._change(name, remove)
        goal = changed.last_goal if await self.store.is_open(changed.last_goal) else ""
        stop = f" Its last run still works; to stop it: mailroom cancel {goal}" if goal else ""
        return self._outcome(changed, f"{self._name(changed)} is removed.{stop}")

    async def run(self, name: str, token: str) -> Outcome:
        """Begin a run now, once for each ``token``; ActionError if the one before still works."""
        now = self.clock()

        async def change(before: Schedules) -> tuple[Schedules, Schedule, Sequence[Entry]]:
            found = find_schedule(before, name)
            goal_id, last = f"goal_{token}", found.last_goal
            if last == goal_id:
                return before, found, ()
            if await self.store.is_open(last):
                raise ActionError(f"The run before, {last}, still works", f"Stop it: mailroom cancel {last}")
            after = begun(found, goal_id, now)
            return replace_schedule(before, after), after, [self._submission(found, goal_id)]

        changed = await self.store.change(change, now)
        text = f"{self._name(changed)} has begun as {changed.last_goal}: mailroom show {changed.last_goal}"
        return Outcome(output=text, data={"schedule": self._data(changed), "goal_id": changed.last_goal})

    # --- when one is due -------------------------------------------------------------------------

    async def start(self) -> None:
        """Set all timers; runs that were missed while no process was there are due at once."""
        await self.store.set_all_timers(self.clock())

    async def on_due(self, due: ReminderDue) -> None:
        """Begin the run that is due, if it is: the record decides."""
        schedule_id = due.reminder_id.removeprefix(PREFIX)
        known, _ = await self.store.read()
        found = _active(known, schedule_id)
        if found is None:
            return
        now = self.clock()
        if is_early(found, now, EARLY):
            await self.store.set_timer(found, now)
            return
        if (wait := (parse_timestamp(found.next_at) - now).total_seconds()) > 0:
            await asyncio.sleep(wait)
        await self._begin(schedule_id, max(self.clock(), parse_timestamp(found.next_at)))

    async def _begin(self, schedule_id: str, now: datetime) -> None:
        async def change(before: Schedules) -> tuple[Schedules, Schedule | None, Sequence[Entry]]:
            found = _active(before, schedule_id)
            if found is None or is_early(found, now, timedelta()):
                return before, found, ()
            if (spent := await self._find_overspent(now)) and not found.repeats:
                after = postpone(found, self._night.find(self._night.find(now)[1])[0], spent)
                return replace_schedule(before, after), after, ()
            busy = f"the goal of the run before, {found.last_goal}, still works"
            held = busy if await self.store.is_open(found.last_goal) else spent
            run = advance(found, now, self.zone, held)
            if run.moment is None:
                return replace_schedule(before, run.after), run.after, ()
            key = ("schedule", schedule_id, run.moment.isoformat())
            goal_id = f"goal_{self._bus.derive_id(*key)}"
            after = begun(run.after, goal_id, now)
            return replace_schedule(before, after), after, [self._submission(found, goal_id)]

        if changed := await self.store.change(change, now):
            goal, note = changed.last_goal, changed.note
            log.info("schedule_due", schedule=schedule_id, goal=goal, note=note)

    async def _find_overspent(self, now: datetime) -> str:
        """That the present night's budget is spent, as cortex counts it; empty by day and without one."""
        began, _ = self._night.find(now)
        if began > now or not (self._settings.night_tokens or self._settings.night_cost):
            return ""
        state = await read_night_state(self._bus)
        return format_overspent(self._settings, state) if state.began_at == began.isoformat() else ""

    def _submission(self, schedule: Schedule, goal_id: str) -> Entry:
        """The submission of a run, in the words of the person who wanted it."""
        body = {
            "text": schedule.text,
            "goal_id": goal_id,
            "requester": schedule.requester,
            "context": {"schedule": schedule.schedule_id},
            "said": sign_said(self._bus, schedule.text),
        }
        return Entry(subjects.SUBMIT, msgspec.json.encode(body), goal_id)

    # --- what is said ----------------------------------------------------------------------------

    async def _change(self, name: str, step: Callable[[Schedule], Schedule]) -> Schedule:
        async def change(before: Schedules) -> tuple[Schedules, Schedule, Sequence[Entry]]:
            found = find_schedule(before, name)
            changed = step(found)
            return before if changed == found else replace_schedule(before, changed), changed, ()

        return await self.store.change(change, self.clock())

    def _format(self, schedule: Schedule) -> str:
        state = "" if schedule.status is ScheduleStatus.ACTIVE else f" ({schedule.status})"
        lines = [f"{schedule.schedule_id}  {self._every(schedule)}{state}: {flatten(schedule.text, 200)}"]
        missed = f", {schedule.missed} left out" if schedule.missed else ""
        runs = f"Runs so far: {schedule.runs}{missed}."
        lines.append(" ".join(filter(None, [self._format_next(schedule), runs])))
        lines += [f"{schedule.note}."] if schedule.note else []
        return "\n    ".join(lines)

    def _format_next(self, schedule: Schedule) -> str:
        if not schedule.next_at:
            return ""
        return f"Next: {format_moment(parse_timestamp(schedule.next_at), self.zone)}."

    def _name(self, schedule: Schedule) -> str:
        return f"{schedule.schedule_id} ({flatten(schedule.text, 80)})"

    def _data(self, schedule: Schedule) -> dict[str, Any]:
        runs = [moment.isoformat() for moment in list_next(schedule, self.zone)]
        return {**schedule.to_dict(), "every": self._every(schedule), "next_runs": runs}

    def _every(self, schedule: Schedule) -> str:
        first = parse_timestamp(schedule.next_at or schedule.last_at or schedule.created_at)
        return describe(schedule.repeats, first, self.zone)

    def _outcome(self, schedule: Schedule, text: str) -> Outcome:
        return Outcome(output=text, data={"schedule": self._data(schedule)})


def _active(schedules: Schedules, schedule_id: str) -> Schedule | None:
    found = (each for each in schedules.schedules if each.schedule_id == schedule_id)
    return next((each for each in found if each.status is ScheduleStatus.ACTIVE and each.next_at), None)
