"""The folder of the tables: syncing, rolling back what was never committed, explaining failures."""

import ctypes
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ParamSpec, TypeVar

from shared.errors import ActionError

_MANIFEST_BASE = 2**64 - 1
"""Lance names the manifest of version v ``{2**64 - 1 - v}.manifest``, so that the newest is listed first."""

P = ParamSpec("P")
T = TypeVar("T")


class Disk:
    """The folder ``path``. Each step that changes it goes through ``run``, so that tests can let it fail."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def run(self, step: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do ``work``; ``step`` names what it does to the disk."""
        return work(*args, **kwargs)

    def sync(self) -> None:
        """Flush all that was written to the file system of the folder; raises OSError."""
        self.run("sync", _syncfs, self.path)

    def roll_back(self, committed: Mapping[str, int]) -> None:
        """Take the tables back to their ``committed`` versions, and remove those that have none.

        Raises ValueError if nothing is committed although there is data: its commit table is lost.
        """
        for table in self.path.glob("*.lance"):
            kept = committed.get(table.stem, 0)
            versions = {_MANIFEST_BASE - int(file.stem): file for file in table.glob("_versions/*.manifest")}
            if not committed and max(versions, default=0) > 1:
                raise ValueError(f"{table} holds data, but there is no ledger of it")
            if not kept:
                self.run("drop", shutil.rmtree, table)
                continue
            for version, file in versions.items():
                if version > kept:
                    self.run("drop", file.unlink)

    def count_commits(self) -> int:
        """How many commits of tables still have their files."""
        return sum(1 for _ in self.path.glob("*.lance/_versions/*.manifest"))

    def explain(self, error: Exception) -> ActionError:
        """The error for the sender of a write that failed by ``error``."""
        reason = first_line(error)
        if "No space left" in reason or "disk is full" in reason or "quota" in reason.lower():
            return ActionError(
                f"Memory cannot be written: the disk of {self.path} is full", "Make room and send it again"
            )
        return ActionError(f"Memory cannot be written: {reason}", f"Look at {self.path} and send it again")


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _syncfs(path: Path) -> None:
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
