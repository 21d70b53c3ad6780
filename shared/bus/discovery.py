"""Finds the server: from the settings, or from the office that runs with them."""

import os
from pathlib import Path

import msgspec

from shared.errors import StartError
from shared.settings import Settings


class RunningInstance(msgspec.Struct, frozen=True, kw_only=True):
    """The record of ``mailroom up`` about the office it keeps running, in ``<state_dir>/run/office.json``.

    ``brain`` is the setting of this name: the model of its agents, or empty.
    """

    pid: int
    url: str
    started_at: str = ""
    state_dir: str = ""
    brain: str = ""


def find_instance(config: Settings) -> RunningInstance | None:
    """The office that ``mailroom up`` keeps running with these settings; None if there is none."""
    try:
        office = msgspec.json.decode(
            (config.state_dir / "run" / "office.json").read_bytes(), type=RunningInstance
        )
    except (OSError, msgspec.MsgspecError):
        return None
    return office if _alive(office.pid) else None


def lock_path(state_dir: Path) -> Path:
    """The file that the office of ``state_dir`` locks, and writes its process id to."""
    return state_dir / "run" / "office.lock"


def read_supervisor(state_dir: Path) -> int:
    """The id of the process that locked it last, the supervisor of its office; 0 if unknown."""
    try:
        return int(lock_path(state_dir).read_text())
    except (OSError, ValueError):
        return 0


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
    office = find_instance(config)
    if office is None:
        raise StartError(
            f"No office is running in {config.state_dir}",
            "Start one with 'mailroom up', or name a server with NATS_URL",
        )
    return office.url
