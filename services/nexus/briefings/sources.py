"""The sections of a briefing, gathered side by side, and the source of each."""

import asyncio
import re
import time
from collections.abc import Awaitable, Collection, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec

from services.nexus.briefings.lines import Line, Section, Source, line
from services.nexus.briefings.page import find_projects, rank_items
from services.nexus.briefings.sections import (
    done_lines,
    due_reminders,
    failed_lines,
    find_contradictions,
    find_deadlines,
    job_lines,
    learned_since,
    missed_reminders,
    queue_lines,
    read_current_nodes,
    spent_lines,
    waiting_lines,
)
from services.nexus.briefings.told import OvernightReports
from shared.agent.context import AgentContext
from shared.clock import localize, parse_timestamp, read_zone
from shared.contracts import Due, DueKind, Goal, TaskResult, TaskStatus
from shared.errors import ActionError, BusError, MailroomError
from shared.memory.ownership import audience_read_for
from shared.queries.office import OfficeReader
from shared.tasks.actions import Outcome
from shared.timetable import TimetableKeeper

MAX_NEW = 12  # The most papers and news that a briefing lists
START_WAIT = 3.0  # Seconds to wait for an agent that is just starting: all agents are ready within about one
POLL_INTERVAL = 0.25  # Seconds between two reads of the directory, or of memory's health


OF_THE_OFFICE = frozenset({"waits", "failed", "done", "missed", "spent"})
"""The sections that the office's records alone tell, in milliseconds."""


class BriefingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """When the briefings are made, and the seconds that a section, and frontier's section, may take.

    ``memory_wait`` is how many seconds memory is waited for, ``late`` after how many minutes a section that
    could not be told is tried again.
    """

    morning: str = "07:00"
    evening: str = "18:00"
    section_timeout: float = 15.0
    papers_timeout: float = 90.0
    memory_wait: float = 20.0
    late: tuple[float, ...] = (5.0, 20.0, 60.0)


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """What a briefing is about: its day, and the time since which it tells."""

    kind: str
    day: date
    since: datetime

    @property
    def about(self) -> date:
        """The day whose calendar it tells: an evening's is tomorrow."""
        return self.day + timedelta(days=0 if self.kind == "morning" else 1)


