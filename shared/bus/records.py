"""Records: the last message on a subject is a record's state, and writes are guarded by compare-and-set.

The steps of a task are messages on ``task.<assignee>.<requester>.<id>.<step>``, each guarded by the sequence
of the last one of them all: so one message is record, hand-out and result at once.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from shared import subjects
from shared.bus.connection import Bus
from shared.bus.entry import EXPECTED_ON, Entry, Stored
from shared.contracts import (
    Contract,
    Effect,
    Presence,
    Task,
    TaskChanged,
    TaskPriority,
    TaskResult,
    TaskStatus,
    generate_id,
    generate_iso_timestamp,
)
from shared.contracts.base import amended
from shared.errors import BusError, Conflict
from shared.log import logger
from shared.trace import current_trace, headers_of

log = logger(__name__)

T = TypeVar("T")
C = TypeVar("C", bound=Contract)

AFTER_NEW = (*subjects.AT_WORK, *subjects.FINAL_STEPS)
MAX_PROCESSES = 100  # The most processes of one agent that are listed: those that wrote last
CONFLICT_TRIES = 8  # How often a write that lost a race is tried before its Conflict is raised


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
    from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random

    again, stop = retry_if_exception_type(Conflict), stop_after_attempt(tries)
    return await AsyncRetrying(retry=again, stop=stop, wait=wait_random(0, pause), reraise=True)(attempt)


async def retry_until_taken(
    attempt: Callable[[], Awaitable[T]], *, pause: float, event: str, **about: Any
) -> T:
    """Call ``attempt`` until it raises no BusError; every one is logged as ``event``, with ``about``."""
    from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_fixed

    def note(state: RetryCallState) -> None:
        log.warning(event, reason=str(state.outcome.exception() if state.outcome else ""), **about)

    again = retry_if_exception_type(BusError)
    return await AsyncRetrying(retry=again, wait=wait_fixed(pause), before_sleep=note)(attempt)


# --- tasks ---------------------------------------------------------------------------------------


class TaskState(Contract, frozen=True, kw_only=True):
    """The present state of a task, as its last step has it.

    ``seq`` is the sequence of that step, which the next one expects, and ``origin`` that of the message that
    submitted the task (0 if the task has ended). ``task`` is there until the task is begun, ``result`` once
    it has ended, ``submitted_at`` if all steps were read.
    """

    step: str
    seq: int
    stored_at: str
    status: TaskStatus
    origin: int = 0
    attempt: int = 0
    worker: str = ""
    note: str = ""
    journal: tuple[Effect, ...] = ()
    task: Task | None = None
    result: TaskResult | None = None
    submitted_at: str = ""


def task_steps(task: Task) -> str:
    """The pattern that matches every step of a task, and nothing else."""
    return subjects.task(task.assignee, task.requester, task.task_id, "*")


def step_entry(task: Task, step: str, payload: Task | TaskChanged | TaskResult, after: int) -> Entry:
    """The entry that stores a step of ``task``, if the step before it is still that of sequence ``after``."""
    subject = subjects.task(task.assignee, task.requester, task.task_id, step)
    headers = headers_of(task.traceparent)
    return Entry(subject, payload.to_json(), payload.id, after, headers, task_steps(task))


def submission_entry(task: Task, *, after: int = 0) -> Entry:
    """The entry that submits ``task``; ``after`` is its last step, if it is submitted again."""
    if not task.traceparent and (trace := current_trace()):
        task = amended(task, traceparent=trace)
    return step_entry(task, subjects.NEW[task.priority], task, after)


def task_state(stored: Stored) -> TaskState:
    """The state of a task whose last step is ``stored``.

    What the assignee wrote may be garbage, which must keep nobody from ending the task: an end that cannot be
    read is a failure, and another step says nothing. Raises ValueError if the task itself cannot be read.
    """
    step = stored.subject.rpartition(".")[2]
    if step in subjects.FINAL_STEPS:
        result = read_result(stored.subject, stored.data)
        state = TaskState(
            step=step,
            seq=stored.seq,
            stored_at=stored.time,
            status=result.status,
            attempt=result.attempt,
            worker=result.worker,
        )
        return amended(state, result=result)
    if step in subjects.BY_ASSIGNEE:
        change = _read_change(stored)
        return TaskState(
            step=step,
            seq=stored.seq,
            stored_at=stored.time,
            status=TaskStatus.IN_PROGRESS,
            origin=change.origin,
            attempt=change.attempt,
            worker=change.worker,
            note=change.note,
            journal=change.journal,
        )
    state = TaskState(
        step=step, seq=stored.seq, stored_at=stored.time, status=TaskStatus.PENDING, origin=stored.seq
    )
    return amended(state, task=Task.from_json(stored.data))


def _read_change(stored: Stored) -> TaskChanged:
    try:
        return TaskChanged.from_json(stored.data)
    except ValueError as error:
        note = f"This step cannot be read: {str(error)[:400]}"
        return TaskChanged(task_id=stored.subject.split(".")[3], origin=0, attempt=0, worker="", note=note)


def read_result(subject: str, data: bytes) -> TaskResult:
    """The result that a task ended with; one that is none, or not final, is the task's failure."""
    try:
        result = TaskResult.from_json(data)
        if result.status.final:
            return result
        reason = f"its status is {result.status}"
    except ValueError as error:
        reason = str(error)
    address = subjects.Address.of(subject)
    return TaskResult(
        sender=address.sender,
        recipient=address.recipient,
        task_id=address.id,
        agent=address.sender,
        status=TaskStatus.FAILED,
        output="",
        error_message=f"Its result cannot be read: {reason[:500]}",
        metadata={"unreadable": True},
    )


