"""Goals, agents, requests for approval, news, and what happens later, as lists show them."""

from pathlib import PurePath
from typing import Annotated, Any, Literal

import msgspec

from shared.contracts import ApprovalAnswer, ApprovalRequest, Due, Goal, Presence, TaskPriority
from shared.contracts.base import MAX_TEXT


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


GOAL_ID = r"[A-Za-z0-9_-]{1,80}"  # The ids that the conductor takes


class NewGoal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A goal in the person's own words; ``context`` as ``mailroom submit -c`` gives it.

    ``context_refs`` and ``evidence_refs`` name memories, files and tasks that its tasks are shown. With a
    ``goal_id`` of the person's choice, the same submitted again begins nothing twice. ``is_resolved`` says
    that paths in the text were made whole where it was written: what still looks like one is no path.
    """

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]
    context: dict[str, Any] = {}
    context_refs: tuple[str, ...] = ()
    evidence_refs: tuple[str, ...] = ()
    priority: TaskPriority = TaskPriority.MEDIUM
    deadline: str = ""
    goal_id: Annotated[str, msgspec.Meta(pattern=rf"^({GOAL_ID})?\Z")] = ""
    is_resolved: bool = False


class SubmittedGoal(msgspec.Struct, frozen=True, kw_only=True):
    """The id of a goal that was submitted, and the number of its message in OFFICE.

    If it was submitted before under an id of one's own, ``status`` is the one that it has now. The number is
    0 then, and with an Idempotency-Key.
    """

    goal_id: str
    status: str = "submitted"
    seq: int = 0


class DeliveredPatch(msgspec.Struct, frozen=True, kw_only=True):
    """A patch that an agent delivered, and the folder it was made for; empty if that was not recorded."""

    path: str
    folder: str = ""

    @property
    def name(self) -> str:
        """The name of the project."""
        return PurePath(self.path).stem


class PatchFile(DeliveredPatch, frozen=True, kw_only=True):
    """A patch and its bytes."""

    data: bytes


class GoalPatches(msgspec.Struct, frozen=True, kw_only=True):
    """The patches of a goal, for whoever applies them where they are."""

    goal_id: str
    patches: list[PatchFile]


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """A patch and what became of it: ``done`` is applied, already applied, declined or refused.

    ``undo`` is the command that takes it out again, ``problem`` why it was refused and ``cure`` what helps.
    """

    project: str
    patch: str
    folder: str
    done: str
    files: list[str] = []
    undo: str = ""
    problem: str = ""
    cure: str = ""


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


Reaching = Literal["command", "task", "goal"]  # How far a grant of reach goes


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


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happens at ``at``, or did.

    ``what`` is mail (a reminder), goal (on a schedule), briefing, job (of the night) or deadline (the end of
    a goal's time). ``status`` is as in the record; what is not recorded waits. ``every`` says in English how
    often it repeats, ``next_runs`` are the next times. ``runs`` counts how often it happened, ``missed`` the
    runs that were left out, ``note`` says why the last one was; ``last`` is the goal that began at
    ``last_at``. ``due`` is the record, if it has one.
    """

    id: str
    what: str
    text: str
    at: str
    status: str = "waiting"
    every: str = ""
    next_runs: list[str] = []
    runs: int = 0
    missed: int = 0
    last_at: str = ""
    last: str = ""
    note: str = ""
    due: Due | None = None

    @property
    def waits(self) -> bool:
        """Whether it is going to happen."""
        return self.status in ("waiting", "snoozed")


class NightJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job of the night; ``state`` is waiting, running, ended or refused.

    ``outcome`` is how it ended, ``reason`` why it was refused or what it waits for; ``task_id`` is the task
    that does it.
    """

    id: str
    state: str
    task: str = ""
    priority: str = ""
    run_at: str = ""
    when: str = ""
    at: str = ""
    task_id: str = ""
    outcome: str = ""
    reason: str = ""


class NightQueue(msgspec.Struct, frozen=True, kw_only=True):
    """The overnight queue; not ``reachable`` if its folder is not on this machine.

    ``window`` is the time in which jobs begin; empty: as soon as they are due. It begins or began at
    ``begins_at``. ``held`` says why nothing begins now, though it is time; ``tokens`` and ``cost`` (US
    dollars) are what models used in this night, or the last one; the limits are its budget (0: none).
    """

    reachable: bool
    window: str = ""
    is_night: bool = True
    begins_at: str = ""
    ends_at: str = ""
    held: str = ""
    tokens: int = 0
    cost: float = 0.0
    token_limit: int = 0
    cost_limit: float = 0.0
    folder: str = ""
    counts: dict[str, int] = {}
    jobs: list[NightJob] = []


class TimetablePage(msgspec.Struct, frozen=True, kw_only=True):
    """What is going to happen, the next first, then what is paused or open; and the night's queue.

    ``time_zone`` is that of the office, ``problem`` names records that are damaged.
    """

    time_zone: str
    items: list[Item]
    night: NightQueue
    problem: str = ""
