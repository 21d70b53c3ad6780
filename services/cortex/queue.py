"""The overnight queue: job files in folders, moved from one to the next by atomic renames.

tonight/  jobs that people drop, as <anything>.json     claimed/  jobs being worked on, as <task id>.json
archive/  results, as <job id>.json                     failed/   what was no job, with a .reason file each
"""

import os
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from services.cortex.night import BrokenJson, Job, name_task, parse_job
from shared.contracts import TaskResult

MOST_ACTIVE = 1_000
"""The most jobs, waiting and claimed, that are looked at; later files wait unread until there is room."""

LARGEST = 1_000_000
"""The most bytes a job file may have."""

SETTLE = 5.0
"""Seconds without a change after which a file that is no JSON is taken for broken, not for half-written."""

KEEP_DAYS = 30
"""Days an archived result is kept."""


class WaitingJob(msgspec.Struct, frozen=True):
    """A job in tonight/ and the id its task will have."""

    path: Path
    job: Job
    task_id: str
    written_at: float


class ClaimedJob(msgspec.Struct, frozen=True):
    """A job in claimed/ and the id of its task."""

    path: Path
    job: Job
    task_id: str


class _HalfWritten(Exception):
    """A file that somebody may still be writing."""


class JobQueue:
    """The queue in ``folder``; any number of processes may share it."""

    def __init__(self, folder: Path) -> None:
        self.tonight, self.claimed = folder / "tonight", folder / "claimed"
        self.archive, self.failed = folder / "archive", folder / "failed"
        self._idle_since = 0
        self._known: dict[Path, tuple[tuple[int, int], WaitingJob]] = {}

    def make_folders(self) -> None:
        """Make the folders that are missing; raises OSError."""
        for folder in (self.tonight, self.claimed, self.archive, self.failed):
            folder.mkdir(parents=True, exist_ok=True)

    def take(self, count: int, now: datetime | None = None) -> list[ClaimedJob]:
        """Claim up to ``count`` due jobs in their order; what is no job goes to failed/.

        Cheap while nothing waits and tonight/ does not change: one look at the folder's time.
        """
        self.make_folders()
        changed = self.tonight.stat().st_mtime_ns
        if changed == self._idle_since:
            return []
        waiting, unsettled = self.scan()
        taken: list[ClaimedJob] = []
        for entry in waiting:
            if len(taken) < count and entry.job.is_due(now or datetime.now(UTC)):
                taken += self._claim(entry)
        # A folder's time may stand still for some milliseconds: one changed just now is looked at again.
        fresh = time.time_ns() - changed < 2_000_000_000
        self._idle_since = 0 if fresh or unsettled or len(waiting) > len(taken) else changed
        return taken

    def scan(self) -> tuple[list[WaitingJob], int]:
        """The jobs that wait, in the order they are taken, and how many files may still be being written.

        What is no job is moved to failed/. Beyond MOST_ACTIVE jobs the oldest files are read.
        """
        room = max(0, MOST_ACTIVE - sum(1 for _ in _json_files(self.claimed)))
        waiting, unsettled, known = [], 0, {}
        for path, written in sorted(_json_files(self.tonight), key=lambda found: found[1].st_mtime_ns)[:room]:
            mark = (written.st_mtime_ns, written.st_size)
            try:
                cached = self._known.get(path)
                entry = cached[1] if cached and cached[0] == mark else _read(path)
            except _HalfWritten:
                unsettled += 1
            except ValueError as error:
                self._fail(path, str(error))
            except FileNotFoundError:
                continue
            else:
                known[path] = (mark, entry)
                waiting.append(entry)
        self._known = known
        return sorted(waiting, key=lambda entry: entry.job.rank(entry.written_at)), unsettled

    def find_claimed(self) -> list[ClaimedJob]:
        """The jobs being worked on, those of processes that died among them."""
        found = []
        for path, _ in _json_files(self.claimed):
            try:
                found.append(ClaimedJob(path, parse_job(_read_bytes(path)[0]), path.stem))
            except FileNotFoundError:
                continue
            except ValueError as error:
                self._fail(path, str(error))
        return found

    def store_result(self, result: TaskResult) -> Path | None:
        """Archive the result of a claimed job and end its claim; None where no claimed job is its task.

        Safe to repeat: found claimed again after a crash, the same result is archived once.
        """
        claim = self.claimed / f"{result.task_id}.json"
        try:
            job = parse_job(_read_bytes(claim)[0])
        except (FileNotFoundError, ValueError):
            return None
        path = self.archive / f"{job.id}.json"
        if path.exists() and _task_id_in(path) != result.task_id:
            path = self.archive / f"{result.task_id}.json"
        result = msgspec.structs.replace(
            result, metadata={**result.metadata, "job": msgspec.to_builtins(job)}
        )
        _write(path, msgspec.json.format(result.to_json(), indent=2))
        claim.unlink(missing_ok=True)
        return path

    def prune_archive(self, now: float | None = None) -> int:
        """Delete results older than KEEP_DAYS; returns how many."""
        limit = (now or time.time()) - KEEP_DAYS * 86_400
        old = [path for path, written in _json_files(self.archive) if written.st_mtime < limit]
        for path in old:
            path.unlink(missing_ok=True)
        return len(old)

    def count(self) -> dict[str, int]:
        """How many files lie in each folder."""
        folders = {
            "tonight": self.tonight,
            "claimed": self.claimed,
            "archive": self.archive,
            "failed": self.failed,
        }
        return {name: sum(1 for _ in _json_files(folder)) for name, folder in folders.items()}

    def _claim(self, entry: WaitingJob) -> list[ClaimedJob]:
        if self._is_used(entry.job.id):
            self._fail(entry.path, f"a job with the id {entry.job.id!r} is running or in the archive already")
            return []
        claim = self.claimed / f"{entry.task_id}.json"
        try:
            entry.path.rename(claim)
        except FileNotFoundError:
            return []  # another process was quicker
        try:
            return [ClaimedJob(claim, parse_job(_read_bytes(claim)[0]), entry.task_id)]
        except (ValueError, FileNotFoundError) as error:
            self._fail(claim, f"it changed while it was taken: {error}")
            return []

    def _is_used(self, job_id: str) -> bool:
        if (self.archive / f"{job_id}.json").exists():
            return True
        return any(claimed.job.id == job_id for claimed in self.find_claimed())

    def _fail(self, path: Path, reason: str) -> None:
        target = self.failed / path.name
        for count in range(1, 1_000):
            if not os.path.lexists(target):
                break
            target = self.failed / f"{path.stem}-{count}{path.suffix}"
        # The reason first: a crash in between leaves the file where it is found again.
        note = target.with_name(f"{target.name}.reason")
        _write(note, f"{path.name}: {reason}\n".encode())
        try:
            path.rename(target)
        except FileNotFoundError:  # another process was quicker
            if not os.path.lexists(target):
                note.unlink(missing_ok=True)


