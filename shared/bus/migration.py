"""Brings the tasks of an office of an earlier version to the present subjects.

There a task was a record on ``state.<assignee>.<requester>.<id>``, a message on
``task.<assignee>.<requester>`` and, once it ended, a result by mail. Nothing is deleted: the old messages
stay in OFFICE and in the audit log.
"""

import contextlib
import json
from collections.abc import Sequence

from shared import subjects
from shared.bus.connection import Bus
from shared.bus.entry import Entry
from shared.bus.records import read_task, step_entry, submission_entry
from shared.contracts import Task, TaskChanged, TaskRecordV1, TaskResult, TaskStatus, generate_id
from shared.contracts.base import amended
from shared.errors import BusError, Conflict

OLD_SUBJECTS = ("task.*.*", "state.>")
"""Subjects of OFFICE before; the presence of the first says that tasks are to be migrated."""
OLD_RECORDS = "state.*.*.*"
MIGRATED = "Mailroom-Migrated"
"""The header of steps that were taken before the migration: nobody acts on them again."""
PAGE = 200
"""Records per request; the server allows 1,024 subjects."""


async def migrate_tasks(bus: Bus) -> list[str]:
    """Write the present state of every task on its new subjects, as the admin; returns a line for the log.

    Can be interrupted and repeated at any point: what is written already stays. Raises BusError.
    """
    names = await _old_records(bus)
    floors = {name: await _handled(bus, name) for name in {name.split(".")[2] for name in names}}
    moved = 0
    for begin in range(0, len(names), PAGE):
        request = {"multi_last": names[begin : begin + PAGE], "batch": PAGE}
        ended: list[Entry] = []
        async for stored in bus.read(subjects.OFFICE, request):
            record = TaskRecordV1.from_json(stored.data)
            if await read_task(bus, record.task) is None and record.task.status.final:
                floor = floors.get(record.task.requester, 0)
                ended += _ended_entries(record, known=stored.seq < floor)
            elif not record.task.status.final:
                await _submit(bus, record)
            moved += 1
        await bus.commit(ended)
    return [f"moved {moved} tasks to the subjects of this version"] if moved else []


async def _old_records(bus: Bus) -> Sequence[str]:
    names: list[str] = []
    while True:
        request = json.dumps({"subjects_filter": OLD_RECORDS, "offset": len(names)}).encode()
        info = json.loads(await bus.request(f"$JS.API.STREAM.INFO.{subjects.OFFICE}", request, timeout=30.0))
        if error := info.get("error"):
            raise BusError(f"The tasks of the office could not be listed: {error.get('description')}")
        page = info["state"].get("subjects") or {}
        names += page
        if not page or len(names) >= int(info.get("total") or 0):
            return names


async def _handled(bus: Bus, name: str) -> int:
    """The sequence up to which the mailbox of ``name`` is handled; 0 if it has none."""
    info = json.loads(await bus.request(f"$JS.API.CONSUMER.INFO.{subjects.OFFICE}.{name}"))
    return int(info.get("ack_floor", {}).get("stream_seq", 0))


def _ended_entries(record: TaskRecordV1, *, known: bool) -> list[Entry]:
    """The submission and the end of a task that has ended; ``known``: its requester handled that."""
    task = amended(record.task, status=TaskStatus.PENDING)
    result = record.result or _missing_result(record)
    step = subjects.CANCELLED if result.sender == task.requester else subjects.ENDED
    submitted, end = submission_entry(task), step_entry(task, step, result, 0)
    headers = {MIGRATED: "1"}
    # Under an id of its own: the result's is that of the mail by which it was sent.
    end = end._replace(id=generate_id(), expect=None, guard="", headers=headers if known else None)
    return [submitted._replace(headers=headers), end]


def _missing_result(record: TaskRecordV1) -> TaskResult:
    task, reason = record.task, record.note or "its requester ended it"
    fields = {"sender": task.requester, "output": "", "error_message": reason, "attempt": record.attempt}
    return task.result(task.assignee, record.task.status, **fields)


async def _submit(bus: Bus, record: TaskRecordV1) -> None:
    """Submit a task that goes on; its earlier attempts and their effects stay known."""
    task: Task = amended(record.task, status=TaskStatus.PENDING)
    with contextlib.suppress(Conflict):  # it was submitted by a migration that was interrupted
        await bus.commit([submission_entry(task)])
    state = await read_task(bus, task)
    if state is None or state.status is not TaskStatus.PENDING or not record.attempt:
        return
    earlier = TaskChanged(
        sender=task.assignee,
        recipient=task.requester,
        cause=task.id,
        goal_id=task.goal_id,
        task_id=task.task_id,
        origin=state.seq,
        attempt=record.attempt,
        worker=record.worker,
        note=record.note,
        journal=record.journal,
    )
    await bus.commit([step_entry(task, subjects.NOTED, earlier, state.seq)])
