"""What of OFFICE was archived or erased, by whose order, and reading the log with it."""

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.bulk import Span
from shared.contracts import ArchiveOrder, MemoryWrite, MessagesErased
from shared.errors import MailroomError, NotFound
from shared.log import logger
from shared.queries.records import scan
from shared.text.times import parse_time
from shared.trail.bundle_file import Item, read_items
from shared.views.timeline import ArchivedPart

PAGE = 1_000
AT_ONCE = 20  # Messages that are read from the server at the same time
log = logger(__name__)


class Archive(NamedTuple):
    """A part of OFFICE that a person had archived: the order, and where its bundle is or should be."""

    order: ArchiveOrder
    path: Path

    @property
    def is_here(self) -> bool:
        """Whether the bundle is a file here."""
        return self.path.is_file()

    @property
    def span(self) -> str:
        """The messages that lie in it."""
        return f"{subjects.OFFICE} {self.order.first:,} to {self.order.last:,}"

    @property
    def absence(self) -> str:
        """That the bundle is not here, in a sentence without its end."""
        return f"{self.span} lie in the bundle {self.path.name}, which is not in {self.path.parent}"

    def require_here(self) -> None:
        """Raise NotFound if the bundle is not here."""
        if not self.is_here:
            raise NotFound(self.absence, "Put it there, or name its folder with --bundles")


async def read_archives(bus: Bus, folder: Path | None = None) -> list[Archive]:
    """The archived parts of OFFICE, in order; a bundle is in ``folder``, or else where it was written.

    An order that does not follow the one before it is none.
    """
    found: list[Archive] = []
    async for stored in scan(bus, subjects.OFFICE, subjects.archive(subjects.OFFICE)):
        try:
            order = ArchiveOrder.from_json(stored.data)
        except (ValueError, RecursionError):
            continue
        if order.first == (found[-1].order.last + 1 if found else 1) and order.last >= order.first:
            place = Path(order.folder, order.bundle)
            other = folder / place.name if folder else place
            found.append(Archive(order, other if other.is_file() else place))
    return found


async def pages_of(path: Path) -> AsyncGenerator[list[Item], None]:
    """What a bundle has, page by page, read in another thread; raises ActionError if it cannot be read."""
    items = read_items(path)
    while page := await asyncio.to_thread(lambda: list(itertools.islice(items, PAGE))):
        yield page


@lru_cache(maxsize=64)
def _pattern(subject: str) -> re.Pattern[str]:
    escaped = re.escape(subject).replace(r"\*", "[^.]+")
    return re.compile(f"{escaped[:-1]}.+" if subject.endswith(">") else escaped)


async def read_log(
    bus: Bus,
    stream: str,
    start: int,
    end: int,
    *,
    subject: str = ">",
    headers: bool = False,
    timeout: float = 5.0,
    archives: Sequence[Archive] | None = None,
    whole: bool = False,
) -> AsyncGenerator[list[Stored], None]:
    """The messages of a stream as ``Bus.read_all`` has them, those in bundles too.

    Of a bundle that is away, or cannot be read, there is what the server still has; if it has to be
    ``whole``, that raises NotFound or ActionError instead. ``archives`` are those that are known.
    """
    known = () if stream != subjects.OFFICE else await read_archives(bus) if archives is None else archives
    fits = _pattern(subject).fullmatch
    for each in known:
        last = min(each.order.last, end)
        if not each.order.first <= start <= last:
            continue
        try:
            each.require_here()
            async for items in pages_of(each.path):
                found = [item for item in items if isinstance(item, Stored) and start <= item.seq <= last]
                if found := [item for item in found if fits(item.subject)]:
                    start = found[-1].seq + 1
                    yield [item._replace(block=b"") for item in found] if headers else found
        except MailroomError as error:
            if whole:
                raise
            log.info("bundle_not_read", reason=str(error))
            async for page in _read_server(bus, Span(stream, subject, start, last, headers), timeout):
                yield page
        start = last + 1
    async for page in _read_server(bus, Span(stream, subject, start, end, headers), timeout):
        yield page


async def _read_server(bus: Bus, span: Span, timeout: float) -> AsyncGenerator[list[Stored], None]:
    if span.start <= span.end:
        reader = bus.bulk_reader()
        try:
            async for page in reader.read(span, timeout):
                yield page
        finally:
            await reader.close()


