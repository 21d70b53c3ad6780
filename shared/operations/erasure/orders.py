"""Orders to erase what quotes a forgotten text: given by people, carried out with the admin's key."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import msgspec

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.lease import Lease
from shared.bus.liveness import Holder
from shared.clock import parse_timestamp
from shared.contracts import ErasureOrder, MemoryForgotten, MemoryRefused, MemoryWrite, MessagesErased
from shared.errors import BusUnavailable, MailroomError
from shared.log import logger
from shared.operations.erasure.eraser import Eraser, Report, read_records
from shared.operations.erasure.files import overwrite_quotations
from shared.queries.records import count_subjects, last_sequence, scan
from shared.settings import Settings
from shared.text.quotations import Quotations

PATIENCE = 10.0
"""Seconds for which an order waits for what agents are acting on; then it is tried again later."""
LEASE = "forgetting"
LEASE_TRIES, LEASE_PAUSE = 3, 0.2
GIVEN_UP = timedelta(days=1)
"""After this an order counts as never given to memory: the process that left it was killed before that."""
log = logger(__name__)


class Carried(msgspec.Struct, kw_only=True):
    """What became of an order: messages that are left because an agent acts on them (``busy``) or because the
    audit of an earlier version keeps them (``kept``), and the ``files`` in which quotations were overwritten.
    """

    busy: int = 0
    kept: int = 0
    files: list[str] = []


async def leave_order(bus: Bus, write: MemoryWrite, texts: Sequence[str], common: Sequence[str]) -> None:
    """Leave what is to be erased for the admin, as a person, before memory is given the order."""
    order = ErasureOrder(
        sender=subjects.USER, cause=write.id, nodes=write.forget, texts=tuple(texts), common=tuple(common)
    )
    await bus.store(subjects.forgetting(write.id), order.to_json(), headers={"Nats-Msg-Id": order.id})


async def find_erased(bus: Bus, cause: str) -> list[MessagesErased]:
    """The records of an order, if it is done in OFFICE and AUDIT; empty until it is."""
    records = [each async for each in read_records(bus) if each.cause == cause]
    return records if records and not records[-1].messages else []


async def carry_out_orders(
    bus: Bus, config: Settings, *, patience: float = PATIENCE, report: Report = lambda *_: None
) -> dict[str, Carried]:
    """Carry out the orders that memory has carried out, as the admin; returns what became of each.

    One process at a time does it. Raises BusError; it can be done again at any time.
    """
    done: dict[str, Carried] = {}
    async with _alone(bus):
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
                if done[order.cause].busy:
                    continue
            if state:
                await _drop(bus, stored)
    return done


async def count_orders(bus: Bus, cause: str = "*") -> int:
    """How many orders are left to be carried out, or whether this one is."""
    return sum((await count_subjects(bus, subjects.FORGETTING, subjects.forgetting(cause))).values())


async def _carry_out(
    bus: Bus, config: Settings, order: ErasureOrder, patience: float, before: int, report: Report
) -> Carried:
    quotations = Quotations(order.texts, order.common)
    eraser = Eraser(bus, quotations, order.cause, report)
    busy = await eraser.run(patience, before)
    files = await asyncio.to_thread(overwrite_quotations, config, quotations)
    log.info("quotations_erased", order=order.cause, busy=busy, kept=eraser.kept, files=len(files))
    return Carried(busy=busy, kept=eraser.kept, files=[str(path) for path in files])


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
    request = json.dumps({"seq": stored.seq}).encode()
    answer = json.loads(await bus.request(f"$JS.API.STREAM.MSG.DELETE.{subjects.FORGETTING}", request))
    if "error" in answer:
        raise MailroomError(f"The order is done, and could not be erased: {answer['error']['description']}")


@asynccontextmanager
async def _alone(bus: Bus) -> AsyncIterator[None]:
    """Hold the lease; raises BusUnavailable if the server stores none, as on a full disk."""
    me = Holder.this(bus.instance)
    lease = Lease(bus, LEASE, me)

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
