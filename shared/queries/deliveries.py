"""The records of deliveries, read from the log."""

from datetime import datetime

from shared import subjects
from shared.bus import Bus
from shared.contracts import Delivery, DeliveryReply
from shared.queries.records import scan

DELIVERIES = subjects.record(subjects.GATEWAY, subjects.DELIVERY, "*")
REPLIES = subjects.record(subjects.GATEWAY, subjects.REPLY, "*")


async def read_deliveries(bus: Bus, since: datetime) -> list[Delivery]:
    """The last record of each delivery that changed since then, those that began last at the end."""
    found: dict[str, Delivery] = {}
    async for stored in scan(bus, subjects.OFFICE, DELIVERIES, since=since):
        try:
            delivery = Delivery.from_json(stored.data)
        except ValueError:
            continue
        found[delivery.delivery_id] = delivery
    return sorted(found.values(), key=lambda each: each.first_at)


async def read_replies(bus: Bus, since: datetime) -> list[DeliveryReply]:
    """What people replied since then, the latest last."""
    found = []
    async for stored in scan(bus, subjects.OFFICE, REPLIES, since=since):
        try:
            found.append(DeliveryReply.from_json(stored.data))
        except ValueError:
            continue
    return found
