"""What an agent keeps for itself so that a restart forgets nothing: threads, letters, thoughts, spending."""

from enum import StrEnum
from typing import Any

from shared.contracts.base import Envelope, require_name, require_text, require_token
from shared.contracts.mail import Email


class SessionStatus(StrEnum):
    """Whether an agent works on a thread, or waits for what comes next in it."""

    RUNNING = "RUNNING"
    WAITING = "WAITING"


class TaskSession(Envelope, frozen=True, kw_only=True, tag="task_session.v1"):
    """A thread of letters as one agent knows it; ``session_id`` is the id of its first letter.

    ``history`` are the messages of the conversation: role and text.
    """

    session_id: str
    original_sender: str
    user_session_id: str = ""
    status: SessionStatus = SessionStatus.RUNNING
    history: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("session_id", self.session_id)
        require_name("original_sender", self.original_sender)


class Correspondence(Envelope, frozen=True, kw_only=True, tag="correspondence.v1"):
    """A letter an agent sent: the thread it belongs to, and the answer once there is one.

    ``awaited``: something waits for that answer, so that it opens no thread of its own.
    """

    letter: Email
    session_id: str = ""
    awaited: bool = False
    answer: Email | None = None


class Thinking(Envelope, frozen=True, kw_only=True, tag="thinking.v1"):
    """A train of thought about a task as far as it went; another attempt goes on from there.

    ``usage`` is what it took, ``spent`` all thinking about the task until then. ``doubts`` name what may or
    may not have taken effect.
    """

    task_id: str
    steps: int = 0
    messages: tuple[dict[str, Any], ...] = ()
    usage: dict[str, Any] = {}
    spent: dict[str, Any] = {}
    evidence_refs: tuple[str, ...] = ()
    output_paths: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("task_id", self.task_id)


class Spending(Envelope, frozen=True, kw_only=True, tag="spending.v1"):
    """What an agent's thinking took on one ``day`` (UTC, as 2026-01-02); ``cost`` in US dollars."""

    day: str
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    calls: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_text("day", self.day, 10)
