"""Jobs of the night: what a job's file says, the folder into which files are dropped, and the results there.

tonight/  jobs that people and programs drop, as <anything>.json, until they are in the timetable
archive/  results, as <job id>.json                     failed/  files that are not jobs, with a reason each
"""

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Literal

import msgspec

from shared import subjects
from shared.clock import localize
from shared.contracts import MAX_TEXT, ResultOutcome, TaskPriority, TaskResult, TaskStatus
from shared.errors import ActionError
from shared.files import write_atomically
from shared.text.display import flatten

JOB_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")  # A job's id names its files and, with a suffix, its task

PRIORITIES = {
    "critical": TaskPriority.URGENT,
    "high": TaskPriority.HIGH,
    "medium": TaskPriority.MEDIUM,
    "low": TaskPriority.LOW,
}
"""The priorities of jobs, the first taken first, and those their tasks get."""
MAX_RETRIES = 10
RETRY_DELAYS = (60.0, 3_600.0)
"""Seconds until a failed job is tried again: the first delay, and the most to which it doubles."""
MAX_JOB_BYTES = 1_000_000  # The most bytes a job file may have
MAX_NAME_BYTES = 200
"""Bytes of a refused file's name that are kept: the note beside it has a longer one, and 255 are the most."""
SETTLE = 5.0
"""Seconds without a change after which a file that is not JSON counts as broken, not as half-written."""
KEEP_DAYS = 30  # Days for which archived results and refused files are kept


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job file: ``id`` and ``task`` are required; a ``run_at`` without a time zone is in ``time_zone``.

    ``context`` may name an ``assignee``, ``action`` and ``params``, or a ``plan`` (TaskPlan), or a ``mode``.
    ``when`` is ``night``, ``now`` (neither window nor limits hold it back), or empty: at ``run_at``, and at
    night if there is none. A job that fails is tried again up to ``retries`` times (0 to 10); cortex lists
    the failed tasks in ``tried``. ``by_agent`` is True if no person said what the job is, ``asker`` is who
    wanted it, ``user`` or an agent.
    """

    id: str
    task: str
    priority: str = "medium"
    run_at: str = ""
    when: Literal["", "night", "now"] = ""
    created_at: str = ""
    context: dict[str, Any] = {}
    retries: int = 0
    tried: tuple[str, ...] = ()
    by_agent: bool = False
    asker: str = subjects.USER

    def __post_init__(self) -> None:
        if not JOB_ID.fullmatch(self.id):
            raise ValueError("id must be 1 to 80 letters, digits, '_' or '-', such as job-20260102-001")
        if not self.task.strip():
            raise ValueError("task must be a non-empty string")
        if len(self.task) > MAX_TEXT:
            raise ValueError(f"task has {len(self.task):,} characters; the limit is {MAX_TEXT:,}")
        if self.priority.lower() not in PRIORITIES:
            raise ValueError(f"priority must be one of {', '.join(PRIORITIES)}, not {self.priority[:40]!r}")
        if not 0 <= self.retries <= MAX_RETRIES:
            raise ValueError(f"retries must be between 0 and {MAX_RETRIES}, not {self.retries}")
        for field in ("run_at", "created_at"):
            if value := getattr(self, field):
                try:
                    _moment(value)
                except (ValueError, OverflowError, OSError):
                    raise ValueError(
                        f"{field} must be an ISO 8601 date and time, not {value[:40]!r}"
                    ) from None

    @property
    def task_priority(self) -> TaskPriority:
        """The priority of the job's task."""
        return PRIORITIES[self.priority.lower()]

    @property
    def waits_for_night(self) -> bool:
        """Whether the job begins at night only."""
        return self.when == "night" or not (self.when or self.run_at)

    def begins_at(self, zone: tzinfo | None) -> datetime | None:
        """The time before which it does not begin, in UTC; None if it names none."""
        return _moment(self.run_at, zone) if self.run_at else None

    def rank(self, zone: tzinfo | None) -> tuple[int, float, float, str]:
        """What jobs are sorted by: priority, run_at (none first), created_at, id."""
        run_at = _moment(self.run_at, zone).timestamp() if self.run_at else 0.0
        created_at = _moment(self.created_at, zone).timestamp() if self.created_at else 0.0
        return (list(PRIORITIES).index(self.priority.lower()), run_at, created_at, self.id)


