"""The index under a full disk, a gateway that stands still, and readers who read nothing."""

import asyncio
import os
import re
import resource
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from shared import subjects
from shared.access.scopes import Scope
from shared.queries.records import last_sequence
from tests.bench.machine import rss_mb
from tests.support.access import Tokens
from tests.support.block_files import cut_blocks
from tests.support.gateway import RunningGateway
from tests.support.readers import Reader, send
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(120)
AT_ONCE = 100


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    running = RunningGateway(tmp_path)
    try:
        await running.open()
        yield running
    finally:
        await running.close()


async def send_all(gateway: RunningGateway, count: int, body: str = "Hello") -> None:
    for begin in range(0, count, AT_ONCE):
        await asyncio.gather(*(send(gateway, n, body) for n in range(begin, min(count, begin + AT_ONCE))))


async def index_check(gateway: RunningGateway) -> dict[str, str]:
    async with gateway.client(Scope.READ) as client:
        checks = (await client.get("/api/v1/doctor")).json()["checks"]
    (found,) = [check for check in checks if check["name"] == "index"]
    return dict(found)


def process_of(gateway: RunningGateway) -> int:
    return gateway.office.processes["gateway"].pid


async def test_a_full_disk_stops_the_index_and_nothing_else(gateway: RunningGateway) -> None:
    reader = Reader(gateway, Tokens(gateway.config).add("reader", Scope.READ))
    following = asyncio.create_task(reader.run())
    await send_all(gateway, 10)
    await eventually(lambda: len(reader.seen) == 10, 20)
    pid = process_of(gateway)
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))  # every write fails, as on a full disk
    await send_all(gateway, 300)

    async def is_noticed() -> bool:
        return (await index_check(gateway))["verdict"] == "fail"

    await eventually(is_noticed, 40)
    found = await index_check(gateway)
    assert "cannot be indexed" in found["finding"]
    assert "Free space" in found["fix"]
    async with gateway.client(Scope.READ) as client:
        assert (await client.get("/api/v1/goals")).status_code == 200
        async with client.stream("GET", "/api/v1/events") as stream:
            lines = [line async for line, _ in _first(stream.aiter_lines(), 4)]
    assert '"problem":"' in lines[3]
    assert '"problem":""' not in lines[3]
    assert len(reader.seen) == 10
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    await eventually(lambda: len(reader.seen) >= 310, 30)
    assert (await index_check(gateway))["verdict"] == "ok"
    following.cancel()
    assert len(reader.seen) == len(set(reader.seen)) == 310


async def _first(lines: AsyncIterator[str], count: int) -> AsyncIterator[tuple[str, int]]:
    number = 0
    async for line in lines:
        yield line, number
        number += 1
        if number == count:
            return


async def test_a_gateway_that_stood_still_misses_nothing(gateway: RunningGateway) -> None:
    reader = Reader(gateway, Tokens(gateway.config).add("reader", Scope.READ))
    following = asyncio.create_task(reader.run())
    await send_all(gateway, 10)
    await eventually(lambda: len(reader.seen) == 10, 20)
    os.kill(process_of(gateway), signal.SIGSTOP)
    try:
        await send_all(gateway, 6_000)  # more than wait to be indexed
    finally:
        os.kill(process_of(gateway), signal.SIGCONT)
    await eventually(lambda: len(reader.seen) >= 6_010, 60)
    following.cancel()
    assert len(reader.seen) == len(set(reader.seen)) == 6_010


