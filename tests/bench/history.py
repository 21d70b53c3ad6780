"""Tasks of the past: the stream as it is after so many of them, without having them done."""

from collections.abc import Iterator

import msgspec

from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.records import step_entry, submission_entry
from shared.contracts import TaskChanged, TaskStatus, generate_id
from tests.bench.ground import commit_all, noop_task

WORKER = "scout"
"""The agent that is made to have worked: no process of it runs here."""
PER_TASK = 3
"""Messages that a task leaves behind: one when it is submitted, one when it is claimed, one at its end."""
MARK = "task-of-the-past"


async def write_history(bus: Bus, count: int) -> None:
    """Store what ``count`` tasks leave behind, in as few commits as the limit allows, as ``WORKER``."""
    life = list(_life())
    assert len(life) == PER_TASK
    entries = []
    for _ in range(count):
        name = generate_id()
        entries += [_renamed(entry, name) for entry in life]
        if len(entries) + PER_TASK > subjects.MAX_BATCH:
            await commit_all(bus, entries)
            entries = []
    await commit_all(bus, entries)


def _life() -> Iterator[Entry]:
    """What one task leaves behind, when ``WORKER`` gives it to itself and does it."""
    task = msgspec.structs.replace(noop_task(MARK, WORKER), assignee=WORKER)
    yield submission_entry(task)
    yield step_entry(
        task, subjects.CLAIMED, TaskChanged(task_id=MARK, origin=1, attempt=1, worker="0" * 12), 0
    )
    result = task.result(WORKER, TaskStatus.COMPLETED, output="done", attempt=1)
    yield step_entry(task, subjects.ENDED, result, 0)


def _renamed(entry: Entry, name: str) -> Entry:
    payload = entry.payload.replace(MARK.encode(), name.encode())
    return Entry(entry.subject.replace(MARK, name), payload, generate_id())
