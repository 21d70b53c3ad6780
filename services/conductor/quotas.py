"""How many goals a person may have, and the budget that they share in a day."""

from typing import NamedTuple

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import retry_on_conflict
from shared.contracts import Goal, PersonLimits, generate_id, generate_iso_timestamp
from shared.queries.people import (
    find_open,
    id_of,
    limited_budget,
    read_goals_of,
    read_limits,
    read_standing,
)

MOST = 1_000  # The goals of a day that are counted
KEPT = 200  # Goals of a person that are looked through to see whether they are open, where none are limited


class Admitted(NamedTuple):
    """A goal with its person's budget, and why it may not begin; empty if it may."""

    goal: Goal
    refused: str = ""


class Quotas:
    """Counts the goals of people who have limits, each once: all processes write the same record."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def admit(self, goal: Goal) -> Admitted:
        """Count a new goal, unless its person has as many as may be."""
        limits = await read_limits(self._bus, goal.person) if goal.person else None
        if limits is None:
            return Admitted(goal)
        own = msgspec.structs.replace(limits, whose=goal.person)
        budget = limited_budget(goal.budget, goal.goal_id, own)
        refused = ""

        async def attempt() -> None:
            nonlocal refused
            refused = await self._count(goal, own)

        await retry_on_conflict(attempt)
        return Admitted(msgspec.structs.replace(goal, budget=budget), refused)

    async def _count(self, goal: Goal, limits: PersonLimits) -> str:
        goals, seq = await read_goals_of(self._bus, goal.person)
        if goal.goal_id in (*goals.today, *goals.opened):
            return ""
        if refused := (await read_standing(self._bus, goal.person, limits)).refusal:
            return refused
        opened = goals.opened
        if len(opened) >= (limits.open_goals or KEPT):
            opened = await find_open(self._bus, opened)
        counted = msgspec.structs.replace(
            goals,
            id=generate_id(),
            created_at=generate_iso_timestamp(),
            today=(*goals.today, goal.goal_id)[-MOST:],
            opened=(*opened, goal.goal_id),
        )
        subject = subjects.record(subjects.CONDUCTOR, subjects.GOALS_OF, id_of(goal.person))
        await self._bus.commit([seal(subject, counted, expect=seq)])
        return ""
