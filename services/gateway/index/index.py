"""The index as it follows the log."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, aclosing

import msgspec

from services.gateway.index.facts import facts_of
from services.gateway.index.letters import read_letter
from services.gateway.index.rows import (
    STREAMS,
    Indexed,
    MessageRow,
    Position,
    goal_record,
    make_row,
    spending_record,
    words_of,
)
from services.gateway.index.store import Filter, Store
from shared import subjects
from shared.bus import Bus, Stored
from shared.contracts import Goal
from shared.errors import BusError
from shared.log import logger
from shared.queries.pieces import make_piece
from shared.queries.records import last_sequence

RECENT = 4_000
"""Messages that are kept encoded for those who follow live."""
INTERVAL = 0.05
"""Seconds for which what arrives is collected before it is indexed and passed on."""
RETRY = 1.0
"""Seconds until the log is read again after an error."""
SILENCE = 5.0
"""Seconds after which the log is looked at although nothing was heard: live messages may get lost."""
PAGE = 500

log = logger(__name__)


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as those who follow live get it; ``goal`` is what a record of a goal says."""

    message: MessageRow
    goal: Goal | None = None


class Recent(msgspec.Struct, frozen=True):
    """A message that was indexed lately, with its encoded Event."""

    position: Position
    row: MessageRow
    data: bytes


class LogIndex:
    """The audit streams in a Store, complete and in order, and the clients that follow them.

    The server's live copies only tell that there is something; what is indexed is read from the streams, so
    that nothing is missed or taken twice.
    """

    def __init__(self, bus: Bus, store: Store) -> None:
        self.store = store
        self._bus = bus
        self._position = store.position()
        self._recent: deque[Recent] = deque(maxlen=RECENT)
        self._oldest = self._position
        """The position before the messages in ``_recent``."""
        self._heard = asyncio.Event()
        self._changed = asyncio.Event()
        self._arrived: list[Stored] = []
        self.behind = 0
        """How many messages of the log are not indexed yet."""

    @property
    def position(self) -> Position:
        """How far the log is indexed."""
        return self._position

    async def run(self) -> None:
        """Index what there is and what comes; runs until cancelled."""
        await self._bus.subscribe(subjects.AUDIT_ALL, self._hear)
        while True:
            try:
                await self._catch_up()
                await self._follow()
            except (BusError, OSError) as error:
                log.warning("index_interrupted", reason=str(error))
                await asyncio.sleep(RETRY)

    async def _hear(self, _: str, payload: bytes, headers: dict[str, str]) -> None:
        self._arrived.append(
            Stored(
                headers["Nats-Stream"],
                headers["Nats-Subject"],
                int(headers["Nats-Sequence"]),
                payload,
                {},
                headers["Nats-Time-Stamp"],
            )
        )
        self._heard.set()

    async def _catch_up(self) -> None:
        """Read what the streams hold beyond the position, up to their present ends, by time."""
        ends = [await last_sequence(self._bus, stream) for stream in STREAMS]
        self.behind = sum(max(0, end - self._position.of(s)) for s, end in zip(STREAMS, ends, strict=True))
        async with AsyncExitStack() as stack:
            sources = []
            for stream, end in zip(STREAMS, ends, strict=True):
                if (start := self._position.of(stream) + 1) <= end:
                    pages = self._bus.read_all(stream, start, end)
                    sources.append(_Messages(await stack.enter_async_context(aclosing(pages))))
            while page := await _merge(sources):
                self._take(page)
                self.behind = max(0, self.behind - len(page))
                await asyncio.sleep(0)
        self.behind = 0

    async def _follow(self) -> None:
        """Take what arrives as long as it has no gap; returns when the streams must be read."""
        while True:
            try:
                async with asyncio.timeout(SILENCE):
                    await self._heard.wait()
            except TimeoutError:
                if await self._is_behind():
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
        position = self._position
        for stored in arrived:
            if position.includes(stored.stream, stored.seq):
                continue
            if stored.seq != position.of(stored.stream) + 1:
                break
            position = position.after(stored)
            following.append(stored)
        else:
            self._take(following)
            return True
        self._take(following)
        return False

    async def _is_behind(self) -> bool:
        ends = [await last_sequence(self._bus, stream) for stream in STREAMS]
        return Position(*ends) != self._position

    def _take(self, messages: Iterable[Stored]) -> None:
        rows, position = [], self._position
        for stored in messages:
            if position.includes(stored.stream, stored.seq):
                continue
            position = position.after(stored)
            row, record = make_row(stored, position), goal_record(stored)
            words, spent = words_of(stored, row), spending_record(stored)
            letter, piece = read_letter(stored), make_piece(stored)
            rows.append(Indexed(row, words, record, spent, letter, piece, facts_of(stored)))
            event = Event(message=row, goal=record.goal if record else None)
            if len(self._recent) == RECENT:
                self._oldest = self._recent[0].position
            self._recent.append(Recent(position, row, msgspec.json.encode(event)))
        if rows:
            self.store.add(rows)
            self._position = position
            self._changed.set()
            self._changed = asyncio.Event()

    async def wait_for_change(self) -> None:
        """Return when more is indexed."""
        await self._changed.wait()

    async def events(self, after: Position, wanted: Filter) -> AsyncGenerator[list[Recent], None]:
        """The messages after a position that ``wanted`` admits, without end, none missing and none twice."""
        while True:
            changed = self._changed
            batch, reached = self._batch(after)
            if found := [each for each in batch if wanted.matches(each.row)]:
                yield found
            if not batch:
                await changed.wait()
            after = after.joined(reached)

    def _batch(self, after: Position) -> tuple[list[Recent], Position]:
        """What follows ``after``, and the position up to which that reaches."""
        if self._recent and self._oldest.joined(after) == after:
            newer = [each for each in self._recent if not after.includes(each.row.stream, each.row.seq)]
            return newer, self._position
        rows = self.store.messages(Filter(), after=after, limit=PAGE)
        found = [
            Recent(Position.parse(row.position), row, msgspec.json.encode(Event(message=row))) for row in rows
        ]
        return found, found[-1].position if found else after


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
