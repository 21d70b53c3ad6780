"""Mail: what agents wrote to people, by words and meaning, and the person's own mailbox, by words."""

import operator
from typing import TYPE_CHECKING

import msgspec

from services.nexus.routing.mail_query import COMMON, MailWanted, parse_wanted
from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Tool
from shared import subjects
from shared.clock import parse_timestamp
from shared.contracts import Email
from shared.delivery.mailbox import FoundMail, FoundMails, MailboxQuery
from shared.errors import BusError, Refused
from shared.text.phrases import count
from shared.text.shorten import flatten
from shared.text.words import find_stems, find_terms

if TYPE_CHECKING:
    from services.nexus.desk import Desk

MOST = 5
"""The most letters of an answer, of agents and of the mailbox."""
READ = 60
"""The most letters, the latest, whose meaning is compared."""
NEAR = 0.62
"""The least cosine at which a letter counts as about what is asked."""
PATIENCE = 45.0
"""Seconds that the gateway has for a search of the mailbox."""


def read(desk: "Desk", request: Request) -> MailWanted:
    """What the message says of the mail; nothing if it asks for the latest."""
    return parse_wanted(request.text, desk.now(request).date())


async def search(desk: "Desk", request: Request, wanted: MailWanted) -> Answer:
    """The mails that the message is about: of agents the nearest first, of the mailbox the newest first."""
    letters = (await desk.office.letters())[::-1]
    chosen, by_agent = await _choose(desk, request.text, letters)
    lines = [_format_letter(letter) for letter in chosen[:MOST]]
    if len(chosen) > MOST:
        lines.append(f"... and {len(chosen) - MOST} more: mailroom mail list")
    own = "" if by_agent else await _search_mailbox(desk, request, wanted)
    if not lines:
        among = f"None of the {count(len(letters), 'letter')} that agents wrote to you is about that."
        lines = [among if letters else "No agent has written to you."]
    elif own:
        lines.insert(0, "From agents:")
    return Answer(
        text="\n".join(filter(None, [own, *lines])), citations=tuple(each.id for each in chosen[:MOST])
    )


async def _choose(desk: "Desk", text: str, letters: list[Email]) -> tuple[list[Email], bool]:
    """The agents' letters that ``text`` is about, and whether it names one of the agents."""
    about = find_terms(text).keys() - COMMON
    senders = [letter for letter in letters if letter.sender in text.lower()]
    if senders:
        return senders, True
    chosen = await _find(desk, text, letters, frozenset(about)) if letters else []
    return (chosen if about else letters), False


def _format_letter(letter: Email) -> str:
    return (
        f"- {letter.created_at[:10]}, {letter.sender}: {flatten(letter.subject or letter.body, 120)}"
        f" - {flatten(letter.body, 200)} (mailroom mail show {letter.id})"
    )


async def _search_mailbox(desk: "Desk", request: Request, wanted: MailWanted) -> str:
    """What the person's mailbox has, or in a sentence why it was not searched; for people alone."""
    if request.asker != subjects.USER:
        return ""
    query = MailboxQuery(**msgspec.structs.asdict(wanted), person=request.person)
    try:
        data = await desk.context.bus.request(subjects.MAILBOX, msgspec.json.encode(query), timeout=PATIENCE)
    except Refused as error:
        return f"Your mailbox was not searched: {error}"
    except BusError:
        return "Your mailbox was not searched: the gateway does not answer. See 'mailroom status'."
    found = msgspec.json.decode(data, type=FoundMails)
    kind = "unread mail" if wanted.unread else "mail"
    if not found.count:
        return f"Your mailbox has no {kind} like that."
    like = "with some of these words" if found.partly else "like that"
    lines = [
        f"Your mailbox has {count(found.count, kind)}" + (f" {like}:" if wanted != MailWanted() else ":")
    ]
    lines += [_format_mail(desk, mail) for mail in found.mails[:MOST]]
    if found.count > MOST:
        lines.append(f"... and {found.count - MOST} more")
    return "\n".join(lines)


def _format_mail(desk: "Desk", mail: FoundMail) -> str:
    came = f"{parse_timestamp(mail.at).astimezone(desk.zone):%Y-%m-%d %H:%M}" if mail.at else "no date"
    line = f"- {came}, {mail.sender or '(no sender)'}: {mail.subject}"
    return f"{line} - {mail.text}" if mail.text else line


async def _find(desk: "Desk", text: str, letters: list[Email], about: frozenset[str]) -> list[Email]:
    """The letters with words of ``text``, or near to it in meaning, best first."""
    recent = letters[:READ]
    whole = [f"{letter.subject} {letter.body}"[:1_000] for letter in recent]
    marks = [float(len(about & find_stems(each))) for each in whole]
    try:
        asked, *vectors = await desk.context.memory.embed(text, *whole)
    except BusError:
        vectors = []
    for place, vector in enumerate(vectors):
        near = sum(map(operator.mul, asked, vector))
        marks[place] += near if near >= NEAR else 0.0
    ranked = sorted(zip(marks, range(len(recent)), strict=True), key=lambda pair: (-pair[0], pair[1]))
    return [recent[place] for mark, place in ranked if mark > 0]


TOOL = Tool(
    name="mail",
    description="searches the letters that agents wrote to you, and your own mailbox if one is set",
    run=search,
    parameters=MailWanted,
    read=read,
    personal=True,
)
