"""Waiting for what happens in another task, thread or process."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def eventually(condition: Callable[[], Any], timeout: float = 15.0) -> Any:
    """Call ``condition``, a function or coroutine function, until it returns something true; return that.

    Raises TimeoutError after ``timeout`` seconds.
    """
    begun = time.monotonic()
    async with asyncio.timeout(timeout):
        while True:
            looked = time.monotonic()
            value = condition()
            if inspect.isawaitable(value):
                value = await value
            if value:
                return value
            await asyncio.sleep(_pause(begun, looked))


def wait_for(condition: Callable[[], T], timeout: float = 60.0) -> T:
    """``eventually`` for code that is not a coroutine."""
    begun = time.monotonic()
    looked = begun
    while not (value := condition()) and time.monotonic() - begun < timeout:
        time.sleep(_pause(begun, looked))
        looked = time.monotonic()
    assert value, f"It did not happen within {timeout:g} s"
    return value


def _pause(begun: float, looked: float) -> float:
    """Seconds until the next look: a twentieth of the wait so far, and no less than the last look took.

    What comes soon is seen soon, and at most half of the time goes into looking.
    """
    now = time.monotonic()
    return max(0.01, min(0.1, (now - begun) / 20), min(0.5, now - looked))
