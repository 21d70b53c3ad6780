"""One request and its response on their way through the guard, with headers that protect pages."""

import asyncio
import base64
import contextlib
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping

from starlette.types import Message, Receive, Send

from services.gateway.security.limits import Refused, Streams, send_refusal

STREAM = b"text/event-stream"
RECHECK_INTERVAL = 1.0  # Seconds after which the credential of an open stream is looked at again


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
            given = [(name.lower(), value) for name, value in message.get("headers", ())]
            kind = next((value for name, value in given if name == b"content-type"), b"")
            if kind.startswith(STREAM) and self._owner:
                try:
                    self._streams.open(self._owner)
                except Refused as refused:
                    await send_refusal(self._receive, self._send, refused)
                    self._started = self._complete = True
                    self._ended.set()
                    raise Ended from None
                self._watch = asyncio.create_task(self._end_when_invalid())
            kept = [(name, value) for name, value in given if name not in self._headers]
            message = {**message, "headers": [*kept, *self._headers.items()]}
            self._started = True
        elif message["type"] == "http.response.body":
            self._complete = not message.get("more_body", False)
        await self._send(message)

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


_SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script\s*>", re.DOTALL | re.IGNORECASE)
API_POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox"
"""For answers of the API: nothing in them runs or loads anything, should a browser show them as a page."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def inline_scripts(html: str) -> list[str]:
    """The contents of the scripts that stand in a page; that of an import map is one."""
    found = _SCRIPT.findall(html)
    return [content for attributes, content in found if not re.search(r"\bsrc\s*=", attributes)]


def hash_source(content: str) -> str:
    """A script as the policy names it."""
    digest = hashlib.sha256(content.replace("\r\n", "\n").encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def format_page_policy(pages: Iterable[str]) -> str:
    """The Content-Security-Policy of these pages, given as HTML.

    Scripts come from the gateway alone, or have the hash of one that stands in a page: the import map. Text
    can become neither script nor, where the browser knows trusted types, HTML.
    """
    hashes = dict.fromkeys(hash_source(script) for page in pages for script in inline_scripts(page))
    return "; ".join(
        (
            "default-src 'none'",
            " ".join(("script-src 'self'", *hashes)),
            "style-src 'self'",
            "img-src 'self' data: blob:",
            "font-src 'self'",
            "connect-src 'self'",
            "manifest-src 'self'",
            "worker-src 'self'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        )
    )
