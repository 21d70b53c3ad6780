"""Reads the log for those who tell people of it, and keeps how far each of them has read."""

import time
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any

import msgspec

from services.gateway.index.index import LogIndex
from services.gateway.index.rows import STREAMS, Position
from services.gateway.index.store import Filter
from shared import subjects
from shared.access.file import RecordFile
from shared.bus import Bus, Stored
from shared.bus.client import is_handled
from shared.queries.records import last_sequence
from shared.trail.archives import read_message

NOTE_INTERVAL = 30.0
"""Seconds after which it is written how far the log was read, though there was nothing to tell."""


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the log was read: a position.

    ``delivered`` are the ids of what was told last; ``failing_since``, in seconds since 1970, is the first
    attempt to tell what follows.
    """

    position: str
    delivered: tuple[str, ...] = ()
    failing_since: float = 0.0


class LogReader:
    """The messages that people may be told of, for readers with names; ``path`` keeps how far each is.

    It is written after what a message leads to: what is read again after a crash was perhaps told.
    """

    def __init__(self, bus: Bus, index: LogIndex, path: Path) -> None:
        self._bus, self._index = bus, index
        self._progress = RecordFile(path, Progress)

    async def follow(self, name: str) -> AsyncIterator[tuple[str, Stored]]:
        """Each message and its position, without end; a new reader begins with what happens from now on."""
        known = self.find(name)
        if known is None:
            ends = [await last_sequence(self._bus, stream) for stream in STREAMS]
            known = self.note(name, position=str(Position(*ends)))
        noted = time.monotonic()
        async for batch in self._index.events(Position.parse(known.position), Filter()):
            for each in batch:
                stored = None
                if may_be_told(each.row.subject):
                    stored = await read_message(self._bus, each.row.stream, each.row.seq)
                if stored is not None and not is_handled(stored.headers):
                    yield each.row.position, stored
            if time.monotonic() - noted > NOTE_INTERVAL:
                self.note(name, position=batch[-1].row.position)
                noted = time.monotonic()

    def find(self, name: str) -> Progress | None:
        """How far a reader is; None for a new one."""
        return self._progress.read().get(name)

    def note(self, name: str, **fields: Any) -> Progress:
        """Write how far a reader is; a field that is not given stays."""
        with self._progress.change() as records:
            known = records.get(name)
            records[name] = msgspec.structs.replace(known, **fields) if known else Progress(**fields)
            return records[name]

    def forget_all_but(self, names: Collection[str]) -> None:
        """Forget the other readers: one of such a name is new."""
        if self._progress.read().keys() - names:
            with self._progress.change() as records:
                for name in records.keys() - names:
                    del records[name]


def may_be_told(subject: str) -> bool:
    """Whether people may be told of a message on ``subject``."""
    match subject.split("."):
        case ["approval", _, "asked", _] | ["dead", _] | ["state", "goal", _]:
            return True
        case ["mail", recipient, _]:
            return recipient == subjects.USER
    return False
