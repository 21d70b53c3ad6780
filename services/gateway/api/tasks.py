"""What happened in a goal or task: everything on record of a task, the course, what was done inside."""

from collections.abc import Iterable, Sequence

import msgspec

from services.gateway.call import Call, Gateway
from services.gateway.index.reader import read_sent
from services.gateway.index.store import Store
from services.gateway.problems import not_found
from services.gateway.routing import API, Endpoint
from services.gateway.waterfall import build_activity
from shared import subjects
from shared.access.scopes import Scope
from shared.bus import Bus, Stored
from shared.bus.client import place_of, restored
from shared.bus.records import TaskState, task_state, task_steps
from shared.contracts import TOKEN, Task, decode
from shared.errors import NotFound
from shared.queries.office import find_dead_letter
from shared.queries.records import RESENT
from shared.queries.results import add_spending, expand_goal_id, read_results
from shared.queries.summaries import summarize
from shared.text.times import format_utc, parse_time, seconds_between
from shared.trail.archives import find_archived, read_messages
from shared.views.timeline import (
    Activity,
    Course,
    GoalTimeline,
    MessageRow,
    TaskDetails,
    TaskTimeline,
    TimelineEntry,
)

MAX_MESSAGES = 2_000  # Messages of a task that are read; of a longer one the last part is left out
TYPES = frozenset({"task", "state", "result", "thought", "approval", "gate", "policy"})
"""The types of messages that say what happened inside a task."""


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    """A task; ``messages`` are where all of it is stored, ``truncated`` whether only the first were read."""

    details: TaskDetails
    messages: list[MessageRow]
    truncated: bool
    position: str


async def read_task_page(call: Call) -> TaskPage:
    """One task: attempts, thoughts, model calls, actions with parameters and output, effects, result."""
    gateway, task_id = call.gateway, call.path["task_id"]
    rows = gateway.index.store.all_of_task(task_id, MAX_MESSAGES + 1)
    if not rows:
        raise not_found(f"task {task_id[:130]!r}")
    position = str(gateway.index.position)
    details = await _read_details(gateway, task_id, rows[:MAX_MESSAGES])
    if details is None:
        raise not_found(f"task {task_id[:130]!r} that was submitted")
    return TaskPage(
        details=details,
        messages=rows[:MAX_MESSAGES],
        truncated=len(rows) > MAX_MESSAGES,
        position=position,
    )


async def _read_details(gateway: Gateway, task_id: str, rows: Sequence[MessageRow]) -> TaskDetails | None:
    """What is on record of a task; None if no message submits it."""
    wanted = [row for row in rows if row.type in TYPES]
    goal_ids = {row.goal_id for row in wanted if row.goal_id}
    answers: list[MessageRow] = []
    for goal_id in sorted(goal_ids)[:1]:  # people's answers in the goal, which do not name the task
        sent, _ = read_sent(gateway.index.store, goal_id, ("approval",), 200)
        answers = [row for row in sent if ".answered." in row.subject]
    activity = build_activity(await read_rows(gateway.bus, [*wanted, *answers]))
    return next((each for each in activity.tasks if each.task_id == task_id), None)


async def read_course(call: Call) -> Course:
    """The messages of a goal or of a task, by task, with what it found and used.

    The name may be the beginning or the end of a goal's id, and ``last`` is the latest goal.
    """
    gateway = call.gateway
    bus, name = gateway.bus, await expand_goal_id(gateway.bus, call.path["name"])
    timeline = await read_timeline(bus, gateway.index.store, name)
    if isinstance(timeline, TaskTimeline):
        return Course(task=timeline, archived=await find_archived(bus, timeline.task.created_at))
    goal, results = timeline.goal, await read_results(bus, timeline.goal)
    return Course(
        goal=timeline,
        results=await add_spending(bus, gateway.settings, goal, results),
        archived=await find_archived(bus, goal.submitted_at, goal.ended_at),
    )


async def read_activity(call: Call) -> Activity:
    """What happened inside the tasks of a goal, or inside one task: thoughts, calls, memories, commands."""
    bus, store = call.gateway.bus, call.gateway.index.store
    name = await expand_goal_id(bus, call.path["name"])
    if (goal := store.goal(name)) is not None:
        rows = [
            row for row in store.all_of_goal(name) if row.type in TYPES or row.subject == subjects.goal(name)
        ]
        return build_activity(await read_rows(bus, rows), goal)
    if not store.all_of_task(name, 1):
        raise NotFound(f"There is no goal or task {name[:130]!r}", "'mailroom tasks --all' lists the goals")
    details = await _read_details(call.gateway, name, store.all_of_task(name))
    return Activity(tasks=[details] if details else [])


MOST_MESSAGES = 20_000  # Messages of a goal or task that are read; of a longer one the last part is left out
_KINDS = ("tasks", "task", "mail", "event", "dead", "approval")
_SHOWN = "(" + " OR ".join(f"subject GLOB '{kind}.*'" for kind in _KINDS) + ")"


async def read_rows(bus: Bus, rows: Sequence[MessageRow]) -> list[Stored]:
    """The messages of rows as they are shown, in order; those in bundles that are away are left out."""
    found: list[Stored] = []
    for stream in subjects.LOG:
        read = await read_messages(bus, stream, {row.seq for row in rows if row.stream == stream})
        found += map(restored, read.values())
    return sorted(found, key=place_of)


