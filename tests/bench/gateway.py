"""The gateway: its start, its size, idle, pages among 100,000 messages, and live events."""

import asyncio
import contextlib
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2

from services.gateway.security.limits import MAX_STREAMS
from shared import subjects
from shared.access.scopes import Scope
from shared.contracts import Email, generate_task_id
from tests.bench.machine import cpu_seconds, rss_mb
from tests.bench.plan import Plan
from tests.bench.rows import NO_TARGET, Row, at_most, compare
from tests.support.access import Tokens
from tests.support.gateway import RunningGateway
from tests.support.readers import Reader, send
from tests.support.waiting import eventually

NAME = "gateway"
BARE = "GET /healthz"
"""The bound of a page: a request that reads nothing."""
MESSAGES, ASKED = 100_000, 300
"""How many messages the log has, and how often each page is asked for."""
RATE, LIVE, TABS, MANY_TABS = 200, 10.0, 7, 200
"""Events a second, seconds, and browsers that follow."""
READERS, KILLED_AT, KILLED_FOR = 50, 500, 8
"""Readers, events a second and seconds in which gateway and nats-server are killed."""
ROUNDS = 3
"""How often each page is measured; the median of the percentiles counts, as others use the machine too."""
REST = 20.0
"""Seconds for which the gateway is left alone."""
AT_ONCE = 500


async def measure(plan: Plan) -> list[Row]:
    """One office with a goal that was carried out, between many letters."""
    messages, asked, rest = plan.choose((MESSAGES, ASKED, REST), (1_000, 90, 0.0), (2_000, 20, 2.0))
    with TemporaryDirectory(prefix="mailroom-bench-") as folder:
        gateway = RunningGateway(Path(folder), MAILROOM_NATS_SYNC="2m")
        try:
            await gateway.open("conductor", "scout", "critic")
            goal_id = await run_goal(gateway, Path(folder))
            await write_letters(gateway, messages)
            if plan.small:
                await indexed(gateway)
                return await _pages(gateway, goal_id, asked)
            rows = [*await _rebuild(gateway, messages), *await _pages(gateway, goal_id, asked)]
            rows.append(await _live(gateway, 2.0 if plan.quick else LIVE, TABS))
            rows.append(await _live(gateway, 2.0 if plan.quick else LIVE, MANY_TABS))
            rows += await _restart(gateway, rest)
            rows += await _kill(gateway, 300 if plan.quick else KILLED_FOR * KILLED_AT)
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
            stored = await gateway.office.stored_count(subjects.OFFICE)
            return page["behind"] == 0 and int(page["position"].partition("-")[0]) >= stored

        await eventually(complete, 120)


async def _rebuild(gateway: RunningGateway, messages: int) -> list[Row]:
    """How long a gateway whose index was deleted reads the log, and what that leaves."""
    await indexed(gateway)
    gateway.office.kill("gateway")
    for file in gateway.config.gateway.glob("index.db*"):
        file.unlink()
    begun = time.perf_counter()
    gateway.office.start("gateway")
    await gateway.office.ready("gateway")
    await indexed(gateway)
    seconds = time.perf_counter() - begun
    size = sum(file.stat().st_size for file in gateway.config.gateway.glob("index.db*")) / 1e6
    memory = rss_mb(gateway.office.processes["gateway"].pid)
    note = f"{messages / seconds:,.0f} messages a second, with the start"
    return [
        compare(NAME, f"{messages:,} messages indexed anew", seconds, "s", note=note),
        compare(NAME, "size of the index", size, "MB"),
        compare(NAME, "size of the process after it", memory, "MB"),
    ]


