"""Threads of letters to an agent: each letter becomes a task, and its result the answer."""

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
    TaskChanged,
    TaskResult,
    TaskSession,
    TaskStatus,
    generate_id,
    generate_iso_timestamp,
)
from shared.contracts.base import amended
from shared.messaging.requests import RequestReply
from shared.text.excerpt import excerpt

LETTER_TASK = "letter_"
"""What the ids of the tasks begin with that letters become."""
MAX_HISTORY = 40
"""Messages of a thread that are kept: what is older is in the letters themselves."""
MAX_SAID = 10_000
"""Characters of each of them that are kept."""
MAX_LETTER = 90_000
"""Characters of a letter that its task quotes, and of an answer: both have room for 100,000."""

Said = Mapping[str, Any]


class Threads:
    """The threads of one agent, stored as records of its own so that a restart forgets none."""

    def __init__(self, bus: Bus, exchange: RequestReply) -> None:
        self._bus = bus
        self._exchange = exchange

    async def open_letter(self, email: Email) -> list[Entry | Task]:
        """What a letter leads to: its thread with it added, and a task for oneself to answer it."""
        session, seq = await self._session(email)
        if any(message.get("id") == email.id for message in session.history):
            return []
        words = excerpt(_words(email), MAX_LETTER)
        continued = _continued(
            session, SessionStatus.RUNNING, {"role": "user", "id": email.id, "text": words}
        )
        work = Task(
            task_id=f"{LETTER_TASK}{self._bus.derive_id('letter task', email.sender, email.id)}",
            cause=email.id,
            goal_id=email.goal_id,
            text=words or "(an empty letter)",
            assignee=self._bus.name,
            requester=self._bus.name,
            context={
                "letter": email.to_dict(),
                "session_id": session.session_id,
                "history": [*session.history],
                "hops": email.hops,
            },
        )
        return [self._session_entry(continued, seq), work]

    async def close_letter(self, task: Task, result: TaskResult) -> list[Entry]:
        """What ends a letter's task: the answer, in its thread, with a note of where answers to it belong.

        A person is not answered by an agent that rests; a colleague may wait for the answer, and is.
        """
        email = Email.from_dict(task.context["letter"])
        found = await self._find(str(task.context["session_id"]))
        if found is None or any(message.get("cause") == email.id for message in found[0].history):
            return []
        session, seq = found
        done = result.status is TaskStatus.COMPLETED
        words = (result.output if done else f"I could not do that. {result.error_message}").strip()
        answered = {"role": "assistant", "cause": email.id, "text": words}
        entries = [self._session_entry(_continued(session, SessionStatus.WAITING, answered), seq)]
        if not result.metadata.get("rested") or email.sender != subjects.USER:
            entries += self._answer(email, words or "(nothing to say)", result, session)
        return entries

    async def take_result(self, result: TaskResult) -> list[Entry] | None:
        """What the result of a letter's task leads to; None where it is not one."""
        if result.sender != self._bus.name or not result.task_id.startswith(LETTER_TASK):
            return None
        subject = subjects.state(result.agent, self._bus.name, result.task_id)
        stored = await self._bus.last(subjects.OFFICE, subject)
        task = TaskChanged.from_json(stored.data).task if stored else None
        return await self.close_letter(task, result) if task and is_letter(task) else []

    async def _session(self, email: Email) -> tuple[TaskSession, int]:
        """The thread a letter belongs to and where it is stored; a new one where it answers nothing known."""
        note = await self._answered_letter(email)
        replied = note.session_id if note else email.in_reply_to
        begun = note.letter.id if note else email.id
        # Whoever writes chooses the id of a letter: it may be that of somebody else's.
        apart = self._bus.derive_id("session", email.sender, email.id)
        for session_id in dict.fromkeys(filter(None, (replied, begun, apart))):
            found = await self._find(session_id)
            if found is not None and found[0].original_sender == email.sender:
                return found
            if found is None and session_id != replied:
                break
        session = TaskSession(
            sender=self._bus.name,
            session_id=session_id,
            original_sender=email.sender,
            user_session_id=email.user_session_id,
            goal_id=email.goal_id,
            history=_history_before(note),
        )
        return session, 0

    async def _answered_letter(self, email: Email) -> Correspondence | None:
        sent = await self._exchange.sent(email.in_reply_to) if email.in_reply_to else None
        return sent[0] if sent is not None and sent[0].letter.recipient == email.sender else None

    async def _find(self, session_id: str) -> tuple[TaskSession, int] | None:
        stored = await self._bus.last(subjects.OFFICE, subjects.record(self._bus.name, "session", session_id))
        return (TaskSession.from_json(stored.data), stored.seq) if stored else None

    def _answer(self, email: Email, words: str, result: TaskResult, session: TaskSession) -> list[Entry]:
        answer = Email(
            id=self._bus.derive_id("answer", email.sender, email.id),
            sender=self._bus.name,
            recipient=email.sender,
            subject=f"Re: {email.subject}"[:500] if email.subject else "",
            body=excerpt(_with_sources(words, result), MAX_LETTER),
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
        renewed = amended(session, id=generate_id(), created_at=generate_iso_timestamp())
        return seal(subject, renewed, expect=seq)


def is_letter(task: Task) -> bool:
    """Whether a task is what a letter to this agent led to: nobody but itself can hand it one."""
    return (
        task.requester == task.assignee and task.task_id.startswith(LETTER_TASK) and "letter" in task.context
    )


def history_of(context: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """The messages that came before a letter in its thread, as its task carries them."""
    history = context.get("history")
    return [message for message in history if isinstance(message, dict)] if isinstance(history, list) else []


def _continued(session: TaskSession, status: SessionStatus, said: Said) -> TaskSession:
    kept = {**said, "text": excerpt(str(said["text"]), MAX_SAID)}
    return amended(session, status=status, history=(*session.history, kept)[-MAX_HISTORY:])


def _history_before(note: Correspondence | None) -> tuple[dict[str, Any], ...]:
    """What was said before a second answer to a letter of one's own: the letter, and the first answer."""
    if note is None or note.session_id:
        return ()
    said: list[tuple[str, Email]] = [("assistant", note.letter)]
    if note.answer is not None:
        said.append(("user", note.answer))
    return tuple({"role": role, "text": excerpt(_words(email), MAX_SAID)} for role, email in said)


def _words(email: Email) -> str:
    return "\n\n".join(part for part in (email.subject.strip(), email.body.strip()) if part)


def _with_sources(words: str, result: TaskResult) -> str:
    files = "".join(f"\n- {path}" for path in result.output_paths[:20])
    return f"{words}\n\nFiles:{files}" if files else words
