"""Claims on tasks: stored, updated and finished by compare-and-set, and by a thread if a task takes long."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import copy_context
from typing import Any

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
from shared.contracts.task import Span
from shared.effects import before_effect
from shared.errors import BusError, BusFull, Conflict, Reject
from shared.log import logger
from shared.spans import SpanRecorder

NOTE_EVERY = 1.0
"""Seconds between two progress notes of a task that stand alone: more than that nobody can read."""

log = logger(__name__)


class Claim:
    """The right of one process to work on a task; ``attempt`` counts the claims so far, this one included.

    Its first write stores it: a note, an effect, or ``begin``. Until then the task is as it was, and what
    only reads and computes ends with ``finish`` alone. Of several processes that have the task the first to
    write holds it, until the next claim takes it over: every write of the others is refused whole with
    Conflict. A write waits while the bus is full, because nothing else knows what was done.

    ``first`` is whether nobody was given the task before, ``stored`` and ``ended`` whether the claim, and
    whether the result is in the log. ``over`` is set when the attempt has ended, with a result or without:
    what still runs of it may write no more. ``fetched`` is the host that stored the workspace as it was begun
    here, and when; two empty texts if nobody had stored one, None if it was not looked for.
    """

    def __init__(
        self, bus: Bus, task: Task, after: int, *, origin: int, earlier: TaskState | None = None
    ) -> None:
        self.task = task
        self.first = earlier is None
        self.attempt = earlier.attempt + 1 if earlier else 1
        self.begun_at = generate_iso_timestamp()
        self.stored = self.ended = self.over = False
        self.spans = SpanRecorder()
        self.fetched: tuple[str, str] | None = None
        self._bus = bus
        self._seq, self._origin = after, origin
        self._earlier = self._journal = earlier.journal if earlier else ()
        self._writing = asyncio.Lock()
        self._noted_at = float("-inf")
        self._held = ""
        self._flush: asyncio.Task[None] | None = None
        self._latest: asyncio.Future[Sequence[int]] | None = None

    def count_begun(self, deliveries: int) -> int:
        """How often the task was begun, this attempt included, if it was delivered so often.

        Only a first delivery is begun without storing the claim at once, and a process that dies then leaves
        no trace: so one delivery beside those that were claimed counts.
        """
        return max(self.attempt, min(deliveries, self.attempt + 1))

    async def begin(self) -> None:
        """Store the claim, if no write has done so; raises Conflict if the task ended or another has it."""
        if not (self.stored or self.ended):
            await self._shielded(self._write("", None, (), alone=True))

    def claiming_entry(self) -> Entry:
        """What ``begin`` stores, for a thread to do it."""
        return step_entry(self.task, subjects.CLAIMED, self._change("", self._journal, ()), self._seq)

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
    async def effect(
        self, what: str, *, repeatable: bool = False, confined: bool = False, step: str = ""
    ) -> AsyncIterator[None]:
        """Record an effect outside the office in the task's journal, before it happens and after.

        Unless it is ``repeatable``, raises Reject if an earlier attempt began the same effect and did not
        finish it (it may have happened, so a person has to check), or finished it in the same ``step`` (it
        would be repeated only because its outcome was not stored). An effect that is ``confined`` to the
        task's workspace is repeated if it was lost with another host's.
        """
        for effect in self._earlier:
            if effect.what == what and self._is_lost(effect):
                log.info("effect_repeated", task_id=self.task.task_id, what=what[:200], host=effect.host)
                continue
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
        where = self._bus.host if confined else ""
        began = generate_iso_timestamp()
        begun = Effect(what=what, repeatable=repeatable, step=step, host=where, started_at=began)
        await self._advance(note=what[:500], begun=begun)
        yield
        done = msgspec.structs.replace(begun, finished_at=generate_iso_timestamp())
        # The end is stored with the next commit: a crash before that looks like an interruption.
        self._journal = tuple(done if effect == begun else effect for effect in self._journal)

    def _is_lost(self, effect: Effect) -> bool:
        """Whether the workspace was begun here as it was before ``effect``, which changed another host's.

        Both times are of that host's clock.
        """
        if self.fetched is None or effect.host in ("", self._bus.host):
            return False
        host, stored_at = self.fetched
        return not host or (host == effect.host and stored_at < effect.started_at)

    async def finish(self, result: TaskResult, others: Sequence[Entry] = ()) -> None:
        """Store the result, which its requester gets, and ``others``, all or none.

        Raises Conflict if the task ended or another process has claimed it.
        """
        if self._flush is not None and self._held:
            self._flush.cancel()
            await self._store_held()
        if self._latest is not None and not self._latest.done():  # a note on its way goes before the end
            await asyncio.wait({self._latest})
        by = {"attempt": self.attempt, "worker": self._bus.instance, "begun_at": self.begun_at}
        result = amended(result, **by, spans=self.spans.take())
        async with self._writing:
            await self._commit(result, others)
            self.ended = True

    def failure(self, reason: str) -> TaskResult:
        """The result of the failed task."""
        return self.task.result(self._bus.name, TaskStatus.FAILED, output="", error_message=reason[:4_000])

    async def _advance(
        self, *, note: str, begun: Effect | None = None, others: Sequence[Entry] = ()
    ) -> Sequence[int]:
        # What was held back is this note, or is older.
        self._held, self._noted_at = "", time.monotonic()
        return await self._shielded(self._write(note, begun, others))

    async def _shielded(self, write: Coroutine[Any, Any, Sequence[int]]) -> Sequence[int]:
        """Await a write; if that is cancelled, its sequence must be known, or the next one is refused."""
        self._latest = asyncio.ensure_future(write)
        return await asyncio.shield(self._latest)

    async def _write(
        self, note: str, begun: Effect | None, others: Sequence[Entry], *, alone: bool = False
    ) -> Sequence[int]:
        """Store a step; ``alone`` is the claim without anything else, if it is still missing."""
        before_effect.set(None)  # this is what an effect waits for
        # Steps of a task may run concurrently; each write names the sequence of the one before.
        async with self._writing:
            if alone and (self.stored or self.ended):
                return ()
            journal = self._journal
            if begun is not None:
                same = (begun.what, begun.step)
                journal = (*(effect for effect in journal if (effect.what, effect.step) != same), begun)
            change = self._change(note, journal, () if alone else self.spans.take())
            try:
                sequences = await self._commit(change, others, alone=alone)
            except BaseException:
                self.spans.put_back(change.spans)
                raise
            # An effect may have ended while this was on its way.
            self.stored, self._journal = True, _merge(self._journal, journal)
            return sequences

    def _change(self, note: str, journal: tuple[Effect, ...], spans: tuple[Span, ...]) -> TaskChanged:
        change = refreshed(
            _BLANK,
            sender=self._bus.name,
            recipient=self.task.requester,
            cause=self.task.id,
            goal_id=self.task.goal_id,
            task_id=self.task.task_id,
            origin=self._origin,
            attempt=self.attempt,
            worker=self._bus.instance,
            note=note,
            journal=journal,
            spans=spans,
        )
        # A claim is dated when the attempt began, which is a little before its first write.
        return change if self.stored else amended(change, created_at=self.begun_at)

    async def _commit(
        self, payload: TaskChanged | TaskResult, others: Sequence[Entry], *, alone: bool = False
    ) -> Sequence[int]:
        """Commit a step and ``others``, and return the others' sequences."""
        while True:
            if self.over:
                raise Conflict("The attempt is over")
            step = subjects.NOTED if self.stored else subjects.CLAIMED
            if isinstance(payload, TaskResult):
                step = subjects.ENDED
            try:
                entries = [step_entry(self.task, step, payload, self._seq), *others]
                self._seq, *sequences = await self._bus.commit(entries)
            except BusFull as error:
                log.warning("bus_full", task_id=self.task.task_id, reason=str(error))
                await asyncio.sleep(BUS_FULL_PAUSE)
            except Conflict:
                # The last step may be this claim, stored by a thread. Or its requester has published the
                # task again, which changes nothing but the last sequence.
                state = await read_task(self._bus, self.task)
                if state is None or not self.is_held(state) or state.seq == self._seq:
                    raise
                self._seq, self.stored = state.seq, True
                if alone:
                    return ()
            else:
                return sequences

    def is_held(self, state: TaskState) -> bool:
        """Whether, by the task's present ``state``, it goes on and nobody else has claimed it since."""
        mine = (state.worker, state.attempt) == (self._bus.instance, self.attempt)
        return not state.status.final and (mine or state.seq == self._seq)


