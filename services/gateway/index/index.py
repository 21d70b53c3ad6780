"""The index as it follows the log, and the messages that were indexed last, for those who follow live."""

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing
from itertools import islice

import msgspec

from services.gateway.index.facts import facts_of
from services.gateway.index.rows import (
    STREAMS,
    Indexed,
    Position,
    goal_record,
    make_row,
    read_letter,
    words_of,
)
from services.gateway.index.store import Filter, Store
from services.gateway.sealing import find_lost
from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.bulk import Span
from shared.bus.client import restored
from shared.contracts import Goal, MemoryForgotten, MessagesErased, StateChanged, generate_iso_timestamp
from shared.errors import BusError, BusUnavailable
from shared.log import logger
from shared.queries.pieces import make_piece
from shared.queries.records import last_sequence, scan
from shared.queries.seals import CUTS, Cut
from shared.trail.archives import Archive, read_archives, read_erasures, read_log
from shared.views.timeline import MessageRow

RECENT = 1_000  # Messages that are kept


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as those who follow live get it; ``goal`` is what a record of a goal says."""

    message: MessageRow
    goal: Goal | None = None


class Recent(msgspec.Struct, frozen=True):
    """A message that was indexed lately, with its encoded Event."""

    position: Position
    row: MessageRow
    data: bytes


def make_recent(position: Position, row: MessageRow, record: StateChanged | None = None) -> Recent:
    """A message with its event."""
    event = Event(message=row, goal=record.goal if record else None)
    return Recent(position, row, msgspec.json.encode(event))


class RecentMessages:
    """The last messages, numbered as they came, so that a follower finds the next at once."""

    def __init__(self, position: Position) -> None:
        self._kept: deque[Recent] = deque(maxlen=RECENT)
        self._before = position
        """The position before the first of them."""
        self.end = 0
        """The number of the next message."""

    @property
    def first(self) -> int:
        """The number of the first message that is kept."""
        return self.end - len(self._kept)

    def add(self, messages: Iterable[Recent]) -> None:
        """Add the next messages, and forget the oldest."""
        for each in messages:
            if len(self._kept) == RECENT:
                self._before = self._kept[0].position
            self._kept.append(each)
            self.end += 1

    def skip(self, count: int, position: Position) -> None:
        """Count messages that are not kept, up to a position, and forget those before them."""
        self._kept.clear()
        self._before = position
        self.end += count

    def reach(self, after: Position) -> bool:
        """Whether everything after a position is kept."""
        return self._before.joined(after) == after

    def since(self, number: int | None, limit: int) -> tuple[list[Recent], int] | None:
        """The first messages from ``number`` on, and the number of the one after them.

        None without a number, or if they are not kept any more.
        """
        if number is None or not self.first <= number <= self.end:
            return None
        found = list(islice(reversed(self._kept), self.end - number))[::-1][:limit]
        return found, number + len(found)


ARRIVED = 4_000  # Live messages that wait at most to be indexed: what is beyond that is read from the streams
INTERVAL = 0.05  # Seconds for which what arrives is collected before it is indexed and passed on
RETRY = 1.0  # Seconds until the log is read again after an error
SILENCE = 5.0
"""Seconds after which the log is looked at although nothing was heard: live messages may get lost."""
COMPLETE_WAIT = 10.0  # Seconds that a request waits which wants all of the log
PAGE = 500

_RECORDS: dict[str, tuple[type[MemoryForgotten | MessagesErased], str]] = {
    subjects.memory_write(subjects.MEMORY_DAEMON): (MemoryForgotten, subjects.MEMORY),
    subjects.ERASED: (MessagesErased, subjects.OFFICE),
}
"""What says that messages were erased, and the stream of those, by its subject."""
_ERASURES = (b'"memory_forgotten.v1"', b'"gone":[')

log = logger(__name__)


class _Renewal(Exception):
    """The index is to be made again, for this reason."""


class _CutOff(Exception):
    """A stream has lost messages that are indexed."""

    def __init__(self, stream: str, first: int, last: int) -> None:
        super().__init__(stream)
        self.cut = Cut(stream=stream, first=first, last=last, found_at=generate_iso_timestamp())


class LogIndex:
    """The log in a Store, complete and in order, and the clients that follow them.

    What the server publishes again only tells that there is something; what is indexed is read from the
    streams, so that nothing is missed or taken twice.
    """

    def __init__(self, bus: Bus, store: Store) -> None:
        self.store = store
        self._bus = bus
        self._position = store.position()
        self._recent = RecentMessages(self._position)
        self._heard = asyncio.Event()
        self._changed = asyncio.Event()
        self._arrived: list[Stored] = []
        self._archives: list[Archive] = []
        self._indexed: set[str] = set()
        """The names of the bundles whose messages are indexed as far as they can be read."""
        self.listeners: list[Callable[[Stored], None]] = []
        """What else is told of each message as it is stored."""
        self.behind = 0
        """How many messages of the log are not indexed yet."""
        self.problem = ""
        """Why nothing can be indexed at present, such as a full disk; it is tried again and again."""

    @property
    def position(self) -> Position:
        """How far the log is indexed."""
        return self._position

    async def run(self) -> None:
        """Index what there is and what comes; runs until cancelled."""
        await self._bus.follow_log(self._hear)
        while True:
            try:
                await self._catch_up()
                await self._follow()
            except _Renewal as reason:
                log.info("index_renewed", reason=str(reason))
                self._renew()
            except _CutOff as found:
                # What a stream lost is put on record, then what it has is indexed.
                log.error("log_cut_off", reason=str(found.cut), next="restore a backup if you need them")
                try:
                    with (self.store.path.parent / CUTS).open("ab") as file:
                        file.write(msgspec.json.encode(found.cut) + b"\n")
                except OSError as error:  # a full disk: the index follows the log all the same
                    log.error("cut_not_noted", reason=str(error))
                self._renew()
            except (BusError, OSError) as error:
                log.warning("index_interrupted", reason=str(error))
                await asyncio.sleep(RETRY)
            except sqlite3.Error as error:
                self._note_problem(error)
                await asyncio.sleep(RETRY)

    def _note_problem(self, error: sqlite3.Error) -> None:
        """Say why nothing is indexed; a file that is damaged is rebuilt, for the log has all it held."""
        if not self.problem:
            log.error("index_unwritable", reason=str(error), path=str(self.store.path))
        self.problem = str(error)
        if type(error) is sqlite3.DatabaseError:  # the others have classes of their own
            self._renew()
        self._wake()

    def _hear(self, stored: Stored) -> None:
        if len(self._arrived) == ARRIVED:
            self._arrived.clear()  # the next one has a gap before it, and the streams are read
        self._arrived.append(stored)
        self._heard.set()
        for listener in self.listeners:
            listener(stored)

    async def _catch_up(self) -> None:
        """Read what the streams hold beyond the position, up to their present ends, by time."""
        ends = await self._read_ends()
        for stream in STREAMS:
            await self._compare_end(stream, ends.of(stream))
        self._archives = await read_archives(self._bus)
        await self._look_for_bundles()
        self.behind = sum(max(0, ends.of(each) - self._position.of(each)) for each in STREAMS)
        async with AsyncExitStack() as stack:
            sources = []
            for stream in STREAMS:
                start, end = self._position.of(stream) + 1, ends.of(stream)
                if start <= end:
                    pages = read_log(self._bus, stream, start, end, archives=self._archives)
                    sources.append(_Messages(await stack.enter_async_context(aclosing(pages))))
            while page := await _merge(sources):
                self._take(page)
                self.behind = max(0, self.behind - len(page))
                await asyncio.sleep(0)
        self._position = self._position.joined(ends)  # the last messages may have been removed
        self.behind = 0
        self.problem = ""
        self._wake()

    async def _read_ends(self) -> Position:
        return Position(*[await last_sequence(self._bus, stream) for stream in STREAMS])

    async def _compare_end(self, stream: str, end: int) -> None:
        """Raise _CutOff if a stream, of which ``end`` is the last message, lost some that are indexed.

        It may have grown beyond the old end since: then there are others in the place of these.
        """
        known = self._position.of(stream)
        if end >= known:
            last = [each async for each in scan(self._bus, stream, seq=known, until=known)] if known else []
            if not known or (last and not self._is_other(last[0])):
                return

        async def find_others(found: Sequence[Stored]) -> list[int]:
            return [each.seq for each in found if self._is_other(each)]

        reader = self._bus.bulk_reader()
        try:
            lost = await find_lost(reader, Span(stream, ">", 1, end), known, find_others)
        finally:
            await reader.close()
        if lost:
            raise _CutOff(stream, lost, known)

    async def _look_for_bundles(self) -> None:
        """Raise _Renewal if a bundle is back that was away when the index was made."""
        for archive in self._archives:
            order = archive.order
            if not archive.is_here:
                self._indexed.discard(order.bundle)
            elif order.bundle not in self._indexed and self._position.office >= order.last:
                self._indexed.add(order.bundle)
                missing = order.count - self.store.count_between(order.first, order.last)
                if missing > 0:
                    leaves = (await read_erasures(self._bus, subjects.OFFICE)).leaves
                    missing -= sum(order.first <= seq <= order.last for seq in leaves)
                if missing > 0:
                    raise _Renewal(f"the bundle {order.bundle} is back")

    def _is_other(self, stored: Stored) -> bool:
        """Whether another message, of another time, is indexed at the place of this one."""
        row = self.store.message(stored.stream, stored.seq)
        return row is not None and row.time != restored(stored).time

    async def _follow(self) -> None:
        """Take what arrives as long as it has no gap; returns when the streams must be read."""
        looked = time.monotonic()
        while True:
            if time.monotonic() - looked > SILENCE:
                await self._look_for_bundles()
                looked = time.monotonic()
            try:
                async with asyncio.timeout(SILENCE):
                    await self._heard.wait()
            except TimeoutError:
                if await self._read_ends() != self._position:
                    return
                continue
            await asyncio.sleep(INTERVAL)
            self._heard.clear()
            arrived, self._arrived = self._arrived, []
            if not self._take_following(arrived):
                return

    def _take_following(self, arrived: Iterable[Stored]) -> bool:
        """Take what follows without a gap; whether that was everything."""
        following: list[Stored] = []
        known: dict[str, Stored] = {}
        position = self._position
        for stored in arrived:
            if self._position.includes(stored.stream, stored.seq):
                known[stored.stream] = stored
            if position.includes(stored.stream, stored.seq):
                continue
            if stored.seq != position.of(stored.stream) + 1:
                break
            position = position.after(stored)
            following.append(stored)
        else:
            if not any(map(self._is_other, known.values())):
                self._take(following)
                return True
            following.clear()  # the stream lost its end, and grows again
        self._take(following)
        return False

    def _take(self, messages: Sequence[Stored]) -> None:
        """Index messages and pass them on: all, or with an error none."""
        rows, recent, position = [], [], self._position
        private: dict[str, str] = {}
        for stored in messages:
            if position.includes(stored.stream, stored.seq):
                continue
            position = position.after(stored)
            stored = restored(stored)
            audience, header = self.store.find_audience(stored, private)
            if header:
                private |= {key: audience for key in (header.id, header.task_id) if key}
            row, record = make_row(stored, position, audience), goal_record(stored)
            words, letter, piece = words_of(stored, row), read_letter(stored), make_piece(stored)
            rows.append(Indexed(row, words, record, letter, piece, facts_of(stored), header))
            recent.append((position, row, record))
        if rows:
            self.store.add(rows)
            self._position = position
            if self.behind > RECENT:
                self._recent.skip(len(recent), position)
            else:
                self._recent.add(make_recent(*each) for each in recent)
            self._wake()
        if any(map(self._is_erasure, messages)):
            raise _Renewal("messages were erased")

    def _is_erasure(self, stored: Stored) -> bool:
        """Whether a message says that others were erased which are indexed."""
        kind, stream = _RECORDS.get(stored.subject, (None, ""))
        if kind is None or not any(mark in stored.data for mark in _ERASURES):
            return False
        try:
            record = kind.from_json(stored.data)
        except (ValueError, RecursionError):
            return False
        gone = record.gone if isinstance(record, MessagesErased) else record.seqs
        return any(self.store.message(stream, seq) for seq in gone)

    def _renew(self) -> None:
        """Rebuild the index from what the log has now."""
        self.store.renew()
        self._position = Position()
        self._recent.skip(1, self._position)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self) -> None:
        """Return when more is indexed."""
        await self._changed.wait()

    async def wait_until_complete(self) -> None:
        """Return when all is indexed that the log holds now; raises BusUnavailable after COMPLETE_WAIT."""
        ends = await self._read_ends()
        try:
            async with asyncio.timeout(COMPLETE_WAIT):
                while self._position.joined(ends) != self._position:
                    await self._changed.wait()
        except TimeoutError:
            behind = f"{self.behind:,} messages of the log" if self.behind else "the end of the log"
            raise BusUnavailable(
                f"The gateway has not read {behind} yet", self.problem or "Try again in a moment"
            ) from None

    async def events(self, after: Position, wanted: Filter) -> AsyncGenerator[list[Recent], None]:
        """The messages after a position that ``wanted`` admits, without end, none missing and none twice.

        They come in pages of PAGE at most: nothing is collected for a follower who is slow.
        """
        number: int | None = None
        while True:
            changed = self._changed
            page, reached, number = self._page(after, number, wanted)
            if found := [each for each in page if wanted.matches(each.row)]:
                yield found
            elif reached == after and number in (None, self._recent.end):
                await changed.wait()
            else:
                await asyncio.sleep(0)
            after = reached

    def _page(
        self, after: Position, number: int | None, wanted: Filter
    ) -> tuple[list[Recent], Position, int | None]:
        """What follows ``after``, the position up to which that reaches, and the number of the next one."""
        recent = self._recent
        newer = recent.since(recent.first if number is None and recent.reach(after) else number, PAGE)
        if newer is not None:
            messages, following = newer
            reached = after.joined(messages[-1].position) if messages else after
            page = [each for each in messages if not after.includes(each.row.stream, each.row.seq)]
            return page, reached, following
        rows = self.store.messages(msgspec.structs.replace(wanted, text=""), after=after, limit=PAGE)
        found = [make_recent(Position.parse(row.position), row) for row in rows]
        return found, after.joined(found[-1].position if len(found) == PAGE else self._position), None


class _Messages:
    """A stream's messages, of which the next can be looked at."""

    def __init__(self, pages: AsyncGenerator[list[Stored], None]) -> None:
        self._pages = pages
        self._page: deque[Stored] = deque()

    async def peek(self) -> Stored | None:
        """The next message, None at the end."""
        while not self._page:
            page = await anext(self._pages, None)
            if page is None:
                return None
            self._page.extend(page)
        return self._page[0]

    def take(self) -> Stored:
        """Take the next message."""
        return self._page.popleft()


async def _merge(sources: Iterable[_Messages]) -> list[Stored]:
    """The next messages of all sources, those stored earlier first; none at the end."""
    merged: list[Stored] = []
    while len(merged) < PAGE:
        heads = [(head, source) for source in sources if (head := await source.peek())]
        if not heads:
            break
        # The server omits trailing zeros of a fraction.
        _, earliest = min(heads, key=lambda pair: pair[0].time.rstrip("Z"))
        merged.append(earliest.take())
    return merged
