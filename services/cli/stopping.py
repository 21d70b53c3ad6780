"""How a person ends the office: the first signal closes it, a second Ctrl-C ends it at once."""

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_signals(at_once: Callable[[], None]) -> Iterator[asyncio.Event]:
    """An event that SIGINT, SIGTERM or SIGHUP sets; a SIGINT after that calls ``at_once``."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def interrupt() -> None:
        if stop.is_set():
            at_once()
        stop.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, interrupt if number == signal.SIGINT else stop.set)
    try:
        yield stop
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


async def before(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What ``work`` returns or raises; None where ``stop`` came first, the work cancelled then."""
    working = asyncio.create_task(work)
    waiting = asyncio.create_task(stop.wait())
    await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if working.done():
        return working.result()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    return None