async def claim(bus: Bus, delivery: Delivery, task: Task) -> Claim | None:
    """The claim of this process on the task, which its first write stores.

    None if the task ended, or the delivered message is not the one by which it was submitted, but a second
    one of the same id.
    """
    # If the server checked that it was the first of its id, the first claim needs no read.
    if delivery.deliveries == 1 and _is_guarded(delivery, task) and delivery.headers[EXPECTED] == "0":
        return Claim(bus, task, delivery.seq, origin=delivery.seq)
    state = await read_task(bus, task)
    if state is None or state.status.final or state.origin != delivery.seq:
        return None
    return Claim(bus, task, state.seq, origin=state.origin, earlier=state)


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


_BLANK = TaskChanged(task_id="none", origin=0, attempt=0, worker="")
"""The template of claims and notes: all its fields are replaced."""


CLAIM_AFTER = 0.05  # Seconds after which a task is claimed that has had no effect so far
PATIENCE = 0.2
"""Seconds the event loop has to begin with that; then the thread does it, over a connection of its own."""


class Run:
    """The block in which a task is worked on: it is watched until its end."""

    __slots__ = ("claim", "context", "due", "over")

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.context = copy_context()
        self.due = time.monotonic() + CLAIM_AFTER
        self.over = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.over = True

    @property
    def settled(self) -> bool:
        """Whether it needs no claim any more."""
        return self.over or self.claim.stored


