"""What happened inside tasks, as rows of a waterfall, and everything on record of them."""

from enum import StrEnum

import msgspec

from shared.contracts import CommandConnected, CommandJudged, Effect, Task, TaskResult


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
    cost: float = 0.0
    stream: str = ""
    seq: int = 0


class Activity(msgspec.Struct, kw_only=True):
    """What happened within a goal or task: the conductor's own work, and the tasks as they were submitted."""

    goal_id: str = ""
    conductor: list[Row] = []
    tasks: list[TaskDetails] = []
