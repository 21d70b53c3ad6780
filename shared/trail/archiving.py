"""Writing what is older than a time into bundles, and ordering that the server may delete it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from pathlib import Path

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal as make_entry
from shared.contracts import ArchiveOrder, Seal
from shared.errors import ActionError, BusError, Conflict
from shared.queries.records import last_sequence, scan
from shared.trail.archives import read_archives, read_erasures
from shared.trail.bundle_file import BundleWriter, erased_line, message_line, seal_line
from shared.trail.seals import find_flaw, find_void, read_seals, without_marks

MESSAGES, SIZE = 20_000, 128 * 1024 * 1024
"""The messages, and bytes before compression, after which a bundle ends with its seal."""
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
