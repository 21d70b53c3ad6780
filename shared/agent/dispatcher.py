"""Dispatches deliveries: decoded, checked, handled by type, then committed or dead-lettered."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from shared import subjects
from shared.agent.base import Agent, Outbox
from shared.agent.executor import TaskExecutor
from shared.agent.placing import Placing
from shared.agent.references import wait_for_dependencies
from shared.bus import Delivery, Entry
from shared.bus.claim import Claim, claim, dead_letter_for
from shared.bus.client import is_handled
from shared.bus.entry import current_audience, seal
from shared.bus.peers import ANSWER_TIMEOUT, MISSING
from shared.bus.records import read_result, read_submitted, read_task, retry_on_conflict, submission_entry
from shared.contracts import (
    AgentReport,
    CancelGoal,
    Email,
    Envelope,
    GoalDue,
    Question,
    Response,
    StopAnswer,
    Task,
    TaskPriority,
    TaskResult,
    TimerDue,
    decode,
)
from shared.contracts.base import amended
from shared.errors import BusError, Conflict, NoResponders, Reject, Retry, TakenOver
from shared.log import logger
from shared.subjects import Address
from shared.tasks.said import SaidChecker
from shared.tasks.speaker import WITNESSES
from shared.trace import HEADER as TRACE_HEADER
from shared.trace import continue_trace

MAIL = (Email, Question, Response, CancelGoal, AgentReport, StopAnswer)
"""Envelopes that go to the recipient's mailbox; others are events of their sender."""

_LANES = {step: TaskPriority(name) for name, step in subjects.NEW.items()}

Handler = Callable[[Any], Awaitable[Outbox | None]]
"""A handler of one kind of envelope; None if it is for the next handler."""

log = logger(__name__)


