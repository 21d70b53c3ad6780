"""Letters an agent exchanges: threads that survive a restart, and answers that find who waits for them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.contracts import (
    Correspondence,
    Email,
    SessionStatus,
    Task,
    TaskResult,
    TaskSession,
    TaskStatus,
    generate_id,
    generate_iso_timestamp,
)
from shared.contracts.base import amended
from shared.delegation import POLL
from shared.errors import Conflict
from shared.job import Job

LETTER_TASK = "letter_"
"""What the ids of the tasks begin with that letters become."""
MAX_HISTORY = 40
"""Messages of a thread that are kept: what is older is in the letters themselves."""


class Letters:
    """The letters and threads of one agent, stored as records of its own."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._waiting: dict[str, asyncio.Future[Email]] = {}

    # --- a letter of one's own, and its answer ---------------------------------------------------

    async def exchange(self, job: Job, recipient: str, subject: str, body: str, key: str) -> Email:
        """Write to ``recipient`` and wait for the answer to this very letter.

        Another attempt at the job finds the letter by its key instead of writing it again, and the answer
        where it came meanwhile.
        """
        letter = Email(
            id=self._bus.derive_id("letter", job.task.task_id, key),
            sender=self._bus.name,
            recipient=recipient,
            subject=subject[:500],
            body=body,
            cause=job.task.id,
            goal_id=job.task.goal_id,
        )
        arrived: asyncio.Future[Email] = asyncio.get_running_loop().create_future()
        self._waiting[letter.id] = arrived
        try:
            await self._send(letter)
            return await self._await(letter.id, arrived)
        finally:
            del self._waiting[letter.id]

    async def _send(self, letter: Email) -> None:
        note = Correspondence(sender=self._bus.name, goal_id=letter.goal_id, letter=letter, awaited=True)
        try:
            await self._bus.commit(
                [
                    seal(subjects.record(self._bus.name, "letter", letter.id), note, expect=0),
                    seal(subjects.mail(letter.recipient, self._bus.name), letter),
                ]
            )
        except Conflict:
            if await self._sent(letter.id) is None:
                raise

    async def _await(self, letter_id: str, arrived: asyncio.Future[Email]) -> Email:
        pause, longest = POLL
        while True:
            done, _ = await asyncio.wait({arrived}, timeout=pause)
            if done:
                return arrived.result()
            pause = min(longest, 2 * pause)
            sent = await self._sent(letter_id)
            if sent is not None and sent[0].answer is not None:
                return sent[0].answer

    async def take_answer(self, email: Email) -> list[Entry] | None:
        """What to store where ``email`` answers a letter that waits for it; None where it does not.

        Only whom the letter went to can answer it. The first answer counts; what comes after it is a letter
        like any other.
        """
        sent = await self._sent(email.in_reply_to) if email.in_reply_to else None
        if sent is None or not sent[0].awaited or sent[0].letter.recipient != email.sender:
            return None
        note, seq = sent
        if note.answer is not None:
            return [] if note.answer.id == email.id else None
        waiting = self._waiting.get(note.letter.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(email)
        answered = amended(note, answer=email)
        return [seal(subjects.record(self._bus.name, "letter", note.letter.id), _renewed(answered), seq)]

    async def _sent(self, letter_id: str) -> tuple[Correspondence, int] | None:
        stored = await self._bus.last(subjects.OFFICE, subjects.record(self._bus.name, "letter", letter_id))
        return (Correspondence.from_json(stored.data), stored.seq) if stored else None

    # --- threads ---------------------------------------------------------------------------------

    async def open_letter(self, email: Email) -> list[Entry | Task]:
        """What a letter leads to: its thread with it added, and a task for oneself to answer it."""
        session, seq = await self._session(email)
        if any(message.get("id") == email.id for message in session.history):
            return []
        said = {"role": "user", "id": email.id, "text": _words(email)}
        continued = amended(
            session, status=SessionStatus.RUNNING, history=(*session.history, said)[-MAX_HISTORY:]
        )
        work = Task(
            task_id=f"{LETTER_TASK}{self._bus.derive_id('letter task', email.id)}",
            cause=email.id,
            goal_id=email.goal_id,
            text=_words(email) or "(an empty letter)",
            assignee=self._bus.name,
            requester=self._bus.name,
            context={
                "letter": email.to_dict(),
                "session_id": session.session_id,
                "history": [*session.history],
            },
        )
        return [self._session_entry(continued, seq), work]

    async def _session(self, email: Email) -> tuple[TaskSession, int]:
        """The thread a letter belongs to and where it is stored; a new one where it answers nothing known."""
        session_id = email.in_reply_to
        sent = await self._sent(session_id) if session_id else None
        if sent is not None and sent[0].letter.recipient == email.sender:
            session_id = sent[0].session_id
        found = await self._find(session_id) if session_id else None
        if found is not None and email.sender == found[0].original_sender:
            return found
        session = TaskSession(
            sender=self._bus.name,
            session_id=email.id,
            original_sender=email.sender,
            user_session_id=email.user_session_id,
            goal_id=email.goal_id,
        )
        return session, 0

    async def _find(self, session_id: str) -> tuple[TaskSession, int] | None:
        stored = await self._bus.last(subjects.OFFICE, subjects.record(self._bus.name, "session", session_id))
        return (TaskSession.from_json(stored.data), stored.seq) if stored else None

    async def close_letter(self, task: Task, result: TaskResult) -> list[Entry]:
        """What ends a letter's task: the answer, in its thread, with a note of where answers to it belong."""
        email = Email.from_dict(task.context["letter"])
        found = await self._find(str(task.context["session_id"]))
        if found is None or any(message.get("cause") == email.id for message in found[0].history):
            return []
        session, seq = found
        done = result.status is TaskStatus.COMPLETED
        words = (result.output if done else f"I could not do that. {result.error_message}").strip()
        said = {"role": "assistant", "cause": email.id, "text": words}
        waiting = amended(
            session, status=SessionStatus.WAITING, history=(*session.history, said)[-MAX_HISTORY:]
        )
        entries = [self._session_entry(waiting, seq)]
        if not result.metadata.get("rested"):
            entries += self._answer(email, words or "(nothing to say)", result, session)
        return entries

    def _answer(self, email: Email, words: str, result: TaskResult, session: TaskSession) -> list[Entry]:
        answer = Email(
            id=self._bus.derive_id("answer", email.id),
            sender=self._bus.name,
            recipient=email.sender,
            subject=f"Re: {email.subject}"[:500] if email.subject else "",
            body=_with_sources(words, result),
            in_reply_to=email.id,
            user_session_id=email.user_session_id,
            cause=email.id,
            goal_id=email.goal_id,
        )
        note = Correspondence(
            sender=self._bus.name, goal_id=email.goal_id, letter=answer, session_id=session.session_id
        )
        return [
            seal(subjects.mail(email.sender, self._bus.name), answer),
            seal(subjects.record(self._bus.name, "letter", answer.id), note),
        ]

    def _session_entry(self, session: TaskSession, seq: int) -> Entry:
        subject = subjects.record(self._bus.name, "session", session.session_id)
        return seal(subject, _renewed(session), expect=seq)


def is_letter(task: Task) -> bool:
    """Whether a task is what a letter to this agent led to: nobody but itself can hand it one."""
    return (
        task.requester == task.assignee and task.task_id.startswith(LETTER_TASK) and "letter" in task.context
    )


def history_of(context: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """The messages that came before a letter in its thread, as its task carries them."""
    history = context.get("history")
    return [message for message in history if isinstance(message, dict)] if isinstance(history, list) else []


def _renewed(envelope: Any) -> Any:
    return amended(envelope, id=generate_id(), created_at=generate_iso_timestamp())


def _words(email: Email) -> str:
    return "\n\n".join(part for part in (email.subject.strip(), email.body.strip()) if part)


def _with_sources(words: str, result: TaskResult) -> str:
    files = "".join(f"\n- {path}" for path in result.output_paths[:20])
    return f"{words}\n\nFiles:{files}" if files else words
