"""The night: its window, and what holds jobs back in it: budget, load, battery."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from services.cortex.job_files import Job
from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.clock import format_moment, read_night, read_zone, utc_now
from shared.contracts import (
    DailySpending,
    NightState,
    generate_id,
)
from shared.contracts.base import amended
from shared.errors import BusError, Conflict
from shared.log import logger
from shared.queries.spending import format_overspent
from shared.settings import Settings

POWER = Path("/sys/class/power_supply")  # Where Linux says what the machine is powered by
COUNT_EVERY = timedelta(minutes=1)  # How often what was used in a night is counted if there is no budget

log = logger(__name__)


class Spent(msgspec.Struct, frozen=True):
    """Tokens and US dollars."""

    tokens: int = 0
    cost: float = 0.0


class Machine:
    """The machine that cortex runs on."""

    def load(self) -> float:
        """The load of the last minute for each core."""
        return os.getloadavg()[0] / (os.cpu_count() or 1)

    def on_battery(self) -> bool:
        """Whether it is a machine with a mains supply that is unplugged."""
        found = [_read(each / "online") for each in POWER.glob("*") if _read(each / "type") == "Mains"]
        return bool(found) and "1" not in found


class Night:
    """The window, and the limits of what begins in it.

    All processes of the agent share the record of the night, ``record.<agent>.night.now``. What ``agents``
    use is counted from the first look at a night on.
    """

    def __init__(
        self,
        settings: Settings,
        bus: Bus,
        agents: Callable[[], Awaitable[Iterable[str]]],
        clock: Callable[[], datetime] = utc_now,
        machine: Machine | None = None,
    ) -> None:
        self._settings, self._bus, self._agents = settings, bus, agents
        self.zone = read_zone(settings.time_zone)
        self.window = read_night(settings.night, self.zone)
        self.clock = clock
        self.machine = machine or Machine()
        self.state = NightState()
        self._subject = subjects.record(bus.name, "night", "now")
        self._names: set[str] = set()
        self._counted_at: datetime | None = None

    @property
    def has_budget(self) -> bool:
        """Whether tokens or cost of a night are limited: jobs then begin one at a time."""
        return bool(self._settings.night_tokens or self._settings.night_cost)

    async def look(self) -> datetime:
        """Find out how the night stands, and record it if that changed; returns the time of the look."""
        now = self.clock()
        record = await read_record(self._bus, self._subject, NightState)
        stored, seq = (record.value, record.seq) if record else (NightState(), 0)
        state = await self._advance(stored, now)
        known = (stored.began_at, stored.held, stored.tokens, stored.cost)
        if (state.began_at, state.held, state.tokens, state.cost) != known:
            entry = seal(self._subject, amended(state, id=generate_id(), sender=self._bus.name), expect=seq)
            with suppress(Conflict):  # another process was quicker
                await self._bus.commit([entry])
        self.state = state
        return now

    def hold_reason(self, job: Job, now: datetime) -> str:
        """Why ``job`` does not begin at ``now``, as of the last look; empty if it may."""
        begins = job.begins_at(self.zone)
        if begins is not None and begins > now:
            return f"until {format_moment(begins, self.zone)}"
        if job.when == "now":
            return ""
        if job.waits_for_night and not self.window.holds(now):
            return f"for the night, which begins on {format_moment(self.window.find(now)[0], self.zone)}"
        return self.state.held

    async def _advance(self, stored: NightState, now: datetime) -> NightState:
        began, ends = self.window.find(now)
        if began > now:
            return amended(stored, held=self._strain())
        if stored.began_at != began.isoformat():
            base = await self._count(began, now)
            stored = NightState(
                began_at=began.isoformat(),
                ends_at=ends.isoformat(),
                base_tokens=base.tokens,
                base_cost=base.cost,
            )
            self._counted_at = now
        elif self.has_budget or self._counted_at is None or now - self._counted_at >= COUNT_EVERY:
            total = await self._count(began, now)
            self._counted_at = now
            stored = amended(
                stored,
                tokens=max(stored.tokens, total.tokens - stored.base_tokens),
                cost=max(stored.cost, total.cost - stored.base_cost),
            )
        return amended(stored, held=format_overspent(self._settings, stored) or self._strain())

    def _strain(self) -> str:
        """Why the machine is not to be used. It names no load: each change of the text is published."""
        limit = self._settings.night_load
        if limit and self.machine.load() > limit:
            return f"the machine is busy: its load is over {limit:g} for each core"
        if not self._settings.night_on_battery and self.machine.on_battery():
            return "the machine runs on its battery"
        return ""

    async def _count(self, began: datetime, now: datetime) -> Spent:
        """What all agents have used from the day (UTC) of ``began`` on."""
        self._names |= set(await self._agents())
        first, last = began.astimezone(UTC).date(), now.astimezone(UTC).date()
        days = [first + timedelta(days=ahead) for ahead in range((last - first).days + 1)]
        names = [subjects.record(name, "spending", str(day)) for name in sorted(self._names) for day in days]
        found = await asyncio.gather(*(self._read(name) for name in names))
        return Spent(
            sum(each.input_tokens + each.output_tokens for each in found), sum(each.cost for each in found)
        )

    async def _read(self, subject: str) -> DailySpending:
        try:
            record = await read_record(self._bus, subject, DailySpending)
        except (BusError, ValueError) as error:
            log.warning("spending_unread", subject=subject, reason=str(error))
            record = None
        return record.value if record else DailySpending(day="unknown")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
