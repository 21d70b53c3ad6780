"""Overwrites what files of the office's folder quote of a text that a person had forgotten."""

import os
from collections.abc import Iterator
from pathlib import Path

from shared.settings import Settings
from shared.text.quotations import FORGOTTEN, Quotations

MAX_FILE = 64 * 1024 * 1024
"""The largest file that is read, in bytes."""
INDEX = "index.db"
"""How the files of the gateway's index begin: it is made again without what was erased."""


def find_quoting_files(config: Settings, quotations: Quotations) -> list[Path]:
    """The files in the office's folder that quote; what the server and memory store is theirs."""
    return [path for path in sorted(_files(config)) if _read_quoting(path, quotations) is not None]


def overwrite_quotations(config: Settings, quotations: Quotations) -> list[Path]:
    """Overwrite quotations in the text files of the office's folder, in place and of the same length.

    Returns the files that were changed: not those in workspaces, which are an agent's work, settings, what is
    no text, and what cannot be written.
    """
    changed = []
    for path in sorted(_files(config)):
        apart = path.suffix == ".toml" or any(map(path.is_relative_to, (config.workspaces, config.gateway)))
        if apart or (text := _read_quoting(path, quotations)) is None:
            continue
        if "\0" not in text and _overwrite(path, text, quotations):
            changed.append(path)
    return changed


def _files(config: Settings) -> Iterator[Path]:
    """The files below the office's folder, without the server's, memory's, keys, and installed packages."""
    apart = {config.state_dir / "nats", config.state_dir / "memory", config.keys, config.environments}
    # Folders may go meanwhile, which os.walk passes over.
    for folder, inner, names in os.walk(config.state_dir):
        inner[:] = [name for name in inner if Path(folder, name) not in apart]
        for path in (Path(folder, name) for name in names if not name.startswith(INDEX)):
            if path.is_file() and not path.is_symlink():
                yield path


def _read_quoting(path: Path, quotations: Quotations) -> str | None:
    """The text of a file that quotes; None for any other."""
    try:
        data = path.read_bytes() if path.stat().st_size <= MAX_FILE else b""
    except OSError:  # gone meanwhile, or not ours to read
        return None
    if not quotations.may_be_in(data):
        return None
    text = data.decode("utf-8", "surrogateescape")
    return text if quotations.are_in(text) else None


def _overwrite(path: Path, text: str, quotations: Quotations) -> bool:
    """Overwrite them where they stand: a process may have the file open to append to it."""
    try:
        with path.open("r+b") as file:
            place = end = 0
            for begin, after in quotations.spans(text):
                place += _size(text[end:begin])
                size = _size(text[begin:after])
                file.seek(place)
                file.write(FORGOTTEN.encode().ljust(size) if size >= len(FORGOTTEN) else b"*" * size)
                place, end = place + size, after
    except OSError:
        return False
    return True


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
