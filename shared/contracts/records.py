"""Records of the office: tasks, goals, dead letters, presence, approvals."""

import hashlib
from enum import StrEnum
from typing import Annotated, Any, Literal

from shared.contracts.base import (
    AgentName,
    Contract,
    Count,
    Envelope,
    Hash,
    OptionalName,
    OptionalPerson,
    OptionalTimestamp,
    OptionalToken,
    Text,
    Timestamp,
    Token,
    at_most,
    require_count,
    require_token,
    text_up_to,
)
from shared.contracts.checkup import Connection
from shared.contracts.task import GoalBudget, ResultOutcome, Said, Span, TaskPriority, TaskStatus


class Effect(Contract, frozen=True, kw_only=True):
    """An effect outside the office, recorded before it happens.

    If ``finished_at`` is empty after a crash, it may or may not have happened. Only a ``repeatable`` effect
    is repeated. ``step`` is the step of the task that caused it, if it has steps. ``host`` is where it was
    done, if the task's workspace there is all that it can have changed.
    """

    what: Annotated[str, text_up_to(2_000)]
    step: str = ""
    host: str = ""
    repeatable: bool = False
    started_at: Timestamp
    finished_at: OptionalTimestamp = ""


class TaskChanged(Envelope, frozen=True, kw_only=True, tag="task_changed.v2"):
    """A process began an attempt at a task, or noted its progress.

    ``origin`` is the sequence of the message that submitted the task. ``attempt`` counts claims from 1,
    ``worker`` is the process that holds the claim, ``journal`` has the effects of all attempts, ``spans`` are
    what the process did since the step before.
    """

    task_id: Token
    origin: Count
    attempt: Count
    worker: str
    note: str = ""
    journal: tuple[Effect, ...] = ()
    spans: tuple[Span, ...] = ()


class OfficeState(StrEnum):
    """What the conductor is doing, per goal and overall."""

    IDLE = "IDLE"
    PLANNING = "PLANNING"
    EXECUTING = "EXECUTING"
    REVIEW = "REVIEW"


class Change(Contract, frozen=True, kw_only=True):
    """What a task changed of the project in ``folder``: the path of the patch."""

    path: str
    folder: str


class GoalTask(Contract, frozen=True, kw_only=True):
    """One task of a goal's plan; ``depends_on`` are names of other tasks of the plan.

    ``success_criteria`` says when it is done, a line for each; ``outcome`` what it came to, if it has ended,
    ``changes`` what it changed. ``workspace`` and ``continues`` are as in Task. ``merges`` are the paths of
    the patches, in the order of the plan, that it makes one; its own takes their place.
    """

    name: Token
    task_id: Token
    text: Text
    assignee: AgentName
    action: str = ""
    params: dict[str, Any] = {}
    depends_on: tuple[str, ...] = ()
    status: TaskStatus = TaskStatus.PENDING
    issued: bool = False
    started_at: str = ""
    ended_at: str = ""
    summary: str = ""
    outcome: ResultOutcome = ResultOutcome.NONE
    success_criteria: str = ""
    workspace: OptionalToken = ""
    changes: tuple[Change, ...] = ()
    merges: tuple[str, ...] = ()
    continues: OptionalToken = ""


MAX_INSTRUCTION = 20_000  # The most characters of one instruction


class Instruction(Contract, frozen=True, kw_only=True):
    """What a person said about a goal after it was submitted; ``id`` is that of the request.

    ``person`` is who of the people said it, if that is known.
    """

    id: Token
    text: Annotated[str, at_most(MAX_INSTRUCTION)] = ""
    given_at: Timestamp
    person: OptionalPerson = ""


MAX_SETBACKS = 20  # Setbacks of a goal that are kept: the first ones


class Setback(Contract, frozen=True, kw_only=True):
    """A task of a goal that failed, or that the review sent back (``review``), and the reason.

    ``plan`` and ``told`` are how many plans and instructions the goal had by then.
    """

    task: Token
    agent: AgentName
    action: str = ""
    params: dict[str, Any] = {}
    reason: str = ""
    review: bool = False
    plan: Count = 0
    told: Count = 0


