"""Follows the log, and writes one delivery for each event and each channel that tells it.

What is read again after a crash finds the records of its deliveries.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from services.gateway.call import Gateway
from services.gateway.delivery.events import Event, make_event
from services.gateway.delivery.journal import Journal
from services.gateway.delivery.sender import first_attempt
from services.gateway.index.reading import LogReader
from shared import subjects
from shared.contracts import Delivery, DeliveryKind
from shared.delivery.config import Channel, Deliver

READ = "log"
Wake = Callable[[str], None]  # Called with the name of a channel that has something to send


class Dispatcher:
    """Makes deliveries of what happens from now on, and of what happened while the gateway was off."""

    def __init__(self, gateway: Gateway, deliver: Deliver, journal: Journal, zone: tzinfo | None) -> None:
        self._gateway, self._deliver, self._journal, self._zone = gateway, deliver, journal, zone
        self._reader = LogReader(gateway.bus, gateway.index, gateway.settings.gateway / "told.json")

    async def run(self, wake: Wake) -> None:
        """Follow the log without end; ``wake`` is called with the channel of each new delivery."""
        long = timedelta(seconds=self._deliver.long_goal)
        async for position, stored in self._reader.follow(READ):
            event = await make_event(stored, self._gateway, long)
            if event and await self._tell(event, wake):
                self._reader.note(READ, position=position)

    def forget(self) -> None:
        """Begin with what happens from now on: nothing is told at present."""
        self._reader.forget_all_but(())

    async def _tell(self, event: Event, wake: Wake) -> bool:
        """Write the deliveries of an event; whether there is one."""
        if event.kind is DeliveryKind.ANSWER:
            return await self._tell_answer(event, wake)
        told = False
        for name, channel in self._deliver.channels.items():
            if self._deliver.is_told(channel, event.kind):
                await self.add(name, channel, event, wake)
                told = True
        return told

    async def _tell_answer(self, event: Event, wake: Wake) -> bool:
        """Write the answer to a reply on the channel that the reply came by."""
        reply = await self._journal.read_reply(event.about)
        channel = self._deliver.channels.get(reply.channel) if reply else None
        if reply is None or channel is None:
            return False
        before = await self._journal.find(reply.channel, delivery_id=reply.delivery_id)
        title = f"Re: {before.title.removeprefix('Re: ')}"[:500] if before else "Mailroom"
        await self.add(reply.channel, channel, msgspec.structs.replace(event, title=title), wake)
        return True

    async def add(self, name: str, channel: Channel, event: Event, wake: Wake) -> None:
        """Write the delivery of an event on a channel, unless it is known."""
        urgency = self._deliver.urgency_of(event.kind)
        now = datetime.now(UTC)
        due = first_attempt(urgency, now, self._deliver.quiet_span(channel), self._zone)
        delivery = Delivery(
            sender=subjects.GATEWAY,
            recipient=subjects.USER,
            goal_id=event.goal_id,
            delivery_id=self._gateway.bus.derive_id("delivery", name, event.kind, event.key),
            channel=name,
            kind=event.kind,
            urgency=urgency,
            title=event.title,
            text=event.text,
            link=event.link,
            about=event.about,
            first_at=now.isoformat(),
            due_at=due.astimezone(UTC).isoformat() if due else "",
        )
        if await self._journal.add(delivery):
            wake(name)