async def read_timeline(bus: Bus, store: Store, name: str) -> GoalTimeline | TaskTimeline:
    """The timeline of the goal or task ``name``; raises NotFound if there is none."""
    if not TOKEN.fullmatch(name):
        raise NotFound(f"{name[:130]!r} is not an id of a goal or a task", "'mailroom tasks' lists goals")
    if (goal := store.goal(name)) is not None:
        where = f"goal_id = ? AND goal_id != '' AND stream = 0 AND ({_SHOWN} OR subject = ?)"
        rows = store.rows(where, [goal.goal_id, subjects.goal(goal.goal_id)], MOST_MESSAGES)
        for task_id in {row.task_id for row in rows if row.task_id and row.subject.startswith("task.")}:
            rows += [row for row in store.all_of_task(task_id) if row.subject.startswith("task.")]
        timelines, others = build_timelines(await read_rows(bus, rows))
        return GoalTimeline(
            goal=goal,
            took=seconds_between(goal.submitted_at, goal.ended_at),
            tasks=_nest(timelines),
            entries=others,
        )
    steps = [row for row in store.all_of_task(name, MOST_MESSAGES) if row.subject.startswith("task.")]
    if found := await _read_task(bus, store, name, steps):
        return found
    # The goal may wait for the conductor, or have been refused.
    where = "goal_id = ? AND goal_id != '' AND type = 'submission'"
    for stored in await read_rows(bus, store.rows(where, [name], 1)):
        if refusal := await find_dead_letter(bus, subjects.CONDUCTOR, stored.seq):
            raise NotFound(f"The conductor refused the goal {name}: {refusal.reason}")
        raise NotFound(
            f"The goal {name} was submitted and waits for the conductor",
            "'mailroom status' shows whether it runs",
        )
    raise NotFound(f"There is no goal or task {name!r}", "'mailroom tasks --all' lists the goals")


async def _read_task(bus: Bus, store: Store, name: str, steps: Sequence[MessageRow]) -> TaskTimeline | None:
    """The task with what its assignee delegated; None if no message submits it."""
    tasks = _find_tasks(await read_rows(bus, steps))
    if name not in tasks:
        return None
    # Most of what belongs to it names it by its cause, which the index has not: read what passed meanwhile.
    first, last = min(row.seq for row in steps), max(row.seq for row in steps) + subjects.MAX_BATCH
    ended = any(row.subject.rpartition(".")[2] in subjects.FINAL_STEPS for row in steps)
    where = f"goal_id = ? AND stream = 0 AND office >= ? AND office <= ? AND {_SHOWN}"
    span = [tasks[name].goal_id, first, last if ended else 2**53]
    sent = await read_rows(bus, [*steps, *store.rows(where, span, MOST_MESSAGES)])
    timelines, _ = build_timelines(list(_belonging(tasks[name], sent)))
    _nest(timelines)
    return timelines[name]


def _belonging(task: Task, sent: Iterable[Stored]) -> Iterable[Stored]:
    """What belongs to the task and to those that its assignee delegated.

    What counts is the header of a message, never its text, which may quote any id. A submission counts
    before the messages that follow from it, so that messages are tried in the order of the log.
    """
    ids = {task.task_id, task.id}
    for stored in sent:
        summary = summarize(stored.subject, stored.data)
        if summary.task_id in ids or summary.cause in ids:
            if summary.kind == "task":
                ids.update((summary.id, summary.task_id))
            elif summary.kind == "approval":
                ids.add(summary.id)
            yield stored


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


def build_timelines(sent: Sequence[Stored]) -> tuple[dict[str, TaskTimeline], list[TimelineEntry]]:
    """The timeline of each task in these messages, and those messages that belong to none, in order."""
    timelines: dict[str, TaskTimeline] = {}
    for task in _find_tasks(sent).values():
        steps = task_steps(task).removesuffix("*")
        history = [task_state(stored) for stored in sent if stored.subject.startswith(steps)]
        timelines[task.task_id] = _build_timeline(task, history)
    by_envelope = {timeline.task.id: timeline for timeline in timelines.values()}
    others: list[TimelineEntry] = []
    for stored in sent:
        summary = summarize(stored.subject, stored.data)
        if RESENT in stored.headers:
            summary = msgspec.structs.replace(summary, text=f"{summary.text} (sent again by a person)")
        entry = TimelineEntry(time=stored.time, seq=stored.seq, subject=stored.subject, summary=summary)
        owner = timelines.get(entry.summary.task_id) or by_envelope.get(entry.summary.cause)
        (owner.entries if owner else others).append(entry)
    return timelines, others


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


ENDPOINTS = (
    Endpoint("GET", f"{API}/tasks/{{task_id}}", read_task_page, scope=Scope.READ, tag="tasks"),
    Endpoint("GET", f"{API}/courses/{{name:path}}", read_course, scope=Scope.READ, tag="tasks"),
    Endpoint("GET", f"{API}/activity/{{name:path}}", read_activity, scope=Scope.READ, tag="tasks"),
)
