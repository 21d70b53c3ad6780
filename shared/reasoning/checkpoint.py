"""Checkpoints of an agent loop, stored as records so that another attempt at a task resumes from them."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import read_record, read_submitted
from shared.contracts import LoopCheckpoint, Task
from shared.errors import Reject
from shared.llm.protocol import Message, Usage
from shared.reasoning.conversation import Conversation
from shared.reasoning.loop import Checkpoint
from shared.reasoning.spending import DailyUsage
from shared.tasks.context import TaskContext


class Checkpoints:
    """The checkpoints of one agent loop of a task, each a record of its own."""

    def __init__(self, bus: Bus, task: TaskContext, key: str, usage: DailyUsage) -> None:
        self._bus = bus
        self._usage = usage
        self._task = task
        self._key = key
        self._count = 0

    @property
    def loop(self) -> str:
        """The id of the loop."""
        return _loop_id(self._bus, self._task.task, self._key)

    async def write(self, note: str, checkpoint: Checkpoint) -> None:
        """Store the next checkpoint together with a progress note and the day's usage.

        Raises Conflict if the claim is lost.
        """
        stored = LoopCheckpoint(
            sender=self._bus.name,
            goal_id=self._task.task.goal_id,
            task_id=self._task.task.task_id,
            spent=msgspec.to_builtins(self._task.usage),
            **msgspec.to_builtins(checkpoint),
        )
        entry = seal(self._subject(self._count), stored, expect=0)
        await self._usage.store_with(lambda others: self._task.progress(note, [entry, *others]))
        self._count += 1

    async def read(self) -> AsyncIterator[Checkpoint]:
        """The checkpoints of earlier attempts; the usage they report counts for the task."""
        while self._task.attempt > 1:
            record = await read_record(self._bus, self._subject(self._count), LoopCheckpoint)
            if record is None:
                return
            self._count += 1
            checkpoint = record.value
            self._task.restore_usage(msgspec.convert(checkpoint.spent, Usage))
            self._task.add_uncertain(*checkpoint.doubts)
            yield msgspec.convert(checkpoint.to_dict(), Checkpoint)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A scope (see TaskContext.scope): ids derive from the step's name, so that a repeat finds the same.

        A Reject raised inside is recorded in the task as an effect that may have happened.
        """
        with self._task.scope(f"{self._key}-{name}"):
            try:
                yield
            except Reject as doubt:
                self._task.add_uncertain(str(doubt))
                raise

    def _subject(self, number: int) -> str:
        return _subject(self._bus, self.loop, number)


def _loop_id(bus: Bus, task: Task, key: str) -> str:
    return bus.derive_id("thinking", task.task_id, task.id, key)


def _subject(bus: Bus, loop: str, number: int) -> str:
    return subjects.record(bus.name, "thinking", f"{loop}-{number}")


# --- a conversation that ended, and is gone on with ---------------------------------------------------

HANDED_OVER = "It was handed over, and reviewed."


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation that ended, as the model last had it.

    ``key`` is the id of the task that it began with; ``evidence_refs`` are what it came across.
    """

    key: str
    messages: tuple[Message, ...]
    persona: str = ""
    evidence_refs: tuple[str, ...] = ()


async def read_talk(bus: Bus, task: Task, key: str = "t-1") -> Talk | None:
    """The conversation that ``task`` continues: that of the loop ``key`` of an earlier task of this agent.

    It is the same in every attempt. None if it continues none, or if a part of it is not there any more.
    """
    earlier = task.continues and await read_submitted(bus, task.assignee, task.requester, task.continues)
    if not earlier:
        return None
    before = await read_talk(bus, earlier, key)
    pages: list[LoopCheckpoint] = []
    loop = _loop_id(bus, earlier, key)
    while record := await read_record(bus, _subject(bus, loop, len(pages)), LoopCheckpoint):
        pages.append(record.value)
    if not pages or not pages[0].task or (earlier.continues and before is None):
        return None
    last = pages[-1]
    whole = Conversation(pages[0].task, before.messages if before else (), sys.maxsize)
    whole.restore([msgspec.convert(each, Message) for page in pages for each in page.messages])
    whole.summary, whole.summed = last.summary, last.summed
    for call in whole.unanswered() or ():
        whole.add_result(call, HANDED_OVER)
    return Talk(
        key=before.key if before else earlier.task_id,
        messages=tuple(whole.shortened()),
        persona=pages[0].persona,
        evidence_refs=(*(before.evidence_refs if before else ()), *last.evidence_refs),
    )
