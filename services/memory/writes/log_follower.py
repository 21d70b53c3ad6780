"""The follower of the write log: applies it to the store, what is missing at the start and what arrives."""

import asyncio
import contextlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from services.memory.engine import MemoryEngine
from services.memory.forgetting import NOTE, REFUSED, Forgetting
from services.memory.writes.change import LoggedWrite
from services.memory.writes.write_log import (
    MAX_BATCH,
    MAX_ROWS,
    Announcer,
    AnswerRegistry,
    Batcher,
    Confirm,
    WriteLog,
    alone,
    read_entry,
)
from shared import subjects
from shared.bus import Bus, Delivery
from shared.bus.claim import dead_letter_for
from shared.bus.entry import seal
from shared.contracts import TOKEN, GraphVersion, MemoryWrite, MemoryWritten
from shared.errors import ActionError, BusError, MailroomError, Reject
from shared.log import logger
from shared.memory.client import BEHIND
from shared.trace import HEADER as TRACE_HEADER
from shared.trace import continue_trace

if TYPE_CHECKING:
    from services.memory.loading import Rebuild

BASE_NOTE = "base"  # The name under which the store has the graph version before the first message of the log

REPLAYED_AT_ONCE = 10_000  # Nodes and edges of one batch of a rebuild
EMBED_WAIT = 15.0
"""Seconds that new writes wait at the start for the vectors of what is applied again, which the gate compares
with them: as many as a crash leaves without, see ``store.FLUSH_TEXT``."""
SETTLE_PAUSE = 0.02  # Seconds between two looks at whether what the log has is stored

LOOK = 1.0  # Seconds between two looks of a copy at what was announced, of which it mostly hears at once
STILL = 3.0  # Seconds without such a look after which a copy answers nobody
VERSION_WAIT = 1.0  # Seconds that a request to a copy waits for the version that it asks for
VERSION_PAUSE = 0.005  # Seconds between two looks whether that has come

