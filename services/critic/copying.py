"""A copy of a repository for the critic to run things in: what it looks at is never changed."""

import asyncio
import contextlib
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from shared.errors import ActionError
from shared.sandbox import remove_tree
from shared.source.tree import read_tree

PREFIX = "review-"
STALE = 86_400.0
"""Seconds after which a folder that a crash left is removed: longer than a review lasts."""
MOST_BYTES = 500_000_000
"""The most bytes that are copied."""


@asynccontextmanager
async def trial_folder(folder: Path) -> AsyncIterator[Path]:
    """A folder of one's own beneath ``folder``, removed at the end; raises ActionError."""
    try:
        await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
        place = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=PREFIX, dir=folder))
    except OSError as error:
        raise ActionError(f"No folder can be made in {folder}: {error.strerror}") from None
    try:
        yield place
    finally:
        await asyncio.to_thread(remove_tree, place)


def clean_trials(folder: Path) -> int:
    """Remove the trial folders in ``folder`` that a crash left more than STALE ago; returns how many."""
    removed = 0
    for place in folder.glob(f"{PREFIX}*"):
        with contextlib.suppress(FileNotFoundError):  # another critic may be at the same
            if time.time() - place.lstat().st_mtime > STALE:
                remove_tree(place)
                removed += 1
    return removed


def copy_tree(repo: Path, target: Path) -> None:
    """Copy what belongs to ``repo`` (see read_tree) to ``target``; raises ActionError if it is too much."""
    tree = read_tree(repo)
    if tree.cut:
        raise ActionError(f"{repo} is too large to be copied: {tree.cut}")
    total = 0
    target.mkdir(parents=True)
    for name in tree.files:
        source, place = tree.root / name, target / name
        try:
            total += source.lstat().st_size
            if total > MOST_BYTES:
                raise ActionError(f"{repo} is too large to be copied: it has more than {MOST_BYTES:,} bytes")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place, follow_symlinks=False)
        except OSError as error:
            raise ActionError(f"{source} cannot be copied: {error.strerror}") from None
