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

EXAMPLES = """
any new mail?
do I have mail?
show me my mails
did Ana write to me?
what did scout write me yesterday?
search my mail for the invoice
find the mail about the contract
is there an email from the landlord
read me the last email
read the latest letter from conductor
what does the mail from frontier say?
who wrote to me today
how many unread messages do I have
look through my inbox for anything about the venue
was there a reply to my letter to the engineer?
has the supplier answered my email yet?
find emails from last week that mention the budget
what was in the message I got this morning?
check my email please
show the thread with cortex
which mails came in overnight?
the mail where they sent the price list, can you find it
any letters about the refund
open the newest message
did I get a confirmation mail for the booking?
summarise my unread mail
list mails from critic
search letters for "migration"
find the email where Hassan sent the floor plan
anything from the school today?
has the insurance replied
what's the latest from the printers
who wrote me over the weekend
any post?
what did the bank write
look for the mail with the tracking number
was there something from Ines about the rehearsal
show mails about the roof
how many mails are unanswered
what did I write to the council last month
pull up the conversation with the caterer
the letter from the lawyer, what was the deadline in it
is there a mail with the subject invoice 2231
did the engineer answer my letter?
read out the new messages
what's in my mailbox
which emails mention the harbour fee
when did Ben last write
open the mail from Joel
search inbox: boat insurance
got any messages?
any mail from the council about the parade
did anyone reply to my offer
is there a new letter from the authorities
what was the date in the mail from the bank
did Karin confirm by mail
show me what the school sent
who sent the photos of the stage
the email about the parcel, where is it
when did the vet answer us
find Tom's mail on the tyre prices
which letters did the agents send me
have I got anything from scout
read the mail with the quote for the windows
has my message reached the council?
how did the client answer
did the invoice mail bounce
mails from January please
any mail about the fire inspection
did Lund confirm
what was in Karin's mail
what does the mail from the plumber say
did we get an answer from the museum
is there mail from the bank about the loan
did Henrike write back
find the email about the rehearsal room
show me unread messages from the supplier
what did the insurance people say in their last mail
Is there something from the school board in my inbox
search my mail for invoice 2291
read me the newest one from Tobi
has the landlord replied yet?
I need the mail where Mrs Okafor sent the allergy list
look for messages with attachments from last week
Did I get anything from the visa office today, they promised it
who emailed me this morning
find the mail from Ana about the invoice
any mail from the bank?
search my mail for tickets
which mails mention the deposit
search my mailbox for the words spring cleaning
is there anything from the tax office in my mail
open the latest email
check my inbox pls
when was the last time Bruno wrote to me
mails with subject tour dates
Could you check whether the bank has sent the confirmation
any emails about the kiln delivery
what does that long mail from Priya actually want
i cant find the message with the wifi password for the venue, its somewhere in my emails
summarise the thread with the caterers
how many unread mails have I got
is there a response of the customer from Lyon
look in the mail what the plumber quoted
emails from the head of department since Friday
did the thing from DHL come with a tracking number, check my mail
show the mail by Ayumi again
has anybody complained by email this week
read out the message from the dentist please
"""

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
        f" - {flatten(letter.body, 200)} (mailroom mail read {letter.id})"
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
    examples=EXAMPLES,
    run=search,
    parameters=MailWanted,
    read=read,
)
