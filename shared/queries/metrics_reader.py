"""Reading the metrics from the log; only the fields that they need are decoded."""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.clock import seconds_between
from shared.contracts import (
    ApprovalAnswer,
    ApprovalRequest,
    CommandJudged,
    Goal,
    StateChanged,
    TaskStatus,
)
from shared.contracts.cognition import kind_of, spending_of
from shared.queries.learning_metrics import (
    TaskEnd,
    adaptations,
    compute_improvement,
    compute_share,
    delegations,
    handoffs,
    pattern_uses,
)
from shared.queries.metrics import (
    Inspected,
    JournalEntry,
    Metrics,
    PolicyTracker,
    Sample,
    best_score,
    compute_context_hits,
    compute_drift,
    compute_experiences,
    compute_velocity,
    read_inspection,
)
from shared.queries.planted_commands import judge_planted
from shared.trail.archives import scan_log


class _Task(msgspec.Struct):
    """The fields of a task that metrics need."""

    task_id: str = ""
    assignee: str = ""
    requester: str = ""
    text: str = ""
    created_at: str = ""
    context: msgspec.Raw = msgspec.Raw(b"{}")


class _Result(msgspec.Struct):
    """The fields of a task's result that metrics need."""

    task_id: str = ""
    completed_at: str = ""
    status: str = ""
    attempt: int = 0
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


class _Note(msgspec.Struct):
    task_id: str = ""
    journal: tuple[JournalEntry, ...] = ()


class _Named(msgspec.Struct):
    action: str = ""


class _Response(msgspec.Struct):
    type: str = ""
    context_used: Any = None


