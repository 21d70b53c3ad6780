"""The journal of deliveries: a record in the log for each, written before it is sent and after."""

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from services.gateway.call import Gateway
from shared import subjects
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.contracts import (
    TOKEN,
    Delivery,
    DeliveryReply,
    DeliveryStatus,
    generate_id,
    generate_iso_timestamp,
)
from shared.errors import Conflict
from shared.log import logger

log = logger(__name__)


class Held(NamedTuple):
    """A delivery that is not ended, and the sequence of its record."""

    delivery: Delivery
    seq: int


class Journal:
    """The deliveries that are not ended, in memory and in the log; the log is written first."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._open: dict[str, Held] = {}

    async def load(self) -> None:
        """Read what was not ended when the gateway stopped; what was being sent may have reached people."""
        rows = self._gateway.index.store.query(
            "SELECT delivery_id FROM deliveries WHERE status IN ('waiting', 'sending')"
        )
        for (delivery_id,) in rows:
            record = await read_record(self._gateway.bus, _subject(delivery_id), Delivery)
            if record is None or record.value.status.final:
                continue
            found = record.value
            if found.status is DeliveryStatus.SENDING:
                found = msgspec.structs.replace(found, uncertain=True)
            self._open[delivery_id] = Held(found, record.seq)

    def waiting_for(self, channel: str) -> list[Delivery]:
        """What is not ended on a channel."""
        return [each.delivery for each in self._open.values() if each.delivery.channel == channel]

    async def add(self, delivery: Delivery) -> bool:
        """Write a new delivery; False if its id is known: it is told already."""
        entry = seal(_subject(delivery.delivery_id), delivery, expect=0)
        try:
            (seq,) = await self._gateway.bus.commit([entry])
        except Conflict:
            return False
        self._open[delivery.delivery_id] = Held(delivery, seq)
        return True

    async def change(self, deliveries: Sequence[Delivery], **fields: Any) -> list[Delivery]:
        """Write the same change to all of them, or to none; raises Conflict if another process wrote one."""
        changed = [
            msgspec.structs.replace(each, id=generate_id(), created_at=generate_iso_timestamp(), **fields)
            for each in deliveries
        ]
        held = self._open
        entries = [
            seal(_subject(each.delivery_id), each, expect=held[each.delivery_id].seq) for each in changed
        ]
        for each, seq in zip(changed, await self._gateway.bus.commit(entries), strict=True):
            if each.status.final:
                self._open.pop(each.delivery_id, None)
            else:
                self._open[each.delivery_id] = Held(each, seq)
        return changed

    async def end(self, deliveries: Sequence[Delivery], status: DeliveryStatus, **fields: Any) -> None:
        """Write that nothing more happens to them."""
        await self.change(deliveries, status=status, ended_at=datetime.now(UTC).isoformat(), **fields)

    # --- what people replied ---------------------------------------------------------------------

    async def find(self, channel: str, *, delivery_id: str = "", reference: str = "") -> Delivery | None:
        """A delivery of a channel, by its id or what the channel calls its message."""
        if not delivery_id and reference:
            rows = self._gateway.index.store.query(
                "SELECT delivery_id FROM deliveries WHERE channel = ? AND reference = ? AND reference != '' "
                "ORDER BY first_at DESC LIMIT 1",
                [channel, reference],
            )
            delivery_id = rows[0][0] if rows else ""
        if not TOKEN.fullmatch(delivery_id):
            return None
        try:
            record = await read_record(self._gateway.bus, _subject(delivery_id), Delivery)
        except ValueError:
            return None
        return record.value if record is not None and record.value.channel == channel else None

    async def read_reply(self, reply_id: str) -> DeliveryReply | None:
        """What a person replied, if that is recorded."""
        record = await read_record(
            self._gateway.bus, subjects.record(subjects.GATEWAY, subjects.REPLY, reply_id), DeliveryReply
        )
        return record.value if record else None

    async def add_reply(self, reply: DeliveryReply) -> None:
        """Record what a person replied, unless it is recorded already."""
        subject = subjects.record(subjects.GATEWAY, subjects.REPLY, reply.reply_id)
        with contextlib.suppress(Conflict):
            await self._gateway.bus.commit([seal(subject, reply, expect=0)])


def _subject(delivery_id: str) -> str:
    return subjects.record(subjects.GATEWAY, subjects.DELIVERY, delivery_id)
