"""Carries out what people ordered to be forgotten, with the eraser's key, which no agent has."""

import asyncio
import time
from collections.abc import Callable
from typing import Self

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
LOOK = 60.0
"""Seconds between two looks while nothing is heard."""
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
                orders = await _Heard.begin(bus)
                while True:
                    has_some = await has_work(bus)
                    left = await carry_out(bus, config, report) if has_some else 0
                    if left or has_some or orders.are_fresh():
                        await asyncio.sleep(pause if left else INTERVAL)
                    else:
                        await orders.wait()
                    pause = min(2 * pause, LATEST) if left else AGAIN
            finally:
                await bus.close()
        except (MailroomError, OSError) as error:
            if str(error) != told:
                report(LogLine("office", "warning", f"what is to be forgotten is not erased yet: {error}"))
            told = str(error)
            await asyncio.sleep(AGAIN)


class _Heard:
    """When something was last heard that leads to an order; the connection may have lost it meanwhile."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._came = asyncio.Event()
        self._at = -AFTERWARDS

    @classmethod
    async def begin(cls, bus: Bus) -> Self:
        """Listen from now on."""
        heard = cls(bus)
        for subject in subjects.ORDERS_OF_ERASURE:
            await bus.subscribe(subject, heard._hear)
        return heard

    def are_fresh(self) -> bool:
        """Whether one was heard within AFTERWARDS seconds."""
        return time.monotonic() < self._at + AFTERWARDS

    async def wait(self) -> None:
        """Wait for the next one, or for a reconnection, at most LOOK seconds."""
        self._came.clear()
        waits = [asyncio.ensure_future(each.wait()) for each in (self._came, self._bus.reconnected)]
        try:
            await asyncio.wait(waits, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    async def _hear(self, *_: object) -> None:
        self._at = time.monotonic()
        self._came.set()


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
