"""Reading a whole stream quickly: a connection of its own, whose bytes are taken apart a page at a time."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, NamedTuple

import nats.errors
from nats.aio.client import Client

from shared.bus.entry import Stored, parse_block, read_stored
from shared.errors import BusUnavailable

PAGE = 1_000
"""The most messages of one request to the stream (a limit of nats-server)."""
PAGE_BYTES = 4 * 1024 * 1024
"""The most bytes of them, if that is more than one message."""


class _Pages:
    """Takes the place of nats-py's parser on a connection: 3 us a message instead of 40.

    It collects what comes for the one subscription, and leaves all else to the ``other`` parser.
    """

    def __init__(self, other: Any) -> None:
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

    def reset(self) -> None:
        """Start over on another connection: the answers owed on the last one are lost."""
        self._other.reset()
        self._bytes.clear()
        self.ended = self.ended or b"cut"
        self.arrived.set()

    def _take(self, headers: bytes, data: bytes) -> None:
        stored = read_stored(headers, data)
        if stored is None:
            self.ended = headers[9:12] or b"?"
            return
        self.stored.append(stored)
        if not data:
            self.ended = b"204"  # between accounts an empty message ends the answer


class Span(NamedTuple):
    """The messages of a stream on ``subject`` from ``start`` to ``end``, both included.

    ``headers`` is whether those of their senders are wanted as a mapping, not as bytes.
    """

    stream: str
    subject: str
    start: int
    end: int
    headers: bool = False


class BulkReader:
    """A connection that reads spans of streams one after the other, and does nothing else.

    ``client`` is its own: ``connect`` connects it at the first reading; it reconnects by itself.
    """

    def __init__(self, client: Client, connect: Callable[[], Awaitable[None]]) -> None:
        self._client, self._connect = client, connect
        self._pages: _Pages | None = None
        self._inbox = ""
        self._used = False

    async def read(self, span: Span, timeout: float) -> AsyncGenerator[list[Stored], None]:
        """The messages of a span, in lists of about a thousand; their headers as bytes, or as a mapping.

        One span at a time. Raises BusUnavailable if the connection is lost on the way, or nothing comes for
        ``timeout`` seconds.
        """
        client, pages = self._client, await self._open()
        start = span.start
        while start <= span.end:
            batch = min(PAGE, span.end - start + 1) if span.subject == ">" else PAGE
            request = {"seq": start, "next_by_subj": span.subject, "batch": batch, "max_bytes": PAGE_BYTES}
            pages.stored, pages.ended = [], b""
            asked = json.dumps(request).encode()
            try:
                await client.publish(f"$JS.API.DIRECT.GET.{span.stream}", asked, reply=self._inbox)
            except nats.errors.Error as error:
                raise BusUnavailable(f"Reading {span.stream} failed: {error}") from None
            await _receive(pages, client, span.stream, timeout)
            found = [message for message in pages.stored if start <= message.seq <= span.end]
            if not found:
                return
            start = found[-1].seq + 1
            if span.headers:
                found = [each._replace(headers=parse_block(each.block), block=b"") for each in found]
            yield found

    async def _open(self) -> _Pages:
        if self._pages is None:
            self._used = True
            try:
                await self._connect()
            except (nats.errors.Error, OSError, TimeoutError) as error:
                raise BusUnavailable(f"No connection to read by: {error}") from None
            self._pages = self._client._ps = _Pages(self._client._ps)  # type: ignore[assignment]
            self._inbox = self._client.new_inbox()
            await self._client.subscribe(self._inbox)
        return self._pages

    async def close(self) -> None:
        """Close the connection, if there was one."""
        if self._used:
            await self._client.close()


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
