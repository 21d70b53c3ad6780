"""The trail: seals over the log, and who came in through the gateway or was kept out."""

from enum import StrEnum
from typing import Annotated, Literal

from shared.contracts.base import Count, Envelope, Hash, Text, Timestamp, at_most, require_token


class Seal(Envelope, frozen=True, kw_only=True, tag="seal.v1"):
    """A seal over the messages ``first`` to ``last`` of a stream; they follow those of seal ``number`` - 1.

    One that begins before the end of the seal before it says that the stream lost its end: what was sealed
    after ``last`` is not there any more, and other messages may stand there. What is left from ``first`` on
    is sealed again by it, ``sender`` found it, and the next seal goes on after ``last``.

    ``count`` are those that there were, ``root`` is the root of the tree of RFC 6962 over the commitments to
    them, and ``chain`` the hash of the seal before, of this root and of its place. ``marks`` are the first
    four bytes of each commitment, zeros where there was no message, in Base64: they tell which message was
    changed, and prove nothing. What is kept elsewhere is a seal without marks.
    """

    stream: Literal["OFFICE", "MEMORY"]
    number: Count
    first: Count
    last: Count
    count: Count
    root: Hash
    chain: Hash
    marks: str = ""


class ArchiveOrder(Envelope, frozen=True, kw_only=True, tag="archive_order.v1"):
    """A person's order that the server may delete the messages ``first`` to ``last`` of OFFICE: all of them
    lie in ``folder`` in the file ``bundle``, which was verified.

    It follows the order before it without a gap. ``since`` and ``until`` are when the first and the last of
    the messages were stored, ``count`` how many lie in the bundle.
    """

    first: Count
    last: Count
    count: Count
    since: Timestamp
    until: Timestamp
    bundle: Text
    folder: Text


class MessagesArchived(Envelope, frozen=True, kw_only=True, tag="messages_archived.v1"):
    """The eraser's record that a person's order to archive, ``cause``, is carried out.

    ``deleted`` messages are no longer on the server; ``kept`` are, because something still needs them.
    """

    deleted: Count = 0
    kept: Count = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("cause", self.cause)


class AccessAct(StrEnum):
    """What was done, or refused."""

    SIGNED_IN = "signed_in"
    SIGN_IN_REFUSED = "sign_in_refused"
    SIGNED_OUT = "signed_out"
    TOKEN_ADDED = "token_added"  # noqa: S105  # an act
    TOKEN_REVOKED = "token_revoked"  # noqa: S105
    TOKEN_REFUSED = "token_refused"  # noqa: S105
    HOOK_REFUSED = "hook_refused"
    HOOK_FAILED = "hook_failed"
    REPLY_REFUSED = "reply_refused"
    HOST_INVITED = "host_invited"
    HOST_JOINED = "host_joined"
    HOST_REFUSED = "host_refused"
    HOST_LEFT = "host_left"
    HOST_REVOKED = "host_revoked"


class AccessChanged(Envelope, frozen=True, kw_only=True, tag="access_changed.v1"):
    """Someone signed in or out, a token was made or revoked, a host came or went, or something was refused;
    never a secret.

    ``person`` is who did it, as far as that is known, ``address`` the network address it came from, ``about``
    the name of the token, webhook, channel or host.
    """

    act: AccessAct
    address: Annotated[str, at_most(100)] = ""
    about: Annotated[str, at_most(100)] = ""
    reason: Annotated[str, at_most(500)] = ""
