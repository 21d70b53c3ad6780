"""The write log, the MEMORY stream: read and extended; its writes stored in batches, answered, announced."""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Container, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import MappingProxyType

import msgspec

from services.memory.engine import MemoryEngine
from services.memory.writes.change import LoggedWrite
from services.memory.writes.writer import MAX_EVENT_IDS
from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.entry import seal
from shared.bus.records import read_record, retry_until_taken
from shared.contracts import (
    GraphVersion,
    MemoryErased,
    MemoryForgotten,
    MemoryRefused,
    MemoryWrite,
    MemoryWritten,
    decode,
)
from shared.contracts.base import amended
from shared.errors import ActionError, BusError, Reject
from shared.log import logger
from shared.trace import headers_of

PAGE = 1_000  # The most messages of one request to the stream (a limit of nats-server)


READ_BYTES = 32 * 1024 * 1024
"""Bytes of messages after which ``read_some`` stops: a single one may have 8 MiB."""

READ_TIMEOUT = 30.0  # Seconds between two messages after which reading the log has failed

CLOCK_GRAIN = 0.001  # Seconds that one and the same time may differ by, for having been a float


Confirm = Callable[[], Awaitable[None]]


async def alone() -> None:
    """The confirmation of a process that has no others beside it."""


Entry = MemoryWrite | MemoryRefused | MemoryErased | MemoryForgotten
"""What a message of the log holds: writes, and what the daemon records beside them."""


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemon recorded in the log: the ids of writes it ``refused``, and what stands where a message
    was ``erased``, by its place.
    """

    refused: set[str]
    erased: dict[int, MemoryErased]


class WriteLog:
    """The log of all writes, in one order; ``confirm`` returns while this process may write to it."""

    def __init__(self, bus: Bus, confirm: Confirm = alone) -> None:
        self._bus = bus
        self._confirm = confirm

    async def first(self) -> int:
        """The first sequence that is there; 0 if nothing is."""
        request = {"seq": 1, "next_by_subj": ">", "batch": 1}
        return max([message.seq async for message in self._get(request)], default=0)

    async def last(self) -> int:
        """The last sequence; 0 if nothing is stored."""
        request = {"multi_last": [">"], "batch": PAGE}
        return max([message.seq async for message in self._get(request)], default=0)

    async def has(self, seq: int) -> bool:
        """Whether there is a message at this sequence."""
        request = {"seq": seq, "next_by_subj": ">", "batch": 1}
        return seq in [message.seq async for message in self._get(request)]

    async def holds(self, seq: int, moment: float) -> bool:
        """Whether the message at ``seq`` was stored at ``moment``, or the log begins after it."""
        request = {"seq": seq, "next_by_subj": ">", "batch": 1}
        found = [message async for message in self._get(request)]
        if found and found[0].seq == seq:
            return abs(seconds_of(found[0].time) - moment) < CLOCK_GRAIN
        if not found:
            return False
        if erased := (await self.read_records(seq)).erased.get(seq):
            return abs(seconds_of(erased.time) - moment) < CLOCK_GRAIN
        return await self.first() > seq

    async def reaches_back(self) -> bool:
        """Whether the log has all from its beginning on, but for what was erased."""
        first = await self.first()
        return first <= 1 or set(range(1, first)) <= (await self.read_records(1)).erased.keys()

    async def read_records(self, start: int) -> Records:
        """What was recorded from ``start`` on; of several records of one place the last counts."""
        records = Records(refused=set(), erased={})
        own = subjects.memory_write(self._bus.name)
        async for messages in self.read_raw(start, await self.last(), own):
            for message in messages:
                with contextlib.suppress(Reject):
                    entry = read_entry(message.subject, message.data)
                    if isinstance(entry, MemoryErased):
                        records.erased[entry.seqs[0]] = entry
                    refused = entry.refused if isinstance(entry, MemoryErased) else entry
                    if isinstance(refused, MemoryRefused):
                        records.refused.add(refused.cause)
        return records

    async def read_forgotten(self) -> list[MemoryForgotten]:
        """Which orders to forget were carried out."""
        own, found = subjects.memory_write(self._bus.name), []
        async for messages in self.read_raw(1, await self.last(), own):
            for message in messages:
                with contextlib.suppress(Reject):
                    entry = read_entry(message.subject, message.data, checked=True)
                    if isinstance(entry, MemoryForgotten):
                        found.append(entry)
        return found

    async def read(
        self,
        start: int,
        end: int,
        applied: Container[int] = (),
        erased: Mapping[int, MemoryErased] = MappingProxyType({}),
    ) -> AsyncIterator[LoggedWrite]:
        """The writes from ``start`` to ``end``, both included; unreadable ones are skipped.

        Their senders get a dead letter; see LogFollower.handle. ``applied`` are those that were read before
        and accepted; where a message was ``erased``, what is left of it is read in its place.
        """
        places = deque(sorted(seq for seq in erased if start <= seq <= end))
        async for messages in self.read_raw(start, end):
            for message in messages:
                while places and places[0] < message.seq:
                    if left := _left_of(erased[places.popleft()]):
                        yield left
                if message.seq in erased:
                    continue
                with contextlib.suppress(Reject):
                    entry = read_entry(message.subject, message.data, checked=message.seq in applied)
                    if isinstance(entry, MemoryWrite):
                        yield LoggedWrite(seq=message.seq, stored_at=seconds_of(message.time), write=entry)
        for seq in places:
            if left := _left_of(erased[seq]):
                yield left

    async def read_some(self, seqs: Sequence[int]) -> dict[int, MemoryWrite]:
        """The writes at these sequences, the last first, until they have READ_BYTES together.

        What is unreadable or no longer there is left out.
        """
        found: dict[int, MemoryWrite] = {}
        size = 0
        for seq in sorted(seqs, reverse=True):
            request = {"seq": seq, "next_by_subj": ">", "batch": 1}
            for stored in [message async for message in self._get(request) if message.seq == seq]:
                size += len(stored.data)
                if size > READ_BYTES and found:
                    return found
                with contextlib.suppress(Reject):
                    entry = read_entry(stored.subject, stored.data, checked=True)
                    if isinstance(entry, MemoryWrite):
                        found[seq] = entry
        return found

    async def append(self, entry: Entry, traceparent: str = "") -> int:
        """Write as the daemon itself, in the present trace or else this one; returns the sequence."""
        await self._confirm()
        sealed = seal(subjects.memory_write(self._bus.name), entry)
        return await self._bus.append(sealed._replace(headers=headers_of(traceparent)))

    async def read_raw(self, start: int, end: int, subject: str = ">") -> AsyncIterator[list[Stored]]:
        """The messages from ``start`` to ``end`` as they are stored, page by page."""
        if end - start >= PAGE:  # worth a connection of its own
            pages = self._bus.read_all(subjects.MEMORY, start, end, subject=subject, timeout=READ_TIMEOUT)
            async for page in pages:
                yield page
            return
        while start <= end:
            begun = start
            request = {"seq": start, "next_by_subj": subject, "batch": PAGE}
            async for message in self._get(request):
                if message.seq > end:
                    return
                start = message.seq + 1
                yield [message]
                if not message.data:
                    break  # between accounts an empty message ends the answer
            if start == begun:
                return

    def _get(self, request: dict[str, object]) -> AsyncGenerator[Stored, None]:
        return self._bus.read(subjects.MEMORY, request, timeout=READ_TIMEOUT)


def _left_of(erased: MemoryErased) -> LoggedWrite | None:
    """What is left to be applied where a message was erased, if anything."""
    if erased.write is None:
        return None
    return LoggedWrite(seq=erased.seqs[0], stored_at=seconds_of(erased.time), write=erased.write, left=True)


def read_entry(subject: str, data: bytes, *, checked: bool = False) -> Entry:
    """The content of a message of the log; raises Reject with the reason if it is not accepted.

    ``checked`` says that the write is not refused, since it was applied before.
    """
    try:
        entry = decode(data, checked=checked)
    except ValueError as error:
        raise Reject(str(error)) from None
    sender = subjects.Address.of(subject).sender
    own = sender == subjects.MEMORY_DAEMON
    if own and isinstance(entry, MemoryRefused | MemoryErased | MemoryForgotten):
        return entry
    if not isinstance(entry, MemoryWrite):
        raise Reject(f"memory stores memory_write.v1, not {type(entry).__struct_config__.tag}")
    if entry.sender not in ("", sender) and not own:
        raise Reject(f"it says it is from {entry.sender!r}, but {sender!r} sent it")
    if entry.forget and sender != subjects.USER:
        raise Reject(f"{sender} may not have memory forget: that is for people alone")
    return entry if entry.sender else msgspec.structs.replace(entry, sender=sender)


def seconds_of(stamp: str) -> float:
    """A time as the server writes it, in seconds since 1970."""
    # Nanoseconds are more digits than a datetime reads.
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")


KEPT_ANSWERS = 10_000  # Answers kept in RAM; older ones are looked up in the store

ANSWER_WAIT = 25.0  # Seconds that ``wait`` waits for a write that is not applied yet


class AnswerRegistry:
    """Futures of those who wait for a write, by its id or its place in the log, and the latest answers."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, MemoryWritten] = OrderedDict()
        self._asked: dict[str, set[asyncio.Future[MemoryWritten]]] = {}
        self._expected: dict[int, asyncio.Future[MemoryWritten]] = {}

    def get(self, write_id: str) -> MemoryWritten | None:
        """The answer to a write, if it is among the latest."""
        return self._answers.get(write_id)

    def expect(self, seq: int) -> asyncio.Future[MemoryWritten]:
        """A future of the answer to the write at ``seq`` in the log; the same one if asked again."""
        if seq not in self._expected:
            self._expected[seq] = asyncio.get_running_loop().create_future()
        return self._expected[seq]

    def is_expected(self, seq: int) -> bool:
        """Whether a caller waits for the write at ``seq`` in the log."""
        return seq in self._expected

    async def wait(self, write_id: str) -> MemoryWritten:
        """The answer to a write, once there is one; raises ActionError after ANSWER_WAIT seconds."""
        if write_id in self._answers:
            return self._answers[write_id]
        future: asyncio.Future[MemoryWritten] = asyncio.get_running_loop().create_future()
        asking = self._asked.setdefault(write_id, set())
        asking.add(future)
        try:
            async with asyncio.timeout(ANSWER_WAIT):
                return await future
        except TimeoutError:
            raise ActionError(
                "The write is still queued", "Ask again, or see 'mailroom memory health'"
            ) from None
        finally:
            asking.discard(future)
            if not asking and self._asked.get(write_id) is asking:
                del self._asked[write_id]

    def settle(self, seq: int, answer: MemoryWritten) -> None:
        """Answer all who wait for the write at ``seq``."""
        if answer.cause:
            self._answers[answer.cause] = answer
        while len(self._answers) > KEPT_ANSWERS:
            self._answers.popitem(last=False)
        waiting = [*self._asked.pop(answer.cause, ())]
        if seq in self._expected:
            waiting.append(self._expected.pop(seq))
        for future in waiting:
            if not future.done():
                future.set_result(answer)


