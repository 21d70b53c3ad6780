"""The timeline of a goal or a task: every message about it, read from OFFICE and sorted."""

import json
from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.records import TaskState, task_state, task_steps
from shared.bus.replacement import place_of, restored
from shared.contracts import TOKEN, Goal, Task, TaskStatus, decode
from shared.errors import NotFound
from shared.queries.dead_letters import find_dead_letter
from shared.queries.records import RESENT, end_of_search, read_goal, scan
from shared.queries.summaries import MessageSummary, summarize
from shared.text.times import format_utc, parse_time, seconds_between
from shared.trail.archives import scan_log

SEARCHED = (
    subjects.SUBMISSIONS,
    subjects.task("*", "*", "*", "*"),
    subjects.mail("*", "*"),
    subjects.event("*", ">"),
    subjects.dead("*"),
    "approval.*.*.*",
)
"""Where messages of a goal are searched; its records and the steps of its tasks are read by subject."""
MARGIN = timedelta(seconds=1)
"""The search starts this much before the first record: the clocks of processes differ."""


class TimelineEntry(msgspec.Struct, frozen=True, kw_only=True, rename={"summary": "said"}):
    """One message."""

    time: str
    seq: int
    subject: str
    summary: MessageSummary


class TaskTimeline(msgspec.Struct, kw_only=True, rename={"entries": "moments", "subtasks": "parts"}):
    """A task's status, its seconds of waiting and of work (None: not begun), and its messages.

    ``subtasks`` are tasks that its assignee delegated.
    """

    task: Task
    status: TaskStatus
    attempts: int = 0
    waited: float | None = None
    worked: float | None = None
    outcome: str = ""
    entries: list[TimelineEntry] = []
    subtasks: list["TaskTimeline"] = []


class GoalTimeline(msgspec.Struct, kw_only=True, rename={"entries": "moments"}):
    """A goal, its tasks in the order they were issued, and the messages that belong to no task."""

    goal: Goal
    took: float
    tasks: list[TaskTimeline] = []
    entries: list[TimelineEntry] = []


async def read_timeline(bus: Bus, name: str) -> GoalTimeline | TaskTimeline:
    """The timeline of the goal or task ``name``; raises NotFound if there is none."""
    if not TOKEN.fullmatch(name):
        raise NotFound(f"{name[:130]!r} is not an id of a goal or a task", "'mailroom tasks' lists goals")
    found = await read_goal(bus, name)
    if found is not None:
        return await _read_goal_timeline(bus, *found)
    steps = await read_steps(bus, name)
    if tasks := _find_tasks(steps):
        return await _read_task_timeline(bus, tasks[name], steps)
    raise await _explain_missing(bus, name)


async def _read_goal_timeline(bus: Bus, goal: Goal, seq: int) -> GoalTimeline:
    end = seq if goal.status.final else 0
    sent = await read_messages(bus, SEARCHED, Ids(goal_id=goal.goal_id), goal.submitted_at, end)
    records = await _read_history(bus, subjects.goal(goal.goal_id), goal.submitted_at)
    timelines, others = await _build_timelines(bus, _find_tasks(sent), sent, records)
    return GoalTimeline(
        goal=goal,
        took=seconds_between(goal.submitted_at, goal.ended_at),
        tasks=_nest(timelines),
        entries=others,
    )


async def _read_task_timeline(bus: Bus, task: Task, steps: list[Stored]) -> TaskTimeline:
    end = steps[-1].seq if task_state(steps[-1]).status.final else 0
    sent = await read_messages(bus, SEARCHED, Ids(task), steps[0].time, end)
    timelines, _ = await _build_timelines(bus, {**_find_tasks(sent), task.task_id: task}, sent, [])
    _nest(timelines)
    return timelines[task.task_id]


# --- reading -------------------------------------------------------------------------------------


class Ids:
    """The ids by which messages belong to a goal, or to ``task`` and the tasks that its assignee delegated.

    What counts is the header of a message, never its text, which may quote any id. A submission counts
    before the messages that follow from it, so that messages are to be tried in the order of the log.
    """

    def __init__(self, task: Task | None = None, *, goal_id: str = "") -> None:
        self._goal_id = goal_id
        self._ids = {task.task_id, task.id} if task else {goal_id}

    def include(self, stored: Stored) -> bool:
        """Whether a message belongs to it."""
        if not any(each.encode() in stored.data for each in self._ids):  # most do not, and this is quick
            return False
        summary = summarize(stored.subject, stored.data)
        if self._goal_id:
            return summary.goal_id == self._goal_id
        if summary.task_id not in self._ids and summary.cause not in self._ids:
            return False
        if summary.kind == "task":
            self._ids.update((summary.id, summary.task_id))
        elif summary.kind == "approval":
            self._ids.add(summary.id)
        return True


async def read_messages(
    bus: Bus, patterns: Sequence[str], ids: Ids, begin: str, end: int = 0
) -> list[Stored]:
    """What belongs to ``ids``, from the time ``begin`` to a little after sequence ``end`` (0: until now)."""
    until = await end_of_search(bus, end)
    since = parse_time(begin) - MARGIN
    found: dict[int, Stored] = {}
    for pattern in patterns:
        async for stored in scan_log(bus, subjects.OFFICE, pattern, since=since, until=until):
            if ids.include(stored):
                found[stored.seq] = restored(stored)
    return sorted(found.values(), key=place_of)


