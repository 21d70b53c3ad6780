"""What is said of jobs of the night: the report of one that ended, and the queue as it stands."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from services.cortex.job_files import Job, JobFolder
from services.cortex.night_window import Night
from shared import subjects
from shared.clock import format_moment, parse_timestamp
from shared.contracts import (
    AgentReport,
    Due,
    DueStatus,
    ResultOutcome,
    TaskResult,
    TaskStatus,
)
from shared.tasks.actions import Outcome
from shared.text.display import count

EXCERPT = 2_000  # The most characters of a job's task and of its output in its report
MAX_REFERENCES = 50  # The most sources and files in the report of a job; its result has all of them
MAX_LISTED = 50  # The most jobs of a kind that are listed
MAX_SHOWN = 200  # The most characters of a job's task in the list


def job_report(job: Job, result: TaskResult, path: str, *, sender: str, report_id: str) -> AgentReport:
    """The report of a job that ended; ``path`` is the archived result."""
    done = result.status is TaskStatus.COMPLETED
    unclean = done and result.outcome not in (ResultOutcome.NONE, ResultOutcome.DONE)
    came_to = (result.outcome if unclean else result.status).replace("_", " ")
    text = result.output if done else result.error_message or result.output
    excerpt = " ".join(text.split())[:EXCERPT] or "it gave no output"
    times = f" after {len(job.tried) + 1} attempts" if job.tried else ""
    return AgentReport(
        sender=sender,
        recipient=subjects.NEXUS,
        cause=result.id,
        goal_id=result.goal_id,
        report_id=report_id,
        agent=sender,
        report_type="overnight_job",
        summary=f"Overnight job {job.id} {came_to}{times}: {excerpt}",
        evidence_refs=result.evidence_refs[:MAX_REFERENCES],
        output_paths=(*result.output_paths[:MAX_REFERENCES], path),
        metadata={
            "job_id": job.id,
            "task": job.task[:EXCERPT],
            "task_id": result.task_id,
            "status": result.status.value,
            "outcome": result.outcome.value,
            "priority": job.priority,
            "completed_at": result.completed_at,
        },
    )


class ListedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits or runs; ``reason`` is what it waits for."""

    id: str
    state: str
    task: str
    priority: str
    reason: str = ""
    task_id: str = ""


def job_in(item: Due) -> Job:
    """The job of an item of the timetable."""
    return msgspec.convert(item.job, Job)


def describe_queue(
    items: Sequence[Due], folder: JobFolder, night: Night, now: datetime, unsettled: int
) -> Outcome:
    """The jobs at hand, what was refused and is not done, after a look at ``night``, as text and as data.

    ``unsettled`` files cannot be read yet.
    """
    running = [each for each in items if each.status is DueStatus.WORKING]
    waiting = [(job_in(each), each) for each in items if each.status is not DueStatus.WORKING]
    waiting.sort(key=lambda each: each[0].rank(night.zone))
    reasons = [night.hold_reason(job, now) or "until there is room" for job, _ in waiting]
    jobs = [_listed(job_in(each), each, "running") for each in running[:MAX_LISTED]]
    jobs += [
        _listed(*each, "waiting", why)
        for each, why in zip(waiting[:MAX_LISTED], reasons[:MAX_LISTED], strict=True)
    ]
    files, refused = folder.count(), folder.reasons()[:MAX_LISTED]
    undone, ends = folder.undone(MAX_LISTED)
    counts = {
        "waiting": len(waiting) + unsettled,
        "running": len(running),
        "ended": files["archive"],
        "refused": files["failed"],
    }
    totals = ", ".join(
        [
            f"{counts['waiting']} waiting, {counts['running']} running, {counts['ended'] - undone} done",
            *([f"{undone} not done"] if undone else []),
            f"{counts['refused']} refused",
        ]
    )
    lines = [f"Overnight queue: {totals}. {_format_night(night, now)}"]
    lines += [_format(job) for job in jobs]
    if unsettled:
        lines.append(f"- waiting: {unsettled} that cannot be read yet, perhaps half-written")
    lines += [f"- refused: {reason}" for reason in refused]
    lines += [f"- {end}" for end in ends]
    data = {"counts": counts, "jobs": msgspec.to_builtins(jobs), "night": _night_data(night, now)}
    data |= {state: [job.id for job in jobs if job.state == state] for state in ("waiting", "running")}
    return Outcome(output="\n".join(lines), data={**data, "failed": refused, "undone": ends})


def _listed(job: Job, item: Due, state: str, reason: str = "") -> ListedJob:
    return ListedJob(
        id=job.id,
        state=state,
        task=item.text,
        priority=job.priority.lower(),
        reason=reason,
        task_id=item.last if state == "running" else "",
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
