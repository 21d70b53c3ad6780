"""Emails that an agent sends and waits for the answers to, and threads in which each becomes a task."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.consumer import yield_slot
from shared.bus.entry import seal
from shared.bus.records import Record, read_record, read_submitted
from shared.contracts import (
    Email,
    SentEmail,
    SessionStatus,
    Task,
    TaskResult,
    TaskSession,
    TaskStatus,
    generate_id,
    generate_iso_timestamp,
)
from shared.contracts.base import amended
from shared.errors import ActionError, BusUnavailable, Conflict
from shared.log import logger
from shared.tasks.context import require_current_task
from shared.text.display import excerpt

POLL = (0.05, 1.0)
"""Seconds between reads of the reply's record, doubling from the first value to the second: the reply may
reach another process of the agent."""

K = TypeVar("K")
T = TypeVar("T")

log = logger(__name__)


class PendingReplies(Generic[K, T]):
    """Futures of the replies that are waited for here; the dispatcher resolves one when its reply arrives."""

    def __init__(self) -> None:
        self._futures: dict[K, asyncio.Future[T]] = {}

    async def wait(
        self, key: K, begin: Callable[[], Awaitable[bool]], find: Callable[[], Awaitable[T | None]]
    ) -> T | None:
        """``begin``, then wait until ``key`` is resolved or ``find`` returns it; None if it did not begin.

        The consumer slot is free while it waits. While the server is away, it goes on waiting.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._futures[key] = future
        try:
            if not await begin():
                return None
            async with yield_slot():
                return await _await(future, find)
        finally:
            # Another attempt at the same task may wait for this key by now.
            if self._futures.get(key) is future:
                del self._futures[key]

    def resolve(self, key: K, value: T) -> bool:
        """Give ``value`` to the handler that waits for ``key``; returns whether one does in this process."""
        future = self._futures.get(key)
        if future is None:
            return False
        if not future.done():
            future.set_result(value)
        return True


async def _await(future: asyncio.Future[T], find: Callable[[], Awaitable[T | None]]) -> T:
    pause, longest = POLL
    while True:
        done, _ = await asyncio.wait({future}, timeout=pause)
        if done:
            return future.result()
        pause = min(longest, 2 * pause)
        try:
            reply = await find()
        except BusUnavailable as error:
            log.info("waits_without_server", reason=str(error))
            continue
        if reply is not None:
            return reply


