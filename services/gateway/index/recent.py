"""The messages that were indexed last, encoded for those who follow live."""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import msgspec

from services.gateway.index.rows import MessageRow, Position
from shared.contracts import Goal, StateChanged

RECENT = 1_000  # Messages that are kept


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as those who follow live get it; ``goal`` is what a record of a goal says."""

    message: MessageRow
    goal: Goal | None = None


class Recent(msgspec.Struct, frozen=True):
    """A message that was indexed lately, with its encoded Event."""

    position: Position
    row: MessageRow
    data: bytes


class Newer(NamedTuple):
    """Messages, and the number of the one after them."""

    messages: list[Recent]
    number: int


def make_recent(position: Position, row: MessageRow, record: StateChanged | None = None) -> Recent:
    """A message with its event."""
    event = Event(message=row, goal=record.goal if record else None)
    return Recent(position, row, msgspec.json.encode(event))


class RecentMessages:
    """The last messages, numbered as they came, so that a follower finds the next at once."""

    def __init__(self, position: Position) -> None:
        self._kept: deque[Recent] = deque(maxlen=RECENT)
        self._before = position
        """The position before the first of them."""
        self.end = 0
        """The number of the next message."""

    @property
    def first(self) -> int:
        """The number of the first message that is kept."""
        return self.end - len(self._kept)

    def add(self, messages: Iterable[Recent]) -> None:
        """Add the next messages, and forget the oldest."""
        for each in messages:
            if len(self._kept) == RECENT:
                self._before = self._kept[0].position
            self._kept.append(each)
            self.end += 1

    def skip(self, count: int, position: Position) -> None:
        """Count messages that are not kept, up to a position, and forget those before them."""
        self._kept.clear()
        self._before = position
        self.end += count

    def reach(self, after: Position) -> bool:
        """Whether everything after a position is kept."""
        return self._before.joined(after) == after

    def since(self, number: int | None, limit: int) -> Newer | None:
        """The first messages from ``number`` on; None without a number, or if they are not kept any more."""
        if number is None or not self.first <= number <= self.end:
            return None
        found = list(islice(reversed(self._kept), self.end - number))[::-1][:limit]
        return Newer(found, number + len(found))
