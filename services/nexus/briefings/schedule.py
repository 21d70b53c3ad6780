"""The morning and the evening briefing: one page each, made on schedule and on demand, and added to."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

import msgspec

from services.nexus.briefings.lines import Section
from services.nexus.briefings.page import format_title
from services.nexus.briefings.sources import BriefingOptions, BriefingSources, Span
from services.nexus.briefings.told import MAX_FINDING, Told, ToldStore, read_told
from services.nexus.reminders.store import set_timer
from shared import subjects
from shared.agent.base import Outbox
from shared.agent.context import AgentContext
from shared.bus.records import read_task, retry_on_conflict
from shared.clock import localize, read_zone
from shared.contracts import AgentReport, Envelope, ReminderDue, Task, TaskResult, TaskStatus
from shared.errors import ActionError, ConfigError
from shared.recurrence import Recurrence, next_occurrence
from shared.skills.workspace import write_output
from shared.tasks.actions import Outcome, register_action

KINDS = ("morning", "evening")
PREFIX = "brief_"
"""How the names of a briefing's timer, action and task begin."""
LATE = "late_"
"""How the names of those go on that tell what could not be told at its time."""
EVENING_BEGINS = 14
"""The hour from which a briefing of no kind is the evening's."""
OLDEST = timedelta(hours=36)
"""How far back a morning tells, if the last evening was told longer ago."""
DAY = timedelta(days=1)
WANTED = "briefing_wanted"
"""The type of the report by which a person wants a briefing made, or added to."""


