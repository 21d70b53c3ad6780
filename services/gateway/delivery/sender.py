"""Sends what is told on one channel: one message at a time, tried again with pauses, given up after a day."""

import asyncio
from datetime import UTC, datetime, timedelta, tzinfo

from services.gateway.context import Gateway
from services.gateway.delivery.codes import Codes
from services.gateway.delivery.journal import Journal
from services.gateway.delivery.timing import GIVE_UP, choose, end_of_quiet, pause_after
from services.gateway.delivery.writing import write_message
from services.gateway.inbox.open_requests import read_requests
from shared.clock import parse_timestamp
from shared.contracts import Delivery, DeliveryKind, DeliveryStatus, Urgency
from shared.delivery.config import AnyChannel, Span
from shared.delivery.message import DeliveryError
from shared.delivery.outlets import make_outlet
from shared.errors import Conflict, MailroomError
from shared.log import logger

LONGEST_WAIT = 30.0
"""Seconds after which it is looked again what is due: the clock of a machine may jump."""
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
            try:
                async with asyncio.timeout(self._seconds_until_due()):
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
        if reason := await self._find_outdated(group[0]):
            await self._journal.end(group, DeliveryStatus.DROPPED, reason=reason)
            return True
        bundle = group[0].bundle or (f"b{group[0].delivery_id[:30]}" if len(group) > 1 else "")
        attempts = group[0].attempts + 1
        group = await self._journal.change(
            group, status=DeliveryStatus.SENDING, bundle=bundle, attempts=attempts
        )
        message = await write_message(group, self._channel, self._codes, self._journal)
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

    async def _find_outdated(self, delivery: Delivery) -> str:
        """Why it need not be told any more; empty if it has to be."""
        if delivery.kind is not DeliveryKind.APPROVAL:
            return ""
        for each in (await read_requests(self._gateway)).approvals:
            if each.request.approval_id == delivery.about and each.state != "waiting":
                return f"it was {each.state} before it was told"
        return ""

    def _seconds_until_due(self) -> float:
        now = datetime.now(UTC)
        times = [
            max(parse_timestamp(each.due_at) if each.due_at else now, self._blocked_until)
            for each in self._journal.waiting_for(self._name)
        ]
        soon = min(times, default=now + timedelta(seconds=LONGEST_WAIT))
        return min(LONGEST_WAIT, max(0.05, (soon - now).total_seconds()))