class RequestReply:
    """The emails of one agent that it waits for answers to, stored as records of its own."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._pending: PendingReplies[str, Email] = PendingReplies()

    async def send(self, recipient: str, subject: str, body: str, *, key: str = "") -> Email:
        """Send an email to an agent or to ``user`` for the current task, and wait for the answer to it.

        The consumer slot is free meanwhile. Another attempt at the task finds the email by its key instead
        of sending it again, and the answer if it came meanwhile. Raises ActionError for an invalid email.
        """
        parent = require_current_task()
        try:
            email = Email(
                id=self._bus.derive_id(
                    "letter", parent.task.task_id, parent.task.id, parent.next_key(key or "l")
                ),
                sender=self._bus.name,
                recipient=recipient,
                subject=subject[:500],
                body=body,
                cause=parent.task.id,
                goal_id=parent.task.goal_id,
                hops=parent.hops + 1,
            )
        except ValueError as error:
            raise ActionError(f"That is not a valid email to {recipient[:64]!r}: {error}") from None
        answer = await self._pending.wait(
            email.id, lambda: self._store(email), lambda: self._answer(email.id)
        )
        if answer is None:
            raise ActionError(f"The email to {recipient} could not be sent")
        return answer

    async def accept_answer(self, email: Email) -> list[Entry] | None:
        """The messages to commit if ``email`` answers one that is waited for; None if it does not.

        Only the recipient of an email can answer it. The first answer counts; later ones are ordinary mail.
        """
        record = await self.find(email.in_reply_to) if email.in_reply_to else None
        if record is None or not record.value.awaited or record.value.email.recipient != email.sender:
            return None
        sent = record.value
        if sent.answer is not None:
            return [] if sent.answer.id == email.id else None
        self._pending.resolve(sent.email.id, email)
        return [self.note_answer(record, email)]

    def note_answer(self, record: Record[SentEmail], answer: Email) -> Entry:
        """The record of an email with its ``answer``: from then on it waits for none."""
        noted = amended(record.value, answer=answer, id=generate_id(), created_at=generate_iso_timestamp())
        return seal(self._subject(record.value.email.id), noted, record.seq)

    async def find(self, email_id: str) -> Record[SentEmail] | None:
        """The record of an email that this agent sent."""
        return await read_record(self._bus, self._subject(email_id), SentEmail)

    async def _store(self, email: Email) -> bool:
        record = SentEmail(sender=self._bus.name, goal_id=email.goal_id, email=email, awaited=True)
        try:
            await self._bus.commit(
                [
                    seal(self._subject(email.id), record, expect=0),
                    seal(subjects.mail(email.recipient, self._bus.name), email),
                ]
            )
        except Conflict:
            return await self.find(email.id) is not None
        return True

    async def _answer(self, email_id: str) -> Email | None:
        record = await self.find(email_id)
        return record.value.answer if record else None

    def _subject(self, email_id: str) -> str:
        return subjects.record(self._bus.name, "letter", email_id)


MAIL_TASK = "letter_"  # The prefix of the ids of tasks made from emails
MAX_HISTORY = 40  # Messages of a thread that its record keeps; older ones are in the emails themselves
MAX_MESSAGE = 10_000  # Characters of each of them that are kept
MAX_EMAIL = 90_000  # Characters of an email that its task quotes, and of an answer: contracts allow 100,000

ThreadMessage = Mapping[str, Any]


class Threads:
    """The mail threads of one agent, stored as records of its own so that a restart loses none."""

    def __init__(self, bus: Bus, requests: RequestReply) -> None:
        self._bus = bus
        self._requests = requests

    async def open_email(self, email: Email) -> list[Entry | Task]:
        """The messages to commit for an email: its thread with it added, and a task to answer it."""
        sent = await self._requests.find(email.in_reply_to) if email.in_reply_to else None
        answered = sent if sent is not None and sent.value.email.recipient == email.sender else None
        session, seq = await self._session(email, answered.value if answered else None)
        if any(message.get("id") == email.id for message in session.history):
            return []
        text = excerpt(_text(email), MAX_EMAIL)
        message = {"role": "user", "id": email.id, "text": text}
        continued = _with_message(session, SessionStatus.RUNNING, message)
        task = Task(
            task_id=f"{MAIL_TASK}{self._bus.derive_id('letter task', email.sender, email.id)}",
            cause=email.id,
            goal_id=email.goal_id,
            text=text or "(an empty email)",
            assignee=self._bus.name,
            requester=self._bus.name,
            asker=email.sender,
            context={
                "letter": email.to_dict(),
                "session_id": session.session_id,
                "history": [*session.history],
                "hops": email.hops,
            },
        )
        noted = (
            [self._requests.note_answer(answered, email)] if answered and not answered.value.answer else []
        )
        return [self._session_entry(continued, seq), *noted, task]

    async def close_email(self, task: Task, result: TaskResult) -> list[Entry]:
        """The messages to commit when an email's task ends: the answer, its thread, a record for replies.

        If the agent rested, a person gets no answer; another agent does, because it may wait for one.
        """
        email = Email.from_dict(task.context["letter"])
        record = await self._find(str(task.context["session_id"]))
        if record is None or any(message.get("cause") == email.id for message in record.value.history):
            return []
        session, seq = record.value, record.seq
        done = result.status is TaskStatus.COMPLETED
        text = (result.output if done else f"I could not do that. {result.error_message}").strip()
        answered = {"role": "assistant", "cause": email.id, "text": text}
        entries = [self._session_entry(_with_message(session, SessionStatus.WAITING, answered), seq)]
        if not result.metadata.get("rested") or email.sender != subjects.USER:
            entries += self._answer(email, text or "(nothing to say)", result, session)
        return entries

    async def accept_result(self, result: TaskResult) -> list[Entry] | None:
        """The messages to commit for the result of an email's task; None if it is not the result of one."""
        if result.sender != self._bus.name or not result.task_id.startswith(MAIL_TASK):
            return None
        task = await read_submitted(self._bus, result.agent, self._bus.name, result.task_id)
        return await self.close_email(task, result) if task and is_email_task(task) else []

    async def _session(self, email: Email, sent: SentEmail | None) -> tuple[TaskSession, int]:
        """The thread an email belongs to and its sequence; a new one (0) if it answers no known email."""
        known = sent.session_id if sent else email.in_reply_to
        new = sent.email.id if sent else email.id
        # The sender chooses the id of an email, so it may be the id of another sender's thread.
        derived = self._bus.derive_id("session", email.sender, email.id)
        for session_id in dict.fromkeys(filter(None, (known, new, derived))):
            record = await self._find(session_id)
            if record is not None and record.value.original_sender == email.sender:
                return record.value, record.seq
            if record is None and session_id != known:
                break
        session = TaskSession(
            sender=self._bus.name,
            session_id=session_id,
            original_sender=email.sender,
            user_session_id=email.user_session_id,
            goal_id=email.goal_id,
            history=_history_before(sent),
        )
        return session, 0

    async def _find(self, session_id: str) -> Record[TaskSession] | None:
        return await read_record(
            self._bus, subjects.record(self._bus.name, "session", session_id), TaskSession
        )

    def _answer(self, email: Email, text: str, result: TaskResult, session: TaskSession) -> list[Entry]:
        files = "".join(f"\n- {path}" for path in result.output_paths[:20])
        body = excerpt((f"{text}\n\nFiles:{files}" if files else text), MAX_EMAIL)
        answer = email.reply(body, id=self._bus.derive_id("answer", email.sender, email.id))
        note = SentEmail(
            sender=self._bus.name, goal_id=email.goal_id, email=answer, session_id=session.session_id
        )
        return [
            seal(subjects.mail(email.sender, self._bus.name), answer),
            seal(subjects.record(self._bus.name, "letter", answer.id), note),
        ]

    def _session_entry(self, session: TaskSession, seq: int) -> Entry:
        subject = subjects.record(self._bus.name, "session", session.session_id)
        renewed = amended(session, id=generate_id(), created_at=generate_iso_timestamp())
        return seal(subject, renewed, expect=seq)


