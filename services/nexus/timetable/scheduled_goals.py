"""Goals on a schedule: what people's messages ask for, what can be done, and what happens when one is due."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any, NamedTuple

import msgspec

from services.nexus.routing.request import Request
from services.nexus.timetable.schedule_words import When, describe, read_order, read_scheduled, read_whole
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus import Entry
from shared.bus.records import read_record
from shared.clock import format_moment, parse_timestamp, read_night
from shared.contracts import Due, DueKind, DueStatus, StateChanged
from shared.errors import ActionError
from shared.log import logger
from shared.memory.ownership import audience_read_for
from shared.queries.spending import format_overspent, read_night_state
from shared.tasks.actions import Outcome, register_action
from shared.tasks.said import said_in, sign_said
from shared.text.display import count, flatten
from shared.timetable import (
    KEPT,
    PUNCTUAL,
    WAITING,
    Change,
    Known,
    TimetableKeeper,
    due_time,
    format_short,
    list_next,
    move,
    next_time,
    to_timestamp,
)

SCHEDULE = "Its id, the beginning of it, or words of its goal"

LATEST = timedelta(days=1)  # a run of a goal that is later than this is left out
MAX_MISSED = 1_500  # missed runs are counted up to this: one each minute makes 1,440 a day

log = logger(__name__)


class ScheduledGoals:
    """The goals on a schedule; the actions are for people alone: an agent cannot give itself work for later.

    The agent must be among subjects.SUBMITTING.
    """

    def __init__(self, context: AgentContext, keeper: TimetableKeeper) -> None:
        self._context = context
        self._keeper = keeper
        self._zone = keeper.zone
        self._night = read_night(context.settings.night, keeper.zone)

    async def obey(self, request: Request) -> Outcome:
        """What a message of a person asks for: a command, or a goal with its times in plain words.

        It is done once for each message. Raises ActionError, a question, if it is not clear.
        """
        if request.asker != subjects.USER:
            raise self._refusal()
        order = read_order(request.text)
        now = parse_timestamp(request.asked_at) if request.asked_at else self._keeper.clock()
        token = self._context.bus.derive_id("schedule", request.asker, request.key)
        if order is None:
            when, goal = read_scheduled(request.text, now, self._zone)
            return await self.add(goal, request.text, when, token)
        if order.verb == "add":
            return await self.add(order.text, order.when, read_whole(order.when, now, self._zone), token)
        if order.verb == "run":
            return await self.run(order.name, token)
        changes = {
            "pause": self.pause,
            "resume": self.resume,
            "remove": self.remove,
            "show": self.show_schedule,
        }
        return await changes[order.verb](order.name)

    @register_action(
        "Put a goal on a schedule, at a person's wish",
        {
            "text": "The goal, in the person's own words",
            "when": "When it runs, such as 'every weekday at 7', or an RFC 5545 rule as 'RRULE:FREQ=...'",
        },
        personal=True,
    )
    async def schedule_goal(self, text: str, when: str) -> Outcome:
        """The schedule in data key ``schedule``; raises ActionError, a question, if the time is not clear."""
        self._require_person(text)
        found = read_whole(when, self._keeper.clock(), self._zone)
        return await self.add(text, when, found, self._token(text, when))

    @register_action(
        "List the goals on a schedule",
        {"everything": "Whether to include those that ended or were removed"},
        personal=True,
    )
    async def list_schedules(self, everything: bool = False) -> Outcome:
        """The schedules, the next one first, in data key ``schedules``, each with its next runs."""
        known = await self._keeper.read()
        shown = sorted(
            (each for each in known.of(DueKind.GOAL) if everything or each.status in KEPT),
            key=lambda each: (each.status not in KEPT, each.status not in WAITING, each.at, each.due_id),
        )
        lines = [self._format(each) for each in shown] or ["No goal is on a schedule."]
        lines += [known.problem] if known.problem else []
        return Outcome(output="\n".join(lines), data={"schedules": [self._data(each) for each in shown]})

    @register_action("Show a goal on a schedule, with its next runs", {"schedule": SCHEDULE}, personal=True)
    async def show_schedule(self, schedule: str) -> Outcome:
        """One of them, with its next runs; raises ActionError if there is none."""
        found = find_scheduled((await self._keeper.read()).of(DueKind.GOAL), schedule)
        runs = [f"- {format_moment(moment, self._zone)}" for moment in list_next(found, self._zone, 5)]
        more = ["Next runs:", *runs] if runs else []
        if found.last:
            more.append(f"The last run: mailroom show {found.last}")
        return self._outcome(found, "\n".join([self._format(found), *more]))

    @register_action(
        "Pause a goal on a schedule: it has no runs until it is resumed",
        {"schedule": SCHEDULE},
        personal=True,
    )
    async def pause_schedule(self, schedule: str) -> Outcome:
        """As ``pause``."""
        self._require_person()
        return await self.pause(schedule)

    @register_action("Resume a goal on a schedule that is paused", {"schedule": SCHEDULE}, personal=True)
    async def resume_schedule(self, schedule: str) -> Outcome:
        """As ``resume``."""
        self._require_person()
        return await self.resume(schedule)

    @register_action(
        "Remove a goal from the schedule; a run that has begun goes on", {"schedule": SCHEDULE}, personal=True
    )
    async def remove_schedule(self, schedule: str) -> Outcome:
        """As ``remove``."""
        self._require_person()
        return await self.remove(schedule)

    @register_action(
        "Begin a run of a goal on a schedule now; its further runs stay",
        {"schedule": SCHEDULE},
        personal=True,
    )
    async def run_schedule(self, schedule: str) -> Outcome:
        """As ``run``."""
        self._require_person()
        return await self.run(schedule, self._token("run", schedule))

    def _require_person(self, text: str = "") -> None:
        """Raise ActionError unless a person asks for it, and said ``text``."""
        task, me = self._context.task, self._context.profile.name
        request = Request.of_task(task) if task.requester == me else None
        said = request.text if request and request.asker == subjects.USER else said_in(task)
        asked = said if task.requester in (subjects.USER, me) else ""
        if not asked.strip() or " ".join(text.split()) not in " ".join(asked.split()):
            raise self._refusal()

    def _refusal(self) -> ActionError:
        return ActionError(
            "Only people can put goals on a schedule and change that, in their own words",
            "Have a person write: mailroom schedule add WHEN GOAL",
        )

    def _token(self, *what: str) -> str:
        """An id that is the same for a second attempt at the same task."""
        task = self._context.task
        return self._context.bus.derive_id("schedule", task.requester, task.task_id, task.id, *what)

    # --- what can be done ------------------------------------------------------------------------

    async def add(self, text: str, words: str, when: When, token: str) -> Outcome:
        """The schedule, in data key ``schedule``; the same ``token`` adds it once."""
        new = Due(
            due_id=f"s{token[:7]}",
            what=DueKind.GOAL,
            text=text.strip(),
            requester=subjects.USER,
            person=audience_read_for(),
            repeats=when.repeats,
            words=flatten(words, 500),
            at=to_timestamp(when.first),
        )

        async def step(_: Known) -> Change:
            return Change(items=[new])

        (stored,) = await self._keeper.change(step)
        note = f" ({when.note.strip().rstrip('.')})" if when.note else ""
        return self._outcome(
            stored,
            f"{stored.due_id} runs {self._every(stored)}{note}: {stored.text}\n"
            f"{self._format_next(stored)} To stop it: mailroom schedule remove {stored.due_id}",
        )

    async def pause(self, name: str) -> Outcome:
        """It has no runs until it is resumed; those that would have been are not made up for."""
        changed = await self._change(name, pause)
        cure = f"mailroom schedule resume {changed.due_id}"
        return self._outcome(changed, f"{format_short(changed)} is paused. To go on: {cure}")

    async def resume(self, name: str) -> Outcome:
        """It goes on with its next run."""
        changed = await self._change(name, lambda found: resume(found, self._keeper.clock(), self._zone))
        return self._outcome(changed, f"{format_short(changed)} goes on. {self._format_next(changed)}")

    async def remove(self, name: str) -> Outcome:
        """It has no further run; one that has begun goes on."""
        changed = await self._change(name, remove)
        goal = changed.last if await self._is_open(changed.last) else ""
        stop = f" Its last run still works; to stop it: mailroom cancel {goal}" if goal else ""
        return self._outcome(changed, f"{format_short(changed)} is removed.{stop}")

    async def run(self, name: str, token: str) -> Outcome:
        """Begin a run now, once for each ``token``; ActionError if the one before still works."""
        now = self._keeper.clock()

        async def step(known: Known) -> Change:
            found = find_scheduled(known.of(DueKind.GOAL), name)
            goal_id, last = f"goal_{token}", found.last
            if last == goal_id:
                return Change(items=[found])
            if await self._is_open(last):
                raise ActionError(f"The run before, {last}, still works", f"Stop it: mailroom cancel {last}")
            return Change(items=[begun(found, goal_id, now)], entries=[self._submission(found, goal_id)])

        (changed,) = await self._keeper.change(step)
        text = f"{format_short(changed)} has begun as {changed.last}: mailroom show {changed.last}"
        return Outcome(output=text, data={"schedule": self._data(changed), "goal_id": changed.last})

    # --- when one is due -------------------------------------------------------------------------

    async def fire(self, due: Due, now: datetime) -> tuple[Due, Sequence[Entry]]:
        """The goal with its next run, and the submission of the one that begins, if one does.

        Its id follows from the schedule and the time of the run.
        """
        if (spent := await self._find_overspent(now)) and not due.repeats:
            return postpone(due, self._night.find(self._night.find(now)[1])[0], spent), ()
        busy = f"the goal of the run before, {due.last}, still works"
        run = advance(due, now, self._zone, busy if await self._is_open(due.last) else spent)
        if run.moment is None:
            return run.after, ()
        bus = self._context.bus
        goal_id = f"goal_{bus.derive_id('schedule', due.due_id, run.moment.isoformat())}"
        log.info("schedule_due", schedule=due.due_id, goal=goal_id, note=run.after.note)
        return begun(run.after, goal_id, now), [self._submission(due, goal_id)]

    async def _is_open(self, goal_id: str) -> bool:
        """Whether a goal has begun and not ended."""
        if not goal_id:
            return False
        record = await read_record(self._context.bus, subjects.goal(goal_id), StateChanged)
        return bool(record and record.value.goal and not record.value.goal.status.final)

    async def _find_overspent(self, now: datetime) -> str:
        """That the present night's budget is spent, as cortex counts it; empty by day and without one."""
        settings, (began, _) = self._context.settings, self._night.find(now)
        if began > now or not (settings.night_tokens or settings.night_cost):
            return ""
        state = await read_night_state(self._context.bus)
        return format_overspent(settings, state) if state.began_at == began.isoformat() else ""

    def _submission(self, due: Due, goal_id: str) -> Entry:
        """The submission of a run, in the words of the person who wanted it."""
        body = {
            "text": due.text,
            "goal_id": goal_id,
            "requester": due.requester,
            "context": {"schedule": due.due_id},
            "said": sign_said(self._context.bus, due.text),
            "person": due.person,
        }
        return Entry(subjects.SUBMIT, msgspec.json.encode(body), goal_id)

    # --- what is said ----------------------------------------------------------------------------

    async def _change(self, name: str, step: Callable[[Due], Due]) -> Due:
        async def change(known: Known) -> Change:
            return Change(items=[step(find_scheduled(known.of(DueKind.GOAL), name))])

        (changed,) = await self._keeper.change(change)
        return changed

    def _format(self, due: Due) -> str:
        state = "" if due.status is DueStatus.WAITING else f" ({due.status})"
        lines = [f"{due.due_id}  {self._every(due)}{state}: {flatten(due.text, 200)}"]
        missed = f", {due.missed} left out" if due.missed else ""
        runs = f"Runs so far: {due.runs}{missed}."
        lines.append(" ".join(filter(None, [self._format_next(due), runs])))
        lines += [f"{due.note}."] if due.note else []
        return "\n    ".join(lines)

    def _format_next(self, due: Due) -> str:
        if due.status not in WAITING:
            return ""
        return f"Next: {format_moment(due_time(due), self._zone)}."

    def _data(self, due: Due) -> dict[str, Any]:
        runs = [moment.isoformat() for moment in list_next(due, self._zone)]
        return {**due.to_dict(), "every": self._every(due), "next_runs": runs}

    def _every(self, due: Due) -> str:
        return describe(due.repeats, due_time(due), self._zone)

    def _outcome(self, due: Due, text: str) -> Outcome:
        return Outcome(output=text, data={"schedule": self._data(due)})


