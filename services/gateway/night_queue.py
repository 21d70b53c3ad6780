"""The overnight queue as its files are, read only."""

import os
import stat
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import msgspec

from shared.clock import localize, parse_timestamp, read_night, read_zone, utc_now
from shared.contracts import Due, Goal, NightState
from shared.queries.timetable import WAITING
from shared.recurrence import describe_recurrence, next_occurrence, parse_recurrence
from shared.settings import Settings
from shared.text.display import flatten
from shared.views.listed import Item, NightJob, NightQueue

MAX_FILES = 200  # The most files of a folder that are read
MAX_BYTES = 1_000_000  # The largest file that is read
RECENT = 10  # The latest results that are shown
FOLDERS = {"tonight": "waiting", "claimed": "running", "archive": "ended", "failed": "refused"}


class _File(msgspec.Struct):
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


def read_night_queue(settings: Settings, state: NightState, now: datetime | None = None) -> NightQueue:
    """What waits and why, runs, ended last and was refused; ``state`` is cortex's record of the night."""
    folder = settings.state_dir / "job_queue"
    window, now = read_night(settings.night, read_zone(settings.time_zone)), now or utc_now()
    began, ends = window.find(now)
    night = NightQueue(
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
    if not folder.is_dir():
        return msgspec.structs.replace(night, folder=str(folder))
    listed = {name: _list_files(folder / name) for name in FOLDERS}
    jobs = [_read_job(path, "waiting") for path in listed["tonight"][:MAX_FILES]]
    jobs += [_read_job(path, "running") for path in listed["claimed"][:MAX_FILES]]
    jobs += [_read_ended(path) for path in _latest(listed["archive"])]
    for path in _latest(listed["failed"]):
        note = next(_read_bytes(path.with_name(f"{path.name}.reason")), b"").decode("utf-8", "replace")
        refused = NightJob(id=path.stem[:128], state="refused", at=_stamp(path), reason=flatten(note, 300))
        jobs.append(refused)
    counts = {state: len(listed[name]) for name, state in FOLDERS.items()}
    for place, job in enumerate(jobs):
        if job.state == "waiting" and job.when != "now":
            # It waits for the night, or for what holds it back though its time has come.
            waits = bool(night.window) and not night.is_night and (job.when == "night" or not job.run_at)
            reason = f"waits for the night ({night.window})" if waits else night.held
            jobs[place] = msgspec.structs.replace(job, reason=reason)
    return msgspec.structs.replace(
        night, reachable=True, folder=str(folder / "tonight"), counts=counts, jobs=jobs
    )


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


def _read_job(path: Path, state: str) -> NightJob:
    content = next(_decode(path, _File), _File())
    return NightJob(
        id=content.id[:128] or path.stem[:128],
        state=state,
        task=flatten(content.task, 300),
        priority=content.priority[:20],
        run_at=content.run_at[:40],
        when=content.when[:10],
        at=_stamp(path),
        task_id=path.stem if state == "running" else "",
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


RUNS = 3  # the next times that are shown


def view_due(due: Due, zone: tzinfo | None) -> Item:
    """An item of the timetable as people see it."""
    runs, every = [parse_timestamp(due.at)] if due.status in WAITING else [], ""
    if due.repeats:
        recurrence = parse_recurrence(due.repeats)
        while runs and len(runs) < RUNS and (later := next_occurrence(recurrence, runs[-1], zone)):
            runs.append(later)
        try:
            every = describe_recurrence(recurrence)
        except (KeyError, ValueError, IndexError):  # a rule that has no short form in words
            every = recurrence.rule
    return Item(
        id=due.due_id,
        what=due.what.value,
        text=due.text,
        at=due.at,
        status=due.status.value,
        every=every,
        next_runs=[moment.isoformat() for moment in runs],
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
