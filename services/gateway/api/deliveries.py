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
from shared.views.listed import ChannelView, DeliveryPage, DeliveryView, ReplyView

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
    where, values = _conditions(query)
    rows = read(
        f"SELECT body FROM deliveries WHERE {where} ORDER BY first_at DESC, delivery_id DESC LIMIT ?",  # noqa: S608
        [*values, query.limit],
    )
    found = [Delivery.from_checked_json(body) for (body,) in rows]
    replies = read("SELECT body FROM replies ORDER BY at DESC LIMIT ?", [MAX_REPLIES])
    problem, deliver = "", Deliver()
    try:
        deliver = read_deliver(call.gateway.settings)
    except ConfigError as error:
        problem = str(error)
    counts = read("SELECT channel, status, count(*) FROM deliveries GROUP BY channel, status")
    last = found[-1] if len(found) == query.limit else None
    return DeliveryPage(
        deliveries=[_view(each) for each in found],
        replies=[_view_reply(DeliveryReply.from_checked_json(body)) for (body,) in replies],
        channels=[_view_channel(deliver, name, counts) for name in deliver.channels],
        waiting=_count(counts, DeliveryStatus.WAITING, DeliveryStatus.SENDING),
        failed=_count(counts, DeliveryStatus.FAILED),
        problem=problem,
        next=f"{last.first_at}~{last.delivery_id}" if last else "",
    )


def _conditions(query: DeliveriesQuery) -> tuple[str, list[Any]]:
    clauses, values = ["1"], []
    if query.channel:
        clauses.append("channel = ?")
        values.append(query.channel)
    if query.status:
        clauses.append("status = ?")
        values.append(query.status.value)
    if query.before:
        at, mark, delivery_id = query.before.partition("~")
        if not mark:
            raise Failure(422, "The cursor is none", "Give 'next' of the page before")
        clauses.append("(first_at, delivery_id) < (?, ?)")
        values += [at, delivery_id]
    return " AND ".join(clauses), values


def _view(each: Delivery) -> DeliveryView:
    fields = {name: getattr(each, name) for name in DeliveryView.__struct_fields__}
    return msgspec.convert(fields, DeliveryView, strict=False)


def _view_reply(each: DeliveryReply) -> ReplyView:
    return ReplyView(
        reply_id=each.reply_id,
        channel=each.channel,
        address=each.address,
        delivery_id=each.delivery_id,
        text=each.text,
        outcome=each.outcome.value,
        reason=each.reason,
        at=each.created_at,
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
