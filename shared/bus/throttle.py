"""When what a task does may publish: once it is claimed, and no faster than floods nobody."""

import asyncio
import time
from contextvars import ContextVar

from shared.effects import begin_effect

RATE = 50.0  # Messages a second that one task may publish for long; its result does not count
BURST = 500  # Messages that it may publish at once


class Throttle:
    """A token bucket of BURST messages, which fills by RATE a second."""

    def __init__(self) -> None:
        self._left, self._at = float(BURST), time.monotonic()

    async def take(self, count: int) -> None:
        """Wait until ``count`` more messages may be published; those who wait take turns."""
        now = time.monotonic()
        self._left = min(BURST, self._left + (now - self._at) * RATE) - count
        self._at = now
        if self._left < 0:
            await asyncio.sleep(-self._left / RATE)


throttle: ContextVar[Throttle | None] = ContextVar("throttle", default=None)
"""The limit of what is running: each attempt at a task has its own, and all else has none."""


async def wait_for_turn(count: int = 1) -> None:
    """Wait until what is running may publish ``count`` more messages."""
    await begin_effect()
    if (limit := throttle.get()) is not None:
        await limit.take(count)
