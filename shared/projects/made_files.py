"""The files that an installation makes in a working copy, kept to be put into the next one.

They are hard links where the file system allows it: 20,000 files of a node_modules take half a second. A test
can therefore change a kept file; that shows in its time or size, and the environment is made again.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from shared.sandbox import remove_tree

LEFT_OUT = frozenset((".git", "__pycache__", ".DS_Store"))

Listing = Mapping[str, tuple[int, int, int]]
"""Relative paths, each with its kind and mode, size and time of change; folders are not listed."""


def list_files(root: Path) -> dict[str, tuple[int, int, int]]:
    """The files and links beneath ``root``; no link is followed."""
    found, waiting = {}, [""]
    while waiting:
        place = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(f"{root}/{place}") as listing:
            for entry in listing:
                if entry.name in LEFT_OUT:
                    continue
                name = f"{place}/{entry.name}" if place else entry.name
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(name)
                    continue
                info = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode):
                    changed = 0 if stat.S_ISLNK(info.st_mode) else info.st_mtime_ns
                    found[name] = (info.st_mode, info.st_size, changed)
    return found


def digest(files: Listing) -> str:
    """A hash of the names, sizes and times in ``files``."""
    text = "\0".join(f"{name}\0{details}" for name, details in sorted(files.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def keep_made(root: Path, before: Listing, kept: Path) -> str:
    """Keep in ``kept`` what ``root`` has beyond ``before``; returns the digest that ``restore`` takes."""
    after = list_files(root)
    made = {name: details for name, details in after.items() if before.get(name) != details}
    _link_all(root, kept, made)
    return digest(list_files(kept))


def restore_made(kept: Path, root: Path, expected: str) -> bool:
    """Put what was kept into ``root``, leaving alone what is there; False if it is not what was kept."""
    files = list_files(kept)
    if digest(files) != expected:
        return False
    for name in _outermost_modules(files):
        # What a package manager makes is made by it alone: whatever was copied there would be mixed with it.
        place = root / name
        if place.is_symlink():
            place.unlink()
        elif place.is_dir() and _is_inside(place.parent, root):
            remove_tree(place)
    _link_all(kept, root, files)
    return True


def _outermost_modules(files: Listing) -> Iterator[str]:
    seen = set()
    for name in files:
        parts = name.split("/")
        if "node_modules" in parts[:-1]:
            seen.add("/".join(parts[: parts.index("node_modules") + 1]))
    yield from seen


def _link_all(source: Path, target: Path, files: Listing) -> None:
    # Plain strings: with paths, 20,000 files take twice as long.
    target.mkdir(parents=True, exist_ok=True)
    above, here = f"{source}/", f"{target}/"
    made = {"": True}
    for name, (mode, _, _) in files.items():
        if not _make_folder(here, name.rpartition("/")[0], made):
            continue
        try:
            if stat.S_ISLNK(mode):
                os.symlink(os.readlink(above + name), here + name)  # noqa: PTH115, PTH211 - as it is written
            else:
                os.link(above + name, here + name, follow_symlinks=False)
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                raise
            shutil.copy2(above + name, here + name, follow_symlinks=False)


def _make_folder(target: str, name: str, made: dict[str, bool]) -> bool:
    """Make a folder and those above it; False if one of them is a link or a file."""
    if name not in made:
        is_inside = _make_folder(target, name.rpartition("/")[0], made)
        if is_inside:
            try:
                os.mkdir(target + name)  # noqa: PTH102
            except FileExistsError:
                is_inside = stat.S_ISDIR(os.lstat(target + name).st_mode)
        made[name] = is_inside
    return made[name]


def _is_inside(folder: Path, root: Path) -> bool:
    return folder.resolve().is_relative_to(root.resolve())