class Goal(Contract, frozen=True, kw_only=True):
    """Everything the conductor knows about one goal, so that it can resume after a crash.

    ``status`` is the goal's own, ``reviews`` how often the critic was asked, ``verdict`` its last
    one, ``report_path`` the path of the report once there is one. ``thinking`` is what a model is being asked
    for (plan, repair, answer; empty: nothing), ``plans`` how many plans it made, ``earlier`` the tasks that a
    later plan replaced, ``traceparent`` its trace, ``outcome`` what it came to, ``retry_of`` the goal that
    it repeats, ``instructions`` what people added to it, ``person`` who of the people submitted it, if known.
    ``context_refs`` and ``evidence_refs`` are those of its tasks.
    ``setbacks`` are what went wrong on the way, ``patterns`` the ids of the patterns that were used for it.
    ``left_out`` are parts of the request that are not done, ``question`` what a person has to say first.
    A goal that an agent submits for its own task is a part: ``part_of`` names the goal of that task, or the
    task itself if it has none, ``cause`` the message that submitted the task, ``starts_from`` the workspaces
    that its tasks begin with; ``depth`` is how many goals it lies in. ``asker`` is whom the requester wants
    it for, if not for itself. ``budget`` limits what its models use; that of a part is the whole goal's.
    """

    goal_id: Token
    text: Text
    requester: AgentName
    status: TaskStatus = TaskStatus.PENDING
    priority: TaskPriority = TaskPriority.MEDIUM
    context: dict[str, Any] = {}
    context_refs: tuple[str, ...] = ()
    evidence_refs: tuple[str, ...] = ()
    playbook: str = ""
    parameters: dict[str, Any] = {}
    tasks: tuple[GoalTask, ...] = ()
    review_task_id: str = ""
    reviews: int = 0
    verdict: dict[str, Any] = {}
    report_path: str = ""
    answer: str = ""
    reason: str = ""
    deadline: str = ""
    submitted_at: Timestamp
    ended_at: str = ""
    thinking: str = ""
    plans: int = 0
    earlier: tuple[GoalTask, ...] = ()
    traceparent: str = ""
    said: Said | None = None
    outcome: ResultOutcome = ResultOutcome.NONE
    retry_of: OptionalToken = ""
    instructions: tuple[Instruction, ...] = ()
    person: OptionalPerson = ""
    setbacks: tuple[Setback, ...] = ()
    patterns: tuple[Token, ...] = ()
    left_out: tuple[str, ...] = ()
    question: str = ""
    part_of: OptionalToken = ""
    cause: OptionalToken = ""
    starts_from: tuple[Token, ...] = ()
    depth: Count = 0
    asker: OptionalName = ""
    budget: GoalBudget | None = None

    @property
    def failed(self) -> bool:
        """Whether it ended without being done, and no person wanted that."""
        if self.status is TaskStatus.COMPLETED:
            return self.outcome is ResultOutcome.FAILED
        return self.status in (TaskStatus.FAILED, TaskStatus.TIMEOUT)

    @property
    def undone(self) -> bool:
        """Whether it failed, or ended without being checked."""
        return self.failed or (
            self.status is TaskStatus.COMPLETED and self.outcome is ResultOutcome.NOT_CHECKED
        )

    @property
    def standing(self) -> str:
        """Where it stands or what it came to, for people: ``in progress``, ``failed``, ``not checked``."""
        if self.question:
            return "waits for an answer"
        if self.status is not TaskStatus.COMPLETED or not self.outcome:
            return self.status.value.replace("_", " ")
        return self.outcome.words


class PutAside(Contract, frozen=True, kw_only=True):
    """What a person took out of the inbox: its id there, the agent it is about, who did it and when."""

    id: str
    agent: str = ""
    by: str
    created_at: Timestamp


