"""Pull requests for the messages of durables, in lanes of precedence, and what arrives in answer."""

import asyncio
import contextlib
import functools
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import nats.errors
from nats.aio.subscription import Subscription

from shared import subjects
from shared.bus.client import BusClient
from shared.bus.entry import NAK, Delivery, ack_subject, parse_block
from shared.log import logger

PULL_EXPIRES = 60.0  # Seconds until a standing request expires and is replaced
HEARTBEAT = 7.5
"""Seconds between the server's idle heartbeats while a standing request waits: forty durables have one each,
which is most of what an idle office says."""
CLUSTER_HEARTBEAT = 2.0
"""The same of a cluster: the server that had the request may be gone, though the connection is to another."""
SILENT = 2  # Heartbeats without which a request counts as lost, and is made again
RENEW_INBOX_AFTER = 200  # Requests for one inbox: the server keeps state for each until the inbox is dropped
PROBE_WAIT = 0.25
"""Seconds until a probe counts as lost: the server does not answer if another process got the messages."""
REFUSED_PAUSE = 0.1  # Seconds until a request is repeated that the server refused
STATUS, IDLE = b"NATS/1.0 ", b"NATS/1.0 100"
"""What the headers of a status begin with, and those of a heartbeat."""
NO_RESPONDERS = "503"
"""The status of a request that nobody takes: a server that starts or stops has no durables for a moment."""
TOLD_AFTER = 5.0  # Seconds after which that is no moment any more, and is logged
MOVE_AFTER = 12.0  # Seconds without durables after which another server of a cluster is asked
POSITION_WAIT = 2.0  # Seconds within which the server must say how far a durable is

log = logger(__name__)


