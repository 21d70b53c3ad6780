"""Mail: what agents wrote and the own mailbox are searched; letters to agents and mail to people are sent."""

import operator
import re
from datetime import date, timedelta

import msgspec

from services.nexus.routing.request import Request
from services.nexus.tools.tool import Answer, Call, Effect, Tool, ToolContext, ask_back
from shared import subjects
from shared.bus.entry import seal
from shared.clock import parse_timestamp
from shared.contracts import Email
from shared.contracts.emails import SLOT
from shared.delivery.mailbox import MOST_WORDS, FoundMail, FoundMails, MailboxQuery
from shared.errors import BusError, Refused
from shared.language.sayings import read_sayings
from shared.language.times.time_phrases import MONTHS, WEEKDAYS
from shared.language.utterance import LETTER
from shared.text.display import count, flatten
from shared.text.prose import find_stems, find_terms

WAYS = read_sayings(__file__, "letters")

MOST_LETTERS = 5  # The most letters of an answer, of agents and of the mailbox
READ = 60  # The most letters, the latest, whose meaning is compared
NEAR = 0.62  # The least cosine at which a letter counts as about what is asked
PATIENCE = 45.0  # Seconds that the gateway has for a search of the mailbox


COMMON = frozenset(
    find_terms(
        """
        mail mails email e-mail emails letter letters message messages inbox mailbox box thread post
        conversation new unread unanswered read show find search look looking check list open pull scan
        write wrote written writes any anything something anybody anyone last latest newest recent get got
        come came there here please can could you my me us our mine need want tell summarise summarize
        about regarding concerning mention mentions subject answer answers answered reply replies replied
        response respond responded confirm confirmed send sent say says said ask asked again yet today
        yesterday tonight overnight morning evening afternoon week weekend month days many what when who
        where which how whether someone does did has have was were been is are still long via by from with
        contain contains containing attachment attachments attached actually through words word time cant
        somewhere it its thing mr mrs ms dr
        """
    )
)
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
_SINCE = re.compile(
    r"(?i)\b(?P<when>today|this\s+morning|overnight|yesterday|(?:this|last|past)\s+(?:week|month)|weekend"
    r"|(?:since|on|last)\s+(?P<weekday>mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|(?:from|in|since)\s+(?P<month>jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)"
    r"(?:r?uary|ch|il|ust|(?:em|o)?ber)?)\b"
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


def parse_wanted(text: str, today: date) -> MailWanted:
    """The words, senders and days of a message; a question for what is new wants what is unread."""
    since, before = _find_days(text, today)
    rest, senders = _SINCE.sub(" ", text), []
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
        since=since,
        before=before,
        unread="unread" in text.lower() or (bool(_NEW.search(text)) and not words and not senders),
    )


def _find_days(text: str, today: date) -> tuple[str, str]:
    """The first day that the mail may have come on, and the first on which it may not."""
    found = _SINCE.search(text)
    if found is None:
        return "", ""
    when = " ".join(found["when"].lower().split())
    if weekday := (found["weekday"] or "").lower():
        start = today - timedelta(days=(today.weekday() - WEEKDAYS[weekday[:3]]) % 7 or 7)
        return start.isoformat(), "" if when.startswith("since") else (start + timedelta(days=1)).isoformat()
    if month := found["month"]:
        number = MONTHS[month[:3].lower()]
        month_start = date(today.year - (number > today.month), number, 1)
        after = (month_start + timedelta(days=31)).replace(day=1)
        return month_start.isoformat(), "" if when.startswith("since") else after.isoformat()
    monday = today - timedelta(days=today.weekday())
    spans = {
        "overnight": (today - timedelta(days=1), None),
        "yesterday": (today - timedelta(days=1), today),
        "this week": (monday, None),
        "last week": (monday - timedelta(days=7), monday),
        "past week": (today - timedelta(days=7), None),
        "this month": (today.replace(day=1), None),
        "last month": ((today.replace(day=1) - timedelta(days=1)).replace(day=1), today.replace(day=1)),
        "past month": (today - timedelta(days=31), None),
        "weekend": (today - timedelta(days=(today.weekday() - 5) % 7 or 7), None),
    }
    first, end = spans.get(when, (today, None))
    return first.isoformat(), end.isoformat() if end else ""


def read_wanted_mail(context: ToolContext, request: Request) -> MailWanted:
    """What the message says of the mail; nothing if it asks for the latest."""
    return parse_wanted(request.text, context.now(request).date())