class Run(NamedTuple):
    """What a goal on a schedule becomes when it is due, and the moment of its run; None: none begins."""

    after: Due
    moment: datetime | None


def find_scheduled(goals: Iterable[Due], name: str) -> Due:
    """The one whose id ``name`` is or begins, else the one whose text has these words; raises ActionError."""
    words, kept = name.strip().lower(), [each for each in goals if each.status in KEPT]
    tests: tuple[Callable[[Due], bool], ...] = (
        lambda each: each.due_id == words,
        lambda each: each.due_id.startswith(words),
        lambda each: words in each.text.lower(),
    )
    for test in tests:
        found = [each for each in kept if words and test(each)]
        if len(found) == 1:
            return found[0]
        if found:
            named = "; ".join(format_short(each) for each in found[:5])
            raise ActionError(f"{name[:60]!r} may mean {len(found)} schedules: {named}", "Name one by its id")
    raise ActionError(f"There is no schedule {name[:60]!r}", "'mailroom schedule list' shows them")


def pause(item: Due) -> Due:
    """Without runs until it is resumed."""
    return msgspec.structs.replace(item, status=DueStatus.PAUSED)


def resume(item: Due, now: datetime, zone: tzinfo | None) -> Due:
    """With its next run after ``now``; raises ActionError if there is none left."""
    if item.status is DueStatus.WAITING:
        return item
    moment = next_time(item, now, zone)
    if moment is None:
        raise ActionError("It has no further run", "Add it again, with a later time")
    return move(item, moment)