class Dispatcher:
    """Handles the deliveries of one agent."""

    def __init__(self, agent: Agent, executor: TaskExecutor, placing: Placing) -> None:
        self._agent = agent
        self._bus = agent.context.bus
        self._name = agent.context.profile.name
        self._delegation = agent.context.delegation
        self._executor, self._placing = executor, placing
        self._said = SaidChecker(self._bus)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # The handlers of each type of envelope, in order: the first that returns an outbox has handled it
        context = agent.context
        self._handlers = {
            Email: (context.requests.accept_answer, agent.on_email),
            TaskResult: (context.delegation.accept_result, context.threads.accept_result, agent.on_result),
            Question: (agent.on_question,),
            StopAnswer: (agent.on_stop_answer,),
            CancelGoal: (agent.on_cancel,),
            GoalDue: (agent.on_due,),
            TimerDue: (agent.on_due,),
            AgentReport: (agent.on_report,),
            Response: (_keep_on_record,),
        }
        self._ways: tuple[tuple[Callable[[Delivery], bool], Callable[[Delivery], Awaitable[None]]], ...] = (
            (lambda delivery: is_handled(delivery.headers), _pass_over),
            (lambda delivery: delivery.address.kind == subjects.SUBMISSION, self._submit),
            (lambda delivery: delivery.address.kind == subjects.ADVISORY, self._dead_letter_given_up),
            (lambda _: True, self._receive),
        )
        """What is done with a delivery: that of the first row that fits."""

    async def handle(self, delivery: Delivery) -> None:
        """Handle one delivery and commit what its handler returns; raises Reject or Retry, see Consumer."""
        for fits, way in self._ways:
            if fits(delivery):
                _continue_trace(delivery)
                await way(delivery)
                return

    async def _submit(self, delivery: Delivery) -> None:
        sender, priority = delivery.address.sender or subjects.USER, delivery.address.step
        await self._commit_outbox(
            delivery,
            lambda: self._agent.on_submission(
                delivery.data, delivery.seq, delivery.stored_at, sender, priority
            ),
        )

    async def _receive(self, delivery: Delivery) -> None:
        envelope = self._open(delivery)
        if isinstance(envelope, Task):
            if envelope.traceparent and TRACE_HEADER not in delivery.headers:
                continue_trace(envelope.traceparent)
            await self._work(delivery, envelope)
            return
        envelope = await self._with_goal(envelope)
        if isinstance(envelope, TaskResult):
            envelope = await self._agent.context.travelling.open_result(envelope)
        handlers = self._handlers.get(type(envelope))
        if handlers is None:
            raise Reject(f"{self._name} has no use for a {type(envelope).__struct_config__.tag}")
        goal_id = (envelope.parent_goal_id or envelope.goal_id) if isinstance(envelope, TaskResult) else ""
        # Results of one goal change one record: side by side all but one would be for nothing.
        turn = self._turns.setdefault(goal_id, asyncio.Lock()) if goal_id else contextlib.nullcontext()
        async with turn:
            await self._commit_outbox(delivery, lambda: _first_answer(handlers, envelope))

    async def dead_letter(self, delivery: Delivery, reason: str) -> None:
        """Store a dead letter; if it is a task, its failure is in the same commit."""
        _continue_trace(delivery)
        task = _task_in(delivery)
        entry = seal(subjects.dead(self._name), dead_letter_for(self._bus, delivery, reason, task))
        log.error("dead_lettered", subject=delivery.subject, seq=delivery.seq, reason=reason)
        if task is None or not _is_submission(delivery.address, task):
            await self._bus.commit([entry])
            return
        held = await claim(self._bus, delivery, task)
        if held is None:
            await self._bus.commit([entry])
        else:
            await held.finish(held.failure(reason), [entry])
            await self._delegation.close(task)

    def _open(self, delivery: Delivery) -> Envelope:
        """The envelope in a delivery; raises Reject if it is malformed or its subject contradicts it."""
        address = delivery.address
        try:
            ends = address.kind == subjects.TASK and address.step == subjects.ENDED
            envelope = read_result(delivery.subject, delivery.data) if ends else decode(delivery.data)
        except ValueError as error:
            raise Reject(str(error)) from None
        sender = address.sender
        claimed = envelope.requester if isinstance(envelope, Task) else envelope.sender
        if claimed != sender:
            raise Reject(f"it says it is from {claimed or 'nobody'!r}, but {sender!r} sent it")
        if isinstance(envelope, TaskResult) and envelope.agent != sender:
            raise Reject(f"it is the result of {envelope.agent!r}, but {sender!r} sent it")
        if isinstance(envelope, GoalDue | TimerDue) and sender != self._name:
            raise Reject(f"{self._name} sets its own timers, and {sender!r} sent it one that is due")
        addressee = envelope.assignee if isinstance(envelope, Task) else envelope.recipient
        if addressee and addressee != self._name:
            raise Reject(f"it is addressed to {addressee!r}, but was left for {self._name!r}")
        if isinstance(envelope, Task) and not _is_submission(address, envelope):
            raise Reject(f"it is the task {envelope.task_id!r}, but was published on {delivery.subject!r}")
        if isinstance(envelope, Task):
            envelope = _in_lane(delivery, envelope)
        if isinstance(envelope, TaskResult) and not _is_end(address, envelope):
            raise Reject(f"it is a result of {envelope.task_id!r}, but was published on {delivery.subject!r}")
        if envelope.person and sender != subjects.USER:
            log.warning("person_ignored", subject=delivery.subject, seq=delivery.seq, sender=sender)
            envelope = amended(envelope, person="")
        if envelope.audience and sender not in (subjects.USER, self._name, *WITNESSES):
            envelope = amended(envelope, audience="")  # it reads as nobody at an agent's word
        current_audience.set(envelope.audience)
        return envelope

    async def _with_goal(self, envelope: Envelope) -> Envelope:
        """``envelope``; if it stands for a result that could not be read, with the goal of its task."""
        if not isinstance(envelope, TaskResult) or not envelope.metadata.get("unreadable"):
            return envelope
        task = await read_submitted(self._bus, envelope.agent, self._name, envelope.task_id)
        return amended(envelope, goal_id=task.goal_id, cause=task.id) if task else envelope

    async def _commit_outbox(self, delivery: Delivery, handler: Callable[[], Awaitable[Outbox]]) -> None:
        async def attempt() -> None:
            await self._bus.commit(self._seal(delivery, await handler()))

        await retry_on_conflict(attempt)

    def _seal(self, delivery: Delivery, outbox: Outbox) -> list[Entry]:
        """Entries for what a handler returned; ids derive from the delivery, so a repeat is stored once."""
        entries: list[Entry] = []
        for position, message in enumerate(outbox):
            if isinstance(message, Entry):
                entries.append(message)
                continue
            envelope = message
            if not isinstance(message, Task):
                envelope = msgspec.structs.replace(
                    message, id=self._bus.derive_id(delivery.stream, str(delivery.seq), str(position))
                )
            entries.append(address(envelope, self._name))
        return entries

    async def _work(self, delivery: Delivery, task: Task) -> None:
        never = await wait_for_dependencies(self._bus, delivery, task)
        task = await self._said.check(task)
        stuck = "" if never else await self._placing.place(delivery, task)
        held = await claim(self._bus, delivery, task)
        if held is None:
            await self._delegation.close(task)
            return
        if stuck:
            never = held.failure(stuck)
        if never is not None:
            await held.finish(never)
            return
        limit = self._agent.context.settings.max_attempts
        if (begun := held.count_begun(delivery.deliveries)) > limit > 1 or held.attempt > limit:
            raise Reject(f"it was begun {begun - 1} times and never finished")
        try:
            if not held.first or limit == 1:
                # Another process may be at work on it, or may have died of it: claim it at once.
                await held.begin()
            await held.finish(await self._perform(held))
        except Conflict as conflict:
            # Return if the task has ended; raises TakenOver if another process has it, BusError if none has
            state = await read_task(self._bus, held.task)
            if state is not None and held.is_held(state):
                raise BusError(
                    f"something it wrote to was changed at the same time: {conflict}"
                ) from conflict
            log.warning("claim_lost", task_id=held.task.task_id, attempt=held.attempt)
            if state is not None and not state.status.final:
                if state.worker and await self._is_gone(
                    state.worker
                ):  # as after a power loss, when nothing says it was delivered
                    raise Retry(f"{state.worker}, which began it, is gone", 0.0) from conflict
                raise TakenOver(f"{state.worker or 'another process'} works on it") from conflict
        finally:
            held.over = True
            await self._delegation.close(task)

    async def _perform(self, held: Claim) -> TaskResult:
        """The result of a task; an attempt that fails without one is on record."""
        try:
            return await self._executor.perform(held)
        except (Conflict, Reject):
            raise
        except Exception:
            await held.begin()
            raise

    async def _is_gone(self, worker: str) -> bool:
        """Whether no process of this agent with that id has been connected for MISSING seconds."""
        for pause in (MISSING, 0.0):
            try:
                await self._bus.request(subjects.peer(self._name, worker), timeout=ANSWER_TIMEOUT)
            except NoResponders:
                await asyncio.sleep(pause)
            except BusError:
                return False
            else:
                return False
        return True

    async def _dead_letter_given_up(self, delivery: Delivery) -> None:
        """Store a dead letter for a message that the server stopped delivering, naming where it is stored."""
        advisory = json.loads(delivery.data)
        reason = (
            f"the server gave up after {advisory.get('deliveries')} deliveries; the original is message "
            f"{advisory.get('stream_seq')} of {advisory.get('stream')}"
        )
        letter = msgspec.structs.replace(
            dead_letter_for(self._bus, delivery, reason),
            id=self._bus.derive_id(delivery.stream, str(delivery.seq), "given-up"),
            stream_seq=int(advisory.get("stream_seq", 0)),
            deliveries=int(advisory.get("deliveries", 0)),
        )
        await self._bus.commit([seal(subjects.dead(self._name), letter)])