class BriefingSchedule:
    """Makes the briefings, at their times and on demand."""

    def __init__(self, context: AgentContext, sources: BriefingSources, options: BriefingOptions) -> None:
        self._context = context
        self._sources = sources
        self._late = options.late
        self._zone = read_zone(context.settings.time_zone)
        self._clocks = {kind: parse_clock(getattr(options, kind), kind) for kind in KINDS}
        self._store = ToldStore(context.bus)

    # --- actions -------------------------------------------------------------------------------------

    @register_action("Write the morning briefing now", personal=True)
    async def brief_morning(self) -> Outcome:
        """The page in the inbox folder, and its text; made again it adds what is new."""
        return await self._make("morning")

    @register_action("Write the evening briefing now", personal=True)
    async def brief_evening(self) -> Outcome:
        """As the morning's: what was done, missed, learned and spent, and tomorrow."""
        return await self._make("evening")

    @register_action(
        "Tell the briefing of today, as it was made; it is made if it was not, or with again",
        {
            "kind": "morning or evening; empty takes what fits the time of day",
            "again": "Look again for what is new",
        },
        personal=True,
    )
    async def tell_briefing(self, kind: str = "", again: bool = False) -> Outcome:
        """As brief_morning; data key ``briefing`` has the head, the sections and their sources."""
        now = datetime.now(UTC).astimezone(self._zone)
        chosen = kind.strip().lower() or ("morning" if now.hour < EVENING_BEGINS else "evening")
        if chosen not in KINDS:
            raise ActionError(f"There is no briefing {kind[:40]!r}", "Name morning or evening")
        told, _ = await self._store.read(chosen, now.date())
        return await self._make(chosen) if again or told is None else self._outcome(told)

    @register_action(
        "Tell what a briefing could not tell at its time",
        {"kind": "morning or evening", "day": "The day, as 2026-11-23"},
        personal=True,
    )
    async def brief_late(self, kind: str, day: str) -> Outcome:
        """What can be told now, in data key ``added``; nothing, if nothing can."""
        told, _ = await self._store.read(kind, date.fromisoformat(day))
        if told is None or not told.missed:
            return Outcome(output="Nothing is left to tell.", data={"added": []})
        fresh = await self._sources.gather(Span(kind=kind, day=told.day, since=told.since), told.missed)
        return await self._store_told(told, fresh, late=True)

    # --- making --------------------------------------------------------------------------------------

    async def _make(self, kind: str) -> Outcome:
        now = datetime.now(UTC)
        day = now.astimezone(self._zone).date()
        before, _ = await self._store.read(kind, day)
        since = before.since if before else await self._since(kind, day, now)
        sections = await self._sources.gather(Span(kind=kind, day=day, since=since))
        path = str(self._context.settings.inbox / kind / f"{day.isoformat()}.md")
        empty = Told(kind=kind, day=day, made_at=now, since=since, sections=(), path=path)
        outcome = await self._store_told(empty, sections)
        await self._set_late_timer(kind, day, 0)
        return outcome

    async def _store_told(self, fallback: Told, fresh: Sequence[Section], *, late: bool = False) -> Outcome:
        """Add ``fresh`` to what was told, or to ``fallback`` if nothing was; the page and the record."""

        async def attempt() -> tuple[Told | None, Told]:
            before, seq = await self._store.read(fallback.kind, fallback.day)
            if before is None:
                after = msgspec.structs.replace(fallback, sections=tuple(fresh))
            else:
                after = before.add(fresh, datetime.now(UTC))
            await self._write(after)
            await self._context.bus.commit([self._store.entry(after, seq)])
            return before, after

        before, after = await retry_on_conflict(attempt)
        added = after.additions[len(before.additions) :] if before else ()
        return self._outcome(after, added=added, repeated=before is not None and not late)

    async def _write(self, told: Told) -> None:
        path = self._context.settings.inbox / told.kind / f"{told.day.isoformat()}.md"
        await write_output(self._context, path, told.page(self._zone), "the briefing")

    def _outcome(
        self,
        told: Told,
        *,
        added: Sequence[tuple[datetime, tuple[Section, ...]]] = (),
        repeated: bool = False,
    ) -> Outcome:
        page, data = told.page(self._zone), told.data()
        if repeated and not added:
            last = told.additions[-1][0] if told.additions else told.made_at
            page += f"\nNothing is new since {last.astimezone(self._zone):%H:%M}.\n"
        lines = [one.data() for _, sections in added for each in sections for one in each.lines]
        return Outcome(
            output=page,
            data={**data, "briefing": data, "added": lines},
            evidence_refs=told.references(),
            output_paths=(told.path,),
        )

    async def _since(self, kind: str, day: date, now: datetime) -> datetime:
        """The time since which a briefing tells: an evening the day, a morning all since the last evening."""
        if kind == "evening":
            return localize(datetime.combine(day, time()), self._zone)
        evening, _ = await self._store.read("evening", day - DAY)
        return max(evening.made_at, now - OLDEST) if evening else now - DAY

    # --- timers --------------------------------------------------------------------------------------

    async def set_timers(self) -> None:
        """Set the timer of the next briefing of each kind.

        A timer is named after its day: set again it replaces itself, and no other that is still pending.
        """
        for kind in KINDS:
            await self._set_timer(kind)

    async def _set_timer(self, kind: str) -> None:
        clock = self._clocks[kind]
        if clock is None:
            return
        now = datetime.now(UTC)
        daily = Recurrence(start=datetime.combine(date(2024, 1, 1), clock), rule="FREQ=DAILY")
        moment = next_occurrence(daily, now, self._zone) or now
        await self._wake(f"{PREFIX}{kind}_{moment.astimezone(self._zone).date()}", moment)

    async def _set_late_timer(self, kind: str, day: date, tries: int) -> None:
        """Have what is missing tried again, as often as the options say."""
        told, _ = await self._store.read(kind, day)
        if told is None or not told.missed or tries >= len(self._late):
            return
        elapsed = self._late[tries - 1] if tries else 0.0
        moment = datetime.now(UTC) + timedelta(minutes=self._late[tries] - elapsed)
        await self._wake(f"{PREFIX}{LATE}{kind}_{day}_{tries + 1}", moment)

    async def _wake(self, name: str, moment: datetime) -> None:
        me = self._context.profile.name
        due = ReminderDue(sender=me, recipient=me, reminder_id=name)
        await set_timer(self._context.bus, name, due, moment)

    async def start(self, due: ReminderDue) -> Outbox:
        """The task that makes the briefing that is due, once a day; or tells what one could not tell.

        A timer of an earlier day, from before Mailroom was stopped, makes today's briefing if its time has
        come too. The next timer is set first: after a crash in between, both are repeated without harm.
        """
        name = due.reminder_id.removeprefix(PREFIX)
        if name.startswith(LATE):
            return await self._start_late(due, name.removeprefix(LATE))
        kind, _, day = name.partition("_")
        clock = self._clocks.get(kind)
        if clock is None:
            return ()
        await self._set_timer(kind)
        now = datetime.now(UTC)
        today = now.astimezone(self._zone).date()
        if day != today.isoformat() and localize(datetime.combine(today, clock), self._zone) > now:
            self._context.log.info("briefing_skipped", kind=kind, day=day)
            return ()
        text = f"Write the {kind} briefing of {today}"
        return await self._task(due, f"{PREFIX}{kind}_{today}", text, f"{PREFIX}{kind}", {})

    async def start_wanted(self, report: AgentReport) -> Outbox:
        """The task that makes the briefing that a person wants; none for a report of something else."""
        kind = report.metadata.get("kind")
        if report.report_type != WANTED or kind not in KINDS:
            return ()
        return await self._task(
            report, f"wanted_{report.id}", f"Write the {kind} briefing", f"{PREFIX}{kind}", {}
        )

    async def _start_late(self, due: ReminderDue, name: str) -> Outbox:
        kind, day, _ = name.split("_")
        text = f"Tell what the {kind} briefing of {day} could not tell"
        return await self._task(due, f"{PREFIX}{LATE}{name}", text, "brief_late", {"kind": kind, "day": day})

    async def _task(
        self, cause: Envelope, task_id: str, text: str, action: str, params: dict[str, str]
    ) -> Outbox:
        me = self._context.profile.name
        task = Task(
            task_id=task_id,
            cause=cause.id,
            text=text,
            assignee=me,
            requester=me,
            asker=subjects.USER,
            context={"action": action, "params": params},
        )
        return () if await read_task(self._context.bus, task) else [task]

    # --- reports -------------------------------------------------------------------------------------

    async def report(self, result: TaskResult) -> Outbox:
        """The report to the person about a briefing's task: its head, or why there is none.

        One that tells what is late has those lines alone; there is none if it had nothing to tell.
        """
        name = result.task_id.removeprefix(PREFIX)
        late = name.startswith(LATE)
        kind = name.removeprefix(LATE).partition("_")[0]
        if late:
            tries = int(name.rpartition("_")[2])
            await self._set_late_timer(kind, date.fromisoformat(name.split("_")[2]), tries)
            if not result.metadata.get("added"):
                return ()
        done = result.status is TaskStatus.COMPLETED
        summary = f"The {kind} briefing was not written: {result.error_message}"
        lines: tuple[str, ...] = ()
        if done:
            told = read_told(result.metadata["briefing"])
            title = format_title(kind, told.day)
            summary = f"{title}: what could not be told before" if late else title
            lines = _findings(told, late=late)
        me = self._context.profile.name
        return [
            AgentReport(
                sender=me,
                recipient=subjects.USER,
                cause=result.id,
                report_id=result.task_id,
                agent=me,
                report_type=f"{kind}_briefing",
                summary=summary,
                findings=lines,
                evidence_refs=result.evidence_refs,
                output_paths=result.output_paths,
                metadata={"late": late, **({"briefing": result.metadata["briefing"]} if done else {})},
            )
        ]


def _findings(told: Told, *, late: bool) -> tuple[str, ...]:
    if not late:
        return tuple(each.told[:MAX_FINDING] for each in told.head)
    added = told.additions[-1][1] if told.additions else ()
    return tuple(f"{each.title}: {one.told}"[:MAX_FINDING] for each in added for one in each.lines)


def parse_clock(text: str, option: str) -> time | None:
    """The time of day in an option such as ``07:00``, None for an empty one; raises ConfigError."""
    if not text:
        return None
    try:
        clock = time.fromisoformat(text)
    except ValueError:
        clock = None
    if clock is None or clock.tzinfo is not None:
        raise ConfigError(
            f"The option {option!r} of the nexus profile is {text[:40]!r}, which is no time of day",
            "Write it as in 07:00",
        )
    return clock
