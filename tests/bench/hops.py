"""Where the time of a task or a goal goes: the moments at which the stream stored each step of it."""

import json
import statistics
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from shared import subjects
from shared.bus import Bus, Stored
from shared.contracts import Goal, StateChanged, TaskStatus

PAGE = 500


class Mark(NamedTuple):
    """Something happened ``at`` this moment, in seconds since 1970."""

    what: str
    at: float


Trace = Sequence[Mark]
"""The marks of one task or goal, in their order."""


def took(trace: Trace, first: str, last: str) -> float:
    """Seconds between two marks."""
    at = {mark.what: mark.at for mark in trace}
    return at[last] - at[first]


def typical_hops(traces: Sequence[Trace]) -> dict[str, float]:
    """The median seconds from each mark to the next, for the marks that all of ``traces`` have."""
    names = [mark.what for mark in traces[0] if all(mark.what in {m.what for m in t} for t in traces)]
    return {
        f"{first} -> {last}": statistics.median(took(trace, first, last) for trace in traces)
        for first, last in pairwise(names)
    }


async def trace_task(bus: Bus, assignee: str, requester: str, task_id: str) -> list[Mark]:
    """When a task was handed out, claimed and done."""
    names = {**dict.fromkeys(subjects.NEW.values(), "handed out"), subjects.CLAIMED: "claimed"}
    steps = read_all(bus, subjects.OFFICE, subjects.task(assignee, requester, task_id, "*"))
    return [
        Mark(names.get(step.subject.rpartition(".")[2], "done"), stored_at(step))
        async for step in steps
        if not step.subject.endswith(subjects.NOTED)
    ]


async def trace_goal(bus: Bus, goal_id: str) -> list[Mark]:
    """What became of a goal of one task, from its submission to its last record."""
    marks = [
        Mark("submitted", stored_at(message))
        async for message in read_all(bus, subjects.OFFICE, subjects.SUBMIT)
        if json.loads(message.data)["goal_id"] == goal_id
    ]
    goals: dict[str, Goal] = {}
    async for record in read_all(bus, subjects.OFFICE, subjects.goal(goal_id)):
        change = StateChanged.from_json(record.data)
        assert change.goal is not None
        what = "ended" if change.goal.status.final else f"goal {change.state}"
        goals[what] = change.goal
        marks.append(Mark(what, stored_at(record)))
    goal = goals["ended"]
    assert goal.status is TaskStatus.COMPLETED, goal.reason
    (task,) = goal.tasks
    for name, assignee, task_id in (
        ("task", task.assignee, task.task_id),
        ("review", subjects.CRITIC, goal.review_task_id),
    ):
        steps = await trace_task(bus, assignee, subjects.CONDUCTOR, task_id)
        marks += [Mark(f"{name} {what}", at) for what, at in steps]
    # The order of two marks of one commit is theirs in the stream; sorted() keeps it.
    return sorted([*marks, *await _memory_marks(bus, marks)], key=lambda mark: mark.at)


async def _memory_marks(bus: Bus, marks: Trace) -> list[Mark]:
    """What memory was told in the end; goals are measured one after another, so the time tells whose."""
    at = {mark.what: mark.at for mark in marks}
    found = []
    for what, stream, subject in (
        ("report written", subjects.MEMORY, subjects.memory_write(subjects.CONDUCTOR)),
        ("remembered", subjects.OFFICE, subjects.GRAPH_VERSION),
    ):
        times = [stored_at(message) async for message in read_all(bus, stream, subject)]
        found += [Mark(what, time) for time in times if at["review done"] < time < at["ended"]][:1]
    return found


async def read_all(bus: Bus, stream: str, pattern: str) -> AsyncIterator[Stored]:
    """Everything a stream holds on subjects that fit, oldest first."""
    first = 1
    while True:
        request = {"seq": first, "batch": PAGE, "next_by_subj": pattern}
        page = [message async for message in bus.read(stream, request)]
        if not page:
            return
        for message in page:
            yield message
        first = page[-1].seq + 1


def stored_at(message: Stored) -> float:
    """When the server stored a message, in seconds since 1970."""
    return datetime.fromisoformat(message.time).timestamp()