def is_email_task(task: Task) -> bool:
    """Whether a task was made from an email to its assignee: only the assignee itself can make one."""
    return task.requester == task.assignee and task.task_id.startswith(MAIL_TASK) and "letter" in task.context


def history_of(context: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """The messages that came before an email in its thread, as its task carries them."""
    history = context.get("history")
    return [message for message in history if isinstance(message, dict)] if isinstance(history, list) else []


def _with_message(session: TaskSession, status: SessionStatus, message: ThreadMessage) -> TaskSession:
    kept = {**message, "text": excerpt(str(message["text"]), MAX_MESSAGE)}
    return amended(session, status=status, history=(*session.history, kept)[-MAX_HISTORY:])


def _history_before(sent: SentEmail | None) -> tuple[dict[str, Any], ...]:
    """The messages before a second answer to an email of this agent: the email, and the first answer."""
    if sent is None or sent.session_id:
        return ()
    messages: list[tuple[str, Email]] = [("assistant", sent.email)]
    if sent.answer is not None:
        messages.append(("user", sent.answer))
    return tuple({"role": role, "text": excerpt(_text(email), MAX_MESSAGE)} for role, email in messages)


def _text(email: Email) -> str:
    return "\n\n".join(part for part in (email.subject.strip(), email.body.strip()) if part)
