"""How long what goals leave on disk is kept: the engineer removes it, the one agent that has all of it."""

import asyncio
import time
from collections.abc import Container
from pathlib import Path

from services.engineer.working_copy import clean_copies
from shared import subjects
from shared.bus import Bus
from shared.bus.records import read_record
from shared.contracts import TOKEN, StateChanged
from shared.errors import BusError
from shared.log import logger
from shared.sandbox import remove_tree
from shared.settings import Settings

INTERVAL = 3_600.0
"""Seconds between two removals."""
DAY = 86_400.0
log = logger(__name__)


async def remove_without_end(bus: Bus, settings: Settings) -> None:
    """Remove what is kept no longer, at once and then every hour, until cancelled.

    Nothing is removed while it is not known which goals are open.
    """
    while True:
        try:
            removed = await asyncio.to_thread(remove_old, settings, await _read_open_goals(bus))
            if any(removed.values()):
                log.info("removed_old", **removed)
        except (BusError, ValueError, OSError) as error:
            log.warning("old_files_stay", reason=str(error))
        await asyncio.sleep(INTERVAL)


async def _read_open_goals(bus: Bus) -> Container[str]:
    record = await read_record(bus, subjects.OFFICE_STATE, StateChanged)
    return record.value.active if record else ()


def remove_old(settings: Settings, open_goals: Container[str]) -> dict[str, int]:
    """Remove the workspaces, snapshots and outputs of goals that are kept no longer (setting ``keep``).

    What an open goal has stays. Returns how many of each were removed.
    """
    clean_copies(settings.workspaces)
    kinds = (
        ("workspaces", settings.workspaces, settings.days_kept("workspaces")),
        ("snapshots", settings.snapshots, settings.days_kept("workspaces")),
        ("outputs", settings.outputs, settings.days_kept("outputs")),
    )
    return {kind: _remove(folder, days, open_goals) for kind, folder, days in kinds if days}


def _remove(folder: Path, days: int, open_goals: Container[str]) -> int:
    """Remove the folders of goals in ``folder`` that were not used for ``days``; returns how many."""
    removed = 0
    for path in list(folder.glob("*")):
        if not TOKEN.fullmatch(path.name) or path.name in open_goals or path.is_symlink():
            continue
        if path.is_dir() and time.time() - _last_used(path) > days * DAY:
            remove_tree(path)
            removed += 1
    return removed


def _last_used(path: Path) -> float:
    """When a folder, or something directly in it, was last changed; now if another process removes it."""
    try:
        return max(each.lstat().st_mtime for each in (path, *path.iterdir()))
    except OSError:
        return time.time()
