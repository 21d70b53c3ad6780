"""What people are told, made from the messages of the log: a delivery for each event and each channel.

What is read again after a crash finds the records of its deliveries.
"""

import re
import time
from collections.abc import AsyncIterator, Callable, Collection
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import msgspec

from services.gateway.call import Gateway
from services.gateway.delivery.journal import Journal
from services.gateway.delivery.sender import first_attempt
from services.gateway.inbox import is_question
from services.gateway.index.index import LogIndex
from services.gateway.index.rows import STREAMS, Position
from services.gateway.index.store import Filter
from services.gateway.security.bucket import Bucket
from shared import subjects
from shared.access.credentials import public_address
from shared.bus import Bus, Stored
from shared.bus.client import is_handled
from shared.contracts import (
    AgentReport,
    ApprovalRequest,
    DeadLetter,
    Delivery,
    DeliveryKind,
    Email,
    Goal,
    Response,
    StateChanged,
    TaskStatus,
    decode,
)
from shared.delivery.channels import Channel, Deliver
from shared.operations.letters import parse_mail
from shared.queries.records import last_sequence
from shared.text.display import flatten, quote_exactly
from shared.text.times import seconds_between
from shared.trail.archives import read_message

TITLE, LINE, BODY = 200, 400, 8_000  # The most characters of a title, of a line and of a text
ASKED = "told"  # What the ids of questions begin with that people asked by replying
_REMINDER = re.compile(r"\breminders \w+ (r[0-9a-f]{6,40})\b")
_COMMAND = re.compile(r"^.*\bmailroom reminders .*$\n?", re.MULTILINE)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to tell; ``key`` is the same however often the log is read. ``about`` is as in Delivery."""

    key: str
    kind: DeliveryKind
    title: str
    text: str = ""
    goal_id: str = ""
    about: str = ""
    link: str = ""
    audience: str = ""


async def make_event(stored: Stored, gateway: Gateway, long_goal: timedelta) -> Event | None:
    """The event of a message, if people are to know of it."""
    try:
        envelope = decode(stored.data)
    except ValueError:
        return None
    address = public_address(gateway.settings, gateway.url)
    match envelope:
        case StateChanged(goal=Goal(part_of="") as goal) if goal.status.final and goal.ended_at:
            return _goal_event(goal, long_goal, address)
        case ApprovalRequest():
            return _approval_event(envelope, address)
        case DeadLetter():
            return Event(
                key=f"{stored.stream}-{stored.seq}",
                kind=DeliveryKind.DEAD_LETTER,
                title=flatten(f"{envelope.sender} could not handle a message", TITLE),
                text=flatten(envelope.reason, BODY),
                goal_id=envelope.goal_id,
                link=f"{address}/",
            )
        case Email() | AgentReport() | Response():
            sender = subjects.Address.of(stored.subject).sender
            # Briefings and answers are the desk's alone: another's would be told as if the desk said it.
            if envelope.sender in ("", sender) and (isinstance(envelope, Email) or sender == subjects.NEXUS):
                if isinstance(envelope, AgentReport):
                    is_one = envelope.report_type.endswith("_briefing")
                    return _briefing_event(envelope, address) if is_one else None
                if isinstance(envelope, Response):
                    return _answer_event(envelope)
                found = _REMINDER.search(envelope.body)
                if sender == subjects.NEXUS and envelope.subject.startswith("Reminder: ") and found:
                    return Event(
                        key=envelope.id,
                        kind=DeliveryKind.REMINDER,
                        title=flatten(envelope.subject, TITLE),
                        text=_COMMAND.sub("", envelope.body).strip()[:BODY],
                        about=found[1],
                        link=f"{address}/timetable",
                    )
                mail = parse_mail(stored)
                if mail is None or not await is_question(gateway, mail):
                    return None
                return Event(
                    key=mail.id,
                    kind=DeliveryKind.QUESTION,
                    title=flatten(f"{mail.sender} asks: {mail.subject or mail.body}", TITLE),
                    text=quote_exactly(mail.body, BODY, f"at {address}/"),
                    about=str(mail.number),
                    link=f"{address}/",
                )
    return None


def _goal_event(goal: Goal, long_goal: timedelta, address: str) -> Event | None:
    failed = goal.failed
    long = seconds_between(goal.submitted_at, goal.ended_at) >= long_goal.total_seconds()
    if not failed and not (goal.status is TaskStatus.COMPLETED and long):
        return None
    state = goal.standing.capitalize()
    return Event(
        key=f"{goal.goal_id}-{goal.ended_at}",
        kind=DeliveryKind.GOAL_FAILED if failed else DeliveryKind.GOAL_DONE,
        title=flatten(f"{state}: {goal.text}", TITLE),
        text=quote_exactly(goal.reason or goal.answer, BODY, f"at {address}/goals/{goal.goal_id}"),
        goal_id=goal.goal_id,
        link=f"{address}/goals/{goal.goal_id}",
    )


def _approval_event(request: ApprovalRequest, address: str) -> Event:
    why = f"Why it asks: {flatten(request.why, LINE)}" if request.why else ""
    until = f"Without an answer it is refused at {request.expires_at[:16].replace('T', ' ')} UTC."
    link = f"{address}/goals/{request.goal_id}" if request.goal_id else f"{address}/"
    return Event(
        key=f"{request.sender}-{request.approval_id}",
        kind=DeliveryKind.APPROVAL,
        title=flatten(f"{request.sender} asks: {request.what}", TITLE),
        text="\n\n".join(filter(None, (quote_exactly(request.what, BODY, f"at {link}"), why, until))),
        goal_id=request.goal_id,
        about=request.approval_id,
        link=link,
    )


def _briefing_event(report: AgentReport, address: str) -> Event:
    told = "\n".join(f"- {each}" for each in report.findings) or report.summary
    return Event(
        key=report.report_id,
        kind=DeliveryKind.BRIEFING,
        title=flatten(report.summary.split("\n")[0], TITLE),
        text=told[:BODY],
        link=f"{address}/",
    )


def _answer_event(response: Response) -> Event | None:
    """The answer to what a person wrote on a channel, which the dispatcher finds by the question's id."""
    if not response.cause.startswith(ASKED):
        return None
    return Event(
        key=response.cause,
        kind=DeliveryKind.ANSWER,
        title="",
        text=response.text[:BODY],
        goal_id=response.goal_id,
        about=response.cause,
    )


