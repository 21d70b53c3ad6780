"""What was erased of the log: on record, and by whose order."""

import contextlib

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.contracts import MemoryWrite, MessagesErased
from shared.queries.records import scan


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
