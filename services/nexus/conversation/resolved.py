"""What a message was taken for."""

import msgspec

from shared.contracts import AskedBack


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """The whole message that a short one stands for.

    ``text`` is what is routed, ``understood`` the same for people; empty if the message was not changed.
    ``joined`` is the message before with ``text`` added: for the tool of that one, unless ``text`` is for
    another.
    ``replaces`` is the schedule or job of the last answer that the message asks for at another time.
    With a ``reply`` nothing is routed: that is the answer, by ``route``, and ``asks`` what it asks back.
    """

    text: str
    understood: str = ""
    reply: str = ""
    route: str = ""
    joined: str = ""
    replaces: str = ""
    asks: AskedBack | None = None