def _json_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".json") and not entry.name.startswith("."):
                with suppress(FileNotFoundError):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)


def _read(path: Path) -> WaitingJob:
    text, written = _read_bytes(path)
    try:
        job = parse_job(text)
    except BrokenJson:
        if abs(time.time() - written.st_mtime) < SETTLE:
            raise _HalfWritten from None
        raise
    return WaitingJob(path, job, name_task(job, text, written.st_mtime_ns), written.st_mtime)


def _read_bytes(path: Path) -> tuple[bytes, os.stat_result]:
    """The content of a regular file; raises ValueError for anything else that stands under its name."""
    with ExitStack() as stack:
        try:
            # Without NONBLOCK a pipe dropped here would stop the queue.
            number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            raise
        except OSError as error:
            reason = (
                "it is a link, not a file" if path.is_symlink() else f"it cannot be read: {error.strerror}"
            )
            raise ValueError(reason) from None
        stack.callback(os.close, number)
        written = os.fstat(number)
        if not stat.S_ISREG(written.st_mode):
            raise ValueError("it is not a regular file")
        if written.st_size > LARGEST:
            raise ValueError(f"it has {written.st_size:,} bytes; the limit is {LARGEST:,}")
        return os.read(number, LARGEST), written


def _write(path: Path, content: bytes) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _task_id_in(path: Path) -> str:
    try:
        return TaskResult.from_json(path.read_bytes()).task_id
    except (ValueError, OSError):
        return ""
