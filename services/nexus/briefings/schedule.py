"""The morning and the evening briefing: one page each, made on schedule and on demand."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, tzinfo

from services.nexus.briefings.sources import BriefingOptions, BriefingSources, Section
from services.nexus.reminders.recurrence import EVERY_DAY, Recurrence, next_occurrence
from services.nexus.reminders.store import set_timer
from shared import subjects
from shared.agent.base import Outbox
from shared.agent.context import AgentContext
from shared.bus.records import read_task
from shared.clock import format_moment, localize, read_zone
from shared.contracts import AgentReport, ReminderDue, Task, TaskResult, TaskStatus
from shared.errors import ConfigError
from shared.skills.workspace import write_output
from shared.tasks.actions import Outcome, register_action
from shared.web.quoting import clean

KINDS = ("morning", "evening")
PREFIX = "brief_"
"""How the names of a briefing's timer, action and task begin."""
MAX_LINE = 400
"""The most characters of a line."""
MAX_LINES = 20
"""The most lines of a section."""


class BriefingSchedule:
    """Makes the briefings, at their times and on demand."""

    def __init__(self, context: AgentContext, sources: BriefingSources, options: BriefingOptions) -> None:
        self._context = context
        self._sources = sources
        self._zone = read_zone(context.settings.time_zone)
        self._clocks = {kind: parse_clock(getattr(options, kind), kind) for kind in KINDS}

    @register_action("Write the morning briefing now")
    async def brief_morning(self) -> Outcome:
        """The page in the inbox folder, and its text; a section that could not be read says why."""
        return await self._make("morning")

    @register_action("Write the evening briefing now")
    async def brief_evening(self) -> Outcome:
        """As the morning's; weather and calendar are tomorrow's."""
        return await self._make("evening")

    async def _make(self, kind: str) -> Outcome:
        now = datetime.now(UTC)
        day = now.astimezone(self._zone).date()
        sections = await self._sources.gather(kind, day)
        page = format_briefing(kind, day, now, sections, self._zone)
        path = self._context.settings.inbox / kind / f"{day.isoformat()}.md"
        await write_output(self._context, path, page, "the briefing")
        return Outcome(
            output=page,
            data={"kind": kind, "day": day.isoformat(), "sections": [each.data() for each in sections]},
            evidence_refs=tuple(dict.fromkeys(ref for each in sections for ref in each.evidence)),
            output_paths=(str(path),),
        )

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
        daily = Recurrence(weekdays=EVERY_DAY, clock=clock)
        moment = next_occurrence(daily, datetime.now(UTC), self._zone)
        name = f"{PREFIX}{kind}_{moment.astimezone(self._zone).date()}"
        me = self._context.profile.name
        due = ReminderDue(sender=me, recipient=me, reminder_id=name)
        await set_timer(self._context.bus, name, due, moment)

    async def start(self, due: ReminderDue) -> Outbox:
        """The task that makes the briefing that is due, once a day.

        A timer of an earlier day, from before Mailroom was stopped, makes today's briefing if its time has
        come too. The next timer is set first: after a crash in between, both are repeated without harm.
        """
        kind, _, day = due.reminder_id.removeprefix(PREFIX).partition("_")
        clock = self._clocks.get(kind)
        if clock is None:
            return ()
        await self._set_timer(kind)
        now = datetime.now(UTC)
        today = now.astimezone(self._zone).date()
        if day != today.isoformat() and localize(datetime.combine(today, clock), self._zone) > now:
            self._context.log.info("briefing_skipped", kind=kind, day=day)
            return ()
        me = self._context.profile.name
        task = Task(
            task_id=f"{PREFIX}{kind}_{today}",
            cause=due.id,
            text=f"Write the {kind} briefing of {today}",
            assignee=me,
            requester=me,
            context={"action": f"{PREFIX}{kind}"},
        )
        return () if await read_task(self._context.bus, task) else [task]

    def report(self, result: TaskResult) -> Outbox:
        """The report to the person about a briefing's task: where the page is, or why there is none."""
        kind = result.task_id.removeprefix(PREFIX).partition("_")[0]
        done = result.status is TaskStatus.COMPLETED
        where = f"The {kind} briefing is in {', '.join(result.output_paths)}."
        me = self._context.profile.name
        return [
            AgentReport(
                sender=me,
                recipient=subjects.USER,
                cause=result.id,
                report_id=result.task_id,
                agent=me,
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


def format_briefing(
    kind: str, day: date, made_at: datetime, sections: Sequence[Section], zone: tzinfo | None
) -> str:
    """The briefing as Markdown; text from elsewhere is cut to one line each."""
    parts = [
        f"# {kind.capitalize()} briefing, {day:%A} {day.day} {day:%B %Y}",
        f"Made on {format_moment(made_at, zone)}.",
    ]
    for section in sections:
        shown = [f"- {clean(line, MAX_LINE)}" for line in section.lines[:MAX_LINES]]
        if len(section.lines) > MAX_LINES:
            shown.append(f"- ... and {len(section.lines) - MAX_LINES} more")
        remark = [clean(section.problem, 2 * MAX_LINE)] if section.problem else []
        lines = [*shown, *(["", *remark] if shown and remark else remark)] or ["Nothing."]
        parts.append("\n".join([f"## {section.title}", "", *lines]))
    return "\n\n".join(parts) + "\n"


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
