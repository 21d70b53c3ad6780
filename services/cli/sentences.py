"""What a stored message says, in one line: who wrote to whom, what kind of thing it is, and its gist."""

import json

import msgspec

from services.cli.gists import gist_of
from services.cli.screen import clean
from shared import subjects
from shared.contracts import (
    AnyEnvelope,
    TaskChanged,
    TaskStatus,
    decode,
)

GIST = 400
"""The most characters of a message that a line shows."""


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """A message in words; ``recipient`` is empty where it is for whoever cares."""

    sender: str
    recipient: str = ""
    kind: str
    text: str
    id: str = ""
    cause: str = ""
    goal_id: str = ""
    task_id: str = ""
    status: str = ""

    @property
    def who(self) -> str:
        """``sender → recipient``, or the sender alone."""
        return f"{self.sender} → {self.recipient}" if self.recipient else self.sender


def describe(subject: str, data: bytes) -> Sentence:
    """The message in words; what is no envelope is described as such."""
    if subject == subjects.SUBMIT:
        return _submission(data)
    if subject.startswith("$JS.EVENT."):
        return _advisory(subject, data)
    sender, recipient = _parties(subject)
    try:
        envelope = decode(data)
    except ValueError as error:
        return Sentence(sender=sender, recipient=recipient, kind="unreadable", text=clean(str(error)[:GIST]))
    kind, text, status = gist_of(envelope)
    if isinstance(envelope, TaskChanged) and _is_handed_out(envelope, recipient):
        sender, recipient = recipient, sender
    return Sentence(
        sender=sender,
        recipient=recipient,
        kind=kind,
        text=clean(text[:GIST]),
        id=envelope.id,
        cause=envelope.cause,
        goal_id=envelope.goal_id,
        task_id=_task_id(envelope),
        status=status,
    )


def _parties(subject: str) -> tuple[str, str]:
    """Who the subject says wrote, which the broker vouches for, and to whom."""
    match subject.split("."):
        case ["task" | "mail", recipient, sender]:
            return sender, recipient
        case ["state", "goal" | "office", *_]:
            return subjects.CONDUCTOR, ""
        case ["state", assignee, requester, _]:
            return assignee, requester
        case ["memory", "write", sender]:
            return sender, subjects.MEMORY_DAEMON
        case ["event" | "dead" | "record", sender, *_]:
            return sender, ""
        case ["approval", sender, "asked", _]:
            return sender, subjects.USER
        case ["approval", recipient, "answered", _]:
            return subjects.USER, recipient
    return subject, ""


def _is_handed_out(change: TaskChanged, requester: str) -> bool:
    """Whether a record was written by the requester: the broker lets both parties of a task write it."""
    return change.sender == requester or change.task.status is TaskStatus.PENDING


def _submission(data: bytes) -> Sentence:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        body = None
    values = body if isinstance(body, dict) else {}
    text = values.get("text", values.get("task_description")) or data[:GIST].decode("utf-8", "replace")
    return Sentence(
        sender=clean(str(values.get("requester") or subjects.USER)[:64]),
        recipient=subjects.CONDUCTOR,
        kind="submission",
        text=clean(str(text)[:GIST]),
        goal_id=clean(str(values.get("goal_id") or "")[:128]),
    )


def _advisory(subject: str, data: bytes) -> Sentence:
    try:
        advisory = json.loads(data)
        text = f"gave up on message {advisory['stream_seq']} after {advisory['deliveries']} deliveries"
    except (ValueError, KeyError, TypeError):
        text = clean(data[:GIST].decode("utf-8", "replace"))
    return Sentence(sender="server", recipient=subject.rpartition(".")[2], kind="given up", text=text)


def _task_id(envelope: AnyEnvelope) -> str:
    task = envelope.task if isinstance(envelope, TaskChanged) else envelope
    return str(getattr(task, "task_id", ""))
