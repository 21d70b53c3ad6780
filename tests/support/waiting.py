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
    async with asyncio.timeout(timeout):
        while True:
            value = condition()
            if inspect.isawaitable(value):
                value = await value
            if value:
                return value
            await asyncio.sleep(0.02)


def wait_for(condition: Callable[[], T], timeout: float = 60.0) -> T:
    """``eventually`` for code that is not a coroutine."""
    deadline = time.monotonic() + timeout
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert value, f"It did not happen within {timeout:g} s"
    return value
