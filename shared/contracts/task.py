"""Work: requests, tasks, plans and results, and the spans that an attempt is made of."""

from collections.abc import Iterable
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any

import msgspec

from shared.contracts.base import (
    AgentName,
    Contract,
    Count,
    Envelope,
    OptionalName,
    OptionalTimestamp,
    OptionalToken,
    Text,
    Timestamp,
    Token,
    at_least,
    at_most,
    generate_iso_timestamp,
    require_count,
    require_name,
    text_up_to,
)

MAX_INPUT = 1_000  # Characters of a span's ``input``
MAX_OUTPUT = 2_000  # Characters of a span's ``output``


class SpanKind(StrEnum):
    """What a span is: a model's call, an action that a model called, a command in the jail, a memory query.

    MORE stands for several spans that were left out of a step.
    """

    MODEL = "model"
    ACTION = "action"
    COMMAND = "command"
    MEMORY = "memory"
    MORE = "more"


class Span(Contract, frozen=True, kw_only=True):
    """Something with a beginning and an end; ``number`` counts from 1 within an attempt.

    ``parent`` is the number of the span that it is part of (0: none). ``input`` and ``output`` are excerpts.
    ``ref`` says where the whole of a model's message or of an action's result is: the id of the agent loop
    and the number of the message in its checkpoints. ``cost`` is in US dollars, ``count`` how many spans a
    MORE stands for. Of ``input_tokens``, ``cached_tokens`` came from the provider's cache; ``instead_of`` is
    the model that could not answer, so that the one named did.
    """

    number: Count
    parent: Count = 0
    kind: SpanKind
    name: Annotated[str, text_up_to(200)]
    started_at: Timestamp
    seconds: float
    failed: bool = False
    input: Annotated[str, at_most(MAX_INPUT)] = ""
    output: Annotated[str, at_most(MAX_OUTPUT)] = ""
    ref: Annotated[str, at_most(200)] = ""
    input_tokens: Count = 0
    output_tokens: Count = 0
    cost: float = 0.0
    count: Count = 1
    cached_tokens: Count = 0
    instead_of: Annotated[str, at_most(200)] = ""


class TaskStatus(StrEnum):
    """The status of a task; the last four are final."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    REVIEW = "review"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether no further change is allowed."""
        return self in FINAL


FINAL = frozenset({TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.TIMEOUT, TaskStatus.CANCELLED})


class ResultOutcome(StrEnum):
    """What a task or a goal that ended came to; NONE while it has not ended, and in older records.

    DONE is only what was asked for and is true. NOT_CHECKED: it was done, and that could not be verified.
    """

    NONE = ""
    DONE = "done"
    FINDINGS = "done_with_findings"
    NOT_CHECKED = "not_checked"
    FAILED = "failed"

    @property
    def words(self) -> str:
        """Its name for people."""
        return "done, with findings" if self is ResultOutcome.FINDINGS else self.value.replace("_", " ")


def worst_of(outcomes: Iterable[ResultOutcome]) -> ResultOutcome:
    """What several parts came to together: failed, else with findings, else not checked, else done."""
    found = set(outcomes)
    order = (ResultOutcome.FAILED, ResultOutcome.FINDINGS, ResultOutcome.NOT_CHECKED)
    return next((outcome for outcome in order if outcome in found), ResultOutcome.DONE)


class TaskPriority(StrEnum):
    """How urgent a task is; any case, and P3 (LOW) to P0 (URGENT), are accepted."""

    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    URGENT = "URGENT"

    @classmethod
    def _missing_(cls, value: object) -> "TaskPriority | None":
        aliases = {"P3": cls.LOW, "P2": cls.MEDIUM, "P1": cls.HIGH, "P0": cls.URGENT, "CRITICAL": cls.URGENT}
        name = str(value).upper()
        return aliases.get(name) or cls.__members__.get(name)


class Said(Contract, frozen=True, kw_only=True):
    """What a person said that a task follows from, as far as it names paths or addresses.

    ``by`` is the agent that received it and signed it; it counts until ``until``.
    """

    text: Annotated[str, text_up_to(20_000)]
    by: AgentName
    until: Timestamp
    signature: Token

    def signed(self) -> bytes:
        """The bytes that the signature, in hexadecimal digits, is of."""
        return f"mailroom said v1\0{self.by}\0{self.until}\0{self.text}".encode()


class GoalBudget(Contract, frozen=True, kw_only=True):
    """What all tasks of a goal together may use of models: tokens and US dollars; 0 is no limit.

    ``goal_id`` is the goal whose budget it is; what is submitted need not name it. The conductor adds whose
    goal it is, if that ``person`` has a limit: what all goals of that person may use in a day (UTC).
    """

    goal_id: OptionalToken = ""
    tokens: Count = 0
    cost: Annotated[float, require_count] = 0.0
    person: OptionalToken = ""
    day_tokens: Count = 0
    day_cost: Annotated[float, require_count] = 0.0


