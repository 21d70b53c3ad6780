"""The channels as ``[deliver]`` of mailroom.toml has them, and what one is given to send.

Their secrets are in files or the environment.
"""

import re
from datetime import time
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from shared.contracts import DeliveryKind, Urgency
from shared.contracts.base import MAX_PERSON, NAME
from shared.errors import ConfigError, MailroomError
from shared.settings import DELIVER_PREFIX, Settings
from shared.text.display import cut, flatten, flatten_lines

CURE = "docs/delivery.md shows one that works"
URGENCY = {
    DeliveryKind.REMINDER: Urgency.HIGH,
    DeliveryKind.APPROVAL: Urgency.HIGH,
    DeliveryKind.QUESTION: Urgency.NORMAL,
    DeliveryKind.GOAL_FAILED: Urgency.NORMAL,
    DeliveryKind.DEAD_LETTER: Urgency.NORMAL,
    DeliveryKind.GOAL_DONE: Urgency.LOW,
    DeliveryKind.BRIEFING: Urgency.LOW,
    DeliveryKind.ANSWER: Urgency.HIGH,
}
"""How urgent each kind is. A person chose the time of a reminder, work waits for an approval that expires,
and the answer is to one who just wrote."""
MOUNTED = Path("/run/secrets")  # Where containers find secrets: nobody else is there who could read them
_SPAN = re.compile(r"(\d\d:\d\d)\s*-\s*(\d\d:\d\d)")
_MAIL = re.compile(r"[^\s@<>,;:\"]+@[^\s@<>,;:\"]+")

Seconds = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]


class Span(NamedTuple):
    """Hours of a day, from ``start`` to ``end``, which may be on the next day."""

    start: time
    end: time


class Channel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """What all channels have: the kinds that it tells, the least urgency, and quiet hours of its own.

    ``quiet_hours`` is None for those of the office, empty for none. ``person`` is the name in the dashboard
    of who replies, whose conversations go on there; empty: a name made of channel and address.
    """

    secrets: ClassVar[tuple[str, ...]] = ()
    """The fields that are in files or the environment; a channel may need none of them."""
    bundles: ClassVar[bool] = True
    """Whether what waited is told in one message."""

    kinds: tuple[DeliveryKind, ...] = tuple(kind for kind in DeliveryKind if kind is not DeliveryKind.ANSWER)
    urgency: Urgency = Urgency.LOW
    quiet_hours: str | None = None
    person: Annotated[str, msgspec.Meta(max_length=MAX_PERSON)] = ""

    def problem(self) -> str:
        """What is wrong with the fields; empty if nothing is."""
        return ""


class Mail(Channel, frozen=True, kw_only=True, tag="mail"):
    """Mail to one person by ``smtp``, an address such as ``smtp://user@host:587`` (STARTTLS) or ``smtps://``.

    With ``imap``, such as ``imaps://user@host``, replies are read every ``poll`` seconds, and those of the
    addresses ``allowed`` (default: ``to``) count. ``imap_password`` is by default ``password``.
    ``mailbox``, such as ``imaps://user@host`` or ``imaps://user@host/Folder``, is the person's own, which the
    front desk searches; ``mailbox_password`` is by default ``password``, too.
    """

    secrets: ClassVar[tuple[str, ...]] = ("password", "imap_password", "mailbox_password")

    smtp: Text
    sender: Text
    to: Text
    password: str = ""
    imap: str = ""
    imap_password: str = ""
    folder: Text = "INBOX"
    allowed: tuple[str, ...] = ()
    poll: Seconds = 30.0
    mailbox: str = ""
    mailbox_password: str = ""

    def problem(self) -> str:
        """Whether an address is none."""
        for address in (self.sender, self.to, *self.allowed):
            if not _MAIL.fullmatch(address):
                return f"{address[:60]!r} is no mail address"
        if not _is_address(self.smtp, ("smtp", "smtps")):
            return "smtp is no address such as smtp://user@mail.example.org:587"
        for name, address in (("imap", self.imap), ("mailbox", self.mailbox)):
            if address and not (_is_address(address, ("imap", "imaps")) and urlsplit(address).username):
                return f"{name} is no address such as imaps://user@mail.example.org"
        return ""


class Ntfy(Channel, frozen=True, kw_only=True, tag="ntfy"):
    """Notifications on a telephone by ntfy: ``url`` is that of a topic, ``token`` may be needed for it."""

    secrets: ClassVar[tuple[str, ...]] = ("token",)

    url: Text
    token: str = ""
    urgency: Urgency = Urgency.NORMAL

    def problem(self) -> str:
        """Whether the address names no topic."""
        topic = urlsplit(self.url).path.strip("/")
        good = _is_address(self.url, ("http", "https")) and topic
        return "" if good else "url is no address of a topic such as https://ntfy.sh/my-long-topic"


