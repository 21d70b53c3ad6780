"""The morning and the evening briefing: one page each, made on schedule and on demand, and added to."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import msgspec

from services.nexus.briefings.lines import Section
from services.nexus.briefings.page import format_title, tell_what_matters
from services.nexus.briefings.sources import OF_THE_OFFICE, BriefingOptions, BriefingSources, Span
from services.nexus.briefings.told import MAX_FINDING, Told, ToldStore, read_told
from shared import subjects
from shared.agent.base import Outbox
from shared.agent.context import AgentContext
from shared.bus import Entry
from shared.bus.records import read_task, retry_on_conflict, submission_entry
from shared.clock import localize, parse_timestamp
from shared.contracts import AgentReport, Due, DueKind, DueStatus, Task, TaskResult, TaskStatus
from shared.errors import ActionError, ConfigError
from shared.memory.ownership import audience_read_for
from shared.recurrence import Recurrence, format_recurrence
from shared.skills.workspace import write_output
from shared.tasks.actions import Outcome, register_action
from shared.timetable import WAITING, Change, Known, TimetableKeeper, move, next_time, to_timestamp

KINDS = ("morning", "evening")
PREFIX = "brief_"  # How the names of a briefing's action and task begin
LATE = "late_"  # How the names of those go on that tell what could not be told at its time
EVENING_BEGINS = 14  # The hour from which a briefing of no kind is the evening's
OLDEST = timedelta(hours=36)  # How far back a morning tells, if the last evening was told longer ago
DAY = timedelta(days=1)
WANTED = "briefing_wanted"  # The type of the report by which a person wants a briefing made, or added to


class BriefingMaker:
    """Makes the briefings, at the times that the timetable has for them and on demand."""

    def __init__(
        self,
        context: AgentContext,
        keeper: TimetableKeeper,
        sources: BriefingSources,
        options: BriefingOptions,
    ) -> None:
        self._context = context
        self._keeper = keeper
        self._sources = sources
        self._late = options.late
        self._zone = keeper.zone
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
        "Tell the briefing of today, and what waits by now; it is made if it was not, or with again",
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
        return await self._make(chosen) if again or told is None else await self._tell(told)

    @register_action(
        "Send a briefing by mail, to an address that the settings allow",
        {"recipient": "The address", "kind": "morning or evening; empty: the latest"},
        personal=True,
    )
    async def mail_briefing(self, recipient: str, kind: str = "") -> Outcome:
        """As tell_briefing and send_mail; raises ActionError if one of them does."""
        told = await self.tell_briefing(kind)
        subject = told.output.strip().partition("\n")[0].lstrip("# ")
        params = {"recipient": recipient, "subject": subject, "body": told.output}
        return await self._context.actions.perform("send_mail", params)

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

    async def _tell(self, told: Told) -> Outcome:
        """What was told before, with what the office itself says now: that takes no time."""
        span = Span(kind=told.kind, day=told.day, since=told.since)
        return await self._store_told(told, await self._sources.gather(span, OF_THE_OFFICE), late=True)

    # --- making --------------------------------------------------------------------------------------

    async def _make(self, kind: str) -> Outcome:
        now = datetime.now(UTC)
        day = now.astimezone(self._zone).date()
        before, _ = await self._store.read(kind, day)
        since = before.since if before else await self._since(kind, day, now)
        sections = await self._sources.gather(Span(kind=kind, day=day, since=since))
        own = audience_read_for()  # In the record alone: the folder is everybody's
        if own:  # Who looks for news keeps it, which nobody does for one person alone
            told, _ = await self._store.read(kind, day, team=True)
            sections += [each for each in told.sections if each.key == "new"] if told else []
        path = "" if own else str(self._context.settings.inbox / kind / f"{day.isoformat()}.md")
        matters = await tell_what_matters(self._context.models, sections)
        empty = Told(kind=kind, day=day, made_at=now, since=since, sections=(), path=path, matters=matters)
        outcome = await self._store_told(empty, sections)
        if not own:
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
                if not late:
                    after = msgspec.structs.replace(after, matters=fallback.matters)
            if after == before:
                return before, after
            if after.path:
                await write_output(self._context, Path(after.path), after.page(self._zone), "the briefing")
            await self._context.bus.commit([self._store.entry(after, seq)])
            return before, after

        before, after = await retry_on_conflict(attempt)
        added = after.additions[len(before.additions) :] if before else ()
        return self._outcome(after, added=added, repeated=before is not None and not late)

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
            output_paths=(told.path,) if told.path else (),
        )

    async def _since(self, kind: str, day: date, now: datetime) -> datetime:
        """The time since which a briefing tells: an evening the day, a morning all since the last evening."""
        if kind == "evening":
            return localize(datetime.combine(day, time()), self._zone)
        evening, _ = await self._store.read("evening", day - DAY)
        return max(evening.made_at, now - OLDEST) if evening else now - DAY

    # --- times ---------------------------------------------------------------------------------------

    async def plan(self) -> None:
        """Put the briefings into the timetable at the times that the options name; one without is paused.

        One that is there at its time stays as it is, also if that has passed while no process was there.
        """
        now = self._keeper.clock()

        async def step(known: Known) -> Change:
            return Change(items=[each for kind in KINDS if (each := self._planned(kind, known, now))])

        await self._keeper.change(step)

    def _planned(self, kind: str, known: Known, now: datetime) -> Due | None:
        """The item of a kind of briefing; None if there is none and is to be none."""
        found, clock = known.records.get(kind), self._clocks[kind]
        if clock is None:
            return msgspec.structs.replace(found.value, status=DueStatus.PAUSED) if found else None
        daily = Recurrence(start=datetime.combine(date(2024, 1, 1), clock), rule="FREQ=DAILY")
        repeats = format_recurrence(daily)
        if found and found.value.status in WAITING and found.value.repeats == repeats:
            return found.value
        item = found.value if found else self._item(kind, f"The {kind} briefing", now)
        item = msgspec.structs.replace(item, repeats=repeats)
        return move(item, next_time(item, now, self._zone) or now)

    def _item(self, due_id: str, text: str, moment: datetime) -> Due:
        return Due(
            due_id=due_id,
            what=DueKind.BRIEFING,
            text=text,
            requester=subjects.USER,
            at=to_timestamp(moment),
        )

    async def _set_late_timer(self, kind: str, day: date, tries: int) -> None:
        """Have what is missing tried again, as often as the options say."""
        told, _ = await self._store.read(kind, day)
        if told is None or not told.missed or tries >= len(self._late):
            return
        elapsed = self._late[tries - 1] if tries else 0.0
        moment = self._keeper.clock() + timedelta(minutes=self._late[tries] - elapsed)
        new = self._item(f"{LATE}{kind}_{day}", f"What the {kind} briefing of {day} could not tell", moment)

        async def step(known: Known) -> Change:
            found = known.records.get(new.due_id)
            item = msgspec.structs.replace(found.value if found else new, runs=tries)
            return Change(items=[move(item, moment)])

        await self._keeper.change(step)

    async def fire(self, due: Due, now: datetime) -> tuple[Due, Sequence[Entry]]:
        """The item after that, and the task that makes the briefing, once a day; or tells what one could not.

        The time of an earlier day, from before Mailroom was stopped, makes today's briefing if its time has
        come too.
        """
        if due.due_id.startswith(LATE):
            kind, _, day = due.due_id.removeprefix(LATE).partition("_")
            after = msgspec.structs.replace(due, status=DueStatus.DONE, runs=due.runs + 1)
            name = f"{PREFIX}{due.due_id}_{after.runs}"
            text = f"Tell what the {kind} briefing of {day} could not tell"
            return after, await self._submit(due.id, name, text, "brief_late", {"kind": kind, "day": day})
        after = move(due, next_time(due, now, self._zone) or now + DAY)
        kind, today = due.due_id, now.astimezone(self._zone).date()
        clock = self._clocks[kind] or time()
        was = parse_timestamp(due.at).astimezone(self._zone).date()
        if was != today and localize(datetime.combine(today, clock), self._zone) > now:
            self._context.log.info("briefing_skipped", kind=kind, day=str(was))
            return after, ()
        after = msgspec.structs.replace(after, runs=due.runs + 1, last_at=to_timestamp(now))
        text = f"Write the {kind} briefing of {today}"
        return after, await self._submit(due.id, f"{PREFIX}{kind}_{today}", text, f"{PREFIX}{kind}", {})

    async def _submit(
        self, cause: str, task_id: str, text: str, action: str, params: dict[str, str]
    ) -> Sequence[Entry]:
        return [submission_entry(each) for each in await self._task(cause, task_id, text, action, params)]

    async def start_wanted(self, report: AgentReport) -> Outbox:
        """The task that makes the briefing that a person wants; none for a report of something else."""
        kind = report.metadata.get("kind")
        if report.report_type != WANTED or kind not in KINDS:
            return ()
        text = f"Write the {kind} briefing"
        name, action = f"wanted_{report.id}", f"{PREFIX}{kind}"
        return await self._task(report.id, name, text, action, {}, report.audience)

    async def _task(
        self, cause: str, task_id: str, text: str, action: str, params: dict[str, str], audience: str = ""
    ) -> Sequence[Task]:
        """The task, unless it was submitted before."""
        me = self._context.profile.name
        task = Task(
            task_id=task_id,
            cause=cause,
            text=text,
            assignee=me,
            requester=me,
            asker=subjects.USER,
            audience=audience,
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
