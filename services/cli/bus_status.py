"""The status of an office whose gateway cannot be reached, from its bus."""

import asyncio

from services.cli.connection import connect
from shared.queries.status import read_machine, read_within
from shared.settings import Settings
from shared.views.status import SystemStatus


def read_from_bus(config: Settings) -> SystemStatus:
    """The status; if the server cannot be reached, what the machine knows, with the reason in ``unread``."""
    return asyncio.run(_read(config))


async def _read(config: Settings) -> SystemStatus:
    machine = await asyncio.to_thread(read_machine, config)
    return await read_within(connect(wait=0, answer=1, flush=0), config, machine)
