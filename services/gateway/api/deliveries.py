"""What people were told elsewhere, and what they replied there."""

from typing import Annotated, Any

import msgspec

from services.gateway.call import Call
from services.gateway.problems import Failure
from services.gateway.routing import API, Endpoint
from shared.access.scopes import Scope
from shared.contracts import Delivery, DeliveryReply, DeliveryStatus
from shared.delivery.channels import Deliver, describe, read_deliver
from shared.errors import ConfigError
from shared.views.deliveries import ChannelView, DeliveryPage, DeliveryView, ReplyView

MAX_REPLIES = 20


class DeliveriesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which deliveries: of a channel, of a status; those before the cursor ``before`` (empty: the latest)."""

    channel: Annotated[str, msgspec.Meta(max_length=64)] = ""
    status: DeliveryStatus | None = None
    before: Annotated[str, msgspec.Meta(max_length=200)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50


async def list_deliveries(call: Call, query: DeliveriesQuery) -> DeliveryPage:
    """What was told when by which channel, what failed and why, what waits, and what people replied."""
    read = call.gateway.index.store.query
    clauses: list[str] = ["1"]
    values: list[Any] = []
    for column, value in (("channel", query.channel), ("status", query.status)):
        if value:
            clauses.append(f"{column} = ?")
            values.append(str(value))
    if query.before:
        at, mark, delivery_id = query.before.partition("~")
        if not mark:
            raise Failure(422, "The cursor is none", "Give 'next' of the page before")
        clauses.append("(first_at, delivery_id) < (?, ?)")
        values += [at, delivery_id]
    where = " AND ".join(clauses)
    rows = read(
        f"SELECT body FROM deliveries WHERE {where} ORDER BY first_at DESC, delivery_id DESC LIMIT ?",  # noqa: S608
        [*values, query.limit],
    )
    found = [Delivery.from_checked_json(body) for (body,) in rows]
    rows = read("SELECT body FROM replies ORDER BY at DESC LIMIT ?", [MAX_REPLIES])
    replies = [DeliveryReply.from_checked_json(body) for (body,) in rows]
    problem, deliver = "", Deliver()
    try:
        deliver = read_deliver(call.gateway.settings)
    except ConfigError as error:
        problem = str(error)
    counts = read("SELECT channel, status, count(*) FROM deliveries GROUP BY channel, status")
    last = found[-1] if len(found) == query.limit else None
    return DeliveryPage(
        deliveries=[msgspec.convert(each, DeliveryView, from_attributes=True) for each in found],
        replies=[msgspec.convert(each, ReplyView, from_attributes=True) for each in replies],
        channels=[_view_channel(deliver, name, counts) for name in deliver.channels],
        waiting=_count(counts, DeliveryStatus.WAITING, DeliveryStatus.SENDING),
        failed=_count(counts, DeliveryStatus.FAILED),
        problem=problem,
        next=f"{last.first_at}~{last.delivery_id}" if last else "",
    )


def _count(counts: list[tuple[Any, ...]], *statuses: DeliveryStatus) -> int:
    wanted = {status.value for status in statuses}
    return sum(number for _, status, number in counts if status in wanted)


def _view_channel(deliver: Deliver, name: str, counts: list[tuple[Any, ...]]) -> ChannelView:
    channel = deliver.channels[name]
    mine = [each for each in counts if each[0] == name]
    own = channel.quiet_hours
    return ChannelView(
        name=name,
        where=describe(channel),
        kinds=tuple(kind.value for kind in channel.kinds if deliver.is_told(channel, kind)),
        quiet_hours=deliver.quiet_hours if own is None else own,
        delivered=_count(mine, DeliveryStatus.DELIVERED),
        waiting=_count(mine, DeliveryStatus.WAITING, DeliveryStatus.SENDING),
        failed=_count(mine, DeliveryStatus.FAILED),
    )


ENDPOINTS = (Endpoint("GET", f"{API}/deliveries", list_deliveries, scope=Scope.READ, tag="deliveries"),)
