"""The NATS client, with shorter ways for what a worker does with every task."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from shared.bus.cancellation import keeping_cancellation
from shared.bus.entry import parse_block

Receive = Callable[[str, bytes, dict[str, str] | None], None]
"""Takes the subject, the payload and the headers of a message."""
ReceiveBytes = Callable[[bytes, bytes], None]
"""Takes the headers and the payload of a message."""


class ConnectionLost(nats.errors.Error):
    """The connection was lost before the answer to a request came: it never comes."""


class BusClient(Client):
    """nats-py's client. Its own parser of headers looks at every character: a fifth of a worker's time."""

    def __init__(self) -> None:
        super().__init__()
        self._direct: dict[int, Receive] = {}
        self._unparsed: dict[int, ReceiveBytes] = {}

    @property
    def connection(self) -> int:
        """The number of the present connection, or of the last one: 0, and one more for each reconnection."""
        return self.stats["reconnects"]

    async def connect(self, *arguments: Any, **options: Any) -> None:
        """nats-py's own, and may be cancelled."""
        with keeping_cancellation():
            await super().connect(*arguments, **options)

    async def close(self) -> None:
        """nats-py's own, and may be cancelled; it raises CancelledError in no other case.

        nats-py's does if an attempt to reconnect waits for the end of the connection: it cancels that, and
        then waits for what was cancelled.
        """
        with keeping_cancellation(), contextlib.suppress(asyncio.CancelledError):
            await super().close()

    async def _request_new_style(self, *arguments: Any, **options: Any) -> Msg:
        with keeping_cancellation():
            return await super()._request_new_style(*arguments, **options)

    async def answer(self, reply: str, verdict: bytes) -> None:
        """Publish an acknowledgement, without the checks of ``publish``; raises nats.errors.Error."""
        if self.is_closed:
            raise nats.errors.ConnectionClosedError
        await self._send_command(b"PUB %b  %d\r\n%b\r\n" % (reply.encode(), len(verdict), verdict))
        await self.flush_soon()

    async def send(self, message: bytes) -> None:
        """Write a message in the form of the protocol; raises nats.errors.Error."""
        if self.is_closed:
            raise nats.errors.ConnectionClosedError
        await self._send_command(message)
        await self.flush_soon()

    def give_up_requests(self) -> None:
        """Have the requests that wait for an answer raise ConnectionLost."""
        for waiting in list(self._resp_map.values()):
            if not waiting.done():
                waiting.set_exception(ConnectionLost("the connection was lost before the answer came"))

    async def flush(self, timeout: int = 10) -> None:
        """Wait until the server has read what was written so far, for ``timeout`` seconds at most.

        Raises nats.errors.FlushTimeoutError. nats-py alone writes its ping ahead of what still waits to be
        written: the answer would not tell that a subscription just made is known.
        """
        with keeping_cancellation():
            try:
                async with asyncio.timeout(timeout):
                    await self._flush_pending(force_flush=True)
            except TimeoutError:
                raise nats.errors.FlushTimeoutError from None
            await super().flush(timeout)

    async def flush_soon(self) -> None:
        """Have what was written sent, together with what else is written in this turn of the event loop."""
        if self._flush_queue is not None and self._flush_queue.empty():
            await self._flush_pending()

    async def subscribe_directly(self, subject: str, receive: Receive) -> Subscription:
        """Subscribe; ``receive`` is called as soon as a message is read, with no queue or task between."""

        async def ignore(_: Msg) -> None:
            pass

        subscription = await self.subscribe(subject, cb=ignore)
        self._direct[subscription._id] = receive
        return subscription

    async def subscribe_unparsed(self, subject: str, receive: ReceiveBytes) -> None:
        """The same for messages with headers, whose bytes it gets."""

        async def ignore(_: Msg) -> None:
            pass

        subscription = await self.subscribe(subject, cb=ignore)
        self._unparsed[subscription._id] = receive

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        if unparsed := self._unparsed.get(sid):
            unparsed(headers, data)
            return
        if not subject.isascii():  # nats-py stops reading at a subject that is no UTF-8
            subject = subject.decode("utf-8", "replace").encode()
        receive = self._direct.get(sid)
        if receive is None:
            await super()._process_msg(sid, subject, reply, data, headers)
        else:
            receive(subject.decode(), data, await self._process_headers(headers) if headers else None)

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        return parse_block(raw)
