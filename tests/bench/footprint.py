"""What the office costs before anything is done: time to start, memory, idle processor time."""

import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from services.cli.roster import Member, load_roster
from shared import settings, subjects
from tests.bench.ground import PATIENCE
from tests.bench.machine import cpu_seconds, mapped, processes_of, rss_mb
from tests.bench.plan import Plan
from tests.bench.rows import NO_TARGET, Row, at_most, compare
from tests.flow.conftest import ROOT, eventually

NAME = "footprint"
HEAVY = ("lancedb", "pyarrow", "onnxruntime", "openai", "anthropic", "jiter")
"""What no agent but memory may have in it; jiter is the native part of both model SDKs."""
READY, SIZE, OPEN, IDLE = at_most(0.6), at_most(50), at_most(6), at_most(2)
NOTHING = at_most(0)
STARTS, REST = 3, 30.0
"""How often each start is measured, and for how many seconds the office is left alone."""
SETTLE = 5.0
"""Seconds after the start until the office counts as idle."""
CALM = 1.0
"""Seconds between two starts of an agent."""


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A ``mailroom up`` that is ready: after how many seconds, and which process each agent is."""

    seconds: float
    state_dir: Path
    pid: int
    agents: dict[str, int]
    environment: dict[str, str]


async def measure(plan: Plan) -> list[Row]:
    """Opening the office, then what it is like idle, then each of its agents started once more beside it."""
    starts, rest = (1, 1.0) if plan.quick else (STARTS, REST)
    opening = []
    for _ in range(starts - 1):
        async with open_office() as office:
            opening.append(office.seconds)
    async with open_office() as office:
        opening.append(office.seconds)
        await asyncio.sleep(min(SETTLE, rest))
        busy = await _idle_cpu(office, rest)
        sizes = _size_rows(office.agents)
        seconds = await _start_agents(office, starts, 0 if plan.quick else CALM)
    rows = [
        compare(NAME, "mailroom up, until all are ready", statistics.median(opening), "s", target=OPEN),
        compare(NAME, "idle office, all its processes", busy * 100, "% of a core", target=IDLE),
    ]
    for name, times in seconds.items():
        rows.append(compare(NAME, f"{name}: start to ready", statistics.median(times), "s", target=READY))
    return [*rows, *sizes]


@asynccontextmanager
async def open_office() -> AsyncIterator[Opened]:
    """``mailroom up`` in a new folder, closed afterwards."""
    with TemporaryDirectory(prefix="mailroom-bench-") as folder:
        state_dir = Path(folder) / "state"
        environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "XDG_CACHE_HOME") if name in os.environ},
            "MAILROOM_STATE_DIR": str(state_dir),
            "MAILROOM_NATS_PORT": "0",
        }
        begun = time.perf_counter()
        up = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.cli", "up", "--json"),
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                url = await _await_url(up)
            seconds = time.perf_counter() - begun
            yield Opened(
                seconds=seconds,
                state_dir=state_dir,
                pid=up.pid,
                agents=_agents(state_dir),
                environment={**environment, "NATS_URL": url, "MAILROOM_LOG_FORMAT": "json"},
            )
        finally:
            with contextlib.suppress(ProcessLookupError):
                up.send_signal(signal.SIGINT)
            await up.communicate()


async def _await_url(up: asyncio.subprocess.Process) -> str:
    assert up.stdout is not None
    while line := await up.stdout.readline():
        event = json.loads(line)
        if "url" in event:
            return str(event["url"])
    raise RuntimeError("mailroom up ended before it was ready; what it said stands above")


def _agents(state_dir: Path) -> dict[str, int]:
    """The process of each agent, by its sign of life."""
    signs = (state_dir / "run").glob("*.alive")
    return {sign.stem.partition("-")[0]: int(sign.stem.rpartition("-")[2]) for sign in signs}


async def _idle_cpu(office: Opened, seconds: float) -> float:
    """Cores that all processes of the office together use while nothing is to be done."""
    pids = processes_of(office.state_dir)
    before, begun = _cpu(pids), time.perf_counter()
    await asyncio.sleep(seconds)
    return (_cpu(pids) - before) / (time.perf_counter() - begun)


def _cpu(pids: Iterable[int]) -> float:
    return sum(map(cpu_seconds, pids))


def _size_rows(agents: Mapping[str, int]) -> list[Row]:
    """The agents' sizes, and what heavy is in them; memory is there to hold the heavy parts."""
    rows, found = [], {}
    for name, pid in sorted(agents.items()):
        heavy, light = mapped(pid, HEAVY), name != subjects.MEMORY_DAEMON
        if heavy and light:
            found[name] = heavy
        target, note = (SIZE, "") if light else (NO_TARGET, f"holds {', '.join(heavy)}")
        rows.append(compare(NAME, f"{name}: resident when idle", rss_mb(pid), "MB", target=target, note=note))
    note = "; ".join(f"{name}: {', '.join(heavy)}" for name, heavy in found.items())
    name = f"agents but memory that map any of {', '.join(HEAVY)}"
    return [*rows, compare(NAME, name, len(found), "agents", target=NOTHING, note=note)]


async def _start_agents(office: Opened, starts: int, calm: float) -> dict[str, Sequence[float]]:
    """Seconds from exec to ready of a further process of each agent, one at a time.

    Memory has none: there can be one.
    """
    roster = load_roster(settings.load(office.environment))
    members = [member for member in roster if member.name != subjects.MEMORY_DAEMON]
    seconds = {}
    for member in members:
        seconds[member.name] = [await _start_agent(office, member, calm) for _ in range(starts)]
    return seconds


async def _start_agent(office: Opened, member: Member, calm: float) -> float:
    await asyncio.sleep(calm)
    begun = time.perf_counter()
    process = await asyncio.to_thread(
        subprocess.Popen, member.command, cwd=ROOT, env=office.environment, stderr=subprocess.PIPE
    )
    try:
        folder = office.state_dir / "run"
        await eventually(
            lambda: any(folder.glob(f"{member.name}-*-{process.pid}.alive")) or process.poll() is not None,
            PATIENCE,
        )
        seconds = time.perf_counter() - begun
        assert process.poll() is None, f"{member.name} ended at once"
        return seconds
    finally:
        process.terminate()
        await asyncio.to_thread(process.communicate)
