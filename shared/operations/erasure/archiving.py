"""Archives as the eraser treats them: the server loses what lies in a bundle, and both what is forgotten."""

import asyncio
import contextlib
from collections.abc import Sequence

import msgspec

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.entry import seal as make_entry
from shared.contracts import MessagesArchived, MessagesErased, Seal
from shared.errors import MailroomError
from shared.log import logger
from shared.operations.erasure.eraser import (
    LISTED,
    Report,
    delete,
    describe,
    gather_some,
    read_recorded,
    read_records,
)
from shared.operations.erasure.redaction import quotes
from shared.operations.erasure.retention import Retention
from shared.queries.records import scan
from shared.text.quotations import Quotations
from shared.trail.archives import Archive, pages_of, read_archives
from shared.trail.bundle_file import Erased, erase_in_bundle, overwrite_before
from shared.trail.seals import make_leaf, read_seals

READ_TIMEOUT = 30.0
ALL = "*"  # The name in the record that an order to forget is left to be carried out in bundles alone
log = logger(__name__)


class Archived(msgspec.Struct, kw_only=True):
    """What became of orders to archive: how many were carried out (``done``), how many messages were
    ``deleted`` on the server, and why others wait.
    """

    done: int = 0
    deleted: int = 0
    waiting: list[str] = []


async def read_pending(bus: Bus) -> list[Archive]:
    """The archived parts whose messages are still to be deleted on the server."""
    done = set()
    async for stored in scan(bus, subjects.OFFICE, subjects.ARCHIVED):
        with contextlib.suppress(ValueError):
            done.add(MessagesArchived.from_json(stored.data).cause)
    return [each for each in await read_archives(bus) if each.order.id not in done]


async def delete_archived(bus: Bus, report: Report = lambda *_: None) -> Archived:
    """Delete what the next order covers; with the last one also what earlier ones had to leave.

    A message goes only if the bundle has the same, to the byte, and nothing needs it. Raises BusError; it can
    be done again at any time.
    """
    result = Archived(waiting=[])
    pending = await read_pending(bus)
    retention = await Retention.read(bus)
    for archive in pending:
        try:
            deleted, kept = await _delete(bus, archive, retention, report)
        except (MailroomError, OSError) as error:
            result.waiting.append(str(error))
            continue
        record = MessagesArchived(sender=bus.name, cause=archive.order.id, deleted=deleted, kept=kept)
        await bus.commit([make_entry(subjects.ARCHIVED, record)])
        result.done, result.deleted = result.done + 1, result.deleted + deleted
        if archive is not pending[-1]:
            return result
        for earlier in await read_archives(bus):
            if earlier.is_here and earlier.order.last < archive.order.first:
                result.deleted += (await _delete(bus, earlier, retention, report))[0]
    return result


async def _delete(bus: Bus, archive: Archive, retention: Retention, report: Report) -> tuple[int, int]:
    """Delete on the server what lies in a bundle; returns how many messages went, and how many stay."""
    archive.require_here()
    order, deleted, kept = archive.order, 0, 0
    leaves: dict[int, bytes] | None = None
    async for page in bus.read_all(subjects.OFFICE, order.first, order.last, timeout=READ_TIMEOUT):
        stay = await retention.choose(page)
        kept += len(stay)
        if len(stay) < len(page) and leaves is None:
            leaves = await _read_leaves(bus, archive)
        going = [each for each in page if each.seq not in stay]
        same = [each.seq for each in going if leaves and leaves.get(each.seq) == make_leaf(each)]
        if len(same) < len(going):
            other = next(each.seq for each in going if each.seq not in set(same))
            what = f"{archive.path} does not have message {other:,} as the server has it"
            raise MailroomError(what, "Run 'mailroom audit verify'")
        await gather_some(delete(bus, subjects.OFFICE, seq, overwrite=False) for seq in same)
        deleted += len(same)
        report("deleting archived messages", page[-1].seq - order.first + 1, order.last - order.first + 1)
    return deleted, kept


async def _read_leaves(bus: Bus, archive: Archive) -> dict[int, bytes]:
    """The commitments to the messages of a bundle, after taking out what was erased since it was written."""
    recorded = await read_recorded(bus)
    leaves: dict[int, bytes] = {}
    left: set[int] = set()
    async for page in pages_of(archive.path):
        for item in page:
            if isinstance(item, Erased):
                leaves[item.seq] = item.leaf
            elif not isinstance(item, Seal):
                leaves[item.seq] = make_leaf(item)
                left |= {item.seq} & recorded
    if left:
        await asyncio.to_thread(erase_in_bundle, archive.path, left, await _read_seals(bus, archive))
    return leaves


async def erase_in_bundles(bus: Bus, quotations: Quotations, cause: str, report: Report) -> list[str]:
    """Erase what quotes texts in every bundle, by an order, with a record of each; returns why some wait.

    A bundle that has its record is not looked at again. All other messages have to be erased by then.
    """
    waiting, unsearched = [], await read_unsearched(bus, cause)
    if unsearched and not await has_searched(bus, cause):
        record = MessagesErased(sender=bus.name, cause=cause, bundle=ALL)
        await bus.commit([make_entry(subjects.ERASED, record)])
    for archive in unsearched:
        try:
            await _erase(bus, archive, quotations, cause)
        except (MailroomError, OSError) as error:
            waiting.append(str(error))
        report("reading bundles", archive.order.last, archive.order.last)
    return waiting


async def has_searched(bus: Bus, cause: str) -> bool:
    """Whether an order to forget is left to be carried out in bundles alone."""
    return any([each.cause == cause and bool(each.bundle) async for each in read_records(bus)])


async def read_unsearched(bus: Bus, cause: str) -> list[Archive]:
    """The archived parts in which an order to forget is still to be carried out."""
    done = {each.bundle async for each in read_records(bus) if each.cause == cause and each.bundle}
    return [each for each in await read_archives(bus) if each.order.bundle not in done]


async def _erase(bus: Bus, archive: Archive, quotations: Quotations, cause: str) -> None:
    archive.require_here()
    await asyncio.to_thread(overwrite_before, archive.path)
    recorded = await read_recorded(bus)
    new: list[Stored] = []
    gone: set[int] = set()
    async for page in pages_of(archive.path):
        messages = [item for item in page if isinstance(item, Stored)]
        found = [each for each in messages if each.seq in recorded or quotes(each.data, quotations)]
        new += [each for each in found if each.seq not in recorded]
        gone |= {each.seq for each in found}
        await asyncio.sleep(0)
    for begin in range(0, len(new), LISTED):
        described = tuple(map(describe, new[begin : begin + LISTED]))
        record = MessagesErased(sender=bus.name, cause=cause, messages=described)
        await bus.commit([make_entry(subjects.ERASED, record)])
    if gone:
        await asyncio.to_thread(erase_in_bundle, archive.path, gone, await _read_seals(bus, archive))
    done = MessagesErased(sender=bus.name, cause=cause, gone=tuple(sorted(gone)), bundle=archive.order.bundle)
    await bus.commit([make_entry(subjects.ERASED, done)])


async def _read_seals(bus: Bus, archive: Archive) -> Sequence[Seal]:
    """The seals over an archived part, from the server."""
    order, found = archive.order, []
    async for _, seal in read_seals(bus, subjects.OFFICE):
        if seal is not None and order.first <= seal.first <= seal.last <= order.last:
            found.append(seal)
    return found
