"""Records of briefings: what a day was told, to which later ones add, and what the night brought."""

from collections.abc import Sequence
from datetime import date, datetime, tzinfo
from typing import Any

import msgspec

from services.nexus.briefings.lines import (
    Line,
    Section,
    added_lines,
    merge_sections,
    read_line,
    read_section,
)
from services.nexus.briefings.page import format_page, format_title, make_head
from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.clock import parse_timestamp
from shared.contracts import AgentReport
from shared.memory.ownership import audience_read_for

RECORD = "briefing"  # The kind of the records of briefings
LIVE = frozenset({"waits", "weather", "queue", "contradictions", "spent", "tomorrow", "calendar"})
"""Sections that tell what is true now: made again, they replace what was told before."""
NOT_ADDED = frozenset({"weather", "calendar", "tomorrow"})
"""Sections whose changes are no news: they are replaced without a word."""
MAX_FINDING = 500  # The most characters of a line in a report


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A briefing of a day: what it told at ``made_at`` about the time from ``since``, and added later.

    ``matters`` is what a model said of it, if there is one.
    """

    kind: str
    day: date
    made_at: datetime
    since: datetime
    sections: tuple[Section, ...]
    additions: tuple[tuple[datetime, tuple[Section, ...]], ...] = ()
    path: str = ""
    matters: tuple[Line, ...] = ()

    @property
    def head(self) -> tuple[Line, ...]:
        """At most five lines; what a model said of something that is told no more is left out."""
        told = {source for each in self.sections for one in each.lines for source in one.sources}
        matters = [each for each in self.matters if not told.isdisjoint(each.sources)]
        return make_head(self.kind, self.sections, matters)

    @property
    def missed(self) -> tuple[str, ...]:
        """The keys of the sections that could not be told yet."""
        return tuple(each.key for each in self.sections if each.missed)

    def page(self, zone: tzinfo | None) -> str:
        """The page of Markdown."""
        return format_page(self.kind, self.day, self.made_at, self.head, self.sections, self.additions, zone)

    def add(self, fresh: Sequence[Section], now: datetime) -> "Told":
        """With what ``fresh`` adds; nothing that was told gets lost."""
        sections = tuple(merge_sections(self.sections, fresh, LIVE))
        new = tuple(added_lines(self.sections, sections, but=NOT_ADDED))
        additions = (*self.additions, (now, new)) if new else self.additions
        return msgspec.structs.replace(self, sections=sections, additions=additions)

    def references(self) -> tuple[str, ...]:
        """The sources of all lines, as evidence, each once."""
        lines = (one for each in self.sections for one in each.lines)
        return tuple(dict.fromkeys(source.reference for one in lines for source in one.sources))

    def data(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "kind": self.kind,
            "day": self.day.isoformat(),
            "title": format_title(self.kind, self.day),
            "made_at": self.made_at.isoformat(),
            "since": self.since.isoformat(),
            "head": [each.data() for each in self.head],
            "sections": [each.data() for each in self.sections],
            "additions": [
                {"made_at": moment.isoformat(), "sections": [each.data() for each in added]}
                for moment, added in self.additions
            ],
            "path": self.path,
            "matters": [each.data() for each in self.matters],
        }


def read_told(data: dict[str, Any]) -> Told:
    """A briefing as ``Told.data`` made it; raises ValueError or KeyError for something else."""
    return Told(
        kind=data["kind"],
        day=date.fromisoformat(data["day"]),
        made_at=parse_timestamp(data["made_at"]),
        since=parse_timestamp(data["since"]),
        sections=tuple(map(read_section, data["sections"])),
        additions=tuple(
            (parse_timestamp(each["made_at"]), tuple(map(read_section, each["sections"])))
            for each in data["additions"]
        ),
        path=data["path"],
        matters=tuple(map(read_line, data["matters"])),
    )


class ToldStore:
    """The records of briefings, one for each kind and day: the team's, or that of the one who is read for."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def read(self, kind: str, day: date, *, team: bool = False) -> tuple[Told | None, int]:
        """What was told, or was to the ``team``; and the sequence of its record, which the next expects."""
        record = await read_record(self._bus, self._subject(kind, day, team=team), AgentReport)
        if record is None:
            return None, 0
        try:
            return read_told(record.value.metadata), record.seq
        except (ValueError, KeyError, TypeError):  # of another version: it is told again
            return None, record.seq

    def entry(self, told: Told, expect: int) -> Entry:
        """The entry that stores ``told``."""
        name = self._bus.name
        report = AgentReport(
            sender=name,
            report_id=f"{told.kind}_{told.day}",
            agent=name,
            report_type=f"{told.kind}_briefing",
            summary=format_title(told.kind, told.day),
            findings=tuple(each.told[:MAX_FINDING] for each in told.head),
            evidence_refs=told.references(),
            output_paths=(told.path,) if told.path else (),
            metadata=told.data(),
        )
        return seal(self._subject(told.kind, told.day), report, expect=expect)

    def _subject(self, kind: str, day: date, *, team: bool = False) -> str:
        audience = "" if team else audience_read_for()
        return subjects.record(self._bus.name, RECORD, f"{day}_{kind}{'_' * bool(audience)}{audience}")


MAX_OVERNIGHT = 100  # How many reports of overnight jobs are kept


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
