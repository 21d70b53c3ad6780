"""A message or a file without the texts that a person had forgotten."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from shared.bus.client import FIELD, Origin
from shared.bus.entry import SALT
from shared.contracts import Node, decode
from shared.settings import Settings
from shared.text.quotations import FORGOTTEN, Quotations

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def quotes(data: bytes, quotations: Quotations) -> bool:
    """Whether a message quotes one of the texts, in a value or a name of its JSON, or in its plain text."""
    if not quotations.may_be_in(data):
        return False
    return any(quotations.are_in(text) for text in _texts_in(_read(data)))


def redact(data: bytes, quotations: Quotations, origin: Origin) -> bytes:
    """What is left of a message that quotes them; it says what it replaces, if it is a JSON object.

    A message that is not what it was without its texts keeps none of its longer ones.
    """
    value = _read(data)
    if isinstance(value, str):
        return quotations.redact(value).encode("utf-8", "surrogateescape")
    left = _encode(_clean(value, quotations), origin)
    return left if _is_valid(left) or not _is_valid(data) else _encode(_clean(value, None), origin)


def kind_of(data: bytes) -> tuple[str, str]:
    """The type and id of the envelope in a message; empty if it is none."""
    value = _read(data)
    if not isinstance(value, dict):
        return "", ""
    kind, message_id = value.get("type"), value.get("id")
    return kind if isinstance(kind, str) else "", message_id if isinstance(message_id, str) else ""


def _read(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except UNREADABLE:
        return data.decode("utf-8", "surrogateescape")


def _encode(value: Any, origin: Origin) -> bytes:
    if isinstance(value, dict):
        value = {**value, FIELD: msgspec.to_builtins(origin)}
    return msgspec.json.encode(value)


def _texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for name, each in value.items() for text in (name, *_texts_in(each))]
    if isinstance(value, list):
        return [text for each in value for text in _texts_in(each)]
    return []


LONGEST_NAME = 64
"""The most characters of a text that stays in a message of which nothing else can be left: an id, a state."""


def _clean(value: Any, quotations: Quotations | None) -> Any:
    if isinstance(value, str):
        if quotations is not None:
            return quotations.redact(value)
        return value if len(value) <= LONGEST_NAME and " " not in value else FORGOTTEN
    if isinstance(value, list):
        return [_clean(each, quotations) for each in value]
    if isinstance(value, dict):
        # a dead letter quotes the headers of its message, which is erased with its salt
        kept = {name: each for name, each in value.items() if name != SALT}
        return {_clean(name, quotations): _clean(each, quotations) for name, each in kept.items()}
    return value


def _is_valid(data: bytes) -> bool:
    try:
        decode(data)
    except (ValueError, RecursionError):
        return False
    return True


MAX_FILE = 64 * 1024 * 1024  # The largest file that is read, in bytes
INDEX = "index.db"  # How the files of the gateway's index begin: it is made again without what was erased


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


STRUCTURE = frozenset(
    "file heading headings line hash links unresolved merged_from count first last session".split()
)
"""Metadata that say where a text stood, which other texts share."""


def texts_of_nodes(nodes: Iterable[Node]) -> list[str]:
    """What nodes say: titles, bodies, and what their metadata tell beside where they come from."""
    found: dict[str, None] = {}
    for node in nodes:
        told = [value for name, value in node.metadata.items() if name not in STRUCTURE]
        for text in (node.title, node.body, *(each for each in told if isinstance(each, str))):
            found |= {text: None} if text.strip() else {}
    return list(found)
