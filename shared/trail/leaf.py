"""The commitment to one stored message."""

from hashlib import sha256
from struct import Struct

from shared.bus import Stored

LEAF = b"\x00"
"""What the hash of a leaf begins with, so that none is taken for one of a tree (RFC 6962)."""
_lengths = Struct(">6I")


def make_leaf(stored: Stored) -> bytes:
    """The commitment to a message: to its place, its time, its subject, and all bytes of headers and body.

    It has to be read in bulk or exactly. A SHA-256 over the byte LEAF, the lengths of the six parts (four
    bytes each, the first byte the highest), and the parts.
    """
    parts = (
        stored.stream.encode(),
        b"%d" % stored.seq,
        stored.time.encode(),
        stored.subject.encode(),
        stored.block,
        stored.data,
    )
    return sha256(b"".join((LEAF, _lengths.pack(*map(len, parts)), *parts))).digest()
