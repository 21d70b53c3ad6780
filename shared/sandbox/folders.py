"""Folders that are thrown away after use."""

import contextlib
import os
import shutil
import stat
from pathlib import Path


def remove_tree(path: Path) -> None:
    """Remove a folder with all beneath it, read-only folders too; follow no link, mind nothing gone."""
    with contextlib.suppress(OSError):
        path.chmod(stat.S_IRWXU)
    for folder, names, _ in os.walk(path):
        for name in names:
            child = Path(folder, name)
            if not child.is_symlink():
                with contextlib.suppress(OSError):
                    child.chmod(stat.S_IRWXU)
    shutil.rmtree(path, ignore_errors=True)
