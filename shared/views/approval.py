"""Approvals as people see them, and decide on them."""

from typing import Annotated, Any, Literal

import msgspec

from shared.contracts import ApprovalAnswer, ApprovalRequest

Reaching = Literal["command", "task", "goal"]  # How far a grant of reach goes


Grade = Literal["low", "medium", "high"]


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A request as people decide about it, with its answer if there is one.

    ``state`` is waiting, granted, refused, expired, over or changed. It is over if its goal ended before
    anyone answered, and changed if its text is not the one that was asked first: nobody can grant it then.
    ``what`` is the whole of what it asks for, invisible characters as their code points; ``rule`` and ``why``
    say why it is asked, ``reach`` what a grant opens of the network, ``opens`` the same for people;
    ``on_yes`` and ``on_no`` what follows. ``risk`` grades how bad it can get if it is granted,
    ``risk_reason`` says why. ``needs_hosts``: a grant must name hosts. ``goal`` is the goal's text, where
    that was looked up; ``needs`` the scope that one needs to answer.
    """

    request: ApprovalRequest
    answer: ApprovalAnswer | None
    state: str
    opens: str
    approval_id: str
    agent: str
    what: str
    rule: str
    why: str
    risk: Grade
    risk_reason: str
    reach: tuple[str, ...]
    needs_hosts: bool
    on_yes: str
    on_no: str
    goal_id: str
    goal: str = ""
    task_id: str
    asked_at: str
    expires_at: str
    needs: str = "approve"

    def to_dict(self) -> dict[str, Any]:
        """The request with its state, the note of the answer, and who gave it (empty if not known)."""
        answer = {"agent": self.request.sender, "state": self.state}
        if given := self.answer:
            answer |= {"note": given.note, "answered_at": given.created_at, "answered_by": given.person}
        return {**self.request.to_dict(), "digest": self.request.digest, **answer}


class Approvals(msgspec.Struct, frozen=True, kw_only=True):
    """Requests, the latest last, and how many more there are of each agent that has such."""

    approvals: list[Approval]
    more: dict[str, int]


class Decision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer: ``scope`` is how far a grant of reach goes, ``hosts`` are opened beside what was asked."""

    granted: bool
    note: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    scope: Reaching = "command"
    hosts: tuple[str, ...] = ()
