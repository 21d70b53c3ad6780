"""The overnight queue: jobs as they are recorded, and the files of cortex' folder, read only."""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import msgspec

from shared.clock import localize, parse_timestamp, read_night, read_zone, utc_now
from shared.contracts import Due, DueStatus, Goal, NightState
from shared.recurrence import describe_recurrence, parse_recurrence
from shared.settings import Settings
from shared.text.display import flatten
from shared.timetable import KEPT, list_next
from shared.views.listed import Item, NightJob, NightQueue

MAX_FILES = 200  # The most files of a folder that are read
MAX_BYTES = 1_000_000  # The largest file that is read
RECENT = 10  # The latest results that are shown


class _Job(msgspec.Struct):
    id: str = ""
    task: str = ""
    priority: str = ""
    run_at: str = ""
    when: str = ""
    created_at: str = ""


class _Result(msgspec.Struct):
    task_id: str = ""
    completed_at: str = ""
    status: str = ""
    outcome: str = ""
    metadata: dict[str, Any] = {}


def read_night_queue(
    settings: Settings, state: NightState, items: Sequence[Due] = (), now: datetime | None = None
) -> NightQueue:
    """What waits and why, runs, ended last and was refused.

    ``state`` is cortex's record of the night, ``items`` are its jobs. A file that it has not taken yet waits.
    """
    folder = settings.state_dir / "job_queue"
    known = [_view_job(each) for each in items if each.status in KEPT]
    dropped = _list_files(folder / "tonight")
    waiting = [job for job in known if job.state == "waiting"]
    running = [job for job in known if job.state == "running"]
    waiting += [_read_job(path) for path in dropped[:MAX_FILES]]
    archived, refused = _list_files(folder / "archive"), _list_files(folder / "failed")
    night = _read_night(settings, state, now or utc_now())
    return msgspec.structs.replace(
        night,
        reachable=folder.is_dir(),
        folder=str(folder / "tonight"),
        counts={
            "waiting": len(waiting) + max(0, len(dropped) - MAX_FILES),
            "running": len(running),
            "ended": len(archived),
            "refused": len(refused),
        },
        jobs=[
            *(_with_reason(job, night) for job in waiting),
            *running,
            *(_read_ended(path) for path in _latest(archived)),
            *(_read_refused(path) for path in _latest(refused)),
        ],
    )


def _read_night(settings: Settings, state: NightState, now: datetime) -> NightQueue:
    window = read_night(settings.night, read_zone(settings.time_zone))
    began, ends = window.find(now)
    return NightQueue(
        reachable=False,
        window="" if window.is_always else str(window),
        is_night=began <= now,
        begins_at=began.isoformat(),
        ends_at=ends.isoformat(),
        held=state.held,
        tokens=state.tokens,
        cost=state.cost,
        token_limit=settings.night_tokens,
        cost_limit=settings.night_cost,
    )


def _with_reason(job: NightJob, night: NightQueue) -> NightJob:
    """A job that waits, with what it waits for: the night, or what holds it back though its time has come."""
    if job.state != "waiting" or job.when == "now":
        return job
    waits = bool(night.window) and not night.is_night and (job.when == "night" or not job.run_at)
    reason = f"waits for the night ({night.window})" if waits else night.held
    return msgspec.structs.replace(job, reason=reason)


def _list_files(folder: Path) -> list[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError:
        return []
    return [folder / name for name in names if name.lower().endswith(".json") and not name.startswith(".")]


def _latest(paths: list[Path]) -> list[Path]:
    return sorted(paths, key=_written_at, reverse=True)[:RECENT]


def _written_at(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _view_job(item: Due) -> NightJob:
    job, works = msgspec.convert(item.job, _Job), item.status is DueStatus.WORKING
    return NightJob(
        id=item.due_id,
        state="running" if works else "waiting",
        task=item.text,
        priority=job.priority,
        run_at=job.run_at,
        when=job.when,
        at=item.created_at,
        task_id=item.last if works else "",
    )


def _read_job(path: Path) -> NightJob:
    content = next(_decode(path, _Job), _Job())
    return NightJob(
        id=content.id[:128] or path.stem[:128],
        state="waiting",
        task=flatten(content.task, 300),
        priority=content.priority[:20],
        run_at=content.run_at[:40],
        when=content.when[:10],
        at=_stamp(path),
    )


def _read_ended(path: Path) -> NightJob:
    content = next(_decode(path, _Result), _Result())
    job = content.metadata.get("job")
    task = str(job.get("task", "")) if isinstance(job, dict) else ""
    return NightJob(
        id=path.stem,
        state="ended",
        task=flatten(task, 300),
        at=content.completed_at or _stamp(path),
        task_id=content.task_id,
        outcome=content.outcome or content.status,
    )


def _read_refused(path: Path) -> NightJob:
    note = path.with_name(f"{path.name}.reason")
    text = next(_read_bytes(note), b"").decode("utf-8", "replace")
    return NightJob(id=path.stem[:128], state="refused", at=_stamp(path), reason=flatten(text, 300))


def _decode(path: Path, kind: Any) -> Iterator[Any]:
    """What a file holds; nothing if it is not readable as that."""
    for data in _read_bytes(path):
        try:
            yield msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return


def _read_bytes(path: Path) -> Iterator[bytes]:
    """The content of a regular file that is not too large; nothing for anything else."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return
    try:
        found = os.fstat(number)
        if stat.S_ISREG(found.st_mode) and found.st_size <= MAX_BYTES:
            yield os.read(number, MAX_BYTES)
    finally:
        os.close(number)


def _stamp(path: Path) -> str:
    written = _written_at(path)
    return datetime.fromtimestamp(written, UTC).isoformat() if written else ""


def view_due(due: Due, zone: tzinfo | None) -> Item:
    """An item of the timetable as people see it."""
    return Item(
        id=due.due_id,
        what=due.what.value,
        text=due.text,
        at=due.at,
        status=due.status.value,
        every=describe_recurrence(parse_recurrence(due.repeats)) if due.repeats else "",
        next_runs=[moment.isoformat() for moment in list_next(due, zone)],
        runs=due.runs,
        missed=due.missed,
        last_at=due.last_at,
        last=due.last,
        note=due.note,
        due=due,
    )


def list_items(
    dues: Iterable[Due], night: NightQueue, goals: Iterable[Goal], zone: tzinfo | None
) -> list[Item]:
    """All of it: what is going to happen, the next first, then the rest."""
    now = datetime.now(UTC)
    items = [view_due(each, zone) for each in dues]
    items += [
        Item(id=job.id, what="job", text=job.task or job.id, at=_begins(job, night, zone, now))
        for job in night.jobs
        if job.state == "waiting"
    ]
    items += [
        Item(id=goal.goal_id, what="deadline", text=goal.text, at=goal.deadline)
        for goal in goals
        if goal.deadline
    ]
    return sorted(items, key=lambda each: (not each.waits, parse_timestamp(each.at)))


def _begins(job: NightJob, night: NightQueue, zone: tzinfo | None, now: datetime) -> str:
    """When a job may begin: at its time, else at night; now, for one that waits for neither."""
    if night.window and not night.is_night and (job.when == "night" or not (job.run_at or job.when)):
        return night.begins_at
    try:
        moment = datetime.fromisoformat(job.run_at)
        return (moment if moment.tzinfo else localize(moment, zone)).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        return now.isoformat()
