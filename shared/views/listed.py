"""Goals, agents, requests for approval, papers and news as lists show them."""

from typing import Annotated, Any, Literal

import msgspec

from shared.contracts import ApprovalAnswer, ApprovalRequest, Goal, Presence


class Processes(msgspec.Struct, frozen=True, kw_only=True):
    """What each process says of itself; of one agent ``most`` are read at most."""

    processes: list[Presence]
    most: int


class Controlled(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for an agent from now on."""

    agent: str
    do: str
    paused: bool
    by: str
    at: str


class LatestGoals(msgspec.Struct, frozen=True, kw_only=True):
    """Goals, the one that was submitted last at the end, and how many ``others`` there are."""

    goals: list[Goal]
    others: int


class ToldItem(msgspec.Struct, frozen=True, kw_only=True):
    """A paper or an item of news that was told."""

    id: str
    title: str
    text: str = ""
    link: str = ""
    told_at: str = ""


class NewsList(msgspec.Struct, frozen=True, kw_only=True):
    """Items, the latest first."""

    news: list[ToldItem]


class DeadLetterView(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter; ``number`` names it, ``agent`` could not handle the message, for the ``reason``.

    ``original`` is the beginning of the message, which is number ``stream_seq`` of ``stream``; it had
    ``original_size`` bytes.
    """

    number: int
    agent: str
    reason: str
    subject: str
    since: str
    deliveries: int
    goal_id: str
    task_id: str
    stream: str
    stream_seq: int
    headers: dict[str, str]
    original: str
    original_size: int


class DeadLetterList(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters, the latest last, the number of all, and how many more each agent has."""

    dead_letters: list[DeadLetterView]
    total: int
    more: dict[str, int]


Reaching = Literal["command", "task", "goal"]
"""How far a grant of reach goes."""


class Approval(msgspec.Struct, frozen=True):
    """A request, its answer if there is one, and its state: waiting, granted, refused, expired, over or
    changed.

    It is over if its goal ended before anyone answered, and changed if its text is not the one that was asked
    first: nobody can grant it then. ``opens`` says for people what a grant opens of the network.
    """

    request: ApprovalRequest
    answer: ApprovalAnswer | None
    state: str
    opens: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The request with its state, the note of the answer, and who gave it (empty if not known)."""
        answer = {"agent": self.request.sender, "state": self.state}
        if given := self.answer:
            answer |= {"note": given.note, "answered_at": given.created_at, "answered_by": given.person}
        return {**self.request.to_dict(), "digest": self.request.digest, **answer}


class Approvals(msgspec.Struct, frozen=True):
    """Requests, the latest last, and how many more there are of each agent that has such."""

    approvals: list[Approval]
    more: dict[str, int]


class Decision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer: ``scope`` is how far a grant of reach goes, ``hosts`` are opened beside what was asked."""

    granted: bool
    note: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    scope: Reaching = "command"
    hosts: tuple[str, ...] = ()
