"""The store's folder: syncing, dropping what was not committed, putting a rebuilt store in place."""

import os
import re
import shutil
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import ParamSpec, TypeVar

from shared.errors import ActionError, StartError

_MANIFEST_BASE = 2**64 - 1
"""Lance names the manifest of version v ``{2**64 - 1 - v}.manifest``, so that the newest is listed first."""

_HINDRANCES = re.compile(
    r"no space left|disk full|denied|read-?only|too many open files|unable to open|disk i/o|cannot allocate",
    re.IGNORECASE,
)
"""In errors of Lance, Arrow, SQLite and the system that are about the machine, and not about the files."""

P = ParamSpec("P")
T = TypeVar("T")


class Damaged(StartError):
    """The files of a store cannot be read."""


def open_error(path: Path, error: Exception) -> StartError:
    """Why the store in ``path`` cannot be opened: Damaged, unless the machine hinders it."""
    if _HINDRANCES.search(str(error)):
        return StartError(
            f"The memory in {path} cannot be opened ({first_line(error)})",
            "Free disk space, or make the folder writable",
        )
    return Damaged(
        f"The memory in {path} is damaged ({first_line(error)})",
        "Move that folder away to start over; what was committed is also in the MEMORY stream",
    )


class Disk:
    """The folder ``path``. Each step that changes it goes through ``run``, so that tests can let it fail.

    Without ``synced`` nothing is flushed: for what counts only once all of it is.
    """

    def __init__(self, path: Path, *, synced: bool = True) -> None:
        self.path = path
        self.synced = synced
        self._flushed: set[str] = set()

    def run(self, step: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do ``work``; ``step`` names what it does to the disk."""
        return work(*args, **kwargs)

    def sync(self) -> None:
        """Flush the files that are new since the last time; raises OSError.

        Lance never writes to a file again, and flushes none.
        """
        if self.synced:
            self.run("sync", self._sync)

    def _sync(self) -> None:
        found = [_flush(table, self._flushed) for table in self.path.glob("*.lance")]
        self._flushed = set().union(*found)
        _fsync(self.path)

    def drop_uncommitted(self, committed: Mapping[str, int]) -> None:
        """Drop what tables have beyond their ``committed`` versions, and the tables that have none.

        Raises ValueError if nothing is committed although there is data: its commit table is lost.
        """
        for table in self.path.glob("*.lance"):
            kept = committed.get(table.stem, 0)
            versions = {_MANIFEST_BASE - int(file.stem): file for file in table.glob("_versions/*.manifest")}
            if not committed and max(versions, default=0) > 1:
                raise ValueError(f"{table} contains data, but ledger.sqlite does not list it")
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
                f"Memory cannot be written: the disk of {self.path} is full",
                "Free some space and send it again",
            )
        return ActionError(f"Memory cannot be written: {reason}", f"Check {self.path} and send it again")


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _flush(folder: Path, known: Set[str] = frozenset()) -> set[str]:
    """Flush what is in a folder, and below, but for the ``known`` files; returns all files."""
    files: set[str] = set()
    for root, _, names in os.walk(folder):
        here = {os.path.join(root, name) for name in names}  # noqa: PTH118
        for path in [*(here - known), root]:
            _fsync(path)
        files |= here
    return files


def _fsync(path: Path | str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


DRAFT = "rebuild"
"""The folder, within the store's, in which a new one is made: the store's own may be a mount."""

_READY = "ready"
_MOVING = "moving"


def replace(path: Path) -> None:
    """Put the store in the draft's folder in the place of that in ``path``; both must be closed."""
    _flush(path / DRAFT)
    (path / DRAFT / _READY).touch()
    _fsync(path / DRAFT)
    _fsync(path)
    settle(path)


def settle(path: Path) -> None:
    """Complete a replacement that a crash interrupted, and remove a draft that was never completed.

    First the old files go, then the new ones come: which of it was begun is told by a file's name.
    """
    draft = path / DRAFT
    if (draft / _READY).exists():
        for entry in path.iterdir():
            if entry != draft:
                if entry.is_dir():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
        _fsync(path)
        (draft / _READY).rename(draft / _MOVING)
        _fsync(draft)
    if (draft / _MOVING).exists():
        for entry in draft.iterdir():
            if entry.name != _MOVING:
                os.replace(entry, path / entry.name)  # noqa: PTH105 - as it is named in the docs of POSIX
        _fsync(path)
    if draft.exists():
        shutil.rmtree(draft)
