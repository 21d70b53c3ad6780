"""What people have put aside in the inbox: a record of the gateway's, which the front desk reads too."""

from services.gateway.context import Gateway
from shared import subjects
from shared.bus.entry import seal
from shared.bus.records import Record, read_record, retry_on_conflict
from shared.contracts import InboxChanged, PutAside

MAX_KEPT = 2_000
"""Items that are kept: the latest."""


async def read_put_aside(gateway: Gateway) -> dict[str, PutAside]:
    """What was put aside, by the ids of the items."""
    record = await _read(gateway)
    return {each.id: each for each in record.value.put_aside} if record else {}


async def put_item_aside(gateway: Gateway, item: PutAside) -> None:
    """Put an item aside; the first who did stays on record."""

    async def attempt() -> None:
        record = await _read(gateway)
        known = record.value.put_aside if record else ()
        if any(each.id == item.id for each in known):
            return
        changed = InboxChanged(sender=subjects.GATEWAY, put_aside=(*known, item)[-MAX_KEPT:])
        await gateway.bus.commit([seal(subjects.PUT_ASIDE, changed, expect=record.seq if record else 0)])

    await retry_on_conflict(attempt)


async def _read(gateway: Gateway) -> Record[InboxChanged] | None:
    return await read_record(gateway.bus, subjects.PUT_ASIDE, InboxChanged)