async def scan_log(
    bus: Bus, stream: str, subject: str = ">", *, seq: int = 1, since: datetime | None = None, until: int = 0
) -> AsyncGenerator[Stored, None]:
    """The messages of a stream as ``scan`` has them, those in bundles that are here too."""
    for archive in await read_archives(bus) if stream == subjects.OFFICE else ():
        is_wanted = archive.order.last >= seq and not (until and archive.order.first > until)
        if not is_wanted or (since and parse_time(archive.order.until) < since) or not archive.is_here:
            continue
        first, last = max(seq, archive.order.first), min(until or archive.order.last, archive.order.last)
        pages = read_log(bus, stream, first, last, subject=subject, headers=True, archives=[archive])
        async with aclosing(pages) as found:
            async for page in found:
                for stored in page:
                    if since is None or parse_time(stored.time) >= since:
                        yield stored
        seq = last + 1
    if until and seq > until:
        return
    async with aclosing(scan(bus, stream, subject, seq=seq, since=since, until=until)) as left:
        async for stored in left:
            if stored.seq >= seq:
                yield stored


async def read_message(bus: Bus, stream: str, seq: int) -> Stored | None:
    """The message with this sequence, from the server or a bundle that is here; None if there is none."""
    if seq >= 2**63:  # the server cannot parse such a number
        return None
    async with aclosing(scan(bus, stream, seq=seq, until=seq)) as found:
        async for stored in found:
            return stored
    async with aclosing(scan_log(bus, stream, seq=seq, until=seq)) as archived:
        async for stored in archived:
            return stored
    return None


async def find_archive(bus: Bus, stream: str, seq: int) -> Archive | None:
    """The archived part in which a message lies, if it is in one."""
    archives = await read_archives(bus) if stream == subjects.OFFICE else []
    return next((each for each in archives if each.order.first <= seq <= each.order.last), None)


async def read_messages(bus: Bus, stream: str, seqs: Collection[int]) -> dict[int, Stored]:
    """Those messages that there are; each bundle that is here and has some of them is read once."""
    slots = asyncio.Semaphore(AT_ONCE)
    found: dict[int, Stored] = {}

    async def read(seq: int) -> None:
        async with slots, aclosing(scan(bus, stream, seq=seq, until=seq)) as there:
            async for stored in there:
                found[seq] = stored

    await asyncio.gather(*map(read, seqs))
    left = set(seqs) - found.keys()
    for archive in await read_archives(bus) if left and stream == subjects.OFFICE else ():
        wanted = {seq for seq in left if archive.order.first <= seq <= archive.order.last}
        if wanted and archive.is_here:
            begin, end = min(wanted), max(wanted)
            async for page in read_log(bus, stream, begin, end, headers=True, archives=[archive]):
                found |= {stored.seq: stored for stored in page if stored.seq in wanted}
    return found


async def find_archived(bus: Bus, begin: str = "", end: str = "") -> list[ArchivedPart]:
    """The bundles with messages of the time from ``begin`` (empty: ever) to ``end`` (empty: now)."""
    return choose_archived(await read_archives(bus), begin, end)


def choose_archived(archives: Collection[Archive], begin: str = "", end: str = "") -> list[ArchivedPart]:
    """Those of the archives with messages of that time, and whether their bundles are there now."""
    return [
        ArchivedPart(
            bundle=each.path.name,
            folder=str(each.path.parent),
            is_here=each.is_here,
            since=each.order.since,
            until=each.order.until,
        )
        for each in archives
        if (not begin or parse_time(each.order.until) >= parse_time(begin))
        and (not end or parse_time(each.order.since) <= parse_time(end))
    ]


class ErasedBy(msgspec.Struct, kw_only=True):
    """A person's order to forget: who gave it, when it was stored, how many messages were erased by it."""

    order: str
    person: str
    at: str
    messages: int = 0


class Erasures(msgspec.Struct, kw_only=True):
    """The erased messages of a stream: the commitments to them by their sequences, and the orders.

    What is on record without an order that a person gave is not among them.
    """

    leaves: dict[int, bytes] = {}
    orders: list[ErasedBy] = []


async def read_erasures(bus: Bus, stream: str) -> Erasures:
    """What was erased of a stream until now; who reads this after a message was gone finds its record."""
    found = Erasures(leaves={}, orders=[])
    records: dict[str, dict[int, bytes]] = {}
    async for stored in scan(bus, subjects.OFFICE, subjects.ERASED):
        with contextlib.suppress(ValueError, RecursionError):
            record = MessagesErased.from_json(stored.data)
            if record.stream == stream and record.messages:
                leaves = {each.seq: bytes.fromhex(each.leaf) for each in record.messages}
                records.setdefault(record.cause, {}).update(leaves)
    if not records:
        return found
    async for stored in scan(bus, subjects.MEMORY, subjects.memory_write(subjects.USER)):
        if b'"forget":["' not in stored.data:
            continue
        with contextlib.suppress(ValueError, RecursionError):
            order = MemoryWrite.from_json(stored.data)
            if order.forget and (leaves := records.pop(order.id, {})):
                found.leaves |= leaves
                told = ErasedBy(order=order.id, person=order.person, at=stored.time, messages=len(leaves))
                found.orders.append(told)
    return found
