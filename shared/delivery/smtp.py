"""Mail by SMTP, with an id by which replies and repeated messages are known; the texts of mails.

Programs and languages differ in the words by which they introduce a quotation, but not in its shape, so no
words are looked for but the few that have no shape.
"""

import asyncio
import email
import hashlib
import imaplib
import re
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from email.message import EmailMessage
from email.policy import compat32, default
from itertools import islice
from urllib.parse import unquote, urlsplit

from shared.delivery.channels import DeliveryError, Mail, Message, Reply
from shared.delivery.mailbox import TIMEOUT, UNREADABLE, MailboxQuery, open_mailbox, read_text, search_mailbox
from shared.errors import ActionError
from shared.skills.mail import PORTS, MailServer, make_mail, submit_message
from shared.text.display import flatten

LONGEST_TEXT = 10_000  # The most characters of a reply
_MARKED = re.compile(r"\s*>")
_RULED = re.compile(r"\s*(-{2,}\s*\w[\w ]{2,40}-{2,}|_{8,})\s*$")
"""``-----Original Message-----``, ``---------- Forwarded message ---------`` and the line of Outlook."""
_FIELD = re.compile(
    r"[^\w<]{0,3}(?P<name>[^\W\d_][^:：<>@]{0,20})[:：][*_]{0,2}(?:\s|$|(?<=：))(?P<value>.*)"
)
"""``From: ``, ``*Von:* ``, ``发件人：`` and so on, as the head of a quoted mail has them."""
_ADDRESSED = re.compile(r"[^\s<>@]@[^\s<>@]+\.\w")
_ANSWERING = re.compile(r"^(?:\s*[^\W\d_]{1,6}\s*(?:\[\d+\])?[:：]\s*)+")
"""What programs put before a subject: ``Re: ``, ``AW: ``, ``RE: FW: ``, ``回复：``."""
LONGEST_HEAD = 12  # The most lines of the head of a quoted mail, empty and wrapped ones included
_SIGNED = re.compile(r"--\s*$")
_DATED = re.compile(r"\d{1,2}[:.h]\d\d|\d{4}")
_DEVICE = re.compile(
    r".{0,60}\b(iphone|ipad|android|galaxy|outlook|proton ?mail|yahoo|blackberry|pixel|xiaomi)\b.{0,60}",
    re.IGNORECASE,
)
_SENT = re.compile(r"\b(sent|get|gesendet|envoy|envi|invia|verz|verst|send|skick|wys)", re.IGNORECASE)
_ENDS = (":", "：")
MOST_LINES = 3  # An introduction such as ``On Monday ... wrote:`` is wrapped to no more lines.


def strip_quoted(text: str, subject: str = "") -> str:
    """What the person wrote above the quoted mail, or if that is nothing, below and between what is marked
    with ``>``; at most LONGEST_TEXT characters. ``subject`` is the mail's, which a quoted one has too.
    """
    lines = [_clean(line) for line in text[: 10 * LONGEST_TEXT].replace("\r\n", "\n").split("\n")]
    end, marked = _find_quotation(lines, _ANSWERING.sub("", subject).strip().casefold())
    above = _join(lines[:end])
    if above or not marked:
        return above[:LONGEST_TEXT]
    return _join(_read_between(lines[end:]))[:LONGEST_TEXT]