class Webhook(Channel, frozen=True, kw_only=True, tag="webhook"):
    """Each delivery is posted to ``url`` as JSON, signed with ``secret`` as other webhooks are."""

    secrets: ClassVar[tuple[str, ...]] = ("secret",)
    bundles: ClassVar[bool] = False

    url: Text
    secret: str = ""

    def problem(self) -> str:
        """Whether the address is none, or the secret is too short."""
        if len(self.secret) < 16:
            return "secret is missing, or has less than 16 characters"
        return "" if _is_address(self.url, ("http", "https")) else "url is no http address"


class Telegram(Channel, frozen=True, kw_only=True, tag="telegram"):
    """Messages of a bot with ``token`` to the chat with the number ``chat``; ``allowed`` (default: ``chat``)
    are the numbers of the people whose replies count. ``api`` is the address of the Bot API.
    """

    secrets: ClassVar[tuple[str, ...]] = ("token",)

    chat: int
    token: str = ""
    allowed: tuple[int, ...] = ()
    api: Text = "https://api.telegram.org"
    urgency: Urgency = Urgency.NORMAL

    def problem(self) -> str:
        """Whether the token is missing or no token."""
        return "" if re.fullmatch(r"[\w:-]{8,200}", self.token) else "token is missing, or is no bot's token"


class Desktop(Channel, frozen=True, kw_only=True, tag="desktop"):
    """Notifications on the desktop of the machine that the gateway runs on, by notify-send."""

    urgency: Urgency = Urgency.NORMAL


class Terminal(Channel, frozen=True, kw_only=True, tag="terminal"):
    """A line where ``mailroom up`` runs, with the terminal's bell."""


class Apprise(Channel, frozen=True, kw_only=True, tag="apprise"):
    """Slack, Matrix and more than a hundred other services by apprise; ``url`` is as apprise writes it."""

    secrets: ClassVar[tuple[str, ...]] = ("url",)

    url: str = ""

    def problem(self) -> str:
        """Whether the address is missing."""
        return "" if "://" in self.url else "url is missing, or is no address of apprise"


AnyChannel = Mail | Ntfy | Webhook | Telegram | Desktop | Terminal | Apprise
TYPES: dict[str, type[Channel]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (Mail, Ntfy, Webhook, Telegram, Desktop, Terminal, Apprise)
}


