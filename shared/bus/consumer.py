"""One continuous pull of a durable: messages in, verdicts out."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from shared import subjects
from shared.bus.entry import Delivery, backoff
from shared.errors import BusError, Conflict, MailroomError, NoRoom, Reject, Retry
from shared.log import logger

PULL_EXPIRES = 30.0
"""Seconds a pull request stands; a new one replaces it, so that a lost one is noticed."""
HEARTBEAT = 5.0
"""Seconds between the server's signs of life while a pull stands idle."""
RENEW_INBOX_AFTER = 200
"""Pull requests on one inbox: the server keeps a record of each until the inbox is given up."""

NO_ROOM_PAUSE = 1.0
"""Seconds before what the bus had no room for is tried again."""
MOST_ASIDE = 256
"""Handlers of one consumer that may wait aside; beyond, a waiting one keeps its place."""

log = logger(__name__)

Handler = Callable[[Delivery], Awaitable[None]]
Bury = Callable[[Delivery, str], Awaitable[None]]


class Consumer:
    """Hands the messages of one durable to a handler, at most ``concurrency`` at a time.

    A handler that returns has committed what it had to: the message is acknowledged. Retry, Conflict
    and anything unforeseen hand it out again after a growing delay, and bury it on its last delivery;
    Reject buries it at once; with NoRoom it waits until the bus has room. While a handler works, the
    server hears of it every third of ``ack_wait``.
    Of ``max_bytes``, if not 0, no more is asked for than is free, give or take a message.
    """

    def __init__(
        self,
        client: Client,
        stream: str,
        durable: str,
        handler: Handler,
        bury: Bury,
        *,
        concurrency: int,
        ack_wait: float,
        max_attempts: int,
        max_bytes: int = 0,
    ) -> None:
        self.stream, self.durable = stream, durable
        self.handled = self.failed = 0
        self._client, self._handler, self._bury = client, handler, bury
        self._concurrency, self._ack_wait, self._max_attempts = concurrency, ack_wait, max_attempts
        self._max_bytes = max_bytes
        self._bytes = 0
        self._queue: asyncio.Queue[Delivery] = asyncio.Queue()
        self._held: dict[int, Delivery] = {}
        self._working = 0
        self._aside = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._subscription: Subscription | None = None
        self._inbox = ""
        self._asked = 0
        self._requests = 0
        self._heard = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    @property
    def load(self) -> int:
        """How many messages are being handled."""
        return self._working

    async def start(self) -> None:
        """Begin to pull."""
        await self._open_inbox()
        await self._top_up()
        self._tasks = [asyncio.create_task(self._work(), name=f"work {i}") for i in range(self._concurrency)]
        self._tasks.append(asyncio.create_task(self._watch(), name="watch"))

    async def stop(self, grace: float) -> None:
        """Take no more, give running handlers ``grace`` seconds, hand back the rest at once."""
        if self._stopping:
            return
        self._stopping = True
        if self._subscription is not None and self._client.is_connected:
            await self._subscription.unsubscribe()
        while not self._queue.empty():
            delivery = self._queue.get_nowait()
            self._held.pop(delivery.seq, None)
            await delivery.nak()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def reconnected(self) -> None:
        """Ask anew: the server forgot what was asked of it."""
        if not self._stopping:
            await self._open_inbox()
            await self._top_up()

    async def _open_inbox(self) -> None:
        old, self._inbox = self._subscription, self._client.new_inbox()
        self._subscription = await self._client.subscribe(self._inbox, cb=self._receive)
        self._asked = self._requests = 0
        self._heard = time.monotonic()
        if old is not None:
            await old.unsubscribe()

    async def _top_up(self) -> None:
        """Ask for as many messages as there are hands free; none waits here while another process idles."""
        room = self._concurrency + self._aside - self._asked - len(self._held)
        if self._stopping or room <= 0 or (self._asked and room < self._concurrency // 4):
            return
        free = self._max_bytes - self._bytes
        if self._max_bytes and (self._asked or free < subjects.MAX_PAYLOAD):
            return
        if self._requests >= RENEW_INBOX_AFTER and not self._asked:
            await self._open_inbox()
        request = {"batch": room, "expires": int(PULL_EXPIRES * 1e9), "idle_heartbeat": int(HEARTBEAT * 1e9)}
        if self._max_bytes:
            request["max_bytes"] = free
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self.stream}.{self.durable}"
        self._asked += room
        self._requests += 1
        await self._client.publish(subject, json.dumps(request).encode(), reply=self._inbox)

    async def _receive(self, message: Msg) -> None:
        self._heard = time.monotonic()
        status = (message.headers or {}).get("Status")
        if status is not None and not message.reply.startswith("$JS.ACK"):
            await self._on_status(status, message)
            return
        self._asked = max(0, self._asked - 1)
        delivery = Delivery(message, self._answer)
        if self._stopping:
            await delivery.nak()
        elif delivery.seq in self._held:
            # It came back because this process was slow to say that it is still at it. Its claim is
            # still the last one, so the handler that has it may finish.
            await delivery.in_progress()
        else:
            self._held[delivery.seq] = delivery
            self._bytes += len(delivery.data)
            self._queue.put_nowait(delivery)
        if not message.data and not message.headers:
            # Between accounts the server takes an empty message for the end of an answer, and sends
            # nothing more for this request.
            await self._open_inbox()
            await self._top_up()

    async def _on_status(self, status: str, message: Msg) -> None:
        if status == "100":
            return
        pending = (message.headers or {}).get("Nats-Pending-Messages", "0")
        self._asked = max(0, self._asked - int(pending))
        reason = (message.headers or {}).get("Description", "")
        if status not in ("408", "404") and "MaxBytes" not in reason:
            log.warning("pull_ended", status=status, reason=reason)
            self._asked = 0
            await asyncio.sleep(0.1)
        await self._top_up()

    async def _answer(self, reply: str, verdict: bytes) -> None:
        try:
            await self._client.publish(reply, verdict)
        except nats.errors.Error as error:
            # Without an answer the server hands the message out again, and the claim or the message
            # ids keep what was committed from being done twice.
            log.warning("verdict_unsent", verdict=verdict.decode(), error=str(error))

    @contextlib.asynccontextmanager
    async def yield_slot(self) -> AsyncIterator[None]:
        """See the function of this name."""
        if self._aside >= MOST_ASIDE or self._stopping:
            yield
            return
        self._aside += 1
        if len(self._tasks) <= self._concurrency + self._aside:  # one of them is the watch
            self._tasks.append(asyncio.create_task(self._work(), name=f"work {len(self._tasks)}"))
        try:
            with contextlib.suppress(nats.errors.Error):  # it is asked again in the watch
                await self._top_up()
            yield
        finally:
            self._aside -= 1

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
                self._held.pop(delivery.seq, None)
                self._bytes -= len(delivery.data)
            await self._top_up()

    async def _handle(self, delivery: Delivery) -> None:
        try:
            if delivery.deliveries > 2 * self._max_attempts:
                raise Reject(f"it was handed out {delivery.deliveries - 1} times and never finished")
            await self._handle_with_room(delivery)
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

    async def _handle_with_room(self, delivery: Delivery) -> None:
        """That the bus is full is no fault of the message: it keeps its place until there is room."""
        while True:
            try:
                await self._handler(delivery)
            except NoRoom as error:
                log.warning("waiting_for_room", subject=delivery.subject, seq=delivery.seq, reason=str(error))
                await asyncio.sleep(NO_ROOM_PAUSE)
            else:
                return

    async def _try_again(self, delivery: Delivery, error: Exception) -> None:
        retry = error if isinstance(error, Retry) else None
        if not isinstance(error, MailroomError):
            log.error("handler_failed", subject=delivery.subject, seq=delivery.seq, exc_info=error)
        contended = isinstance(error, Conflict)
        if delivery.deliveries >= self._max_attempts and not contended:
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
            await self._bury(delivery, reason)
        except BusError as error:
            log.error("bury_failed", subject=delivery.subject, seq=delivery.seq, error=str(error))
            await delivery.nak(backoff(delivery.deliveries))
            return
        await delivery.term()

    async def _watch(self) -> None:
        """Tell the server what is still being worked on, and notice when it went silent."""
        while True:
            await asyncio.sleep(min(self._ack_wait / 3, HEARTBEAT))
            for delivery in list(self._held.values()):
                await delivery.in_progress()
            if self._client.is_connected and time.monotonic() - self._heard > 3 * HEARTBEAT and self._asked:
                log.warning("pull_silent", durable=self.durable)
                await self._open_inbox()
            await self._top_up()


def yield_slot() -> contextlib.AbstractAsyncContextManager[None]:
    """Have another message handled in place of this handler's while it waits inside: what it waits for
    may itself have to come through the mailbox. Outside of a handler it does nothing.
    """
    consumer = _at_work.get()
    return contextlib.nullcontext() if consumer is None else consumer.yield_slot()


_at_work: ContextVar[Consumer | None] = ContextVar("at_work", default=None)
"""The consumer whose handler runs."""


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, MailroomError) else f"{type(error).__name__}: {error}"
