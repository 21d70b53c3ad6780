"""What people reply on a channel: read, shown to be genuine, and carried out.

Whatever it is, it happens once: what a reply does has an id that follows from the reply.
"""

import asyncio
import re
import time
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec.structs import replace

from services.gateway.call import Gateway
from services.gateway.conversations import ask
from services.gateway.deciding import check_person, find_person
from services.gateway.delivery.events import ASKED, Dispatcher, Event, Wake
from services.gateway.delivery.journal import Journal
from services.gateway.delivery.sender import LIFE, MAX_WRONG, Codes
from services.gateway.inbox import forget_requests
from shared import subjects
from shared.access.scopes import People
from shared.clock import parse_timestamp
from shared.contracts import (
    AccessAct,
    Delivery,
    DeliveryKind,
    DeliveryReply,
    ReplyOutcome,
)
from shared.contracts.base import MAX_PERSON
from shared.delivery.channels import AnyChannel, Mail, Reply, Telegram
from shared.errors import BusError, MailroomError
from shared.language.times.time_parser import choose
from shared.log import logger
from shared.memory.ownership import reads_for
from shared.operations.approvals import answer_request
from shared.operations.letters import compose_reply, read_mail_item, send
from shared.text.display import flatten

_APPROVE, _REFUSE = ("approve", "approved", "grant"), ("refuse", "refused", "deny", "reject")
_WORDS = {**dict.fromkeys(_APPROVE, "approve"), **dict.fromkeys(_REFUSE, "refuse")}
_WEAK = {"yes": "approve", "ok": "approve", "okay": "approve", "no": "refuse"}
"""What begins other sentences too: "ok, what is it for?" decides nothing."""
_CODE = re.compile(r"[A-Za-z0-9]{6}")
_POLITE = re.compile(r"(please|thanks|thank you|go ahead|do it)?[\s.!]*$", re.IGNORECASE)
_REMINDER = re.compile(r"(done|snooze|cancel)\b[\s:,.!]*(.{0,100})$", re.IGNORECASE)
_LATER = re.compile(
    r"(?:please,? )?(?:later|(?:(?:remind|tell|ask) me )?(?:again )?"
    r"((?:in|for|until|till|at|on|next|this|tomorrow|tonight|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b.{0,40}?))"
    r"[\s.!,]*(?:please)?[\s.!]*$",
    re.IGNORECASE,
)
"""A moment alone, or "remind me again" with one."""


class Command(NamedTuple):
    """An act of LABELS, its ``code`` and the ``rest`` of the line; an empty act is a message for the desk."""

    act: str = ""
    code: str = ""
    rest: str = ""


def parse_decision(text: str) -> Command:
    """The answer to a request: ``approve CODE`` or ``refuse CODE why``."""
    line = text.strip().split("\n")[0]
    words = line.split()
    first = words[0].strip(".,:;!*").casefold() if words else ""
    act = _WORDS.get(first, "") or _WEAK.get(first, "")
    if not act:
        return Command()
    given = words[1].strip(".,:;!*()\"'") if len(words) > 1 else ""
    code = given if _CODE.fullmatch(given) else ""
    rest = " ".join(words[1:])
    asks = "?" in line or (first in _WEAK and not _POLITE.match(rest))
    if asks and not (code and any(each.isdigit() or each.isupper() for each in code)):
        return Command()
    return Command(act, code, " ".join(words[2 if code else 1 :])[:500])


def parse_reminder(text: str) -> Command:
    """The answer to a reminder: ``done``, ``cancel``, ``snooze``, ``snooze 2 hours``, ``tomorrow at 9``."""
    line = text.strip().split("\n")[0].strip()
    if found := _REMINDER.match(line):
        return Command(found[1].casefold(), "", found[2].strip())
    later = _LATER.match(line)
    if later is None or (later[1] and not choose(later[1]).chosen):
        return Command()
    return Command("snooze", "", later[1] or "")


ASKING = (ReplyOutcome.ASKED, ReplyOutcome.DONE, ReplyOutcome.SNOOZED)  # What the front desk is asked to do
DEFAULT_SNOOZE = "for 30 minutes"


