"""The sealer: seals over the messages of the log, so that nothing before one can be changed unnoticed."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from services.gateway.trail.lost_ends import find_lost
from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.bulk import BulkReader, Span
from shared.bus.entry import seal as make_entry
from shared.contracts import Seal
from shared.errors import BusError, Conflict
from shared.log import logger
from shared.queries.records import last_sequence
from shared.trail.erasures import read_erasures
from shared.trail.leaf import make_leaf
from shared.trail.seals import MARK, NO_MARK, SPAN, find_void, make_seal, marks_of, parse_seal, read_seals

INTERVAL = 60.0
"""Seconds after which what was written is sealed, however little it is."""
PAUSE = 1.0
"""Seconds for which what arrives is collected."""
SILENCE = 10.0
"""Seconds after which the streams are looked at although nothing was heard."""
RETRY = 5.0
ARRIVED, ARRIVED_BYTES = 8_000, 16 * 1024 * 1024
"""Messages, and their bytes, that wait at most as they were heard."""
LARGE = 1024 * 1024
"""The bytes of messages that are hashed in another thread."""
READ_TIMEOUT = 30.0

log = logger(__name__)


class _StreamSealer:
    """Seals one stream. ``sealed`` is the last seal, of whichever process."""

    def __init__(self, bus: Bus, stream: str) -> None:
        self.sealed: Seal | None = None
        self._bus, self._stream = bus, stream
        self._arrived: list[Stored] = []
        self._size = 0
        self._place = 0
        """Where the last seal stands in OFFICE."""
        self._leaves: list[bytes | None] = []
        self._waiting_since = 0.0
        """When the first message that is no seal was read since the last one; 0 if there is none."""

    async def load(self, reader: BulkReader) -> None:
        """Begin after the last seal that there is; put on record what the stream lost of what was sealed."""
        stored = await self._bus.last(subjects.OFFICE, subjects.seal(self._stream))
        self.sealed = parse_seal(stored.data, self._stream) if stored else None
        self._place = stored.seq if stored else 0
        self._leaves, self._waiting_since = [], 0.0
        if stored is not None and self.sealed is None:
            raise BusError(f"The last seal of {self._stream}, number {stored.seq} of OFFICE, cannot be read")
        if self.sealed is not None:
            await self._find_loss(reader, self.sealed)

    async def _find_loss(self, reader: BulkReader, last: Seal) -> None:
        """Compare the end of what was sealed with what there is; if that is not there any more, or others
        are, seal what is left of it in a way that says so.
        """
        known = {last.number: last}
        marks = dict(enumerate(marks_of(last), last.first))

        async def find_others(found: Sequence[Stored]) -> list[int]:
            if found and found[0].seq < min(marks, default=last.last + 1):
                known.update(await self._read_standing())
                for each in known.values():
                    marks.update(enumerate(marks_of(each), each.first))
            wanted = [marks.get(each.seq, NO_MARK) for each in found]
            leaves = [make_leaf(each)[:MARK] for each in found]
            compared = zip(found, wanted, leaves, strict=True)
            return [each.seq for each, mark, leaf in compared if mark not in (NO_MARK, leaf)]

        there = Span(self._stream, ">", 1, await last_sequence(self._bus, self._stream))
        lost = await find_lost(reader, there, last.last, find_others)
        if not lost:
            return
        standing = known | await self._read_standing()
        first = next((each.first for each in standing.values() if each.first <= lost <= each.last), lost)
        left: list[Stored] = []
        async for page in reader.read(there._replace(start=first, end=lost - 1), READ_TIMEOUT):
            left += page
        lost = min(await find_others(left), default=lost)
        made = (await read_erasures(self._bus, self._stream)).leaves | _make_leaves(left)
        leaves = [made.get(seq) for seq in range(first, lost)]
        log.error("end_of_log_lost", stream=self._stream, first=lost, last=last.last)
        await self._commit(make_seal(self._stream, last, leaves, self._bus.name, first))

    async def _read_standing(self) -> dict[int, Seal]:
        """All seals by their numbers, without those over what was lost before."""
        void = await find_void(self._bus, self._stream)
        seals = [seal async for _, seal in read_seals(self._bus, self._stream) if seal is not None]
        return {seal.number: seal for seal in seals if seal.number not in void}

    def hear(self, stored: Stored) -> None:
        """Take a message as it is stored; of more than ARRIVED the streams are read."""
        self._size += len(stored.data)
        if len(self._arrived) == ARRIVED or self._size > ARRIVED_BYTES:
            self._arrived, self._size = [], len(stored.data)
        self._arrived.append(stored)

    async def advance(self, reader: BulkReader, *, look: bool) -> None:
        """Take what is new, and seal what is to be sealed by now; ``look`` for what was not heard."""
        arrived, self._arrived, self._size = self._arrived, [], 0
        new = [stored for stored in arrived if stored.seq > self._reached]
        if look or (new and (new[0].seq != self._reached + 1 or new[-1].seq - new[0].seq + 1 != len(new))):
            await self._read(reader)
        elif new:
            await self._take(new)
        if self.due_in() <= 0:
            await self._seal(len(self._leaves))

    async def _read(self, reader: BulkReader) -> None:
        """Read from the stream what follows."""
        end, start = await last_sequence(self._bus, self._stream), self._reached + 1
        if start > end + 1:
            raise BusError(f"The last seal of {self._stream} covers messages that there are not: {start - 1}")
        if start <= end:
            async for page in reader.read(Span(self._stream, ">", start, end), READ_TIMEOUT):
                await self._take(page)

    async def _take(self, page: Sequence[Stored]) -> None:
        self._leaves += await self._leaves_of(page)
        while len(self._leaves) >= SPAN:
            await self._seal(SPAN)

    def due_in(self) -> float:
        """Seconds until what was read is to be sealed; endless if it is nothing but seals."""
        if not self._waiting_since:
            return float("inf")
        return self._waiting_since + INTERVAL - time.monotonic()

    @property
    def _reached(self) -> int:
        return (self.sealed.last if self.sealed else 0) + len(self._leaves)

    async def _leaves_of(self, page: Sequence[Stored]) -> list[bytes | None]:
        """The commitments to a page of messages, and to what was erased between them."""
        if sum(len(stored.data) for stored in page) > LARGE:
            made = await asyncio.to_thread(_make_leaves, page)
        else:
            made = _make_leaves(page)
        first, last = self._reached + 1, page[-1].seq
        if len(made) < last - first + 1:  # the record of an erasure comes before it
            made = (await read_erasures(self._bus, self._stream)).leaves | made
        if not self._waiting_since and not all(stored.subject.startswith("seal.") for stored in page):
            self._waiting_since = time.monotonic()
        return [made.get(seq) for seq in range(first, last + 1)]

    async def _seal(self, number: int) -> None:
        """Seal the next messages; raises Conflict if another process did so first."""
        await self._commit(make_seal(self._stream, self.sealed, self._leaves[:number], self._bus.name))
        self._leaves = self._leaves[number:]
        # What is left came within one reading: it is sealed later than it might be, by seconds.
        self._waiting_since = time.monotonic() if self._leaves else 0.0

    async def _commit(self, seal: Seal) -> None:
        subject = subjects.seal(self._stream)
        (self._place,) = await self._bus.commit([make_entry(subject, seal, expect=self._place)])
        self.sealed = seal


def _make_leaves(page: Sequence[Stored]) -> dict[int, bytes]:
    return {stored.seq: make_leaf(stored) for stored in page}


class Sealer:
    """Follows both streams of the log. One process at a time seals: each seal names the one before it.

    It is told of messages as they are stored (``hear``), and reads from the streams what it did not hear.
    ``changed`` returns when there may be something new; ``sealed`` are the last seals.
    """

    def __init__(self, bus: Bus, changed: Callable[[], Awaitable[None]]) -> None:
        self._bus, self._changed = bus, changed
        self._streams = [_StreamSealer(bus, stream) for stream in subjects.LOG]
        self._by_name = dict(zip(subjects.LOG, self._streams, strict=True))
        self._told = asyncio.Event()

    @property
    def sealed(self) -> list[Seal]:
        """The last seal of each stream that has one."""
        return [each.sealed for each in self._streams if each.sealed is not None]

    def hear(self, stored: Stored) -> None:
        """Take a message as it is stored."""
        self._by_name[stored.stream].hear(stored)

    async def wait(self) -> None:
        """Return when there is a new seal."""
        await self._told.wait()

    async def run(self) -> None:
        """Seal until cancelled; what fails is tried again."""
        while True:
            reader = self._bus.bulk_reader()
            try:
                await self._follow(reader)
            except Conflict:
                log.info("another_process_seals")
            except (BusError, OSError) as error:
                log.warning("not_sealed_yet", reason=str(error))
            except Exception:  # the log is to be sealed all the same
                log.exception("sealing_failed")
            finally:
                await reader.close()
            await asyncio.sleep(RETRY)

    async def _follow(self, reader: BulkReader) -> None:
        for each in self._streams:
            await each.load(reader)
        look = True
        while True:
            before = self.sealed
            for each in self._streams:
                await each.advance(reader, look=look)
            if self.sealed != before:
                self._told.set()
                self._told = asyncio.Event()
            due = min(each.due_in() for each in self._streams)
            try:
                async with asyncio.timeout(max(0.0, min(SILENCE, due))):
                    await self._changed()
                    await asyncio.sleep(PAUSE)
                look = False
            except TimeoutError:
                look = True