def schedule_retry(job: Job, task_id: str, now: datetime) -> Job | None:
    """``job`` as it waits to be tried again after its task failed; None if it is not tried again."""
    if len(job.tried) >= job.retries:
        return None
    first, longest = RETRY_DELAYS
    delay = min(longest, first * 2 ** len(job.tried))
    run_at = (now + timedelta(seconds=delay)).isoformat()
    when = "night" if job.waits_for_night else job.when
    return msgspec.structs.replace(job, tried=(*job.tried, task_id), run_at=run_at, when=when)


class _HalfWritten(Exception):
    """A file that may still be being written."""


def job_of(values: dict[str, Any]) -> Job:
    """The job in ``values``; raises ActionError with the reason if there is none."""
    try:
        return msgspec.convert(values, Job)
    except msgspec.ValidationError as error:
        raise ActionError(f"This is not a job: {error}", "A job has an id and a task") from None


class DroppedJob(msgspec.Struct, frozen=True):
    """A job whose file was dropped, and the digest of the file: another for each that is dropped."""

    path: Path
    job: Job
    digest: str


class JobFolder:
    """The folder of the queue; any number of processes may share it."""

    def __init__(self, folder: Path) -> None:
        self.tonight, self.archive, self.failed = folder / "tonight", folder / "archive", folder / "failed"

    def make(self) -> None:
        """Make the folders that are missing; raises OSError."""
        for folder in (self.tonight, self.archive, self.failed):
            folder.mkdir(parents=True, exist_ok=True)

    def scan(self, most: int) -> tuple[list[DroppedJob], int]:
        """The jobs that were dropped, the oldest ``most``, and how many files may still be being written.

        Files that are not jobs are moved to failed/.
        """
        self.make()
        found, unsettled = [], 0
        for path, _ in sorted(_json_files(self.tonight), key=lambda each: each[1].st_mtime_ns)[:most]:
            try:
                found.append(_read(path))
            except _HalfWritten:
                unsettled += 1
            except ValueError as error:
                self.refuse(path, str(error))
            except FileNotFoundError:
                continue
        return found, unsettled

    def remove(self, dropped: DroppedJob) -> None:
        """Delete the file of a job that is in the timetable, unless another was put in its place."""
        with suppress(FileNotFoundError, ValueError, _HalfWritten):
            if _read(dropped.path).digest == dropped.digest:
                dropped.path.unlink()

    def refuse(self, path: Path, reason: str) -> None:
        """Move a file that is no job to failed/, under a name of its own, and write down the reason."""
        stem = os.fsdecode(os.fsencode(path.stem)[:MAX_NAME_BYTES])
        target = self.failed / f"{stem}{path.suffix}"
        for number in range(1, 1_000):
            if not os.path.lexists(target):
                break
            target = self.failed / f"{stem}-{number}{path.suffix}"
        # The reason first: after a crash in between the file is found again.
        note = target.with_name(f"{target.name}.reason")
        write_atomically(note, f"{path.name}: {reason}\n".encode(errors="replace"))
        try:
            path.rename(target)
        except FileNotFoundError:  # another process was quicker
            if not os.path.lexists(target):
                note.unlink(missing_ok=True)

    def reasons(self) -> list[str]:
        """Why files were refused, the latest first."""
        notes = sorted(self.failed.glob("*.reason"), key=lambda note: -note.stat().st_mtime)
        return [note.read_text().strip() for note in notes]

    def store_result(self, job: Job, result: TaskResult) -> Path:
        """Archive the result of a job, and return its path; safe to repeat after a crash."""
        path = self.archive / f"{job.id}.json"
        if path.exists():
            try:
                known = TaskResult.from_json(path.read_bytes()).task_id
            except (ValueError, OSError):
                known = ""
            if known != result.task_id:
                path = self.archive / f"{result.task_id}.json"
        result = msgspec.structs.replace(
            result, metadata={**result.metadata, "job": msgspec.to_builtins(job)}
        )
        write_atomically(path, msgspec.json.format(result.to_json(), indent=2))
        return path

    def is_archived(self, job_id: str) -> bool:
        """Whether a result of a job of that id is kept."""
        return (self.archive / f"{job_id}.json").exists()

    def undone(self, most: int) -> tuple[int, list[str]]:
        """How many archived jobs are not done, and why of the latest ``most``: ``failed: JOB: reason``."""
        lines = []
        for path, _ in sorted(_json_files(self.archive), key=lambda each: each[1].st_mtime, reverse=True):
            try:
                result = TaskResult.from_json(path.read_bytes())
            except (ValueError, OSError):
                continue
            if result.status is not TaskStatus.COMPLETED or result.outcome is ResultOutcome.NOT_CHECKED:
                unsure = result.status is TaskStatus.COMPLETED
                why = flatten(result.error_message or result.output, 300)
                lines.append(f"{'not checked' if unsure else result.status}: {path.stem}: {why}")
        return len(lines), lines[:most]

    def count(self) -> dict[str, int]:
        """The number of files in archive/ and failed/."""
        return {each.name: sum(1 for _ in _json_files(each)) for each in (self.archive, self.failed)}

    def prune(self, now: float | None = None) -> int:
        """Delete results and refused files older than KEEP_DAYS, but no folders; returns how many."""
        limit = (now or time.time()) - KEEP_DAYS * 86_400
        old = [path for path, written in _json_files(self.archive) if written.st_mtime < limit]
        for path in old:
            path.unlink(missing_ok=True)
        notes = [note for note in self.failed.glob("*.reason") if note.stat().st_mtime < limit]
        for note in notes:
            path = note.with_suffix("")
            if path.is_symlink() or not path.is_dir():
                path.unlink(missing_ok=True)
            note.unlink(missing_ok=True)
        return len(old) + len(notes)


