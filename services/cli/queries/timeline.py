"""The story of a goal or a task: everything that was sent for it, gathered from OFFICE and put in order."""

import json
from collections.abc import AsyncIterator, Iterable
from datetime import datetime, timedelta

import msgspec

from services.cli.output.summaries import Sentence, describe
from services.cli.output.times import parse_time, seconds_between
from services.cli.queries.progress import find_refusal
from services.cli.queries.records import last_sequence, read_goal, scan
from shared import subjects
from shared.bus import Bus, Stored
from shared.contracts import TOKEN, Goal, Task, TaskChanged, TaskStatus, decode
from shared.errors import MailroomError
from shared.subjects import MAX_BATCH

SENT = (
    subjects.SUBMIT,
    subjects.task("*", "*"),
    subjects.mail("*", "*"),
    subjects.event("*", ">"),
    subjects.dead("*"),
)
"""What is searched for messages of a goal; the records of its goal and tasks are read by their subjects."""
MARGIN = timedelta(seconds=1)
"""The search begins this much before the first record, since timestamps are those of several processes."""


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """One message of the story."""

    time: str
    seq: int
    subject: str
    said: Sentence


class TaskStory(msgspec.Struct, kw_only=True):
    """A task: how it stands, how long it waited and was worked on (seconds; None: not yet), and its messages.

    ``parts`` are the tasks its assignee handed on.
    """

    task: Task
    status: TaskStatus
    attempts: int = 0
    waited: float | None = None
    worked: float | None = None
    outcome: str = ""
    moments: list[Moment] = []
    parts: list["TaskStory"] = []


class GoalStory(msgspec.Struct, kw_only=True):
    """A goal, its tasks in the order they were handed out, and the messages that belong to no task."""

    goal: Goal
    took: float
    tasks: list[TaskStory] = []
    moments: list[Moment] = []


async def tell(bus: Bus, name: str) -> GoalStory | TaskStory:
    """The story of the goal or task ``name``; raises MailroomError where there is none."""
    if not TOKEN.fullmatch(name):
        raise MailroomError(f"{name[:130]!r} is no id of a goal or a task", "'mailroom tasks' lists goals")
    found = await read_goal(bus, name)
    if found is not None:
        return await _tell_goal(bus, *found)
    records = await _history(bus, subjects.state("*", "*", name))
    if records:
        return await _tell_task(bus, name, records)
    raise await _unknown(bus, name)


async def _tell_goal(bus: Bus, goal: Goal, record: Stored) -> GoalStory:
    sent = await _search(
        bus, goal.goal_id, parse_time(goal.submitted_at), record if goal.status.final else None
    )
    records = await _history(bus, subjects.goal(goal.goal_id))
    handed_out = _tasks_in(sent)
    for task in handed_out.values():
        records += await _history(bus, subjects.state(task.assignee, task.requester, task.task_id))
    moments = sorted(map(_moment, [*sent, *records]), key=lambda moment: moment.seq)
    stories = _stories(handed_out, records, moments)
    return GoalStory(
        goal=goal,
        took=seconds_between(goal.submitted_at, goal.ended_at),
        tasks=_nest(stories),
        moments=[moment for moment in moments if moment.said.task_id not in stories],
    )


async def _tell_task(bus: Bus, task_id: str, records: list[Stored]) -> TaskStory:
    latest = TaskChanged.from_json(records[-1].data)
    sent = await _search(
        bus, task_id, parse_time(records[0].time), records[-1] if latest.task.status.final else None
    )
    handed_out = {**_tasks_in(sent), task_id: latest.task}
    for task in handed_out.values():
        if task.task_id != task_id:
            records += await _history(bus, subjects.state(task.assignee, task.requester, task.task_id))
    moments = sorted(map(_moment, [*sent, *records]), key=lambda moment: moment.seq)
    stories = _stories(handed_out, records, moments)
    _nest(stories)
    return stories[task_id]


