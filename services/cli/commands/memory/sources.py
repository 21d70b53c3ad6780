"""The files that memory is to take in: which there are, and under which names it knows them.

A file is known by its path in the ingest folder, and one that is taken in again replaces what it said. So
README.md of one project must not be README.md of another: ``SOURCES`` tells where each name came from.
"""

import itertools
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from shared.errors import ActionError

SOURCES = ".sources.json"
"""The file in the ingest folder with the path that each name stands for; memory ignores what is hidden."""


class Found(msgspec.Struct, kw_only=True):
    """The ``files`` to take in by the names memory is to know them by, why others are ``left_out``, and the
    names of those that were taken in earlier and are ``gone`` from the folders.
    """

    files: dict[str, Path] = {}
    left_out: list[str] = []
    gone: list[str] = []


def find_files(given: Sequence[Path], folder: Path) -> Found:
    """The files of the paths that were ``given``: those of folders with their places in these.

    Hidden files are left out, and so are empty ones and symbolic links, which may lead out of the folder;
    of these it is said. If a name stands for another file already, all of the path gets that of its folder
    before it, with a number if need be.
    """
    found, taken = Found(), _read_sources(folder)
    for path in given:
        files = dict(_list_files(path, found.left_out))
        names = _choose_names(path, files, taken)
        found.files |= {names[name]: file for name, file in files.items()}
        taken |= {names[name]: str(file.resolve()) for name, file in files.items()}
        found.gone += [name for name, source in taken.items() if _is_gone(Path(source), path.resolve())]
    return found


def copy_files(found: Found, folder: Path) -> None:
    """Copy the files with the times of their last change: what bears no date in them is of then.

    Raises ActionError if that fails, or while the disk is full.
    """
    try:
        for name, path in found.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            hidden = (folder / name).with_name(f".{os.getpid()}.part")
            try:
                shutil.copyfile(path, hidden)
                changed = path.stat().st_mtime_ns
                os.utime(hidden, ns=(changed, changed))
                hidden.replace(folder / name)
            finally:
                hidden.unlink(missing_ok=True)
        sources = _read_sources(folder) | {name: str(path.resolve()) for name, path in found.files.items()}
        sources = {name: source for name, source in sources.items() if name not in found.gone}
        part = folder / f"{SOURCES}.part"
        part.write_bytes(msgspec.json.format(msgspec.json.encode(sources)))
        part.replace(folder / SOURCES)
    except OSError as error:
        raise ActionError(
            f"{error.filename or folder} cannot be copied to {folder}: {error.strerror or error}",
            "Check the rights of both, and the space on the disk",
        ) from None


def _list_files(given: Path, left_out: list[str]) -> Iterator[tuple[str, Path]]:
    """The files of a path with their names beneath it."""
    if given.is_file():
        yield given.name, given
        return
    for path in sorted(given.rglob("*")):
        name = path.relative_to(given)
        if any(part.startswith(".") for part in name.parts):
            continue
        if path.is_symlink():
            left_out.append(f"{name} is a symbolic link to {path.readlink()}: name that to take it in")
        elif path.is_file() and not path.stat().st_size:
            left_out.append(f"{name} is empty")
        elif path.is_file():
            yield str(name), path


def _choose_names(given: Path, files: Mapping[str, Path], taken: Mapping[str, str]) -> dict[str, str]:
    """The name of each file, by its name beneath ``given``: the first of these that stand for no other."""
    place = given.resolve()
    base = (place.parent if given.is_file() else place).name
    folders = itertools.chain(["", base], (f"{base}-{number}" for number in itertools.count(2)))
    for folder in folders:
        names = {name: f"{folder}/{name}" if folder else name for name in files}
        if all(
            taken.get(names[name], str(path.resolve())) == str(path.resolve()) for name, path in files.items()
        ):
            return names
    raise AssertionError("numbers have no end")


def _is_gone(source: Path, given: Path) -> bool:
    return source.is_relative_to(given) and not source.exists()


def _read_sources(folder: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode((folder / SOURCES).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}
