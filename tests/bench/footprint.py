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

from shared import settings, subjects
from shared.settings import Settings
from shared.tasks.installed_agents import load_agents
from tests.bench.ground import PATIENCE
from tests.bench.machine import cpu_seconds, mapped, rss_mb
from tests.bench.plan import Plan
from tests.bench.rows import NO_TARGET, Row, at_most, compare
from tests.support.server import ROOT
from tests.support.up import processes_of
from tests.support.waiting import eventually

NAME = "footprint"
CONNECTED = "connected"
"""What tests/bench/rivals/connected.py calls itself."""
BARE = "a bare connection"
"""The bound: a process that does nothing but hold one."""
HEAVY = ("lancedb", "pyarrow", "onnxruntime", "openai", "anthropic", "jiter")
"""What no agent but memory may have in it; jiter is the native part of both model SDKs."""
READY, SIZE, OPEN, IDLE = at_most(0.3), at_most(40), at_most(6), at_most(2)
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


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A process from exec to ready: wall time and processor time in seconds; and its size then, in MB."""

    seconds: float
    cpu: float
    rss: float


async def measure(plan: Plan) -> list[Row]:
    """Opening the office, then what it is like idle, then each of its agents started once more beside it."""
    starts, rest = plan.choose((STARTS, REST), (1, 1.0), (1, 1.0))
    opening = []
    for _ in range(starts - 1):
        async with open_office() as office:
            opening.append(office.seconds)
    async with open_office() as office:
        opening.append(office.seconds)
        await asyncio.sleep(min(SETTLE, rest))
        busy = await _idle_cpu(office, rest)
        sizes, heavy = _sizes(office.agents), _heavy(office.agents)
        started = await _start_agents(office, plan, starts)
    bare = started.pop(CONNECTED)
    return [
        compare(NAME, "mailroom up, until all are ready", statistics.median(opening), "s", target=OPEN),
        compare(NAME, "idle office, all its processes", busy * 100, "% of a core", target=IDLE),
        *_start_rows(started, bare),
        *_size_rows(sizes, statistics.median(start.rss for start in bare)),
        _heavy_row(heavy),
    ]


@asynccontextmanager
async def open_office() -> AsyncIterator[Opened]:
    """``mailroom up`` in a new folder, closed afterwards."""
    with TemporaryDirectory(prefix="mailroom-bench-") as folder:
        state_dir = Path(folder) / "state"
        environment = {
            **{name: os.environ[name] for name in ("PATH", "HOME", "XDG_CACHE_HOME") if name in os.environ},
            "MAILROOM_STATE_DIR": str(state_dir),
            "MAILROOM_NATS_PORT": "0",
            "MAILROOM_GATEWAY_PORT": "0",
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
    pids = list(processes_of(office.state_dir))
    before, begun = _cpu(pids), time.perf_counter()
    await asyncio.sleep(seconds)
    return (_cpu(pids) - before) / (time.perf_counter() - begun)


def _cpu(pids: Iterable[int]) -> float:
    return sum(map(cpu_seconds, pids))


def _sizes(agents: Mapping[str, int]) -> dict[str, float]:
    return {name: rss_mb(pid) for name, pid in sorted(agents.items())}


def _heavy(agents: Mapping[str, int]) -> dict[str, list[str]]:
    """What heavy is in each agent that should hold none of it."""
    found = {name: mapped(pid, HEAVY) for name, pid in agents.items() if name != subjects.MEMORY_DAEMON}
    return {name: libraries for name, libraries in found.items() if libraries}


def _start_rows(started: Mapping[str, Sequence[Start]], bare: Sequence[Start]) -> list[Row]:
    rows = []
    for name, starts in started.items():
        times = [statistics.median(start.seconds for start in some) for some in (starts, bare)]
        spent = [statistics.median(start.cpu for start in some) for some in (starts, bare)]
        rows.append(compare(NAME, f"{name}: start to ready", times[0], "s", BARE, times[1], READY))
        rows.append(compare(NAME, f"{name}: start, processor time", spent[0], "s", BARE, spent[1]))
    return rows


def _size_rows(sizes: Mapping[str, float], bare: float) -> list[Row]:
    rows = []
    for name, size in sizes.items():
        target = NO_TARGET if name == subjects.MEMORY_DAEMON else SIZE
        rows.append(compare(NAME, f"{name}: resident when idle", size, "MB", BARE, bare, target))
    return rows


def _heavy_row(heavy: Mapping[str, Sequence[str]]) -> Row:
    note = "; ".join(f"{name}: {', '.join(libraries)}" for name, libraries in heavy.items())
    name = f"agents but memory that map any of {', '.join(HEAVY)}"
    return compare(NAME, name, len(heavy), "agents", target=NOTHING, note=note)


async def _start_agents(office: Opened, plan: Plan, starts: int) -> dict[str, Sequence[Start]]:
    """A further process of each agent, started and stopped one at a time, and the bare one.

    Memory has none: there can be one.
    """
    config = settings.load(office.environment)
    commands = {member.name: member.command for member in load_agents(config)}
    del commands[subjects.MEMORY_DAEMON]
    calm = CALM
    if plan.quick or plan.small:
        calm, commands = 0.0, dict(list(commands.items())[: 1 if plan.small else 2])
    commands[CONNECTED] = _bare(config)
    return {
        name: [await _start(office, name, command, calm) for _ in range(starts)]
        for name, command in commands.items()
    }


def _bare(config: Settings) -> tuple[str, ...]:
    values = {
        "url": config.nats_url,
        "seed": str(config.keys / f"{subjects.USER}.nk"),
        "run": str(config.state_dir / "run"),
    }
    options = [part for name, value in values.items() for part in (f"--{name}", value)]
    return (sys.executable, "-m", "tests.bench.rivals.connected", *options)


async def _start(office: Opened, name: str, command: Sequence[str], calm: float) -> Start:
    await asyncio.sleep(calm)
    begun = time.perf_counter()
    process = await asyncio.to_thread(
        subprocess.Popen, command, cwd=ROOT, env=office.environment, stderr=subprocess.PIPE
    )
    try:
        folder = office.state_dir / "run"
        await eventually(
            lambda: any(folder.glob(f"{name}-*-{process.pid}.alive")) or process.poll() is not None, PATIENCE
        )
        seconds = time.perf_counter() - begun
        assert process.poll() is None, f"{name} ended at once"
        return Start(seconds=seconds, cpu=cpu_seconds(process.pid), rss=rss_mb(process.pid))
    finally:
        process.terminate()
        await asyncio.to_thread(process.communicate)