async def _read_history(bus: Bus, subject: str, begin: str = "") -> list[Stored]:
    """All messages on a subject, from a time on, or of those on the server."""
    since = parse_time(begin) - MARGIN if begin else None
    messages = (scan_log if since else scan)(bus, subjects.OFFICE, subject, since=since)
    found = [restored(stored) async for stored in messages]
    return sorted(found, key=place_of)


async def read_steps(bus: Bus, task_id: str) -> list[Stored]:
    """The steps of a task, those in bundles too: of these the server still has the last one."""
    name = subjects.task("*", "*", task_id, "*")
    steps = [stored async for stored in scan(bus, subjects.OFFICE, name)]
    if steps and all(step.subject.rpartition(".")[2] not in subjects.NEW.values() for step in steps):
        steps = [stored async for stored in scan_log(bus, subjects.OFFICE, name)]
    return sorted(map(restored, steps), key=place_of)


def _find_tasks(sent: Iterable[Stored]) -> dict[str, Task]:
    tasks = {}
    for stored in sent:
        if stored.subject.startswith("task."):
            try:
                envelope = decode(stored.data)
            except ValueError:
                continue
            if isinstance(envelope, Task):
                tasks[envelope.task_id] = envelope
    return tasks


async def _explain_missing(bus: Bus, name: str) -> NotFound:
    """Why there are no records: the goal may wait for the conductor, or have been refused."""
    async for stored in scan(bus, subjects.OFFICE, subjects.SUBMISSIONS):
        if name.encode() not in stored.data or json.loads(stored.data).get("goal_id") != name:
            continue
        refusal = await find_dead_letter(bus, subjects.CONDUCTOR, stored.seq)
        if refusal is not None:
            return NotFound(f"The conductor refused the goal {name}: {refusal.reason}")
        return NotFound(
            f"The goal {name} was submitted and waits for the conductor",
            "'mailroom status' shows whether it runs",
        )
    return NotFound(f"There is no goal or task {name!r}", "'mailroom tasks --all' lists the goals")


# --- sorting -------------------------------------------------------------------------------------


async def _build_timelines(
    bus: Bus, tasks: dict[str, Task], sent: list[Stored], records: list[Stored]
) -> tuple[dict[str, TaskTimeline], list[TimelineEntry]]:
    """The timeline of each task, and the entries of the messages that belong to none, in order."""
    timelines: dict[str, TaskTimeline] = {}
    for task in tasks.values():
        history = await _read_history(bus, task_steps(task), task.created_at)
        timelines[task.task_id] = _build_timeline(task, [task_state(stored) for stored in history])
        records = [*records, *history]
    messages = {stored.seq: stored for stored in (*sent, *records)}
    entries = [
        TimelineEntry(time=each.time, seq=each.seq, subject=each.subject, summary=_summarize(each))
        for each in sorted(messages.values(), key=place_of)
    ]
    by_envelope = {timeline.task.id: timeline for timeline in timelines.values()}
    others: list[TimelineEntry] = []
    for entry in entries:
        owner = timelines.get(entry.summary.task_id) or by_envelope.get(entry.summary.cause)
        (owner.entries if owner else others).append(entry)
    return timelines, others


def _summarize(stored: Stored) -> MessageSummary:
    summary = summarize(stored.subject, stored.data)
    if RESENT not in stored.headers:
        return summary
    return msgspec.structs.replace(summary, text=f"{summary.text} (sent again by a person)")


def _build_timeline(task: Task, history: list[TaskState]) -> TaskTimeline:
    if not history:
        return TaskTimeline(task=task, status=task.status, entries=[], subtasks=[])
    # A task that a person sent again starts over.
    begin = max((at for at, state in enumerate(history) if state.task), default=0)
    submitted, last = history[begin].stored_at, history[-1]
    claimed = next((state.stored_at for state in history[begin:] if state.step == subjects.CLAIMED), "")
    ended = next((state.stored_at for state in history[begin:] if state.result), "")
    if last.result and last.result.begun_at and (not claimed or last.attempt == 1):
        # By the clock of the process; the others are the server's.
        claimed = format_utc(min(max(map(parse_time, (submitted, last.result.begun_at))), parse_time(ended)))
    return TaskTimeline(
        task=task,
        status=last.status,
        attempts=last.attempt,
        waited=seconds_between(submitted, claimed or ended),
        worked=seconds_between(claimed, ended) if claimed else None,
        outcome=(last.result.error_message or last.result.output) if last.result else last.note,
        entries=[],
        subtasks=[],
    )


def _nest(timelines: dict[str, TaskTimeline]) -> list[TaskTimeline]:
    """Attach each task to the task that caused it; returns the others."""
    by_envelope = {timeline.task.id: timeline for timeline in timelines.values()}
    roots: list[TaskTimeline] = []
    for timeline in timelines.values():
        parent = by_envelope.get(timeline.task.cause)
        (parent.subtasks if parent else roots).append(timeline)
    return roots
