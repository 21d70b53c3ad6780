"""What was told to people on their channels, and what they replied, as pages show it."""

import msgspec


class DeliveryView(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is told on one channel.

    ``status`` is waiting, sending, delivered, dropped (nobody needed it any more) or failed (given up);
    ``reason`` says why, also of the last attempt that failed. It is not sent before ``due_at``. What was told
    in one message has the same ``bundle``.
    """

    delivery_id: str
    channel: str
    kind: str
    urgency: str
    title: str
    text: str
    status: str
    reason: str
    attempts: int
    first_at: str
    due_at: str
    ended_at: str
    bundle: str
    goal_id: str


class ReplyView(msgspec.Struct, frozen=True, kw_only=True, rename={"created_at": "at"}):
    """What a person replied on a channel, and what followed."""

    reply_id: str
    channel: str
    address: str
    delivery_id: str
    text: str
    outcome: str
    reason: str
    created_at: str


class ChannelView(msgspec.Struct, frozen=True, kw_only=True):
    """A channel: where it leads, the kinds it tells, its quiet hours, and how much of it waits or failed."""

    name: str
    where: str
    kinds: tuple[str, ...]
    quiet_hours: str
    delivered: int
    waiting: int
    failed: int


class DeliveryPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of deliveries, those that began last first; ``next`` is the cursor of the following one, empty
    at the end. ``waiting`` and ``failed`` count those of all channels, ``problem`` says why no channel is
    used, if [deliver] is wrong.
    """

    deliveries: list[DeliveryView]
    replies: list[ReplyView]
    channels: list[ChannelView]
    waiting: int
    failed: int
    problem: str
    next: str
