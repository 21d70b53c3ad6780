"""How a command connects to the bus: settings, server address, identity."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import TypeVar

import click

from services.cli.supervisor.lock import is_held
from shared import log, settings, subjects
from shared.access.credentials import login_path
from shared.bus import Bus, connecting
from shared.bus.connecting import find_instance
from shared.bus.hosts import read_membership
from shared.errors import MailroomError, StartError
from shared.settings import Settings
from shared.trace import continue_trace

T = TypeVar("T")
CONNECT_WAIT = 2.0  # Seconds until a server must answer
START_WAIT = 60.0  # Seconds a command waits for an office that is starting
POLL_INTERVAL = 0.1


def find_url(config: Settings, wait: float = START_WAIT) -> str:
    """The server's address: NATS_URL, else that of the running instance; raises StartError without either.

    An office that is starting is waited for, ``wait`` seconds at most.
    """
    if not config.nats_url:
        require_office(config)
    deadline = time.monotonic() + wait
    if not config.nats_url and _is_between(config):
        if not wait:
            state = f"The office in {config.state_dir} is starting or stopping"
            raise StartError(state, "Try again in a moment; 'mailroom status' names its processes")
        click.echo(f"Waiting for the office in {config.state_dir}, which is starting or stopping.", err=True)
        while _is_between(config):
            if time.monotonic() >= deadline:
                problem = f"The office in {config.state_dir} did not get ready within {wait:g} s"
                raise StartError(problem, f"See why in {config.logs}, or try again later")
            time.sleep(POLL_INTERVAL)
    return connecting.find_url(config)


def require_office(config: Settings) -> None:
    """Raise StartError where there is none: on a host, and where commands ask a gateway elsewhere."""
    if (member := read_membership(config.keys)) is not None:
        cure = "Do that on the office's machine, or sign in to its gateway: 'mailroom login URL'"
        raise StartError(f"This is the host {member.host} of {member.servers}", cure)
    if login_path(config).exists() and not (config.keys / f"{subjects.ADMIN}.nk").exists():
        raise StartError(
            "The office is elsewhere: 'mailroom login' named its gateway", "Do that on its machine"
        )


def _is_between(config: Settings) -> bool:
    """Whether an office is starting or stopping."""
    return find_instance(config) is None and is_held(config.state_dir)


@asynccontextmanager
async def connect(
    name: str = subjects.USER, *, wait: float = START_WAIT, answer: float = CONNECT_WAIT, flush: int = 2
) -> AsyncIterator[Bus]:
    """A connection as ``name``; an office that is starting is waited for, ``wait`` seconds at most.

    The server has to answer within ``answer`` seconds. What was published is flushed within ``flush`` seconds
    at the end; who only reads needs no flush. Raises StartError, BusUnavailable or Denied.
    """
    config = settings.load()
    log.configure("mailroom", level="error", form="console")
    continue_trace("")
    bus = await Bus.connect(name, find_url(config, wait), config.keys / f"{name}.nk", wait=answer)
    try:
        yield bus
    finally:
        # If the connection is lost, the error that this caused is the one to report.
        with suppress(OSError):
            await bus.close(flush=flush)


@asynccontextmanager
async def connect_instead(away: MailroomError) -> AsyncIterator[Bus]:
    """A connection to the bus of an office whose gateway is away, which is said once in a line."""
    async with connect() as bus:
        _say_away(away.cause)
        yield bus


@cache
def _say_away(cause: str) -> None:
    click.echo(f"{cause}; this works on the bus instead.", err=True)


def run_connected(work: Callable[[Bus], Awaitable[T]], name: str = subjects.USER) -> T:
    """Run ``work`` with a connection as ``name``, to its end."""

    async def connected() -> T:
        async with connect(name) as bus:
            return await work(bus)

    return asyncio.run(connected())
