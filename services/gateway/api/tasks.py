"""What happened in a goal or task: everything on record of a task, the course, what was done inside."""

from collections.abc import Sequence

import msgspec

from services.gateway.api.messages import API
from services.gateway.call import Call, Gateway
from services.gateway.index.courses import read_sent
from services.gateway.index.rows import MessageRow
from services.gateway.pages.task_details import build_activity
from services.gateway.pages.timeline import read_messages, read_timeline
from services.gateway.problems import not_found
from services.gateway.routing import Endpoint
from shared import subjects
from shared.access.scopes import Scope
from shared.errors import NotFound
from shared.queries.results import add_spending, expand_goal_id, read_results
from shared.trail.archives import find_archived
from shared.views.activity import Activity, TaskDetails
from shared.views.timeline import Course, TaskTimeline

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
    answers = [row for goal_id in sorted(goal_ids)[:1] for row in _answers(gateway, goal_id)]
    activity = build_activity(await read_messages(gateway.bus, [*wanted, *answers]))
    return next((each for each in activity.tasks if each.task_id == task_id), None)


def _answers(gateway: Gateway, goal_id: str) -> list[MessageRow]:
    """People's answers in the goal, which do not name the task."""
    rows, _ = read_sent(gateway.index.store, goal_id, ("approval",), 200)
    return [row for row in rows if ".answered." in row.subject]


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
        return build_activity(await read_messages(bus, rows), goal)
    if not store.all_of_task(name, 1):
        raise NotFound(f"There is no goal or task {name[:130]!r}", "'mailroom tasks --all' lists the goals")
    details = await _read_details(call.gateway, name, store.all_of_task(name))
    return Activity(tasks=[details] if details else [])


ENDPOINTS = (
    Endpoint("GET", f"{API}/tasks/{{task_id}}", read_task_page, scope=Scope.READ, tag="tasks"),
    Endpoint("GET", f"{API}/courses/{{name:path}}", read_course, scope=Scope.READ, tag="tasks"),
    Endpoint("GET", f"{API}/activity/{{name:path}}", read_activity, scope=Scope.READ, tag="tasks"),
)
