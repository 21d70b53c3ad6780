"""What a file contains: its pieces, by the format that its name tells."""

import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from services.memory.ingest.chats import convert_chat, parse_mails
from services.memory.ingest.markdown import (
    convert_org,
    convert_rst,
    find_top_day,
    normalise_markup,
    parse_note,
)
from services.memory.ingest.naming import is_day, make_piece
from services.memory.ingest.passages import is_chat, parse_log, read_passages
from services.memory.ingest.pieces import Document, IngestError, Piece, find_named_date
from services.memory.ingest.structured import parse_calendar, parse_json, parse_table, parse_toml, parse_yaml
from shared.errors import ActionError
from shared.text.display import decode, drop_unseen

MAX_BYTES = 10_000_000
"""The largest file that is taken in: what is larger is a data set, not something to remember."""

MAX_PACKED = 50_000_000  # The same for those of PACKED, which have pictures in them too

UNPACK_SECONDS = 600.0
"""How long taking one of these apart may last: 2,000 pages of a PDF take a minute on a busy machine."""

READERS: dict[str, Callable[[str, str], tuple[Piece, ...]]] = {
    ".log": parse_log,
    ".json": parse_json,
    ".jsonl": parse_json,
    ".ndjson": parse_json,
    ".yaml": parse_yaml,
    ".yml": parse_yaml,
    ".toml": parse_toml,
    ".csv": parse_table,
    ".tsv": parse_table,
}
NOTES: dict[str, Callable[[str], str]] = {
    ".md": normalise_markup,
    ".markdown": normalise_markup,
    ".org": convert_org,
    ".rst": convert_rst,
}
"""What makes Markdown of notes."""
TEXTS = (".txt", ".text")
MAILS = (".eml", ".mbox")
CALENDARS = (".ics",)
PACKED = {".pdf": "pdf", ".docx": "docx", ".html": "html", ".htm": "html"}
"""Files that are taken apart in the jail, since they may be hostile."""
ALL = (*NOTES, *TEXTS, *READERS, *MAILS, *CALENDARS, *PACKED)

CONTROLS = frozenset(range(32)) - set(b"\t\n\f\r\x1b")
"""Bytes that no text has, in whatever encoding of one byte a character."""


TAB = "\t"  # Between the cells of tables in Word files, as they are taken out


def find_ending(path: str) -> str:
    """The ending of a file's name in lower case, with its dot."""
    return os.path.splitext(path)[1].lower()  # noqa: PTH122 - of a text


async def unpack(root: Path, path: str) -> str:
    """The text of a file of PACKED, paragraph by paragraph; raises IngestError with the reason."""
    from shared.skills.documents import extract_text

    kind, content = PACKED[find_ending(path)], _read_bytes(root, path, MAX_PACKED)
    try:
        extract = await extract_text(content, kind, path, UNPACK_SECONDS, MAX_BYTES)
    except ActionError as error:
        raise IngestError(error.cause.removeprefix(f"{path} cannot be read: ")) from None
    lines = extract.text.split("\n")
    for heading in extract.headings:
        place = int(str(heading["line"])) - 1
        if place < len(lines):
            lines[place] = f"## {lines[place]}"
    if kind == "docx":  # each line is a paragraph, or the row of a table
        lines = [f"| {' | '.join(line.split(TAB))} |" if TAB in line else f"\n{line}\n" for line in lines]
    title = [f"# {extract.title}"] if extract.title.strip() else []
    return "\n".join([*title, *lines])


def read_document(root: Path, path: str, modified: float, unpacked: str = "") -> Document:
    """The file ``path`` below ``root`` parsed; raises IngestError with the reason if it cannot be.

    ``modified`` is when it was written, in seconds since the epoch: days without a year are read by it.
    ``unpacked`` is the text of a file of PACKED.
    """
    ending = find_ending(path)
    if ending not in ALL:
        endings = ", ".join(kind[1:] for kind in ALL)
        raise IngestError(f"memory reads {endings}, not {ending or 'this'}")
    known = datetime.fromtimestamp(max(0.0, modified), UTC).date()
    if ending in PACKED:
        if not unpacked.strip():
            raise IngestError("there is no text in it (a scan has to be read by OCR first)")
        return parse_note(path, unpacked, known)
    if ending in MAILS:
        return Document(pieces=parse_mails(_read_bytes(root, path, MAX_PACKED), known))
    if ending in CALENDARS:
        document = parse_calendar(_read_bytes(root, path))
        if not document.pieces:
            raise IngestError("; ".join(document.unread[:3]) or "there is nothing in it to remember")
        return document
    text = read_file(root, path)
    if ending in NOTES:
        plain = NOTES[ending](text)
        return parse_note(path, convert_chat(plain, known) if ending.startswith(".m") else plain, known)
    name, day = path.rpartition("/")[2].rpartition(".")[0], find_named_date(path)
    if ending in TEXTS or (ending == ".log" and is_chat(text)):
        text = convert_chat(text, known)
        day = day or find_top_day(text, known)
        pieces = tuple(
            make_piece(passage, (), day, known, name)
            for passage in read_passages(text)
            if not is_day(passage.text)
        )
    else:
        pieces = READERS[ending](name, text)
    if not pieces:
        raise IngestError("there is nothing in it to remember")
    dated = (msgspec.structs.replace(piece, date=piece.date or day) for piece in pieces)
    return Document(pieces=tuple(dated))


def read_file(root: Path, path: str) -> str:
    """The text of a file, with line feeds at the ends of its lines; raises IngestError with the reason.

    What is neither UTF-8 nor UTF-16 with its mark is what its characters suggest, for Latin letters
    Windows-1252, of which Latin-1 is a part.
    """
    data = _read_bytes(root, path)
    if not data.strip():
        raise IngestError("it is empty")
    is_utf16 = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = data.decode("utf-16" if is_utf16 else "utf-8-sig")
    except UnicodeDecodeError as error:
        text = "" if is_utf16 or CONTROLS.intersection(data) else decode(data)
        if not text or "\ufffd" in text:
            raise IngestError(
                f"it is not text, or in an unknown encoding: byte {error.start:,} cannot be read"
                " (save it as UTF-8)"
            ) from None
    if "\0" in text:
        raise IngestError("it is not text: it holds zero bytes")
    return drop_unseen(text).replace("\r\n", "\n").replace("\r", "\n")


def _read_bytes(root: Path, path: str, most: int = MAX_BYTES) -> bytes:
    if not (root / path).parent.resolve().is_relative_to(root.resolve()):
        raise IngestError("its path leads out of the folder")
    try:
        handle = os.open(root / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise IngestError(f"it cannot be read: {error.strerror}") from None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise IngestError("it is no ordinary file")
        if status.st_size > most:
            raise IngestError(f"it has {status.st_size:,} bytes; the limit is {most:,} (split it)")
        try:
            return file.read(most + 1)
        except OSError as error:
            raise IngestError(f"it cannot be read: {error.strerror}") from None