def _clean(line: str) -> str:
    """The line without invisible characters, with plain spaces."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "" for c in line).rstrip()


def _find_quotation(lines: Sequence[str], subject: str) -> tuple[int, bool]:
    """The line at which the quotation or the signature begins, and whether its lines are marked by ``>``."""
    for number, line in enumerate(lines):
        if _MARKED.match(line):
            return number - _count_introduction(lines[:number], marked=True), True
        if (
            _SIGNED.match(line)
            or _RULED.match(line)
            or _begins_head(lines[number : number + LONGEST_HEAD], subject)
        ):
            return number, False
        if line.endswith(_ENDS) and not _is_marked(islice(lines, number + 1, None)):
            count = _count_introduction(lines[max(0, number + 1 - MOST_LINES) : number + 1], marked=False)
            if count:
                return number + 1 - count, False
    return len(lines), False


def _is_marked(lines: Iterable[str]) -> bool:
    """Whether the next line that is not empty is marked as quoted."""
    first = next((line for line in lines if line.strip()), "")
    return _MARKED.match(first) is not None


def _begins_head(lines: Sequence[str], subject: str) -> bool:
    """Whether the head of a quoted mail begins, in whatever language: fields line by line, of which one is a
    date, and the first names an address, or one has the mail's own ``subject``, or the first is of ours.
    """
    fields: list[str] = []
    places: list[int] = []
    for number, line in enumerate(lines):
        if field := _FIELD.match(line):
            fields.append(field["value"].strip())
            places.append(number)
        elif not fields or (line.strip() and not _ADDRESSED.search(line)):  # a list of addresses goes on
            break
    # Programs put the same between any two: nothing, or an empty line.
    if len(fields) < 3 or places[1] - places[0] != places[2] - places[1] or fields[0][-1:] in (*".!?",):
        return False
    if "mailroom" in fields[0].casefold():
        return True
    named = sum(bool(_ADDRESSED.search(value)) for value in fields)
    dated = any(_DATED.search(value) for value in fields if not _ADDRESSED.search(value))
    same = subject and any(_ANSWERING.sub("", value).strip().casefold() == subject for value in fields)
    addressed = bool(_ADDRESSED.search(fields[0])) and (named > 1 or len(fields) > 3)
    return dated and (bool(same) or addressed)


def _count_introduction(lines: Sequence[str], *, marked: bool) -> int:
    """How many of the last lines introduce a quotation, with the empty ones below them.

    They have to name a date, and an address where no marked line follows.
    """
    filled = len(lines)
    while filled and not lines[filled - 1].strip():
        filled -= 1
    empty = len(lines) - filled
    if not filled or not lines[filled - 1].endswith(_ENDS):
        return empty
    best = 0
    for count in range(1, min(MOST_LINES, filled) + 1):
        if not lines[filled - count].strip():
            break
        joined = " ".join(lines[filled - count : filled])
        named, dated = "@" in joined or "mailroom" in joined.casefold(), bool(_DATED.search(joined))
        if (named or marked) and dated:
            return count + empty
        best = best or (count if named else 0)
    return (best + empty) if marked else 0


def _read_between(lines: Sequence[str]) -> list[str]:
    """The lines that are not marked, up to the signature, from the first marked one on."""
    begin = next(number for number, line in enumerate(lines) if _MARKED.match(line))
    written: list[str] = []
    for line in lines[begin:]:
        if _SIGNED.match(line):
            break
        if not _MARKED.match(line):
            written.append(line)
    return written


def _join(lines: Sequence[str]) -> str:
    """The lines without what a telephone signs with."""
    kept = list(lines)
    while kept and (not kept[-1].strip() or (_DEVICE.fullmatch(kept[-1]) and _SENT.search(kept[-1]))):
        kept.pop()
    return "\n".join(kept).strip()


LONGEST_REPLY = 1_000_000  # The bytes of a reply that are read: its text comes before what is attached
LONGEST_REFERENCES = 20_000  # The most characters of the ids of a thread that are looked at, the newest
MOST_READ = 50  # The most replies that are read at once
MARK = "mailroom."  # What the id of every mail of ours begins with
_OURS = re.compile(r"<mailroom\.([A-Za-z0-9_-]{1,128})\.([0-9a-f]{16})@[^\s<>]{1,255}>")
_ADDRESS = re.compile(r"[^\s<>,;:\"()]+@[^\s<>,;:\"()]+")
_BULK = re.compile(r"bulk|junk|list|auto_reply", re.IGNORECASE)
HEADERS = ("Message-ID", "In-Reply-To", "Subject", "Auto-Submitted", "Precedence", "List-Id", "Return-Path")
"""The headers of a reply that are read, beside its sender."""
_ABSENT = re.compile(
    r"(out of (the )?office|auto(matic|mated)?[- ]?(reply|response)|automatisch|abwesen|r.ponse automatique|"
    r"respuesta autom|risposta autom|resposta autom|automaattinen|autosvar|undeliver|delivery status)",
    re.IGNORECASE,
)
"""How the subjects of answers begin that programs send, for those that do not say it in a header."""
PROGRAMS = ("X-Autoreply", "X-Autorespond", "X-Auto-Reply", "X-Failed-Recipients")
"""Headers that programs' answers alone have."""


class MailOutlet:
    """Sends to one person, every attempt at a message with the same Message-ID."""

    def __init__(self, channel: Mail) -> None:
        self._channel = channel

    async def send(self, message: Message) -> str:
        """The Message-ID."""
        channel = self._channel
        mail = compose(channel, message)
        try:
            refused = await submit_message(_server(channel), mail, TIMEOUT)
        except ActionError as error:
            raise DeliveryError(error.cause, uncertain=True) from None
        if refused is not None:
            raise DeliveryError(refused.cause, refused.cure)
        return str(mail["Message-ID"])

    async def check(self) -> str:
        """Whether the mailboxes of replies and of the person can be opened, if there are any."""
        channel, own = self._channel, ""
        if channel.mailbox:
            searched = await asyncio.to_thread(search_mailbox, channel, MailboxQuery(unread=True))
            own = f"; your mailbox is searched ({searched.count} unread)"
        if not channel.imap:
            return f"replies are not read: the channel has no imap{own}"
        found = await asyncio.to_thread(read_replies, channel, peek=True)
        return f"replies are read from {channel.folder}" + (f" ({len(found)} new)" if found else "") + own


def compose(channel: Mail, message: Message) -> EmailMessage:
    """The mail that tells ``message``, with how to answer it."""
    parts = [message.text or message.title, message.link, _say_how_to_answer(channel, message)]
    return make_mail(
        f"Mailroom <{channel.sender}>",
        message.to or channel.to,
        message.title,
        "\n\n".join(filter(None, parts)),
        f"{MARK}{message.id}.{message.token or '0' * 16}",
        message.thread,
    )


