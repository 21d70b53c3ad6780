"""The overnight queue: job files in folders, moved from one to the next by atomic renames.

tonight/  jobs that people drop, as <anything>.json     claimed/  jobs being worked on, as <task id>.json
archive/  results, as <job id>.json                     failed/   files that are not jobs, with a reason each
"""

import os
import time
from collections.abc import Callable
from datetime import datetime, tzinfo
from pathlib import Path

import msgspec

from services.cortex.jobs import (
    BrokenJson,
    Job,
    RefusedFiles,
    json_files,
    parse_job,
    read_bytes,
    task_id_for,
)
from shared.clock import utc_now
from shared.contracts import ResultOutcome, TaskResult, TaskStatus
from shared.errors import ActionError
from shared.files import write_atomically
from shared.text.display import flatten

MAX_ACTIVE = 1_000
"""The most jobs, waiting and claimed, that are read; later files are left until there are fewer."""
SETTLE = 5.0
"""Seconds without a change after which a file that is not JSON counts as broken, not as half-written."""
KEEP_DAYS = 30  # Days for which archived results and refused files are kept


class QueuedJob(msgspec.Struct, frozen=True):
    """A job that waits or is claimed, and the id of its task."""

    path: Path
    job: Job
    task_id: str
    written_at: float = 0.0


class _HalfWritten(Exception):
    """A file that may still be being written."""


