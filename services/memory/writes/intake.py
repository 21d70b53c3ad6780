"""Writes on their way from the log into the store: in the log's order, in batches, each answered."""

import asyncio
import contextlib
from collections import OrderedDict

import msgspec

from services.memory.daemon import MemoryDaemon
from services.memory.writes.announcing import Announcer
from services.memory.writes.change import Entry
from services.memory.writes.writelog import Logged, WriteLog, read_entry
from shared import subjects
from shared.bus import Bus, Delivery
from shared.bus.claim import dead_letter_for
from shared.bus.entry import seal
from shared.contracts import TOKEN, MemoryRefused, MemoryWrite, MemoryWritten
from shared.errors import ActionError, BusError, Reject
from shared.log import logger

REMEMBERED_ANSWERS = 10_000
"""Answers kept for whoever asks after a write; older ones are looked up in the store."""
MAX_BATCH = 1_000
"""The most writes of one commit to the store."""
MAX_ROWS = 5_000
"""The nodes and edges after which a batch is full: more of them take no less time each."""
ANSWER_WAIT = 25.0
"""Seconds an asker waits here for a write that is still on its way."""

log = logger(__name__)


class Waiting(msgspec.Struct, frozen=True):
    """A write that was handed out of the log, and whoever waits for what becomes of it."""

    logged: Logged
    verdict: asyncio.Future[MemoryWritten]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the store is behind the log, in messages."""

    done: int
    total: int


class Intake:
    """Applies the log to the store: what is missing at the start, and then what arrives.

    The store knows up to where it has applied the log, and goes on from there, so a write counts once and in
    its place whatever the server hands out, and when. What arrives while one batch is stored makes the next
    one, so that one sync serves many.
    """

    def __init__(self, daemon: MemoryDaemon, bus: Bus) -> None:
        self._daemon = daemon
        self._bus = bus
        self._log = WriteLog(bus)
        self._base = 0
        self._position = 0
        self._target = 0
        self._waiting: dict[int, Waiting] = {}
        self._passed: set[int] = set()
        self._arrived = asyncio.Event()
        self._level = asyncio.Event()
        self._busy = asyncio.Lock()
        self._rebuilding: asyncio.Task[None] | None = None
        self._answers: OrderedDict[str, MemoryWritten] = OrderedDict()
        self._asked: dict[str, set[asyncio.Future[MemoryWritten]]] = {}
        self._unrecorded: list[MemoryRefused] = []
        self._announcer = Announcer(bus)

    @property
    def behind(self) -> Progress | None:
        """How far the store still is behind what the log held at the start; None once it has caught up."""
        if self._level.is_set():
            return None
        return Progress(done=self._position, total=self._target)

    async def open(self) -> None:
        """Find the place in the log where the store is.

        Where the log is not the one that was applied so far, or has lost its end, its versions come after all
        that have been.
        """
        daemon = self._daemon
        self._base = await daemon.find_base()
        self._position = daemon.version - self._base
        moment = await daemon.find_moment(daemon.version)
        if daemon.version and not await self._log.holds(self._position, moment):
            log.warning("another_log", version=daemon.version)
            self._base, self._position = daemon.version, 0
            await daemon.set_base(self._base)
        self._target = await self._log.last()

    async def run(self) -> None:
        """Catch up with the log, then store batch after batch until cancelled."""
        async with self._busy:
            await self._catch_up()
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            async with self._busy:
                while self._waiting:
                    await self._store_next()
                await self._record_refusals()

    async def announce(self) -> None:
        """Publish each graph version once its writes are answered, in order, until cancelled."""
        await self._announcer.run(self._daemon.version)

    async def caught_up(self, timeout: float) -> None:
        """Wait until the store has caught up, at most ``timeout`` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._level.wait()

    async def rebuild(self, *, force: bool = False) -> dict[str, object]:
        """Have the store made anew from the log; returns at once, ``behind`` tells how far it is.

        Raises ActionError where the log does not reach back to the beginning, so that something would be
        lost, unless ``force``.
        """
        if (self._base or await self._log.first() > 1) and not force:
            raise ActionError(
                "The log does not reach back to the beginning of this memory: what is older would be lost",
                "Export it first (mailroom memory export), or insist with --force",
            )
        if self._rebuilding is None or self._rebuilding.done():
            self._rebuilding = asyncio.create_task(self._rebuild())
        return {"writes": await self._log.last()}

    async def _rebuild(self) -> None:
        async with self._busy:
            self._level.clear()
            self._position, self._target = 0, max(1, self._target)
            await self._daemon.clear()
            await self.open()
            await self._catch_up()

    async def _catch_up(self) -> None:
        if self._position < self._target:
            log.info("catching_up", writes=self._target - self._position)
            await self._apply(self._position + 1, self._target)
            log.info("caught_up", version=self._base + self._position)
        self._level.set()

    async def take(self, delivery: Delivery) -> None:
        """Handle one message of the log; returns once it is on disk or refused for good."""
        try:
            content = read_entry(delivery.subject, delivery.data)
        except Reject as reject:
            self._passed.add(delivery.seq)
            self._settle(delivery.seq, MemoryWritten(cause=_find_id(delivery.data), error=str(reject)))
            raise
        if isinstance(content, MemoryRefused):
            self._passed.add(delivery.seq)
            return
        logged = Logged(seq=delivery.seq, stored_at=delivery.stored_at / 1e9, content=content)
        earlier = self._waiting.get(delivery.seq)
        verdict = earlier.verdict if earlier else asyncio.get_running_loop().create_future()
        self._waiting[delivery.seq] = Waiting(logged, verdict)
        self._arrived.set()
        await asyncio.shield(verdict)

    async def bury(self, delivery: Delivery, reason: str) -> None:
        """Write the dead letter of a write that cannot be read."""
        await self._bus.commit(
            [seal(subjects.dead(self._bus.name), dead_letter_for(self._bus, delivery, reason))]
        )

    async def submit(self, write: MemoryWrite) -> MemoryWritten:
        """Write as the daemon itself, by way of the log, and wait for what becomes of it."""
        return await self.answer(write.id, await self._log.append(write))

    async def answer(self, write_id: str, seq: int = 0) -> MemoryWritten:
        """What became of a write, once that is known; raises ActionError where it takes too long.

        ``seq`` is its place in the log: what is not applied yet need not be looked up.
        """
        known = self._answers.get(write_id)
        if known is None and seq <= self._position:
            known = await self._daemon.written(write_id)
        if known is not None:
            return known
        future: asyncio.Future[MemoryWritten] = asyncio.get_running_loop().create_future()
        self._asked.setdefault(write_id, set()).add(future)
        try:
            if write_id in self._answers:  # meanwhile, while the store was asked
                return self._answers[write_id]
            async with asyncio.timeout(ANSWER_WAIT):
                return await future
        except TimeoutError:
            raise ActionError(
                "The write is still in line", "Ask again, or see 'mailroom memory health'"
            ) from None
        finally:
            self._stop_asking(write_id, future)

    def _stop_asking(self, write_id: str, future: asyncio.Future[MemoryWritten]) -> None:
        asking = self._asked.get(write_id, set())
        asking.discard(future)
        if not asking:
            self._asked.pop(write_id, None)

    async def _store_next(self) -> None:
        """Store the next batch of what arrived, and whatever the log has before and between."""
        seqs = sorted(self._waiting)[:MAX_BATCH]
        rest = [seq for seq in seqs if seq > self._position]
        for seq in seqs[: len(seqs) - len(rest)]:
            await self._answer_again(seq)
        if not rest:
            return
        self._passed = {seq for seq in self._passed if seq > self._position}
        passed = sum(seq < rest[-1] for seq in self._passed)
        if rest[-1] - self._position > len(rest) + passed:  # a message among them is in other hands
            await self._apply(self._position + 1, rest[-1])
            return
        batch = [self._waiting[seq].logged for seq in rest]
        await self._store(batch[: _fill(batch)])

    async def _answer_again(self, seq: int) -> None:
        """Answer a write that was handed out although it has been applied, or refused."""
        write_id = self._waiting[seq].logged.content.id
        known = self._answers.get(write_id) or await self._daemon.written(write_id)
        self._settle(seq, known or MemoryWritten(cause=write_id, error="It was refused"))

    async def _apply(self, start: int, end: int) -> None:
        """Store what the log has from ``start`` to ``end``, but for what was refused then."""
        own = subjects.memory_write(self._bus.name)
        later = await self._log.last()
        refused = {
            logged.content.cause
            async for logged in self._log.read(start, later, own)
            if isinstance(logged.content, MemoryRefused)
        }
        batch: list[Logged] = []
        rows = 0
        async for logged in self._log.read(start, end):
            if not isinstance(logged.content, MemoryWrite) or logged.content.id in refused:
                continue
            batch.append(logged)
            rows += _count_rows(logged)
            if len(batch) >= MAX_BATCH or rows >= MAX_ROWS:
                await self._store(batch)
                batch, rows = [], 0
        await self._store(batch)
        self._position = max(self._position, end)

    async def _store(self, batch: list[Logged]) -> None:
        """Store writes in their order, and answer all who wait for one of them."""
        if not batch:
            return
        entries = [
            Entry(version=self._base + logged.seq, stored_at=logged.stored_at, write=logged.content)
            for logged in batch
            if isinstance(logged.content, MemoryWrite)
        ]
        try:
            written = await self._daemon.write(entries)
        except Exception as error:
            await self._store_apart(batch, error)
            return
        self._position = batch[-1].seq
        self._unrecorded += written.refused
        await self._record_refusals()
        for logged, answer in zip(batch, written.answers, strict=True):
            self._settle(logged.seq, answer)
        if written.event is not None:
            self._announcer.put(written.event, replayed=not self._level.is_set())

    async def _store_apart(self, batch: list[Logged], error: Exception) -> None:
        """Find the write of a batch that fails for an unforeseen reason: it must not hold up the others."""
        if len(batch) > 1:
            for logged in batch:
                await self._store([logged])
            return
        (logged,) = batch
        log.error("write_failed", seq=logged.seq, exc_info=error)
        reason = f"Memory failed at it ({type(error).__name__}: {error})"
        self._position = logged.seq
        self._unrecorded.append(MemoryRefused(cause=logged.content.id, error=reason))
        await self._record_refusals()
        self._settle(logged.seq, MemoryWritten(cause=logged.content.id, error=reason))

    async def _record_refusals(self) -> None:
        """Have the log say what was refused; what it cannot take now is tried again with the next batch."""
        while self._unrecorded:
            try:
                await self._log.append(self._unrecorded[0])
            except BusError as error:
                log.warning("refusal_unrecorded", waiting=len(self._unrecorded), reason=str(error))
                return
            self._unrecorded.pop(0)

    def _settle(self, seq: int, answer: MemoryWritten) -> None:
        if answer.cause:
            self._answers[answer.cause] = answer
        while len(self._answers) > REMEMBERED_ANSWERS:
            self._answers.popitem(last=False)
        for future in self._asked.pop(answer.cause, ()):
            if not future.done():
                future.set_result(answer)
        waiting = self._waiting.pop(seq, None)
        if waiting is not None and not waiting.verdict.done():
            waiting.verdict.set_result(answer)


class _Identified(msgspec.Struct):
    id: str = ""


def _find_id(data: bytes) -> str:
    """The id of a write that cannot be read, so that whoever asks after it is told; empty without one."""
    try:
        found = msgspec.json.decode(data, type=_Identified).id
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return ""
    return found if TOKEN.fullmatch(found) else ""


def _count_rows(logged: Logged) -> int:
    content = logged.content
    return len(content.nodes) + len(content.edges) if isinstance(content, MemoryWrite) else 0


def _fill(batch: list[Logged]) -> int:
    """How many of these make a full batch: at least one."""
    rows = 0
    for count, logged in enumerate(batch, 1):
        rows += _count_rows(logged)
        if rows >= MAX_ROWS:
            return count
    return len(batch)
