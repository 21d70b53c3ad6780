"""How a command reaches the office: the settings, the server's address, an identity."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from services.cli.supervisor.lock import is_held
from shared import settings, subjects
from shared.bus import discovery
from shared.bus.discovery import find_office
from shared.errors import StartError
from shared.settings import Settings

if TYPE_CHECKING:
    from shared.bus import Bus


CONNECT_WAIT = 2.0
"""Seconds a person is made to wait for a server that may not be there."""


def find_url(config: Settings) -> str:
    """The server's address: NATS_URL, else that of the running office; raises StartError without either."""
    if not config.nats_url and find_office(config) is None and is_held(config.state_dir):
        raise StartError(
            f"The office in {config.state_dir} is just being opened or closed", "Try again in a moment"
        )
    return discovery.find_url(config)


@asynccontextmanager
async def connect(name: str = subjects.USER) -> "AsyncIterator[Bus]":
    """A connection as ``name``; raises StartError, BusUnavailable or Denied with what to do about it."""
    from shared import log
    from shared.bus import Bus

    config = settings.load()
    log.configure("mailroom", level="error", form="console")
    bus = await Bus.connect(name, find_url(config), config.keys / f"{name}.nk", wait=CONNECT_WAIT)
    try:
        yield bus
    finally:
        # Where the connection is lost already, what was lost by it is the error to tell.
        with suppress(OSError):
            await bus.close()
