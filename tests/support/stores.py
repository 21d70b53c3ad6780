"""Stores of provisioned servers and their keys, kept for servers provisioned alike later in the same run."""

import atexit
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from shared.settings import Settings

Key = tuple[tuple[str, ...], float, int]
"""What provisioning depends on: the agents, ``task_ack_wait`` and ``max_attempts``."""

_kept: dict[Key, Path] = {}


def store_of(settings: Settings) -> Path:
    """The folder of JetStream's files."""
    return settings.state_dir / "nats" / "store"


def fill_store(settings: Settings, agents: Sequence[str]) -> bool:
    """Copy a store that was provisioned alike, and its keys, which are published in it.

    Returns False if there is none, or the server has a store or keys.
    """
    kept = _kept.get(_key(settings, agents))
    if kept is None or store_of(settings).exists() or settings.keys.exists():
        return False
    shutil.copytree(kept / "store", store_of(settings))
    shutil.copytree(kept / "keys", settings.keys)
    return True


def keep_store(settings: Settings, agents: Sequence[str]) -> None:
    """Keep a copy of the store of a server that was provisioned and not used yet, and of its keys.

    The server may run: it recovers from such a copy as it does after a crash.
    """
    if not _kept:
        atexit.register(_remove)
    folder = Path(tempfile.mkdtemp(prefix="mailroom-store-"))
    shutil.copytree(store_of(settings), folder / "store")
    shutil.copytree(settings.keys, folder / "keys")
    _kept[_key(settings, agents)] = folder


def _key(settings: Settings, agents: Sequence[str]) -> Key:
    return tuple(agents), settings.task_ack_wait, settings.max_attempts


def _remove() -> None:
    for folder in _kept.values():
        shutil.rmtree(folder, ignore_errors=True)
