"""Statistics on agents and kinds of tasks: recorded with each result, used to choose between agents."""

from collections.abc import Mapping, Sequence

import msgspec

from services.conductor.lessons import (
    KEPT,
    failure_of,
    find_help,
    pattern_of_failures,
    pattern_of_help,
)
from services.conductor.planner import NAMED, NO_TASKS
from services.conductor.state_machine import BY_MODEL
from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.clock import seconds_between
from shared.contracts import (
    Experience,
    ExperienceIndex,
    Failure,
    Goal,
    GoalTask,
    Pattern,
    TaskResult,
    TaskStatus,
    generate_id,
)
from shared.contracts.cognition import kind_of, spending_of
from shared.plans import AgentPage

RECORD = "learning"
INDEX = "all"  # The record that lists the others: an agent cannot read what it does not know the name of
MAX_RECORDS = 1_000
"""Pairs of an agent and a kind of task that are recorded: a model may name a new kind each time."""
FIRST = 2  # The index is stored with a record up to this sample, in case the first commit was refused
ENOUGH = 5  # Tasks an agent must have ended before its figures count: with fewer, luck outweighs skill


class MetaLearner:
    """Counts by agent and kind of task how many succeeded, how long they took, and what they cost.

    Each result adds to one small record, committed with the result. Of several conductor processes each
    records what it saw itself; ``mailroom kpi --agents`` computes exact figures from the log.
    """

    def __init__(self, bus: Bus, *, routing: bool) -> None:
        self._bus = bus
        self._routing = routing
        self._records: dict[str, Experience] = {}

    async def restore(self) -> None:
        """Read what was recorded before."""
        index = await read_record(self._bus, _subject(INDEX), ExperienceIndex)
        for name in index.value.records if index else ():
            if record := await read_record(self._bus, _subject(name), Experience):
                self._records[name] = record.value

    def lessons(
        self, goal: Goal, task: GoalTask, result: TaskResult, project: str
    ) -> tuple[tuple[Failure, ...], list[Pattern]]:
        """The failures of a named action that nothing has helped, with this result; and what it teaches.

        Only goals of people teach: what agents submit could be made to.
        """
        known = self._records.get(record_name(task.assignee, _kind(goal, task)))
        failures = known.failures if known else ()
        if not task.action or goal.requester != subjects.USER or (known and task.task_id in known.counted):
            return failures, []
        if result.status in (TaskStatus.FAILED, TaskStatus.TIMEOUT):
            failures = (*failures, failure_of(goal, task, result.error_message, project))[-KEPT:]
            repeated = pattern_of_failures(goal, task, failures)
            return failures, [repeated] if repeated else []
        if result.status is not TaskStatus.COMPLETED or not failures:
            return failures, []
        helped, params = find_help(task, failures)
        left = tuple(each for each in failures if each not in helped)
        return left, [pattern_of_help(goal, task, helped[-1], params)] if helped else []

    def pattern_ids(self, task: GoalTask) -> tuple[str, ...]:
        """The ids of the patterns that were learned from tasks with the agent and the action of ``task``."""
        known = self.experience(task.assignee, task.action[:60]) if task.action else None
        return known.patterns if known else ()

    def learn(
        self,
        goal: Goal,
        task: GoalTask,
        result: TaskResult,
        attempts: int,
        *,
        failures: tuple[Failure, ...] = (),
        patterns: Sequence[str] = (),
    ) -> list[Entry]:
        """The entries that record how a task ended, and what was learned; none for a cancelled one."""
        if result.status is TaskStatus.CANCELLED:
            return []
        kind = _kind(goal, task)
        name = record_name(task.assignee, kind)
        known = self._records.get(name)
        if known is None and len(self._records) >= MAX_RECORDS:
            return []
        tokens, cost = spending_of(result.metadata)
        before = known or Experience(sender=subjects.CONDUCTOR, agent=task.assignee, kind=kind)
        after = before.plus(
            task.task_id,
            completed=result.status is TaskStatus.COMPLETED,
            seconds=seconds_between(task.started_at, result.completed_at),
            attempts=attempts,
            tokens=tokens,
            cost=cost,
        )
        if after is not before:
            learned = tuple(dict.fromkeys((*before.patterns, *patterns)))[-KEPT:]
            after = msgspec.structs.replace(after, failures=failures, patterns=learned)
        else:
            # Counted already, but the commit may have lost a race; it needs an id of its own to be stored.
            after = msgspec.structs.replace(after, id=generate_id())
        self._records[name] = after
        entries = [seal(_subject(name), after)]
        if after.samples <= FIRST:
            index = ExperienceIndex(sender=subjects.CONDUCTOR, records=tuple(self._records))
            entries.append(seal(_subject(INDEX), index))
        return entries

    def experience(self, agent: str, kind: str) -> Experience | None:
        """The statistics of an agent at a kind of task; None if there are none."""
        return self._records.get(record_name(agent, kind))

    def route(self, tasks: Sequence[GoalTask], pages: Mapping[str, AgentPage]) -> tuple[GoalTask, ...]:
        """``tasks``, each assigned to the agent that does it best; unchanged if learned routing is off.

        Only a task with a named action that several agents at work offer, with these parameters, can move,
        and only between agents with at least ENOUGH tasks of the kind; an agent with fewer keeps its task.
        """
        if not self._routing:
            return tuple(tasks)
        return tuple(self._place(task, pages) for task in tasks)

    def _place(self, task: GoalTask, pages: Mapping[str, AgentPage]) -> GoalTask:
        offers = [
            name
            for name, page in pages.items()
            if task.action
            and name not in NO_TASKS
            and all(page.offers(task.action, parameter) for parameter in ("", *task.params))
        ]
        known = {name: self.experience(name, task.action[:60]) for name in offers}
        able = {name: seen for name, seen in known.items() if seen is not None and seen.samples >= ENOUGH}
        if task.assignee not in able or len(able) < 2:
            return task
        scores = score(able)
        best = max(scores, key=lambda name: (scores[name], name == task.assignee))
        return msgspec.structs.replace(task, assignee=best)


def _kind(goal: Goal, task: GoalTask) -> str:
    planned = "" if goal.playbook in ("", BY_MODEL, NAMED) else f"{goal.playbook}.{task.name}"
    return kind_of(task.text, task.action, planned)


def score(able: Mapping[str, Experience]) -> dict[str, float]:
    """A score of each agent at a kind of task, at most 1.

    (completed + 1) / (tasks + 2), which discounts few samples; less 0.1 times the retries a task, at most
    0.1; less up to 0.1 for being slower than the shortest median duration.
    """
    quickest = min(seen.duration for seen in able.values())
    return {
        name: (seen.completed + 1) / (seen.samples + 2)
        - 0.1 * min(1.0, seen.retries)
        - 0.1 * (1 - (quickest / seen.duration if seen.duration > 0 else 1.0))
        for name, seen in able.items()
    }


def record_name(agent: str, kind: str) -> str:
    """The id of the record of an agent and a kind of task."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in kind)
    return f"{agent}-{plain}"[:128]


def _subject(name: str) -> str:
    return subjects.record(subjects.CONDUCTOR, RECORD, name)
