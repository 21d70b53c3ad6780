"""What the conductor learns from how tasks went: kept as it happens, and used to choose between agents."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from services.conductor.planning import NAMED
from services.conductor.repair import BRAIN
from services.conductor.yellow_pages import UNPLANNED, Page
from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.contracts import (
    Experience,
    ExperienceIndex,
    Goal,
    GoalTask,
    TaskResult,
    TaskStatus,
    generate_id,
)
from shared.contracts.cognition import kind_of

RECORD = "learning"
INDEX = "all"
"""The record that lists the others: an agent cannot read what it does not know the name of."""
MOST_KEPT = 1_000
"""Pairs of an agent and a kind of task; a model that names a kind anew each time fills no store."""
FIRST = 2
"""Up to so many tasks of a kind the index is stored with the record, in case the first commit was refused."""
ENOUGH = 5
"""Tasks an agent must have ended before its figures count: fewer say more of luck than of skill."""


class MetaLearner:
    """Knows per agent and kind of task how many succeeded, how long they took, and what they cost.

    Each result adds to one small record, committed with the result. The figures follow from the log alone:
    ``mailroom kpi --agents`` reckons them anew from there. Of several conductor processes each writes what it
    saw itself.
    """

    def __init__(self, bus: Bus, *, routing: bool) -> None:
        self._bus = bus
        self._routing = routing
        self._known: dict[str, Experience] = {}

    async def restore(self) -> None:
        """Begin with what was learned before."""
        index = await self._bus.last(subjects.OFFICE, subjects.record(subjects.CONDUCTOR, RECORD, INDEX))
        for name in ExperienceIndex.from_json(index.data).records if index else ():
            stored = await self._bus.last(subjects.OFFICE, subjects.record(subjects.CONDUCTOR, RECORD, name))
            if stored is not None:
                self._known[name] = Experience.from_json(stored.data)

    def learn(self, goal: Goal, task: GoalTask, result: TaskResult, attempts: int) -> list[Entry]:
        """The entries that keep what a task's end teaches; none for a task that was called off."""
        if result.status is TaskStatus.CANCELLED:
            return []
        kind = kind_of(task.text, task.action, _name_in_playbook(goal, task))
        name = record_name(task.assignee, kind)
        known = self._known.get(name)
        if known is None and len(self._known) >= MOST_KEPT:
            return []
        usage = result.metadata.get("usage")
        usage = usage if isinstance(usage, dict) else {}
        before = known or Experience(sender=subjects.CONDUCTOR, agent=task.assignee, kind=kind)
        after = before.plus(
            task.task_id,
            completed=result.status is TaskStatus.COMPLETED,
            seconds=_seconds(task.started_at, result.completed_at),
            attempts=attempts,
            tokens=_number(usage.get("input_tokens")) + _number(usage.get("output_tokens")),
            cost=float(usage["cost"]) if isinstance(usage.get("cost"), int | float) else 0.0,
        )
        if after is before:
            # It is counted, and stored all the same: the commit it was in may have lost a race. By now that
            # state may be stored with another result, so that this is a message of its own.
            after = msgspec.structs.replace(after, id=generate_id())
        self._known[name] = after
        entries = [seal(subjects.record(subjects.CONDUCTOR, RECORD, name), after)]
        if after.samples <= FIRST:
            index = ExperienceIndex(sender=subjects.CONDUCTOR, records=tuple(self._known))
            entries.append(seal(subjects.record(subjects.CONDUCTOR, RECORD, INDEX), index))
        return entries

    def experience(self, agent: str, kind: str) -> Experience | None:
        """What is known of an agent at a kind of task."""
        return self._known.get(record_name(agent, kind))

    def route(self, tasks: Sequence[GoalTask], pages: Mapping[str, Page]) -> tuple[GoalTask, ...]:
        """``tasks``, each given to the agent that does it best; as planned where that is switched off.

        Only a named action that several agents at work offer, with the parameters it is given, can move, and
        only between agents with at least ENOUGH tasks of the kind behind them: one with fewer keeps what was
        planned for it, and so becomes known.
        """
        if not self._routing:
            return tuple(tasks)
        return tuple(self._place(task, pages) for task in tasks)

    def _place(self, task: GoalTask, pages: Mapping[str, Page]) -> GoalTask:
        offers = [
            name
            for name, page in pages.items()
            if task.action
            and name not in UNPLANNED
            and all(page.offers(task.action, parameter) for parameter in ("", *task.params))
        ]
        known = {name: self.experience(name, task.action[:60]) for name in offers}
        able = {name: seen for name, seen in known.items() if seen is not None and seen.samples >= ENOUGH}
        if task.assignee not in able or len(able) < 2:
            return task
        scores = score(able)
        best = max(scores, key=lambda name: (scores[name], name == task.assignee))
        return msgspec.structs.replace(task, assignee=best)


def score(able: Mapping[str, Experience]) -> dict[str, float]:
    """How good each agent is at a kind of task, compared with the others: at most 1.

    (completed + 1) / (tasks + 2), which doubts few samples; less a tenth of the retries a task, but no more
    than that; less up to a tenth for being slow: nothing for the quickest median duration.
    """
    quickest = min(seen.duration for seen in able.values())
    return {
        name: (seen.completed + 1) / (seen.samples + 2)
        - 0.1 * min(1.0, seen.retries)
        - 0.1 * (1 - (quickest / seen.duration if seen.duration > 0 else 1.0))
        for name, seen in able.items()
    }


def record_name(agent: str, kind: str) -> str:
    """The id of the record for an agent and a kind of task."""
    plain = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in kind)
    return f"{agent}-{plain}"[:128]


def _name_in_playbook(goal: Goal, task: GoalTask) -> str:
    return "" if goal.playbook in ("", BRAIN, NAMED) else f"{goal.playbook}.{task.name}"


def _seconds(start: str, end: str) -> float:
    try:
        return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
