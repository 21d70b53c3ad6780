"""Claims on tasks: taken, updated and finished by compare-and-set on the task's record."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from shared import subjects
from shared.bus.connection import Bus
from shared.bus.consumer import BUS_FULL_PAUSE
from shared.bus.entry import Delivery, Entry, seal
from shared.bus.records import read_task, task_subject
from shared.contracts import (
    DeadLetter,
    Effect,
    Task,
    TaskChanged,
    TaskResult,
    TaskStatus,
    generate_id,
    generate_iso_timestamp,
)
from shared.contracts.base import amended
from shared.errors import BusFull, Conflict, Reject
from shared.log import logger

CLAIM_TRIES = 3
"""Attempts at a claim that loses races, before it is left to the other process."""

log = logger(__name__)


class Claim:
    """The claim of one process on a task; ``attempt`` counts the claims so far, this one included.

    The next claim on the task takes it over: every later write of this one is refused whole with Conflict,
    the result mail together with the record. A write waits while the bus is full, because nothing else knows
    what was done.
    """

    def __init__(self, bus: Bus, task: Task, record: TaskChanged, seq: int) -> None:
        self.task = task
        self.record = record
        self._bus = bus
        self._seq = seq
        self._earlier = record.journal
        self._writing = asyncio.Lock()

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self.record.attempt

    async def note(self, text: str, others: Sequence[Entry] = ()) -> None:
        """Store a progress note and ``others`` in the record; raises Conflict if the claim is lost."""
        await self._advance(note=text[:500], others=others)

    @asynccontextmanager
    async def effect(self, what: str, *, repeatable: bool = False, step: str = "") -> AsyncIterator[None]:
        """Record an effect outside the office in the task's journal, before it happens and after.

        Unless it is ``repeatable``, raises Reject if an earlier attempt began the same effect and did not
        finish it (it may have happened, so a person has to check), or finished it in the same ``step`` (it
        would be repeated only because its outcome was not stored).
        """
        for effect in self._earlier:
            if effect.what == what and not effect.repeatable and not effect.finished_at:
                raise Reject(
                    f"An earlier attempt was interrupted while it did this: {what}. It may or may not have "
                    "taken effect, so it is not repeated. Check that, then submit the task again if needed"
                )
            if effect.what == what and not effect.repeatable and effect.step == step:
                raise Reject(
                    "An earlier attempt did this, and was interrupted before its outcome was stored: "
                    f"{what}. It is not repeated"
                )
        begun = Effect(what=what, repeatable=repeatable, step=step, started_at=generate_iso_timestamp())
        await self._advance(note=what[:500], begun=begun)
        yield
        done = msgspec.structs.replace(begun, finished_at=generate_iso_timestamp())
        journal = tuple(done if effect == begun else effect for effect in self.record.journal)
        # The end is stored with the next commit: a crash before that looks like an interruption.
        self.record = amended(self.record, journal=journal)

    async def finish(self, result: TaskResult, others: Sequence[Entry] = ()) -> None:
        """Store the final record, the result in the requester's mailbox and ``others``, all or none.

        Raises Conflict if another process has claimed the task.
        """
        task = amended(self.task, status=result.status)
        mail = subjects.mail(self.task.requester, self._bus.name)
        async with self._writing:
            record = _changed(self.record, task=task, note="", result=result)
            await self._commit([self._state(record), seal(mail, result), *others])

    def failure(self, reason: str) -> TaskResult:
        """The result of the failed task."""
        return self.task.result(self._bus.name, TaskStatus.FAILED, output="", error_message=reason[:4_000])

    async def _advance(self, *, note: str, begun: Effect | None = None, others: Sequence[Entry] = ()) -> None:
        # If it is cancelled on its way, the sequence must be known, or the next write is refused.
        await asyncio.shield(self._write(note, begun, others))

    async def _write(self, note: str, begun: Effect | None, others: Sequence[Entry]) -> None:
        # Steps of a task may run concurrently; each write names the sequence of the one before.
        async with self._writing:
            journal = self.record.journal
            if begun is not None:
                same = (begun.what, begun.step)
                journal = (*(effect for effect in journal if (effect.what, effect.step) != same), begun)
            record = _changed(self.record, note=note, journal=journal)
            self._seq = (await self._commit([self._state(record), *others]))[0]
            # An effect may have ended while this was on its way.
            self.record = amended(record, journal=_merge(self.record.journal, journal))

    async def _commit(self, entries: Sequence[Entry]) -> tuple[int, ...]:
        while True:
            try:
                return await self._bus.commit(entries)
            except BusFull as error:
                log.warning("bus_full", task_id=self.task.task_id, reason=str(error))
                await asyncio.sleep(BUS_FULL_PAUSE)

    def _state(self, record: TaskChanged) -> Entry:
        return seal(task_subject(self.task), record, expect=self._seq)


async def claim(bus: Bus, delivery: Delivery, task: Task) -> Claim | None:
    """Claim the task for this process; None if it ended, or another process was quicker.

    A requester stores the record right before the task, so the first claim needs no read.
    """
    expect: int | None = delivery.seq - 1 if delivery.deliveries == 1 else None
    previous = _UNCLAIMED
    for _ in range(CLAIM_TRIES):
        if expect is None:
            stored = await read_task(bus, task)
            expect, previous = (stored.seq, stored.value) if stored else (0, _UNCLAIMED)
            if previous.task.status.final:
                return None
        record = _changed(
            previous,
            sender=bus.name,
            recipient=task.requester,
            cause=task.id,
            goal_id=task.goal_id,
            task=amended(task, status=TaskStatus.IN_PROGRESS),
            attempt=previous.attempt + 1,
            worker=bus.instance,
            note="",
        )
        try:
            (seq,) = await bus.commit([seal(task_subject(task), record, expect=expect)])
        except Conflict:
            expect = None
            continue
        return Claim(bus, task, record, seq)
    return None


def dead_letter_for(bus: Bus, delivery: Delivery, reason: str, task: Task | None = None) -> DeadLetter:
    """The dead letter for a delivery: the reason, and where the original is stored."""
    original = delivery.data.decode("utf-8", "replace")
    return DeadLetter(
        sender=bus.name,
        reason=reason[:4_000],
        subject=delivery.subject,
        stream=delivery.stream,
        stream_seq=delivery.seq,
        deliveries=delivery.deliveries,
        original=original[: subjects.MAX_ORIGINAL],
        original_size=len(delivery.data),
        headers={key: str(value)[:500] for key, value in delivery.headers.items()},
        goal_id=task.goal_id if task else "",
        task_id=task.task_id if task else "",
    )


def _merge(ended: tuple[Effect, ...], written: tuple[Effect, ...]) -> tuple[Effect, ...]:
    done = {effect.started_at + effect.what: effect for effect in ended if effect.finished_at}
    return tuple(done.get(effect.started_at + effect.what, effect) for effect in written)


_UNCLAIMED = TaskChanged(task=Task(task_id="none", text="none", assignee="none", requester="none"))
"""The template of every first record: all its fields are replaced."""


def _changed(record: TaskChanged, **changes: object) -> TaskChanged:
    return amended(record, id=generate_id(), created_at=generate_iso_timestamp(), **changes)
