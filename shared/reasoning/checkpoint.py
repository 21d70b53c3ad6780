"""Checkpoints of an agent loop, stored as records so that another attempt at a task resumes from them."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.contracts import LoopCheckpoint
from shared.errors import Reject
from shared.llm.protocol import Usage
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
        return self._bus.derive_id("thinking", self._task.task.task_id, self._task.task.id, self._key)

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
        return subjects.record(self._bus.name, "thinking", f"{self.loop}-{number}")
