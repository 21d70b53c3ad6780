"""Lanes: the durables of one consumer in order of precedence, and which of them has the next free slot."""

import time
from collections import deque
from collections.abc import Sequence

from shared.bus.entry import Delivery
from shared.bus.pulls import Pull

SHARE = 20
"""A lane that has messages gets at least one slot in so many, whatever waits in higher ones; nearly twice the
lanes of the conductor, so that the highest gets half of its slots even if all others are full."""


class Lane:
    """One durable: its requests, and the messages that have arrived and wait here for a slot."""

    def __init__(self, pull: Pull) -> None:
        self.pull = pull
        self.passed = 0
        """How many slots went to other lanes since this one had its last, or was found empty."""
        self._waiting: deque[tuple[float, Delivery]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def due(self) -> bool:
        """Whether it is to have the next slot whatever waits in higher lanes, if it has messages."""
        return self.passed >= SHARE - 1

    @property
    def settled(self) -> bool:
        """Whether it has no messages: none waits here, and one that is new would arrive at once."""
        return not self._waiting and self.pull.listening

    @property
    def has_turn(self) -> bool:
        """Whether a message waits here, or it is not known whether one waits at the server.

        One that the server does not tell about is left out.
        """
        return bool(self._waiting) or not (self.pull.listening or self.pull.refused or self.pull.lost)

    def put(self, delivery: Delivery) -> None:
        """Have ``delivery`` wait here."""
        self._waiting.append((time.monotonic(), delivery))

    def pop(self) -> Delivery:
        """The message that has waited longest."""
        return self._waiting.popleft()[1]

    def waits_longer(self, than: float) -> bool:
        """Whether a message has waited here for ``than`` seconds."""
        return bool(self._waiting) and self._waiting[0][0] <= time.monotonic() - than

    def pop_older(self, than: float, max_deliveries: int) -> list[Delivery]:
        """Those that have waited for ``than`` seconds, except what was delivered ``max_deliveries`` times."""
        limit = time.monotonic() - than
        old = [one for at, one in self._waiting if at <= limit and one.deliveries < max_deliveries]
        self._waiting = deque((at, one) for at, one in self._waiting if one not in old)
        return old


def choose(lanes: Sequence[Lane]) -> Lane | None:
    """The lane that has the next slot: the lowest that is due its share, else the highest.

    It may have to be asked first whether it has messages. None if no lane has any.
    """
    for lane in reversed(lanes):
        if lane.due and lane.has_turn:
            return lane
    for lane in lanes:
        if lane.has_turn:
            return lane
    return None


def take(lane: Lane, lanes: Sequence[Lane]) -> Delivery:
    """The next message of ``lane``, which counts as a slot for it and as one passed for the others."""
    for other in lanes:
        other.passed = 0 if other.settled else other.passed + 1
    lane.passed = 0
    return lane.pop()