class Replies:
    """Acts on what people reply; one after the other, so that wrong codes are counted."""

    def __init__(self, gateway: Gateway, journal: Journal, dispatcher: Dispatcher, wake: Wake) -> None:
        self._gateway, self._journal, self._dispatcher, self._wake = gateway, journal, dispatcher, wake
        self._codes = Codes(gateway.bus)
        self._wrong: dict[str, int] = {}

    async def take(self, name: str, channel: AnyChannel, reply: Reply) -> None:
        """Do what a reply says, unless that is done; raises BusError if it is to be tried again."""
        reply_id = ASKED + self._gateway.bus.derive_id("reply", name, reply.id)[:28]
        if (known := await self._journal.read_reply(reply_id)) is not None:
            if known.outcome in ASKING:  # a crash may have come between the record and the question
                await self._say(known)
            return
        delivery = await self._journal.find(name, delivery_id=reply.delivery_id, reference=reply.reference)
        ignored = reply.ignored
        if isinstance(channel, Mail) and not self._codes.is_token(reply.delivery_id, reply.token):
            # Anybody can write any sender into a mail.
            ignored = ignored or "it does not bring back the token of a mail of ours"
        if ignored:
            self._gateway.access.note(
                AccessAct.REPLY_REFUSED, address=reply.address, about=name, reason=ignored
            )
            return
        text = reply.text
        if delivery is not None:  # the log is not to hold a code
            code = self._codes.code(delivery.delivery_id)
            text = re.sub(code, "(code)", text, flags=re.IGNORECASE)
        note = DeliveryReply(
            sender=subjects.GATEWAY,
            recipient=subjects.USER,
            person=channel.person or flatten(f"{name}:{reply.address}", MAX_PERSON),
            reply_id=reply_id,
            channel=name,
            address=reply.address[:300],
            delivery_id=delivery.delivery_id if delivery else "",
            text=text[:10_000],
            outcome=ReplyOutcome.IGNORED,
            thread=reply.thread[:1_000],
        )
        try:
            outcome, said = await self._act(note, delivery, channel, reply)
        except BusError:
            raise
        except (MailroomError, ValueError) as error:
            outcome, said = ReplyOutcome.IGNORED, str(error)
        await self._journal.add_reply(_with(note, outcome, said))
        if said:
            title = f"Re: {delivery.title.removeprefix('Re: ')}"[:500] if delivery else "Mailroom"
            event = Event(key=reply_id, kind=DeliveryKind.ANSWER, title=title, text=said, about=reply_id)
            await self._dispatcher.add(name, channel, event, self._wake)

    async def _act(
        self, note: DeliveryReply, delivery: Delivery | None, channel: AnyChannel, reply: Reply
    ) -> tuple[ReplyOutcome, str]:
        """What follows, and what is said about it at once; an answer of the desk comes by itself."""
        text = f"{reply.act} {reply.text}".strip()
        if not text:
            return ReplyOutcome.IGNORED, "Your reply was empty."
        if delivery is not None and delivery.kind is DeliveryKind.APPROVAL:
            command = parse_decision(text)
            if command.act:
                needs_code = isinstance(channel, Mail)
                if needs_code and (problem := await self._find_wrong_code(delivery, command.code)):
                    return ReplyOutcome.WRONG_CODE, problem
                granted = command.act == "approve"
                await answer_request(
                    self._gateway.bus,
                    delivery.about,
                    granted,
                    command.rest,
                    person=note.person,
                    check=check_person(self._gateway, find_person(self._gateway.settings, channel.person)),
                )
                forget_requests(self._gateway)
                if granted:
                    return ReplyOutcome.APPROVED, f"Approved: {delivery.title}"
                return ReplyOutcome.REFUSED, f"Refused: {delivery.title}"
        elif delivery is not None and delivery.kind is DeliveryKind.REMINDER:
            command = parse_reminder(text)
            # Nexus is sent the text as a question; its answer comes back as to any question.
            if command.act == "done":
                words = f"Mark the reminder {delivery.about} as done"
                return await self._ask(note, words, ReplyOutcome.DONE)
            if command.act == "cancel":
                return await self._ask(note, f"Cancel the reminder {delivery.about}", ReplyOutcome.ASKED)
            if command.act:
                words = f"Snooze the reminder {delivery.about} {_say_until(command.rest)}"
                return await self._ask(note, words, ReplyOutcome.SNOOZED)
        elif delivery is not None and delivery.kind is DeliveryKind.QUESTION:
            original = await read_mail_item(self._gateway.bus, int(delivery.about))
            email = compose_reply(original, text, person=note.person, email_id=note.reply_id)
            await send(self._gateway.bus, email)
            return ReplyOutcome.REPLIED, f"Your reply went to {original.sender}."
        elif delivery is None and parse_decision(text).act and len(text.split()) < 3:
            return (
                ReplyOutcome.IGNORED,
                "I cannot tell what this answers. Reply to the message that you mean.",
            )
        return await self._ask(note, text, ReplyOutcome.ASKED)

    async def _find_wrong_code(self, delivery: Delivery, code: str) -> str:
        """Why a code does not count, empty if it does; after MAX_WRONG none counts."""
        known = self._gateway.index.store.query(
            "SELECT count(*) FROM replies WHERE delivery_id = ? AND outcome = ?",
            [delivery.delivery_id, ReplyOutcome.WRONG_CODE.value],
        )
        wrong = max(self._wrong.get(delivery.delivery_id, 0), int(known[0][0]))
        genuine = self._codes.is_code(delivery.delivery_id, code)
        if wrong >= MAX_WRONG:
            return f"{MAX_WRONG} wrong codes came for this request: answer it in the dashboard."
        if time.time() - parse_timestamp(delivery.first_at).timestamp() > LIFE:
            return "The code of this request has expired: answer it in the dashboard."
        if genuine:
            return ""
        self._wrong[delivery.delivery_id] = wrong + 1
        return "The code is missing or wrong: reply with the code that came with the request."

    async def _ask(self, note: DeliveryReply, text: str, outcome: ReplyOutcome) -> tuple[ReplyOutcome, str]:
        """Say ``text`` to the front desk; the record comes first, for the answer finds by it where to go."""
        asked = _with(replace(note, text=text[:10_000]), outcome, "")
        await self._journal.add_reply(asked)
        await self._say(asked)
        return outcome, ""

    async def _say(self, note: DeliveryReply) -> None:
        """Say it in the session of this person on this channel, once."""
        people = People(self._gateway.settings)
        if people.are_several and people.find(note.person):
            reads_for.set(subjects.PERSON + note.person)
        session = f"{note.channel}-{self._gateway.bus.derive_id('session', note.channel, note.address)[:16]}"
        await ask(self._gateway, note.reply_id, note.text, note.person, session, remember=True)


