"""The folder whose files memory takes in: which are complete, and where they are put afterwards."""

import asyncio
import itertools
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from services.memory.ingest import reading
from services.memory.ingest.client import MemoryClient, Write, WriteFailed
from services.memory.ingest.drafting import draft_nodes
from services.memory.ingest.file_import import FileImport, ImportResult, NoteLinks, Progress
from services.memory.ingest.kinds import KindChooser, ModelKinds
from services.memory.ingest.pieces import IngestError
from shared.errors import MailroomError
from shared.log import logger

if TYPE_CHECKING:
    from services.memory.engine import MemoryEngine


PROCESSED = "processed"
FAILED = "failed"

IGNORED_ENDINGS = ("~", ".part", ".tmp", ".swp", ".swx", ".bak", ".crdownload", ".download", ".partial")
"""What editors, browsers and copying programs name a file that is not the file yet."""

SETTLE = 1.0  # Seconds without a change after which a file counts as complete

EMPTY_WAIT = 30.0  # Seconds an empty file is given to be filled

MAX_DEPTH = 30  # The deepest folder that is scanned

REASON = ".reason.txt"
MAX_NAME = 200  # The longest name made here, in bytes: file systems take 255, and a number may have to fit in


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


TICK = 0.25  # Seconds between two scans while files are being written
RESCAN = 5.0  # Seconds between two scans without a change notification: not every file system sends them
STEP = 200  # Milliseconds between two looks at whether changes were told; at 20 that alone was .4 % of a core
SHARE = 10  # The pause after a scan, in multiples of its duration, for folders with thousands of files
LONGEST = 3.0  # The longest such pause, in seconds: on a busy machine a scan of few files takes seconds too
FILES_AT_ONCE = 8
"""Files on their way into memory at the same time, so that their texts are embedded together."""
ATTEMPTS = 3  # How often memory is asked to take a file before the file counts as failed
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 5.0
"""Seconds between attempts while memory does not answer: twice as long each time, up to the longest."""
COUNTS = ("files", "failed", "stored", "updated", "unchanged", "duplicates", "refused", "retired")
LAST = 20  # Files of whose parts memory's health says why they were left out: the last ones

log = logger(__name__)


