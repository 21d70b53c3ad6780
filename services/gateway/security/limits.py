"""How much one person or address may ask for: requests, bytes, time, streams."""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable

import msgspec
from starlette.types import Receive

from services.gateway.security.refusals import Refused

BODY_LIMIT = 1 << 20
"""Bytes of a request's body."""
STRANGER_BODY_LIMIT = 16 << 10
"""Bytes of the body of a request of nobody in particular: a code to sign in with is short."""
BODY_TIMEOUT = 20.0
"""Seconds until the body must be complete."""
MAX_STREAMS = 64
"""Streams of events that one person may have open: browsers need one each."""
MAX_KEYS = 10_000
"""People and addresses that a limit remembers; the one that asked least recently is forgotten."""


class Rate(msgspec.Struct, frozen=True):
    """``burst`` requests at once, and ``per_second`` more in the long run."""

    per_second: float
    burst: float


PERSON_RATE = Rate(100, 500)
"""Opening the dashboard in one tab takes about 40 requests."""
ADDRESS_RATE = Rate(50, 300)
"""For requests of nobody in particular: pages, and what is refused for want of a name."""
SIGN_IN_RATE = Rate(1 / 6, 10)
"""For attempts to sign in, and for tokens and cookies that are not valid."""
HOOK_RATE = Rate(5, 60)
"""For deliveries to webhooks, by their addresses."""


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


class ClientGone(Exception):
    """The client ended the connection."""