def _with(note: DeliveryReply, outcome: ReplyOutcome, reason: str) -> DeliveryReply:
    moment = datetime.now(UTC).isoformat()
    return replace(note, outcome=outcome, reason=flatten(reason, 1_000), created_at=moment)


def _say_until(rest: str) -> str:
    """The time of a snooze as nexus is asked for it: ``2 hours`` is a length, ``tomorrow at 9`` a moment."""
    words = rest.strip(" .!").split() or DEFAULT_SNOOZE.split()
    first = words[0].casefold()
    if first in ("for", "until", "till", "to"):
        return " ".join(words)
    if first == "in":
        return " ".join(["for", *words[1:]])
    lasts = first in ("a", "an", "half") or first[0].isdigit()
    return " ".join(["for" if lasts else "until", *words])


PAUSE, LONGEST_PAUSE = 2.0, 300.0
"""Seconds until a channel is read again after an error; each pause is twice the one before."""

log = logger(__name__)


async def listen(name: str, channel: AnyChannel, replies: Replies) -> None:
    """Take the replies of a channel without end."""
    from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_exponential

    def note(state: RetryCallState) -> None:
        log.warning("replies_unread", channel=name, reason=str(state.outcome and state.outcome.exception()))

    async def take(offset: int) -> int:
        """Take what came since ``offset``, and wait for more; the next offset."""
        if isinstance(channel, Telegram):
            from shared.delivery.outlets import TelegramOutlet

            # The server forgets what came when it is asked for what follows.
            found, offset = await TelegramOutlet(channel).read_replies(offset)
            for reply in found:
                await replies.take(name, channel, reply)
        elif isinstance(channel, Mail):
            from shared.delivery.smtp import mark_read, read_replies

            # Marked as read after it is taken: a crash between has it read again, once taken.
            for number, reply in await asyncio.to_thread(read_replies, channel):
                await replies.take(name, channel, reply)
                await asyncio.to_thread(mark_read, channel, [number])
            await asyncio.sleep(channel.poll)
        return offset

    errors = retry_if_exception_type((MailroomError, OSError))
    pauses = wait_exponential(PAUSE, max=LONGEST_PAUSE)
    asking, offset = AsyncRetrying(retry=errors, wait=pauses, before_sleep=note), 0
    while True:
        offset = await asking(take, offset)
