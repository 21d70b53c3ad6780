"""What becomes of a message in an agent's mailbox: opened, checked, handled, committed or buried."""

import json
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from shared import subjects
from shared.agent.base import Agent, Outbox
from shared.agent.executor import TaskExecutor
from shared.bus import Delivery, Entry
from shared.bus.claim import claim, dead_letter_for, pending
from shared.bus.entry import seal
from shared.contracts import (
    AgentReport,
    AnyEnvelope,
    CancelGoal,
    Email,
    Envelope,
    GoalDue,
    Question,
    ReminderDue,
    Response,
    Task,
    TaskResult,
    decode,
)
from shared.errors import BusError, Conflict, Reject
from shared.log import logger

CONFLICT_TRIES = 8
"""How often a handler whose commit lost a race is run again at once."""

LETTERS = (Email, TaskResult, Question, Response, CancelGoal, AgentReport)
"""What goes to a mailbox; other envelopes are events of their sender."""

log = logger(__name__)


class Dispatcher:
    """Handles the deliveries of one agent."""

    def __init__(self, agent: Agent, workbench: TaskExecutor) -> None:
        self._agent = agent
        self._bus = agent.bus
        self._name = agent.profile.name
        self._workbench = workbench

    async def handle(self, delivery: Delivery) -> None:
        """Handle one delivery and commit what comes of it; raises Reject or Retry, see Consumer."""
        if delivery.subject == subjects.SUBMIT:
            await self._take_submission(delivery)
            return
        if delivery.subject.startswith("$JS.EVENT."):
            await self._bury_given_up(delivery)
            return
        envelope = self._open(delivery)
        if isinstance(envelope, Task):
            await self._work(delivery, envelope)
        elif not (isinstance(envelope, TaskResult) and self._agent.take_delegated(envelope)):
            await self._answer(delivery, envelope)

    async def bury(self, delivery: Delivery, reason: str) -> None:
        """Write the dead letter; a buried task fails, and its requester is told in the same commit."""
        task = _task_in(delivery)
        letter = seal(subjects.dead(self._name), dead_letter_for(self._bus, delivery, reason, task))
        log.error("buried", subject=delivery.subject, seq=delivery.seq, reason=reason)
        if task is None or delivery.subject != subjects.task(task.assignee, task.requester):
            await self._bus.commit([letter])
            return
        held = await claim(self._bus, delivery, task)
        if held is None:
            await self._bus.commit([letter])
        else:
            await held.settle(held.failure(reason), [letter])
            await self._agent.let_go(task)

    # --- opening ---------------------------------------------------------------------------------

    def _open(self, delivery: Delivery) -> AnyEnvelope:
        try:
            envelope = decode(delivery.data)
        except ValueError as error:
            raise Reject(str(error)) from None
        sender = subjects.sender_of(delivery.subject)
        claimed = envelope.requester if isinstance(envelope, Task) else envelope.sender
        if claimed != sender:
            raise Reject(f"it says it is from {claimed or 'nobody'!r}, but {sender!r} sent it")
        if isinstance(envelope, TaskResult) and envelope.agent != sender:
            raise Reject(f"it is the result of {envelope.agent!r}, but {sender!r} sent it")
        addressee = envelope.assignee if isinstance(envelope, Task) else envelope.recipient
        if addressee and addressee != self._name:
            raise Reject(f"it is addressed to {addressee!r}, but was left for {self._name!r}")
        return envelope

    async def _take_submission(self, delivery: Delivery) -> None:
        await self._commit_replies(
            delivery, lambda: self._agent.on_submission(delivery.data, delivery.seq, delivery.stored_at)
        )

    async def _answer(self, delivery: Delivery, envelope: AnyEnvelope) -> None:
        agent = self._agent
        match envelope:
            case Email():
                await self._commit_replies(delivery, lambda: agent.receive_letter(envelope))
            case Question():
                await self._commit_replies(delivery, lambda: agent.on_question(envelope))
            case TaskResult():
                await self._commit_replies(delivery, lambda: agent.receive_result(envelope))
            case CancelGoal():
                await self._commit_replies(delivery, lambda: agent.on_cancel(envelope))
            case GoalDue() | ReminderDue():
                await self._commit_replies(delivery, lambda: agent.on_due(envelope))
            case AgentReport():
                await self._commit_replies(delivery, lambda: agent.on_report(envelope))
            case Response():
                # Read and filed: it stays on the audit trail.
                return
            case _:
                raise Reject(f"{self._name} has no use for a {type(envelope).__struct_config__.tag}")

    async def _commit_replies(self, delivery: Delivery, handler: Callable[[], Awaitable[Outbox]]) -> None:
        for remaining in reversed(range(CONFLICT_TRIES)):
            replies = await handler()
            try:
                await self._bus.commit(self._seal(delivery, replies))
                return
            except Conflict:
                if not remaining:
                    raise

    def _seal(self, delivery: Delivery, replies: Iterable[Envelope | Entry]) -> list[Entry]:
        """Entries for what a handler returned; ids follow from the delivery: a repeat is stored once."""
        entries: list[Entry] = []
        for position, reply in enumerate(replies):
            if isinstance(reply, Entry):
                entries.append(reply)
                continue
            envelope = reply
            if not isinstance(reply, Task):
                envelope = msgspec.structs.replace(
                    reply, id=self._bus.derive_id(delivery.stream, str(delivery.seq), str(position))
                )
            entries += address(envelope, self._name)
        return entries

    # --- tasks -----------------------------------------------------------------------------------

    async def _work(self, delivery: Delivery, task: Task) -> None:
        held = await claim(self._bus, delivery, task)
        if held is None:
            await self._agent.let_go(task)
            return
        if held.attempt > self._agent.settings.max_attempts:
            raise Reject(f"it was begun {held.attempt - 1} times and never finished")
        try:
            await held.settle(await self._workbench.perform(held))
        except Conflict as conflict:
            if not await self._workbench.is_lost(held):
                raise BusError(
                    f"something it wrote to was changed at the same time: {conflict}"
                ) from conflict
            log.warning("claim_lost", task_id=task.task_id, attempt=held.attempt)
        finally:
            await self._agent.let_go(task)

    async def _bury_given_up(self, delivery: Delivery) -> None:
        """The server stopped handing a message out: say so, and where it lies."""
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


def address(envelope: Envelope, sender: str) -> list[Entry]:
    """The entries that send ``envelope`` as ``sender``: work, a letter, or an event."""
    if isinstance(envelope, Task):
        return pending(envelope, sender)
    signed = msgspec.structs.replace(envelope, sender=sender)
    if isinstance(envelope, LETTERS):
        return [seal(subjects.mail(envelope.recipient, sender), signed)]
    what = str(type(envelope).__struct_config__.tag).partition(".")[0]
    return [seal(subjects.event(sender, what), signed)]


def _task_in(delivery: Delivery) -> Task | None:
    try:
        envelope = decode(delivery.data)
    except ValueError:
        return None
    return envelope if isinstance(envelope, Task) else None
