"""Follows the log, and writes one delivery for each event and each channel that tells it.

How far the log was read is kept on disk, and written after the deliveries. What is read again after a crash
finds their records.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo

import msgspec

from services.gateway.context import Gateway
from services.gateway.delivery.events import Event, make_event
from services.gateway.delivery.journal import Journal
from services.gateway.delivery.timing import first_attempt
from services.gateway.hooks.notices import may_concern
from services.gateway.index.rows import STREAMS, Position
from services.gateway.index.store import Filter
from shared import subjects
from shared.access.file import RecordFile
from shared.contracts import Delivery, DeliveryKind
from shared.delivery.config import Channel, Deliver
from shared.queries.records import last_sequence, read_message

NOTE_INTERVAL = 30.0
"""Seconds after which it is written how far the log was read, though there was nothing to tell."""
READ = "log"
Wake = Callable[[str], None]
"""Called with the name of a channel that has something to send."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the log was read."""

    position: str


class Dispatcher:
    """Makes deliveries of what happens from now on, and of what happened while the gateway was off."""

    def __init__(self, gateway: Gateway, deliver: Deliver, journal: Journal, zone: tzinfo | None) -> None:
        self._gateway, self._deliver, self._journal, self._zone = gateway, deliver, journal, zone
        self._progress = RecordFile(gateway.settings.gateway / "told.json", Progress)

    async def run(self, wake: Wake) -> None:
        """Follow the log without end; ``wake`` is called with the channel of each new delivery."""
        known = self._progress.read().get(READ)
        if known is None:
            ends = [await last_sequence(self._gateway.bus, stream) for stream in STREAMS]
            known = self._note(str(Position(*ends)))
        noted = time.monotonic()
        async for batch in self._gateway.index.events(Position.parse(known.position), Filter()):
            for each in batch:
                if not may_concern(each.row.subject):
                    continue
                stored = await read_message(self._gateway.bus, each.row.stream, each.row.seq)
                long = timedelta(seconds=self._deliver.long_goal)
                event = await make_event(stored, self._gateway, long) if stored else None
                if event and await self._tell(event, wake):
                    self._note(each.row.position)
                    noted = time.monotonic()
            if time.monotonic() - noted > NOTE_INTERVAL:
                self._note(batch[-1].row.position)
                noted = time.monotonic()

    def forget(self) -> None:
        """Begin with what happens from now on: nothing is told at present."""
        if self._progress.read():
            with self._progress.change() as records:
                records.clear()

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

    def _note(self, position: str) -> Progress:
        progress = Progress(position=position)
        with self._progress.change() as records:
            records[READ] = progress
        return progress