class BriefingSources:
    """The sources of a briefing: nexus' own skills and records, memory, the office, and other agents."""

    def __init__(
        self,
        context: AgentContext,
        keeper: TimetableKeeper,
        overnight: OvernightReports,
        options: BriefingOptions,
    ) -> None:
        self._context = context
        self._keeper = keeper
        self._overnight = overnight
        self._options = options
        self._zone = read_zone(context.settings.time_zone)
        self._office = OfficeReader(context.bus)

    async def gather(self, span: Span, only: Collection[str] = ()) -> list[Section]:
        """The sections of a briefing (or ``only`` these), read side by side, each within its time.

        A source that fails or takes too long leaves a sentence in its section and does not delay the others.
        Memory is waited for first, if it is just starting and the sections are not those of the office alone.
        """
        if not only or not OF_THE_OFFICE.issuperset(only):
            await self._wait_for_memory()
        limit = self._options.section_timeout
        when = "today" if span.kind == "morning" else "tomorrow"
        since = f"{span.since.astimezone(self._zone):%A %H:%M}"
        table: dict[str, tuple[str, Any, float]] = {
            "waits": ("Waits for you", self._waiting, limit),
            "failed": (f"Failed since {since}", self._failed, limit),
            "due": ("Due", self._due, limit),
            "night": ("Overnight", self._night, 2 * limit),
            "done": ("Done today", self._done, limit),
            "missed": ("Missed", self._missed, limit),
            "learned": ("Learned today", self._learned, limit),
            "spent": ("Spent today", self._spent, limit),
            "tomorrow": ("Tomorrow", self._tomorrow, limit),
            "calendar": ("Calendar today", self._calendar, limit),
            "weather": (f"Weather {when}", self._weather, limit),
            "new": ("New", self._new, self._options.papers_timeout),
            "contradictions": ("Unresolved contradictions", self._contradictions, limit),
        }
        wanted = [key for key in self._keys(span.kind) if not only or key in only]
        wanted = [key for key in wanted if key != "new" or not audience_read_for()]
        return list(
            await asyncio.gather(
                *(_read_section(key, table[key][0], table[key][1](span), table[key][2]) for key in wanted)
            )
        )

    def _keys(self, kind: str) -> list[str]:
        """The sections of a kind of briefing; without those that nothing is set for."""
        settings = self._context.settings
        calendar = ["calendar"] if settings.calendar else []
        weather = ["weather"] if settings.home_place else []
        if kind == "morning":
            return ["waits", "failed", "due", "night", *calendar, *weather, "new", "contradictions"]
        return ["done", "missed", "learned", "spent", "tomorrow", "waits", *weather]

    # --- the office ----------------------------------------------------------------------------------

    async def _waiting(self, _: Span) -> Section:
        goals = await self._office.goals()
        return Section(lines=tuple(waiting_lines(await self._office.waiting(goals))))

    async def _failed(self, span: Span) -> Section:
        return Section(lines=tuple(failed_lines(await self._office.goals(), span.since)))

    async def _done(self, span: Span) -> Section:
        return Section(lines=tuple(done_lines(await self._office.goals(), span.since)))

    async def _missed(self, span: Span) -> Section:
        goals, reminders = await self._office.goals(), await self._reminders()
        lines = [*failed_lines(goals, span.since), *missed_reminders(reminders, self._zone)]
        return Section(lines=tuple(lines))

    async def _spent(self, span: Span) -> Section:
        return Section(lines=tuple(spent_lines(await self._office.spending(span.day.isoformat()))))

    async def _night(self, span: Span) -> Section:
        goals, jobs = await self._office.goals(), await self._overnight.since(span.since)
        lines = (*job_lines(jobs), *done_lines(goals, span.since, "Done: "))
        try:
            async with asyncio.timeout(self._options.section_timeout):
                queue = await self._delegate("cortex", "Say how the queue stands", "queue_status")
        except TimeoutError:
            return Section(lines=lines, problem="cortex did not report its queue's status.", missed=True)
        except ActionError as error:
            return Section(lines=lines, problem=str(error), missed=True)
        return Section(lines=(*lines, *queue_lines(queue)))

    # --- dates ---------------------------------------------------------------------------------------

    async def _due(self, span: Span) -> Section:
        """Today's reminders and deadlines, and the deadlines of the days after."""
        reminders = await self._reminders()
        lines = due_reminders(reminders, self._end_of(span.day), self._zone)
        return await self._with_deadlines(lines, span.day, 7)

    async def _tomorrow(self, span: Span) -> Section:
        """The calendar, reminders and deadlines of the next day."""
        reminders = await self._reminders()
        due = due_reminders(reminders, self._end_of(span.about), self._zone, fired=False)
        section = await self._with_deadlines(due, span.about, 0)
        if not self._context.settings.calendar:
            return section
        calendar = await _read_section("", "", self._calendar(span), self._options.section_timeout)
        return msgspec.structs.replace(
            section,
            lines=(*calendar.lines, *section.lines),
            problem=" ".join(each for each in (calendar.problem, section.problem) if each),
            missed=calendar.missed or section.missed,
        )

    async def _reminders(self) -> list[Due]:
        return (await self._keeper.read()).of(DueKind.MAIL)

    async def _with_deadlines(self, lines: list[Line], day: date, ahead: int) -> Section:
        try:
            deadlines = find_deadlines(await read_current_nodes(self._context.memory), day, ahead)
        except BusError as error:
            problem = f"Deadlines in memory are not known: {str(error).rstrip('.')}."
            return Section(lines=tuple(lines), problem=problem, missed=True)
        return Section(lines=(*lines, *(told for _, told in deadlines)))

    async def _calendar(self, span: Span) -> Section:
        outcome = await self._run_action("show_calendar", {"days": 1, "start": span.about.isoformat()})
        lines = outcome.output.splitlines()[1:]
        source = Source(kind="calendar", id="")
        return Section(
            lines=tuple(
                line(re.sub(rf"^- (?:\w+ )?{span.about}:? ", "", each).removeprefix("- "), source)
                for each in lines
                if each.startswith("- ")
            ),
            problem=" ".join(each for each in lines if not each.startswith("- ")),
        )

    async def _weather(self, span: Span) -> Section:
        ahead = (span.about - span.day).days
        outcome = await self._run_action("tell_weather", {"days": 1 + ahead})
        forecast: dict[str, Any] = outcome.data.get("forecast", {})
        head, *days = [each.lstrip("- ") for each in outcome.output.splitlines()]
        shown = days[ahead : ahead + 1] or days
        lines = [f"{forecast.get('place') or head}: {shown[0]}"] if ahead and shown else [head, *shown]
        sources = [Source(kind="service", id=each) for each in outcome.evidence_refs]
        return Section(lines=tuple(line(each, *sources[:1]) for each in lines))

    # --- memory and discoveries ----------------------------------------------------------------------

    async def _learned(self, span: Span) -> Section:
        return await learned_since(self._context.memory, span.since)

    async def _contradictions(self, _: Span) -> Section:
        return await find_contradictions(self._context.memory)

    async def _new(self, _: Span) -> Section:
        result = await self._delegate("frontier", "Look for what is new", "daily_discovery")
        discovery: dict[str, Any] = result.metadata.get("discovery") or {}
        items = [
            each
            for name in ("papers", "news_items")
            for each in discovery.get(name, ())
            if isinstance(each, dict)
        ]
        projects = find_projects(await self._recent_goals())
        ranked = rank_items(items, projects, datetime.now(UTC))[:MAX_NEW]
        problems = " ".join(f"{str(each).rstrip('.')}." for each in result.metadata.get("problems", ()))
        return Section(lines=tuple(ranked), problem=problems)

    async def _recent_goals(self) -> list[Goal]:
        start = datetime.now(UTC) - timedelta(days=30)
        try:
            return [goal for goal in await self._office.goals() if parse_timestamp(goal.submitted_at) > start]
        except BusError:
            return []

    # --- reaching them -------------------------------------------------------------------------------

    def _end_of(self, day: date) -> datetime:
        return localize(datetime.combine(day + timedelta(days=1), datetime.min.time()), self._zone)

    async def _wait_for_memory(self) -> None:
        """Return when memory answers, at the latest after ``memory_wait`` seconds."""
        import tenacity

        asking = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(BusError),
            wait=tenacity.wait_fixed(POLL_INTERVAL),
            stop=tenacity.stop_after_delay(self._options.memory_wait),
            retry_error_callback=lambda _: {},
        )
        await asking(self._context.memory.health)

    async def _run_action(self, action: str, params: Mapping[str, Any]) -> Outcome:
        """The outcome of an action of nexus; raises ActionError if the profile has no skill with it."""
        if action not in self._context.actions:
            name = self._context.profile.name
            raise ActionError(f"The profile of {name} has no skill with the action {action}")
        return await self._context.actions.perform(action, params)

    async def _delegate(self, agent: str, text: str, action: str) -> TaskResult:
        """The result of another agent's action; raises ActionError if it fails or the agent is absent."""
        # Return when ``agent`` is in the directory: it may be starting at the same time as nexus
        deadline = time.monotonic() + min(START_WAIT, self._options.section_timeout / 2)
        while agent not in await self._context.directory.read():
            if time.monotonic() > deadline:
                raise ActionError(f"{agent} is not at work", "See 'mailroom status'")
            await asyncio.sleep(POLL_INTERVAL)
        result = await self._context.delegation.run(agent, text, action, key=action)
        if result.status is not TaskStatus.COMPLETED:
            raise ActionError(f"{agent}: {result.error_message or result.status}")
        return result


async def _read_section(key: str, title: str, source: Awaitable[Section], limit: float) -> Section:
    try:
        async with asyncio.timeout(limit):
            return msgspec.structs.replace(await source, key=key, title=title)
    except TimeoutError:
        problem = f"It could not be read within {limit:g} s."
    except (MailroomError, OSError, ValueError) as error:
        problem = f"It could not be read: {str(error).rstrip('.')}."
    return Section(key=key, title=title, problem=problem, missed=True)