MAX_BATCH = 1_000  # The most writes of one batch
MAX_ROWS = 5_000  # The nodes and edges after which a batch is full: more of them take no less time each
PAUSE = 1.0  # Seconds before what failed is tried again: an announcement, or to apply again what was answered

EVERY = 0.1
"""Seconds between two announcements: each is a synced message of the bus, as dear as a small commit."""

log = logger(__name__)


class Announcer:
    """Publishes each graph version, in order and once, also if the daemon was killed before it could."""

    def __init__(self, bus: Bus, confirm: Confirm = alone) -> None:
        self._bus = bus
        self._confirm = confirm
        self.told: Confirm | None = None
        """Called after each announcement."""
        self._events: asyncio.Queue[tuple[GraphVersion, bool]] = asyncio.Queue()

    def put(self, event: GraphVersion, *, replayed: bool = False) -> None:
        """Queue a version whose writes are answered; a ``replayed`` one is not announced a second time."""
        self._events.put_nowait((event, replayed))

    async def run(self, version: int) -> None:
        """Announce what is after the last announcement until cancelled, first ``version``, the store's.

        Commits that follow one another within EVERY seconds are announced together, as the last of them.
        A daemon that was killed between a commit and its announcement no longer knows what the commit
        changed: such a version is announced without kinds, agents and ids.
        """
        announced = await self.last()
        waiting = [(GraphVersion(version=version), True)]
        while True:
            for event, replayed in _join(waiting):
                # A memory rebuilt without what its log no longer has counts from the log's beginning.
                if event.version > announced or not replayed:
                    await self._confirm()
                    commit = partial(self._bus.commit, [seal(subjects.GRAPH_VERSION, event)])
                    await retry_until_taken(
                        commit, pause=PAUSE, event="version_unannounced", version=event.version
                    )
                    announced = event.version
            if self.told is not None:
                await self.told()
            await asyncio.sleep(EVERY)
            waiting = [await self._events.get()]
            while not self._events.empty():
                waiting.append(self._events.get_nowait())

    async def last(self) -> int:
        """The version that was announced last: all up to it is answered; 0 if that is not known."""
        try:
            return await self.read_last()
        except (BusError, ValueError) as error:
            log.warning("announcements_unread", reason=str(error))
            return 0

    async def read_last(self) -> int:
        """The same, but raises BusError or ValueError if it cannot be read."""
        record = await read_record(self._bus, subjects.GRAPH_VERSION, GraphVersion)
        return record.value.version if record else 0