log = logger(__name__)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the store is behind the log, in messages."""

    done: int
    total: int


class LogFollower:
    """Applies the log to the store, in the log's order and in batches, and answers each write.

    A write that was answered is in the log, which is synced. The store knows up to where its tables have the
    log, and goes on from there, so a write counts once and in its place whatever the server delivers, and
    when. What arrives while one batch is stored makes the next one. ``confirm`` returns while this process is
    the one that may write to the log, answer and announce.

    A copy does none of that: it applies what was announced (``follow``), and so need judge nothing.
    """

    def __init__(self, engine: MemoryEngine, bus: Bus, confirm: Confirm = alone) -> None:
        self._engine = engine
        self._bus = bus
        self._log = WriteLog(bus, confirm)
        self._answers = AnswerRegistry()
        self.announcer = self._announcer = Announcer(bus, confirm)
        self._batcher = Batcher(engine, self._log, self._answers, self._announcer, confirm)
        self.heard = asyncio.Event()
        """Set when a copy has reason to look at what was announced."""
        self._looked_at = float("-inf")
        self._replaying = True
        self._base = 0
        self._judged = 0
        """The graph version up to which all was answered before this start."""
        self._position = 0
        self._target = 0
        self._waiting: dict[int, LoggedWrite] = {}
        self._passed: set[int] = set()
        self._arrived = asyncio.Event()
        self._level = asyncio.Event()
        self._busy = asyncio.Lock()
        self._forgetting = Forgetting(engine, bus, self._log, self._rebuild_at_once)
        self._rebuilding: asyncio.Task[None] | None = None
        self._rebuilt = Progress(done=0, total=0)
        self._problem = ""

    @property
    def base(self) -> int:
        """The graph version before the first message of the log."""
        return self._base

    @property
    def behind(self) -> Progress | None:
        """How far the store still is behind what the log held at the start; None once it has caught up."""
        if self._level.is_set():
            return None
        return Progress(done=self._position, total=self._target)

    def status(self) -> dict[str, object]:
        """What belongs to memory's health: how far a rebuild is, or why the last one failed."""
        status = self._forgetting.status()
        if self._rebuilding is not None and not self._rebuilding.done():
            return status | {"rebuilding": self._rebuilt}
        return status | ({"rebuild_failed": self._problem} if self._problem else {})

    async def open(self) -> None:
        """Find the place in the log where the store is, of which this process is the writer from now on.

        If the log is not the one that was applied so far, or has lost its end, its versions come after all
        that have been.
        """
        engine = self._engine
        self._batcher.leads = self._replaying = True
        self._base = int(await engine.read_note(BASE_NOTE) or 0)
        self._position = max(engine.version - self._base, 0)
        self._target = await self._log.last()
        self._judged = max(await self._announcer.last(), engine.answered())
        moment = await engine.moment_of(engine.version)
        holds = not self._position or await self._log.holds(self._position, moment)
        if not holds or self._judged > self._base + self._target:
            log.warning("another_log", version=max(engine.version, self._judged))
            self._base, self._position = max(engine.version, self._judged), 0
            await engine.write_note(BASE_NOTE, str(self._base))
        await self._forgetting.open(engine.version)

    async def open_copy(self) -> bool:
        """Find the place in the log where a copy is; whether the log makes it, from its beginning on."""
        self._batcher.leads = False
        version = self._position = self._engine.version
        self._target = await self._log.last()
        await self._forgetting.open(version)
        holds = not version or await self._log.holds(version, await self._engine.moment_of(version))
        return holds and await self._log.reaches_back()

    async def follow(self) -> None:
        """Apply what is announced to a copy, until cancelled; what fails is tried again."""
        while True:
            self.heard.clear()
            try:
                begun, announced = time.monotonic(), await self._announcer.read_last()
                self._target = max(announced, self._target)
                async with self._busy:
                    self._judged = announced
                    await self._apply(self._position + 1, announced)
                self._looked_at = begun
                self._level.set()
                await self._forgetting.follow()
            except Exception as error:
                log.warning("not_following", reason=f"{type(error).__name__}: {error}")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self.heard.wait()

    def is_level(self) -> bool:
        """Whether a copy has all that was announced a moment ago, and can store more."""
        return time.monotonic() - self._looked_at < STILL and not self._engine.health()["problem"]

    async def wait_for(self, version: int) -> None:
        """Wait until a copy has a graph version, with its vectors; raises ActionError after VERSION_WAIT."""
        until = time.monotonic() + VERSION_WAIT
        while version > self._position or (version and self._engine.unembedded):
            if time.monotonic() > until:
                raise ActionError(f"This copy of memory {BEHIND} {version} yet", "Ask again")
            self.heard.set()
            await asyncio.sleep(VERSION_PAUSE)

    async def forget(self) -> None:
        """Erase what people order to be forgotten, until cancelled."""
        await self._level.wait()
        await self._forgetting.run()

    async def run(self) -> None:
        """Catch up with the log, then store batch after batch until cancelled."""
        async with self._busy:
            # Apply what the log has and the tables have not: at once what was answered, without new vectors
            if self._position < self._target:
                log.info("catching_up", writes=self._target - self._position)
                judged = min(self._target, self._judged - self._base)
                await self._apply(self._position + 1, judged)
                if judged < self._target:
                    await self._embed_missing()
                await self._apply(self._position + 1, self._target)
                log.info("caught_up", version=self._base + self._position)
            self._replaying = False
            self._level.set()
            await self._embed_missing()
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            async with self._busy:
                while seqs := self._find_waiting():
                    await self._store_next(seqs)
                await self._batcher.record_refusals()

    async def announce(self) -> None:
        """Publish each graph version once its writes are answered, in order, until cancelled."""
        await self._announcer.run(self._engine.version)

    async def wait_until_caught_up(self, timeout: float) -> None:
        """Wait until the store has caught up, at most ``timeout`` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._level.wait()

    async def wait_until_stored(self, timeout: float) -> None:
        """Wait until all that the log has now is stored or refused, at most ``timeout`` seconds."""
        with contextlib.suppress(TimeoutError, BusError):
            async with asyncio.timeout(timeout):
                target = await self._log.last()
                # Whether every message of the log up to ``target`` is stored, refused or no write
                while not all(seq in self._passed for seq in range(self._position + 1, target + 1)):  # noqa: ASYNC110  # rare, and the position moves in four places
                    await asyncio.sleep(SETTLE_PAUSE)

    async def rebuild(self, *, force: bool = False) -> dict[str, object]:
        """Start to rebuild the store from the log; returns at once, ``status`` has the progress.

        What is there is read and written to until the new store has all of it.
        Raises ActionError if the log does not reach back to the beginning, so that something would be lost,
        unless ``force`` is set.
        """
        if (self._base or not await self._log.reaches_back()) and not force:
            raise ActionError(
                "The log does not reach back to the beginning of this memory: what is older would be lost",
                "Export it first (mailroom memory export), or insist with --force",
            )
        if self._rebuilding is None or self._rebuilding.done():
            self._rebuilding = asyncio.create_task(self._rebuild())
        return {"writes": await self._log.last()}

    async def handle(self, delivery: Delivery) -> None:
        """Handle one message of the log; returns once it is applied or refused for good."""
        try:
            content = read_entry(delivery.subject, delivery.data)
        except Reject as reject:
            self._passed.add(delivery.seq)
            refused = MemoryWritten(cause=_find_id(delivery.data), error=str(reject))
            self._answers.settle(delivery.seq, refused)
            raise
        if not isinstance(content, MemoryWrite):
            self._passed.add(delivery.seq)
            return
        seconds, rest = divmod(delivery.stored_at, 10**9)  # as a float it would lose the last microsecond
        self._waiting[delivery.seq] = LoggedWrite(
            seq=delivery.seq,
            stored_at=seconds + rest / 1e9,
            write=content,
            traceparent=str(delivery.headers.get(TRACE_HEADER, "")),
        )
        self._arrived.set()
        await asyncio.shield(self._answers.expect(delivery.seq))

    async def dead_letter(self, delivery: Delivery, reason: str) -> None:
        """Publish the dead letter of a write that cannot be read."""
        continue_trace(str(delivery.headers.get(TRACE_HEADER, "")))
        letter = dead_letter_for(self._bus, delivery, reason)
        await self._bus.commit([seal(subjects.dead(self._bus.name), letter)])

    async def read_writes(self, versions: Sequence[int]) -> dict[int, MemoryWrite]:
        """The writes that made these graph versions, the last ones if they are very large together."""
        seqs = [version - self._base for version in versions if version > self._base]
        return {seq + self._base: write for seq, write in (await self._log.read_some(seqs)).items()}

    async def submit(self, write: MemoryWrite) -> MemoryWritten:
        """Write as the daemon itself, by way of the log, and wait for the answer."""
        return await self.answer(write.id, await self._log.append(write))

    async def answer(self, write_id: str, seq: int = 0) -> MemoryWritten:
        """The answer to a write, once there is one; raises ActionError if it takes too long.

        ``seq`` is its place in the log: a write that is not applied yet need not be looked up.
        """
        known = self._answers.get(write_id)
        if known is None and seq <= self._position:
            known = await self._engine.find_answer(write_id)
        return known or await self._answers.wait(write_id)

    async def _rebuild(self) -> None:
        self._problem, self._rebuilt = "", Progress(done=0, total=self._position)
        begun = time.monotonic()
        try:
            rebuilt = await self._engine.begin_rebuild()
            try:
                await self._replay(rebuilt, 1, self._position)
                async with self._busy:
                    await self._replay(rebuilt, self._rebuilt.total + 1, self._position)
                    # What is to be forgotten must not be forgotten by a crash at this moment.
                    await asyncio.to_thread(rebuilt.store.commits.write_note, NOTE, self._forgetting.note)
                    await self._engine.adopt(rebuilt)
                    if self._base:  # versions count from the log's beginning again
                        self._announcer.put(GraphVersion(version=self._engine.version))
                    self._base = self._judged = 0
            finally:
                await asyncio.to_thread(rebuilt.discard)
        except Exception as error:
            self._problem = (
                str(error) if isinstance(error, MailroomError) else f"{type(error).__name__}: {error}"
            )
            log.exception("rebuild_failed")
        else:
            log.info("rebuilt", writes=self._position, seconds=round(time.monotonic() - begun, 1))

    async def _rebuild_at_once(self) -> None:
        """Rebuild the store, and return when it is done; raises ActionError if it fails."""
        if self._rebuilding is not None:
            await asyncio.wait({self._rebuilding})
        await self.rebuild()
        assert self._rebuilding is not None
        await asyncio.wait({self._rebuilding})
        if self._problem:
            raise ActionError(f"The store could not be rebuilt: {self._problem}")

    async def _replay(self, rebuilt: "Rebuild", start: int, end: int) -> None:
        """Apply what the log has from ``start`` to ``end``, of which all was judged, to a second store."""
        self._rebuilt = Progress(done=start - 1, total=end)
        records = await self._log.read_records(start)
        applied = {
            version - self._base
            for version in await self._engine.ask_commits(lambda commits: commits.applied())
        }
        batch: list[LoggedWrite] = []
        rows, storing = 0, asyncio.create_task(rebuilt.write([]))
        async for logged in self._log.read(start, end, applied=applied, erased=records.erased):
            if logged.write.id not in records.refused:
                batch.append(logged)
                rows += logged.rows
            if rows >= REPLAYED_AT_ONCE:
                await storing
                self._engine.touch()
                self._rebuilt = Progress(done=logged.seq, total=end)
                storing = asyncio.create_task(rebuilt.write(batch))
                batch, rows = [], 0
        await storing
        await rebuilt.write(batch)

    async def _embed_missing(self) -> None:
        """What takes longer, or fails, is embedded later."""
        with contextlib.suppress(TimeoutError, ActionError):
            async with asyncio.timeout(EMBED_WAIT):
                await self._engine.embed_missing()

    def _find_waiting(self) -> list[int]:
        """The places in the log of the writes that were delivered and are not answered."""
        self._waiting = {
            seq: logged for seq, logged in self._waiting.items() if self._answers.is_expected(seq)
        }
        return sorted(self._waiting)

    async def _store_next(self, seqs: list[int]) -> None:
        """Store the next batch of what arrived, and whatever the log has before and between."""
        seqs = seqs[:MAX_BATCH]
        rest = [seq for seq in seqs if seq > self._position]
        for seq in seqs[: len(seqs) - len(rest)]:
            # Answer a write that was delivered although it has been applied, or refused
            write_id = self._waiting[seq].write.id
            known = self._answers.get(write_id) or await self._engine.find_answer(write_id)
            self._answers.settle(seq, known or MemoryWritten(cause=write_id, error="It was refused"))
        if not rest:
            return
        self._passed = {seq for seq in self._passed if seq > self._position}
        passed = sum(seq < rest[-1] for seq in self._passed)
        if rest[-1] - self._position > len(rest) + passed:  # a message among them was not delivered here
            await self._apply(self._position + 1, rest[-1])
            return
        batch: list[LoggedWrite] = []
        rows = 0
        for seq in rest:
            batch.append(self._waiting[seq])
            rows += batch[-1].rows
            if rows >= MAX_ROWS:
                break
        await self._store(batch)

    async def _apply(self, start: int, end: int) -> None:
        """Store what the log has from ``start`` to ``end``, except for what was refused then."""
        if start > end:
            return
        records = await self._log.read_records(start)
        batch: list[LoggedWrite] = []
        rows = 0
        async for logged in self._log.read(start, end, erased=records.erased):
            if logged.write.id in records.refused:
                continue
            batch.append(logged)
            rows += logged.rows
            if len(batch) >= MAX_BATCH or rows >= MAX_ROWS:
                await self._store(batch)
                batch, rows = [], 0
        await self._store(batch)
        self._position = max(self._position, end)

    async def _store(self, batch: list[LoggedWrite]) -> None:
        """Store writes; orders to forget, and writes of what was forgotten, are taken one by one."""
        if len(batch) > 1 and any(self._concerns_forgetting(logged) for logged in batch):
            for logged in batch:
                await self._store([logged])
            return
        if not batch:
            return
        first, write, late = batch[0].seq, batch[0].write, False
        if write.forget:
            await self._forgetting.begin(first, write)
        elif late := self._concerns_forgetting(batch[0]):
            await self._forgetting.erase_late(first)
            self._answers.settle(first, MemoryWritten(cause=write.id, error=REFUSED))
        if not late:
            base, judged = self._base, self._judged
            batch = [
                msgspec.structs.replace(logged, base=base, judged=base + logged.seq <= judged)
                for logged in batch
            ]
            await self._batcher.store(batch, replayed=self._replaying)
        self._position = batch[-1].seq
        if write.forget:
            answer = self._answers.get(write.id)
            applied = answer is not None and not answer.error
            if applied:
                # What is applied again must not meet an order that comes after it.
                await self._engine.ask_store(lambda store: store.flush())
            await (self._forgetting.carry_out if applied else self._forgetting.drop)(write)

    def _concerns_forgetting(self, logged: LoggedWrite) -> bool:
        """Whether it is an order to forget, or a write of what was forgotten before."""
        if logged.left:
            return False
        return bool(logged.write.forget) or self._forgetting.names_forgotten(logged.write)


class _Identified(msgspec.Struct):
    id: str = ""


def _find_id(data: bytes) -> str:
    """The id of a write that cannot be read, so that those who ask for it get an answer; "" without one."""
    try:
        found = msgspec.json.decode(data, type=_Identified).id
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return ""
    return found if TOKEN.fullmatch(found) else ""