async def search_mail(context: ToolContext, request: Request, wanted: MailWanted) -> Answer:
    """The mails that the message is about: of agents the nearest first, of the mailbox the newest first."""
    letters = (await context.office.letters())[::-1]
    chosen, by_agent = await _choose_letters(context, request.text, letters)
    lines = [_format_letter(letter) for letter in chosen[:MOST_LETTERS]]
    if len(chosen) > MOST_LETTERS:
        lines.append(f"... and {len(chosen) - MOST_LETTERS} more: mailroom mail list")
    own = "" if by_agent else await _search_mailbox(context, request, wanted)
    if not lines:
        among = f"None of the {count(len(letters), 'letter')} that agents wrote to you is about that."
        lines = [among if letters else "No agent has written to you."]
    elif own:
        lines.insert(0, "From agents:")
    return Answer(
        text="\n".join(filter(None, [own, *lines])),
        citations=tuple(each.id for each in chosen[:MOST_LETTERS]),
    )


async def _choose_letters(context: ToolContext, text: str, letters: list[Email]) -> tuple[list[Email], bool]:
    """The agents' letters that ``text`` is about, and whether it names one of the agents."""
    about = find_terms(text).keys() - COMMON
    senders = [letter for letter in letters if letter.sender in text.lower()]
    if senders:
        return senders, True
    chosen = await _find_letters(context, text, letters, frozenset(about)) if letters else []
    return (chosen if about else letters), False


def _format_letter(letter: Email) -> str:
    return (
        f"- {letter.created_at[:10]}, {letter.sender}: {flatten(letter.subject or letter.body, 120)}"
        f" - {flatten(letter.body, 200)} (mailroom mail show {letter.id})"
    )


async def _search_mailbox(context: ToolContext, request: Request, wanted: MailWanted) -> str:
    """What the person's mailbox has, or in a sentence why it was not searched; for people alone."""
    if request.asker != subjects.USER:
        return ""
    query = MailboxQuery(**msgspec.structs.asdict(wanted), person=request.person)
    try:
        data = await context.agent.bus.request(subjects.MAILBOX, msgspec.json.encode(query), timeout=PATIENCE)
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
    lines += [_format_mail(context, mail) for mail in found.mails[:MOST_LETTERS]]
    if found.count > MOST_LETTERS:
        lines.append(f"... and {found.count - MOST_LETTERS} more")
    return "\n".join(lines)


def _format_mail(context: ToolContext, mail: FoundMail) -> str:
    came = f"{parse_timestamp(mail.at).astimezone(context.zone):%Y-%m-%d %H:%M}" if mail.at else "no date"
    line = f"- {came}, {mail.sender or '(no sender)'}: {mail.subject}"
    return f"{line} - {mail.text}" if mail.text else line


async def _find_letters(
    context: ToolContext, text: str, letters: list[Email], about: frozenset[str]
) -> list[Email]:
    """The letters with words of ``text``, or near to it in meaning, best first."""
    recent = letters[:READ]
    whole = [f"{letter.subject} {letter.body}"[:1_000] for letter in recent]
    marks = [float(len(about & find_stems(each))) for each in whole]
    try:
        asked, *vectors = await context.agent.memory.embed(text, *whole)
    except BusError:
        vectors = []
    for place, vector in enumerate(vectors):
        near = sum(map(operator.mul, asked, vector))
        marks[place] += near if near >= NEAR else 0.0
    ranked = sorted(zip(marks, range(len(recent)), strict=True), key=lambda pair: (-pair[0], pair[1]))
    return [recent[place] for mark, place in ranked if mark > 0]


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
    """The letter to an agent, or the mail to a person at an address that the settings allow."""
    if not letter.recipient:
        where = "To which address, or to which agent? For example: ana@example.org"
        return ask_back(where, f"{request.text} {SLOT}")
    if not letter.body.strip():
        return ask_back("What shall I write?", f"{request.text}: {SLOT}")
    if letter.recipient in _AGENTS:
        mail = context.make_letter(request, letter.recipient, letter.subject, letter.body)
        entry = seal(subjects.mail(letter.recipient, mail.sender), mail)
        return Answer(text=f"I wrote to {letter.recipient}: {letter.body}", entries=(entry,))
    params = {"recipient": letter.recipient, "subject": letter.subject or "A message", "body": letter.body}
    return Call(assignee=context.agent.profile.name, action="send_mail", params=params)


SEND_MAIL = Tool(
    name="send_mail",
    description="sends mail to people you allowed, and letters to agents",
    needs=WAYS["send_needs"],
    says=LETTER,
    run=send_letter,
    effect=Effect.WRITES,
    parameters=Letter,
    read=read_letter,
    takes_parts=True,
)