async def test_a_reader_who_reads_nothing_costs_no_memory(gateway: RunningGateway) -> None:
    token = Tokens(gateway.config).add("slow", Scope.READ)
    reader = Reader(gateway, Tokens(gateway.config).add("quick", Scope.READ))
    following = asyncio.create_task(reader.run())
    address = urlsplit(gateway.url)
    headers = f"Host: {address.netloc}\r\nAuthorization: Bearer {token}"
    slow = [await asyncio.open_connection(address.hostname, address.port) for _ in range(20)]
    for _, writer in slow:
        writer.transport.get_extra_info("socket").setsockopt(1, 8, 4096)  # the receive buffer
        writer.write(f"GET /api/v1/events?after=0-0 HTTP/1.1\r\n{headers}\r\n\r\n".encode())
    await send_all(gateway, 500)
    before = rss_mb(process_of(gateway))
    await send_all(gateway, 6_000, "Hello " * 50)
    await eventually(lambda: len(reader.seen) >= 6_500, 60)
    grown = rss_mb(process_of(gateway)) - before
    for _, writer in slow:
        writer.close()
    following.cancel()
    assert grown < 60, f"it grew by {grown:.0f} MB"
    again = Reader(gateway, token)
    again.last = reader.seen[99]
    following = asyncio.create_task(again.run())
    await eventually(lambda: len(again.seen) >= 6_400, 30)
    following.cancel()
    assert again.seen == reader.seen[100:]


async def test_what_the_server_cuts_off_after_a_damage_is_said_and_the_rest_goes_on(
    gateway: RunningGateway,
) -> None:
    await send_all(gateway, 300)
    await eventually(lambda: is_indexed(gateway, "Hello", 300), 20)
    server = gateway.office.server
    gateway.office.kill("gateway")
    server.kill()
    (blocks,) = gateway.config.state_dir.glob("nats/store/jetstream/*/streams/OFFICE/msgs/*.blk")
    data = blocks.read_bytes()
    blocks.write_bytes(data[: len(data) // 2] + b"\0" * 64 + data[len(data) // 2 + 64 :])
    await server.restart()
    gateway.office.start("gateway")
    await gateway.office.ready("gateway")
    await eventually(lambda: is_indexed(gateway, "Hello", 300, fewer=True), 20)
    await send_all(gateway, 5, "After it")
    await eventually(lambda: is_indexed(gateway, "After it", 5), 20)
    async with gateway.client(Scope.READ) as client:
        checks = (await client.get("/api/v1/doctor")).json()["checks"]
    (found,) = [check for check in checks if check["name"] == "seals"]
    assert found["verdict"] == "fail", found
    assert re.match(r"OFFICE lost its messages [\d,]+ to 3[\d,]+", found["finding"]), found
    verified = server.mailroom("audit", "verify")
    assert verified.returncode == 1
    assert "OFFICE lost its messages" in verified.stdout


@pytest.mark.parametrize("is_away", [True, False])
async def test_a_stream_that_lost_its_end_and_grew_past_it_is_noticed(
    gateway: RunningGateway, is_away: bool
) -> None:
    """Whether the gateway was away meanwhile, or only heard nothing."""
    await send_all(gateway, 40)
    await eventually(lambda: is_indexed(gateway, "Hello", 40), 20)
    server, pid = gateway.office.server, process_of(gateway)
    end = await last_sequence(gateway.office.user, subjects.OFFICE)
    if is_away:
        gateway.office.kill("gateway")
    else:
        os.kill(pid, signal.SIGSTOP)
    server.kill()
    (folder,) = gateway.config.state_dir.glob("nats/store/jetstream/*/streams/OFFICE/msgs")
    cut_blocks(folder, 20)
    await server.restart()
    await send_all(gateway, end, "Another")
    if is_away:
        gateway.office.start("gateway")
        await gateway.office.ready("gateway")
    else:
        os.kill(pid, signal.SIGCONT)
    await eventually(lambda: is_indexed(gateway, "Hello", 40, fewer=True), 20)

    def verify() -> str:
        done = server.mailroom("audit", "verify")
        return done.stdout if done.returncode else ""

    told = await eventually(lambda: asyncio.to_thread(verify), 20)
    lost = re.search(r"OFFICE lost its messages 21 to (\d+), found ", told)
    assert lost, told
    assert 40 <= int(lost[1]) <= end  # what the gateway knew: the last one may be too new for it


async def is_indexed(gateway: RunningGateway, text: str, count: int, *, fewer: bool = False) -> bool:
    async with gateway.client(Scope.READ) as client:
        answer = (await client.get("/api/v1/messages", params={"subject": "mail.", "limit": 500})).json()
    found = sum(text in str(each) for each in answer["messages"])
    return 0 < found < count if fewer else found == count
