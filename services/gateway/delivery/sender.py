"""Sends what is told on one channel: when, what goes into one message, its codes, tried again with pauses."""

import asyncio
import hmac
import random
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from services.gateway.call import Gateway
from services.gateway.delivery.journal import Journal
from services.gateway.inbox import read_requests
from shared.bus import Bus
from shared.clock import localize, parse_timestamp
from shared.contracts import Delivery, DeliveryKind, DeliveryStatus, Urgency
from shared.delivery.channels import AnyChannel, DeliveryError, Mail, Message, Span, Telegram
from shared.delivery.outlets import make_outlet
from shared.errors import Conflict, MailroomError
from shared.log import logger

ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"  # 32 letters and digits that nobody takes for another
LENGTH = 6  # Of a code: one of 2**30, of which MAX_WRONG are tried
MAX_WRONG = 5  # Wrong codes after which a request cannot be answered this way any more
LIFE = 24 * 3_600.0  # Seconds for which a code counts
_CODE = re.compile(rf"[{ALPHABET}]{{{LENGTH}}}", re.IGNORECASE)


class Codes:
    """Tokens and codes follow from the gateway's key and the delivery: a mail sent again has the same."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    def token(self, delivery_id: str) -> str:
        """What an answer to this delivery brings back: 16 hexadecimal digits."""
        return self._bus.derive_id("delivery-token", delivery_id)[:16]

    def code(self, delivery_id: str) -> str:
        """The code with which this request is answered."""
        number = int(self._bus.derive_id("delivery-code", delivery_id), 16)
        return "".join(ALPHABET[number >> 5 * place & 31] for place in range(LENGTH))

    def is_token(self, delivery_id: str, given: str) -> bool:
        """Whether ``given`` is the token; takes as long for any."""
        return hmac.compare_digest(self.token(delivery_id), given)

    def is_code(self, delivery_id: str, given: str) -> bool:
        """Whether ``given`` is the code, in small or capital letters; takes as long for any."""
        upper = given.upper() if _CODE.fullmatch(given) else ""
        return hmac.compare_digest(self.code(delivery_id), upper)


FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=2), timedelta(minutes=15)
"""Between two attempts; each pause is about twice the one before."""
GIVE_UP = timedelta(days=1)  # After which a delivery is no longer attempted
WAITED = timedelta(minutes=1)  # What waited for so long is told together
CROWD = 20  # So is what comes when more than this waits: an agent can write as much as it likes
MOST_BUNDLED = 30  # The most deliveries in one message
TURNS = 5  # Attempts at one message, about a minute, until others have their turn: it may be at fault itself
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


ACTS = {DeliveryKind.APPROVAL: ("approve", "refuse"), DeliveryKind.REMINDER: ("done", "snooze")}
"""What people can reply to a kind."""


async def write_message(
    group: Sequence[Delivery], channel: AnyChannel, codes: Codes, journal: Journal
) -> Message:
    """The message for a delivery; for several, one that lists them."""
    if len(group) > 1 or group[0].bundle:
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


LONGEST_WAIT = 30.0  # Seconds after which it is looked again what is due: the clock of a machine may jump
RETRY_PAUSE = 1.0

log = logger(__name__)


class Sender:
    """One channel; one that does not answer delays no other."""

    def __init__(
        self,
        gateway: Gateway,
        name: str,
        channel: AnyChannel,
        journal: Journal,
        *,
        quiet: Span | None,
        zone: tzinfo | None,
    ) -> None:
        self._gateway, self._name, self._channel, self._journal = gateway, name, channel, journal
        self._outlet, self._codes = make_outlet(channel), Codes(gateway.bus)
        self._quiet, self._zone = quiet, zone
        self._blocked_until = datetime.min.replace(tzinfo=UTC)
        self._failures = 0
        self.wake = asyncio.Event()

    async def run(self) -> None:
        """Send without end."""
        while True:
            self.wake.clear()
            try:
                if await self._send_next():
                    continue
            except Conflict as error:
                log.error("delivery_written_elsewhere", channel=self._name, reason=str(error))
                await self._journal.load()
            except (MailroomError, OSError) as error:
                log.warning("delivery_interrupted", channel=self._name, reason=str(error))
                await asyncio.sleep(RETRY_PAUSE)
            now = datetime.now(UTC)
            times = [
                max(parse_timestamp(each.due_at) if each.due_at else now, self._blocked_until)
                for each in self._journal.waiting_for(self._name)
            ]
            soon = min(times, default=now + timedelta(seconds=LONGEST_WAIT))
            try:
                async with asyncio.timeout(min(LONGEST_WAIT, max(0.05, (soon - now).total_seconds()))):
                    await self.wake.wait()
            except TimeoutError:
                continue

    async def _send_next(self) -> bool:
        """Send the next message, if one is due; whether there was one."""
        now = datetime.now(UTC)
        waiting = self._journal.waiting_for(self._name)
        group = choose(waiting, now, bundles=self._channel.bundles) if now >= self._blocked_until else []
        if not group:
            return False
        asked = (
            (await read_requests(self._gateway)).approvals if group[0].kind == DeliveryKind.APPROVAL else ()
        )
        for each in asked:
            if each.approval_id == group[0].about and each.state != "waiting":
                reason = f"it was {each.state} before it was told"
                await self._journal.end(group, DeliveryStatus.DROPPED, reason=reason)
                return True
        bundle = group[0].bundle or (f"b{group[0].delivery_id[:30]}" if len(group) > 1 else "")
        attempts = group[0].attempts + 1
        group = await self._journal.change(
            group, status=DeliveryStatus.SENDING, bundle=bundle, attempts=attempts
        )
        message = await write_message(group, self._channel, self._codes, self._journal)
        self._gateway.require_duty()
        try:
            reference = await self._outlet.send(message)
        except DeliveryError as error:
            await self._fail(group, error)
            return True
        self._failures = 0
        await self._journal.end(
            group, DeliveryStatus.DELIVERED, reference=reference[:1_000], reason="", uncertain=False
        )
        return True

    async def _fail(self, group: list[Delivery], error: DeliveryError) -> None:
        """Have it tried again later, or give it up."""
        reason, now = str(error)[:1_000], datetime.now(UTC)
        uncertain = error.uncertain or group[0].uncertain
        if error.final or now - parse_timestamp(group[0].first_at) > GIVE_UP:
            log.error("delivery_given_up", channel=self._name, title=group[0].title, reason=reason)
            await self._journal.end(group, DeliveryStatus.FAILED, reason=reason, uncertain=uncertain)
            return
        self._failures += 1
        self._blocked_until = now + pause_after(self._failures)
        due = now + pause_after(group[0].attempts)
        if group[0].urgency is not Urgency.HIGH and (end := end_of_quiet(due, self._quiet, self._zone)):
            due = end.astimezone(UTC)
        log.warning("delivery_retried", channel=self._name, title=group[0].title, reason=reason)
        await self._journal.change(
            group, status=DeliveryStatus.WAITING, due_at=due.isoformat(), reason=reason, uncertain=uncertain
        )
