"""Overnight jobs: what a job file says, and in which order jobs are taken."""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import msgspec

from shared.clock import localize
from shared.contracts import MAX_TEXT, Task, TaskPriority
from shared.errors import ActionError

JOB_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
"""A job's id names its files, and with a tail its task."""

PRIORITIES = {
    "critical": TaskPriority.URGENT,
    "high": TaskPriority.HIGH,
    "medium": TaskPriority.MEDIUM,
    "low": TaskPriority.LOW,
}
"""The priorities of jobs, the first taken first, and those their tasks get."""


MOST_RETRIES = 10
RETRY_DELAYS = (60.0, 3_600.0)
"""Seconds until a failed job is tried again, doubling to the most there are (the first as the documents this
descends from have it for reminders)."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job file: ``id`` and ``task`` are needed; a ``run_at`` without a time zone is in the office's.

    ``context`` may name an ``assignee``, ``action`` and ``params``, or a whole ``plan`` (a TaskPlan), or the
    ``mode`` of thinking. A job that fails is tried again up to ``retries`` times (0 to 10); ``tried`` are the
    tasks that failed so far, which the queue fills in. ``by_agent``: an agent thought of it, no person.
    """

    id: str
    task: str
    priority: str = "medium"
    run_at: str = ""
    created_at: str = ""
    context: dict[str, Any] = {}
    retries: int = 0
    tried: tuple[str, ...] = ()
    by_agent: bool = False

    def __post_init__(self) -> None:
        if not JOB_ID.fullmatch(self.id):
            raise ValueError("id must be 1 to 80 letters, digits, '_' or '-', such as job-20260102-001")
        if not self.task.strip():
            raise ValueError("task must be a non-empty string")
        if len(self.task) > MAX_TEXT:
            raise ValueError(f"task has {len(self.task):,} characters; the limit is {MAX_TEXT:,}")
        if self.priority.lower() not in PRIORITIES:
            raise ValueError(f"priority must be one of {', '.join(PRIORITIES)}, not {self.priority[:40]!r}")
        if not 0 <= self.retries <= MOST_RETRIES:
            raise ValueError(f"retries must be between 0 and {MOST_RETRIES}, not {self.retries}")
        for field in ("run_at", "created_at"):
            if value := getattr(self, field):
                _require_moment(field, value)

    @property
    def task_priority(self) -> TaskPriority:
        """The priority of the job's task."""
        return PRIORITIES[self.priority.lower()]

    def is_due(self, now: datetime, zone: tzinfo | None) -> bool:
        """Whether the job may run at ``now``."""
        return not self.run_at or _moment(self.run_at, zone) <= now

    def rank(self, written_at: float, zone: tzinfo | None) -> tuple[int, float, float, str]:
        """What jobs are sorted by: priority, run_at (none first), created_at (else ``written_at``), id."""
        run_at = _moment(self.run_at, zone).timestamp() if self.run_at else 0.0
        created_at = _moment(self.created_at, zone).timestamp() if self.created_at else written_at
        return (list(PRIORITIES).index(self.priority.lower()), run_at, created_at, self.id)


def put_off(job: Job, task_id: str, now: datetime) -> Job | None:
    """``job`` as it waits to be tried again after its task failed; None where it is not tried again."""
    if task_id in job.tried:
        return job
    if len(job.tried) >= job.retries:
        return None
    first, longest = RETRY_DELAYS
    delay = min(longest, first * 2 ** len(job.tried))
    return msgspec.structs.replace(
        job, tried=(*job.tried, task_id), run_at=(now + timedelta(seconds=delay)).isoformat()
    )


class BrokenJson(ValueError):
    """A text that is no JSON: damaged, or not yet written to its end."""


def parse_job(text: bytes) -> Job:
    """The job in a file; raises BrokenJson or another ValueError with the reason where it is none."""
    try:
        return msgspec.json.decode(text, type=Job)
    except msgspec.ValidationError as error:
        raise ValueError(f"it is not a job: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenJson(f"it is not valid JSON: {error}") from None


def read_job(values: dict[str, Any]) -> Job:
    """The job in ``values``; raises ActionError with the reason where it is none."""
    try:
        return msgspec.convert(values, Job)
    except msgspec.ValidationError as error:
        raise ActionError(f"This is not a job: {error}", "A job has an id and a task") from None


def name_task(job: Job, text: bytes, written_ns: int) -> str:
    """The id of the task for a job file: the same whoever finds it, another for each file dropped."""
    digest = hashlib.sha256(text + str(written_ns).encode()).hexdigest()
    return f"{job.id}-{digest[:12]}"


def is_dropped_job(task: Task) -> bool:
    """Whether ``task`` is a job that a person put into the queue, whose words are thus a person's.

    Nobody but the queue has cortex hand itself a task with an action.
    """
    params = task.context.get("params")
    job = params.get("job") if isinstance(params, Mapping) else None
    return (
        task.requester == task.assignee
        and task.context.get("action") == "process_overnight_job"
        and isinstance(job, Mapping)
        and not job.get("by_agent", True)
    )


def _moment(timestamp: str, zone: tzinfo | None = None) -> datetime:
    moment = datetime.fromisoformat(timestamp)
    return (moment if moment.tzinfo else localize(moment, zone)).astimezone(UTC)


def _require_moment(field: str, value: str) -> None:
    try:
        _moment(value)
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{field} must be an ISO 8601 date and time, not {value[:40]!r}") from None
