"""Mail: what agents wrote and the own mailbox are searched; letters to agents and mail to people are sent."""

import re
import shlex
from datetime import datetime, timedelta

import msgspec

from services.nexus.office.query import COMMON as OFFICE_WORDS
from services.nexus.office.query import Kind
from services.nexus.office.telling import match, select
from services.nexus.routing.request import Request
from services.nexus.tools.office import answer_of_office
from services.nexus.tools.tool import Answer, Call, Effect, Tool, ToolContext, ask_back, command
from shared import subjects
from shared.bus.entry import seal
from shared.clock import parse_timestamp
from shared.contracts import Choice, ResultOutcome
from shared.contracts.emails import SLOT
from shared.delivery.mailbox import MOST_WORDS, FoundMail, FoundMails, MailboxQuery
from shared.errors import BusError, Refused
from shared.language.sayings import read_sayings
from shared.language.times.spans import find_past
from shared.language.utterance import LETTER
from shared.skills.mail import allow_recipient, read_server
from shared.text.display import count, flatten, shorten_id
from shared.text.prose import find_terms

WAYS = read_sayings(__file__, "letters")

MOST_LETTERS = 5  # The most letters of an answer, of agents and of the mailbox
PATIENCE = 45.0  # Seconds that the gateway has for a search of the mailbox


_ALSO = "box conversation scan anybody mine respond confirm confirmed via words attachment cant mr mrs ms dr"
_CONTENT = (
    "budget budgets token tokens cost costs money dollar bill bills limit quota schedule schedules reports"
    " report jobs job task approval permission queue plan plans timetable problem issue issues"
)
COMMON = (OFFICE_WORDS | find_terms(_ALSO).keys()) - find_terms(_CONTENT).keys()
"""Words that say what to do with mail, or when, and nothing of what is in it."""
_NEW = re.compile(r"(?i)\bnew\b")
_NAME = r"(?:(?:the|my|our|a|an|[Mm]rs?|[Mm]s|[Dd]r)\.?\s+)*(?P<name>[\w.+@-]+(?:\s+[A-Z][\w-]+)?)"
_SENDERS = (
    re.compile(rf"\b(?:[Ff]rom|[Bb]y)\s+{_NAME}"),
    re.compile(
        rf"\b(?:[Dd]id|[Hh]as|[Hh]ave)\s+{_NAME}\s+(?:already\s+|ever\s+)?"
        r"(?:writ|wrote|repl|answer|respon|send|sent|confirm|mail|email)"
    ),
    re.compile(
        rf"\b(?:[Mm]ails?|[Ee]mails?|letters?|messages?)\s+(?:where|that|which)\s+{_NAME}\s+(?:sent|wrote)"
    ),
    re.compile(
        r"\b(?P<name>[A-Z][\w-]+)['’]s\s+(?:last\s+|latest\s+)?(?:e-?mails?|mails?|letters?|messages?)\b"
    ),
)


class MailWanted(msgspec.Struct, frozen=True, kw_only=True):
    """The mail to find: words in it, who sent it, the days as 2026-03-18, whether it is unread.

    ``before`` is not included.
    """

    words: tuple[str, ...] = ()
    senders: tuple[str, ...] = ()
    since: str = ""
    before: str = ""
    unread: bool = False


def parse_wanted(text: str, now: datetime) -> MailWanted:
    """The words, senders and days of a message; a question for what is new wants what is unread."""
    period = find_past(text, now)
    rest, senders = (f"{text[: period.start]} {text[period.stop :]}" if period else text), []
    for pattern in _SENDERS:
        for found in pattern.finditer(rest):
            name = " ".join(find_terms(found["name"]).values())
            if name and not find_terms(name).keys() <= COMMON:
                senders.append(name)
    named = {term for name in senders for term in find_terms(name)}
    words = [word for term, word in find_terms(rest).items() if term not in COMMON | named]
    return MailWanted(
        words=tuple(words[:MOST_WORDS]),
        senders=tuple(dict.fromkeys(senders)),
        since=f"{period.since:%Y-%m-%d}" if period else "",
        before=f"{period.until:%Y-%m-%d}"
        if period and period.until < now - timedelta(days=0, hours=now.hour)
        else "",
        unread="unread" in text.lower() or (bool(_NEW.search(text)) and not words and not senders),
    )


