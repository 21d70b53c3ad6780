"""Emails that an agent sends and waits for the answers to; both are stored, so a restart finds them."""

from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import Record, read_record
from shared.contracts import Email, SentEmail, generate_id, generate_iso_timestamp
from shared.contracts.base import amended
from shared.errors import ActionError, Conflict
from shared.messaging.pending import PendingReplies
from shared.tasks.context import require_current_task


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