async def _first_answer(handlers: Sequence[Handler], envelope: Envelope) -> Outbox:
    for handler in handlers:
        if (outbox := await handler(envelope)) is not None:
            return outbox
    return ()


async def _keep_on_record(_: Response) -> Outbox:
    """Nothing to do: the message stays in the audit log."""
    return ()


def address(envelope: Envelope, sender: str) -> Entry:
    """The entry that sends ``envelope`` as ``sender``: as a task, as mail, or as an event."""
    if isinstance(envelope, Task):
        return submission_entry(envelope)
    signed = msgspec.structs.replace(envelope, sender=sender)
    if isinstance(envelope, MAIL):
        return seal(subjects.mail(envelope.recipient, sender), signed)
    what = str(type(envelope).__struct_config__.tag).partition(".")[0]
    return seal(subjects.event(sender, what), signed)


def _continue_trace(delivery: Delivery) -> None:
    """Continue the trace of a message; one that has none begins the same trace whenever it is delivered."""
    origin = f"{delivery.stream} {delivery.seq} {delivery.stored_at}"
    continue_trace(str(delivery.headers.get(TRACE_HEADER, "")), origin)


async def _pass_over(_: Delivery) -> None:
    """Nothing to do: its recipients acted on what it replaces."""


def _is_submission(address: Address, task: Task) -> bool:
    return address.step in _LANES and address[1:4] == (task.requester, task.assignee, task.task_id)


class _Named(msgspec.Struct):
    """The priority that a task names; None if it names none."""

    priority: TaskPriority | None = None


def _in_lane(delivery: Delivery, task: Task) -> Task:
    """A task with the priority of its subject, which decided when it came; Reject if it names another one."""
    lane = _LANES[delivery.address.step]
    if task.priority is lane:
        return task
    if msgspec.json.decode(delivery.data, type=_Named).priority is None:
        return amended(task, priority=lane)
    fitting = subjects.task(task.assignee, task.requester, task.task_id, subjects.NEW[task.priority])
    raise Reject(
        f"its priority is {task.priority}, but it was published on {delivery.subject!r}, which is for {lane}",
        f"Publish it on {fitting!r}, under another task_id",
    )


def _is_end(address: Address, result: TaskResult) -> bool:
    parties = (result.agent, result.recipient, result.task_id)
    return address.step == subjects.ENDED and address[1:4] == parties


def _task_in(delivery: Delivery) -> Task | None:
    try:
        envelope = decode(delivery.data)
    except ValueError:
        return None
    return envelope if isinstance(envelope, Task) else None
