"""The trail: seals over the log, which prove that nothing in it was changed, and what of it was archived."""

from typing import Literal

from shared.contracts.base import Count, Envelope, Hash, Text, Timestamp, require_token


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
