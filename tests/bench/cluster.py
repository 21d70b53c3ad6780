"""An office on three servers: one of them is killed, hangs, is cut off, has no disk left; or clocks differ.

``python -m tests.bench.cluster`` submits 200 goals for each fault and prints how long nothing was stored, and
what became of the goals; the last line is JSON. ``--goals`` and ``--faults`` choose less.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from shared import log, subjects
from shared.bus import Bus, Entry
from shared.bus.records import read_presences
from shared.clock import parse_timestamp
from shared.contracts import StateChanged, TaskStatus
from shared.errors import BusError
from shared.queries.replicas import read_replicas
from shared.trail.verification import verify_here, verify_replicas
from tests.support.cluster import Cluster, Divisible, may_divide
from tests.support.office import Office
from tests.support.slow import install_slow_agent, slow_goal
from tests.support.sweeper import leave_nothing
from tests.support.waiting import eventually

FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
"""A library that shifts the clock of a process: the package faketime of Debian."""
RATE = 10.0  # Goals a second
CUT = 60.0  # Seconds for which a server is cut off
SMALL = 2  # The server with the small disk
HELD = 15.0  # Seconds for which a server is frozen
PAUSE = 0.02  # Seconds between two writes that measure
PATIENCE = 120.0  # Seconds after the last goal within which all have to end
AGENTS = ("conductor", "critic", "slow")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a fault did: ``gap`` is the longest time without an answer to a write, ``back`` the time from the
    return of the servers to the next answer; both in seconds. ``lost`` were answered and are not there.
    """

    fault: str
    goals: int
    completed_once: int
    ends: dict[str, int]
    gap: float
    back: float
    writes: int
    lost: int
    whole: bool
    seconds: float

    @property
    def survived(self) -> bool:
        """Whether every goal was completed once, and nothing was lost."""
        return self.completed_once == self.goals and not self.lost and self.whole


