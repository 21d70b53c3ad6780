"""Mail: sent by SMTP, with an id by which replies and repeated messages are known; replies read by IMAP."""

import asyncio
import email
import hashlib
import imaplib
import re
from contextlib import AbstractContextManager
from email.message import EmailMessage
from email.policy import compat32, default
from urllib.parse import unquote, urlsplit

from shared.delivery.config import Mail
from shared.delivery.imap import TIMEOUT, open_mailbox
from shared.delivery.mail_text import UNREADABLE, read_text
from shared.delivery.mailbox import MailboxQuery, search_mailbox
from shared.delivery.message import DeliveryError, Message, Reply
from shared.delivery.reply_text import strip_quoted
from shared.errors import ActionError
from shared.skills.mail import PORTS, MailServer, make_mail, submit_message
from shared.text.shorten import flatten

LONGEST_REPLY = 1_000_000
"""The bytes of a reply that are read: its text comes before what is attached."""
LONGEST_REFERENCES = 20_000
"""The most characters of the ids of a thread that are looked at, the newest."""
MOST_READ = 50
"""The most replies that are read at once."""
MARK = "mailroom."
"""What the id of every mail of ours begins with."""
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
        numbers = _search(box)[:MOST_READ]
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


def _search(box: imaplib.IMAP4) -> list[bytes]:
    """The numbers of unread mails that answer ours; some programs say so in References alone."""
    ours = [f'HEADER {name} "{MARK}"' for name in ("In-Reply-To", "References")]
    _, found = box.uid("SEARCH", "UNSEEN", "OR", *ours)
    return (found[0] or b"").split() if found else []


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
        ours = _OURS.search(headers["In-Reply-To"]) or _find_last(str(mail["References"] or ""))
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


def _find_last(references: str) -> re.Match[str] | None:
    """The last mail of ours that a thread has."""
    return next(reversed([*_OURS.finditer(references[-LONGEST_REFERENCES:])]), None)


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
