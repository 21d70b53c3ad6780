"""How the rate grows with processes of an agent, and what a task costs in a stream that holds many."""

import os
import statistics
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

from tests.bench.ground import MailroomLane, Run, open_ground
from tests.bench.history import WORKER, write_history
from tests.bench.plan import Plan
from tests.bench.rows import NO_TARGET, Row, at_least, at_most_times, compare

NAME = "growth"
REPLICAS, QUICK_REPLICAS = (1, 2, 4), (1, 2)
SIZES, QUICK_SIZES = (1_000, 10_000, 100_000), (100, 200)
REPLICATED = {2: 1.3, 4: 1.5}
"""The rate of so many processes of an agent to reach, against that of one."""
FLAT = 1.3
"""How many times as much a task may cost in the largest stream as in the smallest."""


async def measure(plan: Plan) -> list[Row]:
    """More processes, then a longer past."""
    async with AsyncExitStack() as ends:
        lanes = await _replicated(ends, QUICK_REPLICAS if plan.quick else REPLICAS)
        rows = _replica_rows(await _race(lanes, plan, plan.tasks))
    async with AsyncExitStack() as ends:
        lanes = await _aged(ends, QUICK_SIZES if plan.quick else SIZES)
        # Half of the tasks of other runs: at the smallest size they soon are most of the stream.
        return [*rows, *_size_rows(await _race(lanes, plan, plan.tasks // 2))]


async def _race(lanes: Mapping[int, MailroomLane], plan: Plan, tasks: int) -> Mapping[int, Sequence[Run]]:
    """Everybody in turn, ``plan.rounds`` times: what disturbs the machine disturbs all of them."""
    runs: dict[int, list[Run]] = {number: [] for number in lanes}
    for lane in lanes.values():
        await lane.run(tasks // 4)
    for _ in range(plan.rounds):
        for number, lane in lanes.items():
            runs[number].append(await lane.run(tasks))
    return runs


async def _replicated(ends: AsyncExitStack, numbers: Sequence[int]) -> dict[int, MailroomLane]:
    """A server of its own for each number of processes."""
    lanes = {}
    for replicas in numbers:
        lane = lanes[replicas] = MailroomLane(await ends.enter_async_context(open_ground("always")))
        await lane.start(replicas)
    return lanes


async def _aged(ends: AsyncExitStack, sizes: Sequence[int]) -> dict[int, MailroomLane]:
    """A server of its own for each length of the past, the longest first: it has the others' time to calm."""
    lanes = {}
    for size in sorted(sizes, reverse=True):
        ground = await ends.enter_async_context(open_ground("always"))
        writer = await ground.office.connect(WORKER)
        await write_history(writer, size)
        await writer.close()
        lane = lanes[size] = MailroomLane(ground)
        await lane.start()
    return dict(sorted(lanes.items()))


def _replica_rows(runs: Mapping[int, Sequence[Run]]) -> list[Row]:
    one = _rate(runs[1])
    rows = []
    for replicas, some in runs.items():
        name = f"{replicas} process{'es' if replicas > 1 else ''} of the agent"
        target = at_least(REPLICATED[replicas]) if replicas in REPLICATED else NO_TARGET
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
