"""The sources of a briefing: what each section has to tell, and where it comes from."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec

from services.nexus.briefing import Found
from services.nexus.night import NightLog
from services.nexus.reminders import ENDED, WAITING, describe, due_of
from services.nexus.reminding import Reminding
from shared.bus import Bus
from shared.clock import place
from shared.contracts import EdgesQuery, Relation, ReminderStatus, TaskResult, TaskStatus
from shared.errors import ActionError, ConfigError
from shared.messaging.directory import Directory
from shared.settings import Settings
from shared.tasks.actions import Outcome
from shared.tasks.profile import Profile

CONTRADICTIONS = 10
"""The most contradictions that are told."""
MEETING = 3.0
"""Seconds a colleague has to show up who is just starting: an office is ready within about one."""
LOOK_AGAIN = 0.25
"""Seconds between looks whether a colleague is at work."""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the rounds: when they are made, and the seconds a section, and frontier's, may take."""

    morning: str = "07:00"
    evening: str = "18:00"
    section_timeout: float = 15.0
    papers_timeout: float = 90.0


class Sources(Reminding):
    """An agent that knows what is to be told in a briefing."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        try:
            self.times = msgspec.convert(profile.options, Times)
        except msgspec.ValidationError as error:
            raise ConfigError(f"The options of the nexus profile are wrong: {error}") from None
        self.night = NightLog(bus)

    def sources(self, kind: str, day: date) -> Mapping[str, tuple[Awaitable[Found], float]]:
        """The sections of the ``kind`` of briefing, by title, with the seconds each may take.

        In the morning it is about ``day``, in the evening about the day after.
        """
        ahead = 0 if kind == "morning" else 1
        about, limit = day + timedelta(days=ahead), self.times.section_timeout
        when = "today" if kind == "morning" else "tomorrow"
        sources: dict[str, tuple[Callable[[], Awaitable[Found]], float]] = {
            f"Weather {when}": (lambda: self._weather(ahead), limit),
            f"Calendar {when}": (lambda: self._calendar(about), limit),
            "Reminders": (lambda: self._reminders(about), limit),
            "Overnight jobs": (self._overnight, 2 * limit),
            "New papers": (self._papers, self.times.papers_timeout),
            "Unresolved contradictions": (self._contradictions, limit),
        }
        return {title: (source(), seconds) for title, (source, seconds) in sources.items()}

    async def _weather(self, ahead: int) -> Found:
        found = await self._look("tell_weather", {"days": 1 + ahead})
        forecast: dict[str, Any] = found.data.get("forecast", {})
        lines = [line.lstrip("- ") for line in found.output.splitlines()]
        head, days = lines[0], lines[1:]
        shown = days[ahead : ahead + 1] or days
        lines = [f"{forecast.get('place') or head}: {shown[0]}"] if ahead and shown else [head, *shown]
        return Found(lines=tuple(lines), evidence=found.evidence_refs)

    async def _calendar(self, about: date) -> Found:
        found = await self._look("show_calendar", {"days": 1, "start": about.isoformat()})
        lines = found.output.splitlines()[1:]
        told = [line.removeprefix("- ") for line in lines if line.startswith("- ")]
        return Found(lines=tuple(told), remark=" ".join(line for line in lines if not line.startswith("- ")))

    async def _reminders(self, about: date) -> Found:
        reminders, _ = await self.book.read()
        until = place(datetime.combine(about + timedelta(days=1), datetime.min.time()), self.zone)
        shown = [
            each
            for each in sorted(reminders.reminders, key=lambda each: each.due_at)
            if each.status is ReminderStatus.FIRED or (each.status in WAITING and due_of(each) < until)
        ]
        open_ones = sum(each.status not in ENDED for each in reminders.reminders)
        later = open_ones - len(shown)
        remark = f"{later} {'more ' if shown else ''}due later: mailroom reminders list" if later else ""
        return Found(lines=tuple(describe(each, self.zone) for each in shown), remark=remark)

    async def _overnight(self) -> Found:
        jobs = await self.night.latest(datetime.now(UTC) - timedelta(hours=24))
        lines = [each.summary for each in jobs]
        refs = tuple(ref for each in jobs for ref in (*each.evidence_refs, *each.output_paths))
        try:
            async with asyncio.timeout(self.times.section_timeout):
                queue = await self._ask("cortex", "Say how the queue stands", "queue_status")
        except TimeoutError:
            return Found(lines=tuple(lines), remark="cortex did not say how its queue stands.", evidence=refs)
        except ActionError as error:
            return Found(lines=tuple(lines), remark=str(error), evidence=refs)
        told = (line.removeprefix("- ") for line in queue.output.splitlines())
        return Found(lines=(*lines, *told), evidence=refs)

    async def _papers(self) -> Found:
        result = await self._ask("frontier", "Look for what is new", "daily_discovery")
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
        return Found(lines=tuple(lines), remark=problems, evidence=result.evidence_refs)

    async def _contradictions(self) -> Found:
        page = await self.context.memory.edges(EdgesQuery(relations=(Relation.CONTRADICTS,), limit=100))
        pairs = list(dict.fromkeys(tuple(sorted((edge.from_id, edge.to_id))) for edge in page.edges))
        nodes = {
            node.id: node
            for node in await self.context.memory.get(*{each for pair in pairs for each in pair})
        }
        live = [
            pair for pair in pairs if all(each in nodes and not nodes[each].retired_version for each in pair)
        ]
        lines = [
            f"{nodes[one].title} [{one}] - but: {nodes[other].title} [{other}]"
            for one, other in live[:CONTRADICTIONS]
        ]
        more = f"{len(live) - CONTRADICTIONS} more." if len(live) > CONTRADICTIONS else ""
        return Found(lines=tuple(lines), remark=more, evidence=tuple(each for pair in live for each in pair))

    async def _look(self, action: str, params: Mapping[str, Any]) -> Outcome:
        """What one of its own actions finds; ActionError where the profile names no such skill."""
        if action not in self.context.actions:
            raise ActionError(
                f"The profile of {self.context.profile.name} has no skill with the action {action}"
            )
        return await self.context.actions.perform(action, params)

    async def _ask(self, colleague: str, text: str, action: str) -> TaskResult:
        """What a colleague's action brings; ActionError where it fails, or the colleague is not at work."""
        await self._meet(colleague)
        result = await self.context.delegation.run(colleague, text, action, key=action)
        if result.status is not TaskStatus.COMPLETED:
            raise ActionError(f"{colleague}: {result.error_message or result.status}")
        return result

    async def _meet(self, colleague: str) -> None:
        """Return once a colleague is at work, who may be just starting as the whole office is."""
        deadline = time.monotonic() + min(MEETING, self.times.section_timeout / 2)
        while colleague not in await Directory(self.context.bus).read():
            if time.monotonic() > deadline:
                raise ActionError(f"{colleague} is not at work", "See 'mailroom status'")
            await asyncio.sleep(LOOK_AGAIN)
