"""Reading the copy of the log that one server of a cluster has, and making sure that no other one answers."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from nats.aio.msg import Msg

from shared.bus.bulk import BulkReader
from shared.bus.connection import Bus
from shared.bus.entry import Stored, read
from shared.errors import BusUnavailable

DIRECT = "$JS.API.DIRECT.GET."
TRACED = "Nats-Trace-Dest"
TRACE_WAIT = 5.0  # Seconds within which a server must tell where a request went
TRIES = 60
"""How often in a row others may answer: any of three servers does, whichever the connection is to."""
PATIENT, PAUSE = 12, 0.25  # After how many in a row it waits before each further one, and seconds
ROUTE = 1  # The kind of a connection to another server


class ReplicaBus(Bus):
    """The connection of the admin to one server, and what is read by direct gets is of that one alone.

    Any server that has a copy may answer such a request. So each has itself traced, the server tells where it
    sent it, and what others answered is thrown away and asked for again.
    """

    def __init__(self, name: str, *, synced: bool = True) -> None:
        super().__init__(name, synced=synced)
        self._traces = ""
        self._told: dict[str, asyncio.Future[bool]] = {}
        self._last = self._others = 0

    @property
    def server_name(self) -> str:
        """The name of the server."""
        return str(self._client._server_info.get("server_name", ""))

    async def trace(self) -> None:
        """Have what is read from now on traced."""
        self._traces, place = self._client.new_inbox(), self.server_name

        async def hear(message: Msg) -> None:
            event, told = json.loads(message.data), self._told.get(message.subject)
            if told is not None and not told.done() and event["server"]["name"] == place:
                told.set_result(all(each.get("kind") != ROUTE for each in event["events"][1:]))

        await self._client.subscribe(f"{self._traces}.*", cb=hear)
        await self._client.flush()

    def _mark(self) -> dict[str, str]:
        """The headers of the next request."""
        self._last += 1
        subject = f"{self._traces}.{self._last}"
        self._told[subject] = asyncio.get_running_loop().create_future()
        return {TRACED: subject}

    async def _is_own(self, mark: dict[str, str]) -> bool:
        """Whether a request stayed here; raises BusUnavailable if that is not told, or never so."""
        try:
            async with asyncio.timeout(TRACE_WAIT):
                own = await self._told[mark[TRACED]]
        except TimeoutError:
            raise BusUnavailable(f"{self.server_name} does not tell who answered") from None
        finally:
            del self._told[mark[TRACED]]
        self._others = 0 if own else self._others + 1
        if self._others > PATIENT:
            await asyncio.sleep(PAUSE)  # one that has just started offers its copy some seconds later
        if self._others > TRIES:
            cure = "Try again when 'mailroom doctor' says that it follows"
            raise BusUnavailable(f"{self.server_name} does not answer from its own copy of the log", cure)
        return own

    async def _request(
        self,
        subject: str,
        payload: bytes,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        *,
        by_stream: bool = False,
    ) -> Msg:
        if not subject.startswith(DIRECT):
            return await super()._request(subject, payload, timeout, headers, by_stream=by_stream)
        while True:
            mark = self._mark()
            answer = await super()._request(subject, payload, timeout, mark)
            if await self._is_own(mark):
                return answer

    async def read(
        self, stream: str, request: Mapping[str, Any], *, timeout: float = 5.0
    ) -> AsyncGenerator[Stored, None]:
        """See Bus.read; all messages are here before the first is given on."""
        while True:
            mark = self._mark()
            async with aclosing(read(self._client, stream, request, timeout, mark)) as answer:
                found = [each async for each in answer]
            if await self._is_own(mark):
                for each in found:
                    yield each
                return

    def bulk_reader(self) -> BulkReader:
        """See Bus.bulk_reader."""
        reader = super().bulk_reader()
        reader.mark, reader.is_own = self._mark, self._is_own
        return reader


@asynccontextmanager
async def connect_replica(name: str, url: str, seed: Path) -> AsyncGenerator[ReplicaBus, None]:
    """A connection to the one server at ``url``, whose own copy is read; see Bus.connect."""
    bus = await ReplicaBus.connect(name, url, seed)
    try:
        await bus.trace()
        yield bus
    finally:
        await bus.close()
