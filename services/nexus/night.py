"""The night log: what cortex reported of overnight jobs, kept for the briefings."""

from datetime import UTC, datetime

import msgspec

from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.contracts import AgentReport

KEPT = 100
"""How many jobs are kept."""


class NightLog:
    """The record of overnight jobs: one report whose metadata holds the reports, the oldest first."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._subject = subjects.record(bus.name, "overnight", "all")

    async def keep(self, report: AgentReport) -> Entry | None:
        """The entry that adds a report; None where it is there already."""
        reports, seq = await self._read()
        if any(each.report_id == report.report_id for each in reports):
            return None
        kept = [*reports, report][-KEPT:]
        record = AgentReport(
            sender=self._bus.name,
            report_id="overnight",
            agent=self._bus.name,
            report_type="overnight_jobs",
            summary=f"{len(kept)} overnight jobs",
            metadata={"reports": [each.to_dict() for each in kept]},
        )
        return seal(self._subject, record, expect=seq)

    async def latest(self, since: datetime) -> list[AgentReport]:
        """The reports of jobs that ended after ``since``, the oldest first."""
        reports, _ = await self._read()
        return [each for each in reports if _ended_at(each) > since]

    async def _read(self) -> tuple[list[AgentReport], int]:
        stored = await self._bus.last(subjects.OFFICE, self._subject)
        if stored is None:
            return [], 0
        record = AgentReport.from_json(stored.data)
        return msgspec.convert(record.metadata.get("reports", []), list[AgentReport]), stored.seq


def _ended_at(report: AgentReport) -> datetime:
    moment = datetime.fromisoformat(str(report.metadata.get("completed_at") or report.created_at))
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