async def read_task(bus: Bus, task: Task) -> TaskState | None:
    """The state of ``task``, None if it was never submitted; raises BusError and ValueError."""
    return await read_task_state(bus, task.assignee, task.requester, task.task_id)


async def read_task_state(bus: Bus, assignee: str, requester: str, task_id: str) -> TaskState | None:
    """The state of a task by its name, None if it was never submitted; raises BusError and ValueError."""
    steps = subjects.task(assignee, requester, task_id, "*")
    stored = await bus.last(subjects.OFFICE, steps)
    if stored is None:
        return None
    state = task_state(stored)
    if state.task is None or stored.headers.get(EXPECTED_ON) == steps:
        return state
    # Submitted without a condition, as any NATS client can: if the id was in use before, it changes nothing.
    names = [subjects.task(assignee, requester, task_id, step) for step in AFTER_NEW]
    found = [earlier for name in names if (earlier := await bus.last(subjects.OFFICE, name))]
    last = max(found, key=lambda each: each.seq, default=None)
    return amended(task_state(last), seq=state.seq) if last else state


async def read_submitted(bus: Bus, assignee: str, requester: str, task_id: str) -> Task | None:
    """A task as it was submitted, whatever became of it; None if there is none of that id."""
    for priority in sorted(subjects.NEW, key=lambda each: each != TaskPriority.MEDIUM):  # most are
        subject = subjects.task(assignee, requester, task_id, subjects.NEW[priority])
        if (found := await read_record(bus, subject, Task)) is not None:
            return found.value
    return None


async def cancel_task(
    bus: Bus,
    task: Task,
    reason: str,
    *,
    status: TaskStatus = TaskStatus.CANCELLED,
    unsubmitted: bool = False,
) -> TaskResult | None:
    """End ``task`` as cancelled: its worker stops within seconds, and no one starts it.

    Returns the result that was stored; None if the task had ended, another task has its id, or it was never
    submitted. If ``unsubmitted``, a task that was never submitted cannot be submitted any more. Raises
    BusError.
    """

    async def attempt() -> TaskResult | None:
        entry, result = await cancelling_entry(bus, task, reason, status=status, unsubmitted=unsubmitted)
        await bus.commit([entry] if entry else [])
        return result

    return await retry_on_conflict(attempt)


async def cancelling_entry(
    bus: Bus, task: Task, reason: str, *, status: TaskStatus, unsubmitted: bool = False
) -> tuple[Entry, TaskResult] | tuple[None, None]:
    """The entry that ends ``task``, and the result in it; see cancel_task. Its commit may raise Conflict."""
    state = await read_task(bus, task)
    if (state is None and not unsubmitted) or (state is not None and state.status.final):
        return None, None
    submitted = await read_submitted(bus, task.assignee, task.requester, task.task_id) if state else None
    if submitted is not None and submitted.cause != task.cause:
        return None, None
    result = task.result(
        task.assignee,
        status,
        sender=task.requester,
        output="",
        error_message=reason,
        attempt=state.attempt if state else 0,
    )
    return step_entry(task, subjects.CANCELLED, result, state.seq if state else 0), result


def refreshed(change: TaskChanged, **changes: object) -> TaskChanged:
    """``change`` as a new message, with ``changes``."""
    return amended(change, id=generate_id(), created_at=generate_iso_timestamp(), **changes)


# --- presence ------------------------------------------------------------------------------------


async def read_presences(bus: Bus, agent: str = "*") -> list[Presence]:
    """The presence of every process of ``agent`` at work (default: of every agent), by agent and start.

    Left out are the entries of processes that ended, which are empty, or from which another took over, and
    what an agent wrote that is no presence, or is another's. The bucket is read page by page: the last
    messages of more than 1,024 subjects are refused, and one agent can write as many entries. Raises
    BusError.
    """
    stream = subjects.bucket_stream(subjects.AGENTS_BUCKET)
    found: dict[str, deque[Stored]] = {}
    gone = set()
    position = 1
    while True:
        request = {"seq": position, "next_by_subj": subjects.presences(agent), "batch": 1_000}
        page = [stored async for stored in bus.read(stream, request)]
        for stored in page:
            _, _, written_by, *place = stored.subject.split(".")
            if place[0] == subjects.TAKEN and stored.data:
                gone.add((written_by, place[-1]))
            elif stored.data:
                found.setdefault(written_by, deque(maxlen=2 * MAX_PROCESSES)).append(stored)
        if len(page) < 1_000:
            break
        position = page[-1].seq + 1
    latest = [
        presence
        for each in found.values()
        for presence in list(filter(None, map(_presence_in, each)))[-MAX_PROCESSES:]
        if (presence.agent, presence.instance) not in gone
    ]
    return sorted(latest, key=lambda presence: (presence.agent, presence.started_at))


async def read_keys(bus: Bus, name: str) -> tuple[str, ...]:
    """The public keys of an identity, as NKeys; raises BusError if none are published."""
    stored = await bus.last(subjects.bucket_stream(subjects.IDENTITIES_BUCKET), subjects.identity(name))
    if stored is None or not stored.data:
        raise BusError(f"The key of {name!r} is not known", "Provision the office: run 'mailroom up'")
    return msgspec.json.decode(stored.data, type=tuple[str, ...])


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
