"""The files in the folder: which of them are complete, what they contain, and where they are moved."""

import itertools
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from services.memory.ingest.chats import convert_chat
from services.memory.ingest.dialects import normalise_markup
from services.memory.ingest.fields import find_named_date
from services.memory.ingest.markdown import find_top_day, parse_note
from services.memory.ingest.naming import is_day, make_piece
from services.memory.ingest.org import convert_org
from services.memory.ingest.passages import is_chat, read_passages
from services.memory.ingest.pieces import Document, IngestError, Piece
from services.memory.ingest.records import parse_json, parse_table, parse_yaml
from services.memory.ingest.splitting import parse_log

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

MAX_BYTES = 10_000_000
"""The largest file that is taken in: what is larger is a data set, not something to remember."""

READERS: dict[str, Callable[[str, str], tuple[Piece, ...]]] = {
    ".log": parse_log,
    ".json": parse_json,
    ".jsonl": parse_json,
    ".ndjson": parse_json,
    ".yaml": parse_yaml,
    ".yml": parse_yaml,
    ".csv": parse_table,
    ".tsv": parse_table,
}
NOTES = (".md", ".markdown", ".org")
TEXTS = (".txt", ".text")

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


def read_document(root: Path, path: str, modified: float) -> Document:
    """The file ``path`` below ``root`` parsed; raises IngestError with the reason if it cannot be.

    ``modified`` is when it was written, in seconds since the epoch: days without a year are read by it.
    """
    ending = os.path.splitext(path)[1].lower()  # noqa: PTH122 - of a text
    if ending not in READERS and ending not in (*NOTES, *TEXTS):
        endings = ", ".join(kind[1:] for kind in (*NOTES, *TEXTS, *READERS))
        raise IngestError(f"memory reads {endings}, not {ending or 'this'}")
    text = read_file(root, path)
    known = datetime.fromtimestamp(max(0.0, modified), UTC).date()
    if ending in NOTES:
        plain = convert_org(text) if ending == ".org" else convert_chat(normalise_markup(text), known)
        return parse_note(path, plain, known)
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
    """The text of a file, with line feeds at the ends of its lines; raises IngestError with the reason."""
    data = _read_bytes(root, path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise IngestError(
            f"it is not UTF-8: byte {error.start:,} cannot be read (save it as UTF-8)"
        ) from None
    if "\0" in text:
        raise IngestError("it is not text: it holds zero bytes")
    if not text.strip():
        raise IngestError("it is empty")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_bytes(root: Path, path: str) -> bytes:
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
        if status.st_size > MAX_BYTES:
            raise IngestError(f"it has {status.st_size:,} bytes; the limit is {MAX_BYTES:,} (split it)")
        try:
            return file.read(MAX_BYTES + 1)
        except OSError as error:
            raise IngestError(f"it cannot be read: {error.strerror}") from None


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
