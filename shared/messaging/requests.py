"""Letters an agent writes, and answers that find who waits for them."""

from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.contracts import Correspondence, Email, generate_id, generate_iso_timestamp
from shared.contracts.base import amended
from shared.errors import ActionError, Conflict
from shared.messaging.pending import PendingReplies
from shared.tasks.context import TaskContext


class RequestReply:
    """The letters of one agent that it waits for answers to, stored as records of its own."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._waiting: PendingReplies[str, Email] = PendingReplies()

    async def write(self, job: TaskContext, recipient: str, subject: str, body: str, key: str) -> Email:
        """Write to ``recipient`` and wait for the answer to this very letter.

        Another attempt at the job finds the letter by its key instead of writing it again, and the answer
        where it came meanwhile. Raises ActionError for what is no letter.
        """
        try:
            letter = Email(
                id=self._bus.derive_id("letter", job.task.task_id, job.task.id, key),
                sender=self._bus.name,
                recipient=recipient,
                subject=subject[:500],
                body=body,
                cause=job.task.id,
                goal_id=job.task.goal_id,
                hops=job.hops + 1,
            )
        except ValueError as error:
            raise ActionError(f"That is no letter for {recipient[:64]!r}: {error}") from None
        answer = await self._waiting.wait(
            letter.id, lambda: self._is_sent(letter), lambda: self._answer(letter.id)
        )
        if answer is None:
            raise ActionError(f"The letter to {recipient} could not be sent")
        return answer

    async def take_answer(self, email: Email) -> list[Entry] | None:
        """What to store where ``email`` answers a letter that waits for it; None where it does not.

        Only whom the letter went to can answer it. The first answer counts; what comes after it is a letter
        like any other.
        """
        found = await self.sent(email.in_reply_to) if email.in_reply_to else None
        if found is None or not found[0].awaited or found[0].letter.recipient != email.sender:
            return None
        note, seq = found
        if note.answer is not None:
            return [] if note.answer.id == email.id else None
        self._waiting.give(note.letter.id, email)
        answered = amended(note, answer=email, id=generate_id(), created_at=generate_iso_timestamp())
        return [seal(subjects.record(self._bus.name, "letter", note.letter.id), answered, seq)]

    async def sent(self, letter_id: str) -> tuple[Correspondence, int] | None:
        """What is noted of a letter that was sent, and where."""
        stored = await self._bus.last(subjects.OFFICE, subjects.record(self._bus.name, "letter", letter_id))
        return (Correspondence.from_json(stored.data), stored.seq) if stored else None

    async def _is_sent(self, letter: Email) -> bool:
        note = Correspondence(sender=self._bus.name, goal_id=letter.goal_id, letter=letter, awaited=True)
        try:
            await self._bus.commit(
                [
                    seal(subjects.record(self._bus.name, "letter", letter.id), note, expect=0),
                    seal(subjects.mail(letter.recipient, self._bus.name), letter),
                ]
            )
        except Conflict:
            return await self.sent(letter.id) is not None
        return True

    async def _answer(self, letter_id: str) -> Email | None:
        found = await self.sent(letter_id)
        return found[0].answer if found else None
