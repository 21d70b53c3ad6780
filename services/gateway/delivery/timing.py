"""When what is told, and which of what waits goes into one message: functions of records and a moment."""

import random
from collections.abc import Iterable
from datetime import datetime, timedelta, tzinfo

from shared.clock import localize, parse_timestamp
from shared.contracts import Delivery, DeliveryKind, DeliveryStatus, Urgency
from shared.delivery.config import Span

FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=2), timedelta(minutes=15)
"""Between two attempts; each pause is about twice the one before."""
GIVE_UP = timedelta(days=1)
"""After which a delivery is no longer attempted."""
WAITED = timedelta(minutes=1)
"""What waited for so long is told together."""
CROWD = 20
"""So is what comes when more than this waits: an agent can write as much as it likes."""
MOST_BUNDLED = 30
"""The most deliveries in one message."""
TURNS = 5
"""Attempts at one message, about a minute, until others have their turn: it may be at fault itself."""
ALONE = (DeliveryKind.APPROVAL, DeliveryKind.QUESTION, DeliveryKind.ANSWER)
"""What is never bundled: a person answers it."""


def end_of_quiet(now: datetime, span: Span | None, zone: tzinfo | None) -> datetime | None:
    """When the quiet hours end that it is in at ``now``; None outside of them. The end is not quiet."""
    if span is None:
        return None
    here = now.astimezone(zone)
    wall = here.time().replace(tzinfo=None)
    over_night = span.start > span.end
    begun, ended = wall >= span.start, wall >= span.end
    if not (begun or not ended if over_night else begun and not ended):
        return None
    day = here.date() + timedelta(days=int(over_night and begun))
    return localize(datetime.combine(day, span.end), zone)


def first_attempt(urgency: Urgency, now: datetime, span: Span | None, zone: tzinfo | None) -> datetime | None:
    """When something of that urgency is told first; None for at once."""
    return None if urgency is Urgency.HIGH else end_of_quiet(now, span, zone)


def pause_after(attempts: int) -> timedelta:
    """The pause after so many attempts, with a fifth of chance."""
    seconds = min(LONGEST_PAUSE.total_seconds(), FIRST_PAUSE.total_seconds() * 2.0 ** min(attempts - 1, 20))
    return timedelta(seconds=seconds) * random.uniform(0.8, 1.2)  # noqa: S311  # spreads load


def choose(waiting: Iterable[Delivery], now: datetime, *, bundles: bool) -> list[Delivery]:
    """What the next message of a channel tells: one delivery, or several that waited; nothing if none is due.

    Those that were bundled before stay together, so that the message stays the same.
    """
    due = sorted(
        (each for each in waiting if is_due(each, now)),
        key=lambda each: (each.attempts // TURNS, each.first_at),
    )
    if not due:
        return []
    first, crowded = due[0], len(due) > CROWD
    if first.bundle:
        return [each for each in due if each.bundle == first.bundle]
    if not bundles or not _may_be_bundled(first, now, crowded):
        return [first]
    return [each for each in due if _may_be_bundled(each, now, crowded)][:MOST_BUNDLED]


def is_due(delivery: Delivery, now: datetime) -> bool:
    """Whether a delivery is to be attempted now; one whose attempt was interrupted is."""
    if delivery.status is DeliveryStatus.SENDING or not delivery.due_at:
        return True
    return parse_timestamp(delivery.due_at) <= now


def _may_be_bundled(delivery: Delivery, now: datetime, crowded: bool) -> bool:
    """Whether it may go with others; one that was attempted may not, for its message is to stay the same."""
    waited = crowded or now - parse_timestamp(delivery.first_at) >= WAITED
    return waited and delivery.kind not in ALONE and not delivery.attempts
