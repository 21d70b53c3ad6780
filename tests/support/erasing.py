"""Carrying out orders to forget, as ``mailroom up`` does beside the agents."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from shared import subjects
from shared.errors import BusError
from shared.operations.erasure.orders import carry_out_archives, carry_out_orders, has_work
from tests.support.server import Server


@asynccontextmanager
async def erasing(server: Server) -> AsyncIterator[None]:
    """Have orders carried out within the block."""

    ended = False

    async def run() -> None:
        async with server.connection(subjects.ERASER) as eraser:
            while not ended:  # a cancellation may be lost together with an answer
                with contextlib.suppress(BusError):
                    if await has_work(eraser):
                        await carry_out_orders(eraser, server.config, patience=0)
                        await carry_out_archives(eraser)
                await asyncio.sleep(0.1)

    running = asyncio.create_task(run())
    try:
        yield
    finally:
        ended = True
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
