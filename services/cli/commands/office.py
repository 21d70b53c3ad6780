"""An office for one command: started in the state folder if none runs there, and stopped afterwards."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from services.cli.connection import connect
from services.cli.supervisor.lock import InstanceLock
from services.cli.supervisor.logs import COLOURS, LogLine
from services.cli.supervisor.supervisor import Supervisor
from shared import log, settings
from shared.bus import Bus
from shared.bus.discovery import find_instance
from shared.errors import StartError


@asynccontextmanager
async def office_for_command() -> AsyncIterator[Bus]:
    """A connection as the person to the office, which runs at least until the end of the block.

    Raises StartError if the office is starting or stopping, MailroomError if it does not start.
    """
    config = settings.load()
    if config.nats_url or find_instance(config) is not None:
        async with connect() as bus:
            yield bus
        return
    lock = InstanceLock.acquire(config.state_dir)
    if lock is None:
        raise StartError(f"The office in {config.state_dir} is starting or stopping", "Try again in a moment")
    log.configure("mailroom", level="error", form="console")
    supervisor = Supervisor(config, lock, _report)
    click.echo(f"Starting the office in {config.state_dir}", err=True)
    try:
        await supervisor.start()
        async with connect() as bus:
            yield bus
    except asyncio.CancelledError:
        click.echo("\nThe office closes; what is open goes on with the next 'mailroom up'.", err=True)
        raise
    finally:
        await supervisor.stop()
        lock.release()


def _report(line: LogLine) -> None:
    """Print warnings and errors of the processes to standard error."""
    if line.level in COLOURS:
        click.echo(f"{line.name}: {line.text}", err=True)
