"""What the models used for a goal, today and in the night, and what is left of the budgets."""

import asyncio
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta

from shared import subjects
from shared.bus import Bus
from shared.bus.records import read_record
from shared.clock import format_moment, read_night, read_zone
from shared.contracts import DailySpending, Goal, GoalBudget, NightState, SpanKind, StateChanged, TaskResult
from shared.contracts.cognition import cached_of, spending_of
from shared.errors import BusError
from shared.queries.records import end_of_search, read_goal
from shared.settings import Settings
from shared.text.times import parse_time
from shared.trail.archives import scan_log
from shared.views.timeline import Fallback, Spent, fallbacks_of, first_fallbacks, format_spent

MARGIN = timedelta(seconds=1)
"""Results are searched from this much before the submission: the clocks of processes differ."""
MODEL = (SpanKind.MODEL, SpanKind.MORE)  # The spans that count calls of a model


async def read_goal_spending(bus: Bus, goal: Goal) -> Spent:
    """What all tasks of a goal used, delegated ones too, and the conductor's own calls for it."""
    begin, end = parse_time(goal.submitted_at) - MARGIN, 0
    if goal.status.final and (found := await read_goal(bus, goal.goal_id)) is not None:
        end = await end_of_search(bus, found[1])
    results: list[TaskResult] = []
    ended = subjects.task("*", "*", "*", subjects.ENDED)
    async for stored in scan_log(bus, subjects.OFFICE, ended, since=begin, until=end):
        if goal.goal_id.encode() in stored.data:
            try:
                results.append(TaskResult.from_json(stored.data))
            except ValueError:
                continue
    mine = [each for each in results if each.goal_id == goal.goal_id]
    caches = [cached_of(each.metadata) for each in mine]
    fallbacks = [found for each in mine for found in fallbacks_of(each.metadata)]
    spent = {(each.agent, each.task_id): spending_of(each.metadata) for each in mine}
    async for stored in scan_log(bus, subjects.OFFICE, subjects.goal(goal.goal_id), since=begin, until=end):
        try:
            change = StateChanged.from_json(stored.data)
        except ValueError:
            continue
        calls = [span for span in change.spans if span.kind in MODEL]
        caches += [(span.input_tokens, span.cached_tokens) for span in calls]
        fallbacks += [
            Fallback(since=span.started_at, model=span.name, instead_of=span.instead_of)
            for span in calls
            if span.instead_of and span.kind is SpanKind.MODEL
        ]
        tokens = sum(span.input_tokens + span.output_tokens for span in calls)
        spent[(subjects.CONDUCTOR, str(stored.seq))] = tokens, sum(span.cost for span in calls)
    return Spent(
        tokens=sum(tokens for tokens, _ in spent.values()),
        cost=sum(cost for _, cost in spent.values()),
        agents=tuple(sorted({agent for (agent, _), (tokens, _) in spent.items() if tokens})),
        read=sum(read for read, _ in caches),
        cached=sum(cached for _, cached in caches),
        fallbacks=first_fallbacks(fallbacks),
    )


async def read_today(bus: Bus, agents: Iterable[str]) -> dict[str, DailySpending]:
    """What each of ``agents`` used today (UTC), if anything; one that cannot be read is left out."""
    day = f"{datetime.now(UTC):%Y-%m-%d}"

    async def read(agent: str) -> tuple[str, DailySpending | None]:
        try:
            record = await read_record(bus, subjects.record(agent, "spending", day), DailySpending)
        except (BusError, ValueError):
            return agent, None
        return agent, record.value if record else None

    found = await asyncio.gather(*(read(agent) for agent in sorted(set(agents))))
    return {agent: spending for agent, spending in found if spending is not None}


async def read_left(
    bus: Bus, settings: Settings, budget: GoalBudget | None, used: tuple[int, float], agents: Collection[str]
) -> str:
    """What is left of a goal's ``budget``, and of today's to the one of ``agents`` that has least.

    ``used`` are the goal's tokens and US dollars. Empty without a budget; all of today's if none of the
    agents used a model.
    """
    parts = [f"left of the goal's budget: {_left(budget.tokens, budget.cost, *used)}"] if budget else []
    if settings.day_tokens or settings.day_cost:
        parts.append(format_left(settings, await read_today(bus, agents)))
    return "; ".join(parts)


def _left(tokens: int, cost: float, used: int, spent: float) -> str:
    """What is left of so many tokens and US dollars, of those that are limited."""
    left = [f"{max(0, tokens - used):,} of {tokens:,} tokens"] if tokens else []
    left += [f"${max(0.0, cost - spent):.2f} of ${cost:.2f}"] if cost else []
    return " and ".join(left)


def format_left(settings: Settings, today: dict[str, DailySpending]) -> str:
    """``left today: 4,987,213 of 5,000,000 tokens and $4.58 of $5.00 for engineer``."""
    tokens, cost = settings.day_tokens, settings.day_cost

    def share(spent: DailySpending) -> float:
        used = spent.input_tokens + spent.output_tokens
        return max(used / tokens if tokens else 0.0, spent.cost / cost if cost else 0.0)

    if not (tokens or cost):
        return ""
    if not today:
        whole = [f"{tokens:,} tokens"] if tokens else []
        whole += [f"${cost:.2f}"] if cost else []
        return f"left today: all of {' and '.join(whole)} for each agent"
    agent, spent = max(today.items(), key=lambda each: share(each[1]))
    used = spent.input_tokens + spent.output_tokens
    return f"left today: {_left(tokens, cost, used, spent.cost)} for {agent}"


async def read_night_state(bus: Bus) -> NightState:
    """How cortex recorded the night that it is, or the last one."""
    record = await read_record(bus, subjects.record(subjects.CORTEX, "night", "now"), NightState)
    return record.value if record else NightState()


def format_overspent(settings: Settings, state: NightState) -> str:
    """That the budget of the night is spent; empty if it is not, or there is none."""
    tokens, cost = settings.night_tokens, settings.night_cost
    if tokens and state.tokens >= tokens:
        return f"the night's budget is spent: {state.tokens:,} of {tokens:,} tokens"
    if cost and state.cost >= cost:
        return f"the night's budget is spent: ${state.cost:.2f} of ${cost:.2f}"
    return ""


def format_night(settings: Settings, state: NightState, now: datetime) -> str:
    """When the night is, what it used, and why nothing begins in it."""
    zone = read_zone(settings.time_zone)
    window = read_night(settings.night, zone)
    began, ends = window.find(now)
    if began > now:
        return f"from {window}; it begins on {format_moment(began, zone)}"
    text = "jobs begin at once" if window.is_always else f"until {ends.astimezone(zone):%H:%M}"
    limits = [f"{settings.night_tokens:,} tokens"] if settings.night_tokens else []
    limits += [f"${settings.night_cost:.2f}"] if settings.night_cost else []
    used = format_spent(state.tokens, state.cost)
    parts = [
        text,
        f"{used} of {' and '.join(limits)}" if limits else used if state.tokens else "",
        f"no job begins: {state.held}" if state.held else "",
    ]
    return "; ".join(filter(None, parts))
