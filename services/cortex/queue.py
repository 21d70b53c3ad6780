"""The overnight queue: job files in folders, moved from one to the next by atomic renames.

tonight/  jobs that people drop, as <anything>.json     claimed/  jobs being worked on, as <task id>.json
archive/  results, as <job id>.json                     failed/   what was no job, with a .reason file each
"""

import os
import time
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import msgspec

from services.cortex.files import json_files, read_bytes, write_whole
from services.cortex.night import BrokenJson, Job, name_task, parse_job
from services.cortex.refused import Refused
from shared.contracts import TaskResult
from shared.errors import ActionError

MOST_ACTIVE = 1_000
"""The most jobs, waiting and claimed, that are looked at; later files wait unread until there is room."""

SETTLE = 5.0
"""Seconds without a change after which a file that is no JSON is taken for broken, not for half-written."""

KEEP_DAYS = 30
"""Days an archived result is kept, and what was no job."""


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
    """The queue in ``folder``; any number of processes may share it.

    ``zone`` is the office's, None this machine's.
    """

    def __init__(self, folder: Path, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self.tonight, self.claimed = folder / "tonight", folder / "claimed"
        self.archive, self.failed = folder / "archive", folder / "failed"
        self.refused = Refused(self.failed)
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
            if len(taken) < count and entry.job.is_due(now or datetime.now(UTC), self._zone):
                taken += self._claim(entry)
        # A folder's time may stand still for some milliseconds: one changed just now is looked at again.
        fresh = time.time_ns() - changed < 2_000_000_000
        self._idle_since = 0 if fresh or unsettled or len(waiting) > len(taken) else changed
        return taken

    def find(self, job_id: str) -> ClaimedJob | None:
        """The job of that id, claimed now if it waited; None where none is active."""
        for waiting in self.scan()[0]:
            if waiting.job.id == job_id:
                return next(iter(self._claim(waiting)), None)
        return next((claimed for claimed in self.find_claimed() if claimed.job.id == job_id), None)

    def scan(self) -> tuple[list[WaitingJob], int]:
        """The jobs that wait, in the order they are taken, and how many files may still be being written.

        What is no job is moved to failed/. Beyond MOST_ACTIVE jobs the oldest files are read.
        """
        room = max(0, MOST_ACTIVE - sum(1 for _ in json_files(self.claimed)))
        waiting, unsettled, known = [], 0, {}
        for path, written in sorted(json_files(self.tonight), key=lambda found: found[1].st_mtime_ns)[:room]:
            mark = (written.st_mtime_ns, written.st_size)
            try:
                cached = self._known.get(path)
                entry = cached[1] if cached and cached[0] == mark else _read(path)
            except _HalfWritten:
                unsettled += 1
            except ValueError as error:
                self.refused.put(path, str(error))
            except FileNotFoundError:
                continue
            else:
                known[path] = (mark, entry)
                waiting.append(entry)
        self._known = known
        waiting.sort(key=lambda entry: (entry.job.rank(entry.written_at, self._zone), entry.path))
        return waiting, unsettled

    def find_claimed(self) -> list[ClaimedJob]:
        """The jobs being worked on, those of processes that died among them."""
        found = []
        for path, _ in json_files(self.claimed):
            try:
                found.append(ClaimedJob(path, parse_job(read_bytes(path)[0]), path.stem))
            except FileNotFoundError:
                continue
            except ValueError as error:
                self.refused.put(path, str(error))
        return found

    def find_job(self, task_id: str) -> Job | None:
        """The claimed job whose task that is; None where there is none."""
        try:
            return parse_job(read_bytes(self.claimed / f"{task_id}.json")[0])
        except (FileNotFoundError, ValueError):
            return None

    def put_back(self, job: Job, task_id: str) -> None:
        """Let a claimed job wait again, as ``job`` now says; safe to repeat after a crash."""
        claim = self.claimed / f"{task_id}.json"
        # Its content first, then its place: whoever finds it in between knows that this task was tried.
        write_whole(claim, msgspec.json.encode(job))
        claim.rename(self.tonight / claim.name)

    def store_result(self, result: TaskResult) -> Path | None:
        """Archive the result of a claimed job; None where no claimed job is its task.

        Safe to repeat: found claimed again after a crash, the same result is archived once. The claim is
        ended by ``end_claim``.
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
        write_whole(path, msgspec.json.format(result.to_json(), indent=2))
        return path

    def end_claim(self, task_id: str) -> None:
        """Forget a claimed job: its result is archived."""
        (self.claimed / f"{task_id}.json").unlink(missing_ok=True)

    def drop(self, job: Job, day: str) -> Job:
        """Put ``job`` into the queue under the next free id of ``day`` (YYYYMMDD): job-YYYYMMDD-NNN.

        Raises ActionError where 1,000 jobs are active, or the day's 999 ids are used.
        """
        self.make_folders()
        active = sum(1 for folder in (self.tonight, self.claimed) for _ in json_files(folder))
        if active >= MOST_ACTIVE:
            raise ActionError(f"The queue is full: {active:,} jobs are active", "Wait until some are done")
        for number in range(1, 1_000):
            named = msgspec.structs.replace(job, id=f"job-{day}-{number:03}")
            if not self._is_known(named.id) and self._place(named):
                return named
        raise ActionError(f"There are 999 jobs of {day} already", "Drop a file with an id of your own")

    def _is_known(self, job_id: str) -> bool:
        folders = (self.tonight, self.archive, self.failed)
        return any((folder / f"{job_id}.json").exists() for folder in folders) or self._is_used(job_id)

    def _place(self, job: Job) -> bool:
        """Write the job's file unless somebody was quicker with its name."""
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
        """Delete results and what was no job, older than KEEP_DAYS; returns how many. Folders are left."""
        limit = (now or time.time()) - KEEP_DAYS * 86_400
        old = [path for path, written in json_files(self.archive) if written.st_mtime < limit]
        for path in old:
            path.unlink(missing_ok=True)
        return len(old) + self.refused.prune(limit)

    def count(self) -> dict[str, int]:
        """How many files lie in each folder."""
        folders = (self.tonight, self.claimed, self.archive, self.failed)
        return {folder.name: sum(1 for _ in json_files(folder)) for folder in folders}

    def _claim(self, entry: WaitingJob) -> list[ClaimedJob]:
        if self._is_used(entry.job.id):
            self.refused.put(
                entry.path, f"a job with the id {entry.job.id!r} is running or in the archive already"
            )
            return []
        claim = self.claimed / f"{entry.task_id}.json"
        try:
            entry.path.rename(claim)
        except FileNotFoundError:
            return []  # another process was quicker
        try:
            return [ClaimedJob(claim, parse_job(read_bytes(claim)[0]), entry.task_id)]
        except (ValueError, FileNotFoundError) as error:
            self.refused.put(claim, f"it changed while it was taken: {error}")
            return []

    def _is_used(self, job_id: str) -> bool:
        if (self.archive / f"{job_id}.json").exists():
            return True
        return any(claimed.job.id == job_id for claimed in self.find_claimed())


def _read(path: Path) -> WaitingJob:
    text, written = read_bytes(path)
    try:
        job = parse_job(text)
    except BrokenJson:
        if abs(time.time() - written.st_mtime) < SETTLE:
            raise _HalfWritten from None
        raise
    return WaitingJob(path, job, name_task(job, text, written.st_mtime_ns), written.st_mtime)


def _task_id_in(path: Path) -> str:
    try:
        return TaskResult.from_json(path.read_bytes()).task_id
    except (ValueError, OSError):
        return ""
