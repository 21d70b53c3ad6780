"""The night: its window, what holds jobs back in it (budget, load, battery), and what is said of jobs."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from services.cortex.jobs import Job, JobFolder
from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.clock import format_moment, parse_timestamp, read_night, read_zone, utc_now
from shared.contracts import (
    AgentReport,
    DailySpending,
    Due,
    DueStatus,
    NightState,
    ResultOutcome,
    TaskResult,
    TaskStatus,
    generate_id,
)
from shared.contracts.base import amended
from shared.errors import BusError, Conflict
from shared.log import logger
from shared.queries.spending import format_overspent
from shared.settings import Settings
from shared.tasks.actions import Outcome
from shared.text.display import count

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


EXCERPT = 2_000  # The most characters of a job's task and of its output in its report
MAX_REFERENCES = 50  # The most sources and files in the report of a job; its result has all of them
MAX_LISTED = 50  # The most jobs of a kind that are listed
MAX_SHOWN = 200  # The most characters of a job's task in the list


def job_report(job: Job, result: TaskResult, path: str, *, sender: str, report_id: str) -> AgentReport:
    """The report of a job that ended; ``path`` is the archived result."""
    done = result.status is TaskStatus.COMPLETED
    unclean = done and result.outcome not in (ResultOutcome.NONE, ResultOutcome.DONE)
    came_to = (result.outcome if unclean else result.status).replace("_", " ")
    text = result.output if done else result.error_message or result.output
    excerpt = " ".join(text.split())[:EXCERPT] or "it gave no output"
    times = f" after {len(job.tried) + 1} attempts" if job.tried else ""
    return AgentReport(
        sender=sender,
        recipient=subjects.NEXUS,
        cause=result.id,
        goal_id=result.goal_id,
        report_id=report_id,
        agent=sender,
        report_type="overnight_job",
        summary=f"Overnight job {job.id} {came_to}{times}: {excerpt}",
        evidence_refs=result.evidence_refs[:MAX_REFERENCES],
        output_paths=(*result.output_paths[:MAX_REFERENCES], path),
        metadata={
            "job_id": job.id,
            "task": job.task[:EXCERPT],
            "task_id": result.task_id,
            "status": result.status.value,
            "outcome": result.outcome.value,
            "priority": job.priority,
            "completed_at": result.completed_at,
        },
    )


class ListedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits or runs; ``reason`` is what it waits for."""

    id: str
    state: str
    task: str
    priority: str
    reason: str = ""
    task_id: str = ""


def job_in(item: Due) -> Job:
    """The job of an item of the timetable."""
    return msgspec.convert(item.job, Job)


def describe_queue(
    items: Sequence[Due], folder: JobFolder, night: Night, now: datetime, unsettled: int
) -> Outcome:
    """The jobs at hand, what was refused and is not done, after a look at ``night``, as text and as data.

    ``unsettled`` files cannot be read yet.
    """
    running = [each for each in items if each.status is DueStatus.WORKING]
    waiting = [(job_in(each), each) for each in items if each.status is not DueStatus.WORKING]
    waiting.sort(key=lambda each: each[0].rank(night.zone))
    reasons = [night.hold_reason(job, now) or "until there is room" for job, _ in waiting]
    jobs = [_listed(job_in(each), each, "running") for each in running[:MAX_LISTED]]
    jobs += [
        _listed(*each, "waiting", why)
        for each, why in zip(waiting[:MAX_LISTED], reasons[:MAX_LISTED], strict=True)
    ]
    files, refused = folder.count(), folder.reasons()[:MAX_LISTED]
    undone, ends = folder.undone(MAX_LISTED)
    counts = {
        "waiting": len(waiting) + unsettled,
        "running": len(running),
        "ended": files["archive"],
        "refused": files["failed"],
    }
    totals = ", ".join(
        [
            f"{counts['waiting']} waiting, {counts['running']} running, {counts['ended'] - undone} done",
            *([f"{undone} not done"] if undone else []),
            f"{counts['refused']} refused",
        ]
    )
    lines = [f"Overnight queue: {totals}. {_format_night(night, now)}"]
    lines += [_format(job) for job in jobs]
    if unsettled:
        lines.append(f"- waiting: {unsettled} that cannot be read yet, perhaps half-written")
    lines += [f"- refused: {reason}" for reason in refused]
    lines += [f"- {end}" for end in ends]
    data = {"counts": counts, "jobs": msgspec.to_builtins(jobs), "night": _night_data(night, now)}
    data |= {state: [job.id for job in jobs if job.state == state] for state in ("waiting", "running")}
    return Outcome(output="\n".join(lines), data={**data, "failed": refused, "undone": ends})


def _listed(job: Job, item: Due, state: str, reason: str = "") -> ListedJob:
    return ListedJob(
        id=job.id,
        state=state,
        task=item.text,
        priority=job.priority.lower(),
        reason=reason,
        task_id=item.last if state == "running" else "",
    )


def _format(job: ListedJob) -> str:
    priority = "" if job.priority == "medium" else f", {job.priority}"
    # When the night begins is in the first line.
    waits = f"; it waits {because(job.reason.partition(', which')[0])}" if job.reason else ""
    return f"- {job.state}: {job.id}{priority}: {job.task}{waits}"


def because(reason: str) -> str:
    """What a job waits for, after the word "waits"."""
    return reason if reason.startswith(("until ", "for ")) else f"because {reason}"


def _format_night(night: Night, now: datetime) -> str:
    began, ends = night.window.find(now)
    if night.window.is_always:
        text = "No night is set: jobs begin at once."
    elif began > now:
        text = f"The night begins on {format_moment(began, night.zone)}."
    else:
        text = f"It is night until {format_moment(ends, night.zone)}."
    used, cost = night.state.tokens, night.state.cost
    price = f", ${cost:.2f}" if cost else ""
    return f"{text} Used in it: {count(used, 'token')}{price}." if used and began <= now else text


def _night_data(night: Night, now: datetime) -> dict[str, Any]:
    began, ends = night.window.find(now)
    state = night.state
    last = parse_timestamp(state.began_at).isoformat() if state.began_at else ""
    return {
        "window": "" if night.window.is_always else str(night.window),
        "is_night": began <= now,
        "begins_at": began.isoformat(),
        "ends_at": ends.isoformat(),
        "held": state.held,
        "last_began_at": last,
        "tokens": state.tokens,
        "cost": state.cost,
    }
