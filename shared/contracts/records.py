"""The life of the office: task records, goals, dead letters, presence."""

from enum import StrEnum
from typing import Any

from shared.contracts.base import (
    Contract,
    Envelope,
    require_name,
    require_text,
    require_timestamp,
    require_token,
)
from shared.contracts.task import Task, TaskPriority, TaskResult, TaskStatus


class Effect(Contract, frozen=True, kw_only=True):
    """Something with an effect outside the office, noted before it is done.

    One without ``finished_at`` after a crash may or may not have happened. Only a ``repeatable``
    one is done again. ``step`` is the part of the task that did it, where it has parts.
    """

    what: str
    step: str = ""
    repeatable: bool = False
    started_at: str
    finished_at: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_text("what", self.what, 2_000)
        require_timestamp("started_at", self.started_at)
        if self.finished_at:
            require_timestamp("finished_at", self.finished_at)


class TaskChanged(Envelope, frozen=True, kw_only=True, tag="task_changed.v1"):
    """The record of a task: the last one on its state subject is how it stands now.

    ``attempt`` counts claims from 1, ``worker`` is the process that holds the claim, ``task`` the
    task with its present status, ``result`` is there once it ended.
    """

    task: Task
    attempt: int = 0
    worker: str = ""
    note: str = ""
    journal: tuple[Effect, ...] = ()
    result: TaskResult | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.attempt < 0:
            raise ValueError(f"attempt must be at least 0, not {self.attempt}")


class OfficeState(StrEnum):
    """What the conductor is doing, per goal and overall."""

    IDLE = "IDLE"
    PLANNING = "PLANNING"
    EXECUTING = "EXECUTING"
    REVIEW = "REVIEW"


class GoalTask(Contract, frozen=True, kw_only=True):
    """One task of a goal's plan; ``depends_on`` are names of other tasks of the plan."""

    name: str
    task_id: str
    text: str
    assignee: str
    action: str = ""
    params: dict[str, Any] = {}
    depends_on: tuple[str, ...] = ()
    status: TaskStatus = TaskStatus.PENDING
    issued: bool = False
    started_at: str = ""
    ended_at: str = ""
    summary: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("name", self.name)
        require_token("task_id", self.task_id)
        require_text("text", self.text)
        require_name("assignee", self.assignee)


class Goal(Contract, frozen=True, kw_only=True):
    """Everything the conductor knows of one goal; enough to go on after a crash.

    ``status`` is the goal's own, ``reviews`` how often the critic was asked, ``verdict`` what it
    said last, ``report_path`` where the report lies once there is one. ``thinking`` is what a model is
    being asked (plan, repair, answer; empty: nothing), ``plans`` how many plans it made, and
    ``earlier`` the tasks that a later plan replaced.
    """

    goal_id: str
    text: str
    requester: str
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
    submitted_at: str
    ended_at: str = ""
    thinking: str = ""
    plans: int = 0
    earlier: tuple[GoalTask, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("goal_id", self.goal_id)
        require_text("text", self.text)
        require_name("requester", self.requester)
        require_timestamp("submitted_at", self.submitted_at)


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

    reason: str
    subject: str
    stream: str
    stream_seq: int
    deliveries: int = 1
    original: str = ""
    original_size: int = 0
    headers: dict[str, str] = {}
    task_id: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_text("reason", self.reason, 4_000)
        require_text("subject", self.subject, 1_000)


class Presence(Envelope, frozen=True, kw_only=True, tag="presence.v1"):
    """A process of an agent as the yellow pages list it; it vanishes when not renewed.

    ``schemas`` are the JSON schemas of the actions' parameters, ``load`` counts the messages being
    handled, ``concurrency`` how many may be at once.
    """

    agent: str
    instance: str
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

    def __post_init__(self) -> None:
        super().__post_init__()
        require_name("agent", self.agent)
        require_token("instance", self.instance)
