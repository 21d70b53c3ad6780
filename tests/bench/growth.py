"""How the rate grows with processes of an agent, and what a task costs in a stream that holds many."""

import os
import statistics
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from tests.bench.ground import Ground, OfficeLane, Run, open_ground
from tests.bench.history import PER_TASK, REQUESTER, write_history
from tests.bench.plan import Plan
from tests.bench.rows import NO_TARGET, Row, at_least, at_most_times, compare

NAME = "growth"
REPLICAS = (1, 2, 4)
SIZES, QUICK_SIZES = (1_000, 10_000, 100_000), (100, 200, 400)
FLAT = 1.3
"""How many times as much a task may cost in the largest stream as in the smallest."""


async def measure(plan: Plan) -> list[Row]:
    """More processes, then a longer past."""
    async with open_ground("always") as ground:
        rows = _replica_rows(await _with_replicas(ground, plan))
    async with open_ground("always") as ground:
        sizes = QUICK_SIZES if plan.quick else SIZES
        return [*rows, *_size_rows(await _with_history(ground, plan, sizes))]


async def _with_replicas(ground: Ground, plan: Plan) -> Mapping[int, Sequence[Run]]:
    lane = OfficeLane(ground)
    runs = {}
    for replicas in REPLICAS:
        await lane.start(replicas)
        runs[replicas] = await _repeat(lane, plan, plan.tasks)
    return runs


async def _with_history(ground: Ground, plan: Plan, sizes: Sequence[int]) -> Mapping[int, Sequence[Run]]:
    lane = OfficeLane(ground)
    await lane.start()
    runs = {}
    async with AsyncExitStack() as ends:
        writer = await ground.office.connect(REQUESTER)
        ends.push_async_callback(writer.close)
        for size in sizes:
            there = (await ground.api(f"STREAM.INFO.{lane.stream}"))["state"]["messages"] // PER_TASK
            await write_history(writer, max(0, size - there))
            # Half of the tasks of other runs: at the smallest size they soon are most of the stream.
            runs[size] = await _repeat(lane, plan, plan.tasks // 2)
    return runs


async def _repeat(lane: OfficeLane, plan: Plan, tasks: int) -> list[Run]:
    await lane.run(tasks // 4)
    return [await lane.run(tasks) for _ in range(plan.rounds)]


def _replica_rows(runs: Mapping[int, Sequence[Run]]) -> list[Row]:
    one = _rate(runs[1])
    rows = []
    for replicas, some in runs.items():
        name = f"{replicas} process{'es' if replicas > 1 else ''} of the agent"
        target = at_least(1) if replicas > 1 else NO_TARGET
        busy = statistics.median((run.worker_cpu + run.server_cpu) / run.seconds for run in some)
        note = f"agent and server used {busy:.2f} of {os.cpu_count()} cores"
        rows.append(compare(NAME, name, _rate(some), "tasks/s", "1 process", one, target, note))
    return rows


def _size_rows(runs: Mapping[int, Sequence[Run]]) -> list[Row]:
    smallest, rows = min(runs), []
    bound = f"at {smallest:,}"
    for size, some in runs.items():
        target = at_least(1 / FLAT) if size > smallest else NO_TARGET
        rate, least = _rate(some), _rate(runs[smallest])
        rows.append(
            compare(NAME, f"{size:,} tasks in the stream: rate", rate, "tasks/s", bound, least, target)
        )
    for size, some in runs.items():
        target = at_most_times(FLAT) if size > smallest else NO_TARGET
        cost, least = _cost(some), _cost(runs[smallest])
        name = f"{size:,} tasks in the stream: processor time"
        rows.append(compare(NAME, name, cost, "us/task", bound, least, target))
    return rows


def _rate(runs: Sequence[Run]) -> float:
    return statistics.median(run.rate for run in runs)


def _cost(runs: Sequence[Run]) -> float:
    """Microseconds of processor time, the agent's and the server's, for one task."""
    return statistics.median((run.worker_cpu + run.server_cpu) / run.tasks * 1e6 for run in runs)
