"""Readers of the gateway's live events, as browsers are, and the letters that they read."""

import asyncio
import contextlib

import httpx2

from shared import subjects
from shared.contracts import Email
from shared.errors import BusError, StartError
from tests.support.gateway import RunningGateway


class Reader:
    """A browser that follows the letters after ``last``, and comes back where it was when interrupted."""

    def __init__(self, gateway: RunningGateway, token: str, last: str = "") -> None:
        self._gateway, self._token = gateway, token
        self.last = last
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


async def send(gateway: RunningGateway, number: int, body: str = "Hello") -> None:
    """Store one letter, again and again until the server has it."""
    letter = Email(sender=subjects.USER, recipient=subjects.NEXUS, subject=f"letter {number}", body=body)
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
