"""Trains of thought, stored page by page so that another attempt at a task goes on with them."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import Thinking
from shared.errors import Reject
from shared.llm.protocol import Message, Usage
from shared.reasoning.ports import Checkpoint
from shared.tasks.context import TaskContext


class Checkpoints:
    """The train of thought of one task, page by page, so that another attempt goes on with it."""

    def __init__(self, bus: Bus, job: TaskContext, key: str) -> None:
        self._bus = bus
        self._job = job
        self._key = key
        self._pages = 0

    async def write(self, note: str, page: Checkpoint) -> None:
        """Store the next page together with a note of progress; raises Conflict where the claim is lost."""
        stored = Thinking(
            sender=self._bus.name,
            goal_id=self._job.task.goal_id,
            task_id=self._job.task.task_id,
            steps=page.steps,
            messages=tuple(msgspec.to_builtins(message) for message in page.messages),
            usage=msgspec.to_builtins(page.usage),
            spent=msgspec.to_builtins(self._job.usage),
            evidence_refs=page.evidence_refs,
            output_paths=page.output_paths,
            doubts=page.doubts,
        )
        await self._job.progress(note, [seal(self._subject(self._pages), stored, expect=0)])
        self._pages += 1

    async def read(self) -> AsyncIterator[Checkpoint]:
        """The pages that earlier attempts stored; what they took counts for the task."""
        while self._job.attempt > 1:
            stored = await self._bus.last(subjects.OFFICE, self._subject(self._pages))
            if stored is None:
                return
            self._pages += 1
            page = Thinking.from_json(stored.data)
            self._job.recover(msgspec.convert(page.spent, Usage))
            self._job.doubt(*page.doubts)
            yield Checkpoint(
                messages=tuple(msgspec.convert(message, Message) for message in page.messages),
                steps=page.steps,
                usage=msgspec.convert(page.usage, Usage),
                evidence_refs=page.evidence_refs,
                output_paths=page.output_paths,
                doubts=page.doubts,
            )

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Name what an action hands out after the step (see TaskContext.scope), note what is left open."""
        with self._job.scope(f"{self._key}-{name}"):
            try:
                yield
            except Reject as doubt:
                self._job.doubt(str(doubt))
                raise

    def _subject(self, page: int) -> str:
        task = self._bus.derive_id("thinking", self._job.task.task_id, self._job.task.id, self._key)
        return subjects.record(self._bus.name, "thinking", f"{task}-{page}")