# --- gathering -----------------------------------------------------------------------------------


async def _search(bus: Bus, needle: str, begin: datetime, end: Stored | None) -> list[Stored]:
    """Messages that mention an id, from ``begin`` to a little after ``end`` (None: until now)."""
    until = end.seq + MAX_BATCH if end else await last_sequence(bus, subjects.OFFICE)
    found: list[Stored] = []
    for subject in SENT:
        messages = scan(bus, subjects.OFFICE, subject, since=begin - MARGIN, until=until)
        found += [stored async for stored in messages if needle.encode() in stored.data]
    return found


async def _history(bus: Bus, subject: str) -> list[Stored]:
    return [stored async for stored in scan(bus, subjects.OFFICE, subject)]


def _tasks_in(sent: Iterable[Stored]) -> dict[str, Task]:
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


def _moment(stored: Stored) -> Moment:
    return Moment(
        time=stored.time, seq=stored.seq, subject=stored.subject, said=describe(stored.subject, stored.data)
    )


async def _unknown(bus: Bus, name: str) -> MailroomError:
    """Why there is nothing about a name: perhaps it was submitted, and not taken up or refused."""
    async for stored in _submissions(bus, name):
        refusal = await find_refusal(bus, subjects.CONDUCTOR, stored.seq)
        if refusal is not None:
            return MailroomError(f"The conductor refused the goal {name}: {refusal.reason}")
        return MailroomError(
            f"The goal {name} was submitted and waits for the conductor",
            "'mailroom status' shows whether it runs",
        )
    return MailroomError(f"There is no goal or task {name}", "'mailroom tasks --all' lists the goals")


async def _submissions(bus: Bus, name: str) -> AsyncIterator[Stored]:
    async for stored in scan(bus, subjects.OFFICE, subjects.SUBMIT):
        if name.encode() in stored.data and json.loads(stored.data).get("goal_id") == name:
            yield stored


# --- putting in order ----------------------------------------------------------------------------


def _stories(
    tasks: dict[str, Task], records: Iterable[Stored], moments: Iterable[Moment]
) -> dict[str, TaskStory]:
    histories: dict[str, list[tuple[str, TaskChanged]]] = {task_id: [] for task_id in tasks}
    for stored in records:
        if not stored.subject.startswith(subjects.goal("")):
            change = TaskChanged.from_json(stored.data)
            histories[change.task.task_id].append((stored.time, change))
    stories = {task_id: _story(task, histories[task_id]) for task_id, task in tasks.items()}
    for moment in moments:
        if moment.said.task_id in stories:
            stories[moment.said.task_id].moments.append(moment)
    return stories


def _story(task: Task, history: list[tuple[str, TaskChanged]]) -> TaskStory:
    if not history:
        return TaskStory(task=task, status=task.status, moments=[], parts=[])
    # Sent again by a person, a task begins anew.
    begin = max((at for at, (_, change) in enumerate(history) if not change.attempt), default=0)
    issued, last = history[begin][0], history[-1][1]
    claimed = next((time for time, change in history[begin:] if change.attempt), "")
    ended = next((time for time, change in history[begin:] if change.task.status.final), "")
    return TaskStory(
        task=task,
        status=last.task.status,
        attempts=last.attempt,
        waited=seconds_between(issued, claimed or ended),
        worked=seconds_between(claimed, ended) if claimed else None,
        outcome=(last.result.error_message or last.result.output) if last.result else last.note,
        moments=[],
        parts=[],
    )


def _nest(stories: dict[str, TaskStory]) -> list[TaskStory]:
    """The tasks that nobody of them handed on; the others become parts of the ones they are caused by."""
    by_envelope = {story.task.id: story for story in stories.values()}
    roots: list[TaskStory] = []
    for story in stories.values():
        parent = by_envelope.get(story.task.cause)
        (parent.parts if parent else roots).append(story)
    return roots
