"""Replies that the handlers of one process wait for, by key."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from shared.bus.consumer import yield_slot
from shared.errors import BusUnavailable
from shared.log import logger

POLL = (0.05, 1.0)
"""Seconds between reads of the reply's record, doubling from the first value to the second: the reply may
reach another process of the agent."""

K = TypeVar("K")
T = TypeVar("T")

log = logger(__name__)


class PendingReplies(Generic[K, T]):
    """Futures of the replies that are waited for here; the dispatcher resolves one when its reply arrives."""

    def __init__(self) -> None:
        self._futures: dict[K, asyncio.Future[T]] = {}

    async def wait(
        self, key: K, begin: Callable[[], Awaitable[bool]], find: Callable[[], Awaitable[T | None]]
    ) -> T | None:
        """``begin``, then wait until ``key`` is resolved or ``find`` returns it; None if it did not begin.

        The consumer slot is free while it waits. While the server is away, it goes on waiting.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._futures[key] = future
        try:
            if not await begin():
                return None
            async with yield_slot():
                return await _await(future, find)
        finally:
            # Another attempt at the same task may wait for this key by now.
            if self._futures.get(key) is future:
                del self._futures[key]

    def resolve(self, key: K, value: T) -> bool:
        """Give ``value`` to the handler that waits for ``key``; returns whether one does in this process."""
        future = self._futures.get(key)
        if future is None:
            return False
        if not future.done():
            future.set_result(value)
        return True


async def _await(future: asyncio.Future[T], find: Callable[[], Awaitable[T | None]]) -> T:
    pause, longest = POLL
    while True:
        done, _ = await asyncio.wait({future}, timeout=pause)
        if done:
            return future.result()
        pause = min(longest, 2 * pause)
        try:
            reply = await find()
        except BusUnavailable as error:
            log.info("waits_without_server", reason=str(error))
            continue
        if reply is not None:
            return reply
