"""The messages of streams: to be stored, as stored, and as delivered."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.bus.connecting import keeping_cancellation
from shared.contracts import Envelope
from shared.contracts.base import amended
from shared.errors import BusError, BusUnavailable
from shared.subjects import Address
from shared.trace import trace_headers

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
"""The header by which a message is refused unless the last one on its subject has this sequence."""
EXPECTED_ON = "Nats-Expected-Last-Subject-Sequence-Subject"
"""The pattern of subjects that EXPECTED is about, if it is not the message's own subject."""
SALT = "Salt"
"""The header with random characters that every message of ours has: what commits to the message cannot be
tried with guessed texts, once it is erased with its salt."""
_NO_HEADERS = (b"NATS/1.0\r\n\r\n", b"NATS/1.0\r\n")


class Entry(NamedTuple):
    """A message to be stored: its subject, payload, id, and the sequence it expects.

    ``expect`` is the stream sequence of the last message on the subjects that match ``guard``, by default the
    message's own subject (0: there is none yet); the commit is refused whole if another was stored since.
    None expects nothing. ``headers`` are added to those of the bus.
    """

    subject: str
    payload: bytes
    id: str
    expect: int | None = None
    headers: Mapping[str, str] | None = None
    guard: str = ""


current_audience: ContextVar[str] = ContextVar("current_audience", default="")
"""For whom alone of the people that is which is handled now, and with it what follows; empty: the team."""


def seal(subject: str, envelope: Envelope, expect: int | None = None, *, own: bool = False) -> Entry:
    """The entry that stores ``envelope`` on ``subject``: for the current audience, unless it is for its
    ``own``, which may be the team.
    """
    if (audience := current_audience.get()) and not (envelope.audience or own):
        envelope = amended(envelope, audience=audience)
    return Entry(subject, envelope.to_json(), envelope.id, expect, trace_headers())


class Stored(NamedTuple):
    """A message as a stream holds it.

    ``block`` are the bytes of its headers, if it was read in bulk or exactly; empty if it has none.
    """

    stream: str
    subject: str
    seq: int
    data: bytes
    headers: dict[str, str]
    time: str
    block: bytes = b""


withheld: ContextVar[Callable[[Stored], bool] | None] = ContextVar("withheld", default=None)
"""Which stored messages are as if they were not there, for who reads now; None: all are there."""


_AUDIENCES = re.compile(rb'"audience":"([a-z0-9_-]+)"')  # Within a text the quotation marks are escaped


def withhold_others(audience: str) -> None:
    """Withhold from now on what says that it is for another one of the people alone; empty: for anyone."""

    def hides(stored: Stored) -> bool:
        return any(name.decode() != audience for name in _AUDIENCES.findall(stored.data))

    withheld.set(hides)


@contextlib.contextmanager
def everything() -> Iterator[None]:
    """Withhold nothing in the block: for what is kept in order, and not told."""
    before = withheld.set(None)
    try:
        yield
    finally:
        withheld.reset(before)


def is_withheld(stored: Stored) -> bool:
    """Whether a message is kept from who reads now."""
    hides = withheld.get()
    return hides is not None and hides(stored)


async def read(
    client: Client,
    stream: str,
    request: Mapping[str, Any],
    timeout: float,
    headers: dict[str, str] | None = None,
) -> AsyncGenerator[Stored, None]:
    """Messages of a stream, by a direct get of several; ``headers`` are those of the request.

    ``request`` is for instance ``{"multi_last": ["state.>"], "batch": 1000}`` or ``{"seq": 1,
    "next_by_subj": ">", "batch": 1000}``; at most that batch is returned. Raises BusUnavailable if
    messages got lost on the way, as with the connection.
    """
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    last = 0
    try:
        asked = json.dumps(request).encode()
        await client.publish(f"$JS.API.DIRECT.GET.{stream}", asked, reply=inbox, headers=headers or None)
        while True:
            with keeping_cancellation():
                message = await subscription.next_msg(timeout=timeout)
            found_headers = message.headers or {}
            if int(found_headers.get("Nats-Last-Sequence", last)) != last:
                raise BusUnavailable(f"Reading {stream} was cut short")
            if not is_stored(message):
                _require_good_end(
                    stream, found_headers.get("Status", ""), found_headers.get("Description", "")
                )
                return
            found = stored(message)
            last = found.seq
            yield found
    except (TimeoutError, nats.errors.TimeoutError):
        raise BusUnavailable(f"Reading {stream} got no answer within {timeout:g} s") from None
    finally:
        if not client.is_closed:
            await subscription.unsubscribe()


def block_of(headers: bytes) -> bytes:
    """The block of headers as it counts in seals: one without any header is none."""
    return b"" if headers in _NO_HEADERS else headers


def parse_block(block: bytes) -> dict[str, str]:
    """The headers in a block."""
    lines = block.decode("utf-8", "replace").split("\r\n")
    pairs = [line.partition(":") for line in lines]
    return {name: value.strip() for name, colon, value in pairs if colon and name.split() == [name]}


