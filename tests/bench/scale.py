"""What a goal costs, and how many an office does in a second, on one server and on three.

``python -m tests.bench.scale`` prints the tables of docs/scale.md; the last line is JSON. ``--goals`` are
those of each measurement.

A goal here is the smallest: one task of an agent that does nothing, submitted, planned, done, reviewed and
reported. So what is measured is the office: what agents do in their tasks comes on top of it.
"""

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from shared import log, subjects
from shared.bus import Bus
from shared.contracts import StateChanged, TaskStatus
from tests.bench.ground import AGENTS, NOOP
from tests.bench.machine import cpu_seconds, describe, load
from tests.bench.memory_ground import open_memory
from tests.support.cluster import Cluster
from tests.support.hosts import AGENT, Hosts
from tests.support.office import Office
from tests.support.server import ROOT
from tests.support.sweeper import leave_nothing

PARTS = (CONDUCTOR := "conductor", "critic", NOOP, "memory", "gateway")
SERVERS = "servers"
REST = {"assignee": NOOP, "action": "rest"}
OTHERS, PROCESSES = ("north", "south", "west"), 8
HANDS = 128  # Goals that are open at the same time: more do not make it quicker
WRITERS = 64
PATIENCE = 900.0  # Seconds that any measurement may take
MILLION = 1_000_000


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Goals that were done: goals a second, and for one goal the milliseconds of processor time of each part,
    the messages, and the bytes of the log on each server.
    """

    servers: int
    agents: int
    conductors: int
    goals: int
    rate: float
    processor: dict[str, float]
    messages: float
    stored: float

    @property
    def whole(self) -> float:
        """Milliseconds of processor time that a goal takes in all."""
        return sum(self.processor.values())


class Ends:
    """Submits goals, and waits for their ends."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._ends: dict[str, asyncio.Future[TaskStatus]] = {}

    async def listen(self) -> None:
        """Begin to hear how goals end."""
        await self._office.user.subscribe(f"{subjects.AUDIT_PREFIX}{subjects.goal('*')}", self._note)

    async def do(self, name: str, context: dict[str, Any], hands: asyncio.Semaphore) -> TaskStatus:
        """How a goal ended."""
        self._ends[name] = end = asyncio.get_running_loop().create_future()
        async with hands:
            await self._office.submit({"text": "Do nothing", "goal_id": name, "context": context})
            return await end

    async def _note(self, _: str, payload: bytes, __: Mapping[str, str]) -> None:
        goal = StateChanged.from_json(payload).goal
        end = self._ends.get(goal.goal_id) if goal is not None and goal.status.final else None
        if end is not None and goal is not None and not end.done():
            end.set_result(goal.status)


class Crowd:
    """An office with so many processes of the conductor and of an agent that does nothing."""

    def __init__(self, folder: Path, servers: int) -> None:
        more = {
            "MAILROOM_AGENTS_DIR": str(AGENTS),
            "MAILROOM_NATS_REPLICAS": str(servers),
            "MAILROOM_TASK_ACK_WAIT": "30",
            "MAILROOM_GATEWAY_PORT": "0",
            "MAILROOM_LOG_LEVEL": "warning",
            "PYTHONPATH": str(ROOT),
        }
        self.office, self.servers = Office(folder, **more), servers
        if servers > 1:
            names = tuple(self.office.members)
            self.office.server = cluster = Cluster(folder, names, **more)
            self.office.environment, self.office.config = cluster.environment, cluster.config
        self._serial = 0

    async def open(self) -> None:
        """Start it with one process of each; ``office.close`` ends it in any case."""
        await self.office.open(PARTS)
        self.admin = await self.office.connect(subjects.ADMIN)
        self.ends = Ends(self.office)
        await self.ends.listen()

    async def grow(self, name: str, count: int) -> None:
        """Start further processes of ``name`` until there are so many."""
        for number in range(len(self._of(name)), count):
            self.office.start(name, f"-{number}")
            await self.office.ready(name, f"-{number}")

    async def run(self, goals: int) -> Cost:
        """Have so many goals done."""
        names = [f"scale-{self._serial + number}" for number in range(goals)]
        self._serial += goals
        before, first = self._processor(), await self._state()
        begun, hands = time.perf_counter(), asyncio.Semaphore(HANDS)
        async with asyncio.timeout(PATIENCE):
            ends = await asyncio.gather(*(self.ends.do(name, REST, hands) for name in names))
        seconds = time.perf_counter() - begun
        after, last = self._processor(), await self._state()
        assert set(ends) == {TaskStatus.COMPLETED}, ends
        return Cost(
            servers=self.servers,
            agents=len(self._of(NOOP)),
            conductors=len(self._of(CONDUCTOR)),
            goals=goals,
            rate=round(goals / seconds, 1),
            processor={part: round((after[part] - before[part]) / goals * 1e3, 2) for part in after},
            messages=round((last[0] - first[0]) / goals, 2),
            stored=round((last[1] - first[1]) / goals),
        )

    async def store(self, count: int) -> float:
        """Messages a second that the log takes of writers, each of which waits for an answer."""
        numbers = iter(range(count))
        payload = b"x" * 1_024

        async def write(writer: Bus) -> None:
            for _ in numbers:
                await writer.store(subjects.mail(NOOP, subjects.USER), payload)

        begun = time.perf_counter()
        await asyncio.gather(*(write(self.office.user) for _ in range(WRITERS)))
        return count / (time.perf_counter() - begun)

    def _of(self, name: str) -> list[int]:
        return [
            process.pid
            for each, process in self.office.processes.items()
            if each == name or each.startswith(f"{name}-")
        ]

    def _processor(self) -> Mapping[str, float]:
        server = self.office.server
        processes = server.processes if isinstance(server, Cluster) else [server.process]
        parts = {name: self._of(name) for name in PARTS}
        parts[SERVERS] = [each.pid for each in processes]
        return {part: sum(map(cpu_seconds, pids)) for part, pids in parts.items()}

    async def _state(self) -> tuple[int, int]:
        state = (await self.admin.call(f"STREAM.INFO.{subjects.OFFICE}"))["state"]
        return state["messages"], state["bytes"]


