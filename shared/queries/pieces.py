"""The pieces of which the course of goals and tasks consists: what each message says about it, in short."""

from enum import StrEnum
from typing import Any

import msgspec

from shared import subjects
from shared.bus import Stored
from shared.contracts import (
    ApprovalAnswer,
    ApprovalRequest,
    Effect,
    Span,
    StateChanged,
    Task,
    TaskChanged,
    TaskResult,
)
from shared.contracts.base import amended
from shared.contracts.cognition import spending_of

SHORT = 160  # Characters of a text in a short piece
MAX_QUESTION = 4_000  # Characters of what a person is asked, who has to read all of it
MAX_EFFECTS = 40  # Effects of one piece; those that began last are kept


class PieceKind(StrEnum):
    """What a piece says: a task's step, a request for approval or its answer, a goal's record."""

    SUBMITTED = "submitted"
    CLAIMED = "claimed"
    NOTED = "noted"
    ENDED = "ended"
    ASKED = "asked"
    ANSWERED = "answered"
    RECORDED = "recorded"


class Piece(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a message says about the course of a goal or task; ``stream`` and ``seq`` are its place.

    ``agent`` is the assignee or who asks, ``id`` that of a task's envelope or of an approval, ``text`` the
    task's, a note, a result or what is asked. ``status`` of an answer is granted or refused; ``rule`` and
    ``why`` say why a person is asked.
    """

    kind: PieceKind
    stream: str
    seq: int
    time: str
    goal_id: str = ""
    task_id: str = ""
    agent: str = ""
    requester: str = ""
    id: str = ""
    cause: str = ""
    text: str = ""
    action: str = ""
    attempt: int = 0
    worker: str = ""
    begun_at: str = ""
    status: str = ""
    outcome: str = ""
    rule: str = ""
    why: str = ""
    expires_at: str = ""
    tokens: int = 0
    cost: float = 0.0
    effects: tuple[Effect, ...] = ()
    spans: tuple[Span, ...] = ()


_Body = Task | TaskChanged | TaskResult | ApprovalRequest | ApprovalAnswer | StateChanged
_KINDS: dict[str, tuple[type[_Body], PieceKind]] = {
    **dict.fromkeys(subjects.NEW.values(), (Task, PieceKind.SUBMITTED)),
    subjects.CLAIMED: (TaskChanged, PieceKind.CLAIMED),
    subjects.NOTED: (TaskChanged, PieceKind.NOTED),
    subjects.ENDED: (TaskResult, PieceKind.ENDED),
    subjects.CANCELLED: (TaskResult, PieceKind.ENDED),
}


def make_piece(stored: Stored, *, whole: bool = False) -> Piece | None:
    """The piece of a message, with its texts cut unless ``whole``; None if it says nothing about a course.

    A message that cannot be read is none either, except the end of a task, which is then a failure.
    """
    match stored.subject.split("."):
        case ["task", _, _, _, step] if step in _KINDS:
            contract, kind = _KINDS[step]
        case ["approval", _, "asked", _]:
            contract, kind = ApprovalRequest, PieceKind.ASKED
        case ["approval", _, "answered", _]:
            contract, kind = ApprovalAnswer, PieceKind.ANSWERED
        case ["state", "goal", _]:
            contract, kind = StateChanged, PieceKind.RECORDED
        case _:
            return None
    try:
        body = contract.from_json(stored.data)
    except ValueError as error:
        return _make_unreadable(stored, str(error)) if kind is PieceKind.ENDED else None
    limit = 0 if whole else SHORT
    place: dict[str, Any] = {"stream": stored.stream, "seq": stored.seq, "time": stored.time}
    return Piece(kind=kind, **place, goal_id=body.goal_id, **_fields(stored.subject, body, limit))


def _fields(subject: str, body: _Body, limit: int) -> dict[str, Any]:
    match body:
        case Task():
            return _task_fields(body, limit)
        case TaskChanged():
            return {
                **_parties(subject),
                "attempt": body.attempt,
                "worker": body.worker,
                "text": _cut(body.note, limit),
                "effects": body.journal[-MAX_EFFECTS:],
                "spans": _cut_spans(body.spans, limit),
            }
        case TaskResult():
            tokens, cost = spending_of(body.metadata)
            return {
                **_parties(subject),
                "attempt": body.attempt,
                "worker": body.worker,
                "begun_at": body.begun_at,
                "status": str(body.status),
                "outcome": str(body.outcome),
                "text": _cut(body.error_message or body.output, limit),
                "tokens": tokens,
                "cost": cost,
                "spans": _cut_spans(body.spans, limit),
            }
        case StateChanged():
            return {
                "agent": subjects.CONDUCTOR,
                "status": str(body.goal.status) if body.goal else "",
                "text": "planned" if body.goal and body.goal.tasks else "",
                "spans": _cut_spans(body.spans, limit),
            }
        case ApprovalAnswer():
            granted = "granted" if body.granted else "refused"
            agent = subject.split(".")[1]
            return {"id": body.approval_id, "agent": agent, "status": granted, "text": _cut(body.note, limit)}
    return {
        "id": body.approval_id,
        "agent": subject.split(".")[1],
        "task_id": body.task_id,
        "text": _cut(body.what, MAX_QUESTION),
        "rule": body.rule,
        "why": _cut(body.why, MAX_QUESTION),
        "expires_at": body.expires_at,
    }


def _task_fields(task: Task, limit: int) -> dict[str, Any]:
    return {
        "task_id": task.task_id,
        "agent": task.assignee,
        "requester": task.requester,
        "id": task.id,
        "cause": task.cause,
        "text": _cut(task.text, limit),
        "action": _cut(str(task.context.get("action") or ""), 100),
    }


def _parties(subject: str) -> dict[str, Any]:
    _, assignee, requester, task_id, _ = subject.split(".")
    return {"task_id": task_id, "agent": assignee, "requester": requester}


def _cut(text: str, limit: int) -> str:
    return text[: limit - 1] + "…" if limit and len(text) > limit else text


def _cut_spans(spans: tuple[Span, ...], limit: int) -> tuple[Span, ...]:
    if not limit:
        return spans
    return tuple(amended(span, input=_cut(span.input, limit), output="") for span in spans)


def _make_unreadable(stored: Stored, reason: str) -> Piece:
    return Piece(
        kind=PieceKind.ENDED,
        stream=stored.stream,
        seq=stored.seq,
        time=stored.time,
        status="failed",
        text=f"Its result cannot be read: {reason[:SHORT]}",
        **_parties(stored.subject),
    )
