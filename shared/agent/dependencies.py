"""Dependencies: a task that ``depends_on`` others begins when these have completed."""

import asyncio
import time
from collections.abc import Mapping

from shared import subjects
from shared.bus import Bus, Delivery
from shared.bus.consumer import yield_slot
from shared.bus.records import TaskState, read_task, read_task_state
from shared.clock import parse_timestamp
from shared.contracts import Task, TaskResult, TaskStatus
from shared.errors import Postponed

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
"""Seconds between two looks at what a task waits for: the first and, after doubling, the longest."""
MISSING_WAIT = 600.0
"""Seconds after its submission until a task without a deadline fails if what it depends on is missing."""
WAIT = Task(task_id="wait", text="wait", assignee="nobody", requester="nobody").result(
    "nobody", TaskStatus.PENDING, output=""
)
"""Stands for: it cannot begin yet."""
CURE = (
    "depends_on names tasks of the same requester for the same agent, since no agent can read the results of "
    "others; have several agents work together by a goal on tasks.submit, or submit this task when that one "
    "has ended"
)


async def wait_for_dependencies(bus: Bus, delivery: Delivery, task: Task) -> TaskResult | None:
    """Wait, without taking a slot, until what ``task`` depends on has completed.

    Returns None if it may begin, or its result if it never can: one of the others failed, or the time is up.
    Raises Postponed if it may begin now but had to wait: its slot belongs to another by then. The conductor
    hands out its tasks when they may begin, so these do not wait.
    """
    if not task.depends_on or task.requester == subjects.CONDUCTOR:
        return None
    prospect = await _look(bus, delivery, task)
    if prospect is not WAIT:
        return prospect
    pause = FIRST_PAUSE
    async with yield_slot(unbegun=True):
        while prospect is WAIT:
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)
            own = await read_task(bus, task)
            prospect = None if own is not None and own.status.final else await _look(bus, delivery, task)
    if prospect is None:
        raise Postponed("what it depends on has completed by now")
    return prospect


async def _look(bus: Bus, delivery: Delivery, task: Task) -> TaskResult | None:
    """WAIT, or what wait_for_dependencies returns."""
    states: dict[str, TaskState | None] = {}
    reason = ""
    for name in dict.fromkeys(task.depends_on):
        try:
            states[name] = await read_task_state(bus, task.assignee, task.requester, name)
        except ValueError as error:
            reason = f"it depends on {name}, which cannot be read: {error}"
    if reason := reason or _find_failure(task, states):
        return task.result(bus.name, TaskStatus.FAILED, output="", error_message=reason[:4_000])
    waiting = [name for name, state in states.items() if state is None or not state.status.final]
    if not waiting:
        return None
    missing = next((name for name in waiting if states[name] is None), "")
    if not _is_overdue(task, delivery, missing):
        return WAIT
    reason = f"its deadline passed before {waiting[0]} had ended, on which it depends"
    if missing:
        reason = (
            f"it depends on {missing}, which {task.requester} has not submitted to {task.assignee}. {CURE}"
        )
    return task.result(bus.name, TaskStatus.TIMEOUT, output="", error_message=reason)


def _find_failure(task: Task, states: Mapping[str, TaskState | None]) -> str:
    if task.task_id in states:
        return "it depends on itself"
    for name, state in states.items():
        if state is not None and state.status.final and state.status != TaskStatus.COMPLETED:
            why = state.result.error_message if state.result else ""
            return f"it depends on {name}, which ended as {state.status}: {why}".rstrip(": ")
    return ""


def _is_overdue(task: Task, delivery: Delivery, missing: str) -> bool:
    if task.deadline:
        return time.time() >= parse_timestamp(task.deadline).timestamp()
    return bool(missing) and time.time() >= delivery.stored_at / 1e9 + MISSING_WAIT
