"""Carries out what people ordered to be forgotten, with the eraser's key, which no agent has."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from services.cli.supervisor.logs import LogLine
from shared import subjects
from shared.bus import Bus
from shared.errors import MailroomError
from shared.operations.erasure.orders import carry_out_archives, carry_out_orders, has_work
from shared.settings import Settings
from shared.text.phrases import count

INTERVAL = 1.0
"""Seconds between two looks for orders while there are some."""
AFTERWARDS = 5.0
"""Seconds for which that goes on after an order was heard of: it is heard before it is stored."""
LOOK = 15.0
"""Seconds between two looks while nothing is heard: a message may be lost with the connection."""
AGAIN, LATEST = 15.0, 600.0
"""Seconds until an order is tried again that could not be carried out wholly: twice as many each time, at
most."""


async def carry_out_without_end(config: Settings, url: str, report: Callable[[LogLine], None]) -> None:
    """Carry out orders until cancelled, also those that were left when the office stopped."""
    told, pause = "", AGAIN
    while True:
        try:
            bus = await Bus.connect(subjects.ERASER, url, config.keys / f"{subjects.ERASER}.nk")
            try:
                heard, soon = await _listen(bus), 0.0
                while True:
                    has_some = await has_work(bus)
                    left = await carry_out(bus, config, report) if has_some else 0
                    if heard.is_set():
                        heard.clear()
                        soon = time.monotonic() + AFTERWARDS
                    if left or has_some or time.monotonic() < soon:
                        await asyncio.sleep(pause if left else INTERVAL)
                    else:
                        with suppress(TimeoutError):
                            async with asyncio.timeout(LOOK):
                                await heard.wait()
                    pause = min(2 * pause, LATEST) if left else AGAIN
            finally:
                await bus.close()
        except (MailroomError, OSError) as error:
            if str(error) != told:
                report(LogLine("office", "warning", f"what is to be forgotten is not erased yet: {error}"))
            told = str(error)
            await asyncio.sleep(AGAIN)


async def _listen(bus: Bus) -> asyncio.Event:
    """Set, from now on, when there is a message that leads to something to erase or to delete."""
    heard = asyncio.Event()

    async def hear(*_: object) -> None:
        heard.set()

    for subject in subjects.ORDERS_OF_ERASURE:
        await bus.subscribe(subject, hear)
    return heard


async def carry_out(bus: Bus, config: Settings, report: Callable[[LogLine], None]) -> int:
    """Carry out the orders that there are; returns how many messages, and bundles, are left for later."""
    done = await carry_out_orders(bus, config)
    left = sum(carried.busy + len(carried.waiting) for carried in done.values())
    for order, carried in done.items():
        waits = f"; {count(carried.busy, 'message')} in work is left until later" if carried.busy else ""
        report(LogLine("office", "info", f"erased what quoted a forgotten memory (order {order}){waits}"))
        for reason in carried.waiting:
            report(LogLine("office", "warning", f"order {order} waits: {reason}"))
    archived = await carry_out_archives(bus)
    if archived.deleted:
        what = f"{count(archived.deleted, 'archived message')} deleted on the server"
        report(LogLine("office", "info", what))
    for reason in archived.waiting:
        report(LogLine("office", "warning", f"archived messages stay on the server: {reason}"))
    return left + len(archived.waiting)