@asynccontextmanager
async def crowd(servers: int) -> AsyncIterator[Crowd]:
    """An office on so many servers, gone afterwards."""
    async with AsyncExitStack() as ends:
        folder = ends.enter_context(TemporaryDirectory(prefix="mailroom-bench-"))
        found = Crowd(Path(folder), servers)
        ends.push_async_callback(found.office.close)
        await found.open()
        yield found


async def spread(goals: int) -> dict[str, float]:
    """Goals a second of eight processes on the office's host, and of eight on three others under TLS.

    Here the agent's task has one effect, which it journals first.
    """
    rates = {}
    with TemporaryDirectory(prefix="mailroom-bench-") as folder:
        found = Hosts(Path(folder))
        try:
            await found.open()
            found.office.start("critic")
            await found.office.ready("critic")
            for name in OTHERS:
                joined = await found.join(name)
                assert isinstance(joined, dict), joined
            for where, places in {"one host": ("",), "three hosts": OTHERS}.items():
                started = [await found.start(places[n % len(places)], number=n + 1) for n in range(PROCESSES)]
                rates[where] = await _finish(found.office, where.partition(" ")[0], goals)
                for each in started:
                    found.office.processes[each].terminate()
                    await asyncio.to_thread(found.office.processes[each].wait, 30)
        finally:
            await found.close()
    return rates


async def _finish(office: Office, prefix: str, goals: int) -> float:
    ends, hands, whole = Ends(office), asyncio.Semaphore(HANDS), asyncio.timeout(PATIENCE)
    await ends.listen()
    context = {"assignee": AGENT, "action": "work", "params": {"seconds": 0.0, "effects": "/dev/null"}}
    async with whole:
        done = [ends.do(f"{prefix}-{number}", context, hands) for number in range(min(50, goals))]
        await asyncio.gather(*done)
        begun = time.perf_counter()
        done = [ends.do(f"{prefix}-then-{number}", context, hands) for number in range(goals)]
        assert set(await asyncio.gather(*done)) == {TaskStatus.COMPLETED}
        return goals / (time.perf_counter() - begun)


async def remember(count: int) -> float:
    """Memories a second that memory's one writer takes, each of which it has to embed."""
    async with open_memory(count) as ground:
        return count / await ground.send(ground.corpus.writes(0, count, each=1, embedded=False), WRITERS)


async def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--goals", type=int, default=1_000)
    parser.add_argument("--many", type=int, default=10_000, help="goals on one host, and on three")
    asked = parser.parse_args()
    log.configure("bench", level="warning")
    leave_nothing()
    costs, stored = [], {}
    print("servers  agents  conductors  goals/s   ms/goal  messages  bytes", flush=True)
    for servers in (1, 3):
        async with crowd(servers) as found:
            await found.run(max(10, asked.goals // 10))
            for agents, conductors in ((1, 1), (4, 1), (4, 2)):
                await found.grow(NOOP, agents)
                await found.grow(CONDUCTOR, conductors)
                costs.append(cost := await found.run(asked.goals))
                parts = ", ".join(f"{part} {spent:g}" for part, spent in cost.processor.items())
                print(
                    f"{servers:>7}  {agents:>6}  {conductors:>10}  {cost.rate:>7}  {cost.whole:>8.2f}  "
                    f"{cost.messages:>8}  {cost.stored:>5}  ({parts})",
                    flush=True,
                )
            stored[servers] = await found.store(asked.goals * 5)
    for servers, rate in stored.items():
        print(f"{rate:,.0f} messages a second are stored on {servers} server{'s' if servers > 1 else ''}")
    rates = await spread(asked.many)
    for where, rate in rates.items():
        print(f"{rate:,.1f} goals a second by {PROCESSES} processes on {where}", flush=True)
    memories = await remember(asked.goals)
    print(f"{memories:,.0f} memories a second are embedded and stored")
    for cost in (costs[0], costs[3]):
        print(
            f"A million goals on {cost.servers}: {cost.whole * MILLION / 3_600e3:.1f} h of a core, "
            f"{cost.stored * MILLION / 1e9:.1f} GB on each, {MILLION / cost.rate / 3_600:.1f} h here"
        )
    rest = {"stored": stored, "memories": memories, "hosts": rates, "load": load()}
    print(json.dumps({**describe(), "costs": msgspec.to_builtins(costs), **rest}))


if __name__ == "__main__":
    asyncio.run(main())
