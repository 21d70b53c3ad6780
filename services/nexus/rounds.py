"""The rounds of the day: the morning and the evening briefing, made on time and on demand."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from services.nexus.book import set_timer
from services.nexus.briefing import (
    KINDS,
    Section,
    compose_page,
    gather_sections,
    read_clock,
    save_page,
)
from services.nexus.repeating import EVERY_DAY, Repeat, next_of
from services.nexus.sources import Sources
from shared import subjects
from shared.agent.base import Outbox
from shared.bus import Bus
from shared.clock import place
from shared.contracts import AgentReport, ReminderDue, Task, TaskResult, TaskStatus
from shared.errors import ActionError, BusError
from shared.settings import Settings
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profile import Profile

BRIEF = "brief_"
"""How the names of a briefing's timer, action and task begin."""
TRY_AGAIN = 5.0
"""Seconds until the timer is set again where the broker did not take it."""


class Rounds(Sources):
    """An agent that writes the briefings of the day."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        self.clocks = {kind: read_clock(getattr(self.times, kind), kind) for kind in KINDS}

    # --- on demand -------------------------------------------------------------------------------

    @register_action("Write the morning briefing now")
    async def brief_morning(self) -> Outcome:
        """The page in the inbox folder, and its text; a section that cannot be told says why."""
        return await self._brief("morning")

    @register_action("Write the evening briefing now")
    async def brief_evening(self) -> Outcome:
        """As the morning's; weather and calendar are those of tomorrow."""
        return await self._brief("evening")

    async def _brief(self, kind: str) -> Outcome:
        now = datetime.now(UTC)
        day = now.astimezone(self.zone).date()
        sections = await gather_sections(self.sources(kind, day))
        page = compose_page(kind, day, now, sections, self.zone)
        folder = self.context.settings.inbox / kind
        async with self.context.effect(f"write the {kind} briefing of {day}", repeatable=True):
            try:
                path = await asyncio.to_thread(save_page, page, folder, day)
            except OSError as error:
                raise ActionError(
                    f"The briefing cannot be written into {folder}: {error.strerror}",
                    "Make the folder writable",
                ) from None
        return Outcome(
            output=page,
            data={"kind": kind, "day": day.isoformat(), "sections": [_told(each) for each in sections]},
            evidence_refs=tuple(dict.fromkeys(ref for each in sections for ref in each.evidence)),
            output_paths=(str(path),),
        )

    # --- on time ---------------------------------------------------------------------------------

    async def schedule(self) -> None:
        """Set the timer of each briefing's next time; tried until the broker takes it.

        A timer is named after its day: set again it replaces itself, and never one that is still to go off.
        """
        while True:
            try:
                for kind in KINDS:
                    await self._schedule(kind)
            except BusError as error:
                self.context.log.warning("timers_not_set", reason=str(error))
                await asyncio.sleep(TRY_AGAIN)
            else:
                return

    async def _schedule(self, kind: str) -> None:
        clock = self.clocks[kind]
        if clock is None:
            return
        moment = next_of(Repeat(weekdays=EVERY_DAY, clock=clock), datetime.now(UTC), self.zone)
        name = f"{BRIEF}{kind}_{moment.astimezone(self.zone).date()}"
        due = ReminderDue(
            sender=self.context.profile.name, recipient=self.context.profile.name, reminder_id=name
        )
        await set_timer(self.context.bus, name, due, moment)

    async def begin_round(self, due: ReminderDue) -> Outbox:
        """A briefing's time has come: it becomes one task of today, which is done once.

        A timer of an earlier day, from before the office was closed, stands for today's, if its time has come
        too. The next timer is set before: whoever is killed in between does both again, to the same effect.
        """
        kind, _, day = due.reminder_id.removeprefix(BRIEF).partition("_")
        clock = self.clocks.get(kind)
        if clock is None:
            return ()
        await self._schedule(kind)
        now = datetime.now(UTC)
        today = now.astimezone(self.zone).date()
        if day != today.isoformat() and place(datetime.combine(today, clock), self.zone) > now:
            self.context.log.info("briefing_skipped", kind=kind, day=day)
            return ()
        me, task_id = self.context.profile.name, f"{BRIEF}{kind}_{today}"
        if await self.context.bus.last(subjects.OFFICE, subjects.state(me, me, task_id)):
            return ()
        return [
            Task(
                task_id=task_id,
                cause=due.id,
                text=f"Write the {kind} briefing of {today}",
                assignee=me,
                requester=me,
                context={"action": f"{BRIEF}{kind}"},
            )
        ]

    def deliver_round(self, result: TaskResult) -> Outbox:
        """The report that tells the person that a briefing is there, or why it is not."""
        kind = result.task_id.removeprefix(BRIEF).partition("_")[0]
        done = result.status is TaskStatus.COMPLETED
        where = f"The {kind} briefing is in {', '.join(result.output_paths)}."
        return [
            AgentReport(
                sender=self.context.profile.name,
                recipient=subjects.USER,
                cause=result.id,
                report_id=result.task_id,
                agent=self.context.profile.name,
                report_type=f"{kind}_briefing",
                summary=where if done else f"The {kind} briefing was not written: {result.error_message}",
                findings=tuple(
                    f"{each['title']}: {each['problem'] or '; '.join(each['lines'][:3]) or 'nothing'}"[:500]
                    for each in result.metadata.get("sections", ())
                ),
                evidence_refs=result.evidence_refs,
                output_paths=result.output_paths,
            )
        ]

    async def on_report(self, report: AgentReport) -> Outbox:
        """Keep what cortex did at night for the next briefings."""
        if report.sender != "cortex" or report.report_type != "overnight_job":
            return ()
        entry = await self.night.keep(report)
        return [entry] if entry else ()


def _told(section: Section) -> dict[str, Any]:
    return {"title": section.title, "lines": list(section.lines), "problem": section.problem}
