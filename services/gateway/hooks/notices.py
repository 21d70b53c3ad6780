"""What programs elsewhere are told, made from the messages of the log."""

from typing import Any

import msgspec

from services.gateway.index.store import Store
from shared import subjects
from shared.access.hooks import Kind
from shared.bus import Stored
from shared.contracts import ApprovalRequest, DeadLetter, Envelope, Goal, StateChanged, decode
from shared.text.shorten import flatten

SHORT, LONG = 200, 2_000
"""The most characters of a goal's text, and of what an agent writes."""


class Notice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event: ``text`` says in a sentence what happened and what is asked.

    ``id`` is the same however often the notice is delivered; ``link`` opens the goal in the dashboard.
    """

    id: str
    kind: Kind
    at: str
    text: str
    agent: str = ""
    goal_id: str = ""
    goal: str = ""
    task_id: str = ""
    asks: str = ""
    why: str = ""
    expires_at: str = ""
    status: str = ""
    outcome: str = ""
    failed: bool = False
    link: str = ""


def make_notice(stored: Stored, store: Store, address: str) -> Notice | None:
    """The notice of a message, if people are to know of it; ``address`` is that of the dashboard."""
    try:
        envelope = decode(stored.data)
    except ValueError:
        return None
    match envelope:
        case StateChanged(goal=Goal() as goal) if goal.status.final and goal.ended_at:
            return _goal_notice(goal, stored, address)
        case StateChanged():
            return None
        case ApprovalRequest():
            return _approval_notice(envelope, stored, store, address)
        case DeadLetter():
            return _notice(
                "dead_letter",
                stored,
                envelope,
                store,
                address,
                text=f"{envelope.sender} could not handle a message: {flatten(envelope.reason, LONG)}",
                task_id=envelope.task_id,
            )
    if not stored.subject.startswith(subjects.mail(subjects.USER, "")):
        return None
    row = store.message(stored.stream, stored.seq)
    text = f"{envelope.sender} wrote: {row.text if row else ''}".rstrip(": ")
    return _notice("mail", stored, envelope, store, address, text=flatten(text, LONG))


def is_wanted(notice: Notice, kinds: tuple[Kind, ...]) -> bool:
    """Whether a webhook for ``kinds`` is told of it; those that failed are among the goals that ended."""
    return notice.kind in kinds or ("goal_failed" in kinds and notice.kind == "goal_ended" and notice.failed)


def _goal_notice(goal: Goal, stored: Stored, address: str) -> Notice:
    short = flatten(goal.text, SHORT)
    reason = f": {flatten(goal.reason, LONG)}" if goal.reason else ""
    return Notice(
        id=f"goal_ended-{goal.goal_id}-{goal.ended_at}",
        kind="goal_ended",
        at=stored.time,
        text=f"{short}: {goal.standing}{reason}",
        goal_id=goal.goal_id,
        goal=short,
        status=str(goal.status),
        outcome=str(goal.outcome),
        failed=goal.failed,
        link=_link(address, goal.goal_id),
    )


def _approval_notice(request: ApprovalRequest, stored: Stored, store: Store, address: str) -> Notice:
    asks = flatten(request.what, LONG)
    return _notice(
        "approval_asked",
        stored,
        request,
        store,
        address,
        text=f"{request.sender} asks: {asks}",
        task_id=request.task_id,
        asks=asks,
        why=flatten(request.why, LONG),
        expires_at=request.expires_at,
    )


def _notice(
    kind: Kind, stored: Stored, envelope: Envelope, store: Store, address: str, **fields: Any
) -> Notice:
    goal = store.goal(envelope.goal_id) if envelope.goal_id else None
    return Notice(
        id=f"{kind}-{stored.stream}-{stored.seq}",
        kind=kind,
        at=stored.time,
        agent=envelope.sender,
        goal_id=envelope.goal_id,
        goal=flatten(goal.text, SHORT) if goal else "",
        link=_link(address, envelope.goal_id),
        **fields,
    )


def _link(address: str, goal_id: str) -> str:
    return f"{address}/goals/{goal_id}" if goal_id else f"{address}/"
