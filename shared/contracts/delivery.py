"""What people are told by mail, on a telephone or elsewhere, and what they reply there."""

from enum import StrEnum
from typing import Annotated

import msgspec

from shared.contracts.base import (
    AgentName,
    Count,
    Envelope,
    OptionalTimestamp,
    OptionalToken,
    Timestamp,
    Token,
    at_most,
    generate_iso_timestamp,
)


class DeliveryStatus(StrEnum):
    """The status of a delivery; the last three are final."""

    WAITING = "waiting"
    SENDING = "sending"
    DELIVERED = "delivered"
    DROPPED = "dropped"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        """Whether nothing more happens to it."""
        return self not in (DeliveryStatus.WAITING, DeliveryStatus.SENDING)


class DeliveryKind(StrEnum):
    """What a delivery tells; ``answer`` is what follows from a person's reply."""

    REMINDER = "reminder"
    APPROVAL = "approval"
    QUESTION = "question"
    GOAL_FAILED = "goal_failed"
    GOAL_DONE = "goal_done"
    BRIEFING = "briefing"
    DEAD_LETTER = "dead_letter"
    ANSWER = "answer"


class Urgency(StrEnum):
    """How urgent it is that a person knows; only what is high is told in quiet hours."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"

    @property
    def rank(self) -> int:
        """0, 1 or 2."""
        return list(Urgency).index(self)


class ReplyOutcome(StrEnum):
    """What a person's reply led to; ``ignored`` is one of which nothing follows, for a ``reason``."""

    APPROVED = "approved"
    REFUSED = "refused"
    DONE = "done"
    SNOOZED = "snoozed"
    REPLIED = "replied"
    ASKED = "asked"
    WRONG_CODE = "wrong_code"
    IGNORED = "ignored"


class Delivery(Envelope, frozen=True, kw_only=True, tag="delivery.v1"):
    """One thing that is told on one channel, as the record ``record.gateway.delivery.<delivery_id>``.

    ``about`` is what a reply acts on: a request's or a reminder's id, a letter's number; of an answer, the id
    of the reply. It is not sent before ``due_at``. ``bundle`` is the id of the message that it is sent in
    with others, ``reference`` what the channel calls the message. ``attempts`` counts those that were begun;
    ``uncertain``: one of them may have reached the person.
    """

    delivery_id: Token
    channel: AgentName
    kind: DeliveryKind
    urgency: Urgency = Urgency.NORMAL
    title: Annotated[str, at_most(500)]
    text: Annotated[str, at_most(10_000)] = ""
    link: Annotated[str, at_most(1_000)] = ""
    about: OptionalToken = ""
    status: DeliveryStatus = DeliveryStatus.WAITING
    reason: Annotated[str, at_most(1_000)] = ""
    attempts: Count = 0
    first_at: Timestamp = msgspec.field(default_factory=generate_iso_timestamp)
    due_at: OptionalTimestamp = ""
    ended_at: OptionalTimestamp = ""
    bundle: OptionalToken = ""
    uncertain: bool = False
    reference: Annotated[str, at_most(1_000)] = ""


class DeliveryReply(Envelope, frozen=True, kw_only=True, tag="delivery_reply.v1"):
    """What a person replied on a channel, as the record ``record.gateway.reply.<reply_id>``.

    ``address`` is who it came from as the channel names them, ``delivery_id`` the delivery that it answers,
    ``thread`` what the channel calls the reply.
    """

    reply_id: Token
    channel: AgentName
    address: Annotated[str, at_most(300)]
    delivery_id: OptionalToken = ""
    text: Annotated[str, at_most(10_000)] = ""
    outcome: ReplyOutcome
    reason: Annotated[str, at_most(1_000)] = ""
    thread: Annotated[str, at_most(1_000)] = ""
