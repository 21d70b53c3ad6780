"""What a channel is given to send, and how it says that it could not."""

from typing import Any, Protocol

import msgspec

from shared.contracts import DeliveryKind, Urgency
from shared.errors import MailroomError
from shared.text.display import cut, flatten, flatten_lines

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
