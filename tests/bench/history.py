"""Tasks of the past: the stream as it is after so many of them, without having them done."""

from collections.abc import Iterator

import msgspec

from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import submission_entries
from shared.contracts import TaskChanged, TaskResult, TaskStatus, generate_id
from tests.bench.ground import commit_all, noop_task

REQUESTER, ASSIGNEE = "scout", "critic"
"""Who is made to have worked: no process of theirs runs here."""
PER_TASK = 5
"""Messages that a task leaves behind: two when it is handed out, one when it is claimed, two at its end."""
MARK = "task-of-the-past"


async def write_history(bus: Bus, count: int) -> None:
    """Store what ``count`` tasks leave behind, in as few commits as the limit allows, as ``REQUESTER``."""
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
    """What one task leaves behind: as many messages of the same size, all under its requester's name."""
    task = msgspec.structs.replace(noop_task(MARK, REQUESTER), assignee=ASSIGNEE)
    yield from submission_entries(task, REQUESTER)
    state = subjects.state(ASSIGNEE, REQUESTER, MARK)
    begun = msgspec.structs.replace(task, status=TaskStatus.IN_PROGRESS)
    yield seal(state, TaskChanged(task=begun, worker="0" * 12, attempt=1))
    result = TaskResult(
        recipient=REQUESTER, task_id=MARK, agent=ASSIGNEE, status=TaskStatus.COMPLETED, output="done"
    )
    ended = msgspec.structs.replace(task, status=TaskStatus.COMPLETED)
    yield seal(state, TaskChanged(task=ended, worker="0" * 12, attempt=1, result=result))
    yield seal(subjects.mail(ASSIGNEE, REQUESTER), result)


def _renamed(entry: Entry, name: str) -> Entry:
    payload = entry.payload.replace(MARK.encode(), name.encode())
    return Entry(entry.subject.replace(MARK, name), payload, generate_id())
