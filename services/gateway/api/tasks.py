"""One task: everything that is on record of it."""

import asyncio

import msgspec

from services.gateway.api.messages import API
from services.gateway.context import Call, Gateway
from services.gateway.index.courses import read_sent
from services.gateway.index.rows import MessageRow
from services.gateway.problems import not_found
from services.gateway.routing import Endpoint
from services.gateway.security.scopes import Scope
from shared.bus import Stored
from shared.queries.task_details import TaskDetails, build_activity
from shared.trail.archives import read_message

MAX_MESSAGES = 2_000
"""Messages of a task that are read; of a longer one the last part is left out."""
AT_ONCE = 40
"""Messages that are asked for side by side."""
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
    wanted = [row for row in rows[:MAX_MESSAGES] if row.type in TYPES]
    goal_ids = {row.goal_id for row in wanted if row.goal_id}
    answers = [row for goal_id in sorted(goal_ids)[:1] for row in _answers(gateway, goal_id)]
    activity = build_activity(await _read(gateway, [*wanted, *answers]))
    found = [each for each in activity.tasks if each.task_id == task_id]
    if not found:
        raise not_found(f"task {task_id[:130]!r} that was submitted")
    return TaskPage(
        details=found[0],
        messages=rows[:MAX_MESSAGES],
        truncated=len(rows) > MAX_MESSAGES,
        position=position,
    )


def _answers(gateway: Gateway, goal_id: str) -> list[MessageRow]:
    """People's answers in the goal, which do not name the task."""
    rows, _ = read_sent(gateway.index.store, goal_id, ("approval",), 200)
    return [row for row in rows if ".answered." in row.subject]


async def _read(gateway: Gateway, rows: list[MessageRow]) -> list[Stored]:
    found: list[Stored] = []
    for start in range(0, len(rows), AT_ONCE):
        page = rows[start : start + AT_ONCE]
        read = await asyncio.gather(*(read_message(gateway.bus, row.stream, row.seq) for row in page))
        found += [stored for stored in read if stored is not None]
    return found


ENDPOINTS = (Endpoint("GET", f"{API}/tasks/{{task_id}}", read_task_page, scope=Scope.READ, tag="tasks"),)
