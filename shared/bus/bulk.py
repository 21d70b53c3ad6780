"""Reading a whole stream quickly: over a connection of its own, a page at a time."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import NamedTuple

import nats.errors

from shared.bus.client import BusClient
from shared.bus.entry import Stored, parse_block, read_stored
from shared.errors import BusUnavailable

PAGE = 1_000  # The most messages of one request to the stream (a limit of nats-server)
PAGE_BYTES = 4 * 1024 * 1024  # The most bytes of them, if that is more than one message


class _Page:
    """What comes in answer to one request."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.stored: list[Stored] = []
        self.ended = b""
        """The status after the last message of it."""

    def begin(self) -> None:
        """Forget the page before."""
        self.stored, self.ended = [], b""

    async def cut(self) -> None:
        """End it: what is owed on a connection that is lost never comes."""
        self.ended = self.ended or b"cut"
        self.arrived.set()

    def take(self, _: str, __: str, headers: bytes, data: bytes) -> None:
        """Take a message, or the status at the end."""
        stored = read_stored(headers, data)
        if stored is None:
            self.ended = headers[9:12] or b"?"
        else:
            self.stored.append(stored)
        if not data:
            self.ended = self.ended or b"204"  # between accounts an empty message ends the answer
        self.arrived.set()


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

    ``client`` is its own: ``connect`` connects it at the first reading, and has what it is given called when
    the connection is lost; it reconnects by itself.
    """

    def __init__(
        self, client: BusClient, connect: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
    ) -> None:
        self._client, self._connect = client, connect
        self._page = _Page()
        self.mark: Callable[[], dict[str, str]] | None = None
        """Makes the headers of a request; ``is_own`` says afterwards whether its answer counts."""
        self.is_own: Callable[[dict[str, str]], Awaitable[bool]] | None = None
        self._inbox = ""
        self._used = False

    async def read(self, span: Span, timeout: float) -> AsyncGenerator[list[Stored], None]:
        """The messages of a span, in lists of about a thousand; their headers as bytes, or as a mapping.

        One span at a time. Raises BusUnavailable if the connection is lost on the way, or nothing comes for
        ``timeout`` seconds.
        """
        await self._open()
        client, page, start = self._client, self._page, span.start
        while start <= span.end:
            batch = min(PAGE, span.end - start + 1) if span.subject == ">" else PAGE
            request = {"seq": start, "next_by_subj": span.subject, "batch": batch, "max_bytes": PAGE_BYTES}
            marked = self.mark() if self.mark else None
            page.begin()
            asked = json.dumps(request).encode()
            try:
                subject = f"$JS.API.DIRECT.GET.{span.stream}"
                await client.publish(subject, asked, reply=self._inbox, headers=marked)
            except nats.errors.Error as error:
                raise BusUnavailable(f"Reading {span.stream} failed: {error}") from None
            # Wait for the end of a page; raises BusUnavailable if it does not come
            stream = span.stream
            while not page.ended:
                page.arrived.clear()
                try:
                    async with asyncio.timeout(timeout):
                        await page.arrived.wait()
                except TimeoutError:
                    raise BusUnavailable(f"Reading {stream} got no answer within {timeout:g} s") from None
                if not client.is_connected:
                    raise BusUnavailable(f"Reading {stream} was cut short")
            if page.ended not in (b"204", b"404"):
                raise BusUnavailable(f"Reading {stream} failed (status {page.ended.decode()})")
            if self.is_own and marked and not await self.is_own(marked):
                continue
            found = [message for message in page.stored if start <= message.seq <= span.end]
            if not found:
                return
            start = found[-1].seq + 1
            if span.headers:
                found = [each._replace(headers=parse_block(each.block), block=b"") for each in found]
            yield found

    async def _open(self) -> None:
        if self._inbox:
            return
        self._used = True
        try:
            await self._connect(self._page.cut)
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise BusUnavailable(f"No connection to read by: {error}") from None
        self._inbox = self._client.new_inbox()
        await self._client.subscribe_directly(self._inbox, self._page.take)

    async def close(self) -> None:
        """Close the connection, if there was one."""
        if self._used:
            await self._client.close()
