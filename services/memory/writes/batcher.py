"""Batches of writes: applied as one change each, answered, announced; the registry of answers."""

import asyncio
from collections import OrderedDict
from functools import partial

from services.memory.engine import MemoryEngine
from services.memory.writes.change import LoggedWrite
from services.memory.writes.write_log import WriteLog
from services.memory.writes.writer import MAX_EVENT_IDS
from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import read_record, retry_until_taken
from shared.contracts import GraphVersion, MemoryRefused, MemoryWritten
from shared.contracts.base import amended
from shared.errors import ActionError, BusError
from shared.log import logger

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

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
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
                    commit = partial(self._bus.commit, [seal(subjects.GRAPH_VERSION, event)])
                    await retry_until_taken(
                        commit, pause=PAUSE, event="version_unannounced", version=event.version
                    )
                    announced = event.version
            await asyncio.sleep(EVERY)
            waiting = [await self._events.get()]
            while not self._events.empty():
                waiting.append(self._events.get_nowait())

    async def last(self) -> int:
        """The version that was announced last: all up to it is answered; 0 if that is not known."""
        try:
            record = await read_record(self._bus, subjects.GRAPH_VERSION, GraphVersion)
        except (BusError, ValueError) as error:
            log.warning("announcements_unread", reason=str(error))
            return 0
        return record.value.version if record else 0


class Batcher:
    """Applies batches of writes, records refusals in the log, and answers all who wait for a write."""

    def __init__(
        self, engine: MemoryEngine, write_log: WriteLog, answers: AnswerRegistry, announcer: Announcer
    ) -> None:
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
                if isinstance(error, ActionError) and batch[-1].judged:
                    await asyncio.sleep(PAUSE)  # the disk is full: what was answered is not to be refused now
                    continue
                if len(batch) == 1:
                    await self._refuse(batch[0], error)
                    return
                for logged in batch:
                    await self.store([logged], replayed=replayed)
                return
        traces = {logged.write.id: logged.traceparent for logged in batch}
        self._unrecorded += [(refused, traces.get(refused.cause, "")) for refused in written.refused]
        await self.record_refusals()
        if not self._unrecorded:
            self._engine.mark_answered(batch[-1].version)
        for logged, answer in zip(batch, written.answers, strict=True):
            self._answers.settle(logged.seq, answer)
        if written.event is not None:
            self._announcer.put(written.event, replayed=replayed)

    async def record_refusals(self) -> None:
        """Append refusals to the log; what it cannot take now is tried again with the next batch."""
        while self._unrecorded:
            try:
                await self._log.append(*self._unrecorded[0])
            except BusError as error:
                log.warning("refusal_unrecorded", waiting=len(self._unrecorded), reason=str(error))
                return
            self._unrecorded.pop(0)

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
