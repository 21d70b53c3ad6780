"""The trail: seals over the log, by which it can be proved that nothing in it was changed."""

from typing import Literal

from shared.contracts.base import Count, Envelope, Hash


class Seal(Envelope, frozen=True, kw_only=True, tag="seal.v1"):
    """A seal over the messages ``first`` to ``last`` of a stream; they follow those of seal ``number`` - 1.

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
