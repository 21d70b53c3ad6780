"""Live events: none missing and none twice, whatever is killed while they are read."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.access.scopes import Scope
from tests.support.access import Tokens
from tests.support.gateway import RunningGateway
from tests.support.readers import Reader, send
from tests.support.waiting import eventually

READERS = 50
RATE = 500
SECONDS = 6


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    running = RunningGateway(tmp_path)
    try:
        await running.open()
        yield running
    finally:
        await running.close()


@pytest.mark.timeout(180)
async def test_no_event_is_lost_or_repeated_when_gateway_and_server_are_killed(
    gateway: RunningGateway,
) -> None:
    token = Tokens(gateway.config).add("reader", Scope.READ)
    readers = [Reader(gateway, token) for _ in range(READERS)]
    following = [asyncio.create_task(reader.run()) for reader in readers]
    sent: list[asyncio.Task[None]] = []

    async def storm() -> None:
        await asyncio.sleep(SECONDS / 3)
        gateway.office.kill("gateway")
        gateway.office.start("gateway")
        await asyncio.sleep(SECONDS / 3)
        await gateway.office.server.restart()

    killing = asyncio.create_task(storm())
    for number in range(RATE * SECONDS):
        sent.append(asyncio.create_task(send(gateway, number)))
        if number % 25 == 24:
            await asyncio.sleep(25 / RATE)
    await asyncio.gather(killing, *sent)
    try:
        total = RATE * SECONDS
        await eventually(lambda: all(len(set(reader.seen)) >= total for reader in readers), 60)
    finally:
        print(
            sorted(len(set(reader.seen)) for reader in readers),
            sorted({reader.last for reader in readers})[-3:],
        )
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    for reader in readers:
        assert len(reader.seen) == len(set(reader.seen)) == total
        order = [tuple(map(int, position.split("-"))) for position in reader.seen]
        assert order == sorted(order)
