"""A copy of a repository for the critic to run things in: what it looks at is never changed."""

import asyncio
import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from shared.errors import ActionError
from shared.sandbox import remove_tree
from shared.sandbox.beneath import Beneath
from shared.settings import Settings
from shared.skills.workspace import goal_folder
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


def copy_tree(repo: Path, target: Path, settings: Settings) -> None:
    """Copy what belongs to ``repo`` (see read_tree) to ``target``, but for the office's own folders in it.

    A link swapped in meanwhile is not followed. Raises ActionError for it, where there is too much to be
    copied, and where all of it is the office's own.
    """
    tree = read_tree(repo)
    if tree.cut:
        raise ActionError(f"{repo} is too large to be copied: {tree.cut}")
    held = goal_folder(settings, tree.root)
    own = () if held else _own_folders(tree.root, settings)
    target.mkdir(parents=True)
    total = 0
    with Beneath(held or tree.root) as beneath:
        for name in tree.files:
            source = tree.root / name
            if any(map(source.is_relative_to, own)):
                continue
            total += _copy_file(beneath, str(source), target / name)
            if total > MOST_BYTES:
                raise ActionError(f"{repo} is too large to be copied: it has more than {MOST_BYTES:,} bytes")


def _own_folders(root: Path, settings: Settings) -> tuple[Path, ...]:
    own = (settings.state_dir.resolve(), settings.keys.resolve())
    if any(map(root.is_relative_to, own)):
        raise ActionError(f"{root} is the office's own and not copied", "Name the folder of a project")
    return own


def _copy_file(beneath: Beneath, name: str, place: Path) -> int:
    """Copy a file with its mode and times; returns its size. Raises ActionError."""
    with beneath.reading(name) as source:
        info = os.fstat(source.fileno())
        if info.st_size > MOST_BYTES:
            return info.st_size
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("xb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
            place.chmod(stat.S_IMODE(info.st_mode) & 0o777)
            os.utime(place, ns=(info.st_atime_ns, info.st_mtime_ns))
        except OSError as error:
            raise ActionError(f"{name} cannot be copied: {error.strerror}") from None
    return info.st_size