class Pull:
    """The requests for one durable's messages that are on their way.

    A standing request waits at the server for messages. A probe is answered at once, and if there are no
    messages that is the answer; it may be sent only while no standing request is out, and the reverse. Once
    the durable is known to be empty, a probe that the server has not answered stands like the other kind.
    ``received`` is called for each message, ``ended`` when a request has ended, with True if the durable had
    no more messages.
    """

    def __init__(
        self,
        client: BusClient,
        stream: str,
        durable: str,
        received: Callable[["Pull", Delivery], Awaitable[None]],
        ended: Callable[["Pull", bool], Awaitable[None]],
    ) -> None:
        self.durable = durable
        self.requested = 0
        """Messages requested and not yet received."""
        self.probing = False
        """Whether what is requested is a probe."""
        self.behind = 0
        """How many more messages the durable had when it delivered the last one."""
        self.refused = False
        """Whether the server refused a request within the last REFUSED_PAUSE."""
        self.dropped = False
        """Whether requests were taken back: what the server was sending then may have got lost."""
        self._client, self._received, self._ended = client, received, ended
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}"
        self._subscription: Subscription | None = None
        self._inbox = ""
        self._requests = 0
        self._heard_at = 0.0
        self._failing_since = 0.0  # Since when the server refuses, or owes an answer
        self._beating = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def listening(self) -> bool:
        """Whether a standing request waits at the server: a new message arrives here at once."""
        return self.requested > 0 and not self.probing

    @property
    def answered(self) -> bool:
        """Whether the server has taken the requests within the last TOLD_AFTER seconds, or none was sent."""
        return not self._failing_since or time.monotonic() - self._failing_since < TOLD_AFTER

    @property
    def lost(self) -> bool:
        """Whether a probe is overdue."""
        return self.probing and time.monotonic() - self._heard_at > PROBE_WAIT

    def drop_if_silent(self) -> None:
        """Drop what is requested if the server owes an answer, or a sign that it is there."""
        if self.requested and time.monotonic() - self._heard_at > SILENT * heartbeat(self._client):
            if self._beating:
                self._failing_since = self._failing_since or self._heard_at
                log.warning("pull_silent", durable=self.durable)
            self.drop()

    async def request(self, batch: int, *, probe: bool, max_bytes: int = 0) -> None:
        """Request up to ``batch`` messages; 0 for ``max_bytes`` is no limit. Not sent if that fails."""
        if self._requests >= RENEW_INBOX_AFTER and not self.requested:
            self.drop()
        if not self.requested:
            self._heard_at = time.monotonic()
        self.requested += batch
        self.probing = probe
        self._beating = not probe
        self._requests += 1
        try:
            inbox = await self._open_inbox()
            # The batch is the inbox's last token, so that a status says how much it was about.
            reply = f"{inbox}.{batch}"
            await self._client.publish(
                self._subject, _body(batch, probe, max_bytes, heartbeat(self._client)), reply=reply
            )
        except nats.errors.Error as error:
            log.warning("pull_unsent", durable=self.durable, error=str(error))
            self.drop()

    def drop(self) -> "asyncio.Task[None]":
        """Take back all requests. What is already on its way is received before the returned task ends."""
        old, self._subscription, self._inbox = self._subscription, None, ""
        open_requests, self.requested, self._requests = self.requested, 0, 0
        self.probing = False
        return self._keep(self._drain(old, bool(open_requests)))

    async def _drain(self, subscription: Subscription | None, is_open: bool) -> None:
        if subscription is None:
            return
        with contextlib.suppress(nats.errors.Error, TimeoutError):
            if self._client.is_connected:
                await subscription.drain()  # type: ignore[no-untyped-call]
            else:
                await subscription.unsubscribe()
        self.dropped = self.dropped or is_open

    async def _open_inbox(self) -> str:
        if not self._inbox:
            inbox = self._inbox = self._client.new_inbox()
            receive = functools.partial(self._receive, inbox)
            self._subscription = await self._client.subscribe_directly(f"{inbox}.*", receive)
        return self._inbox

    async def _receive(self, inbox: str, subject: str, reply: str, headers: bytes, data: bytes) -> None:
        current = inbox == self._inbox
        if current:
            self._heard_at = time.monotonic()
        if headers.startswith(STATUS) and not reply.startswith("$JS.ACK"):
            if current and headers.startswith(IDLE):
                self._failing_since = 0.0
            elif current:
                await self._on_status(subject, headers)
            return
        delivery = Delivery(subject, reply, parse_block(headers), data, self.answer, self._client.connection)
        if current:
            self._failing_since = 0.0
            self._count_down(1)
            self.behind = delivery.behind
            self.probing = self.probing and delivery.behind > 0
            if not data and not headers:
                # Between accounts the server takes an empty message for the end of a response, and sends
                # nothing more for this request.
                self.drop()
        await self._received(self, delivery)

    async def _on_status(self, subject: str, headers: bytes) -> None:
        line, _, rest = headers.partition(b"\r\n")
        status, reason = line[9:12].decode(), line[13:].decode()
        pending = parse_block(rest).get("Nats-Pending-Messages")
        self._count_down(int(pending or subject.rpartition(".")[2]))
        empty = status == "404" or (status == "408" and not self.requested)
        if status in ("404", "408"):
            self._failing_since = 0.0
        if empty:
            self.behind = 0
            self.probing = False
        elif status != "408" and "MaxBytes" not in reason:
            self._failing_since = self._failing_since or time.monotonic()
            if status != NO_RESPONDERS or time.monotonic() - self._failing_since > TOLD_AFTER:
                log.warning("pull_ended", durable=self.durable, status=status, reason=reason)
            if status == NO_RESPONDERS and time.monotonic() - self._failing_since > MOVE_AFTER:
                await self._client.move()
            self._count_down(self.requested)
            self.refused = True
            self._keep(self._end_refusal())
            return
        await self._ended(self, empty)

    async def _end_refusal(self) -> None:
        await asyncio.sleep(REFUSED_PAUSE)
        self.refused = False
        await self._ended(self, False)

    def _keep(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def answer(self, delivery: Delivery, verdict: bytes) -> None:
        """Tell the server what became of a message."""
        try:
            reply = delivery.reply
            if verdict.startswith(NAK) and delivery.connection != self._client.connection:
                reply = await self._find_reply(delivery)
            await self._client.answer(reply, verdict)
        except nats.errors.Error as error:
            # Without it the server delivers the message again, and the claim or the message ids keep
            # anything that was committed from being done twice.
            log.warning("verdict_unsent", verdict=verdict.decode(), error=str(error))

    async def _find_reply(self, delivery: Delivery) -> str:
        """Where to hand back what came before a reconnection: under a number that the server knows.

        A server that was killed has forgotten the deliveries of its last 0.1 s, and ignores what is handed
        back under their numbers: the message would come back after ack_wait.
        """
        if not self._client.is_connected:
            return delivery.reply
        try:
            subject = subjects.position(delivery.stream, delivery.durable)
            answer = await self._client.request(subject, timeout=POSITION_WAIT)
            number = json.loads(answer.data)["delivered"]["consumer_seq"]
        except (nats.errors.Error, TimeoutError, ValueError, KeyError) as error:
            log.warning("position_unread", durable=delivery.durable, error=str(error) or type(error).__name__)
            return delivery.reply
        return ack_subject(delivery.stream, delivery.durable, delivery.seq, number)

    def _count_down(self, count: int) -> None:
        self.requested = max(0, self.requested - count)
        if not self.requested:
            self.probing = False


def heartbeat(client: BusClient) -> float:
    """Seconds between the heartbeats that ``client`` asks for."""
    return CLUSTER_HEARTBEAT if client.clustered else HEARTBEAT


@functools.lru_cache(maxsize=256)
def _body(batch: int, probe: bool, max_bytes: int, heartbeat: float) -> bytes:
    body: dict[str, object] = {"batch": batch}
    if max_bytes:
        body["max_bytes"] = max_bytes
    if probe:
        body["no_wait"] = True
    else:
        body |= {"expires": int(PULL_EXPIRES * 1e9), "idle_heartbeat": int(heartbeat * 1e9)}
    return json.dumps(body).encode()


SHARE = 20
"""A lane that has messages gets at least one slot in so many, whatever waits in higher ones; nearly twice the
lanes of the conductor, so that the highest gets half of its slots even if all others are full."""


class Lane:
    """One durable: its requests, and the messages that have arrived and wait here for a slot."""

    def __init__(self, pull: Pull) -> None:
        self.pull = pull
        self.passed = 0
        """How many slots went to other lanes since this one had its last, or was found empty."""
        self._waiting: deque[tuple[float, Delivery]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def due(self) -> bool:
        """Whether it is to have the next slot whatever waits in higher lanes, if it has messages."""
        return self.passed >= SHARE - 1

    @property
    def settled(self) -> bool:
        """Whether it has no messages: none waits here, and one that is new would arrive at once."""
        return not self._waiting and self.pull.listening

    @property
    def has_turn(self) -> bool:
        """Whether a message waits here, or it is not known whether one waits at the server.

        One that the server does not tell about is left out.
        """
        return bool(self._waiting) or not (self.pull.listening or self.pull.refused or self.pull.lost)

    def put(self, delivery: Delivery) -> None:
        """Have ``delivery`` wait here."""
        self._waiting.append((time.monotonic(), delivery))

    def pop(self) -> Delivery:
        """The message that has waited longest."""
        return self._waiting.popleft()[1]

    def waits_longer(self, than: float) -> bool:
        """Whether a message has waited here for ``than`` seconds."""
        return bool(self._waiting) and self._waiting[0][0] <= time.monotonic() - than

    def pop_older(self, than: float, max_deliveries: int) -> list[Delivery]:
        """Those that have waited for ``than`` seconds, except what was delivered ``max_deliveries`` times."""
        limit = time.monotonic() - than
        old = [one for at, one in self._waiting if at <= limit and one.deliveries < max_deliveries]
        self._waiting = deque((at, one) for at, one in self._waiting if one not in old)
        return old


def choose(lanes: Sequence[Lane]) -> Lane | None:
    """The lane that has the next slot: the lowest that is due its share, else the highest.

    It may have to be asked first whether it has messages. None if no lane has any.
    """
    for lane in reversed(lanes):
        if lane.due and lane.has_turn:
            return lane
    for lane in lanes:
        if lane.has_turn:
            return lane
    return None


def take(lane: Lane, lanes: Sequence[Lane]) -> Delivery:
    """The next message of ``lane``, which counts as a slot for it and as one passed for the others."""
    for other in lanes:
        other.passed = 0 if other.settled else other.passed + 1
    lane.passed = 0
    return lane.pop()