def remove(item: Due) -> Due:
    """Without any further run."""
    return msgspec.structs.replace(item, status=DueStatus.CANCELLED)


def postpone(item: Due, until: datetime, why: str) -> Due:
    """With its run at ``until``."""
    return msgspec.structs.replace(move(item, until), note=f"The run waits: {why}")


def advance(item: Due, now: datetime, zone: tzinfo | None, held: str = "") -> Run:
    """A goal that is due, with its next run; the latest run that is due begins, and no other.

    It is left out if it is more than a day late, or if ``held`` says why it cannot begin.
    """
    latest, left_out = _latest(item, due_time(item), now, zone)
    if left_out == MAX_MISSED and (recent := next_time(item, now - LATEST, zone)) and recent <= now:
        latest = _latest(item, recent, now, zone)[0]
    upcoming = next_time(item, max(now, latest), zone)
    late = now - latest
    runs = late <= LATEST and not held
    note = _note(latest, left_out, late, held, zone) or ("" if runs else item.note)
    after = msgspec.structs.replace(item, missed=item.missed + left_out + (not runs), note=note)
    after = move(after, upcoming) if upcoming else msgspec.structs.replace(after, status=DueStatus.DONE)
    return Run(after, latest if runs else None)


def begun(item: Due, goal_id: str, now: datetime) -> Due:
    """With a run that began."""
    return msgspec.structs.replace(item, runs=item.runs + 1, last=goal_id, last_at=to_timestamp(now))


def _latest(item: Due, due: datetime, now: datetime, zone: tzinfo | None) -> tuple[datetime, int]:
    """The last run from ``due`` on that is not after ``now``, and how many come before it (MAX_MISSED)."""
    before = 0
    while before < MAX_MISSED and (later := next_time(item, due, zone)) and later <= now:
        due, before = later, before + 1
    return due, before


def _note(latest: datetime, left_out: int, late: timedelta, held: str, zone: tzinfo | None) -> str:
    when = format_moment(latest, zone)
    if late > LATEST:
        return f"The run of {when} was left out: Mailroom was stopped for more than a day after it"
    if held:
        return f"The run of {when} was left out: {held}"
    missed = f"; {count(left_out, 'earlier run')} left out" if left_out else ""
    return f"The run of {when} began late, because Mailroom was stopped{missed}" if late > PUNCTUAL else ""