class LettersDropped(Envelope, frozen=True, kw_only=True, tag="letters_dropped.v1"):
    """The admin's record of the dead letters of an agent that were dropped or sent again: their numbers."""

    numbers: tuple[Count, ...] = ()


class InboxChanged(Envelope, frozen=True, kw_only=True, tag="inbox_changed.v1"):
    """All that people took out of the inbox, the latest last."""

    put_aside: tuple[PutAside, ...] = ()


class PersonLimits(Envelope, frozen=True, kw_only=True, tag="person_limits.v1"):
    """The gateway's record of what the goals of a person may use in a day (UTC), and how many there may be.

    ``whose``: the person's name, or ``everyone``. ``open_goals`` at once, ``day_goals`` in a day; 0 is no
    limit.
    """

    whose: str
    day_tokens: Count = 0
    day_cost: Annotated[float, require_count] = 0.0
    open_goals: Count = 0
    day_goals: Count = 0


class PersonGoals(Envelope, frozen=True, kw_only=True, tag="person_goals.v1"):
    """The conductor's record of the goals of a person who has limits: those of a ``day`` (UTC), as
    2026-01-02, and those that may still be open; ``whose`` is the name.
    """

    whose: str
    day: str
    today: tuple[Token, ...] = ()
    opened: tuple[Token, ...] = ()


class Instructions(Envelope, frozen=True, kw_only=True, tag="instructions.v1"):
    """What people added to a goal, for the agents at work on it, who read it between two steps.

    ``budget`` is that of the goal from now on.
    """

    instructions: tuple[Instruction, ...] = ()
    said: Said | None = None
    budget: GoalBudget | None = None


class StoredObject(Contract, frozen=True, kw_only=True):
    """A file in the object store: the bytes whose SHA-256 is ``digest``, under ``key`` in ``bucket``."""

    bucket: Token
    key: Token
    name: Text
    size: Count
    digest: Hash


class Parcel(Contract, frozen=True, kw_only=True):
    """A state of files, in ``objects`` of which the last lists them all; see shared/sandbox/parcels.py.

    ``workspace`` names whose it is; ``host`` is where it was packed. A folder that a person sent has a
    ``source`` instead, its path where it was packed. ``pinned``: a later state lies on the host alone,
    because it was too much to store.
    """

    workspace: OptionalToken = ""
    host: str = ""
    pinned: bool = False
    source: str = ""
    objects: tuple[StoredObject, ...] = ()


class ParcelsStored(Envelope, frozen=True, kw_only=True, tag="parcels_stored.v1"):
    """The files of a goal's tasks as an agent stored them last, or a folder that a person sent."""

    parcels: tuple[Parcel, ...] = ()


class StateChanged(Envelope, frozen=True, kw_only=True, tag="state_changed.v1"):
    """The conductor's state changed: for one ``goal``, or for all (``active`` goals by state).

    ``spans`` are the calls of a model that the change follows from.
    """

    state: OfficeState
    previous: OfficeState = OfficeState.IDLE
    goal: Goal | None = None
    active: dict[str, OfficeState] = {}
    spans: tuple[Span, ...] = ()


class GoalDue(Envelope, frozen=True, kw_only=True, tag="goal_due.v1"):
    """The deadline of a goal has passed; with ``what`` it is time to check whether that is done."""

    what: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("goal_id", self.goal_id)


class DeadLetter(Envelope, frozen=True, kw_only=True, tag="dead_letter.v1"):
    """A message that could not be handled: the reason, and where the original is stored.

    ``original`` is the payload as text, cut to its first 16,000 characters (``original_size`` is its
    length in bytes); ``stream`` and ``stream_seq`` say where the whole of it is stored.
    """

    reason: Annotated[str, text_up_to(4_000)]
    subject: Annotated[str, text_up_to(1_000)]
    stream: str
    stream_seq: int
    deliveries: int = 1
    original: str = ""
    original_size: int = 0
    headers: dict[str, str] = {}
    task_id: str = ""


