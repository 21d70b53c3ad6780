"""Reading a whole stream quickly: a connection of its own, whose bytes are taken apart a page at a time."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable
from typing import Any, NamedTuple

from nats.aio.client import Client

from shared.bus.client import BusClient
from shared.bus.entry import Stored
from shared.errors import BusUnavailable

PAGE = 1_000
"""The most messages of one request to the stream (a limit of nats-server)."""
PAGE_BYTES = 4 * 1024 * 1024
"""The most bytes of them, if that is more than one message."""

_VERSION = len(b"NATS/1.0\r\n")
_OWN = b"\r\nNats-Stream: "
"""The first of the headers that the server adds to a message, after those of its sender."""


class _Pages:
    """Takes the place of nats-py's parser on a connection: 3 us a message instead of 40.

    It collects what comes for the one subscription, and leaves all else to the ``other`` parser.
    """

    def __init__(self, other: Any, *, headers: bool) -> None:
        self._headers = headers
        self.arrived = asyncio.Event()
        self.stored: list[Stored] = []
        self.ended = b""
        """The status after the last message of a page."""
        self._other = other
        self._bytes = bytearray()

    async def parse(self, data: bytes) -> None:
        """Take the next bytes of the connection."""
        self._bytes += data
        place = 0
        while (end := self._bytes.find(b"\r\n", place)) >= 0:
            if not self._bytes.startswith(b"HMSG ", place):
                await self._other.parse(bytes(self._bytes[place : end + 2]))
                place = end + 2
                continue
            sizes = self._bytes[place:end].rsplit(b" ", 2)
            begin, middle = end + 2, end + 2 + int(sizes[1])
            end = begin + int(sizes[2])
            if len(self._bytes) < end + 2:
                break
            self._take(bytes(self._bytes[begin:middle]), bytes(self._bytes[middle:end]))
            place = end + 2
        del self._bytes[:place]
        self.arrived.set()

    def _take(self, headers: bytes, data: bytes) -> None:
        own = headers.rfind(_OWN)
        if own < 0:
            self.ended = headers[9:12] or b"?"
            return
        lines = headers[own + 2 :].decode().split("\r\n")
        found = dict(line.split(": ", 1) for line in lines if line)
        senders = BusClient._parse_header_lines(headers[_VERSION:own]) if self._headers else {}
        self.stored.append(
            Stored(
                found["Nats-Stream"],
                found["Nats-Subject"],
                int(found["Nats-Sequence"]),
                data,
                senders,
                found["Nats-Time-Stamp"],
            )
        )
        if not data:
            self.ended = b"204"  # between accounts an empty message ends the answer


class Span(NamedTuple):
    """The messages of a stream on ``subject`` from ``start`` to ``end``, both included.

    ``headers`` is whether those of their senders are wanted too.
    """

    stream: str
    subject: str
    start: int
    end: int
    headers: bool = False


async def read_all(
    client: Client, opened: Awaitable[None], span: Span, timeout: float
) -> AsyncGenerator[list[Stored], None]:
    """The messages of a span in lists of about a thousand.

    ``client`` serves for nothing else: ``opened`` connects it, and it is closed at the end. Raises
    BusUnavailable if the connection is lost on the way, or nothing comes for ``timeout`` seconds.
    """
    await opened
    try:
        pages = client._ps = _Pages(client._ps, headers=span.headers)  # type: ignore[assignment]
        inbox, start = client.new_inbox(), span.start
        await client.subscribe(inbox)
        while start <= span.end:
            request = {"seq": start, "next_by_subj": span.subject, "batch": PAGE, "max_bytes": PAGE_BYTES}
            pages.stored, pages.ended = [], b""
            asked = json.dumps(request).encode()
            await client.publish(f"$JS.API.DIRECT.GET.{span.stream}", asked, reply=inbox)
            await _receive(pages, client, span.stream, timeout)
            found = [message for message in pages.stored if start <= message.seq <= span.end]
            if not found:
                return
            start = found[-1].seq + 1
            yield found
    finally:
        await client.close()


async def _receive(pages: _Pages, client: Client, stream: str, timeout: float) -> None:
    """Wait for the end of a page; raises BusUnavailable if it does not come."""
    while not pages.ended:
        pages.arrived.clear()
        try:
            async with asyncio.timeout(timeout):
                await pages.arrived.wait()
        except TimeoutError:
            raise BusUnavailable(f"Reading {stream} got no answer within {timeout:g} s") from None
        if not client.is_connected:
            raise BusUnavailable(f"Reading {stream} was cut short")
    if pages.ended not in (b"204", b"404"):
        raise BusUnavailable(f"Reading {stream} failed (status {pages.ended.decode()})")
