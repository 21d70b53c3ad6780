"""What the handlers of one process wait for, each by a name of its own."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from shared.bus.consumer import yield_slot
from shared.errors import BusUnavailable
from shared.log import logger

POLL = (0.05, 1.0)
"""Seconds until the first look at what is waited for, doubling to the most there are between two: it may
reach another replica."""

K = TypeVar("K")
T = TypeVar("T")

log = logger(__name__)


class PendingReplies(Generic[K, T]):
    """What is waited for here; a mailbox that brings it gives it to the handler at once."""

    def __init__(self) -> None:
        self._arriving: dict[K, asyncio.Future[T]] = {}

    async def wait(
        self, name: K, begin: Callable[[], Awaitable[bool]], look: Callable[[], Awaitable[T | None]]
    ) -> T | None:
        """``begin`` it, then wait until ``name`` is given or ``look`` finds it; None where it did not begin.

        Whoever waits leaves its place in the mailbox to others. A server that is away is waited for.
        """
        arriving: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._arriving[name] = arriving
        try:
            if not await begin():
                return None
            async with yield_slot():
                return await _await(arriving, look)
        finally:
            # Another attempt at the same may wait here by now.
            if self._arriving.get(name) is arriving:
                del self._arriving[name]

    def give(self, name: K, value: T) -> bool:
        """Give ``value`` to whoever waits for ``name``; returns whether somebody does here."""
        arriving = self._arriving.get(name)
        if arriving is None:
            return False
        if not arriving.done():
            arriving.set_result(value)
        return True


async def _await(arriving: asyncio.Future[T], look: Callable[[], Awaitable[T | None]]) -> T:
    pause, longest = POLL
    while True:
        done, _ = await asyncio.wait({arriving}, timeout=pause)
        if done:
            return arriving.result()
        pause = min(longest, 2 * pause)
        try:
            found = await look()
        except BusUnavailable as error:
            log.info("waits_without_server", reason=str(error))
            continue
        if found is not None:
            return found
