"""Folders that are thrown away after use."""

import contextlib
import os
import shutil
from pathlib import Path

from shared.sandbox.removal import remove_at


def remove_tree(path: Path) -> None:
    """Remove a folder with all beneath it, read-only folders too; follow no link, mind nothing gone."""
    try:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        remove_at(parent, path.name)
    except OSError:
        with contextlib.suppress(RecursionError):  # as much as can be
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(parent)
