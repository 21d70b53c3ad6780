"""The sections of a briefing, gathered side by side, and the source of each."""

import asyncio
import time
from collections.abc import Awaitable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec

from services.nexus.reminders.state import ENDED, WAITING, due_time, format_reminder
from services.nexus.reminders.store import ReminderStore
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.clock import localize, parse_timestamp, read_zone
from shared.contracts import AgentReport, EdgesQuery, Relation, ReminderStatus, TaskResult, TaskStatus
from shared.errors import ActionError, MailroomError
from shared.tasks.actions import Outcome

MAX_CONTRADICTIONS = 10
"""The most contradictions that a briefing lists."""
START_WAIT = 3.0
"""Seconds to wait for an agent that is just starting: all agents are ready within about one."""
POLL_INTERVAL = 0.25
"""Seconds between two reads of the directory."""
MAX_OVERNIGHT = 100
"""How many reports of overnight jobs are kept."""


class BriefingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """When the briefings are made, and the seconds that a section, and frontier's section, may take."""

    morning: str = "07:00"
    evening: str = "18:00"
    section_timeout: float = 15.0
    papers_timeout: float = 90.0


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A section of a briefing: its lines, possibly none, and a sentence about what is missing and why."""

    title: str = ""
    lines: tuple[str, ...] = ()
    problem: str = ""
    evidence: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """Title, lines and problem, as the data of an outcome."""
        return {"title": self.title, "lines": list(self.lines), "problem": self.problem}


class OvernightReports:
    """The record of cortex's overnight jobs: one report whose metadata holds the reports, oldest first."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._subject = subjects.record(bus.name, "overnight", "all")

    async def add(self, report: AgentReport) -> Entry | None:
        """The entry that adds ``report`` to the record; None if it is in it already."""
        reports, seq = await self._read()
        if any(each.report_id == report.report_id for each in reports):
            return None
        kept = [*reports, report][-MAX_OVERNIGHT:]
        record = AgentReport(
            sender=self._bus.name,
            report_id="overnight",
            agent=self._bus.name,
            report_type="overnight_jobs",
            summary=f"{len(kept)} overnight jobs",
            metadata={"reports": [each.to_dict() for each in kept]},
        )
        return seal(self._subject, record, expect=seq)

    async def since(self, start: datetime) -> list[AgentReport]:
        """The reports of jobs that ended after ``start``, oldest first."""
        reports, _ = await self._read()
        ended = ((each, str(each.metadata.get("completed_at") or each.created_at)) for each in reports)
        return [each for each, moment in ended if parse_timestamp(moment) > start]

    async def _read(self) -> tuple[list[AgentReport], int]:
        record = await read_record(self._bus, self._subject, AgentReport)
        if record is None:
            return [], 0
        return msgspec.convert(record.value.metadata.get("reports", []), list[AgentReport]), record.seq


