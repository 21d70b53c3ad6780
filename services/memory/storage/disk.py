"""The folder of the tables: synced, rid of what was never committed, and what is told when it fails."""

import ctypes
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from shared.errors import ActionError

_MANIFEST_BASE = 2**64 - 1
"""Lance names the manifest of version v ``{2**64 - 1 - v}.manifest``, so that the newest is listed first."""

MANY = 48
"""Commits of tables whose files are too many. Each leaves three, and reading slows down with them: 600 single
adds made 1,803 files and a search eleven times slower; 48 keep it under 200."""


def sync(path: Path) -> None:
    """Have all that was written to the file system of ``path`` on disk; raises OSError where it fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):  # macOS
        os.sync()
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        if libc.syncfs(folder):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
    finally:
        os.close(folder)


def drop_uncommitted(path: Path, committed: Mapping[str, int]) -> None:
    """Take the tables in ``path`` back to their ``committed`` versions, and remove those that have none.

    Raises ValueError where nothing is committed and yet there is data: its ledger is lost.
    """
    for table in path.glob("*.lance"):
        kept = committed.get(table.stem, 0)
        versions = {_MANIFEST_BASE - int(file.stem): file for file in table.glob("_versions/*.manifest")}
        if not committed and max(versions, default=0) > 1:
            raise ValueError(f"{table} holds data, but there is no ledger of it")
        if not kept:
            shutil.rmtree(table)
            continue
        for version, file in versions.items():
            if version > kept:
                file.unlink()


def count_commits(path: Path) -> int:
    """How many commits of tables still have their files in ``path``."""
    return sum(1 for _ in path.glob("*.lance/_versions/*.manifest"))


def refusal(path: Path, error: Exception) -> ActionError:
    """What is told to whoever wanted to write."""
    reason = first_line(error)
    if "No space left" in reason or "disk is full" in reason or "quota" in reason.lower():
        return ActionError(
            f"Memory cannot be written: the disk of {path} is full", "Make room and send it again"
        )
    return ActionError(f"Memory cannot be written: {reason}", f"Look at {path} and send it again")


def first_line(error: Exception) -> str:
    """An error's own words, as far as they help."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
