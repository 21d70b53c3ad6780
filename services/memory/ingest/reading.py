"""A file's text, read without following a link out of the folder, and taken apart by its ending."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec

from services.memory.ingest.dates import find_named_date
from services.memory.ingest.markdown import read_note
from services.memory.ingest.piece import Document, Piece, Unfit
from services.memory.ingest.records import read_json, read_table, read_yaml
from services.memory.ingest.splitting import read_log, read_text

MAX_BYTES = 10_000_000
"""The largest file that is taken in: what is larger is a data set, not something to remember."""

READERS: dict[str, Callable[[str, str], tuple[Piece, ...]]] = {
    ".txt": read_text,
    ".text": read_text,
    ".log": read_log,
    ".json": read_json,
    ".jsonl": read_json,
    ".ndjson": read_json,
    ".yaml": read_yaml,
    ".yml": read_yaml,
    ".csv": read_table,
    ".tsv": read_table,
}
NOTES = (".md", ".markdown")


def read_document(root: Path, path: str) -> Document:
    """The file ``path`` beneath ``root`` taken apart; raises Unfit with the reason where it cannot be."""
    ending = os.path.splitext(path)[1].lower()  # noqa: PTH122 - of a text
    if ending not in READERS and ending not in NOTES:
        raise Unfit(
            f"memory reads {', '.join(kind[1:] for kind in (*NOTES, *READERS))}, not {ending or 'this'}"
        )
    text = read_file(root, path)
    if ending in NOTES:
        return read_note(path, text)
    pieces = READERS[ending](path.rpartition("/")[2].rpartition(".")[0], text)
    if not pieces:
        raise Unfit("there is nothing in it to remember")
    day = find_named_date(path)
    dated = (msgspec.structs.replace(piece, date=piece.date or day) for piece in pieces)
    return Document(pieces=tuple(dated))


def read_file(root: Path, path: str) -> str:
    """The text of a file, with line feeds at the ends of its lines; raises Unfit with the reason."""
    data = _read_bytes(root, path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unfit(f"it is not UTF-8: byte {error.start:,} cannot be read (save it as UTF-8)") from None
    if "\0" in text:
        raise Unfit("it is not text: it holds zero bytes")
    if not text.strip():
        raise Unfit("it is empty")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_bytes(root: Path, path: str) -> bytes:
    if not (root / path).parent.resolve().is_relative_to(root.resolve()):
        raise Unfit("its path leads out of the folder")
    try:
        handle = os.open(root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Unfit(f"it cannot be read: {error.strerror}") from None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Unfit("it is no ordinary file")
        if status.st_size > MAX_BYTES:
            raise Unfit(f"it has {status.st_size:,} bytes; the limit is {MAX_BYTES:,} (split it)")
        try:
            return file.read(MAX_BYTES + 1)
        except OSError as error:
            raise Unfit(f"it cannot be read: {error.strerror}") from None
