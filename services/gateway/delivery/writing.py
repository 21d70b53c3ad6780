"""The message that tells a delivery, or several that waited."""

from collections.abc import Sequence

from services.gateway.delivery.codes import Codes
from services.gateway.delivery.journal import Journal
from shared.contracts import Delivery, DeliveryKind, Urgency
from shared.delivery.config import AnyChannel, Mail, Telegram
from shared.delivery.message import Message

ACTS = {DeliveryKind.APPROVAL: ("approve", "refuse"), DeliveryKind.REMINDER: ("done", "snooze")}
"""What people can reply to a kind."""


async def write_message(
    group: Sequence[Delivery], channel: AnyChannel, codes: Codes, journal: Journal
) -> Message:
    """The message for a delivery; for several, one that lists them."""
    if len(group) > 1 or group[0].bundle:
        return _bundle(group, channel, codes)
    told = group[0]
    answers = can_be_answered(channel)
    mail = isinstance(channel, Mail)
    reply = await journal.read_reply(told.about) if told.kind is DeliveryKind.ANSWER else None
    return Message(
        id=told.delivery_id,
        kind=told.kind,
        urgency=told.urgency,
        title=told.title,
        text=told.text,
        link=told.link,
        at=told.first_at,
        acts=ACTS.get(told.kind, ()) if answers else (),
        answerable=answers,
        code=codes.code(told.delivery_id) if mail and told.kind is DeliveryKind.APPROVAL else "",
        token=codes.token(told.delivery_id) if mail else "",
        thread=reply.thread if reply else "",
        to=reply.address if reply else "",
        again=told.uncertain,
        items={"goal_id": told.goal_id, "about": told.about},
    )


def can_be_answered(channel: AnyChannel) -> bool:
    """Whether replies on a channel are read."""
    return isinstance(channel, Telegram) or (isinstance(channel, Mail) and bool(channel.imap))


def _bundle(group: Sequence[Delivery], channel: AnyChannel, codes: Codes) -> Message:
    ordered = sorted(group, key=lambda each: (-each.urgency.rank, each.first_at))
    lines = [
        "\n".join(filter(None, (f"- {each.title}", each.text.strip().split("\n")[0][:300], each.link)))
        for each in ordered
    ]
    name = group[0].bundle
    return Message(
        id=name,
        kind=ordered[0].kind,
        urgency=max((each.urgency for each in group), key=lambda urgency: Urgency(urgency).rank),
        title=f"{len(group)} things while it was quiet: {ordered[0].title}"[:200],
        text="\n\n".join(lines),
        at=ordered[0].first_at,
        answerable=can_be_answered(channel),
        token=codes.token(name) if isinstance(channel, Mail) else "",
        again=any(each.uncertain for each in group),
    )
