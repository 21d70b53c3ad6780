"""Records: the last message on a subject is a record's state, and writes are guarded by compare-and-set."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from shared import subjects
from shared.bus.connection import Bus
from shared.bus.entry import Entry, Stored, seal
from shared.contracts import (
    Contract,
    Presence,
    Task,
    TaskChanged,
    TaskResult,
    TaskStatus,
    generate_id,
    generate_iso_timestamp,
)
from shared.contracts.base import amended
from shared.errors import Conflict
from shared.log import logger

log = logger(__name__)

T = TypeVar("T")
C = TypeVar("C", bound=Contract)

CONFLICT_TRIES = 8
"""How often a write that lost a race is tried before its Conflict is raised."""


class Record(NamedTuple, Generic[T]):
    """A record's last state; ``seq`` is its stream sequence, which the next write expects."""

    value: T
    seq: int
    stored_at: str


async def read_record(
    bus: Bus, subject: str, kind: type[C], *, stream: str = subjects.OFFICE
) -> Record[C] | None:
    """The last state on ``subject``, None if there is none.

    Raises BusError, and ValueError if what is stored there is no ``kind``.
    """
    stored = await bus.last(stream, subject)
    if stored is None or not stored.data:
        return None
    return Record(kind.from_json(stored.data), stored.seq, stored.time)


async def retry_on_conflict(
    attempt: Callable[[], Awaitable[T]], *, tries: int = CONFLICT_TRIES, pause: float = 0.0
) -> T:
    """Call ``attempt``, which reads, changes and commits, until it raises no Conflict.

    Between two calls it waits at random up to ``pause`` seconds. Raises the last Conflict after ``tries``.
    """
    for _ in range(tries - 1):
        try:
            return await attempt()
        except Conflict:
            if pause:
                await asyncio.sleep(random.uniform(0, pause))  # noqa: S311  # spreads load, keeps no secret
    return await attempt()


# --- tasks ---------------------------------------------------------------------------------------


def task_subject(task: Task) -> str:
    """The subject of a task's record."""
    return subjects.state(task.assignee, task.requester, task.task_id)


async def read_task(bus: Bus, task: Task) -> Record[TaskChanged] | None:
    """The record of ``task``, None if it was never submitted."""
    return await read_record(bus, task_subject(task), TaskChanged)


async def cancel_task(bus: Bus, task: Task, reason: str, *, unsubmitted: bool = False) -> TaskResult | None:
    """End ``task`` as cancelled in its record: its worker stops within seconds, and no one starts it.

    Returns the result that was stored; None if the task had ended, another task has its id, or it was never
    submitted. If ``unsubmitted``, a task that was never submitted gets a final record. Raises BusError.
    """

    async def attempt() -> TaskResult | None:
        record = await read_task(bus, task)
        if record is None and not unsubmitted:
            return None
        before = record.value if record else TaskChanged(task=task)
        if before.task.status.final or before.task.cause != task.cause:
            return None
        ended = cancelled_record(before, reason)
        await bus.commit([seal(task_subject(task), ended, expect=record.seq if record else 0)])
        return ended.result

    return await retry_on_conflict(attempt)


def submission_entries(task: Task, sender: str) -> list[Entry]:
    """The entries that submit ``task``: its record first, then the task itself."""
    record = TaskChanged(
        sender=sender, recipient=task.assignee, cause=task.id, goal_id=task.goal_id, task=task
    )
    return [
        seal(task_subject(task), record, expect=0),
        seal(subjects.task(task.assignee, task.requester), task),
    ]


def cancelled_record(record: TaskChanged, reason: str) -> TaskChanged:
    """The final record, with its result, of a task that its requester cancels."""
    task = record.task
    result = task.result(
        task.assignee, TaskStatus.CANCELLED, sender=task.requester, output="", error_message=reason
    )
    return amended(
        record,
        id=generate_id(),
        created_at=generate_iso_timestamp(),
        sender=task.requester,
        recipient=task.requester,
        task=amended(task, status=TaskStatus.CANCELLED),
        note=reason,
        result=result,
    )


# --- presence ------------------------------------------------------------------------------------


async def read_presences(bus: Bus) -> list[Presence]:
    """The presence of every process of every agent at work, by agent and start; raises BusError.

    What an agent wrote that is no presence, or is another's, is left out.
    """
    stream = subjects.bucket_stream(subjects.AGENTS_BUCKET)
    request = {"multi_last": [subjects.presence("*", "*")], "batch": 1_000}
    found = [_presence_in(stored) async for stored in bus.read(stream, request)]
    return sorted(filter(None, found), key=lambda presence: (presence.agent, presence.started_at))


async def read_presence(bus: Bus, agent: str) -> Presence | None:
    """The presence of one process of ``agent``, None if none is at work; raises BusError."""
    stream = subjects.bucket_stream(subjects.AGENTS_BUCKET)
    stored = await bus.last(stream, subjects.presence(agent, "*"))
    return _presence_in(stored) if stored else None


def _presence_in(stored: Stored) -> Presence | None:
    """The presence that its own agent, which the subject names, wrote; None if it is something else."""
    try:
        presence = Presence.from_json(stored.data) if stored.data else None
    except ValueError as error:
        log.warning("presence_unreadable", subject=stored.subject, reason=str(error))
        return None
    if presence is not None and stored.subject != subjects.presence(presence.agent, presence.instance):
        log.warning("presence_of_another", subject=stored.subject, agent=presence.agent)
        return None
    return presence
