"""One message of a commit."""

from collections.abc import Mapping
from typing import NamedTuple

from shared.contracts import Envelope


class Entry(NamedTuple):
    """A message to be stored: its subject, payload, id, and the sequence it expects.

    ``expect`` is the stream sequence of the last message on the subject (0: there is none yet); the
    commit is refused whole where another was stored since. None expects nothing. ``headers`` are stored
    beside those of the bus.
    """

    subject: str
    payload: bytes
    id: str
    expect: int | None = None
    headers: Mapping[str, str] | None = None


def seal(subject: str, envelope: Envelope, expect: int | None = None) -> Entry:
    """The entry that stores ``envelope`` on ``subject``."""
    return Entry(subject, envelope.to_json(), envelope.id, expect)