async def _pages(gateway: RunningGateway, goal_id: str, asked: int) -> list[Row]:
    pages = {
        "a goal's page": f"/api/v1/goals/{goal_id}",
        "the goals": "/api/v1/goals",
        "a page of messages": "/api/v1/messages",
        "a page of one agent's messages": "/api/v1/messages?agent=scout",
        "a page with words": "/api/v1/messages?text=figures+week",
        "words of one agent": "/api/v1/messages?text=figures&agent=scout",
        "a subject that nothing has": "/api/v1/messages?subject=state.nobody",
        "search over everything": "/api/v1/search?q=figures+friday",
        "the inbox": "/api/v1/inbox",
    }
    rows = []
    process = gateway.office.processes["gateway"].pid
    async with gateway.client(Scope.READ) as client:
        begun = cpu_seconds(process)
        bare = await _time(asked, lambda: client.get("/healthz"))
        bare_cpu = cpu_seconds(process) - begun
        for name, path in pages.items():
            response = await client.get(path)
            response.raise_for_status()
            begun = cpu_seconds(process)
            rounds = [
                await _time(asked // ROUNDS, lambda path=path: client.get(path))  # type: ignore[misc]
                for _ in range(ROUNDS)
            ]
            target = at_most(20) if name == "a goal's page" else NO_TARGET
            middle = statistics.median(_percentile(times, 50) for times in rounds)
            note = f"p50 {middle:.1f} ms, {len(response.content):,} bytes"
            p99 = statistics.median(_percentile(times, 99) for times in rounds)
            rows.append(compare(NAME, f"{name}, p99", p99, "ms", BARE, _percentile(bare, 99), target, note))
            cpu = (cpu_seconds(process) - begun) / (asked // ROUNDS * ROUNDS) * 1e3
            rows.append(compare(NAME, f"{name}, processor time", cpu, "ms", BARE, bare_cpu / asked * 1e3))
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
    if len(values) < 2:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


async def _live(gateway: RunningGateway, seconds: float, tabs: int) -> Row:
    """The processor time of following: so many browsers while 200 messages a second come."""
    process = gateway.office.processes["gateway"].pid
    counts = [0] * tabs
    clients = [gateway.client(Scope.READ) for _ in range(tabs // MAX_STREAMS + 1)]
    following = [
        asyncio.create_task(_follow(clients[tab % len(clients)], counts, tab)) for tab in range(tabs)
    ]
    await asyncio.sleep(0.5 + tabs / 50)
    before, begun = cpu_seconds(process), time.perf_counter()
    sent = 0
    while (passed := time.perf_counter() - begun) < seconds:
        due = int(passed * RATE) - sent
        await write_letters(gateway, due)
        sent += due
        await asyncio.sleep(0.05)
    spent, passed = cpu_seconds(process) - before, time.perf_counter() - begun
    await asyncio.sleep(1)
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    for client in clients:
        await client.aclose()
    note = f"{sent / passed:.0f} messages a second; each browser got {min(counts)} of {sent}"
    note += f"; {rss_mb(process):.0f} MB"
    return compare(NAME, f"live, {tabs} browsers", spent / passed * 100, "% of a core", note=note)


async def _follow(client: httpx2.AsyncClient, counts: list[int], tab: int) -> None:
    async with client.stream("GET", "/api/v1/events?subject=mail.") as response:
        async for line in response.aiter_lines():
            counts[tab] += line == "event: message"


async def _kill(gateway: RunningGateway, count: int) -> list[Row]:
    """Events that readers miss or get twice when gateway and nats-server are killed in the middle."""
    token = Tokens(gateway.config).add("readers", Scope.READ)
    async with gateway.client(Scope.READ) as client:
        position = (await client.get("/api/v1/messages", params={"limit": 1})).json()["position"]
    readers = [Reader(gateway, token, position) for _ in range(READERS)]
    following = [asyncio.create_task(reader.run()) for reader in readers]

    async def kill() -> None:
        await asyncio.sleep(count / KILLED_AT / 3)
        gateway.office.kill("gateway")
        gateway.office.start("gateway")
        await asyncio.sleep(count / KILLED_AT / 3)
        await gateway.office.server.restart()

    killing = asyncio.create_task(kill())
    sending = []
    for number in range(count):
        sending.append(asyncio.create_task(send(gateway, number)))
        if number % 25 == 24:
            await asyncio.sleep(25 / KILLED_AT)
    await asyncio.gather(killing, *sending)
    with contextlib.suppress(AssertionError, TimeoutError):
        await eventually(lambda: all(len(reader.seen) >= count for reader in readers), 60)
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)
    missing = sum(count - len(set(reader.seen)) for reader in readers)
    twice = sum(len(reader.seen) - len(set(reader.seen)) for reader in readers)
    note = f"{count:,} events, {READERS} readers"
    return [
        compare(NAME, "killed: events missing", missing, "", target=at_most(0), note=note),
        compare(NAME, "killed: events twice", twice, "", target=at_most(0)),
    ]


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
