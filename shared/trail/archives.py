"""Archives: what was archived or erased, by whose order; reading the log with it; archiving more."""

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.entry import is_withheld
from shared.bus.entry import seal as make_entry
from shared.contracts import ArchiveOrder, MemoryWrite, MessagesErased, Seal
from shared.errors import ActionError, BusError, Conflict, MailroomError, NotFound
from shared.log import logger
from shared.queries.records import last_sequence, scan
from shared.text.times import parse_time
from shared.trail.bundle_file import BundleWriter, Item, erased_line, message_line, read_items, seal_line
from shared.trail.seals import find_flaw, find_void, read_seals, without_marks
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
            async for page in bus.read_all(
                stream, start, last, subject=subject, headers=headers, timeout=timeout
            ):
                yield page
        start = last + 1
    async for page in bus.read_all(stream, start, end, subject=subject, headers=headers, timeout=timeout):
        yield page


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
                    if (since is None or parse_time(stored.time) >= since) and not is_withheld(stored):
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
                found |= {
                    stored.seq: stored for stored in page if stored.seq in wanted and not is_withheld(stored)
                }
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


MESSAGES, SIZE = 20_000, 128 * 1024 * 1024
"""The messages, and bytes before compression, after which a bundle ends with its seal."""


# --- writing what is older than a time into bundles --------------------------------------------------
READ_TIMEOUT = 30.0
STREAM = subjects.OFFICE

Report = Callable[[str], None]


async def find_sealed_before(bus: Bus, before: datetime) -> list[Seal]:
    """The seals of OFFICE over what was stored before a time and is not archived yet, in order.

    Raises BusError if one does not follow the one before it.
    """
    archives = await read_archives(bus)
    start = archives[-1].order.last + 1 if archives else 1
    end = await last_sequence(bus, STREAM) + 1
    async for stored in scan(bus, STREAM, since=before):
        end = stored.seq
        break
    found: list[Seal] = []
    void = await find_void(bus, STREAM)
    last: Seal | None = None
    async for place, seal in read_seals(bus, STREAM):
        if seal is None or (flaw := find_flaw(seal, last)):
            reason = flaw if seal else "it cannot be read"
            raise BusError(f"The seal in {STREAM} {place} is none: {reason}", "Run 'mailroom audit verify'")
        if seal.last >= end:
            break
        last = seal
        found += [without_marks(seal)] if seal.first >= start and seal.number not in void else []
    return found


async def write_archive(
    bus: Bus, folder: Path, seals: Sequence[Seal], report: Report
) -> AsyncIterator[ArchiveOrder]:
    """Write the messages of ``seals`` into bundles in ``folder``, and order for each that the server may
    delete them: once it was read back from disk, and has what was sealed.

    Raises OSError if the folder cannot be written, ActionError if the log is not whole, Conflict if another
    process archives. What has an order then stays archived.
    """
    subject, left = subjects.archive(STREAM), list(seals)
    stored, archives = await bus.last(STREAM, subject), await read_archives(bus)
    if seals and seals[0].first != (archives[-1].order.last + 1 if archives else 1):
        raise Conflict("Another process archives the same", "Wait until it has ended")
    place = stored.seq if stored else 0
    while left:
        order, left = await _write_bundle(bus, folder, left, report)
        try:
            (place,) = await bus.commit([make_entry(subject, order, place)])
        except Conflict:
            path = folder / order.bundle
            if path not in [each.path for each in await read_archives(bus)]:
                path.unlink(missing_ok=True)  # the other one's is elsewhere
            raise Conflict("Another process archived the same meanwhile", "Look at its output") from None
        yield order


async def _write_bundle(
    bus: Bus, folder: Path, seals: list[Seal], report: Report
) -> tuple[ArchiveOrder, list[Seal]]:
    """Write one bundle; returns the order for it, and the seals that are left."""
    first, end, done, times = seals[0].first, seals[-1].last, 0, list[str]()
    leaves, reached, number = (await read_erasures(bus, STREAM)).leaves, first - 1, 0
    writer = await asyncio.to_thread(BundleWriter, folder, STREAM, first)
    try:
        async for page in bus.read_all(STREAM, first, end, timeout=READ_TIMEOUT):
            lines = []
            for stored in page:
                for seq in range(reached + 1, stored.seq + 1):
                    if seq == stored.seq:
                        lines.append(message_line(stored))
                        times.append(stored.time)
                    elif seq in leaves:
                        lines.append(erased_line(STREAM, seq, leaves[seq]))
                    else:
                        what = f"{STREAM} {seq:,} is missing or damaged, so nothing of it is archived"
                        raise ActionError(what, "Run 'mailroom audit verify'")
                    number += 1
                    if seq < seals[done].last:
                        continue
                    lines.append(seal_line(seals[done]))
                    done += 1
                    await asyncio.to_thread(writer.write, lines)
                    lines = []
                    if done == len(seals) or number >= MESSAGES or writer.size >= SIZE:
                        return await _finish(writer, folder, seals[:done], times), seals[done:]
                reached = stored.seq
            await asyncio.to_thread(writer.write, lines)
            report(f"Writing {STREAM} {first:,} and on: {reached:,} of {end:,}")
    finally:
        await asyncio.to_thread(writer.discard)
    raise ActionError(f"{STREAM} ends before message {end:,}", "Run 'mailroom audit verify'")


async def _finish(
    writer: BundleWriter, folder: Path, seals: Sequence[Seal], times: Sequence[str]
) -> ArchiveOrder:
    first, last = seals[0].first, seals[-1].last
    name = f"{STREAM}-{first:010d}-{last:010d}.jsonl.gz"
    await asyncio.to_thread(writer.finish, name, seals)
    return ArchiveOrder(
        sender=subjects.USER,
        first=first,
        last=last,
        count=len(times),
        since=times[0],
        until=times[-1],
        bundle=name,
        folder=str(folder),
    )