class ClaimWatch:
    """Has ``begin`` called for each claim that is not stored when its task has run for CLAIM_AFTER seconds.

    The thread sleeps while nothing runs, and until the first is due. If the event loop does not react it
    stores the claims itself. It cannot run while code keeps the interpreter's lock, as a regular expression
    does; what such a process was at is redelivered as after its death (shared/heartbeat.py).
    """

    def __init__(self, bus: Bus, begin: Callable[[Claim], Coroutine[Any, Any, None]]) -> None:
        self._bus = bus
        self._begin = begin
        self._waiting: deque[Run] = deque()
        self._some = threading.Event()
        self._on = False
        self._beginning: set[asyncio.Task[None]] = set()

    def watch(self, claim: Claim) -> Run:
        """A block in which a task runs; it is watched only while the watch is ``running``."""
        run = Run(claim)
        if self._on:
            self._waiting.append(run)
            if not self._some.is_set():
                self._some.set()
        return run

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block in which the thread watches."""
        loop = asyncio.get_running_loop()
        self._on = True
        threading.Thread(target=self._watch, args=(loop,), name="claims", daemon=True).start()
        try:
            yield
        finally:
            self._on = False
            self._some.set()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._some.wait() and self._on:
            self._some.clear()
            while self._waiting and self._on:
                time.sleep(max(0.0, self._waiting[0].due - time.monotonic()))
                if due := self._take_due():
                    self._claim(due, loop)

    def _take_due(self) -> list[Run]:
        """Those that are due; what needs no claim any more is dropped."""
        due, now = [], time.monotonic()
        while self._waiting and (self._waiting[0].settled or self._waiting[0].due <= now):
            run = self._waiting.popleft()
            if not run.settled:
                due.append(run)
        return due

    def _claim(self, due: list[Run], loop: asyncio.AbstractEventLoop) -> None:
        begun = threading.Event()

        def begin() -> None:
            begun.set()
            for run in due:
                if not run.settled:
                    task = loop.create_task(self._begin(run.claim), context=run.context)
                    self._beginning.add(task)
                    task.add_done_callback(self._beginning.discard)

        try:
            loop.call_soon_threadsafe(begin)
        except RuntimeError:  # the loop is closed
            return
        blocked = [] if begun.wait(PATIENCE) else [run for run in due if not run.settled]
        if not blocked:
            return
        entries = [run.context.run(run.claim.claiming_entry) for run in blocked]
        try:
            asyncio.run(self._bus.store_apart(entries))
        except Exception as error:  # the thread goes on, whatever became of its connection
            log.warning("claims_unstored", claims=len(blocked), reason=str(error))
        else:
            log.warning("event_loop_busy", claims=len(blocked))
