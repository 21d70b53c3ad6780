"""Reading the metrics from the log; only the fields that they need are decoded."""

from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from datetime import datetime
from typing import Any

import msgspec

from services.cli.queries.metrics import (
    JournalEntry,
    Metrics,
    PolicyTracker,
    Sample,
    compute_context_hits,
    compute_drift,
    compute_experiences,
    compute_velocity,
)
from services.cli.queries.records import LAST_BATCH, count_subjects, read_last, scan
from shared import subjects
from shared.bus import Bus, Stored
from shared.clock import seconds_between
from shared.contracts import ApprovalAnswer, ApprovalRequest, CommandJudged, TaskStatus
from shared.contracts.cognition import kind_of, spending_of

ENDED = frozenset(str(status) for status in TaskStatus if status.final)


class _Task(msgspec.Struct):
    task_id: str = ""
    assignee: str = ""
    text: str = ""
    goal_id: str = ""
    created_at: str = ""
    status: str = ""
    context: msgspec.Raw = msgspec.Raw(b"{}")


class _Result(msgspec.Struct):
    completed_at: str = ""
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


class _Record(msgspec.Struct):
    """The fields of a task's record that metrics need."""

    task: _Task
    type: str = ""
    attempt: int = 0
    journal: tuple[JournalEntry, ...] = ()
    result: _Result | None = None


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
        self._drift: list[tuple[str, list[int]]] = []
        self._policy = PolicyTracker()
        self._samples: list[Sample] = []

    def add_record(self, data: bytes) -> None:
        """Add a record of a task."""
        record = self._read(data, _Record)
        if record is None or not record.type.startswith("task_changed."):
            return
        task = record.task
        if record.journal:
            self._policy.journals[task.task_id] = record.journal
        if record.result is None and task.status not in ENDED:
            return
        self._ended[task.status] += 1
        if record.result is not None:
            self._add_result(record, record.result)

    def _add_result(self, record: _Record, result: _Result) -> None:
        task, meta = record.task, _mapping(result.metadata)
        seconds = max(0.0, seconds_between(task.created_at, result.completed_at))
        done = task.status == TaskStatus.COMPLETED
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
            "attempts": record.attempt,
            "tokens": tokens,
            "cost": cost,
        }
        kind = kind_of(task.text, action)
        self._samples.append(Sample(result.completed_at, task.assignee, kind, task.task_id, facts))
        self._add_context(meta.get("context"))
        rules = _mapping(meta.get("inspection")).get("drift") or meta.get("drift")
        if isinstance(rules, list):
            self._drift.append((result.completed_at, [_violations(rule) for rule in _mappings(rules)]))

    def _add_context(self, found: Any) -> None:
        context = _mapping(found)
        scores = context.get("scores") or [item.get("score") for item in _mappings(context.get("bullets"))]
        self._scores += [float(score) for score in scores if isinstance(score, int | float)]

    def add_mail(self, data: bytes) -> None:
        """Add a message of nexus: its answers have the memories they used."""
        response = self._read(data, _Response)
        if response is not None and response.type.startswith("response."):
            self._add_context(response.context_used)

    def add_judged(self, data: bytes) -> None:
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
        """The metrics of all messages."""
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
        )


def _violations(rule: dict[str, Any]) -> int:
    found = rule.get("violations")
    return len(found) if isinstance(found, list) else 0


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, msgspec.Raw):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _mappings(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


async def read_metrics(bus: Bus, since: datetime | None = None) -> Metrics:
    """The metrics of the log from ``since`` on (None: of all of it)."""
    reader = MetricsReader()

    async def add_all(add: Callable[[Stored], None], pattern: str, since: datetime | None) -> None:
        async with aclosing(scan(bus, subjects.OFFICE, pattern, since=since)) as found:
            async for stored in found:
                add(stored)

    records = subjects.state("*", "*", "*")
    if since is None:
        # The last record of a task has all that is needed, in a third of the messages or less.
        names = list(await count_subjects(bus, subjects.OFFICE, records))
        for begin in range(0, len(names), LAST_BATCH):
            page = await read_last(bus, subjects.OFFICE, names[begin : begin + LAST_BATCH])
            for stored in page.values():
                reader.add_record(stored.data)
    else:
        await add_all(lambda each: reader.add_record(each.data), records, since)
    await add_all(lambda each: reader.add_mail(each.data), subjects.mail("*", subjects.NEXUS), since)
    await add_all(lambda each: reader.add_judged(each.data), subjects.event("*", "command_judged"), since)
    # A grant may be older than the command that it allows.
    await add_all(lambda each: reader.add_approval(each.subject, each.data), "approval.>", None)
    return reader.metrics()