def _json_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The files <name>.json in ``folder`` without hidden ones; none if there is no folder."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.lower().endswith(".json") and not entry.name.startswith("."):
                with suppress(FileNotFoundError):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)


def _read(path: Path) -> DroppedJob:
    """The job in a file; raises ValueError with the reason for anything else under its name."""
    try:
        # Without NONBLOCK a pipe dropped here would stop the queue.
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        link = "it is a link, not a file"
        raise ValueError(link if path.is_symlink() else f"it cannot be read: {error.strerror}") from None
    try:
        written = os.fstat(number)
        if not stat.S_ISREG(written.st_mode):
            raise ValueError("it is not a regular file")
        if written.st_uid not in (0, os.geteuid(), path.parent.stat().st_uid):
            raise ValueError(f"it belongs to another user of this machine (uid {written.st_uid})")
        if written.st_size > MAX_JOB_BYTES:
            raise ValueError(f"it has {written.st_size:,} bytes; the limit is {MAX_JOB_BYTES:,}")
        text = os.read(number, MAX_JOB_BYTES)
    finally:
        os.close(number)
    try:
        job = msgspec.json.decode(text, type=Job)
    except msgspec.ValidationError as error:
        raise ValueError(f"it is not a job: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if abs(time.time() - written.st_mtime) < SETTLE:
            raise _HalfWritten from None
        raise ValueError(f"it is not valid JSON: {error}") from None
    if not job.created_at:
        moment = datetime.fromtimestamp(written.st_mtime, UTC).isoformat()
        job = msgspec.structs.replace(job, created_at=moment)
    digest = hashlib.sha256(text + str(written.st_mtime_ns).encode()).hexdigest()[:12]
    return DroppedJob(path, job, digest)


def _moment(timestamp: str, zone: tzinfo | None = None) -> datetime:
    moment = datetime.fromisoformat(timestamp)
    return (moment if moment.tzinfo else localize(moment, zone)).astimezone(UTC)
