"""How a command reaches the office: the settings, the server's address, an identity."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from services.cli.lock import is_held
from shared import settings, subjects
from shared.errors import StartError
from shared.settings import Settings

if TYPE_CHECKING:
    from shared.bus import Bus

CONNECT_WAIT = 2.0
"""Seconds a person is made to wait for a server that may not be there."""


class RunningOffice(msgspec.Struct, frozen=True, kw_only=True):
    """What ``mailroom up`` says of the office it keeps running, in ``<state_dir>/run/office.json``."""

    pid: int
    url: str
    started_at: str = ""
    state_dir: str = ""


def find_office(config: Settings) -> RunningOffice | None:
    """The office that ``mailroom up`` keeps running with these settings; None where there is none."""
    try:
        office = msgspec.json.decode(
            (config.state_dir / "run" / "office.json").read_bytes(), type=RunningOffice
        )
    except (OSError, msgspec.MsgspecError):
        return None
    return office if _alive(office.pid) else None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def find_url(config: Settings) -> str:
    """The server's address: NATS_URL, else that of the running office; raises StartError without either."""
    if config.nats_url:
        return config.nats_url
    office = find_office(config)
    if office is None and is_held(config.state_dir):
        raise StartError(
            f"The office in {config.state_dir} is just being opened or closed", "Try again in a moment"
        )
    if office is None:
        raise StartError(
            f"No office is running in {config.state_dir}",
            "Start one with 'mailroom up', or name a server with NATS_URL",
        )
    return office.url


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
        await bus.close()


async def call_server(bus: "Bus", verb: str, body: object = None) -> dict[str, object]:
    """Ask the server's JetStream interface, for instance ``STREAM.INFO.OFFICE``.

    Raises BusError with the server's reason where it refuses.
    """
    from shared.errors import BusError

    answer = await bus.request(f"$JS.API.{verb}", json.dumps(body).encode() if body is not None else b"")
    result: dict[str, object] = json.loads(answer)
    if error := result.get("error"):
        assert isinstance(error, dict)
        raise BusError(f"The server refused {verb}: {error.get('description')}")
    return result