def read_wanted_mail(context: ToolContext, request: Request) -> MailWanted:
    """What the message says of the mail; nothing if it asks for the latest."""
    return parse_wanted(request.text, context.now(request))


async def search_mail(context: ToolContext, request: Request, wanted: MailWanted) -> Answer:
    """The letters that the message is about, and the mails of the person's own mailbox if one is set."""
    told = await answer_of_office(context, request, Kind.LETTER)
    if any(name in request.text.lower() for name in (*_AGENTS, "agents")):
        return told
    own, is_searched = await _search_mailbox(context, request, wanted)
    if not own or (told.citations and not is_searched):
        return told
    parts = [own, f"From agents: {told.text}"] if is_searched else [told.text, own]
    return msgspec.structs.replace(told, text="\n".join(parts))


async def _search_mailbox(context: ToolContext, request: Request, wanted: MailWanted) -> tuple[str, bool]:
    """What the person's mailbox has, or in a sentence why it was not searched; for people alone."""
    if request.asker != subjects.USER:
        return "", False
    query = MailboxQuery(**msgspec.structs.asdict(wanted), person=request.person)
    try:
        data = await context.agent.bus.request(subjects.MAILBOX, msgspec.json.encode(query), timeout=PATIENCE)
    except Refused as error:
        return f"Your mailbox was not searched: {error}", False
    except BusError:
        return "Your mailbox was not searched: the gateway does not answer. See 'mailroom status'.", False
    found = msgspec.json.decode(data, type=FoundMails)
    kind = "unread mail" if wanted.unread else "mail"
    if not found.count:
        return f"Your mailbox has no {kind} like that.", True
    like = "with some of these words" if found.partly else "like that"
    lines = [
        f"Your mailbox has {count(found.count, kind)}" + (f" {like}:" if wanted != MailWanted() else ":")
    ]
    lines += [_format_mail(context, mail) for mail in found.mails[:MOST_LETTERS]]
    if found.count > MOST_LETTERS:
        lines.append(f"... and {found.count - MOST_LETTERS} more")
    return "\n".join(lines), True


def _format_mail(context: ToolContext, mail: FoundMail) -> str:
    came = f"{parse_timestamp(mail.at).astimezone(context.zone):%Y-%m-%d %H:%M}" if mail.at else "no date"
    line = f"- {came}, {mail.sender or '(no sender)'}: {mail.subject}"
    return f"{line} - {mail.text}" if mail.text else line


MAIL = Tool(
    name="mail",
    description="searches the letters that agents wrote to you, and your own mailbox if one is set",
    run=search_mail,
    parameters=MailWanted,
    read=read_wanted_mail,
    personal=True,
)


_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_AGENTS = ("scout", "engineer", "critic", "cortex", "frontier", "conductor")


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A mail address or an agent's name, a subject and the text."""

    recipient: str = ""
    subject: str = ""
    body: str = ""


def read_letter(context: ToolContext, request: Request) -> Letter:
    """The recipient and the text that the message names."""
    address = _ADDRESS.search(request.text)
    agent = next((name for name in _AGENTS if re.search(rf"\b{name}\b", request.text.lower())), "")
    body = WAYS["body"].search(_ADDRESS.sub("", request.text))
    text = body["body"].strip() if body else ""
    return Letter(recipient=address[0] if address else agent, subject=text[:80], body=text)