def _say_how_to_answer(channel: Mail, message: Message) -> str:
    """What a reply may say, below a line of dashes."""
    if not channel.imap:
        return ""
    lines = []
    if message.code and "approve" in message.acts:
        lines = [f"approve {message.code}", f"refuse {message.code} and, if you like, why"]
    elif "done" in message.acts:
        lines = ["done", "snooze, or snooze 2 hours, or snooze until tomorrow at 9"]
    if lines:
        shown = ["--", "Reply with one of these as the first line:", *(f"  {each}" for each in lines)]
        return "\n".join(shown)
    return "--\nReply, and the front desk answers." if message.answerable else ""


def _server(channel: Mail) -> MailServer:
    parts = urlsplit(channel.smtp)
    return MailServer(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port or PORTS[parts.scheme],
        user=unquote(parts.username or "") if channel.password else "",
        password=channel.password,
    )


# --- replies -------------------------------------------------------------------------------------


def read_replies(channel: Mail, *, peek: bool = False) -> list[tuple[bytes, Reply]]:
    """The new mails that answer one of ours, each with its number in the mailbox; blocks.

    Other mail in the mailbox is not looked at. With ``peek`` they are only counted. Raises DeliveryError.
    """
    with _mailbox(channel) as box:
        # The numbers of unread mails that answer ours; some programs say so in References alone
        ours = [f'HEADER {name} "{MARK}"' for name in ("In-Reply-To", "References")]
        _, found = box.uid("SEARCH", "UNSEEN", "OR", *ours)
        numbers = ((found[0] or b"").split() if found else [])[:MOST_READ]
        if peek:
            return [(number, Reply(id="", address="")) for number in numbers]
        return [(number, _fetch(box, number, channel)) for number in numbers]


def mark_read(channel: Mail, numbers: list[bytes]) -> None:
    """Mark replies as read; blocks. Raises DeliveryError."""
    with _mailbox(channel) as box:
        for number in numbers:
            box.uid("STORE", number.decode(), "+FLAGS", "(\\Seen)")


def _mailbox(channel: Mail) -> AbstractContextManager[imaplib.IMAP4]:
    return open_mailbox(channel.imap, channel.imap_password or channel.password, channel.folder)


def _fetch(box: imaplib.IMAP4, number: bytes, channel: Mail) -> Reply:
    _, parts = box.uid("FETCH", number.decode(), f"(BODY.PEEK[]<0.{LONGEST_REPLY}>)")
    raw = next((part[1] for part in parts if isinstance(part, tuple)), b"")
    return parse_reply(raw, channel)


def parse_reply(raw: bytes, channel: Mail) -> Reply:
    """A mail as a reply; ``ignored`` if it is a program's, or not from an address that is allowed."""
    digest = hashlib.sha256(raw).hexdigest()[:32]
    try:
        mail = email.message_from_bytes(raw, policy=default)
        headers = {name: flatten(str(mail[name] or ""), 1_000) for name in HEADERS}
        senders = _senders(raw)
        # The last mail of ours that a thread has
        ours = _OURS.search(headers["In-Reply-To"]) or next(
            reversed([*_OURS.finditer(str(mail["References"] or "")[-LONGEST_REFERENCES:])]), None
        )
        text = read_text(mail)
        program = _find_program(headers, mail)
    except UNREADABLE as error:
        return Reply(id=digest, address="", ignored=f"it cannot be read: {type(error).__name__}")
    address = senders.pop() if len(senders) == 1 else ""
    allowed = {each.casefold() for each in channel.allowed or (channel.to,)}
    reason = program
    if not reason and address not in allowed:
        reason = "its sender is not among those allowed"
    if not reason and ours is None:
        reason = "it answers no mail of ours"
    named = headers["Message-ID"]
    return Reply(
        id=hashlib.sha256(named.encode()).hexdigest()[:32] if named else digest,
        address=address[:300],
        text=strip_quoted(text),
        delivery_id=ours[1] if ours else "",
        token=ours[2] if ours else "",
        thread=named,
        ignored=reason,
    )


def _senders(raw: bytes) -> set[str]:
    """Every address that the sender's line has, as it came: programs disagree about ``ada@a <eve@e>``."""
    lines = email.message_from_bytes(raw, policy=compat32).get_all("From", [])
    return {each.casefold() for line in lines for each in _ADDRESS.findall(str(line))}


def _find_program(headers: dict[str, str], mail: EmailMessage) -> str:
    """Why a mail is no person's, empty if it may be: nothing is answered to a program."""
    if headers["Auto-Submitted"].casefold() not in ("", "no") or any(name in mail for name in PROGRAMS):
        return "a program sent it (Auto-Submitted)"
    if _ABSENT.match(headers["Subject"]):
        return "a program sent it, as its subject says"
    if _BULK.search(headers["Precedence"]) or headers["List-Id"]:
        return "a mailing list or a program sent it"
    if headers["Return-Path"] == "<>" or mail.get_content_type() == "multipart/report":
        return "it is the notice of a mail server"
    return ""