class Task(Envelope, frozen=True, kw_only=True, tag="task.v1"):
    """One piece of work for one agent.

    ``goal_id`` is the goal that it belongs to, whose workspace it works in, ``parent_goal_id`` the goal whose
    plan it is a task of: another one if that goal is a part (see Goal).

    ``context`` may name an ``action`` and its ``params``, which the assignee then executes unchanged.
    ``context_refs`` and ``evidence_refs`` name what the assignee is shown: memory nodes, files of the
    workspace, tasks. ``depends_on`` lists the ids of tasks of the same requester for the same agent that
    have to complete first; ``deadline`` is ISO 8601; ``traceparent`` is its trace, in the form of W3C
    Trace Context. ``said`` travels with every task that follows from what a person said; ``asker`` is whom
    the requester wants it for, ``user`` or an agent (shared/tasks/speaker.py says when it counts).
    ``workspace`` is the name of its workspace among those of its goal (empty: its own id), ``starts_from``
    the names of those whose content that begins with, those built on others after these. ``continues`` is the
    id of the task of the same requester and assignee whose conversation it goes on with: a review sent that
    back. ``budget`` is that of the goal which it is a part of, however far down. Raises ValueError naming the
    field.
    """

    task_id: Token
    parent_goal_id: OptionalToken = ""
    text: Text
    assignee: str
    status: TaskStatus = TaskStatus.PENDING
    priority: TaskPriority = TaskPriority.MEDIUM
    requester: str
    context: dict[str, Any] = {}
    context_refs: tuple[str, ...] = ()
    evidence_refs: tuple[str, ...] = ()
    depends_on: tuple[Token, ...] = ()
    deadline: OptionalTimestamp = ""
    traceparent: str = ""
    said: Said | None = None
    asker: OptionalName = ""
    workspace: OptionalToken = ""
    starts_from: tuple[Token, ...] = ()
    continues: OptionalToken = ""
    budget: GoalBudget | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for field, party in (("assignee", "recipient"), ("requester", "sender")):
            name = getattr(self, field).strip().lower()
            require_name(field, name)
            msgspec.structs.force_setattr(self, field, name)
            if not getattr(self, party):
                msgspec.structs.force_setattr(self, party, name)

    def result(self, agent: str, status: TaskStatus, **fields: Any) -> "TaskResult":
        """The result of this task by ``agent``, addressed to its requester; ``fields`` are the others."""
        header = {
            "recipient": self.requester,
            "cause": self.id,
            "goal_id": self.goal_id,
            "parent_goal_id": self.parent_goal_id,
        }
        return TaskResult(
            **{"sender": agent, **header, "task_id": self.task_id, "agent": agent, "status": status, **fields}
        )


class TaskRequest(Envelope, frozen=True, kw_only=True, tag="task_request.v1"):
    """A request for work that names no assignee."""

    task_id: Token
    requester: Annotated[str, text_up_to(200)]
    task_description: Text
    priority: TaskPriority
    context: dict[str, Any] = {}
    evidence_refs: tuple[str, ...] = ()


COMPLEXITIES = ("", "low", "medium", "high")


def require_complexity(field: str, value: str) -> None:
    """Raise ValueError unless ``value`` is empty, low, medium or high."""
    if value not in COMPLEXITIES:
        raise ValueError(f"{field} must be low, medium or high, not {value[:40]!r}")


Complexity = Annotated[str, require_complexity]


class TaskStep(Contract, frozen=True, kw_only=True):
    """One step of a plan; ``dependencies`` are the numbers of the steps it waits for."""

    step_number: Annotated[int, at_least(1)]
    action: Text
    dependencies: tuple[int, ...] = ()
    estimated_complexity: Complexity = ""
    success_criteria: str = ""
    context: dict[str, Any] = {}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step_number in self.dependencies:
            raise ValueError(f"dependencies of step {self.step_number} must not name the step itself")


class TaskPlan(Envelope, frozen=True, kw_only=True, tag="task_plan.v1"):
    """An agent's plan for a task: at least one step."""

    task_id: Token
    agent: AgentName
    steps: tuple[TaskStep, ...]
    overall_complexity: Complexity = ""
    required_tools: tuple[str, ...] = ()
    estimated_duration: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.steps:
            raise ValueError("steps must have at least one step")
        numbers = [step.step_number for step in self.steps]
        if len(set(numbers)) != len(numbers):
            raise ValueError("steps must not share a step_number")
        for step in self.steps:
            if missing := sorted(set(step.dependencies) - set(numbers)):
                raise ValueError(
                    f"steps: step {step.step_number} depends on {missing[0]}, which is not in the plan"
                )
        try:
            TopologicalSorter({step.step_number: step.dependencies for step in self.steps}).prepare()
        except CycleError as error:
            circle = ", ".join(map(str, error.args[1]))
            raise ValueError(f"steps must not wait for each other in a circle: {circle}") from None


class TaskResult(Envelope, frozen=True, kw_only=True, tag="task_result.v1"):
    """The result of a task; ``error_message`` is required if the status is FAILED.

    ``attempt`` is the number of the attempt that it comes from, ``worker`` the process and ``begun_at`` when
    it began; 0 and empty if the task was never begun. ``outcome`` says what it came to, ``spans`` are what
    was done since the step before, ``parent_goal_id`` is that of the task.
    """

    task_id: Token
    completed_at: Timestamp = msgspec.field(default_factory=generate_iso_timestamp)
    agent: AgentName
    status: TaskStatus
    output: str
    output_paths: tuple[str, ...] = ()
    evidence_refs: tuple[str, ...] = ()
    error_message: str = ""
    metadata: dict[str, Any] = {}
    attempt: Count = 0
    worker: str = ""
    begun_at: OptionalTimestamp = ""
    outcome: ResultOutcome = ResultOutcome.NONE
    spans: tuple[Span, ...] = ()
    parent_goal_id: OptionalToken = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.status is TaskStatus.FAILED and not self.error_message.strip():
            raise ValueError("error_message must be a non-empty string when status is failed")


MAX_INPUT = 1_000  # Characters of a span's ``input``
MAX_OUTPUT = 2_000  # Characters of a span's ``output``