class IngestFolder:
    """Imports what is put into ``path``, and moves it to ``processed`` or ``failed``.

    ``write`` hands a MemoryWrite to memory and gives its answer, ``engine`` is read from, ``model`` gives the
    kinds that rules leave unclear. Nothing is remembered here: what is known of a file is what memory holds.
    """

    def __init__(
        self,
        path: Path,
        write: Write,
        engine: "MemoryEngine",
        *,
        settle: float = SETTLE,
        model: ModelKinds | None = None,
    ) -> None:
        self._path = path
        score = engine.classifiers.score_vectors
        self._kinds = KindChooser(lambda *rows: engine.run_in_reader(score, "kinds", *rows), model)
        self._model = model
        self._client = MemoryClient(write, engine)
        self._links = NoteLinks(self._client)
        self._scanner = FolderScanner(path, settle)
        self._changed = asyncio.Event()
        self._slots = asyncio.Semaphore(FILES_AT_ONCE)
        self._processing: dict[str, asyncio.Task[None]] = {}
        self._under_way: dict[str, Progress] = {}
        self._attempts: dict[str, int] = {}
        self._unmovable: dict[str, FileState | None] = {}
        self._unfinished = 0
        self._links_due = True
        self._open_links = 0
        self._problem = ""
        self._pause = FIRST_PAUSE
        self._resume_at = 0.0
        self._counts = dict.fromkeys(COUNTS, 0)
        self._left_out: dict[str, list[str]] = {}

    async def run(self) -> None:
        """Import what is there and what arrives, until cancelled."""
        watching = asyncio.create_task(self._watch())
        try:
            while True:
                self._changed.clear()
                started = time.monotonic()
                try:
                    await self._scan()
                except (MailroomError, OSError) as error:
                    self._back_off(str(error))
                cost = time.monotonic() - started
                again = self._unfinished or self._problem
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK if again else RESCAN):
                        await self._changed.wait()
                await asyncio.sleep(min(LONGEST, max(TICK, SHARE * cost)))
        finally:
            for task in (watching, *self._processing.values()):
                task.cancel()
            await asyncio.gather(watching, *self._processing.values(), return_exceptions=True)

    def status(self) -> dict[str, Any]:
        """Counts since the start, files that wait, links that lead nowhere yet, and what is wrong, if so."""
        stuck = ", ".join(sorted(self._unmovable))
        return {
            "folder": str(self._path),
            "waiting": self._unfinished + len(self._processing),
            "open_links": self._open_links,
            "problem": self._problem or (f"cannot be moved out of the folder: {stuck}" if stuck else ""),
            "left_out": dict(self._left_out),
            "under_way": dict(self._under_way),
            **self._counts,
            **({"by_model": self._model.chosen} if self._model else {}),
        }

    async def _scan(self) -> None:
        """Start to import every file that is complete; once there is none, resolve the open links."""
        if time.monotonic() < self._resume_at:
            return
        await asyncio.to_thread(prepare_folder, self._path)
        ready, self._unfinished = await asyncio.to_thread(self._scanner.scan, set(self._processing))
        self._unmovable = {
            path: state for path, state in self._unmovable.items() if self._scanner.state(path) == state
        }
        fresh = [path for path in ready if path not in self._unmovable]
        if len(fresh) > 1:
            log.info("files_found", folder=str(self._path), files=len(fresh))
        self._links.begin(fresh)
        for path in fresh:
            self._processing[path] = asyncio.create_task(self._process(path))
        if self._links_due and not self._processing and not self._unfinished:
            self._open_links = await self._links.resolve_open()
            self._links_due = False
        if not self._processing:
            self._problem, self._pause = "", FIRST_PAUSE

    async def _process(self, path: str) -> None:
        try:
            async with self._slots:
                if time.monotonic() >= self._resume_at:
                    await self._import(path)
        except (MailroomError, OSError) as error:
            self._back_off(str(error))
        finally:
            del self._processing[path]
            self._under_way.pop(path, None)
            self._links.end(path)
            if not self._processing:
                self._changed.set()

    async def _import(self, path: str) -> None:
        """Import one file and move it away; raises MailroomError if memory does not answer."""
        started = time.monotonic()
        before = self._scanner.state(path)
        if before is None:
            return
        try:
            outcome = await self._store(path, before)
        except IngestError as error:
            await self._fail(path, str(error))
        except WriteFailed as error:
            self._attempts[path] = self._attempts.get(path, 0) + 1
            if self._attempts[path] < ATTEMPTS:
                raise
            await self._fail(path, f"memory did not take it: {error}")
        except (MailroomError, OSError):
            raise
        except Exception as error:  # whatever a file may do to a parser, it is this file's matter
            log.exception("file_not_understood", file=path)
            await self._fail(path, f"it could not be understood ({type(error).__name__}: {error})")
        else:
            # what was written to meanwhile is taken again: what is the same is then left alone
            if self._scanner.state(path) == before:
                seconds = time.monotonic() - started
                counts = {name: count for name in COUNTS if (count := getattr(outcome, name, 0))}
                for name, count in counts.items():
                    self._counts[name] += count
                log.info("file_taken_in", file=path, **counts, seconds=round(seconds, 2))
                self._left_out.pop(path, None)
                if outcome.reasons:
                    log.info("parts_left_out", file=path, reasons=outcome.reasons)
                    kept = [*self._left_out.items(), (path, outcome.reasons)]
                    self._left_out = dict(kept[-LAST:])
                self._links_due = True
                await self._move(path, "files", lambda: move_to_processed(self._path, path))

    def _back_off(self, problem: str) -> None:
        """Import nothing for a while, longer each time."""
        if problem != self._problem:
            log.warning("files_waiting", folder=str(self._path), reason=problem)
        self._problem = problem
        if time.monotonic() >= self._resume_at:
            self._resume_at = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    async def _store(self, path: str, state: FileState) -> ImportResult:
        if state.is_link:
            raise IngestError(
                "it is a symbolic link, which may lead out of the folder (put the file itself there)"
            )
        modified = state.modified_ns / 1e9
        packed = reading.find_ending(path) in reading.PACKED
        text = await reading.unpack(self._path, path) if packed else ""
        document = await asyncio.to_thread(reading.read_document, self._path, path, modified, text)
        note_id = await self._links.identify(path) if document.note else ""
        document = await self._kinds.choose(document)
        drafts = await asyncio.to_thread(draft_nodes, document, path, modified, note_id)
        progress = self._under_way[path] = Progress(of=len(drafts.drafts))
        return await FileImport(self._client, self._links, self._kinds, drafts, progress).run()

    async def _fail(self, path: str, reason: str) -> None:
        log.warning("file_not_taken_in", file=path, reason=reason)
        await self._move(path, "failed", lambda: move_to_failed(self._path, path, reason))

    async def _move(self, path: str, count: str, move: Callable[[], Path]) -> None:
        self._attempts.pop(path, None)
        try:
            await asyncio.to_thread(move)
            self._counts[count] += 1
        except FileNotFoundError:
            return  # it was moved by someone else
        except OSError as error:
            # not imported again and again: until it changes, it is left alone
            self._unmovable[path] = self._scanner.state(path)
            log.warning("file_not_moved", file=path, reason=str(error))

    async def _watch(self) -> None:
        """Wake ``run`` when something changes; without notifications it scans every RESCAN seconds."""
        from watchfiles import awatch

        while True:
            try:
                await asyncio.to_thread(prepare_folder, self._path)
                root = self._path.resolve()
                async for _ in awatch(root, watch_filter=_filter_changes(root), debounce=200, step=STEP):
                    self._changed.set()
            except OSError as error:  # no more watches to be had, or the folder is gone
                log.warning("changes_not_told", folder=str(self._path), reason=str(error))
            await asyncio.sleep(RESCAN)


def _filter_changes(root: Path) -> Callable[[object, str], bool]:
    """Passes changes of files that are to be imported."""
    return lambda _, path: not is_ignored(path.removeprefix(f"{root}/"))
