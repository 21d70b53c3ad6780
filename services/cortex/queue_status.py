"""The overnight queue told: what runs, what waits and why, what was refused, and how the night stands."""

from datetime import datetime
from typing import Any

import msgspec

from services.cortex.job_queue import JobQueue, QueuedJob
from services.cortex.night import Night
from shared.clock import format_moment, parse_timestamp
from shared.tasks.actions import Outcome
from shared.text.display import count, flatten

MAX_LISTED = 50  # The most jobs of a kind that are listed
MAX_SHOWN = 200  # The most characters of a job's task in the list


class ListedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits or runs; ``reason`` is what it waits for."""

    id: str
    state: str
    task: str
    priority: str
    reason: str = ""
    task_id: str = ""


def describe_queue(queue: JobQueue, night: Night, now: datetime) -> Outcome:
    """The state of ``queue`` at ``now``, after a look at ``night``, as text and as data."""
    queue.make_folders()
    # Scanning moves files that are not jobs to failed/, so it comes before counting.
    waiting, unsettled = queue.scan()
    jobs = [_listed(entry, "running") for entry in queue.find_claimed()[:MAX_LISTED]]
    jobs += [
        _listed(entry, "waiting", night.hold_reason(entry.job, now) or "until there is room")
        for entry in waiting[:MAX_LISTED]
    ]
    counts, reasons = queue.count(), queue.refused.reasons()[:MAX_LISTED]
    undone, ends = queue.undone(MAX_LISTED)
    done = counts["archive"] - undone
    names = {"waiting": "tonight", "running": "claimed", "refused": "failed"}
    waits, runs, refused = (f"{counts[folder]} {name}" for name, folder in names.items())
    totals = ", ".join([waits, runs, f"{done} done", *([f"{undone} not done"] if undone else []), refused])
    lines = [f"Overnight queue: {totals}. {_format_night(night, now)}"]
    lines += [_format(job) for job in jobs]
    if unsettled:
        lines.append(f"- waiting: {unsettled} that cannot be read yet, perhaps half-written")
    lines += [f"- refused: {reason}" for reason in reasons]
    lines += [f"- {end}" for end in ends]
    data = {"counts": counts, "jobs": msgspec.to_builtins(jobs), "night": _night_data(night, now)}
    data |= {state: [job.id for job in jobs if job.state == state] for state in ("waiting", "running")}
    return Outcome(output="\n".join(lines), data={**data, "failed": reasons, "undone": ends})


def _listed(entry: QueuedJob, state: str, reason: str = "") -> ListedJob:
    job = entry.job
    return ListedJob(
        id=job.id,
        state=state,
        task=flatten(job.task, MAX_SHOWN),
        priority=job.priority.lower(),
        reason=reason,
        task_id=entry.task_id if state == "running" else "",
    )


def _format(job: ListedJob) -> str:
    priority = "" if job.priority == "medium" else f", {job.priority}"
    # When the night begins is in the first line.
    waits = f"; it waits {because(job.reason.partition(', which')[0])}" if job.reason else ""
    return f"- {job.state}: {job.id}{priority}: {job.task}{waits}"


def because(reason: str) -> str:
    """What a job waits for, after the word "waits"."""
    return reason if reason.startswith(("until ", "for ")) else f"because {reason}"


def _format_night(night: Night, now: datetime) -> str:
    began, ends = night.window.find(now)
    if night.window.is_always:
        text = "No night is set: jobs begin at once."
    elif began > now:
        text = f"The night begins on {format_moment(began, night.zone)}."
    else:
        text = f"It is night until {format_moment(ends, night.zone)}."
    used, cost = night.state.tokens, night.state.cost
    price = f", ${cost:.2f}" if cost else ""
    return f"{text} Used in it: {count(used, 'token')}{price}." if used and began <= now else text


def _night_data(night: Night, now: datetime) -> dict[str, Any]:
    began, ends = night.window.find(now)
    state = night.state
    last = parse_timestamp(state.began_at).isoformat() if state.began_at else ""
    return {
        "window": "" if night.window.is_always else str(night.window),
        "is_night": began <= now,
        "begins_at": began.isoformat(),
        "ends_at": ends.isoformat(),
        "held": state.held,
        "last_began_at": last,
        "tokens": state.tokens,
        "cost": state.cost,
    }