class Batcher:
    """Applies batches of writes, records refusals in the log, and answers all who wait for a write."""

    def __init__(
        self,
        engine: MemoryEngine,
        write_log: WriteLog,
        answers: AnswerRegistry,
        announcer: Announcer,
        confirm: Confirm,
    ) -> None:
        self._confirm = confirm
        self.leads = True
        """Whether what comes of writes is recorded, answered and announced here, not by another process."""
        self._held: list[tuple[GraphVersion, bool]] = []
        """Versions to be announced once all that was refused before them is recorded."""
        self._engine = engine
        self._log = write_log
        self._answers = answers
        self._announcer = announcer
        self._unrecorded: list[tuple[MemoryRefused, str]] = []
        """Refusals and the traces of the writes."""

    async def store(self, batch: list[LoggedWrite], *, replayed: bool = False) -> None:
        """Store writes in their order as one change.

        A write that fails for an unforeseen reason is refused by itself.
        """
        while True:
            try:
                written = await self._engine.write(batch)
                break
            except Exception as error:
                if not self.leads:  # what the writer has, a copy does not leave out
                    raise
                if isinstance(error, ActionError) and batch[-1].judged:
                    await asyncio.sleep(PAUSE)  # the disk is full: what was answered is not to be refused now
                    continue
                if len(batch) == 1:
                    await self._refuse(batch[0], error)
                    return
                for logged in batch:
                    await self.store([logged], replayed=replayed)
                return
        if self.leads:
            await self._confirm()
        traces = {logged.write.id: logged.traceparent for logged in batch}
        if self.leads:
            refusals = [(refused, traces.get(refused.cause, "")) for refused in written.refused]
            self._unrecorded += refusals
            self._held += [(written.event, replayed)] if written.event else []
            await self.record_refusals()
        if not self._unrecorded:
            self._engine.mark_answered(batch[-1].version)
        for logged, answer in zip(batch, written.answers, strict=True):
            self._answers.settle(logged.seq, answer)

    async def record_refusals(self) -> None:
        """Append refusals to the log; what it cannot take now is tried again with the next batch."""
        while self._unrecorded:
            try:
                await self._log.append(*self._unrecorded[0])
            except BusError as error:
                log.warning("refusal_unrecorded", waiting=len(self._unrecorded), reason=str(error))
                return
            self._unrecorded.pop(0)
        for event, replayed in self._held:
            self._announcer.put(event, replayed=replayed)
        self._held.clear()

    async def _refuse(self, logged: LoggedWrite, error: Exception) -> None:
        log.error("write_failed", seq=logged.seq, exc_info=error)
        reason = f"Memory failed to store it ({type(error).__name__}: {error})"
        self._unrecorded.append((MemoryRefused(cause=logged.write.id, error=reason), logged.traceparent))
        await self.record_refusals()
        self._answers.settle(logged.seq, MemoryWritten(cause=logged.write.id, error=reason))


def _join(events: list[tuple[GraphVersion, bool]]) -> list[tuple[GraphVersion, bool]]:
    """The events, those in a row that are not replayed as one, with all that they name."""
    joined: list[tuple[GraphVersion, bool]] = []
    for event, replayed in events:
        if joined and not replayed and not joined[-1][1]:
            before, _ = joined.pop()
            event = amended(
                event,
                kinds=tuple(sorted({*before.kinds, *event.kinds})),
                agents=tuple(sorted({*before.agents, *event.agents})),
                ids=tuple(dict.fromkeys((*before.ids, *event.ids)))[:MAX_EVENT_IDS],
            )
        joined.append((event, replayed))
    return joined
