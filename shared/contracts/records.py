"""The life of the office: task records, goals, dead letters, presence."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from shared.contracts.base import (
    AgentName,
    Contract,
    Count,
    Envelope,
    OptionalTimestamp,
    Text,
    Timestamp,
    Token,
    generate_iso_timestamp,
    require_token,
    text_up_to,
)
from shared.contracts.task import Task, TaskPriority, TaskResult, TaskStatus


class Effect(Contract, frozen=True, kw_only=True):
    """Something with an effect outside the office, noted before it is done.

    One without ``finished_at`` after a crash may or may not have happened. Only a ``repeatable``
    one is done again. ``step`` is the part of the task that did it, if it has parts.
    """

    what: Annotated[str, text_up_to(2_000)]
    step: str = ""
    repeatable: bool = False
    started_at: Timestamp
    finished_at: OptionalTimestamp = ""


class TaskChanged(Envelope, frozen=True, kw_only=True, tag="task_changed.v1"):
    """The record of a task: the last one on its state subject is how it stands now.

    ``attempt`` counts claims from 1, ``worker`` is the process that holds the claim, ``task`` the
    task with its present status, ``result`` is there once it ended.
    """

    task: Task
    attempt: Count = 0
    worker: str = ""
    note: str = ""
    journal: tuple[Effect, ...] = ()
    result: TaskResult | None = None


class OfficeState(StrEnum):
    """What the conductor is doing, per goal and overall."""

    IDLE = "IDLE"
    PLANNING = "PLANNING"
    EXECUTING = "EXECUTING"
    REVIEW = "REVIEW"


class GoalTask(Contract, frozen=True, kw_only=True):
    """One task of a goal's plan; ``depends_on`` are names of other tasks of the plan."""

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


class Goal(Contract, frozen=True, kw_only=True):
    """Everything the conductor knows of one goal; enough to go on after a crash.

    ``status`` is the goal's own, ``reviews`` how often the critic was asked, ``verdict`` what it
    said last, ``report_path`` where the report lies once there is one. ``thinking`` is what a model is
    being asked (plan, repair, answer; empty: nothing), ``plans`` how many plans it made, and
    ``earlier`` the tasks that a later plan replaced.
    """

    goal_id: Token
    text: Text
    requester: AgentName
    status: TaskStatus = TaskStatus.PENDING
    priority: TaskPriority = TaskPriority.MEDIUM
    context: dict[str, Any] = {}
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


class StateChanged(Envelope, frozen=True, kw_only=True, tag="state_changed.v1"):
    """The conductor moved: one goal (``goal``), or the office as a whole (``active`` goals by state)."""

    state: OfficeState
    previous: OfficeState = OfficeState.IDLE
    goal: Goal | None = None
    active: dict[str, OfficeState] = {}


class GoalDue(Envelope, frozen=True, kw_only=True, tag="goal_due.v1"):
    """The deadline of a goal has come; with ``what`` it is time to look whether that is done."""

    what: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("goal_id", self.goal_id)


class DeadLetter(Envelope, frozen=True, kw_only=True, tag="dead_letter.v1"):
    """What could not be handled, why, and where the original lies.

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
    """A process of an agent as the yellow pages list it; it vanishes when not renewed.

    ``schemas`` are the JSON schemas of the actions' parameters, ``load`` counts the messages being
    handled, ``concurrency`` how many may be at once.
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
    started_at: str = ""
    schemas: dict[str, Any] = {}


class CommandVerdict(StrEnum):
    """What the policy says of a command."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class CommandJudged(Envelope, frozen=True, kw_only=True, tag="command_judged.v1"):
    """A command the policy did not simply allow: denied, or left to a person."""

    command: Text
    verdict: CommandVerdict
    rule: Annotated[str, text_up_to(100)]
    why: str
    task_id: str = ""


class ApprovalRequest(Envelope, frozen=True, kw_only=True, tag="approval_request.v1"):
    """An agent asks whether it may do something; without an answer by ``expires_at`` it may not.

    ``approval_id`` follows from the agent, ``what`` and the goal (the task, if another agent handed it
    out), so that the same is asked once for a goal and a grant reaches no further.
    """

    approval_id: Token
    task_id: str = ""
    what: Text
    rule: str = ""
    why: str = ""
    expires_at: Timestamp


class ApprovalAnswer(Envelope, frozen=True, kw_only=True, tag="approval_answer.v1"):
    """What a person said; ``note`` is for the agent."""

    approval_id: Token
    granted: bool
    note: str = ""


class ReminderStatus(StrEnum):
    """Where a reminder stands; the last two are final."""

    SCHEDULED = "scheduled"
    FIRED = "fired"
    SNOOZED = "snoozed"
    ACKNOWLEDGED = "acknowledged"
    CANCELLED = "cancelled"


class Reminder(Contract, frozen=True, kw_only=True):
    """One reminder; ``due_at`` is in UTC, ``count`` how often it was set (a snooze sets it again).

    ``repeats`` says on which days of the week it is set again when it goes off: ``mon,thu 14:00``, with the
    name of a time zone behind it if it is not the office's; empty if it goes off once.
    """

    reminder_id: Token
    text: Annotated[str, text_up_to(1_000)]
    person: AgentName
    due_at: Timestamp
    status: ReminderStatus = ReminderStatus.SCHEDULED
    count: int = 1
    created_at: str = msgspec.field(default_factory=generate_iso_timestamp)
    fired_at: str = ""
    repeats: str = ""


class Reminders(Envelope, frozen=True, kw_only=True, tag="reminders.v1"):
    """The reminders of an office: the open ones and the latest closed ones."""

    reminders: tuple[Reminder, ...] = ()


class ReminderDue(Envelope, frozen=True, kw_only=True, tag="reminder_due.v1"):
    """The time of a reminder has come; ``count`` says for which of its settings."""

    reminder_id: Token
    count: int = 1