class MetricsReader:
    """Collects messages in any order; ``metrics`` evaluates them."""

    def __init__(self) -> None:
        self.messages = 0
        self._ended: Counter[str] = Counter()
        self._seconds: dict[str, list[float]] = {}
        self._scores: list[float] = []
        self._drift: list[Inspected] = []
        self._ends: list[TaskEnd] = []
        self._goals: dict[str, Goal] = {}
        self._policy = PolicyTracker()
        self._samples: list[Sample] = []
        self._tasks: dict[str, _Task] = {}
        self._results: dict[str, _Result] = {}

    def add_step(self, subject: str, data: bytes) -> None:
        """Add a step of a task."""
        step = subject.rpartition(".")[2]
        if step in subjects.FINAL_STEPS:
            if (result := self._read(data, _Result)) is not None:
                self._results[result.task_id] = result
        elif step in subjects.AT_WORK:
            note = self._read(data, _Note)
            # A journal only grows, and the two steps are read one after the other.
            if note is not None and len(note.journal) > len(self._policy.journals.get(note.task_id, ())):
                self._policy.journals[note.task_id] = note.journal
        elif step in subjects.BY_REQUESTER and (task := self._read(data, _Task)) is not None:
            self._tasks[task.task_id] = task

    def _add_ended(self, task: _Task, result: _Result) -> None:
        meta = _mapping(result.metadata)
        seconds = max(0.0, seconds_between(task.created_at, result.completed_at))
        done = result.status == TaskStatus.COMPLETED
        if done:
            self._seconds.setdefault(task.assignee, []).append(seconds)
        tokens, cost = spending_of(meta)
        try:
            action = msgspec.json.decode(task.context, type=_Named).action
        except msgspec.MsgspecError:
            action = ""
        facts = {
            "completed": done,
            "seconds": seconds,
            "attempts": result.attempt,
            "tokens": tokens,
            "cost": cost,
        }
        kind = kind_of(task.text, action)
        self._samples.append(Sample(result.completed_at, task.assignee, kind, task.task_id, facts))
        self._ends.append(
            TaskEnd(result.completed_at, task.assignee, task.requester, result.status, result.attempt)
        )
        self._add_context(meta.get("context"))
        if inspected := read_inspection(meta, result.completed_at):
            self._drift.append(inspected)

    def _add_context(self, found: Any) -> None:
        if (best := best_score(found)) is not None:
            self._scores.append(best)

    def add_mail(self, _: str, data: bytes) -> None:
        """Add a message of nexus: its answers have the memories they used."""
        response = self._read(data, _Response)
        if response is not None and response.type.startswith("response."):
            self._add_context(response.context_used)

    def add_goal(self, _: str, data: bytes) -> None:
        """Add a state of a goal; the last one counts."""
        changed = self._read(data, StateChanged)
        if changed is not None and changed.goal is not None:
            self._goals[changed.goal.goal_id] = changed.goal

    def add_judged(self, _: str, data: bytes) -> None:
        """Add a verdict of the policy."""
        if (judged := self._read(data, CommandJudged)) is not None:
            self._policy.judged.append(judged)

    def add_approval(self, subject: str, data: bytes) -> None:
        """Add a request for approval, or an answer."""
        if ".asked." in subject:
            if (asked := self._read(data, ApprovalRequest)) is not None:
                self._policy.asked[asked.approval_id] = asked
        elif (answered := self._read(data, ApprovalAnswer)) is not None:
            self._policy.granted[answered.approval_id] = answered.granted

    def _read(self, data: bytes, kind: type[Any]) -> Any:
        self.messages += 1
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None

    def metrics(self) -> Metrics:
        """The metrics of all messages; call it once."""
        for result in self._results.values():
            self._ended[result.status] += 1
            # without its task nothing is known of it: that came before the time asked about, or never
            if (task := self._tasks.get(result.task_id)) is not None and task.assignee:
                self._add_ended(task, result)
        every = [seconds for times in self._seconds.values() for seconds in times]
        return Metrics(
            messages=self.messages,
            tasks=dict(sorted(self._ended.items())),
            velocity=compute_velocity(every),
            velocity_by_agent={
                agent: found
                for agent, times in sorted(self._seconds.items())
                if (found := compute_velocity(times)) is not None
            },
            context_hits=compute_context_hits(self._scores),
            drift=compute_drift(self._drift),
            safety=self._policy.metrics(),
            agents=compute_experiences(self._samples),
            handoffs=compute_share(handoffs(self._ends)),
            delegation=compute_share(delegations(self._ends)),
            improvement=compute_improvement(self._goals.values()),
            adaptation=compute_share(adaptations(self._goals.values())),
            patterns=compute_share(pattern_uses(self._goals.values())),
        )


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, msgspec.Raw):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


BEFORE = timedelta(days=7)
"""How much earlier a task may have been submitted, or a command allowed, than what counts of it."""


async def read_metrics(bus: Bus, since: datetime | None = None) -> Metrics:
    """The metrics of the log from ``since`` on (None: of all of it), and the verdicts on planted commands.

    What began more than BEFORE that is not read, so the time grows with the span and not with the log.
    """
    reader = MetricsReader()
    earlier = since and since - BEFORE

    async def add_all(add: Callable[[str, bytes], None], pattern: str, since: datetime | None) -> None:
        async with aclosing(scan_log(bus, subjects.OFFICE, pattern, since=since)) as found:
            async for stored in found:
                add(stored.subject, stored.data)

    # A task may have been submitted before the results that count.
    for step in subjects.NEW.values():
        await add_all(reader.add_step, subjects.task("*", "*", "*", step), earlier)
    for step in (*subjects.AT_WORK, *subjects.FINAL_STEPS):
        await add_all(reader.add_step, subjects.task("*", "*", "*", step), since)
    await add_all(reader.add_mail, subjects.mail("*", subjects.NEXUS), since)
    await add_all(reader.add_goal, subjects.goal("*"), since)
    await add_all(reader.add_judged, subjects.event("*", "command_judged"), since)
    # A grant may be older than the command that it allows.
    await add_all(reader.add_approval, "approval.>", earlier)
    planted = await asyncio.to_thread(judge_planted)
    return msgspec.structs.replace(reader.metrics(), planted=planted)
