"""Claims on tasks: taken, updated and finished by compare-and-set on the task's last step."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from shared import subjects
from shared.bus.connection import Bus
from shared.bus.consumer import BUS_FULL_PAUSE
from shared.bus.entry import EXPECTED, EXPECTED_ON, Delivery, Entry
from shared.bus.records import TaskState, read_task, refreshed, step_entry, task_steps
from shared.contracts import (
    DeadLetter,
    Effect,
    Task,
    TaskChanged,
    TaskResult,
    TaskStatus,
    generate_iso_timestamp,
)
from shared.contracts.base import amended
from shared.errors import BusError, BusFull, Conflict, Reject
from shared.log import logger
from shared.spans import SpanRecorder

NOTE_EVERY = 1.0
"""Seconds between two progress notes of a task that stand alone: more than that nobody can read."""
CLAIM_TRIES = 3
"""Attempts at a claim that loses races, before it is left to the other process."""

log = logger(__name__)


class Claim:
    """The claim of one process on a task; ``attempt`` counts the claims so far, this one included.

    The next claim on the task takes it over: every later write of this one is refused whole with Conflict.
    A write waits while the bus is full, because nothing else knows what was done.
    """

    def __init__(self, bus: Bus, task: Task, record: TaskChanged, seq: int) -> None:
        self.task = task
        self.record = record
        self._bus = bus
        self._seq = seq
        self.spans = SpanRecorder()
        self._earlier = record.journal
        self._writing = asyncio.Lock()
        self._noted_at = float("-inf")
        self._held = ""
        self._flush: asyncio.Task[None] | None = None

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self.record.attempt

    async def note(self, text: str, others: Sequence[Entry] = ()) -> Sequence[int]:
        """Store a progress note and ``others``, and return the others' sequences.

        A note alone is held back if the last one is younger than NOTE_EVERY; of those held back the last one
        is stored then, or before the task ends. Raises Conflict if the claim is lost.
        """
        wait = self._noted_at + NOTE_EVERY - time.monotonic()
        if others or wait <= 0:
            return await self._advance(note=text[:500], others=others)
        self._held = text[:500]
        if self._flush is None or self._flush.done():
            self._flush = asyncio.create_task(self._flush_later(wait))
        await asyncio.sleep(0)  # a loop of notes leaves others their turn
        return ()

    async def _flush_later(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        try:
            await self._store_held()
        except BusError as error:
            log.info("note_unstored", task_id=self.task.task_id, reason=str(error))

    async def _store_held(self) -> None:
        """Store the note that is held back, if one is."""
        if self._held:
            await self._advance(note=self._held)

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
        """Store the result, which its requester gets, and ``others``, all or none.

        Raises Conflict if another process has claimed the task.
        """
        if self._flush is not None and self._held:
            self._flush.cancel()
            await self._store_held()
        result = amended(result, attempt=self.attempt, spans=self.spans.take())
        async with self._writing:
            await self._commit(subjects.ENDED, result, others)

    def failure(self, reason: str) -> TaskResult:
        """The result of the failed task."""
        return self.task.result(self._bus.name, TaskStatus.FAILED, output="", error_message=reason[:4_000])

    async def _advance(
        self, *, note: str, begun: Effect | None = None, others: Sequence[Entry] = ()
    ) -> Sequence[int]:
        # What was held back is this note, or is older.
        self._held, self._noted_at = "", time.monotonic()
        # If it is cancelled on its way, the sequence must be known, or the next write is refused.
        return await asyncio.shield(self._write(note, begun, others))

    async def _write(self, note: str, begun: Effect | None, others: Sequence[Entry]) -> Sequence[int]:
        # Steps of a task may run concurrently; each write names the sequence of the one before.
        async with self._writing:
            journal = self.record.journal
            if begun is not None:
                same = (begun.what, begun.step)
                journal = (*(effect for effect in journal if (effect.what, effect.step) != same), begun)
            record = refreshed(self.record, note=note, journal=journal, spans=self.spans.take())
            try:
                sequences = await self._commit(subjects.NOTED, record, others)
            except BaseException:
                self.spans.put_back(record.spans)
                raise
            # An effect may have ended while this was on its way.
            self.record = amended(record, journal=_merge(self.record.journal, journal), spans=())
            return sequences

    async def _commit(
        self, step: str, payload: TaskChanged | TaskResult, others: Sequence[Entry]
    ) -> Sequence[int]:
        """Commit a step and ``others``, and return the others' sequences."""
        while True:
            try:
                entries = [step_entry(self.task, step, payload, self._seq), *others]
                self._seq, *sequences = await self._bus.commit(entries)
            except BusFull as error:
                log.warning("bus_full", task_id=self.task.task_id, reason=str(error))
                await asyncio.sleep(BUS_FULL_PAUSE)
            except Conflict:
                # Its requester may have published it again, which changes nothing but the last sequence.
                state = await read_task(self._bus, self.task)
                if state is None or not self.is_held(state) or state.seq == self._seq:
                    raise
                self._seq = state.seq
            else:
                return sequences

    def is_held(self, state: TaskState) -> bool:
        """Whether, by the task's present ``state``, this claim is the last one, and the task goes on."""
        return not state.status.final and (state.worker, state.attempt) == (self._bus.instance, self.attempt)


async def claim(bus: Bus, delivery: Delivery, task: Task) -> Claim | None:
    """Claim the task for this process.

    None if the task ended, another process was quicker, or the delivered message is not the one by which it
    was submitted, but a second one of the same id.
    """
    # If the server checked that it was the first of its id, the first claim needs no read.
    first = delivery.deliveries == 1 and _is_guarded(delivery, task) and delivery.headers[EXPECTED] == "0"
    after, earlier = delivery.seq, amended(_UNCLAIMED, task_id=task.task_id, origin=delivery.seq)
    for _ in range(CLAIM_TRIES):
        if not first:
            state = await read_task(bus, task)
            if state is None or state.status.final or state.origin != delivery.seq:
                return None
            after, earlier = state.seq, amended(earlier, attempt=state.attempt, journal=state.journal)
        first = False
        record = refreshed(
            earlier,
            sender=bus.name,
            recipient=task.requester,
            cause=task.id,
            goal_id=task.goal_id,
            attempt=earlier.attempt + 1,
            worker=bus.instance,
        )
        try:
            (seq,) = await bus.commit([step_entry(task, subjects.CLAIMED, record, after)])
        except Conflict:
            continue
        return Claim(bus, task, record, seq)
    return None


def _is_guarded(delivery: Delivery, task: Task) -> bool:
    """Whether the server compared the steps of the task before it stored this one."""
    return EXPECTED in delivery.headers and delivery.headers.get(EXPECTED_ON) == task_steps(task)


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


_UNCLAIMED = TaskChanged(task_id="none", origin=0, attempt=0, worker="")
"""The template of first claims: all its fields are replaced."""
