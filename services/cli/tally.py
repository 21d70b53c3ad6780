"""Reading the log for figures: what each message adds to them, and nothing else of it."""

from collections import Counter
from typing import Any

import msgspec

from services.cli.figures import (
    Figures,
    Sample,
    drift_of,
    experiences_of,
    hits_of,
    velocity_of,
)
from services.cli.moment import parse_time
from services.cli.safety import Answered, Asked, Begun, Judged, Safety
from shared.contracts import TaskStatus
from shared.contracts.cognition import kind_of

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
    """A task's record as far as figures need it."""

    task: _Task
    type: str = ""
    attempt: int = 0
    journal: tuple[Begun, ...] = ()
    result: _Result | None = None


class _Named(msgspec.Struct):
    action: str = ""


class _Response(msgspec.Struct):
    type: str = ""
    context_used: Any = None


class Tally:
    """Adds up what messages say, in whatever order of kinds; ``figures`` is the sum."""

    def __init__(self) -> None:
        self.messages = 0
        self._ended: Counter[str] = Counter()
        self._seconds: dict[str, list[float]] = {}
        self._scores: list[float] = []
        self._drift: list[tuple[str, list[int]]] = []
        self._safety = Safety()
        self._samples: list[Sample] = []

    def take_record(self, data: bytes) -> None:
        """A message on a task's state subject."""
        record = self._read(data, _Record)
        if record is None or not record.type.startswith("task_changed."):
            return
        task = record.task
        if record.journal:
            self._safety.take_journal(task.task_id, record.journal)
        if record.result is None and task.status not in ENDED:
            return
        self._ended[task.status] += 1
        if record.result is not None:
            self._take_result(record, record.result)

    def _take_result(self, record: _Record, result: _Result) -> None:
        task, meta = record.task, _mapping(result.metadata)
        seconds = _seconds(task.created_at, result.completed_at)
        done = task.status == TaskStatus.COMPLETED
        if done:
            self._seconds.setdefault(task.assignee, []).append(seconds)
        usage = _mapping(meta.get("usage"))
        try:
            action = msgspec.json.decode(task.context, type=_Named).action
        except msgspec.MsgspecError:
            action = ""
        self._samples.append(
            Sample(
                ended_at=result.completed_at,
                agent=task.assignee,
                kind=kind_of(task.text, action),
                task_id=task.task_id,
                completed=done,
                seconds=seconds,
                attempts=record.attempt,
                tokens=int(_number(usage.get("input_tokens")) + _number(usage.get("output_tokens"))),
                cost=_number(usage.get("cost")),
            )
        )
        self._take_context(meta.get("context"))
        rules = _mapping(meta.get("inspection")).get("drift") or meta.get("drift")
        if isinstance(rules, list):
            self._drift.append((result.completed_at, [_violations(rule) for rule in _mappings(rules)]))

    def _take_context(self, found: Any) -> None:
        context = _mapping(found)
        scores = context.get("scores") or [item.get("score") for item in _mappings(context.get("bullets"))]
        self._scores += [float(score) for score in scores if isinstance(score, int | float)]

    def take_letter(self, data: bytes) -> None:
        """A letter of the front desk: its answers say what they rest on."""
        letter = self._read(data, _Response)
        if letter is not None and letter.type.startswith("response."):
            self._take_context(letter.context_used)

    def take_judged(self, data: bytes) -> None:
        """An event that says how the policy judged a command."""
        if (judged := self._read(data, Judged)) is not None:
            self._safety.take_judged(judged)

    def take_approval(self, subject: str, data: bytes) -> None:
        """A question to a person, or the answer."""
        if ".asked." in subject:
            if (asked := self._read(data, Asked)) is not None:
                self._safety.take_asked(asked)
        elif (answered := self._read(data, Answered)) is not None:
            self._safety.take_answered(answered)

    def _read(self, data: bytes, kind: type[Any]) -> Any:
        self.messages += 1
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None

    def figures(self) -> Figures:
        """What it all comes to."""
        every = [seconds for times in self._seconds.values() for seconds in times]
        return Figures(
            messages=self.messages,
            tasks=dict(sorted(self._ended.items())),
            velocity=velocity_of(every),
            velocity_by_agent={
                agent: found
                for agent, times in sorted(self._seconds.items())
                if (found := velocity_of(times)) is not None
            },
            context_hits=hits_of(self._scores),
            drift=drift_of(self._drift),
            safety=self._safety.figures(),
            agents=experiences_of(self._samples),
        )


def _violations(rule: dict[str, Any]) -> int:
    found = rule.get("violations")
    return len(found) if isinstance(found, list) else 0


def _seconds(start: str, end: str) -> float:
    try:
        return max(0.0, (parse_time(end) - parse_time(start)).total_seconds())
    except ValueError:
        return 0.0


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, msgspec.Raw):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def _mappings(values: Any) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
