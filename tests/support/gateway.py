"""A gateway as people run it: its process on a nats-server of its own, and clients for it."""

import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2

from services.gateway.security.bucket import Bucket
from shared import subjects
from shared.access.credentials import find_address
from shared.access.scopes import Scope
from tests.support.access import Tokens, create_link
from tests.support.office import Office

_numbers = itertools.count()


class RunningGateway:
    """The gateway with the agents that are named; it can be killed and started again."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.office = Office(folder, MAILROOM_GATEWAY_PORT="0", **environment)
        self.config = self.office.config

    async def open(self, *agents: str) -> None:
        """Start them; call ``close`` in any case."""
        await self.office.open([*agents, subjects.GATEWAY])

    @property
    def url(self) -> str:
        return find_address(self.config)

    def client(self, scope: Scope = Scope.ADMIN, name: str = "") -> httpx2.AsyncClient:
        """A client with a token of its own."""
        tokens = Tokens(self.config)
        token = tokens.add(name or f"test-{next(_numbers)}", scope)
        return httpx2.AsyncClient(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=20)

    def stranger(self) -> httpx2.AsyncClient:
        """A client without a token."""
        return httpx2.AsyncClient(base_url=self.url, timeout=20)

    @contextlib.asynccontextmanager
    async def browser(self) -> AsyncIterator[httpx2.AsyncClient]:
        """A client that is signed in by a link, and sends what a browser sends."""
        headers = {"Origin": self.url, "Sec-Fetch-Site": "same-origin"}
        async with httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=20) as client:
            code = create_link(self.config).partition("#")[2]
            (await client.post("/api/v1/session", json={"link": code})).raise_for_status()
            yield client

    async def shared(self, kind: str) -> dict[str, bytes]:
        """What the gateways of the office share, of a kind."""
        async with self.office.server.connection(subjects.GATEWAY) as bus:
            bucket = Bucket(bus)
            await bucket.refresh()
            return bucket.list(kind)

    async def close(self) -> None:
        await self.office.close()