class BriefingSources:
    """The sources of a briefing: nexus' own skills and records, memory, and other agents."""

    def __init__(
        self,
        context: AgentContext,
        store: ReminderStore,
        overnight: OvernightReports,
        options: BriefingOptions,
    ) -> None:
        self._context = context
        self._store = store
        self._overnight = overnight
        self._options = options
        self._zone = read_zone(context.settings.time_zone)

    async def gather(self, kind: str, day: date) -> list[Section]:
        """The sections of the ``kind`` of briefing, read side by side, each within its time.

        The morning's are about ``day``, the evening's about the day after. A source that fails or takes too
        long leaves a sentence in its section and does not delay the others.
        """
        ahead = 0 if kind == "morning" else 1
        about, limit = day + timedelta(days=ahead), self._options.section_timeout
        when = "today" if kind == "morning" else "tomorrow"
        sources: dict[str, tuple[Awaitable[Section], float]] = {
            f"Weather {when}": (self._weather(ahead), limit),
            f"Calendar {when}": (self._calendar(about), limit),
            "Reminders": (self._reminders(about), limit),
            "Overnight jobs": (self._overnight_jobs(), 2 * limit),
            "New papers": (self._papers(), self._options.papers_timeout),
            "Unresolved contradictions": (self._contradictions(), limit),
        }
        return list(await asyncio.gather(*(_read_section(title, *each) for title, each in sources.items())))

    async def _weather(self, ahead: int) -> Section:
        outcome = await self._run_action("tell_weather", {"days": 1 + ahead})
        forecast: dict[str, Any] = outcome.data.get("forecast", {})
        head, *days = [line.lstrip("- ") for line in outcome.output.splitlines()]
        shown = days[ahead : ahead + 1] or days
        lines = [f"{forecast.get('place') or head}: {shown[0]}"] if ahead and shown else [head, *shown]
        return Section(lines=tuple(lines), evidence=outcome.evidence_refs)

    async def _calendar(self, about: date) -> Section:
        outcome = await self._run_action("show_calendar", {"days": 1, "start": about.isoformat()})
        lines = outcome.output.splitlines()[1:]
        return Section(
            lines=tuple(line.removeprefix("- ") for line in lines if line.startswith("- ")),
            problem=" ".join(line for line in lines if not line.startswith("- ")),
        )

    async def _reminders(self, about: date) -> Section:
        reminders, _ = await self._store.read()
        until = localize(datetime.combine(about + timedelta(days=1), datetime.min.time()), self._zone)
        shown = [
            each
            for each in sorted(reminders.reminders, key=lambda each: each.due_at)
            if each.status is ReminderStatus.FIRED or (each.status in WAITING and due_time(each) < until)
        ]
        later = sum(each.status not in ENDED for each in reminders.reminders) - len(shown)
        problem = f"{later} {'more ' if shown else ''}due later: mailroom reminders list" if later else ""
        return Section(lines=tuple(format_reminder(each, self._zone) for each in shown), problem=problem)

    async def _overnight_jobs(self) -> Section:
        jobs = await self._overnight.since(datetime.now(UTC) - timedelta(hours=24))
        lines = tuple(each.summary for each in jobs)
        refs = tuple(ref for each in jobs for ref in (*each.evidence_refs, *each.output_paths))
        try:
            async with asyncio.timeout(self._options.section_timeout):
                queue = await self._delegate("cortex", "Say how the queue stands", "queue_status")
        except TimeoutError:
            return Section(lines=lines, problem="cortex did not report its queue's status.", evidence=refs)
        except ActionError as error:
            return Section(lines=lines, problem=str(error), evidence=refs)
        status = (line.removeprefix("- ") for line in queue.output.splitlines())
        return Section(lines=(*lines, *status), evidence=refs)

    async def _papers(self) -> Section:
        result = await self._delegate("frontier", "Look for what is new", "daily_discovery")
        discovery: dict[str, Any] = result.metadata.get("discovery") or {}
        papers = [each for each in discovery.get("papers", ()) if isinstance(each, dict)]
        news = [each for each in discovery.get("news_items", ()) if isinstance(each, dict)]
        lines = [f"{each.get('title')} (arXiv:{each.get('arxiv_id')})" for each in papers]
        lines += [f"{each.get('title')} ({each.get('link')})" for each in news]
        if not lines:
            lines.append("Nothing that was not reported before.")
        if path := discovery.get("output_path"):
            lines.append(f"Written up in {path}")
        problems = " ".join(str(each) for each in result.metadata.get("problems", ()))
        return Section(lines=tuple(lines), problem=problems, evidence=result.evidence_refs)

    async def _contradictions(self) -> Section:
        memory = self._context.memory
        page = await memory.edges(EdgesQuery(relations=(Relation.CONTRADICTS,), limit=100))
        pairs = list(dict.fromkeys(tuple(sorted((edge.from_id, edge.to_id))) for edge in page.edges))
        nodes = {node.id: node for node in await memory.get(*{each for pair in pairs for each in pair})}
        live = [
            pair for pair in pairs if all(each in nodes and not nodes[each].retired_version for each in pair)
        ]
        lines = [
            f"{nodes[one].title} [{one}] - but: {nodes[other].title} [{other}]"
            for one, other in live[:MAX_CONTRADICTIONS]
        ]
        more = f"{len(live) - MAX_CONTRADICTIONS} more." if len(live) > MAX_CONTRADICTIONS else ""
        evidence = tuple(each for pair in live for each in pair)
        return Section(lines=tuple(lines), problem=more, evidence=evidence)

    async def _run_action(self, action: str, params: Mapping[str, Any]) -> Outcome:
        """The outcome of an action of nexus; raises ActionError if the profile has no skill with it."""
        if action not in self._context.actions:
            name = self._context.profile.name
            raise ActionError(f"The profile of {name} has no skill with the action {action}")
        return await self._context.actions.perform(action, params)

    async def _delegate(self, agent: str, text: str, action: str) -> TaskResult:
        """The result of another agent's action; raises ActionError if it fails or the agent is absent."""
        await self._wait_for(agent)
        result = await self._context.delegation.run(agent, text, action, key=action)
        if result.status is not TaskStatus.COMPLETED:
            raise ActionError(f"{agent}: {result.error_message or result.status}")
        return result

    async def _wait_for(self, agent: str) -> None:
        """Return when ``agent`` is in the directory: it may be starting at the same time as nexus."""
        deadline = time.monotonic() + min(START_WAIT, self._options.section_timeout / 2)
        while agent not in await self._context.directory.read():
            if time.monotonic() > deadline:
                raise ActionError(f"{agent} is not at work", "See 'mailroom status'")
            await asyncio.sleep(POLL_INTERVAL)


async def _read_section(title: str, source: Awaitable[Section], limit: float) -> Section:
    try:
        async with asyncio.timeout(limit):
            return msgspec.structs.replace(await source, title=title)
    except TimeoutError:
        return Section(title=title, problem=f"It could not be read within {limit:g} s.")
    except (MailroomError, OSError, ValueError) as error:
        return Section(title=title, problem=f"It could not be read: {str(error).rstrip('.')}.")
