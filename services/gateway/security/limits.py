"""How much one person or address may ask for: requests, bytes, time, streams; refusals of more."""

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import ClassVar

import h11
import msgspec
from starlette.types import Receive, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from services.gateway.problems import to_response
from shared import subjects

HEAD_TIMEOUT = 10.0  # Seconds until the head of a request must be complete: uvicorn itself waits for ever
MAX_WAITING = 256
"""Connections that may wait for a head at the same time; of more, the oldest is closed.

So nobody uses up the process's open files by connecting and sending nothing: one who sends a request does
that at once, before 256 others have connected.
"""


class PatientProtocol(H11Protocol):
    """HTTP/1.1 that closes a connection on which a request's head does not arrive in time.

    The guard, which limits how long a body may take, sees a request only when its head is complete.
    """

    _deadline: asyncio.TimerHandle | None = None
    _waiting: ClassVar[dict["PatientProtocol", None]] = {}
    """The connections that wait for a head, the oldest first."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect the first head."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Expect the rest of a head, unless a request has begun."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._expect_head()
        else:
            self._forget_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._forget_deadline()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_TIMEOUT, self._close)
            self._waiting[self] = None
            if len(self._waiting) > MAX_WAITING:
                next(iter(self._waiting))._close()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self._waiting.pop(self, None)

    def _close(self) -> None:
        self._forget_deadline()
        self.transport.close()


class Refused(Exception):
    """Ends a request: why it is refused, and what helps; ``headers`` are added to the answer."""

    def __init__(self, status: int, cause: str, cure: str = "", **headers: str) -> None:
        super().__init__(cause)
        self.status, self.cause, self.cure = status, cause, cure
        self.headers = {name.replace("_", "-"): text for name, text in headers.items()}


async def send_refusal(receive: Receive, send: Send, refused: Refused) -> None:
    """Answer a request that was refused."""
    answer = to_response(refused.status, refused.cause, refused.cure, headers=refused.headers)
    await answer({"type": "http"}, receive, send)


BODY_LIMIT = 1 << 20  # Bytes of a request's body
LARGE_BODIES = {"/api/v1/memory/write": subjects.MAX_PAYLOAD, "/api/v1/inputs": subjects.MAX_PAYLOAD}
"""The same for paths that take more: a node alone may have half of a message."""
DISCARDED, DISCARD_TIMEOUT = 4, 2.0
"""A body that is so many times too large at most is taken and thrown away for so many seconds."""
STRANGER_BODY_LIMIT = 16 << 10
"""Bytes of the body of a request of nobody in particular: a code to sign in with is short."""
BODY_TIMEOUT = 20.0  # Seconds until the body must be complete
MAX_STREAMS = 64  # Streams of events that one person may have open: browsers need one each
MAX_KEYS = 10_000
"""People and addresses that a limit remembers; the one that asked least recently is forgotten."""


class Rate(msgspec.Struct, frozen=True):
    """``burst`` requests at once, and ``per_second`` more in the long run."""

    per_second: float
    burst: float


PERSON_RATE = Rate(100, 500)  # Opening the dashboard in one tab takes about 40 requests
ADDRESS_RATE = Rate(50, 300)
"""For requests of nobody in particular: pages, and what is refused for want of a name."""
SIGN_IN_RATE = Rate(1 / 6, 10)  # For attempts to sign in, and for tokens and cookies that are not valid
HOOK_RATE = Rate(5, 60)  # For deliveries to webhooks, by their addresses


class RateLimit:
    """A token bucket for each key; ``clock`` gives seconds."""

    def __init__(self, rate: Rate, clock: Callable[[], float] | None = None) -> None:
        self._rate = rate
        self._clock = clock or (lambda: asyncio.get_running_loop().time())
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> None:
        """Count a request; raises Refused (429) if there were too many."""
        moment = self._clock()
        left, since = self._buckets.pop(key, (self._rate.burst, moment))
        left = min(self._rate.burst, left + (moment - since) * self._rate.per_second)
        self._buckets[key] = (left - 1 if left >= 1 else left, moment)
        if len(self._buckets) > MAX_KEYS:
            self._buckets.popitem(last=False)
        if left < 1:
            wait = (1 - left) / self._rate.per_second
            cure = f"Try again in {wait + 1:.0f} s"
            raise Refused(429, "There were too many requests", cure, retry_after=f"{wait + 1:.0f}")


class Streams:
    """Counts the open streams of each person."""

    def __init__(self, limit: int = MAX_STREAMS) -> None:
        self._limit = limit
        self._open: Counter[str] = Counter()

    def open(self, name: str) -> None:
        """Count a stream that begins; raises Refused (429) if there are too many."""
        if self._open[name] >= self._limit:
            raise Refused(
                429,
                f"{name} has {self._limit} streams of events open already",
                "Close some of them",
                retry_after="10",
            )
        self._open[name] += 1

    def close(self, name: str) -> None:
        """Count a stream that ended."""
        self._open[name] -= 1
        if self._open[name] <= 0:
            del self._open[name]


async def read_body(receive: Receive, length: str, *, limit: int, timeout: float) -> bytes:
    """The body of a request whose header Content-Length is ``length`` (or empty).

    Raises Refused (413, 408), and ClientGone if the client ends the connection first.
    """
    too_large = Refused(
        413,
        f"The request has more than {limit:,} bytes",
        "Send less, or name files on the gateway's machine",
        connection="close",
    )
    if length.isascii() and length.isdecimal() and int(length[:20]) > limit:
        if int(length[:20]) <= DISCARDED * limit:
            await _discard(receive, DISCARDED * limit)
        raise too_large
    parts: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(timeout):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                part = message.get("body", b"")
                size, more = size + len(part), message.get("more_body", False)
                if size > limit:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise Refused(
            408, f"The request was not complete after {timeout:g} s", "Send it again", connection="close"
        ) from None
    return b"".join(parts)


async def _discard(receive: Receive, most: int) -> None:
    """Take the rest of a body: a client that still sends would not read why it is refused."""
    size = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_TIMEOUT):
            while size <= most:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


class ClientGone(Exception):
    """The client ended the connection."""
