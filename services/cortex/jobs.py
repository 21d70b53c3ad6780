"""Overnight jobs: what a job file says, how its file is read and written, and files that are refused."""

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Literal

import msgspec

from shared import subjects
from shared.clock import localize
from shared.contracts import MAX_TEXT, TaskPriority
from shared.errors import ActionError
from shared.files import write_atomically

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


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job file: ``id`` and ``task`` are required; a ``run_at`` without a time zone is in ``time_zone``.

    ``context`` may name an ``assignee``, ``action`` and ``params``, or a ``plan`` (TaskPlan), or a ``mode``.
    ``when`` is ``night``, ``now`` (neither window nor limits hold it back), or empty: at ``run_at``, and at
    night if there is none. A job that fails is tried again up to ``retries`` times (0 to 10); the queue lists
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

    def is_due(self, now: datetime, zone: tzinfo | None) -> bool:
        """Whether its own time, if it names one, has come at ``now``."""
        return not self.run_at or _moment(self.run_at, zone) <= now

    def rank(self, written_at: float, zone: tzinfo | None) -> tuple[int, float, float, str]:
        """What jobs are sorted by: priority, run_at (none first), created_at (else ``written_at``), id."""
        run_at = _moment(self.run_at, zone).timestamp() if self.run_at else 0.0
        created_at = _moment(self.created_at, zone).timestamp() if self.created_at else written_at
        return (list(PRIORITIES).index(self.priority.lower()), run_at, created_at, self.id)


def schedule_retry(job: Job, task_id: str, now: datetime) -> Job | None:
    """``job`` as it waits to be tried again after its task failed; None if it is not tried again."""
    if task_id in job.tried:
        return job
    if len(job.tried) >= job.retries:
        return None
    first, longest = RETRY_DELAYS
    delay = min(longest, first * 2 ** len(job.tried))
    run_at = (now + timedelta(seconds=delay)).isoformat()
    when = "night" if job.waits_for_night else job.when
    return msgspec.structs.replace(job, tried=(*job.tried, task_id), run_at=run_at, when=when)


class BrokenJson(ValueError):
    """A text that is not JSON: damaged, or not completely written yet."""


def parse_job(text: bytes) -> Job:
    """The job in a file's text; raises BrokenJson, or another ValueError with the reason."""
    try:
        return msgspec.json.decode(text, type=Job)
    except msgspec.ValidationError as error:
        raise ValueError(f"it is not a job: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenJson(f"it is not valid JSON: {error}") from None


def job_of(values: dict[str, Any]) -> Job:
    """The job in ``values``; raises ActionError with the reason if there is none."""
    try:
        return msgspec.convert(values, Job)
    except msgspec.ValidationError as error:
        raise ActionError(f"This is not a job: {error}", "A job has an id and a task") from None


def task_id_for(job: Job, text: bytes, written_ns: int) -> str:
    """The id of the task for a job file: the same in every process, another for each file that is dropped."""
    digest = hashlib.sha256(text + str(written_ns).encode()).hexdigest()
    return f"{job.id}-{digest[:12]}"


def json_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """The files <name>.json in ``folder`` without hidden ones; none if there is no folder."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.lower().endswith(".json") and not entry.name.startswith("."):
                with suppress(FileNotFoundError):
                    yield Path(entry.path), entry.stat(follow_symlinks=False)


def read_bytes(path: Path) -> tuple[bytes, os.stat_result]:
    """The content of a regular file; raises ValueError for anything else under its name."""
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
        return os.read(number, MAX_JOB_BYTES), written
    finally:
        os.close(number)


class RefusedFiles:
    """The folder failed/ of the queue: files that are not jobs, each with its reason in a file beside it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, path: Path, reason: str) -> None:
        """Move the file at ``path`` here, under a name of its own, and write down the reason."""
        stem = os.fsdecode(os.fsencode(path.stem)[:MAX_NAME_BYTES])
        target = self._folder / f"{stem}{path.suffix}"
        for count in range(1, 1_000):
            if not os.path.lexists(target):
                break
            target = self._folder / f"{stem}-{count}{path.suffix}"
        # The reason first: after a crash in between the file is found again.
        note = target.with_name(f"{target.name}.reason")
        write_atomically(note, f"{path.name}: {reason}\n".encode(errors="replace"))
        try:
            path.rename(target)
        except FileNotFoundError:  # another process was quicker
            if not os.path.lexists(target):
                note.unlink(missing_ok=True)

    def reasons(self) -> list[str]:
        """The reasons, the latest first."""
        notes = sorted(self._folder.glob("*.reason"), key=lambda note: -note.stat().st_mtime)
        return [note.read_text().strip() for note in notes]

    def prune(self, limit: float) -> int:
        """Delete files refused before ``limit`` (seconds since 1970), but no folders; returns how many."""
        notes = [note for note in self._folder.glob("*.reason") if note.stat().st_mtime < limit]
        for note in notes:
            path = note.with_suffix("")
            if path.is_symlink() or not path.is_dir():
                path.unlink(missing_ok=True)
            note.unlink(missing_ok=True)
        return len(notes)


def _moment(timestamp: str, zone: tzinfo | None = None) -> datetime:
    moment = datetime.fromisoformat(timestamp)
    return (moment if moment.tzinfo else localize(moment, zone)).astimezone(UTC)
