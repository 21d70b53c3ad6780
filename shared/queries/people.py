"""What the goals of a person may use in a day and how many there may be; what they used, and how many are."""

import asyncio
import hashlib
from datetime import UTC, datetime

from shared import subjects
from shared.bus import Bus
from shared.bus.records import read_record
from shared.contracts import TOKEN, GoalBudget, PersonGoals, PersonLimits
from shared.queries.records import count_subjects, read_goal
from shared.reasoning.entries import SharedBudget
from shared.reasoning.spending import name_day_of
from shared.views.status import PersonStanding


def id_of(person: str) -> str:
    """A person as a token of subjects: the name itself, or of ``webhook:ci`` and such a digest."""
    return person if TOKEN.fullmatch(person) else hashlib.sha256(person.encode()).hexdigest()[:32]


def today() -> str:
    """The day (UTC) that limits count by."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


async def read_limits(bus: Bus, person: str) -> PersonLimits | None:
    """The limits of a person, or those of everyone; None if nothing is limited."""
    for name in (id_of(person), subjects.EVERYONE):
        subject = subjects.record(subjects.GATEWAY, subjects.LIMITS, name)
        if (record := await read_record(bus, subject, PersonLimits)) is not None:
            found = record.value
            limited = found.day_tokens or found.day_cost or found.open_goals or found.day_goals
            return found if limited else None
    return None


async def read_goals_of(bus: Bus, person: str) -> tuple[PersonGoals, int]:
    """The goals of a person who has limits, as of today, and the sequence of their record."""
    subject = subjects.record(subjects.CONDUCTOR, subjects.GOALS_OF, id_of(person))
    record, day = await read_record(bus, subject, PersonGoals), today()
    if record is not None and record.value.day == day:
        return record.value, record.seq
    opened = record.value.opened if record else ()
    goals = PersonGoals(sender=subjects.CONDUCTOR, whose=person, day=day, opened=opened)
    return goals, record.seq if record else 0


async def find_open(bus: Bus, goal_ids: tuple[str, ...]) -> tuple[str, ...]:
    """Those of some goals that have not ended; one that has no record yet is about to begin."""
    found = await asyncio.gather(*(read_goal(bus, each) for each in goal_ids))
    ended = {each for each, goal in zip(goal_ids, found, strict=True) if goal and goal[0].status.final}
    return tuple(each for each in goal_ids if each not in ended)


async def read_standing(bus: Bus, person: str, limits: PersonLimits) -> PersonStanding:
    """What a person used today of ``limits``."""
    goals, _ = await read_goals_of(bus, person)
    used = await SharedBudget(bus, name_day_of(id_of(person))).read_used()
    return PersonStanding(
        person=person,
        tokens=used.tokens,
        cost=used.cost,
        open_goals=len(await find_open(bus, goals.opened)),
        goals=len(goals.today),
        day_tokens=limits.day_tokens,
        day_cost=limits.day_cost,
        most_open=limits.open_goals,
        day_goals=limits.day_goals,
    )


async def find_refusal(bus: Bus, person: str, goal_id: str) -> str:
    """Why a person may not submit this goal now, and what is left; empty for one that may, or that did."""
    limits = await read_limits(bus, person) if person else None
    if limits is None:
        return ""
    goals, _ = await read_goals_of(bus, person)
    known = goal_id in (*goals.today, *goals.opened)
    return "" if known else (await read_standing(bus, person, limits)).refusal


def limited_budget(budget: GoalBudget | None, goal_id: str, limits: PersonLimits) -> GoalBudget | None:
    """The budget of a goal with what its person may use in a day."""
    if not (limits.day_tokens or limits.day_cost):
        return budget
    known = budget or GoalBudget(goal_id=goal_id)
    return GoalBudget(
        goal_id=known.goal_id,
        tokens=known.tokens,
        cost=known.cost,
        person=id_of(limits.whose),
        day_tokens=limits.day_tokens,
        day_cost=limits.day_cost,
    )


async def list_standings(bus: Bus) -> tuple[PersonStanding, ...]:
    """Of all people who have limits, or share those of everyone and submitted something."""
    limits, goals = await asyncio.gather(
        count_subjects(bus, subjects.OFFICE, subjects.record(subjects.GATEWAY, subjects.LIMITS, "*")),
        count_subjects(bus, subjects.OFFICE, subjects.record(subjects.CONDUCTOR, subjects.GOALS_OF, "*")),
    )
    people: dict[str, None] = {}
    for subject in (*sorted(limits), *sorted(goals)) if limits else ():
        if subject in limits:
            limited = await read_record(bus, subject, PersonLimits)
            people |= {limited.value.whose: None} if limited else {}
        elif (counted := await read_record(bus, subject, PersonGoals)) is not None:
            people[counted.value.whose] = None
    found = [(person, await read_limits(bus, person)) for person in people]
    return tuple([await read_standing(bus, person, own) for person, own in found if own is not None])
