"""The reports of overnight jobs, kept for the briefings."""

from datetime import datetime

import msgspec

from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.clock import parse_timestamp
from shared.contracts import AgentReport

MAX_OVERNIGHT = 100
"""How many reports of overnight jobs are kept."""


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