class Presence(Envelope, frozen=True, kw_only=True, tag="presence.v1"):
    """The directory entry of one process of an agent; it expires unless renewed.

    ``schemas`` are the JSON schemas of the actions' parameters, ``unplanned`` the actions that no plan names,
    ``load`` counts the messages being handled,
    ``concurrency`` how many may be at once. ``space`` is the PID namespace of ``pid``. ``paused``: it takes
    no new tasks. ``servers`` are the MCP servers that run for it.
    """

    agent: AgentName
    instance: Token
    version: str
    description: str = ""
    instructions: str = ""
    skills: tuple[str, ...] = ()
    actions: dict[str, str] = {}
    load: int = 0
    concurrency: int = 1
    handled: int = 0
    failed: int = 0
    pid: int = 0
    host: str = ""
    space: str = ""
    started_at: str = ""
    schemas: dict[str, Any] = {}
    unplanned: tuple[str, ...] = ()
    paused: bool = False
    servers: tuple[str, ...] = ()


class AgentControl(Envelope, frozen=True, kw_only=True, tag="agent_control.v1"):
    """What people want of an agent; its last record holds for every process of it, also for new ones.

    ``do`` is what was asked last, with ``request_id`` and by ``asked_by`` (empty if it is not known who).
    ``paused``: it takes no new tasks. ``restarts`` counts how often a restart was asked for: a process that
    began with fewer ends, and is started again.
    """

    agent: AgentName
    do: Literal["pause", "resume", "restart"]
    paused: bool = False
    restarts: Count = 0
    request_id: OptionalToken = ""
    asked_by: OptionalPerson = ""


class CommandVerdict(StrEnum):
    """The policy's verdict on a command."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class CommandJudged(Envelope, frozen=True, kw_only=True, tag="command_judged.v1"):
    """A command that the policy denied or left to a person; ``reach`` as in ApprovalRequest."""

    command: Text
    verdict: CommandVerdict
    rule: Annotated[str, text_up_to(100)]
    why: str
    reach: tuple[str, ...] = ()
    task_id: str = ""


class CommandConnected(Envelope, frozen=True, kw_only=True, tag="command_connected.v1"):
    """The connections that a command asked the gate for, refused ones too."""

    command: Text
    connections: tuple[Connection, ...]
    task_id: str = ""


class ApprovalRequest(Envelope, frozen=True, kw_only=True, tag="approval_request.v1"):
    """An agent's request for permission; without an answer by ``expires_at`` it is refused.

    ``approval_id`` follows from the agent, ``what`` and the goal (the task, if another agent handed it
    out), so that one thing is asked once for a goal and a grant is valid for that alone. ``reach`` is what
    a grant would open of the network: registries (``python``) and hosts (``host:example.org``). A request is
    never changed: one whose text is another later is void.
    """

    approval_id: Token
    task_id: str = ""
    what: Text
    rule: str = ""
    why: str = ""
    reach: tuple[str, ...] = ()
    expires_at: Timestamp

    @property
    def digest(self) -> str:
        """The SHA-256 of what is asked, ``what`` and each of ``reach`` after a NUL, in hexadecimal digits."""
        return hashlib.sha256("\0".join((self.what, *self.reach)).encode("utf-8", "replace")).hexdigest()


class ApprovalAnswer(Envelope, frozen=True, kw_only=True, tag="approval_answer.v1"):
    """A person's answer; ``note`` is for the agent, ``scope`` how far a grant of reach goes.

    ``hosts`` are opened beside what was requested. A grant is one of the text with this ``digest``, that of
    the request, and of no other.
    """

    approval_id: Token
    granted: bool
    note: str = ""
    scope: Literal["command", "task", "goal"] = "command"
    hosts: tuple[str, ...] = ()
    digest: str = ""

    def allows(self, request: ApprovalRequest) -> bool:
        """Whether it grants ``request``, to the letter."""
        return self.granted and self.digest == request.digest