class JobQueue:
    """The queue in ``folder``; any number of processes may share it.

    ``zone`` is the time zone of times without one; None is this machine's.
    """

    def __init__(self, folder: Path, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self.tonight, self.claimed = folder / "tonight", folder / "claimed"
        self.archive, self.failed = folder / "archive", folder / "failed"
        self._folders = (self.tonight, self.claimed, self.archive, self.failed)
        self.refused = RefusedFiles(self.failed)
        self._idle_since = 0
        self._known: dict[Path, tuple[tuple[int, int], QueuedJob]] = {}

    def make_folders(self) -> None:
        """Make the folders that are missing; raises OSError."""
        for folder in self._folders:
            folder.mkdir(parents=True, exist_ok=True)

    def take(
        self, count: int, now: datetime | None = None, held: Callable[[Job], object] = lambda _: False
    ) -> list[QueuedJob]:
        """Claim up to ``count`` due jobs in their order; files that are not jobs are moved to failed/.

        Those for which ``held`` is true wait on. Reads only the folder's time while nothing waits and
        tonight/ does not change.
        """
        self.make_folders()
        changed = self.tonight.stat().st_mtime_ns
        if changed == self._idle_since:
            return []
        waiting, unsettled = self.scan()
        taken: list[QueuedJob] = []
        for entry in waiting:
            due = len(taken) < count and entry.job.is_due(now or utc_now(), self._zone)
            if due and not held(entry.job):
                taken += self._claim(entry)
        # A folder's time is only accurate to some milliseconds: one changed just now is read again.
        fresh = time.time_ns() - changed < 2_000_000_000
        self._idle_since = 0 if fresh or unsettled or len(waiting) > len(taken) else changed
        return taken

    def find(self, job_id: str) -> QueuedJob | None:
        """The job of that id, claimed now if it was waiting; None if none is active."""
        for waiting in self.scan()[0]:
            if waiting.job.id == job_id:
                return next(iter(self._claim(waiting)), None)
        return next((claimed for claimed in self.find_claimed() if claimed.job.id == job_id), None)

    def change(self, entry: QueuedJob, job: Job) -> None:
        """Write ``job`` in place of the one that waits as ``entry``.

        If another process claims that one meanwhile, this one is refused at the next scan: its id is in use.
        """
        write_atomically(entry.path, msgspec.json.format(msgspec.json.encode(job), indent=2))

    def scan(self) -> tuple[list[QueuedJob], int]:
        """The waiting jobs in the order they are taken, and how many files may still be being written.

        Files that are not jobs are moved to failed/. Only the oldest MAX_ACTIVE files are read.
        """
        free = max(0, MAX_ACTIVE - sum(1 for _ in json_files(self.claimed)))
        waiting, unsettled, known = [], 0, {}
        for path, written in sorted(json_files(self.tonight), key=lambda found: found[1].st_mtime_ns)[:free]:
            mark = (written.st_mtime_ns, written.st_size)
            try:
                cached = self._known.get(path)
                entry = cached[1] if cached and cached[0] == mark else _read(path)
            except _HalfWritten:
                unsettled += 1
            except ValueError as error:
                self.refused.add(path, str(error))
            except FileNotFoundError:
                continue
            else:
                known[path] = (mark, entry)
                waiting.append(entry)
        self._known = known
        waiting.sort(key=lambda entry: (entry.job.rank(entry.written_at, self._zone), entry.path))
        return waiting, unsettled

    def find_claimed(self) -> list[QueuedJob]:
        """The claimed jobs, including those of processes that died."""
        found = []
        for path, _ in json_files(self.claimed):
            try:
                found.append(_read_claimed(path))
            except FileNotFoundError:
                continue
            except ValueError as error:
                self.refused.add(path, str(error))
        return found

    def find_job(self, task_id: str) -> Job | None:
        """The claimed job with that task; None if there is none."""
        try:
            return _read_claimed(self.claimed / f"{task_id}.json").job
        except (FileNotFoundError, ValueError):
            return None

    def put_back(self, job: Job, task_id: str) -> None:
        """Move a claimed job back to tonight/ with the content ``job``; safe to repeat after a crash."""
        claim = self.claimed / f"{task_id}.json"
        # The content first, then the move: a reader in between sees that this task was tried.
        write_atomically(claim, msgspec.json.encode(job))
        claim.rename(self.tonight / claim.name)

    def store_result(self, result: TaskResult) -> Path | None:
        """Archive the result of a claimed job, and return its path; None if no claimed job has that task.

        Safe to repeat after a crash: the same result is archived once. ``end_claim`` ends the claim.
        """
        job = self.find_job(result.task_id)
        if job is None:
            return None
        path = self.archive / f"{job.id}.json"
        if path.exists() and _task_id_in(path) != result.task_id:
            path = self.archive / f"{result.task_id}.json"
        result = msgspec.structs.replace(
            result, metadata={**result.metadata, "job": msgspec.to_builtins(job)}
        )
        write_atomically(path, msgspec.json.format(result.to_json(), indent=2))
        return path

    def end_claim(self, task_id: str) -> None:
        """Delete the file of a claimed job, whose result is archived."""
        (self.claimed / f"{task_id}.json").unlink(missing_ok=True)

    def drop(self, job: Job, day: str) -> Job:
        """Put ``job`` into the queue under the next free id of ``day`` (YYYYMMDD): job-YYYYMMDD-NNN.

        Raises ActionError if 1,000 jobs are active, or the day's 999 ids are used.
        """
        self.make_folders()
        active = sum(1 for folder in (self.tonight, self.claimed) for _ in json_files(folder))
        if active >= MAX_ACTIVE:
            raise ActionError(f"The queue is full: {active:,} jobs are active", "Wait until some are done")
        for number in range(1, 1_000):
            named = msgspec.structs.replace(job, id=f"job-{day}-{number:03}")
            files = [folder / f"{named.id}.json" for folder in (self.tonight, self.failed)]
            if (
                not any(path.exists() for path in files)
                and not self._is_used(named.id)
                and self._place(named)
            ):
                return named
        raise ActionError(f"There are 999 jobs of {day} already", "Drop a file with an id of your own")

    def _place(self, job: Job) -> bool:
        """Write the job's file; False if another process has used its name meanwhile."""
        target = self.tonight / f"{job.id}.json"
        draft = target.with_name(f".{job.id}.{os.getpid()}")
        try:
            draft.write_bytes(msgspec.json.format(msgspec.json.encode(job), indent=2))
            os.link(draft, target)
        except FileExistsError:
            return False
        finally:
            draft.unlink(missing_ok=True)
        return True

    def prune(self, now: float | None = None) -> int:
        """Delete results and refused files older than KEEP_DAYS, but no folders; returns how many."""
        limit = (now or time.time()) - KEEP_DAYS * 86_400
        old = [path for path, written in json_files(self.archive) if written.st_mtime < limit]
        for path in old:
            path.unlink(missing_ok=True)
        return len(old) + self.refused.prune(limit)

    def count(self) -> dict[str, int]:
        """The number of files in each folder."""
        return {folder.name: sum(1 for _ in json_files(folder)) for folder in self._folders}

    def undone(self, most: int) -> tuple[int, list[str]]:
        """How many archived jobs are not done, and why of the latest ``most``: ``failed: JOB: reason``."""
        lines = []
        for path, _ in sorted(json_files(self.archive), key=lambda each: each[1].st_mtime, reverse=True):
            try:
                result = TaskResult.from_json(path.read_bytes())
            except (ValueError, OSError):
                continue
            if result.status is not TaskStatus.COMPLETED or result.outcome is ResultOutcome.NOT_CHECKED:
                unsure = result.status is TaskStatus.COMPLETED
                why = flatten(result.error_message or result.output, 300)
                lines.append(f"{'not checked' if unsure else result.status}: {path.stem}: {why}")
        return len(lines), lines[:most]

    def _claim(self, entry: QueuedJob) -> list[QueuedJob]:
        if self._is_used(entry.job.id):
            self.refused.add(
                entry.path, f"a job with the id {entry.job.id!r} is running or in the archive already"
            )
            return []
        claim = self.claimed / f"{entry.task_id}.json"
        try:
            entry.path.rename(claim)
        except FileNotFoundError:
            return []  # another process was quicker
        try:
            return [_read_claimed(claim)]
        except (ValueError, FileNotFoundError) as error:
            self.refused.add(claim, f"it changed while it was taken: {error}")
            return []

    def _is_used(self, job_id: str) -> bool:
        if (self.archive / f"{job_id}.json").exists():
            return True
        return any(claimed.job.id == job_id for claimed in self.find_claimed())


def _read_claimed(path: Path) -> QueuedJob:
    return QueuedJob(path, parse_job(read_bytes(path)[0]), path.stem)


def _read(path: Path) -> QueuedJob:
    text, written = read_bytes(path)
    try:
        job = parse_job(text)
    except BrokenJson:
        if abs(time.time() - written.st_mtime) < SETTLE:
            raise _HalfWritten from None
        raise
    return QueuedJob(path, job, task_id_for(job, text, written.st_mtime_ns), written.st_mtime)


def _task_id_in(path: Path) -> str:
    try:
        return TaskResult.from_json(path.read_bytes()).task_id
    except (ValueError, OSError):
        return ""
