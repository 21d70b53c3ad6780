"""Files away: into ``processed/``, or into ``failed/`` beside a note that says why."""

import itertools
import shutil
from pathlib import Path

from services.memory.ingest.settling import FAILED, PROCESSED

REASON = ".reason.txt"
MAX_NAME = 200
"""The longest name made here, in bytes: file systems take 255, and a number may have to fit in."""


def prepare_folder(root: Path) -> None:
    """Have the folder and the two that files go to; raises OSError where that cannot be."""
    for folder in (root, root / PROCESSED, root / FAILED):
        folder.mkdir(parents=True, exist_ok=True)


def file_away(root: Path, path: str) -> Path:
    """Move a file to ``processed/``, where it keeps its folders; raises OSError where it cannot be moved."""
    return _move(root, path, PROCESSED)


def file_as_failed(root: Path, path: str, reason: str) -> Path:
    """Move a file to ``failed/`` and write the reason beside it, as ``<its name>.reason.txt``."""
    target = _move(root, path, FAILED)
    note = target.with_name(_cut(target.name, MAX_NAME) + REASON)
    note.write_text(f"{path} was not taken into memory: {reason}.\n", "utf-8")
    return target


def _move(root: Path, path: str, folder: str) -> Path:
    target = root / folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    free = next(each for each in _names(target) if not each.exists() and not each.is_symlink())
    shutil.move(root / path, free)
    return free


def _names(target: Path) -> "itertools.chain[Path]":
    """The name itself, then with a number before its ending: nothing is overwritten."""
    stem = _cut(target.stem, MAX_NAME)
    numbered = (target.with_name(f"{stem}-{number}{target.suffix}") for number in itertools.count(2))
    return itertools.chain([target], numbered)


def _cut(name: str, limit: int) -> str:
    return name.encode("utf-8", "surrogateescape")[:limit].decode("utf-8", "ignore")
