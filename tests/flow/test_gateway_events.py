"""Live events: none missing and none twice, whatever is killed while they are read."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from shared import subjects
from shared.access.scopes import Scope
from shared.access.tokens import Tokens
from shared.contracts import Email
from shared.errors import BusError, StartError
from tests.support.gateway import RunningGateway
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


class Reader:
    """A browser that follows the log, and comes back where it was after every interruption."""

    def __init__(self, gateway: RunningGateway, token: str) -> None:
        self._gateway, self._token = gateway, token
        self.last = ""
        self.seen: list[str] = []

    async def run(self) -> None:
        while True:
            with contextlib.suppress(httpx2.HTTPError, OSError, StartError):
                await self._read()
            await asyncio.sleep(0.5)

    async def _read(self) -> None:
        headers = {"Authorization": f"Bearer {self._token}"}
        if self.last:
            headers["Last-Event-ID"] = self.last
        address = f"{self._gateway.url}/api/v1/events?after=0-0&subject=mail."
        async with (
            httpx2.AsyncClient(timeout=30) as client,
            client.stream("GET", address, headers=headers) as response,
        ):
            response.raise_for_status()
            event = ""
            async for line in response.aiter_lines():
                if line.startswith("id: "):
                    position = line[4:]
                elif line.startswith("event: "):
                    event = line[7:]
                elif not line and event:
                    self.last = position
                    if event == "message":
                        self.seen.append(position)
                    event = ""


async def send(gateway: RunningGateway, number: int) -> None:
    """Store one letter, again and again until the server has it."""
    letter = Email(sender=subjects.USER, recipient=subjects.NEXUS, subject=f"letter {number}", body="Hello")
    while True:
        try:
            await gateway.office.user.store(
                subjects.mail(subjects.NEXUS, subjects.USER),
                letter.to_json(),
                headers={"Nats-Msg-Id": letter.id},
            )
        except BusError:
            await asyncio.sleep(0.2)
        else:
            return


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
