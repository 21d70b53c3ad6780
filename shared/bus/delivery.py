"""A message handed out of a mailbox."""

from collections.abc import Awaitable, Callable
from typing import Any

from nats.aio.msg import Msg

from shared.errors import Retry

ACK = b"+ACK"
NAK = b"-NAK"
TERM = b"+TERM"
IN_PROGRESS = b"+WPI"


class Delivery:
    """A stored message in this process's hands.

    ``stream`` and ``seq`` say where it is stored, ``deliveries`` how often it was handed out, this
    time included, ``stored_at`` when it was stored, in nanoseconds since 1970.
    """

    __slots__ = (
        "_answer",
        "_reply",
        "data",
        "deliveries",
        "durable",
        "headers",
        "seq",
        "stored_at",
        "stream",
        "subject",
    )

    def __init__(self, message: Msg, answer: Callable[[str, bytes], Awaitable[None]]) -> None:
        # $JS.ACK.<stream>.<durable>.<deliveries>.<stream seq>.<consumer seq>.<timestamp>.<pending>
        # and, since 2.12, two tokens for domain and account ahead of the stream.
        tokens = message.reply.split(".")
        at = 2 if len(tokens) == 9 else 4
        self.stream = tokens[at]
        self.durable = tokens[at + 1]
        self.deliveries = int(tokens[at + 2])
        self.seq = int(tokens[at + 3])
        self.stored_at = int(tokens[at + 5])
        self.subject = message.subject
        self.data = message.data
        self.headers: dict[str, Any] = dict(message.headers or {})
        self._reply = message.reply
        self._answer = answer

    async def ack(self) -> None:
        """It is done."""
        await self._answer(self._reply, ACK)

    async def nak(self, delay: float = 0.0) -> None:
        """Hand it out again, after ``delay`` seconds."""
        await self._answer(self._reply, NAK if delay <= 0 else NAK + b' {"delay": %d}' % int(delay * 1e9))

    async def term(self) -> None:
        """Never hand it out again."""
        await self._answer(self._reply, TERM)

    async def in_progress(self) -> None:
        """It is still being worked on: wait another ack_wait."""
        await self._answer(self._reply, IN_PROGRESS)


def backoff(deliveries: int, retry: Retry | None = None) -> float:
    """Seconds until the next delivery: as the handler asked, else 0.25 doubling to at most 30."""
    if retry is not None and retry.delay is not None:
        return retry.delay
    return min(30.0, 0.25 * 2.0 ** min(deliveries - 1, 10))