def read_stored(headers: bytes, data: bytes) -> Stored | None:
    """A stored message from the bytes of its headers, which are left unparsed; None for a status.

    The server adds headers of its own after those of the sender, who may write the same: the last ones count.
    """
    own = headers.rfind(b"Nats-Stream: ")
    if own < 0:
        return None
    lines = headers[own:].decode("utf-8", "replace").split("\r\n")
    found = dict(line.split(": ", 1) for line in lines if line)
    return Stored(
        found["Nats-Stream"],
        found["Nats-Subject"],
        int(found["Nats-Sequence"]),
        data,
        {},
        found["Nats-Time-Stamp"],
        block_of(headers[:own] + b"\r\n"),
    )


def is_stored(message: Msg) -> bool:
    """Whether this is a message of a stream, not a status (a stored message can have a status header too)."""
    return "Nats-Stream" in (message.headers or {})


def stored(message: Msg) -> Stored:
    """A message of a direct get."""
    headers = dict(message.headers or {})
    return Stored(
        stream=headers.pop("Nats-Stream"),
        subject=headers.pop("Nats-Subject"),
        seq=int(headers.pop("Nats-Sequence")),
        data=message.data,
        headers=headers,
        time=headers.pop("Nats-Time-Stamp"),
    )


COPIES = 3  # How many answers are compared where any of three servers may give them
LATER = (0.02, 0.06)
"""Seconds after which a message that none of them had is asked for again: one that follows may have it only
then, and who has just been told of a goal must not take it for none."""


async def newest(ask: Callable[[], Awaitable[Msg]], *, copies: bool) -> Stored | None:
    """What ``ask`` gets from the server; of several that have ``copies`` of the stream the newest. None for
    nothing, and for what is withheld.
    """
    found = await _newest(ask, copies=copies)
    return None if found is None or is_withheld(found) else found


async def _newest(ask: Callable[[], Awaitable[Msg]], *, copies: bool) -> Stored | None:
    if not copies:
        answer = await ask()
        return stored(answer) if is_stored(answer) else None
    for pause in (0.0, *LATER):
        await asyncio.sleep(pause)
        answers = await asyncio.gather(*(ask() for _ in range(COPIES)))
        found = [stored(answer) for answer in answers if is_stored(answer)]
        if found:
            return max(found, key=lambda one: one.seq)
    return None


def _require_good_end(stream: str, status: str, description: str) -> None:
    if status == "503":
        raise BusUnavailable(f"There is no stream {stream}", "Provision the office: run 'mailroom up'")
    if status not in ("204", "404"):
        raise BusError(f"Reading {stream} failed: {description}")


ACK = b"+ACK"
NAK = b"-NAK"
TERM = b"+TERM"
IN_PROGRESS = b"+WPI"


class Delivery:
    """A stored message that was delivered to this process.

    ``stream`` and ``seq`` are its place, ``address`` is what its subject says, ``deliveries`` counts
    deliveries, this one included, ``stored_at`` is the time it was stored, in nanoseconds since 1970,
    ``behind`` is how many messages the durable had that were still to be delivered. ``reply`` is the subject
    of the answer, ``connection`` the number of the connection by which it came. ``adopted``: another process
    of the agent was given it, and handed it on.
    """

    __slots__ = (
        "_answer",
        "address",
        "adopted",
        "behind",
        "connection",
        "data",
        "deliveries",
        "durable",
        "headers",
        "reply",
        "seq",
        "stored_at",
        "stream",
        "subject",
    )

    def __init__(
        self,
        subject: str,
        reply: str,
        headers: dict[str, Any],
        data: bytes,
        answer: Callable[["Delivery", bytes], Awaitable[None]],
        connection: int = 0,
    ) -> None:
        # $JS.ACK.<stream>.<durable>.<deliveries>.<stream seq>.<consumer seq>.<timestamp>.<pending>
        # and, since 2.12, two tokens for domain and account ahead of the stream.
        tokens = reply.split(".")
        at = 2 if len(tokens) == 9 else 4
        self.adopted = False
        self.stream = tokens[at]
        self.durable = tokens[at + 1]
        self.deliveries = int(tokens[at + 2])
        self.seq = int(tokens[at + 3])
        self.stored_at = int(tokens[at + 5])
        self.behind = int(tokens[at + 6])
        self.subject = subject
        self.address = Address.of(subject)
        self.data = data
        self.headers = headers
        self.reply = reply
        self.connection = connection
        self._answer = answer

    async def ack(self) -> None:
        """Acknowledge it: it is done."""
        await self._answer(self, ACK)

    async def nak(self, delay: float = 0.0) -> None:
        """Have it delivered again, after ``delay`` seconds."""
        await self._answer(self, NAK if delay <= 0 else NAK + b' {"delay": %d}' % int(delay * 1e9))

    async def term(self) -> None:
        """Have it never delivered again."""
        await self._answer(self, TERM)

    async def in_progress(self) -> None:
        """Extend its ack_wait: it is still being handled."""
        await self._answer(self, IN_PROGRESS)


def ack_subject(stream: str, durable: str, seq: int, number: int) -> str:
    """Where a process answers for the message at ``seq``.

    Of the delivery the server checks only that there was one with this ``number``. It ignores the answer if
    the message is not waiting for one.
    """
    return f"$JS.ACK.{stream}.{durable}.1.{seq}.{number}.0.0"