class Meter:
    """Writes one event after the other, and notes when each was answered."""

    def __init__(self, bus: Bus) -> None:
        self.stored: dict[int, bytes] = {}
        self.gap = 0.0
        self.last = self._begun = time.monotonic()
        self._bus = bus
        self._task = asyncio.create_task(self._write())

    async def _write(self) -> None:
        number = 0
        while True:
            body = b'{"number": %d}' % (number := number + 1)
            entry = Entry(subjects.event("slow", "measured"), body, f"measured-{self._begun}-{number}")
            try:
                (seq,) = await self._bus.commit([entry])
            except BusError:
                continue
            self.stored[seq] = body
            now = time.monotonic()
            self.gap, self.last = max(self.gap, now - self.last), now
            await asyncio.sleep(PAUSE)

    async def after(self, moment: float, timeout: float = 60.0) -> float:
        """Seconds from a moment until the next write was answered."""
        await eventually(lambda: self.last > moment, timeout)
        return self.last - moment

    async def resumed(self) -> float:
        """Seconds until writes are answered again after a blow to the server that leads."""
        return 1.0 + await self.after(time.monotonic() + 1.0)  # what was under way may still be answered

    async def end(self) -> None:
        """Stop writing."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


Fault = Callable[[Office, Cluster, int, Meter], Awaitable[float]]
"""Does something to the server that leads the log, and returns the seconds until it was written again."""


async def kill_leader(_: Office, cluster: Cluster, leader: int, meter: Meter) -> float:
    """Kill the server that leads, and start it again once another does."""
    cluster.kill_one(leader)
    back = await meter.resumed()
    await cluster.start_one(leader)
    return back


async def freeze_leader(_: Office, cluster: Cluster, leader: int, meter: Meter) -> float:
    """Stop it by a signal, and let it go on later, when it does not lead any more."""
    cluster.signal(leader, signal.SIGSTOP)
    begun = time.monotonic()
    back = await meter.resumed()
    await asyncio.sleep(max(0.0, begun + HELD - time.monotonic()))
    cluster.signal(leader, signal.SIGCONT)
    return back


async def kill_two(_: Office, cluster: Cluster, leader: int, meter: Meter) -> float:
    """Kill two of three, and start them again after 3 s."""
    pair = (leader, (leader + 1) % 3)
    for at in pair:
        cluster.kill_one(at)
    await asyncio.sleep(3)
    await asyncio.gather(*map(cluster.start_one, pair))
    return await meter.after(time.monotonic())


async def cut_off_leader(_: Office, cluster: Cluster, leader: int, meter: Meter) -> float:
    """Cut it off from the others for CUT seconds, while clients reach it."""
    assert isinstance(cluster, Divisible)
    cluster.cut(leader)
    begun = time.monotonic()
    back = await meter.resumed()
    await asyncio.sleep(max(0.0, begun + CUT - time.monotonic()))
    cluster.cut(leader, whole=True)
    return back


async def fill_disk(_: Office, cluster: Cluster, leader: int, meter: Meter) -> float:
    """Fill the disk of the third server, which follows, and start it again when there is room."""
    async with cluster.connection("admin") as admin:
        while leader == SMALL:
            await admin.call(f"STREAM.LEADER.STEPDOWN.{subjects.OFFICE}")
            leader = await cluster.leader(admin)
    file = cluster.places[SMALL].folder / "store" / "filled"
    begun = time.monotonic()
    with contextlib.suppress(OSError), file.open("wb", buffering=0) as filling:
        while True:
            filling.write(b"x" * 65_536)
    back = await meter.after(begun)
    await asyncio.sleep(HELD)
    file.unlink()
    cluster.kill_one(SMALL)
    await cluster.start_one(SMALL)
    return back


async def set_clocks(office: Office, _: Cluster, __: int, meter: Meter) -> float:
    """Start the agents again in the midst of their work, with clocks that are 10 minutes apart."""
    begun = time.monotonic()
    for name, shift in {"conductor": "-5m", "slow": "+5m"}.items():
        office.kill(name)
        more = {"LD_PRELOAD": str(FAKETIME), "FAKETIME": shift, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        office.start(name, **more)
        await office.ready(name)
    now = time.time()
    pids = {office.processes[name].pid for name in ("conductor", "slow")}
    found = [each for each in await read_presences(office.user) if each.pid in pids]
    shifts = {each.agent: parse_timestamp(each.started_at).timestamp() - now for each in found}
    assert shifts["slow"] - shifts["conductor"] > 9 * 60, shifts
    return await meter.after(begun)


FAULTS: dict[str, Fault] = {
    "killed": kill_leader,
    "frozen": freeze_leader,
    "two killed": kill_two,
    **({"clocks": set_clocks} if FAKETIME else {}),
    **({"cut off": cut_off_leader, "disk full": fill_disk} if may_divide() else {}),
}


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[Office, Cluster]]:
    """An office of a conductor and an agent that waits, on three servers."""
    more = {**install_slow_agent(folder, 16), "MAILROOM_NATS_REPLICAS": "3", "MAILROOM_TASK_ACK_WAIT": "5"}
    office = Office(folder, **more)
    kind = Divisible if may_divide() else Cluster
    office.server = cluster = kind(folder, ("conductor", "critic", "memory", "gateway", "slow"), **more)
    office.environment, office.config = cluster.environment, cluster.config
    try:
        await office.open(AGENTS)
        yield office, cluster
    finally:
        await office.close()


async def run_fault(office: Office, cluster: Cluster, fault: str, goals: int, run: int = 0) -> Outcome:
    """Submit goals while a fault happens in their midst, and count what became of them."""
    begun = time.monotonic()
    names = [f"{fault.replace(' ', '')}-{run}-{number}" for number in range(goals)]
    async with cluster.connection("slow") as bus, cluster.connection("admin") as admin:
        meter = Meter(bus)
        await meter.after(time.monotonic())
        submitting = asyncio.create_task(_submit(office, names))
        await asyncio.sleep(goals / RATE / 3)
        meter.gap, leader = 0.0, await cluster.leader(admin)
        back = await FAULTS[fault](office, cluster, leader, meter)
        await submitting
        ends = await _ends(office, names)
        await meter.end()
        await _followed(admin)
        lost = await _count_lost(cluster, meter)
        urls = cluster.url.split(",")
        found = await verify_replicas(
            cluster.config, urls, "all", lambda one: verify_here(one, cluster.config)
        )
    return Outcome(
        fault=fault,
        goals=goals,
        completed_once=sum(ends[name] == [TaskStatus.COMPLETED] for name in names),
        ends=dict(Counter(str(status) for name in names for status in ends[name])),
        gap=round(meter.gap, 1),
        back=round(back, 1),
        writes=len(meter.stored),
        lost=lost,
        whole=not any(each.problem_count for each in found) and len(found) == 6,
        seconds=round(time.monotonic() - begun, 1),
    )


async def _submit(office: Office, names: list[str]) -> None:
    begun = time.monotonic()

    async def submit(number: int, name: str) -> None:
        await asyncio.sleep(max(0.0, begun + number / RATE - time.monotonic()))
        payload = msgspec.json.encode(slow_goal(name, 0.5))
        while True:
            try:
                await office.user.store(subjects.SUBMIT, payload, headers={"Nats-Msg-Id": name})
            except BusError:  # the same id is stored once
                await asyncio.sleep(0.2)
            else:
                return

    await asyncio.gather(*(submit(*each) for each in enumerate(names)))


async def _ends(office: Office, names: list[str]) -> dict[str, list[TaskStatus]]:
    """How each goal ended, as often as it did; waits until all have."""
    ends: dict[str, list[TaskStatus]] = defaultdict(list)

    async def all_ended() -> bool:
        ends.clear()
        try:
            records = await office.stored(subjects.goal("*"))
        except BusError:
            return False
        for _, _, data in records:
            goal = StateChanged.from_json(data).goal
            if goal is not None and goal.status.final:
                ends[goal.goal_id].append(goal.status)
        return all(ends.get(name) for name in names)

    async with asyncio.timeout(PATIENCE):
        while not await all_ended():
            await asyncio.sleep(0.5)
    return ends


async def _followed(admin: Bus) -> None:
    async def current() -> bool:
        found = await read_replicas(admin)
        return len(found) == 3 and all(each.current and not each.lag for each in found)

    await eventually(current, PATIENCE)


async def _count_lost(cluster: Cluster, meter: Meter) -> int:
    async with cluster.connection("admin") as admin:
        end = max(meter.stored)
        pages = [page async for page in admin.read_all(subjects.OFFICE, min(meter.stored), end)]
        there = {one.seq: one.data for page in pages for one in page}
    return sum(there.get(seq) != body for seq, body in meter.stored.items())


async def main() -> None:
    """Run the faults that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--goals", type=int, default=200)
    parser.add_argument("--times", type=int, default=1, help="how often each fault")
    parser.add_argument("--faults", default=",".join(FAULTS))
    asked = parser.parse_args()
    log.configure("bench", level="warning")
    leave_nothing()
    outcomes = []
    with TemporaryDirectory() as folder:
        async with opened(Path(folder)) as (office, cluster):
            for number in range(asked.times):
                for fault in asked.faults.split(","):
                    outcome = await run_fault(office, cluster, fault, asked.goals, number)
                    outcomes.append(outcome)
                    print(
                        f"{outcome.fault:<12} gap {outcome.gap:5.1f} s  back after {outcome.back:5.1f} s  "
                        f"{outcome.completed_once} of {outcome.goals} goals completed once  "
                        f"{outcome.lost} of {outcome.writes} writes lost  whole {outcome.whole}",
                        flush=True,
                    )
    gaps: dict[str, list[float]] = defaultdict(list)
    for outcome in outcomes:
        gaps[outcome.fault].append(outcome.gap)
    medians = {fault: statistics.median(some) for fault, some in gaps.items()}
    print(json.dumps({"median_gap": medians, "outcomes": msgspec.to_builtins(outcomes)}))


if __name__ == "__main__":
    asyncio.run(main())
