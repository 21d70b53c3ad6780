"""A consumer: pulls the messages of one durable continuously and has them handled."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from shared import subjects
from shared.bus.entry import Delivery, backoff
from shared.errors import BusError, BusFull, Conflict, MailroomError, Reject, Retry
from shared.log import logger

PULL_EXPIRES = 30.0
"""Seconds until a pull request expires and is replaced, so that a lost one is noticed."""
HEARTBEAT = 5.0
"""Seconds between the server's idle heartbeats while a pull request waits."""
RENEW_INBOX_AFTER = 200
"""Pull requests for one inbox: the server keeps state for each until the inbox is dropped."""

BUS_FULL_PAUSE = 1.0
"""Seconds until a write is retried that the bus had no storage for."""
MAX_YIELDED = 256
"""Handlers of one consumer that may yield their slot; beyond that, a waiting handler keeps it."""

log = logger(__name__)

Handler = Callable[[Delivery], Awaitable[None]]
DeadLetterHandler = Callable[[Delivery, str], Awaitable[None]]
"""Stores a dead letter for a delivery, with the reason."""


class ConsumerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a durable is consumed.

    At most ``concurrency`` messages are handled at a time. ``ack_wait`` is the durable's, in seconds.
    ``max_attempts`` deliveries of a message that fails make it a dead letter. ``max_bytes`` limits the bytes
    requested ahead, give or take a message; 0 is no limit.
    """

    stream: str
    durable: str
    concurrency: int
    ack_wait: float
    max_attempts: int
    max_bytes: int = 0


class Consumer:
    """Passes the messages of one durable to a handler.

    When the handler returns, the message is acknowledged. Retry, Conflict and unexpected exceptions have it
    delivered again after a growing delay, and the last attempt makes it a dead letter; Reject does so at
    once; BusFull repeats the handler until the bus has storage. While a handler works, progress is
    reported every third of ``ack_wait``.
    """

    def __init__(
        self, client: Client, config: ConsumerConfig, handler: Handler, dead_letter: DeadLetterHandler
    ) -> None:
        self.handled = self.failed = 0
        self._client, self._config, self._handler, self._dead_letter = client, config, handler, dead_letter
        self._bytes = 0
        self._queue: asyncio.Queue[Delivery] = asyncio.Queue()
        self._in_hand: dict[int, Delivery] = {}
        self._working = 0
        self._yielded = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._subscription: Subscription | None = None
        self._inbox = ""
        self._requested = 0
        self._requests = 0
        self._last_message = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    @property
    def stream(self) -> str:
        """The stream of its durable."""
        return self._config.stream

    @property
    def durable(self) -> str:
        """The name of its durable."""
        return self._config.durable

    @property
    def in_hand(self) -> list[int]:
        """The sequences of the messages that were received and not answered yet."""
        return list(self._in_hand)

    @property
    def load(self) -> int:
        """How many messages are being handled."""
        return self._working

    async def start(self) -> None:
        """Start pulling and handling."""
        await self._open_inbox()
        await self._top_up()
        self._tasks = [
            asyncio.create_task(self._work(), name=f"work {i}") for i in range(self._config.concurrency)
        ]
        self._tasks.append(asyncio.create_task(self._watch(), name="watch"))

    async def stop(self, grace: float) -> None:
        """Stop pulling, give running handlers ``grace`` seconds, return the other messages at once."""
        if self._stopping:
            return
        self._stopping = True
        if self._subscription is not None and self._client.is_connected:
            await self._subscription.unsubscribe()
        while not self._queue.empty():
            delivery = self._queue.get_nowait()
            self._in_hand.pop(delivery.seq, None)
            await delivery.nak()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def reconnected(self) -> None:
        """Send new pull requests: the server forgot the old ones."""
        if not self._stopping:
            await self._open_inbox()
            await self._top_up()

    async def _open_inbox(self) -> None:
        old, self._inbox = self._subscription, self._client.new_inbox()
        self._subscription = await self._client.subscribe(self._inbox, cb=self._receive)
        self._requested = self._requests = 0
        self._last_message = time.monotonic()
        if old is not None:
            await old.unsubscribe()

    async def _top_up(self) -> None:
        """Request as many messages as there are free slots, so that none waits here while others idle."""
        free_slots = self._config.concurrency + self._yielded - self._requested - len(self._in_hand)
        if (
            self._stopping
            or free_slots <= 0
            or (self._requested and free_slots < self._config.concurrency // 4)
        ):
            return
        free = self._config.max_bytes - self._bytes
        if self._config.max_bytes and (self._requested or free < subjects.MAX_PAYLOAD):
            return
        if self._requests >= RENEW_INBOX_AFTER and not self._requested:
            await self._open_inbox()
        request = {
            "batch": free_slots,
            "expires": int(PULL_EXPIRES * 1e9),
            "idle_heartbeat": int(HEARTBEAT * 1e9),
        }
        if self._config.max_bytes:
            request["max_bytes"] = free
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._config.stream}.{self._config.durable}"
        self._requested += free_slots
        self._requests += 1
        await self._client.publish(subject, json.dumps(request).encode(), reply=self._inbox)

    async def _receive(self, message: Msg) -> None:
        self._last_message = time.monotonic()
        status = (message.headers or {}).get("Status")
        if status is not None and not message.reply.startswith("$JS.ACK"):
            await self._on_status(status, message)
            return
        self._requested = max(0, self._requested - 1)
        delivery = Delivery(message, self._answer)
        if self._stopping:
            await delivery.nak()
        elif delivery.seq in self._in_hand:
            # Delivered again because this process was slow to report progress. Its claim is still the last
            # one, so the handler that has the message may finish.
            await delivery.in_progress()
        else:
            self._in_hand[delivery.seq] = delivery
            self._bytes += len(delivery.data)
            self._queue.put_nowait(delivery)
        if not message.data and not message.headers:
            # Between accounts the server takes an empty message for the end of a response, and sends
            # nothing more for this request.
            await self._open_inbox()
            await self._top_up()

    async def _on_status(self, status: str, message: Msg) -> None:
        if status == "100":
            return
        pending = (message.headers or {}).get("Nats-Pending-Messages", "0")
        self._requested = max(0, self._requested - int(pending))
        reason = (message.headers or {}).get("Description", "")
        if status not in ("408", "404") and "MaxBytes" not in reason:
            log.warning("pull_ended", status=status, reason=reason)
            self._requested = 0
            await asyncio.sleep(0.1)
        await self._top_up()

    async def _answer(self, reply: str, verdict: bytes) -> None:
        try:
            await self._client.publish(reply, verdict)
        except nats.errors.Error as error:
            # Without it the server delivers the message again, and the claim or the message ids keep
            # anything that was committed from being done twice.
            log.warning("verdict_unsent", verdict=verdict.decode(), error=str(error))

    @contextlib.asynccontextmanager
    async def yield_slot(self) -> AsyncIterator[None]:
        """See the function ``yield_slot``."""
        if self._yielded >= MAX_YIELDED or self._stopping:
            yield
            return
        self._yielded += 1
        if len(self._tasks) <= self._config.concurrency + self._yielded:  # one of them is the watch
            self._tasks.append(asyncio.create_task(self._work(), name=f"work {len(self._tasks)}"))
        try:
            with contextlib.suppress(nats.errors.Error):  # the watch requests again
                await self._top_up()
            yield
        finally:
            self._yielded -= 1

    async def _work(self) -> None:
        _at_work.set(self)
        while True:
            delivery = await self._queue.get()
            self._working += 1
            self._idle.clear()
            try:
                await self._handle(delivery)
            finally:
                self._working -= 1
                if not self._working:
                    self._idle.set()
                self._in_hand.pop(delivery.seq, None)
                self._bytes -= len(delivery.data)
            await self._top_up()

    async def _handle(self, delivery: Delivery) -> None:
        try:
            if delivery.deliveries > 2 * self._config.max_attempts:
                raise Reject(f"it was delivered {delivery.deliveries - 1} times and never finished")
            await self._run_handler(delivery)
        except asyncio.CancelledError:
            await delivery.nak()
            raise
        except Reject as reject:
            await self._give_up(delivery, str(reject))
        except Exception as error:
            await self._try_again(delivery, error)
        else:
            self.handled += 1
            await delivery.ack()

    async def _run_handler(self, delivery: Delivery) -> None:
        """Call the handler, again and again while the bus is full: that is no fault of the message."""
        while True:
            try:
                await self._handler(delivery)
            except BusFull as error:
                log.warning("bus_full", subject=delivery.subject, seq=delivery.seq, reason=str(error))
                await asyncio.sleep(BUS_FULL_PAUSE)
            else:
                return

    async def _try_again(self, delivery: Delivery, error: Exception) -> None:
        retry = error if isinstance(error, Retry) else None
        if not isinstance(error, MailroomError):
            log.error("handler_failed", subject=delivery.subject, seq=delivery.seq, exc_info=error)
        contended = isinstance(error, Conflict)
        if delivery.deliveries >= self._config.max_attempts and not contended:
            await self._give_up(
                delivery, f"gave up after {delivery.deliveries} deliveries: {_sentence(error)}"
            )
            return
        delay = 0.05 if contended else backoff(delivery.deliveries, retry)
        log.warning(
            "retrying", subject=delivery.subject, seq=delivery.seq, delay=delay, reason=_sentence(error)
        )
        await delivery.nak(delay)

    async def _give_up(self, delivery: Delivery, reason: str) -> None:
        self.failed += 1
        try:
            await self._dead_letter(delivery, reason)
        except BusError as error:
            log.error("dead_letter_failed", subject=delivery.subject, seq=delivery.seq, error=str(error))
            await delivery.nak(backoff(delivery.deliveries))
            return
        await delivery.term()

    async def _watch(self) -> None:
        """Report progress of running handlers to the server, and notice if it went silent."""
        while True:
            await asyncio.sleep(min(self._config.ack_wait / 3, HEARTBEAT))
            for delivery in list(self._in_hand.values()):
                await delivery.in_progress()
            if (
                self._client.is_connected
                and time.monotonic() - self._last_message > 3 * HEARTBEAT
                and self._requested
            ):
                log.warning("pull_silent", durable=self._config.durable)
                await self._open_inbox()
            await self._top_up()


def yield_slot() -> contextlib.AbstractAsyncContextManager[None]:
    """Let another message be handled while this handler waits inside: the awaited reply may itself be a
    message of this consumer. Outside of a handler it does nothing.
    """
    consumer = _at_work.get()
    return contextlib.nullcontext() if consumer is None else consumer.yield_slot()


_at_work: ContextVar[Consumer | None] = ContextVar("at_work", default=None)
"""The consumer whose handler is running."""


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, MailroomError) else f"{type(error).__name__}: {error}"
