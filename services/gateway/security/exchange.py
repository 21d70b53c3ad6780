"""One request and its response on their way through the guard."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping

from starlette.types import Message, Receive, Send

from services.gateway.security.limits import Streams
from services.gateway.security.refusals import Refused, send_refusal

STREAM = b"text/event-stream"
RECHECK_INTERVAL = 1.0
"""Seconds after which the credential of an open stream is looked at again."""


class Ended(OSError):
    """The response was ended by the guard; as for a client that is gone, the handler is to stop."""


class Exchange:
    """Hands a body to a handler and its response to the client, with ``headers`` added.

    A stream of events counts as one of ``owner``, and ends when ``is_valid`` says no: who has a revoked token
    reads no further.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        *,
        headers: Mapping[str, str],
        streams: Streams,
        owner: str = "",
        is_valid: Callable[[], bool] = lambda: True,
    ) -> None:
        self._receive, self._send = receive, send
        self._headers = {name.encode(): text.encode("latin-1") for name, text in headers.items()}
        self._streams, self._owner, self._is_valid = streams, owner, is_valid
        self._body: bytes | None = b""
        self._started = self._complete = False
        self._ended = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None

    @property
    def started(self) -> bool:
        """Whether the response has begun."""
        return self._started

    @property
    def ended(self) -> bool:
        """Whether the guard ended the response."""
        return self._ended.is_set()

    def set_body(self, body: bytes) -> None:
        """What the handler receives as the request's body."""
        self._body = body

    async def receive(self) -> Message:
        """The request's body at first, then whether the client is gone or the stream was ended."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        gone = asyncio.ensure_future(self._receive())
        ended = asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait({gone, ended}, return_when=asyncio.FIRST_COMPLETED)
            return gone.result() if gone.done() else {"type": "http.disconnect"}
        finally:
            gone.cancel()
            ended.cancel()

    async def send(self, message: Message) -> None:
        """Pass a message of the response on; raises Ended if the guard ended it."""
        if self._ended.is_set():
            raise Ended
        if message["type"] == "http.response.start":
            message = await self._start(message)
            self._started = True
        elif message["type"] == "http.response.body":
            self._complete = not message.get("more_body", False)
        await self._send(message)

    async def _start(self, message: Message) -> Message:
        given = [(name.lower(), value) for name, value in message.get("headers", ())]
        kind = next((value for name, value in given if name == b"content-type"), b"")
        if kind.startswith(STREAM) and self._owner:
            await self._open_stream()
        kept = [(name, value) for name, value in given if name not in self._headers]
        return {**message, "headers": [*kept, *self._headers.items()]}

    async def _open_stream(self) -> None:
        try:
            self._streams.open(self._owner)
        except Refused as refused:
            await send_refusal(self._send, refused.refusal)
            self._started = self._complete = True
            self._ended.set()
            raise Ended from None
        self._watch = asyncio.create_task(self._end_when_invalid())

    async def _end_when_invalid(self) -> None:
        while self._is_valid():  # noqa: ASYNC110  # the file it depends on is another process's
            await asyncio.sleep(RECHECK_INTERVAL)
        self._ended.set()

    async def close(self) -> None:
        """End what is still open when the handler has returned."""
        if self._watch is not None:
            self._watch.cancel()
            self._streams.close(self._owner)
        if self._ended.is_set() and self._started and not self._complete:
            with contextlib.suppress(OSError):
                await self._send({"type": "http.response.body", "body": b""})
