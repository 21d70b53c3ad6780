"""The timeline of a goal or a task: every message about it, in order."""

import msgspec

from shared.contracts import Goal, Task, TaskStatus
from shared.views.results import GoalResults


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
