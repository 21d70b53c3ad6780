"""How long one no-op task and one goal of one task take, with the whole office up and nothing else to do."""

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Self

import msgspec
import nats
from nats.aio.msg import Msg

from shared import subjects
from shared.bus import Bus, Delivery, Entry
from shared.bus.consumer import ConsumerConfig
from shared.bus.records import submission_entry
from shared.contracts import AgentReport, Task, TaskResult, decode
from tests.bench.ground import NOOP, PATIENCE, SIZE, Ground, RivalLane, noop_task, open_ground
from tests.bench.hops import Mark, Trace, took, trace_goal, trace_task, typical_hops
from tests.bench.plan import Plan
from tests.bench.rivals.pull import Pull
from tests.bench.rows import NO_TARGET, Row, Target, at_most, at_most_times, compare

NAME = "latency"
TASKS, GOALS = 300, 40
BARE = "bare publish and consume"
PARTS = "the task and its review"
TARGETS = {50: at_most(4), 99: at_most(15)}
"""Milliseconds of a no-op task, by percentile."""
TIMES_BARE = at_most_times(3)
"""A no-op task at the median, against a bare round trip."""
OVER_PARTS = at_most(25)
"""Milliseconds a goal may take over the task and the review it consists of."""


async def measure(plan: Plan) -> list[Row]:
    """Tasks in turn with bare round trips, then goals."""
    tasks, goals, sync = plan.choose((TASKS, GOALS, "always"), (80, 15, "2m"), (10, 2, "always"))
    async with open_ground(sync, everybody=True) as ground, AsyncExitStack() as ends:
        mailbox = await Mailbox.open(ground.office.user)
        echo = await Echo.open(ground, ends)
        for number in range(tasks // 5):
            await mailbox.have_done(noop_task(f"warm-{number}"))
            await echo.round_trip()
        bare, commits, traces = [], [], []
        for number in range(tasks):
            bare.append(await echo.round_trip())
            commits.append(await mailbox.commit_two(f"probe-{number}"))
            traces.append(await mailbox.have_done(noop_task(f"task-{number}")))
        await mailbox.reach(f"warm-{time.time_ns()}")
        names = [f"goal-{number}-{time.time_ns()}" for number in range(goals)]
        for name in names:
            await mailbox.reach(name)
        user = ground.office.user
        reached = [await trace_goal(user, name) for name in names]
        traces = [await _complete(user, f"task-{number}", trace) for number, trace in enumerate(traces)]
    return [*_task_rows(traces, bare, commits), *_goal_rows(reached)]


class Mailbox:
    """A person who hands out work, and notes when the answer lies in the mailbox."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._awaited: dict[str, asyncio.Future[float]] = {}

    @classmethod
    async def open(cls, bus: Bus) -> Self:
        """Begin to empty it."""
        mailbox = cls(bus)
        await bus.consume(
            ConsumerConfig(
                stream=subjects.OFFICE, durables=(subjects.USER,), concurrency=4, ack_wait=30, max_attempts=5
            ),
            mailbox._receive,
            mailbox._bury,
        )
        return mailbox

    async def have_done(self, task: Task) -> list[Mark]:
        """Hand out a task and wait for its result."""
        arrived = self._expect(task.task_id)
        begun = time.time()
        await self._bus.commit([submission_entry(task)])
        return [Mark("begun", begun), Mark("received", await arrived)]

    async def commit_two(self, name: str) -> float:
        """Seconds that an atomic commit of two messages takes that nobody consumes."""
        entries = [
            Entry(
                subjects.task(NOOP, subjects.USER, f"{name}-{part}", subjects.CANCELLED),
                b"x" * SIZE,
                f"{name}-{part}",
            )
            for part in "ab"
        ]
        begun = time.time()
        await self._bus.commit(entries)
        return time.time() - begun

    async def reach(self, goal_id: str) -> None:
        """Submit a goal of one no-op task and wait for its report."""
        arrived = self._expect(goal_id)
        goal = {"text": "Rest", "goal_id": goal_id, "context": {"assignee": NOOP, "action": "rest"}}
        await self._bus.store(subjects.SUBMIT, msgspec.json.encode(goal))
        await arrived

    def _expect(self, name: str) -> asyncio.Future[float]:
        future = self._awaited[name] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(PATIENCE, future.cancel)
        return future

    async def _receive(self, delivery: Delivery) -> None:
        letter = decode(delivery.data)
        if isinstance(letter, TaskResult | AgentReport):
            name = letter.task_id if isinstance(letter, TaskResult) else letter.goal_id
            self._awaited.pop(name).set_result(time.time())

    async def _bury(self, delivery: Delivery, reason: str) -> None:
        raise RuntimeError(f"{delivery.subject} was not expected: {reason}")


class Echo:
    """One message at a time into a stream like the office's and out of it again, with nothing but nats-py."""

    def __init__(self, client: nats.NATS, lane: RivalLane) -> None:
        self._stream, self._subject = client.jetstream(), f"{lane.subject}.task"
        self._arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pull = Pull(client, argparse.Namespace(stream=lane.stream, durable=lane.durable, window=1))

    @classmethod
    async def open(cls, ground: Ground, ends: AsyncExitStack) -> Self:
        """Make the stream and begin to pull; ``ends`` learns how to stop it."""
        lane = RivalLane(ground, "bare")
        await lane.provision()
        client = await ends.enter_async_context(ground.office.server.raw_client(subjects.ADMIN))
        echo = cls(client, lane)
        await echo._pull.start(echo._receive)
        return echo

    async def round_trip(self) -> float:
        """Seconds until a message is stored, acknowledged to its publisher, and received."""
        self._arrived = asyncio.get_running_loop().create_future()
        begun = time.time()
        async with asyncio.timeout(PATIENCE):
            await self._stream.publish(self._subject, b"x" * SIZE)
            await self._arrived
        return time.time() - begun

    async def _receive(self, message: Msg) -> None:
        if message.reply.startswith("$JS.ACK"):
            await message.ack()
            await self._pull.done()
            self._arrived.set_result(None)


async def _complete(user: Bus, task_id: str, trace: Trace) -> Trace:
    stored = await trace_task(user, NOOP, subjects.USER, task_id)
    return [trace[0], *stored, trace[-1]]


def _task_rows(traces: Sequence[Trace], bare: Sequence[float], commits: Sequence[float]) -> list[Row]:
    times = [took(trace, "begun", "received") for trace in traces]
    rows = []
    for percent, target in TARGETS.items():
        bound = at(bare, percent)
        rows += [
            _row(f"no-op task, subject to result, p{percent}", at(times, percent), BARE, bound, target),
            _row(f"one atomic commit of two messages, p{percent}", at(commits, percent), BARE, bound),
        ]
    ratio = _row("no-op task, against a bare round trip", at(times, 50), BARE, at(bare, 50), TIMES_BARE)
    return [*rows, ratio, *_hop_rows("of a task", traces)]


def _goal_rows(traces: Sequence[Trace]) -> list[Row]:
    whole = [took(trace, "submitted", "ended") for trace in traces]
    parts = [
        took(trace, "task handed out", "task done") + took(trace, "review handed out", "review done")
        for trace in traces
    ]
    over = [one - other for one, other in zip(whole, parts, strict=True)]
    middle = statistics.median
    rows = [
        _row("goal of one task, p50", middle(whole), PARTS, middle(parts)),
        _row("goal of one task, over its parts, p50", middle(over), PARTS, middle(parts), OVER_PARTS),
    ]
    return [*rows, *_hop_rows("of a goal", traces)]


def _hop_rows(name: str, traces: Sequence[Trace]) -> list[Row]:
    return [_row(f"{name}: {hop}", seconds) for hop, seconds in typical_hops(traces).items()]


def _row(
    name: str, seconds: float, bound: str = "", bound_seconds: float = 0, target: Target = NO_TARGET
) -> Row:
    return compare(NAME, name, seconds * 1e3, "ms", bound, bound_seconds * 1e3 or None, target)


def at(times: Sequence[float], percent: int) -> float:
    """The percentile of some times."""
    return statistics.quantiles(times, n=100, method="inclusive")[percent - 1]
