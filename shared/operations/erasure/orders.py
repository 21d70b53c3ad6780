"""Orders to erase what was forgotten: given by people, carried out with the eraser's key and no other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Container, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.entry import seal
from shared.bus.lease import Lease
from shared.bus.peers import Holder
from shared.clock import parse_timestamp
from shared.contracts import (
    ErasureOrder,
    MemoryErasable,
    MemoryErased,
    MemoryForgotten,
    MemoryRefused,
    MemoryWrite,
    MessagesErased,
)
from shared.errors import BusUnavailable
from shared.log import logger
from shared.operations.erasure.archiving import (
    Archived,
    delete_archived,
    erase_in_bundles,
    has_searched,
    read_pending,
)
from shared.operations.erasure.eraser import (
    LISTED,
    Eraser,
    Report,
    delete,
    describe,
    gather_some,
    read_recorded,
    read_records,
)
from shared.operations.erasure.redaction import overwrite_quotations
from shared.queries.records import count_subjects, last_sequence, scan
from shared.settings import Settings
from shared.text.quotations import Quotations

PATIENCE = 10.0
"""Seconds for which an order waits for what agents are acting on; then it is tried again later."""
LEASE_TRIES, LEASE_PAUSE = 3, 0.2
GIVEN_UP = timedelta(days=1)
"""After this an order counts as never given to memory: the process that left it was killed before that."""
log = logger(__name__)


class Carried(msgspec.Struct, kw_only=True):
    """What became of an order: how many messages are left because an agent acts on them (``busy``), the
    ``files`` in which quotations were overwritten, and why something is left in bundles (``waiting``).
    """

    busy: int = 0
    files: list[str] = []
    waiting: list[str] = []


async def leave_order(bus: Bus, write: MemoryWrite, texts: Sequence[str], common: Sequence[str]) -> None:
    """Leave what is to be erased for the eraser, as a person, before memory is given the order."""
    order = ErasureOrder(
        sender=subjects.USER, cause=write.id, nodes=write.forget, texts=tuple(texts), common=tuple(common)
    )
    await bus.store(subjects.forgetting(write.id), order.to_json(), headers={"Nats-Msg-Id": order.id})


async def find_erased(bus: Bus, cause: str) -> list[MessagesErased]:
    """The records of an order, if it is done in OFFICE; empty until it is."""
    own = subjects.OFFICE
    records = [each async for each in read_records(bus) if (each.cause, each.stream) == (cause, own)]
    return records if records and not records[-1].messages else []


async def carry_out_orders(
    bus: Bus, config: Settings, *, patience: float = PATIENCE, report: Report = lambda *_: None
) -> dict[str, Carried]:
    """Erase in MEMORY what memory has records of, and in OFFICE and files by the orders that it has carried
    out, as the eraser; returns what became of each of these.

    One process at a time does it. Raises BusError; it can be done again at any time.
    """
    done: dict[str, Carried] = {}
    async with _alone(bus):
        await _erase_in_memory(bus)
        async for stored in scan(bus, subjects.FORGETTING):
            try:
                order = ErasureOrder.from_json(stored.data)
            except ValueError:
                await _drop(bus, stored)  # a person's client wrote something else
                continue
            state, moment = await _state_in_memory(bus, order)
            if state == "done":
                before = await _sequence_at(bus, moment)
                done[order.cause] = await _carry_out(bus, config, order, patience, before, report)
                if done[order.cause].busy or done[order.cause].waiting:
                    continue
            if state:
                await _drop(bus, stored)
    return done


async def carry_out_archives(bus: Bus, report: Report = lambda *_: None) -> Archived:
    """Delete on the server what the next of a person's orders to archive covers; see delete_archived."""
    async with _alone(bus):
        return await delete_archived(bus, report)


async def has_work(bus: Bus) -> bool:
    """Whether there may be something to erase, or to delete because it was archived."""
    return bool(await count_orders(bus) or await _read_erasable(bus) or await count_archives(bus))


async def count_archives(bus: Bus) -> int:
    """How many orders to archive are left to be carried out."""
    ordered, done = [
        sum((await count_subjects(bus, subjects.OFFICE, each)).values())
        for each in (subjects.archive(subjects.OFFICE), subjects.ARCHIVED)
    ]
    # One that does not follow the one before it is none.
    return len(await read_pending(bus)) if ordered != done else 0


async def count_orders(bus: Bus, cause: str = "*") -> int:
    """How many orders are left to be carried out, or whether this one is."""
    return sum((await count_subjects(bus, subjects.FORGETTING, subjects.forgetting(cause))).values())


async def _carry_out(
    bus: Bus, config: Settings, order: ErasureOrder, patience: float, before: int, report: Report
) -> Carried:
    quotations = Quotations(order.texts, order.common)
    busy, files = 0, list[Path]()
    if not await has_searched(bus, order.cause):  # else it waits for bundles alone
        busy = await Eraser(bus, quotations, order.cause, report).run(patience, before)
        files = await asyncio.to_thread(overwrite_quotations, config, quotations)
        log.info("quotations_erased", order=order.cause, busy=busy, files=len(files))
    waiting = [] if busy else await erase_in_bundles(bus, quotations, order.cause, report)
    return Carried(busy=busy, files=[str(path) for path in files], waiting=waiting)


