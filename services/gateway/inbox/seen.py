"""What people have put aside in the inbox: a small file that survives restarts and a new index."""

from pathlib import Path

import msgspec

from services.gateway.context import Gateway
from shared.files import write_atomically

MAX_SEEN = 5_000
"""Entries that are kept: the latest."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """An item of the inbox that was put aside, by whom and when."""

    id: str
    by: str
    at: str


def read_seen(gateway: Gateway) -> dict[str, Seen]:
    """What was put aside, by the ids of the items; nothing if the file is missing or damaged."""
    try:
        entries = msgspec.json.decode(_path(gateway).read_bytes(), type=list[Seen])
    except (OSError, msgspec.DecodeError):
        return {}
    return {each.id: each for each in entries}


def add_seen(gateway: Gateway, seen: Seen) -> None:
    """Put an item aside; the first who did stays on record."""
    entries = read_seen(gateway)
    entries.setdefault(seen.id, seen)
    write_atomically(_path(gateway), msgspec.json.encode(list(entries.values())[-MAX_SEEN:]))


def _path(gateway: Gateway) -> Path:
    return gateway.settings.gateway / "seen.json"