READ = "log"
Wake = Callable[[str], None]  # Called with the name of a channel that has something to send


class Dispatcher:
    """Makes deliveries of what happens from now on, and of what happened while the gateway was off."""

    def __init__(self, gateway: Gateway, deliver: Deliver, journal: Journal, zone: tzinfo | None) -> None:
        self._gateway, self._deliver, self._journal, self._zone = gateway, deliver, journal, zone
        self._reader = LogReader(gateway.bus, gateway.index, gateway.bucket, "told")

    async def run(self, wake: Wake) -> None:
        """Follow the log without end; ``wake`` is called with the channel of each new delivery."""
        long = timedelta(seconds=self._deliver.long_goal)
        async for position, stored in self._reader.follow(READ):
            event = await make_event(stored, self._gateway, long)
            row = self._gateway.index.store.message(stored.stream, stored.seq) if event else None
            if event and row and row.audience:
                event = msgspec.structs.replace(event, audience=row.audience)
            if event and await self._tell(event, wake):
                await self._reader.note(READ, position=position)

    async def forget(self) -> None:
        """Begin with what happens from now on: nothing is told at present."""
        await self._reader.forget_all_but(())

    async def _tell(self, event: Event, wake: Wake) -> bool:
        """Write the deliveries of an event; whether there is one."""
        if event.kind is DeliveryKind.ANSWER:
            # The answer to a reply goes to the channel that the reply came by.
            reply = await self._journal.read_reply(event.about)
            channel = self._deliver.channels.get(reply.channel) if reply else None
            if reply is None or channel is None:
                return False
            before = await self._journal.find(reply.channel, delivery_id=reply.delivery_id)
            title = f"Re: {before.title.removeprefix('Re: ')}"[:500] if before else "Mailroom"
            await self.add(reply.channel, channel, msgspec.structs.replace(event, title=title), wake)
            return True
        told = [
            (name, channel)
            for name, channel in self._deliver.channels.items()
            if self._deliver.is_told(channel, event.kind) and event.audience in ("", channel.person)
        ]
        for name, channel in told:
            await self.add(name, channel, event, wake)
        return bool(told)

    async def add(self, name: str, channel: Channel, event: Event, wake: Wake) -> None:
        """Write the delivery of an event on a channel, unless it is known."""
        urgency = self._deliver.urgency_of(event.kind)
        now = datetime.now(UTC)
        due = first_attempt(urgency, now, self._deliver.quiet_span(channel), self._zone)
        delivery = Delivery(
            sender=subjects.GATEWAY,
            recipient=subjects.USER,
            audience=event.audience,
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


NOTE_INTERVAL = 30.0
"""Seconds after which it is written how far the log was read, though there was nothing to tell."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the log was read: a position.

    ``delivered`` are the ids of what was told last; ``failing_since``, in seconds since 1970, is the first
    attempt to tell what follows.
    """

    position: str
    delivered: tuple[str, ...] = ()
    failing_since: float = 0.0


class LogReader:
    """The messages that people may be told of, for readers of a ``kind`` with names; the bucket keeps how
    far each is.

    It is written after what a message leads to: what is read again after a crash was perhaps told.
    """

    def __init__(self, bus: Bus, index: LogIndex, bucket: Bucket, kind: str) -> None:
        self._bus, self._index, self._bucket, self._kind = bus, index, bucket, kind

    async def follow(self, name: str) -> AsyncIterator[tuple[str, Stored]]:
        """Each message and its position, without end; a new reader begins with what happens from now on."""
        known = self.find(name)
        if known is None:
            ends = [await last_sequence(self._bus, stream) for stream in STREAMS]
            known = await self.note(name, position=str(Position(*ends)))
        noted = time.monotonic()
        async for batch in self._index.events(Position.parse(known.position), Filter()):
            for each in batch:
                stored = None
                if may_be_told(each.row.subject):
                    stored = await read_message(self._bus, each.row.stream, each.row.seq)
                if stored is not None and not is_handled(stored.headers):
                    yield each.row.position, stored
            if time.monotonic() - noted > NOTE_INTERVAL:
                await self.note(name, position=batch[-1].row.position)
                noted = time.monotonic()

    def find(self, name: str) -> Progress | None:
        """How far a reader is; None for a new one."""
        data = self._bucket.find(f"{self._kind}.{name}")
        return msgspec.json.decode(data, type=Progress) if data else None

    async def note(self, name: str, **fields: Any) -> Progress:
        """Write how far a reader is; a field that is not given stays."""
        known = self.find(name)
        noted = msgspec.structs.replace(known, **fields) if known else Progress(**fields)
        await self._bucket.put(f"{self._kind}.{name}", msgspec.json.encode(noted))
        return noted

    async def forget_all_but(self, names: Collection[str]) -> None:
        """Forget the other readers: one of such a name is new."""
        for name in self._bucket.list(self._kind).keys() - names:
            await self._bucket.remove(f"{self._kind}.{name}")


def may_be_told(subject: str) -> bool:
    """Whether people may be told of a message on ``subject``."""
    match subject.split("."):
        case ["approval", _, "asked", _] | ["dead", _] | ["state", "goal", _]:
            return True
        case ["mail", recipient, _]:
            return recipient == subjects.USER
    return False
