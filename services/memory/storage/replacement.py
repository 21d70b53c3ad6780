"""Putting a rebuilt store in the place of the one that is there, so that a crash leaves one of them whole."""

import os
import shutil
from pathlib import Path

from services.memory.storage.disk import Disk

DRAFT = "rebuild"
"""The folder, within the store's, in which a new one is made: the store's own may be a mount."""

_READY = "ready"
_MOVING = "moving"


def replace(path: Path) -> None:
    """Put the store in the draft's folder in the place of that in ``path``; both must be closed."""
    Disk(path).sync()
    (path / DRAFT / _READY).touch()
    Disk(path).sync()
    settle(path)


def settle(path: Path) -> None:
    """Complete a replacement that a crash interrupted, and remove a draft that was never completed.

    First the old files go, then the new ones come: which of it was begun is told by a file's name.
    """
    draft = path / DRAFT
    if (draft / _READY).exists():
        for entry in path.iterdir():
            if entry != draft:
                _remove(entry)
        (draft / _READY).rename(draft / _MOVING)
        Disk(path).sync()
    if (draft / _MOVING).exists():
        for entry in draft.iterdir():
            if entry.name != _MOVING:
                os.replace(entry, path / entry.name)  # noqa: PTH105 - as it is named in the docs of POSIX
        Disk(path).sync()
    if draft.exists():
        shutil.rmtree(draft)


def _remove(entry: Path) -> None:
    if entry.is_dir():
        shutil.rmtree(entry)
    else:
        entry.unlink()
