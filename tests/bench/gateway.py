"""The gateway: its start, its size, idle, pages among 100,000 messages, and live events."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2

from shared import subjects
from shared.access.scopes import Scope
from shared.contracts import Email, generate_task_id
from tests.bench.machine import cpu_seconds, rss_mb
from tests.bench.plan import Plan
from tests.bench.rows import NO_TARGET, Row, at_most, compare
from tests.support.gateway import RunningGateway
from tests.support.waiting import eventually

NAME = "gateway"
BARE = "GET /healthz"
"""The bound of a page: a request that reads nothing."""
MESSAGES, ASKED = 100_000, 300
"""How many messages the log has, and how often each page is asked for."""
RATE, LIVE, TABS = 200, 10.0, 7
"""Events a second, seconds, and browsers that follow."""
REST = 20.0
"""Seconds for which the gateway is left alone."""
AT_ONCE = 500


async def measure(plan: Plan) -> list[Row]:
    """One office with a goal that was carried out, between many letters."""
    messages, asked, rest = (2_000, 20, 2.0) if plan.quick else (MESSAGES, ASKED, REST)
    with TemporaryDirectory(prefix="mailroom-bench-") as folder:
        gateway = RunningGateway(Path(folder), MAILROOM_NATS_SYNC="2m")
        try:
            await gateway.open("conductor", "scout", "critic")
            goal_id = await run_goal(gateway, Path(folder))
            await write_letters(gateway, messages // 2)
            rows = [await _catch_up(gateway, messages // 2)]
            await write_letters(gateway, messages - messages // 2)
            await indexed(gateway)
            rows += await _pages(gateway, goal_id, asked)
            rows += await _live(gateway, 2.0 if plan.quick else LIVE)
            rows += await _restart(gateway, rest)
        finally:
            await gateway.close()
    return rows


async def run_goal(gateway: RunningGateway, folder: Path) -> str:
    """Have a document read, and return the goal's id when it has ended."""
    note = folder / "note.md"
    note.write_text("# A note\n")
    goal_id = generate_task_id("goal")
    reading = {"assignee": "scout", "action": "read_document", "params": {"path": str(note)}}
    await gateway.office.submit({"text": "Read the note", "goal_id": goal_id, "context": reading})
    await gateway.office.finished(goal_id)
    return goal_id


async def write_letters(gateway: RunningGateway, count: int) -> None:
    """Store ``count`` letters of people, some hundred at a time."""
    subject = subjects.mail(subjects.NEXUS, subjects.USER)
    body = "The figures of last week are in, and somebody ought to look at them before Friday. " * 4

    async def write(number: int) -> None:
        letter = Email(sender=subjects.USER, recipient=subjects.NEXUS, subject=f"Week {number}", body=body)
        await gateway.office.user.store(subject, letter.to_json(), timeout=30)

    for begin in range(0, count, AT_ONCE):
        await asyncio.gather(*map(write, range(begin, min(begin + AT_ONCE, count))))


async def indexed(gateway: RunningGateway) -> None:
    """Wait until the index has everything."""
    async with gateway.client(Scope.READ) as client:

        async def complete() -> bool:
            page = (await client.get("/api/v1/messages", params={"limit": 1})).json()
            stored = await gateway.office.stored_count(subjects.AUDIT)
            return page["behind"] == 0 and int(page["position"].partition("-")[0]) >= stored

        await eventually(complete, 120)


async def _catch_up(gateway: RunningGateway, messages: int) -> Row:
    """How quickly a gateway whose index was deleted reads the log again."""
    gateway.office.kill("gateway")
    for file in gateway.config.gateway.glob("index.db*"):
        file.unlink()
    gateway.office.start("gateway")
    await gateway.office.ready("gateway")
    begun = time.perf_counter()
    await indexed(gateway)
    rate = messages / (time.perf_counter() - begun)
    return compare(NAME, "messages indexed anew", rate, "1/s")


async def _pages(gateway: RunningGateway, goal_id: str, asked: int) -> list[Row]:
    pages = {
        "a goal's page": f"/api/v1/goals/{goal_id}",
        "the goals": "/api/v1/goals",
        "a page of messages": "/api/v1/messages",
        "a page of one agent's messages": "/api/v1/messages?agent=scout",
        "search": "/api/v1/search?q=figures+friday",
        "the inbox": "/api/v1/inbox",
    }
    rows = []
    async with gateway.client(Scope.READ) as client:
        bare = await _time(asked, lambda: client.get("/healthz"))
        for name, path in pages.items():
            response = await client.get(path)
            response.raise_for_status()
            times = await _time(asked, lambda path=path: client.get(path))  # type: ignore[misc]
            target = at_most(20) if name == "a goal's page" else NO_TARGET
            note = f"p50 {_percentile(times, 50):.1f} ms, {len(response.content):,} bytes"
            p99 = _percentile(times, 99)
            rows.append(compare(NAME, f"{name}, p99", p99, "ms", BARE, _percentile(bare, 99), target, note))
    return rows


async def _time(count: int, ask: Callable[[], Awaitable[httpx2.Response]]) -> list[float]:
    """Milliseconds of each of ``count`` requests, fewer a second than anybody may make."""
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        await ask()
        times.append((time.perf_counter() - begun) * 1_000)
        await asyncio.sleep(0.012)
    return times


def _percentile(values: Sequence[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


async def _live(gateway: RunningGateway, seconds: float) -> list[Row]:
    """The processor time of following: seven browsers while 200 messages a second come."""
    process = gateway.office.processes["gateway"].pid
    counts = [0] * TABS
    following = [asyncio.create_task(_follow(gateway, counts, tab)) for tab in range(TABS)]
    await asyncio.sleep(0.5)
    before, begun = cpu_seconds(process), time.perf_counter()
    for _ in range(int(seconds * 10)):
        await write_letters(gateway, RATE // 10)
        await asyncio.sleep(0.05)
    spent, passed = cpu_seconds(process) - before, time.perf_counter() - begun
    await asyncio.sleep(0.5)
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    sent = RATE // 10 * int(seconds * 10)
    note = f"{sent / passed:.0f} messages a second; each browser got {min(counts)} of {sent}"
    return [compare(NAME, f"live, {TABS} browsers", spent / passed * 100, "% of a core", note=note)]


async def _follow(gateway: RunningGateway, counts: list[int], tab: int) -> None:
    client = gateway.client(Scope.READ)
    async with client, client.stream("GET", "/api/v1/events") as response:
        async for line in response.aiter_lines():
            counts[tab] += line == "event: message"


async def _restart(gateway: RunningGateway, rest: float) -> list[Row]:
    """Start, size and idle processor time with a full index."""
    gateway.office.kill("gateway")
    begun = time.perf_counter()
    gateway.office.start("gateway")
    await gateway.office.ready("gateway")
    ready = time.perf_counter() - begun
    process = gateway.office.processes["gateway"].pid
    await asyncio.sleep(3)
    before, begun = cpu_seconds(process), time.perf_counter()
    await asyncio.sleep(rest)
    idle = (cpu_seconds(process) - before) / (time.perf_counter() - begun)
    return [
        compare(NAME, "start to ready", ready, "s", target=at_most(0.8)),
        compare(NAME, "size, idle", rss_mb(process), "MB", target=at_most(60)),
        compare(NAME, "idle", idle * 100, "% of a core", target=at_most(0.5)),
    ]
