"""Messages as a stream holds them, of which a goal's or a task's course consists."""

from datetime import UTC, datetime, timedelta
from typing import Any

from shared import subjects
from shared.bus import Stored
from shared.contracts import (
    ApprovalAnswer,
    ApprovalRequest,
    Effect,
    Envelope,
    Goal,
    GoalTask,
    LoopCheckpoint,
    OfficeState,
    Span,
    SpanKind,
    StateChanged,
    Task,
    TaskChanged,
    TaskStatus,
)

BEGIN = datetime(2026, 1, 2, 14, 30, tzinfo=UTC)
GOAL_ID = "goal_1"


def at(seconds: float) -> str:
    """The time so many seconds after the beginning."""
    return (BEGIN + timedelta(seconds=seconds)).isoformat()


def span(number: int, start: float, seconds: float, **fields: Any) -> Span:
    """A span of a command, unless ``fields`` say otherwise."""
    values = {"kind": SpanKind.COMMAND, "name": f"span {number}", **fields}
    return Span(number=number, started_at=at(start), seconds=seconds, **values)


class Course:
    """Collects messages in the order in which they were stored."""

    begin = BEGIN

    def __init__(self, stream: str = subjects.OFFICE, goal_id: str = GOAL_ID) -> None:
        self.goal_id = goal_id
        self.messages: list[Stored] = []
        self.envelopes: dict[str, Task] = {}
        self._stream = stream

    def store(self, subject: str, seconds: float, body: Envelope | bytes) -> None:
        """Store a message."""
        data = body if isinstance(body, bytes) else body.to_json()
        self.messages.append(Stored(self._stream, subject, len(self.messages) + 1, data, {}, at(seconds)))

    def submit(self, task_id: str, seconds: float, *, cause: str = "", **fields: Any) -> Task:
        """A task for scout, unless ``fields`` say otherwise."""
        values = {"assignee": "scout", "requester": "conductor", "text": f"Do {task_id}", **fields}
        parent = self.envelopes[cause].id if cause else ""
        task = Task(task_id=task_id, goal_id=self.goal_id, cause=parent, **values)
        self.envelopes[task_id] = task
        self.store(subjects.task(task.assignee, task.requester, task_id, "new"), seconds, task)
        return task

    def step(self, task_id: str, step: str, seconds: float, attempt: int = 1, **fields: Any) -> None:
        """A process begins an attempt at a task, or notes its progress."""
        task = self.envelopes[task_id]
        values = {
            "task_id": task_id,
            "goal_id": self.goal_id,
            "origin": 1,
            "worker": f"process-{attempt}",
            **fields,
        }
        body = TaskChanged(sender=task.assignee, attempt=attempt, **values)
        self.store(subjects.task(task.assignee, task.requester, task_id, step), seconds, body)

    def end(self, task_id: str, seconds: float, attempt: int = 1, **fields: Any) -> None:
        """A task ends, completed unless ``fields`` say otherwise."""
        task = self.envelopes[task_id]
        values = {"status": TaskStatus.COMPLETED, "output": "It is done.", **fields}
        result = task.result(task.assignee, values.pop("status"), attempt=attempt, **values)
        self.store(subjects.task(task.assignee, task.requester, task_id, "ended"), seconds, result)

    def ask(self, task_id: str, approval_id: str, seconds: float, *, until: float = 3_600) -> None:
        """The assignee of a task asks for an approval."""
        agent = self.envelopes[task_id].assignee
        request = ApprovalRequest(
            sender=agent,
            goal_id=self.goal_id,
            approval_id=approval_id,
            task_id=task_id,
            what="reach example.org",
            expires_at=at(until),
        )
        self.store(subjects.approval_asked(agent, approval_id), seconds, request)

    def answer(self, agent: str, approval_id: str, seconds: float, *, granted: bool) -> None:
        """A person answers."""
        answer = ApprovalAnswer(goal_id=self.goal_id, approval_id=approval_id, granted=granted)
        self.store(subjects.approval_answered(agent, approval_id), seconds, answer)

    def think(self, task_id: str, number: int, seconds: float, *messages: dict[str, Any]) -> None:
        """A checkpoint of the loop ``loop``."""
        agent = self.envelopes[task_id].assignee
        body = LoopCheckpoint(sender=agent, goal_id=self.goal_id, task_id=task_id, messages=messages)
        self.store(subjects.record(agent, "thinking", f"loop-{number}"), seconds, body)

    def record(self, goal: Goal, seconds: float, *spans: Span) -> None:
        """The conductor records the goal."""
        change = StateChanged(
            goal_id=goal.goal_id, state=OfficeState.EXECUTING, goal=goal, spans=spans, sender="conductor"
        )
        self.store(subjects.goal(goal.goal_id), seconds, change)


def goal_of(
    *names: str, ended: float | None = None, goal_id: str = GOAL_ID, begun: float = 0, **fields: Any
) -> Goal:
    """A goal with tasks of these names."""
    tasks = tuple(GoalTask(name=name, task_id=name, text=name, assignee="scout") for name in names)
    status = TaskStatus.PENDING if ended is None else TaskStatus.COMPLETED
    values = {"text": "Look at it", "requester": "user", "status": status, "tasks": tasks, **fields}
    ended_at = "" if ended is None else at(ended)
    return Goal(goal_id=goal_id, submitted_at=at(begun), ended_at=ended_at, **values)


def effect(what: str, start: float, end: float | None) -> Effect:
    """An effect; without an end it may or may not have happened."""
    return Effect(what=what, started_at=at(start), finished_at="" if end is None else at(end))