class Deliver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All channels by their names, and what counts for all of them.

    A goal that took at least ``long_goal`` seconds is told when it is done; ``urgency`` is that of kinds
    that are to have another than URGENCY says.
    """

    quiet_hours: str = ""
    long_goal: Seconds = 300.0
    urgency: dict[DeliveryKind, Urgency] = {}
    channels: dict[str, AnyChannel] = {}

    def urgency_of(self, kind: DeliveryKind) -> Urgency:
        """How urgent a kind is here."""
        return self.urgency.get(kind, URGENCY[kind])

    def quiet_span(self, channel: Channel) -> Span | None:
        """The quiet hours of a channel, None if it has none."""
        own = channel.quiet_hours
        return parse_span(self.quiet_hours if own is None else own)

    def is_told(self, channel: Channel, kind: DeliveryKind) -> bool:
        """Whether a channel tells a kind."""
        return kind in channel.kinds and self.urgency_of(kind).rank >= channel.urgency.rank


def read_deliver(config: Settings) -> Deliver:
    """The channels of the settings, with their secrets; raises ConfigError for what is wrong."""
    common = {name: value for name, value in config.deliver.items() if not _is_channel(name, value)}
    tables = {name: value for name, value in config.deliver.items() if _is_channel(name, value)}
    try:
        found = msgspec.convert(common, Deliver)
        parse_span(found.quiet_hours)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"[deliver] is wrong: {error}", CURE) from None
    channels = {name: _read_channel(name, table, config.deliver_secrets) for name, table in tables.items()}
    return msgspec.structs.replace(found, channels=channels)


def parse_span(text: str) -> Span | None:
    """Hours such as ``22:00-07:00``; None for an empty text. Raises ValueError for another."""
    if not text.strip():
        return None
    found = _SPAN.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text[:40]!r} are no hours such as '22:00-07:00'")
    span = Span(time.fromisoformat(found[1]), time.fromisoformat(found[2]))
    if span.start == span.end:
        raise ValueError(f"{text[:40]!r} begin and end at the same time")
    return span


def _is_channel(name: str, value: Any) -> bool:
    return isinstance(value, dict) and name != "urgency"


def _read_channel(name: str, table: dict[str, Any], secrets: dict[str, str]) -> AnyChannel:
    section = f"[deliver.{name[:64]}]"
    if not NAME.fullmatch(name):
        raise ConfigError(f"{section} has no name of lower-case letters, digits, '_' or '-'", CURE)
    values = {"type": name} | table
    kind = TYPES.get(str(values["type"]))
    if kind is None:
        raise ConfigError(
            f"{section} has the type {str(values['type'])[:40]!r}", f"Write one of {', '.join(TYPES)}"
        )
    for field in kind.secrets:
        if field in values:
            raise ConfigError(
                f"{section} holds a secret: {field}",
                f"Write it into a file of mode 600 and name that as {field}_file, "
                f"or set {DELIVER_PREFIX}{name.upper()}_{field.upper()}",
            )
        path = values.pop(f"{field}_file", None)
        if given := _read_secret(section, path) if path else secrets.get(f"{name}_{field}", ""):
            values[field] = given
    try:
        channel: AnyChannel = msgspec.convert(values, AnyChannel)
        parse_span(channel.quiet_hours or "")
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"{section} is wrong: {error}", CURE) from None
    if problem := channel.problem():
        raise ConfigError(f"{section} is wrong: {problem}", CURE)
    return channel


def _read_secret(section: str, path: Any) -> str:
    """The content of a file that nobody else can read; raises ConfigError."""
    file = Path(str(path)).expanduser()
    try:
        others = file.stat().st_mode & 0o077
        if others and MOUNTED not in file.absolute().parents:
            raise ConfigError(f"{section}: {file} can be read by others", f"chmod 600 {file}")
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigError(f"{section}: {file} cannot be read: {reason}", "Correct the path") from None


def _is_address(text: str, schemes: tuple[str, ...]) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


LONGEST = 3_000  # The most characters of a text on a telephone; mail has all of it
TITLE = 200
LABELS = {"approve": "Approve", "refuse": "Refuse", "done": "Done", "snooze": "Snooze"}
"""The acts that a reply can name, as buttons show them."""


class DeliveryError(MailroomError):
    """A message was not taken.

    ``final``: trying it again cannot help. ``uncertain``: it may have been taken nevertheless.
    """

    def __init__(self, cause: str, cure: str = "", *, final: bool = False, uncertain: bool = False) -> None:
        super().__init__(cause, cure)
        self.final, self.uncertain = final, uncertain


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message: ``title`` is a line, ``text`` the rest, ``link`` opens the dashboard.

    ``acts`` are those of LABELS that a reply may name, with ``code`` where a channel needs one; ``token`` is
    what a reply has to bring back so that it is known to be one. ``thread`` is what the message answers,
    ``to`` whom, as the channel names both. ``again``: it may have been sent before. ``items`` has what
    programs read.

    No channel gets control and invisible characters: agents and strangers wrote a part of the texts.
    """

    id: str
    kind: DeliveryKind
    urgency: Urgency
    title: str
    text: str = ""
    link: str = ""
    at: str = ""
    acts: tuple[str, ...] = ()
    answerable: bool = False
    code: str = ""
    token: str = ""
    thread: str = ""
    to: str = ""
    again: bool = False
    items: dict[str, Any] = {}

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "title", flatten(self.title, TITLE))
        msgspec.structs.force_setattr(self, "text", flatten_lines(self.text))

    def brief(self, limit: int = LONGEST) -> str:
        """The text, cut after ``limit`` characters, which it then says, with where the whole is."""
        return cut(self.text, limit, f"at {self.link}" if self.link else "in the dashboard")


class Outlet(Protocol):
    """The sending side of a channel."""

    async def send(self, message: Message) -> str:
        """Send it; returns what the channel calls it. Raises DeliveryError."""

    async def check(self) -> str:
        """What else the channel needs that works, such as reading replies; raises DeliveryError."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came back: ``id`` is the same however often it is read, ``token`` what it brought of the message
    that it answers, ``act`` the button that was pressed. ``ignored`` says why nothing may follow from it.
    """

    id: str
    address: str
    text: str = ""
    act: str = ""
    delivery_id: str = ""
    token: str = ""
    reference: str = ""
    thread: str = ""
    ignored: str = ""


def describe(channel: AnyChannel) -> str:
    """Where a channel leads, without secrets."""
    match channel:
        case Mail():
            return f"mail to {channel.to}"
        case Ntfy() | Webhook():
            return f"{channel.__struct_config__.tag} at {urlsplit(channel.url).hostname}"
        case Telegram():
            return f"Telegram, chat {channel.chat}"
        case Desktop():
            return "notifications on the desktop"
        case Terminal():
            return "a line and the bell where 'mailroom up' runs"
        case Apprise():
            return f"apprise, {channel.url.partition('://')[0]}"
