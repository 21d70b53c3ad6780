"""Notes on work that takes long."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from shared.errors import BusError

TELL_EVERY = 20.0
"""Seconds between two notes."""


@contextlib.asynccontextmanager
async def telling(note: Callable[[str], Awaitable[None]], what: str) -> AsyncIterator[None]:
    """A block of work, during which ``note`` is told ``what`` goes on, and for how long, every TELL_EVERY."""
    working = asyncio.create_task(_tell(note, what))
    try:
        yield
    finally:
        working.cancel()
        await asyncio.wait({working})


async def _tell(note: Callable[[str], Awaitable[None]], what: str) -> None:
    begun = time.monotonic()
    with contextlib.suppress(BusError):  # the work itself finds out if its claim is lost
        while True:
            await asyncio.sleep(TELL_EVERY)
            await note(f"{what} ({time.monotonic() - begun:.0f} s)")
