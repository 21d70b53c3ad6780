"""The files in the folder: which of them are complete, and where they are moved."""

import itertools
import os
import shutil
import stat
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

PROCESSED = "processed"
FAILED = "failed"

IGNORED_ENDINGS = ("~", ".part", ".tmp", ".swp", ".swx", ".bak", ".crdownload", ".download", ".partial")
"""What editors, browsers and copying programs name a file that is not the file yet."""

SETTLE = 1.0
"""Seconds without a change after which a file counts as complete."""

EMPTY_WAIT = 30.0
"""Seconds an empty file is given to be filled."""

MAX_DEPTH = 30
"""The deepest folder that is scanned."""

REASON = ".reason.txt"
MAX_NAME = 200
"""The longest name made here, in bytes: file systems take 255, and a number may have to fit in."""


class FileState(msgspec.Struct, frozen=True):
    """What changes when a file does."""

    size: int
    modified_ns: int
    inode: int
    is_link: bool = False
    is_plain: bool = True


class FolderScanner:
    """Finds the files below ``root`` that are complete; paths are relative to it, with ``/``.

    A file is complete once it has not changed for ``settle``
    seconds and, on Linux, no process has it open for writing.
    """

    def __init__(self, root: Path, settle: float = SETTLE) -> None:
        self._root = root
        self._settle = settle
        self._seen: dict[str, tuple[FileState, float]] = {}

    def scan(self, apart: Collection[str] = ()) -> tuple[list[str], int]:
        """The files that are complete, nearest to the root first, and how many are still being written.

        Those in ``apart`` are in other hands already, and are neither.
        """
        now, wall = time.monotonic(), time.time()
        found = dict(find_files(self._root))
        self._seen = {
            path: self._seen[path] if path in self._seen and self._seen[path][0] == state else (state, now)
            for path, state in found.items()
        }
        others = {path: seen for path, seen in self._seen.items() if path not in apart}
        quiet = {path for path, seen in others.items() if self._is_quiet(*seen, now, wall)}
        ready = quiet - open_for_writing(self._root, quiet) if quiet else quiet
        return sorted(ready, key=lambda path: (path.count("/"), path)), len(others) - len(ready)

    def state(self, path: str) -> FileState | None:
        """The state of a file now; None if it is gone."""
        try:
            return _read_state((self._root / path).lstat())
        except OSError:
            return None

    def _is_quiet(self, state: FileState, since: float, now: float, wall: float) -> bool:
        if not state.is_plain or state.is_link:
            return True
        wait = self._settle if state.size else max(self._settle, EMPTY_WAIT)
        age = wall - state.modified_ns / 1e9
        return now - since >= wait or wait <= age


def find_files(root: Path) -> Iterator[tuple[str, FileState]]:
    """Everything below ``root`` that is no folder, except what is hidden, temporary, processed or failed.

    Links are given as what they are and never followed.
    """
    waiting = [("", 0)]
    while waiting:
        folder, depth = waiting.pop()
        with suppress(OSError), os.scandir(root / folder) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if is_ignored(path):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if depth < MAX_DEPTH:
                        waiting.append((path, depth + 1))
                    continue
                with suppress(OSError):
                    yield path, _read_state(entry.stat(follow_symlinks=False))


def is_ignored(path: str) -> bool:
    """Whether the folder leaves a path alone: what it filed away, what is hidden, and what is temporary."""
    first, *_ = parts = path.split("/")
    return (
        first in (PROCESSED, FAILED)
        or any(part.startswith((".", "~$")) or part[0] == part[-1] == "#" for part in parts)
        or path.lower().endswith(IGNORED_ENDINGS)
    )


def open_for_writing(root: Path, paths: set[str]) -> set[str]:
    """Those of ``paths`` that a process of this user has open for writing; empty unless on Linux."""
    if sys.platform != "linux":
        return set()
    base = f"{root.resolve()}/"
    busy = set()
    for handle in _handles():
        with suppress(OSError, ValueError, IndexError):
            target = os.readlink(handle)  # noqa: PTH115 - hundreds of them at a time
            path = target.removeprefix(base)
            if path != target and path in paths and _writes(handle):
                busy.add(path)
    return busy


def _handles() -> Iterator[str]:
    own = str(os.getpid())
    for process in os.listdir("/proc"):  # noqa: PTH208 - as above
        if process.isdigit() and process != own:
            with suppress(OSError):
                yield from (f"/proc/{process}/fd/{number}" for number in os.listdir(f"/proc/{process}/fd"))  # noqa: PTH208


def _writes(handle: str) -> bool:
    process, _, number = handle.removeprefix("/proc/").partition("/fd/")
    text = Path(f"/proc/{process}/fdinfo/{number}").read_text()
    flags = next(line for line in text.splitlines() if line.startswith("flags:"))
    return int(flags.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY


def _read_state(status: os.stat_result) -> FileState:
    return FileState(
        status.st_size,
        status.st_mtime_ns,
        status.st_ino,
        stat.S_ISLNK(status.st_mode),
        stat.S_ISREG(status.st_mode),
    )


def prepare_folder(root: Path) -> None:
    """Create the folder and the two that files are moved to; raises OSError if that fails."""
    for folder in (root, root / PROCESSED, root / FAILED):
        folder.mkdir(parents=True, exist_ok=True)


def move_to_processed(root: Path, path: str) -> Path:
    """Move a file to ``processed/``, keeping its folders; raises OSError if it cannot be moved."""
    return _move(root, path, PROCESSED)


def move_to_failed(root: Path, path: str, reason: str) -> Path:
    """Move a file to ``failed/`` and write the reason beside it, as ``<its name>.reason.txt``."""
    target = _move(root, path, FAILED)
    note = target.with_name(_cut(target.name, MAX_NAME) + REASON)
    note.write_text(f"{path} was not imported: {reason}.\n", "utf-8")
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
