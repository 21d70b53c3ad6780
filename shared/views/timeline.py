"""Goals and tasks: in a line, as a page, as a timeline and as rows of a waterfall."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from shared.contracts import (
    CommandConnected,
    CommandJudged,
    Effect,
    Finding,
    Goal,
    Inspection,
    Instruction,
    NotChecked,
    Task,
    TaskResult,
    TaskStatus,
    TestRun,
)
from shared.text.display import count
from shared.text.times import format_date, parse_time
from shared.views.approval import Approval


class Fallback(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A ``model`` answered in place of another, ``since`` when."""

    since: str
    model: str
    instead_of: str

    def __str__(self) -> str:
        return f"{self.model} answered instead of {self.instead_of} since {format_date(self.since)}"


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens in and out, US dollars, and the ``agents`` whose models used them.

    Of the tokens, ``read`` went in, of which ``cached`` came from the providers' caches. ``fallbacks`` are
    the models that answered in place of others.
    """

    tokens: int = 0
    cost: float = 0.0
    agents: tuple[str, ...] = ()
    read: int = 0
    cached: int = 0
    fallbacks: tuple[Fallback, ...] = ()


class GoalResults(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a goal's tasks by their names; ``findings`` are those of tools and broken rules."""

    tests: tuple[TestRun, ...] = ()
    inspections: tuple[Inspection, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    patches: tuple[str, ...] = ()
    unchecked: bool = False
    """Whether tests could not be run to their end, or a folder not be checked."""
    spent: Spent | None = None
    """What models used for the goal; None if that was not read."""
    left: str = ""
    """What is left of the budgets."""

    @property
    def failing(self) -> int:
        """How many tests fail or end with an error."""
        return sum(max(run.failed, 0) + max(run.errors, 0) for run in self.tests)


def format_spent(tokens: int, cost: float) -> str:
    """``0 tokens``, ``12,345 tokens, $0.0123``, or ``12,345 tokens, – (no price is known)``."""
    if not tokens:
        return "0 tokens"
    price = f", ${cost:.2f}" if cost >= 1 else f", ${cost:.4f}" if cost else ", – (no price is known)"
    return f"{count(tokens, 'token')}{price}"


def fallbacks_of(metadata: Mapping[str, Any]) -> list[Fallback]:
    """The fallbacks in the metadata of a result; agents may write anything, which is left out."""
    found = metadata.get("fallbacks")
    read = []
    for model, values in found.items() if isinstance(found, Mapping) else ():
        try:
            each = msgspec.convert({**values, "model": model}, Fallback)
            parse_time(each.since)
        except (ValueError, TypeError, OverflowError):
            continue
        read.append(each)
    return read


def first_fallbacks(found: Iterable[Fallback]) -> tuple[Fallback, ...]:
    """The first of each model that answered in place of another."""
    first: dict[tuple[str, str], Fallback] = {}
    for each in sorted(found):
        first.setdefault((each.model, each.instead_of), each)
    return tuple(first.values())


def format_cached(read: int, cached: int) -> str:
    """``72 % of what was read came from the cache``; empty if nothing did."""
    if not (read and cached):
        return ""
    return f"{100 * min(cached, read) / read:.0f} % of what was read came from the cache"


class MessageSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A message; ``recipient`` is empty if it has no single one, ``status`` if the message reports none.

    ``person`` is who of the people sent it, if that is known.
    """

    sender: str
    recipient: str = ""
    kind: str
    text: str
    id: str = ""
    cause: str = ""
    goal_id: str = ""
    task_id: str = ""
    status: str = ""
    person: str = ""

    @property
    def parties(self) -> str:
        """``sender → recipient``, or the sender alone; a person by name, as ``ada (user)``."""
        sender = format_sender(self.sender, self.person)
        return f"{sender} → {self.recipient}" if self.recipient else sender


def format_sender(sender: str, person: str) -> str:
    """The sender of a message; a person by name, as ``ada (user)``."""
    return f"{person} ({sender})" if person else sender


class TimelineEntry(msgspec.Struct, frozen=True, kw_only=True, rename={"summary": "said"}):
    """One message."""

    time: str
    seq: int
    subject: str
    summary: MessageSummary


class TaskTimeline(msgspec.Struct, kw_only=True, rename={"entries": "moments", "subtasks": "parts"}):
    """A task's status, its seconds of waiting and of work (None: not begun), and its messages.

    ``subtasks`` are tasks that its assignee delegated.
    """

    task: Task
    status: TaskStatus
    attempts: int = 0
    waited: float | None = None
    worked: float | None = None
    outcome: str = ""
    entries: list[TimelineEntry] = []
    subtasks: list["TaskTimeline"] = []


class GoalTimeline(msgspec.Struct, kw_only=True, rename={"entries": "moments"}):
    """A goal, its tasks in the order they were issued, and the messages that belong to no task."""

    goal: Goal
    took: float
    tasks: list[TaskTimeline] = []
    entries: list[TimelineEntry] = []


class ArchivedPart(msgspec.Struct, frozen=True, kw_only=True):
    """Where messages lie that were archived: ``bundle`` is to be in ``folder``; whether it is there, and may
    hold what was stored from ``since`` until ``until``.
    """

    bundle: str
    folder: str
    is_here: bool
    since: str
    until: str

    def __str__(self) -> str:
        if self.is_here:
            return f"also read from the bundle {self.bundle} in {self.folder}"
        return f"what lies in the bundle {self.bundle}, which is not in {self.folder}: put it there"


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """A goal with what it found, or a task; ``archived`` says in which bundles messages of it lie."""

    goal: GoalTimeline | None = None
    task: TaskTimeline | None = None
    results: GoalResults = GoalResults()
    archived: list[ArchivedPart] = []


class RowKind(StrEnum):
    """What a row is; a WAITING task waits for a free process, an APPROVAL for a person."""

    TASK = "task"
    ATTEMPT = "attempt"
    MODEL = "model"
    ACTION = "action"
    COMMAND = "command"
    MEMORY = "memory"
    MORE = "more"
    EFFECT = "effect"
    WAITING = "waiting"
    APPROVAL = "approval"
    CONDUCTOR = "conductor"


class Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A row: when it began and ended (empty: it goes on), in UTC.

    ``status`` is done, done_with_findings, not_checked, failed, cancelled, killed (the process died, another
    took over), running, waiting, granted or refused. ``seq`` is the place in ``stream`` of the message that
    says so. ``input`` and ``output`` are excerpts, and ``ref`` is that of a Span.
    """

    id: str
    parent: str = ""
    kind: RowKind
    name: str
    agent: str = ""
    start: str
    end: str = ""
    status: str = ""
    note: str = ""
    task_id: str = ""
    attempt: int = 0
    worker: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    count: int = 1
    cached_tokens: int = 0
    instead_of: str = ""
    input: str = ""
    output: str = ""
    ref: str = ""
    stream: str = ""
    seq: int = 0


class TaskDetails(msgspec.Struct, kw_only=True):
    """One task: what it was asked, what was done (``rows``: the task's own first), and its result.

    ``effects`` is its journal, ``connections`` are those that its commands asked the gate for, ``judged``
    what the command policy denied or left to a person. Tokens and cost (US dollars) are of all attempts.
    ``stream`` and ``seq`` are the place of the message that submitted it.
    """

    task_id: str
    task: Task | None = None
    status: str = ""
    rows: list[Row] = []
    result: TaskResult | None = None
    effects: tuple[Effect, ...] = ()
    connections: list[CommandConnected] = []
    judged: list[CommandJudged] = []
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    stream: str = ""
    seq: int = 0


class Activity(msgspec.Struct, kw_only=True):
    """What happened within a goal or task: the conductor's own work, and the tasks as they were submitted."""

    goal_id: str = ""
    conductor: list[Row] = []
    tasks: list[TaskDetails] = []


class WorkingAgent(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that has a task of the goal, which is not ended; ``paused``: it does not begin it."""

    agent: str
    task: str
    since: str
    paused: bool = False


class GoalSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A goal; ``title`` is the person's own words, ``person`` who submitted it (empty if not known).

    ``state`` is planning, working, review, waiting (for a person) or ended. ``workers`` have its open tasks,
    ``waiting_for`` are the requests for approval that wait. Times are ISO 8601, ``seconds`` its duration so
    far; ``cost`` in US dollars.
    """

    goal_id: str
    title: str
    status: str
    outcome: str
    state: str
    requester: str
    person: str
    priority: str
    playbook: str
    tasks_done: int
    tasks_failed: int
    tasks_all: int
    workers: list[WorkingAgent]
    waiting_for: list[str]
    submitted_at: str
    ended_at: str
    deadline: str
    seconds: float
    summary: str
    tokens: int = 0
    cost: float = 0.0
    retry_of: str = ""


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """A task of the goal's plan, with the parameters it gives; ``earlier``: another plan replaced it."""

    name: str
    task_id: str
    text: str
    assignee: str
    action: str
    params: dict[str, Any]
    depends_on: tuple[str, ...]
    status: str
    outcome: str
    summary: str
    started_at: str
    ended_at: str
    earlier: bool = False


class MessageRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message: where it is stored, who sent it to whom, and a line about it.

    ``position`` is the cursor after it, ``stream`` and ``seq`` its place in the log, ``type`` what it is,
    ``person`` who sent it through the gateway, ``size`` its bytes, ``audience`` for whom alone of the people
    it is.
    """

    position: str
    stream: str
    seq: int
    time: str
    subject: str
    type: str
    sender: str = ""
    recipient: str = ""
    goal_id: str = ""
    task_id: str = ""
    status: str = ""
    person: str = ""
    text: str = ""
    size: int = 0
    audience: str = ""


class SpentToday(msgspec.Struct, frozen=True, kw_only=True):
    """An agent's model usage today (UTC); ``cost`` in US dollars."""

    agent: str
    tokens: int
    cost: float


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of the goal, of a task and of an agent's day (0: none), and what its agents spent today."""

    goal_tokens: int
    goal_cost: float
    task_tokens: int
    day_tokens: int
    day_cost: float
    today: list[SpentToday]


class GoalPage(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a goal's page shows; ``position`` is up to where of the log it holds.

    ``state`` is planning, working, review, waiting or ended, ``review`` what the critic checked. Tokens and
    cost (US dollars) are of all its tasks and of the conductor's own calls. ``rows_total`` and
    ``messages_total`` count what there is. ``archived`` are the bundles in which messages of its time lie. It
    ``is_applied`` if people applied a patch for each project since it ended.
    """

    goal_id: str
    text: str
    status: str
    outcome: str
    state: str
    requester: str
    person: str
    priority: str
    playbook: str
    retry_of: str
    submitted_at: str
    ended_at: str
    deadline: str
    seconds: float
    answer: str
    reason: str
    thinking: str
    has_report: bool
    verdict: dict[str, Any]
    review: str
    instructions: tuple[Instruction, ...]
    tests: tuple[TestRun, ...]
    findings: tuple[Finding, ...]
    findings_total: int
    not_checked: tuple[NotChecked, ...]
    patches: tuple[str, ...]
    is_applied: bool
    evidence: list[str]
    tasks: list[TaskView]
    rows: list[Row]
    rows_total: int
    lanes: list[str]
    messages: list[MessageRow]
    messages_total: int
    approvals: list[Approval]
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    tokens: int
    cost: float
    fallbacks: tuple[Fallback, ...]
    budget: Budget
    archived: list[ArchivedPart]
    position: str
