"""Mailboxes by IMAP: mails' texts as people see them; a search of a person's own, which changes nothing."""

import contextlib
import email
import imaplib
import itertools
import re
import ssl
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage, MIMEPart
from email.policy import EmailPolicy, default
from email.utils import format_datetime
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from shared.delivery.channels import DeliveryError, Mail
from shared.skills.mail import LOCAL
from shared.text.display import decode, flatten, format_network_error

PATIENCE = 25.0  # Seconds that a search may take; a server that searches every mail's text can take long
LONGEST = 40.0
"""Seconds until an answer is given up: connecting and each step have a time of their own besides."""
MOST = 8  # The most mails of an answer
MOST_WORDS = 6  # The most words that are searched for
NARROW = 500
"""Up to so many mails of a sender are named to the server, which then reads the text of these alone."""
READ = 65_536  # Bytes of a mail that are fetched: its head and the beginning of its text


class MailboxQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Mails that hold ``words``, with one of ``senders`` in the sender's name or address, or in the subject.

    ``since`` and ``before`` are days, as 2026-03-18, ``before`` not included. ``person`` is who asks.
    """

    words: tuple[str, ...] = ()
    senders: tuple[str, ...] = ()
    since: str = ""
    before: str = ""
    unread: bool = False
    person: str = ""


class FoundMail(msgspec.Struct, frozen=True, kw_only=True):
    """A mail: when it came (ISO 8601), its sender, its subject, the beginning of its text, each one line."""

    at: str = ""
    sender: str = ""
    subject: str = ""
    text: str = ""


class FoundMails(msgspec.Struct, frozen=True, kw_only=True):
    """How many mails were found, and the newest of them, the newest first; ``partly``: none has all words."""

    count: int
    mails: tuple[FoundMail, ...] = ()
    partly: bool = False


def search_mailbox(channel: Mail, query: MailboxQuery) -> FoundMails:
    """What ``query`` finds in the person's mailbox of ``channel``, else in that of replies; blocks.

    Raises DeliveryError if it cannot be reached, opened or searched within PATIENCE.
    """
    until = time.monotonic() + PATIENCE
    own = bool(channel.mailbox)
    address = channel.mailbox if own else channel.imap
    password = (channel.mailbox_password if own else channel.imap_password) or channel.password
    folder = (unquote(urlsplit(address).path.strip("/")) or "INBOX") if own else channel.folder
    setting = "mailbox" if own else "imap"
    with open_mailbox(address, password, folder, setting=setting, readonly=True) as box:
        found, partly = _search(box, query, until)
        newest = sorted(found, reverse=True)[:MOST]
        mails = tuple(_fetch(box, number, until) for number in newest)
        return FoundMails(count=len(found), mails=mails, partly=partly)


def _search(box: imaplib.IMAP4, query: MailboxQuery, until: float) -> tuple[set[int], bool]:
    """The numbers of the mails with the most of the words, if that is half of them; whether one lacks."""
    base = ["UNSEEN"] if query.unread else ["ALL"]
    for name, day in (("SINCE", query.since), ("BEFORE", query.before)):
        if day:
            base += [name, _format_day(day)]
    among: set[int] | None = None
    if query.senders:
        asked = itertools.product(query.senders[:MOST_WORDS], ("FROM", "SUBJECT"))
        among = {number for word, key in asked for number in _ask(box, [*base, key], word, until)}
        if 0 < len(among) <= NARROW:
            base = ["UID", ",".join(map(str, sorted(among)))]
    words = query.words[:MOST_WORDS] if among != set() else ()
    if not words:
        return (_ask(box, base, "", until) if among is None else among), False
    marks: Counter[int] = Counter()
    for word in words:
        marks.update(
            {number for key in ("SUBJECT", "TEXT") for number in _ask(box, [*base, key], word, until)}
        )
    marks = marks if among is None else Counter({number: marks[number] for number in among})
    most = max(marks.values(), default=0)
    if 2 * most < len(words):
        return set(), False
    return {number for number, mark in marks.items() if mark == most}, most < len(words)


def _format_day(day: str) -> str:
    """A day as IMAP has it: 18-Mar-2026."""
    try:
        return "-".join(format_datetime(datetime.fromisoformat(day))[5:16].split())
    except ValueError:
        raise DeliveryError(f"{day[:40]!r} is no day", "Write it as in 2026-03-18") from None


def _ask(box: imaplib.IMAP4, criteria: list[str], word: str, until: float) -> set[int]:
    """One search. The word is sent as a literal, in which nothing has to be escaped."""
    if time.monotonic() > until:
        raise DeliveryError(
            f"The search of the mailbox took longer than {PATIENCE:g} s", "Name fewer words, or the days"
        )
    charset = [] if word.isascii() else ["CHARSET", "UTF-8"]
    if word:
        # As imaplib's own append does; its stubs have it as text.
        box.literal = word.encode()  # type: ignore[assignment]
    kind, found = box.uid("SEARCH", *charset, *criteria)
    if kind != "OK":
        raise box.error(str(found[0]))
    return {int(number) for line in found if line for number in line.split()}


def _fetch(box: imaplib.IMAP4, number: int, until: float) -> FoundMail:
    if time.monotonic() > until:
        return FoundMail(subject="(not read in time)")
    _, parts = box.uid("FETCH", str(number), f"(INTERNALDATE BODY.PEEK[]<0.{READ}>)")
    lines = [part[0] if isinstance(part, tuple) else part for part in parts or [] if part]
    raw = next((part[1] for part in parts or [] if isinstance(part, tuple)), b"")
    came = imaplib.Internaldate2tuple(b" ".join(lines))
    at = datetime.fromtimestamp(time.mktime(came), UTC).isoformat() if came else ""
    return read_mail(raw, at)


def read_mail(raw: bytes, at: str = "") -> FoundMail:
    """A mail, or its beginning, as three lines; what cannot be read is left out."""
    try:
        mail = email.message_from_bytes(raw, policy=default)
        sender, subject = str(mail["From"] or ""), str(mail["Subject"] or "")
    except UNREADABLE:
        return FoundMail(at=at, subject="(cannot be read)")
    try:
        text = read_text(mail)
    except UNREADABLE:
        text = ""
    text = re.sub(r"(?m)^\s*(?:>.*|[-_=*]{4,}\s*)$", "", text)
    return FoundMail(
        at=at,
        sender=flatten(sender, 100),
        subject=flatten(subject, 150) or "(no subject)",
        text=flatten(text, 160),
    )


TIMEOUT = 20.0  # Seconds that a server has for each step
LARGEST = 2_000_000  # The most bytes that a server may send as one text: more than is ever asked for


@contextlib.contextmanager
def open_mailbox(
    address: str, password: str, folder: str, *, setting: str = "imap", readonly: bool = False
) -> Iterator[imaplib.IMAP4]:
    """The folder of the mailbox at ``address``, such as ``imaps://user@host``; blocks.

    Raises DeliveryError, also for errors within the block; its cure names ``setting``.
    """
    parts = urlsplit(address)
    where = f"The mail server {parts.hostname}"
    try:
        box = _connect(parts.scheme, parts.hostname or "", parts.port)
        try:
            if parts.username:
                box.login(unquote(parts.username), password)
            if box.select(_quote(folder), readonly)[0] != "OK":
                raise DeliveryError(f"{where} has no folder {folder!r}", "Correct folder")
            yield box
        finally:
            with contextlib.suppress(OSError, imaplib.IMAP4.error):
                box.logout()
    except imaplib.IMAP4.error as error:
        reason = flatten(str(error).removeprefix("b'").removesuffix("'"), 200).rstrip(".")
        raise DeliveryError(f"{where} refused: {reason}", f"Check {setting} and {setting}_password") from None
    except OSError as error:
        reason = format_network_error(error)
        raise DeliveryError(f"{where} cannot be reached: {reason}", f"Check {setting}") from None


class _Bounded(imaplib.IMAP4):
    """A connection that reads no text larger than LARGEST, whatever size the server announces."""

    def read(self, size: int) -> bytes:
        if size > LARGEST:
            raise self.abort(f"it sends {size:,} bytes at once")
        return super().read(size)


class _BoundedTls(_Bounded, imaplib.IMAP4_SSL):
    """The same over TLS."""


def _connect(scheme: str, host: str, port: int | None) -> imaplib.IMAP4:
    """A connection with TLS, which only this machine itself need not have."""
    if scheme == "imaps":
        return _BoundedTls(host, port or 993, ssl_context=ssl.create_default_context(), timeout=TIMEOUT)
    box = _Bounded(host, port or 143, timeout=TIMEOUT)
    if host not in LOCAL:
        box.starttls(ssl.create_default_context())
    return box


def _quote(folder: str) -> str:
    escaped = folder.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


LONGEST_HEADER = 8_000
"""The characters of a header that are read: the parser takes four times as long for twice as many."""
LONGEST_HTML = 1_000_000  # The most characters of HTML that are read
_SPACES = re.compile(r"\s+")
UNREADABLE = (ValueError, LookupError, AttributeError, TypeError, IndexError, RecursionError)
"""What the parser raises for mails that are made to break it."""


class _Policy(EmailPolicy):
    """The default policy, which reads no more of a header than LONGEST_HEADER."""

    def header_fetch_parse(self, name: str, value: Any) -> Any:
        return super().header_fetch_parse(name, value[:LONGEST_HEADER] if type(value) is str else value)


_POLICY = _Policy()


def parse_mail(data: bytes) -> EmailMessage:
    """A mail with its headers as structures; raises one of UNREADABLE, as reading a header of it may."""
    return message_from_bytes(data, policy=_POLICY)  # type: ignore[arg-type]  # it makes an EmailMessage


def read_text(mail: EmailMessage) -> str:
    """The text of a mail, of HTML the visible one, in which a line of ``>`` stands for what is quoted.

    Raises one of UNREADABLE.
    """
    for kind in ("plain", "html"):
        part = mail.get_body((kind,))
        content = _decode(part) if part is not None else ""
        if kind == "html":
            reader = _Text()
            reader.feed(content[:LONGEST_HTML])
            content = "\n".join(line.strip(" |") for line in "".join(reader.parts).split("\n"))
        if content.strip():
            return content
    return ""


def _decode(part: MIMEPart) -> str:
    """The text of a part, also if the set of characters that it names is unknown or the wrong one."""
    raw = part.get_payload(decode=True)
    text = decode(raw, part.get_content_charset() or "") if isinstance(raw, bytes) else ""
    return text.replace("\r\n", "\n")


class _Text(HTMLParser):
    """The visible text of HTML outside of quotations; the cells of a row are on one line."""

    BREAKS = frozenset(
        {"br", "p", "div", "li", "tr", "hr", "pre", "table", "dt", "dd", "section", "article", "address"}
        | {f"h{level}" for level in range(1, 7)}
    )
    SKIPPED = frozenset({"script", "style", "blockquote", "head"})
    VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"})
    HIDDEN = re.compile(r"display:none|visibility:hidden|font-size:0(?:px|pt|em)?(?:;|$)|max-height:0")

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._skipped = 0
        self._hidden: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        style = re.sub(r"\s|!important", "", (dict(attrs).get("style") or "").lower())
        if tag not in self.VOID and (tag in self._hidden or (not self._hidden and self.HIDDEN.search(style))):
            self._hidden.append(tag)
        if tag == "body":  # the end of the head need not be written
            self._skipped = 0
        if tag == "blockquote" and not self._skipped:
            self.parts.append("\n>\n")
        self._skipped += tag in self.SKIPPED
        if tag in self.BREAKS:
            self.parts.append("\n")
        elif tag in ("td", "th"):
            self.parts.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            self._hidden.pop()
        self._skipped -= tag in self.SKIPPED and self._skipped > 0
        if tag in self.BREAKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._skipped and not self._hidden:
            self.parts.append(_SPACES.sub(" ", data))
