"""A consumer: has the messages of its durables handled, those of the highest first."""

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import Context, ContextVar, copy_context

import msgspec

from shared import subjects
from shared.bus.client import BusClient
from shared.bus.entry import Delivery, Stored
from shared.bus.pulls import Lane, Pull, choose, heartbeat, take
from shared.errors import (
    BusError,
    BusFull,
    BusUnavailable,
    Conflict,
    MailroomError,
    Postponed,
    Reject,
    Retry,
    TakenOver,
)
from shared.log import logger

UNAVAILABLE_PAUSE = 2.0
"""The most seconds until a message comes again that met a server, or a service, that did not answer."""
CONTENDED_PAUSE = 0.05  # Seconds until a message comes again that lost a race
BUS_FULL_PAUSE = 1.0  # Seconds until a write is retried that the bus had no storage for
MAX_YIELDED = 256
"""Handlers of one consumer that may yield their slot; beyond that, a waiting handler keeps it."""
DRAIN_WAIT = 2.0
"""Seconds that a stopping consumer waits for messages that are on their way, to hand them back."""
PATIENCE = 0.2
"""Seconds that a message waits here for a slot before it is handed back, so that an idle process gets it."""

log = logger(__name__)

Handler = Callable[[Delivery], Awaitable[None]]
DeadLetterHandler = Callable[[Delivery, str], Awaitable[None]]
"""Stores a dead letter for a delivery, with the reason."""


class ConsumerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How durables are consumed.

    A free slot takes a message of the first of ``durables`` that has one, except that each that has messages
    gets at least one slot in twenty. At most ``concurrency`` messages are handled at a time. ``ack_wait`` is
    the durables', in seconds. ``max_attempts`` failures of a message in this process make it a dead letter,
    and so do more than twice as many deliveries, to whatever processes. ``max_bytes`` limits the bytes
    requested ahead, give or take a message; 0 is no limit.
    """

    stream: str
    durables: tuple[str, ...]
    concurrency: int
    ack_wait: float
    max_attempts: int
    max_bytes: int = 0


class Consumer:
    """Passes the messages of its durables to a handler.

    When the handler returns, the message is acknowledged. Retry, Conflict and unexpected exceptions have it
    delivered again after a growing delay, and the last attempt makes it a dead letter; Reject does so at
    once; TakenOver leaves it to the process that has it; BusFull repeats the handler until the bus has
    storage. While a handler works, progress is reported every third of ``ack_wait``.

    A process whose slots are all taken for longer than PATIENCE asks for nothing and keeps no messages, so
    that none waits here while another process is idle.
    """

    def __init__(
        self, client: BusClient, config: ConsumerConfig, handler: Handler, dead_letter: DeadLetterHandler
    ) -> None:
        self.handled = self.failed = 0
        self._client, self._config, self._handler, self._dead_letter = client, config, handler, dead_letter
        self._lanes = tuple(
            Lane(Pull(client, config.stream, durable, self._receive, self._on_ended))
            for durable in config.durables
        )
        self._by_durable = {lane.pull.durable: lane for lane in self._lanes}
        self._bytes = 0
        self._in_hand: dict[int, Delivery] = {}
        self._postponed: dict[int, tuple[str, float]] = {}
        self._queue: asyncio.Queue[Delivery] = asyncio.Queue()
        self._handling = 0
        self._workers: list[asyncio.Task[None]] = []
        self._ended = asyncio.Event()
        self._yielded = self._unbegun = 0
        self._full_since = 0.0
        self._failures = Failures()
        self._busy = asyncio.Event()
        self._background: list[asyncio.Task[None]] = []
        self._stopping = self._paused = False
        self._context = Context()

    @property
    def stream(self) -> str:
        """The stream of its durables."""
        return self._config.stream

    @property
    def in_hand(self) -> dict[str, list[int]]:
        """The sequences of the messages that were received and not answered yet, by durable; with those that
        the server is to deliver again later.
        """
        now = time.monotonic()
        self._postponed = {seq: kept for seq, kept in self._postponed.items() if kept[1] > now}
        held: dict[str, list[int]] = {durable: [] for durable in self._config.durables}
        for delivery in self._in_hand.values():
            held[delivery.durable].append(delivery.seq)
        for seq, (durable, _) in self._postponed.items():
            held[durable].append(seq)
        return held

    def take_dropped(self) -> list[str]:
        """The durables whose requests were taken back since this was asked last.

        Between accounts the server counts a message as delivered that it sent while the request was taken
        back, though nobody got it: it would come again after ``ack_wait``.
        """
        dropped = [lane.pull for lane in self._lanes if lane.pull.dropped]
        for pull in dropped:
            pull.dropped = False
        return [pull.durable for pull in dropped]

    @property
    def pulling(self) -> bool:
        """Whether each durable that it takes messages of exists, and the server answers its requests."""
        return all(lane.pull.answered for lane in self._open)

    @property
    def load(self) -> int:
        """How many messages are being handled."""
        return self._handling

    @property
    def _free(self) -> int:
        return self._config.concurrency + self._yielded - self._handling

    async def start(self) -> None:
        """Start pulling and handling."""
        self._context = copy_context()
        await self._advance()
        self._background = [asyncio.create_task(self._watch()), asyncio.create_task(self._make_way())]

    async def stop(self, grace: float) -> None:
        """Stop pulling, give running handlers ``grace`` seconds, return the other messages at once."""
        if self._stopping:
            return
        self._stopping = True
        await asyncio.wait([lane.pull.drop() for lane in self._lanes], timeout=DRAIN_WAIT)
        for lane in self._lanes:
            while lane:
                await self._hand_back(lane.pop())
        if self._handling:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._ended.wait()
        tasks = [*self._background, *self._workers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def pause(self, *, paused: bool) -> None:
        """Take messages of the first durable alone, or of all again; what is being handled goes on.

        What waits here of the others is handed back.
        """
        if paused == self._paused:
            return
        self._paused = paused
        for lane in self._lanes:
            if lane not in self._open:
                lane.pull.drop()
                while lane:
                    await self._hand_back(lane.pop())
        if self._background:  # it has started
            await self._advance()

    @property
    def _open(self) -> tuple[Lane, ...]:
        """The lanes from which messages are taken."""
        return self._lanes[:1] if self._paused else self._lanes

    async def reconnected(self) -> None:
        """Send new pull requests: the server forgot the old ones."""
        for lane in self._lanes:
            lane.pull.drop()
        await self._advance()

    async def _advance(self) -> None:
        """Give the free slots to what waits for one, and request more for those that remain."""
        while self._free > 0 and not self._stopping:
            lane = choose(self._open)
            if lane is None:
                for each in self._open:
                    if self._room(each):
                        await self._request(each, probe=False)
                return
            if lane:
                self._begin(take(lane, self._open))
                continue
            # Nothing lower may begin before it is known whether this lane has something.
            if self._room(lane):
                await self._request(lane, probe=self._must_probe(lane))
            if not lane.settled:
                return

    def _must_probe(self, lane: Lane) -> bool:
        """Whether others may have to wait for what this lane has: not if it is likely that all are empty."""
        if len(self._open) == 1:
            return False
        lower = self._open[self._open.index(lane) + 1 :]
        return lane.due or lane.pull.behind > 0 or not all(each.settled for each in lower)

    def _room(self, lane: Lane) -> int:
        """How many messages to request: one for each free slot, so that none waits here while others idle.

        0 if there are too few to be worth a request.
        """
        requested = lane.pull.requested
        room = self._free - requested
        too_few = requested and room < self._config.concurrency // 4
        return 0 if too_few or lane.pull.refused else max(0, room)

    async def _request(self, lane: Lane, *, probe: bool) -> None:
        free_bytes = self._config.max_bytes - self._bytes
        if self._config.max_bytes and (lane.pull.requested or free_bytes < subjects.MAX_PAYLOAD):
            return
        if probe:
            self._busy.set()
        await lane.pull.request(
            self._room(lane), probe=probe or lane.pull.probing, max_bytes=max(0, free_bytes)
        )

    async def _receive(self, pull: Pull, delivery: Delivery) -> None:
        if self._stopping or self._by_durable[pull.durable] not in self._open:
            await delivery.nak()
            return
        if delivery.seq in self._in_hand:
            # Delivered again because this process was slow to report progress. Its claim is still the last
            # one, so the handler that has the message may finish.
            await delivery.in_progress()
            return
        self._in_hand[delivery.seq] = delivery
        self._busy.set()
        self._bytes += len(delivery.data)
        self._by_durable[pull.durable].put(delivery)
        await self._advance()

    async def adopt(self, stored: Stored, reply: str) -> bool:
        """Handle a message that another process of the agent was given; False if there is no slot for it."""
        number = self._client.connection
        delivery = Delivery(
            stored.subject, reply, stored.headers, stored.data, self._lanes[0].pull.answer, number
        )
        lane = self._by_durable.get(delivery.durable)
        if delivery.seq in self._in_hand:
            return True
        if (
            self._free <= 0
            or self._stopping
            or delivery.stream != self.stream
            or lane not in self._open
            or delivery.seq != stored.seq
        ):
            return False
        delivery.adopted = True
        await self._receive(lane.pull, delivery)
        return True

    async def _on_ended(self, pull: Pull, empty: bool) -> None:
        lane = self._by_durable[pull.durable]
        if empty:
            lane.passed = 0
            if not self._stopping and lane in self._open and self._room(lane):
                await self._request(lane, probe=False)
        await self._advance()

    def _begin(self, delivery: Delivery) -> None:
        self._handling += 1
        self._queue.put_nowait(delivery)
        if self._handling > len(self._workers):
            # A task that yields its slot starts a worker, which must not inherit that task's context.
            context = self._context.copy()
            name = f"work {len(self._workers)}"
            self._workers.append(asyncio.create_task(self._work(), name=name, context=context))
        if self._free <= 0:
            self._full_since = asyncio.get_running_loop().time()

    async def _work(self) -> None:
        _at_work.set(self)
        while True:
            delivery = await self._queue.get()
            try:
                await self._handle(delivery)
            finally:
                self._forget(delivery)
                self._handling -= 1
                if self._stopping and not self._handling:
                    self._ended.set()
            await self._advance()

    def _forget(self, delivery: Delivery) -> None:
        self._in_hand.pop(delivery.seq, None)
        self._bytes -= len(delivery.data)

    async def _hand_back(self, delivery: Delivery) -> None:
        self._forget(delivery)
        await delivery.nak()

    async def _make_way(self) -> None:
        """Hand back what waits here for long, and ask for nothing while there is no slot for it."""
        while not self._stopping:
            await self._busy.wait()
            await asyncio.sleep(PATIENCE / 2)
            full = self._free <= 0 and asyncio.get_running_loop().time() - self._full_since >= PATIENCE
            for lane in self._lanes:
                if not (lane.waits_longer(PATIENCE) or (full and lane.pull.requested) or lane.pull.lost):
                    continue
                # First, so that what is handed back does not come here again.
                await lane.pull.drop()
                for delivery in lane.pop_older(PATIENCE, self._config.max_attempts):
                    await self._hand_back(delivery)
            if not self._in_hand and not any(lane.pull.probing for lane in self._lanes):
                self._busy.clear()
            await self._advance()

    @contextlib.asynccontextmanager
    async def yield_slot(self, *, unbegun: bool) -> AsyncIterator[None]:
        """See the function ``yield_slot``."""
        if (self._yielded - self._unbegun >= MAX_YIELDED and not unbegun) or self._stopping:
            yield
            return
        self._yielded += 1
        self._unbegun += unbegun
        try:
            await self._advance()
            yield
        finally:
            self._yielded -= 1
            self._unbegun -= unbegun

    async def _handle(self, delivery: Delivery) -> None:
        try:
            if delivery.deliveries > 2 * self._config.max_attempts:
                raise Reject(f"it was delivered {delivery.deliveries - 1} times and never finished")
            await self._run_handler(delivery)
        except asyncio.CancelledError:
            await delivery.nak()
            raise
        except Postponed:
            await delivery.nak()
        except TakenOver as taken:
            # An answer would count for the other process too, whose message it then is no more.
            log.info("left_to_another", subject=delivery.subject, seq=delivery.seq, reason=str(taken))
        except Reject as reject:
            reason = str(reject)
            last = self._failures.last_reason(delivery.seq)
            await self._give_up(delivery, (f"{reason}; before that: {last}" if last else reason))
        except Exception as error:
            await self._try_again(delivery, error)
        else:
            self.handled += 1
            self._failures.forget(delivery.seq)
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
        if isinstance(error, Conflict):
            delay = CONTENDED_PAUSE
        else:
            failures = self._failures.count(delivery.seq, _sentence(error))
            if failures >= self._config.max_attempts:
                await self._give_up(delivery, f"gave up after {failures} attempts: {_sentence(error)}")
                return
            delay = backoff(failures, retry)
        if isinstance(error, BusUnavailable):
            delay = min(delay, UNAVAILABLE_PAUSE)  # no fault of the message
        log.warning(
            "retrying", subject=delivery.subject, seq=delivery.seq, delay=delay, reason=_sentence(error)
        )
        await self._postpone(delivery, delay)

    async def _postpone(self, delivery: Delivery, delay: float) -> None:
        self._postponed[delivery.seq] = (delivery.durable, time.monotonic() + delay)
        await delivery.nak(delay)

    async def _give_up(self, delivery: Delivery, reason: str) -> None:
        self.failed += 1
        try:
            await self._dead_letter(delivery, reason)
        except BusError as error:
            log.error("dead_letter_failed", subject=delivery.subject, seq=delivery.seq, error=str(error))
            await self._postpone(delivery, backoff(self._failures.count(delivery.seq)))
            return
        self._failures.forget(delivery.seq)
        await delivery.term()

    async def _watch(self) -> None:
        """Report progress of running handlers to the server, and notice if it went silent."""
        while not self._stopping:
            await asyncio.sleep(min(self._config.ack_wait / 3, heartbeat(self._client)))
            for delivery in list(self._in_hand.values()):
                await delivery.in_progress()
            if self._client.is_connected:
                for lane in self._lanes:
                    lane.pull.drop_if_silent()
            await self._advance()


def yield_slot(*, unbegun: bool = False) -> contextlib.AbstractAsyncContextManager[None]:
    """Let another message be handled while this handler waits inside: the awaited reply may itself be a
    message of this consumer. Outside of a handler it does nothing.

    Of handlers that are ``unbegun``, which have used nothing yet, any number may yield: as many as the server
    delivers.
    """
    consumer = _at_work.get()
    return contextlib.nullcontext() if consumer is None else consumer.yield_slot(unbegun=unbegun)


_at_work: ContextVar[Consumer | None] = ContextVar("at_work", default=None)
"""The consumer whose handler is running."""


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, MailroomError) else f"{type(error).__name__}: {error}"


# --- how often each message failed in this process ---------------------------------------------------
MAX_REMEMBERED = 1_000
"""Messages whose failures are remembered; of more, those are forgotten that failed longest ago."""
MAX_REASON = 500


class Failures:
    """The failures of messages, by their sequence.

    They are counted here, since the server counts deliveries: it also delivers again what was handed back
    because a process ended, had no free slot, or the server was restarted, which is no fault of the message.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[int, str]] = OrderedDict()

    def count(self, seq: int, reason: str = "") -> int:
        """Count one more failure of the message at ``seq``; returns how many it has.

        Without a ``reason`` the one before stays the last.
        """
        number, last = self._known.pop(seq, (0, ""))
        self._known[seq] = (number + 1, reason[:MAX_REASON] or last)
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return number + 1

    def last_reason(self, seq: int) -> str:
        """Why it failed the last time; empty if it did not."""
        return self._known.get(seq, (0, ""))[1]

    def forget(self, seq: int) -> None:
        """Forget the message at ``seq``: it is done."""
        self._known.pop(seq, None)


def backoff(failures: int, retry: Retry | None = None) -> float:
    """Seconds until the next delivery: as the handler asked, else 0.25 doubling to at most 30."""
    if retry is not None and retry.delay is not None:
        return retry.delay
    return min(30.0, 0.25 * 2.0 ** min(failures - 1, 10))