async def send_letter(context: ToolContext, request: Request, letter: Letter) -> Answer | Call:
    """The letter to an agent, the mail to a person at an address that the settings allow, or a draft of it.

    What the office has, a briefing or a letter, may be what is sent. What an agent asked a person, that
    person answers: the desk has the text and the command.
    """
    sends = WAYS["sends"].search(request.text)
    if sends and letter.recipient not in _AGENTS and (letter.recipient or WAYS["to_me"].search(request.text)):
        return await _send_on(context, request, letter, sends["what"].lower())
    if not letter.recipient:
        where = "To which address, or to which agent? For example: ana@example.org"
        return ask_back(where, f"{request.text} {SLOT}")
    if not letter.body.strip():
        return ask_back("What shall I write?", f"{request.text}: {SLOT}")
    if letter.recipient in _AGENTS and WAYS["replies"].search(request.text):
        sent = [each for each in await context.office.sent() if each.email.sender == letter.recipient]
        open_ones = [each for each in sent if each.answer is None]
        asked = next(
            (each.email for each in reversed(open_ones) if each.awaited),
            open_ones[-1].email if open_ones else None,
        )
        if asked is not None:
            return Answer(
                text=f"A reply to {letter.recipient}, about "
                f"{flatten(asked.subject or asked.body, 120)!r}: {letter.body}\n"
                f"It was written to you, so only you can answer it; nothing is sent yet:\n"
                f"mailroom mail reply {shorten_id(asked.id)} {shlex.quote(letter.body)}",
                outcome=ResultOutcome.FAILED,
                citations=(asked.id,),
            )
    if WAYS["draft"].search(request.text):
        order = f"write a letter to {letter.recipient}: {letter.body}"
        choices = (Choice(label="send it", text=command("send_mail", order)), Choice(label="leave it"))
        return ask_back(f"A draft to {letter.recipient}, not sent: {letter.body}", choices=choices)
    if letter.recipient in _AGENTS:
        mail = context.make_letter(request, letter.recipient, letter.subject, letter.body)
        entry = seal(subjects.mail(letter.recipient, mail.sender), mail)
        return Answer(text=f"I wrote to {letter.recipient}: {letter.body}", entries=(entry,))
    params = {"recipient": letter.recipient, "subject": letter.subject or "A message", "body": letter.body}
    return Call(assignee=context.agent.profile.name, action="send_mail", params=params)


async def _send_on(context: ToolContext, request: Request, letter: Letter, what: str) -> Answer | Call:
    """A briefing, or the letter or report that is meant, by mail; or the one thing that is missing."""
    settings, me = context.agent.settings, context.agent.profile.name
    read_server(settings)
    allowed = settings.smtp_recipients
    recipient = letter.recipient or (allowed[0] if len(allowed) == 1 else "")
    if not recipient:
        known = ", ".join(allowed) or "none: set MAILROOM_SMTP_RECIPIENTS"
        return ask_back(f"To which address? Mail is allowed to {known}.", f"{request.text} to {SLOT}")
    allow_recipient(recipient, settings)
    if "brief" in what:
        kind = next((each for each in ("morning", "evening") if each in request.text.lower()), "")
        return Call(assignee=me, action="mail_briefing", params={"recipient": recipient, "kind": kind})
    query, things = await context.read_query(request), await context.list_things(request)
    terms = {stem: word for stem, word in query.terms.items() if word not in recipient}
    kinds = (Kind.LETTER, Kind.GOAL)
    chosen = match(
        [each for kind in kinds for each in select(query, things, context.now(request), "", kind)], terms
    ).things
    if not chosen:
        return ask_back("Which letter or report? I found none with these words.")
    body = f"{chosen[0].line}\n\n{chosen[0].more}"
    return Call(
        assignee=me,
        action="send_mail",
        params={"recipient": recipient, "subject": flatten(chosen[0].words, 80), "body": body},
    )


SEND_MAIL = Tool(
    name="send_mail",
    description="sends mail to people you allowed, and letters to agents",
    needs=WAYS["send_needs"],
    says=re.compile(f"{LETTER.pattern}|{WAYS['sends_says'].pattern}", re.IGNORECASE),
    run=send_letter,
    effect=Effect.WRITES,
    parameters=Letter,
    read=read_letter,
    takes_parts=True,
)