async def _read_erasable(bus: Bus) -> list[int]:
    """What memory wants to be erased of its log and is still there, by its last word: it waits for that."""
    stored = await bus.last(subjects.OFFICE, subjects.ERASABLE)
    if stored is None:
        return []
    try:
        wanted = MemoryErasable.from_json(stored.data).seqs
    except ValueError:
        return []
    left = set(wanted)
    if left:
        there = scan(bus, subjects.MEMORY, seq=min(left), until=max(left))
        return sorted([each.seq async for each in there if each.seq in left])
    return []


async def _erase_in_memory(bus: Bus) -> None:
    """Erase messages of MEMORY that memory has records of, with an order of a person for each."""
    wanted = await _read_erasable(bus)
    if not wanted:
        return
    causes = await _read_causes(bus)
    orders = await read_orders(bus, set(causes.values()))
    recorded = await read_recorded(bus, stream=subjects.MEMORY)
    for begin in range(0, len(wanted), LISTED):
        some = wanted[begin : begin + LISTED]
        if refused := [seq for seq in some if causes.get(seq) not in orders]:
            log.warning("not_erased_without_an_order", stream=subjects.MEMORY, seqs=refused[:20])
        seqs = [seq for seq in some if seq not in refused]
        found = await gather_some(bus.get_exactly(subjects.MEMORY, seq) for seq in seqs)
        new: dict[str, list[Stored]] = {}
        for stored in found:
            if stored is not None and stored.seq not in recorded:
                new.setdefault(causes[stored.seq], []).append(stored)
        for cause, messages in new.items():
            record = MessagesErased(
                sender=bus.name, cause=cause, stream="MEMORY", messages=tuple(map(describe, messages))
            )
            await bus.commit([seal(subjects.ERASED, record)])
        await gather_some(delete(bus, subjects.MEMORY, seq) for seq in seqs)


async def _read_causes(bus: Bus) -> dict[int, str]:
    """The messages that memory has recorded what is left of, each with the order that this was for."""
    causes: dict[int, str] = {}
    async for stored in scan(bus, subjects.MEMORY, subjects.memory_write(subjects.MEMORY_DAEMON)):
        if b'"memory_erased.v1"' in stored.data:
            with contextlib.suppress(ValueError, RecursionError):
                record = MemoryErased.from_json(stored.data)
                causes |= dict.fromkeys(record.seqs, record.cause)
    return causes


async def read_orders(bus: Bus, ids: Container[str]) -> set[str]:
    """Which of these are orders to forget that a person gave: the broker lets nobody else write there."""
    found: set[str] = set()
    async for stored in scan(bus, subjects.MEMORY, subjects.memory_write(subjects.USER)):
        if b'"forget":["' in stored.data:
            with contextlib.suppress(ValueError, RecursionError):
                order = MemoryWrite.from_json(stored.data)
                found |= {order.id} if order.forget and order.id in ids else set()
    return found


async def _state_in_memory(bus: Bus, order: ErasureOrder) -> tuple[str, str]:
    """Whether memory has "done" an order, and when, or it is "void"; empty until it is known."""
    own = subjects.memory_write(subjects.MEMORY_DAEMON)
    since = parse_timestamp(order.created_at) - timedelta(minutes=1)
    given = [
        write
        async for write in scan(bus, subjects.MEMORY, subjects.memory_write(subjects.USER), since=since)
        if order.cause.encode() in write.data
    ]
    if not given:
        return ("void" if datetime.now(UTC) - since > GIVEN_UP else ""), ""
    async for answer in scan(bus, subjects.MEMORY, own, since=since):
        if order.cause.encode() not in answer.data:
            continue
        if b'"memory_forgotten.v1"' in answer.data:
            if order.cause in MemoryForgotten.from_json(answer.data).orders:
                return "done", answer.time
        elif (
            b'"memory_refused.v1"' in answer.data
            and MemoryRefused.from_json(answer.data).cause == order.cause
        ):
            return "void", ""
    return "", ""


async def _sequence_at(bus: Bus, moment: str) -> int:
    """The sequence in OFFICE of what was stored first after a moment: the next one, if nothing was."""
    async for stored in scan(bus, subjects.OFFICE, since=parse_timestamp(moment)):
        return stored.seq
    return await last_sequence(bus, subjects.OFFICE) + 1


async def _drop(bus: Bus, stored: Stored) -> None:
    """Erase an order: it has the texts."""
    await delete(bus, subjects.FORGETTING, stored.seq)


@asynccontextmanager
async def _alone(bus: Bus) -> AsyncIterator[None]:
    """Hold the lease; raises BusUnavailable if the server stores none, as on a full disk."""
    me = Holder.this(bus.instance)
    lease = Lease(bus, subjects.ERASER, me)

    async def wait(holder: Holder) -> None:
        log.info("forgetting_waits", holder=str(holder))
        if holder == me:  # nobody has it, and it was not stored
            raise BusUnavailable("The server stores nothing at present", "Free disk space")

    for attempt in range(1, LEASE_TRIES + 1):
        try:
            await lease.acquire(wait)
            break
        except BusUnavailable:
            if attempt == LEASE_TRIES:
                raise
            await asyncio.sleep(attempt * LEASE_PAUSE)  # or another process took it in the same moment
    try:
        yield
    finally:
        await lease.release()
