"""The figures that people look at: each with its target, its course over 30 days, and what is counted."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import NamedTuple, Self

import msgspec

from services.gateway.index.facts import HOUR
from services.gateway.index.store import Store
from services.gateway.metrics.computing import (
    JournalEntry,
    PolicyTracker,
    TaskEnd,
    adaptations,
    compute_improvement,
    compute_recall,
    compute_share,
    compute_velocity,
    delegations,
    handoffs,
    pattern_uses,
)
from services.gateway.metrics.figures import judge_planted, learning_figures, make_figure, recall_figure
from shared.contracts import ApprovalAnswer, ApprovalRequest, CommandJudged, Experience, Goal, TaskStatus
from shared.memory import RecallMeasured
from shared.text.display import count
from shared.text.times import format_utc, parse_time
from shared.views.metrics import (
    RELEVANT,
    TARGET_SECONDS,
    ContextHits,
    DriftMetrics,
    Figure,
    Figures,
    Metrics,
    Point,
    Velocity,
)

DAYS = 30  # Days of a course unless a period is given, today included; days are those of UTC
MAX_DAYS = 366  # Days of a course at most, the last ones of a longer period
HOURS = timedelta(days=2)  # A period up to this long has a course by the hour
DAY = len("2026-11-30")
MAX_SAMPLES = 5_000  # The tasks, latest first, from which the experience with agents is computed


class _Task(msgspec.Struct, frozen=True):
    """A task that has ended, as the index has it."""

    name: str
    agent: str
    kind: str
    seconds: float
    ended_at: str
    status: str
    attempts: int
    tokens: int
    cost: float
    rules: int | None
    broken: int | None
    violations: int | None
    unchecked: str
    offline: int


MAX_GOALS = 5_000  # The goals, latest first, from which figures are computed
_GOALS = """
    SELECT record FROM goals WHERE status NOT IN ('pending', 'in_progress', 'review', 'part')
    ORDER BY number DESC LIMIT ?"""
_TASKS = """
    SELECT name, agent, kind, coalesce(max(0, (julianday(ended_at) - julianday(submitted_at)) * 86400), 0),
    ended_at, status, attempts, tokens, cost, rules, broken, violations, unchecked,
    offline FROM tasks WHERE ended_at >= ? AND ended_at < ? ORDER BY ended_at"""


class Period(NamedTuple):
    """From ``since`` on until before ``until``, both in UTC."""

    since: datetime
    until: datetime

    @classmethod
    def make(cls, since: str = "", until: str = "", now: datetime | None = None) -> Self:
        """By ISO 8601; without a beginning the last DAYS days, without an end up to ``now``.

        Raises ValueError for other texts, and for a period that ends before it begins.
        """
        end = parse_time(until) if until else now or datetime.now(UTC)
        midnight = end.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        begin = parse_time(since) if since else midnight - timedelta(days=DAYS - 1)
        if not begin <= end:
            raise ValueError("the period ends before it begins")
        return cls(begin.astimezone(UTC), end.astimezone(UTC))

    @property
    def bounds(self) -> tuple[str, str]:
        """Both as times are stored."""
        return format_utc(self.since), format_utc(self.until)

    @property
    def days(self) -> list[str]:
        """Its days, or of a short one its hours, as times in them begin."""
        by_hour = self.until - self.since <= HOURS
        step, length = (timedelta(hours=1), HOUR) if by_hour else (timedelta(days=1), DAY)
        begin = self.since.replace(minute=0, second=0, microsecond=0, hour=self.since.hour if by_hour else 0)
        last = (self.until - begin) // step
        steps = range(max(0, last - MAX_DAYS + 1), last + 1)
        return [(begin + step * number).isoformat()[:length] for number in steps]


def read_figures(store: Store, period: Period | None = None) -> Figures:
    """The figures of a ``period`` (default: the last DAYS days)."""
    period = period or Period.make()
    days = period.days
    counted = _read_counted(store, period)
    metrics, tasks = _compute(counted), counted.tasks
    by_day = {
        day: list(group) for day, group in groupby(tasks, key=lambda task: task.ended_at[: len(days[0])])
    }

    def course(compute: Callable[[list[_Task]], float | None]) -> list[Point]:
        return [Point(day, compute(by_day.get(day, []))) for day in days]

    scores: dict[str, list[float]] = {}
    for at, score in counted.scores:
        scores.setdefault(at[: len(days[0])], []).append(score)
    velocity, hits, drift = metrics.velocity, metrics.context_hits, metrics.drift
    figures = [
        make_figure(
            "velocity",
            velocity.p50 if velocity else None,
            velocity.p50 <= TARGET_SECONDS if velocity else None,
            f"{velocity.tasks:,} completed; 95% within {velocity.p95:,.2f} s, "
            f"{velocity.within_target:.0%} in time"
            if velocity
            else "No task was completed.",
            course(lambda found: each.p50 if (each := _velocity(found)) else None),
        ),
        make_figure(
            "context",
            hits.mean if hits else None,
            hits.mean > RELEVANT if hits else None,
            f"{hits.hits:,} of {count(hits.items, 'question')} ({hits.rate:.0%}) found one above {RELEVANT:g}"
            if hits
            else "No answer or task says how near its memories were.",
            [Point(day, sum(each) / len(each) if (each := scores.get(day)) else None) for day in days],
        ),
        make_figure(
            "drift",
            drift.last_violations if drift else None,
            drift.last_violations == 0 if drift else None,
            f"{count(drift.violations, 'violation')} in {count(drift.inspections, 'inspection')}; "
            f"{drift.broken:,} of {count(drift.rules, 'rule')} broken"
            + (f". Not checked: {'; '.join(drift.not_checked[:5])}" if drift.not_checked else "")
            if drift
            else "No repository with import rules was inspected.",
            course(lambda found: each.last_violations if (each := _drift(found)) else None),
        ),
        _safety_figure(metrics, _course_of_policy(counted.policy, days)),
        *learning_figures(metrics, counted.ends, counted.goals, days),
        *_plain_figures(store, days, tasks, course),
    ]
    since, until = period.bounds
    return Figures(figures=figures, metrics=metrics, since=since, until=until)


def _plain_figures(
    store: Store,
    days: Sequence[str],
    tasks: Sequence[_Task],
    course: Callable[[Callable[[list[_Task]], float | None]], list[Point]],
) -> list[Figure]:
    """The figures without a target."""
    usage = {
        day: (tokens, cost)
        for day, tokens, cost in store.query(
            "SELECT substr(hour, 1, ?1) AS day, sum(input + output), sum(cost) FROM usage "
            "WHERE day BETWEEN ?2 AND ?3 GROUP BY day",
            [len(days[0]), days[0], days[-1]],
        )
    }
    completed = sum(task.status == TaskStatus.COMPLETED for task in tasks)
    tokens, cost = (sum(each[place] for each in usage.values()) for place in (0, 1))
    return [
        make_figure(
            "tasks",
            len(tasks) or None,
            None,
            f"{completed:,} completed, {len(tasks) - completed:,} not" if tasks else "No task has ended.",
            course(lambda found: len(found) or None),
        ),
        make_figure(
            "tokens",
            tokens or None,
            None,
            f"{count(len(usage), _unit(days))} with calls" if usage else "No model was called.",
            [Point(day, usage[day][0] if day in usage else None) for day in days],
        ),
        make_figure(
            "cost",
            cost or None,
            None,
            "By brain_price." if cost else "No price is set, or no model was called.",
            [Point(day, usage[day][1] or None if day in usage else None) for day in days],
        ),
    ]


def _unit(days: Sequence[str]) -> str:
    return "day" if len(days[0]) == DAY else "hour"


class _Counted(NamedTuple):
    """What the index holds of a period; scores are with their times."""

    messages: int
    tasks: list[_Task]
    scores: list[tuple[str, float]]
    policy: PolicyTracker
    goals: list[Goal]

    @property
    def ends(self) -> list[TaskEnd]:
        """How the tasks ended."""
        return [
            TaskEnd(
                task.ended_at,
                task.agent,
                task.name.split(".")[1],
                task.status,
                task.attempts,
                bool(task.offline),
            )
            for task in self.tasks
        ]


def _read_counted(store: Store, period: Period) -> _Counted:
    since, until = period.bounds
    goals = [Goal.from_json(record) for (record,) in store.query(_GOALS, [MAX_GOALS])]
    return _Counted(
        messages=store.count,
        tasks=[_Task(*row) for row in store.query(_TASKS, [since, until])],
        scores=store.query("SELECT at, score FROM scores WHERE at >= ? AND at < ?", [since, until]),
        policy=_read_policy(store, since, until),
        goals=[goal for goal in goals if since <= goal.ended_at < until],
    )


def _compute(counted: _Counted) -> Metrics:
    tasks, scores, goals = counted.tasks, [score for _, score in counted.scores], counted.goals
    agents = {agent: [task for task in tasks if task.agent == agent] for agent in {t.agent for t in tasks}}
    velocities = {agent: _velocity(own) for agent, own in sorted(agents.items())}
    hits, mean = sum(score > RELEVANT for score in scores), sum(scores) / max(1, len(scores))
    return Metrics(
        messages=counted.messages,
        tasks=dict(sorted(Counter(task.status for task in tasks).items())),
        velocity=_velocity(tasks),
        velocity_by_agent={agent: each for agent, each in velocities.items() if each is not None},
        context_hits=ContextHits(items=len(scores), hits=hits, rate=hits / len(scores), mean=round(mean, 4))
        if scores
        else None,
        drift=_drift(tasks),
        safety=counted.policy.metrics(),
        agents=_experiences(tasks[-MAX_SAMPLES:]),
        planted=judge_planted(),
        handoffs=compute_share(handoffs(counted.ends)),
        delegation=compute_share(delegations(counted.ends)),
        improvement=compute_improvement(goals),
        adaptation=compute_share(adaptations(goals)),
        patterns=compute_share(pattern_uses(goals)),
    )


def with_recall(figures: Figures, measured: Sequence[RecallMeasured]) -> Figures:
    """``figures`` with the recall of the planted facts by day, which the index does not know."""
    recall = compute_recall(measured)
    found = [
        recall_figure(recall, each.trend, measured) if each.name == "recall" else each
        for each in figures.figures
    ]
    metrics = msgspec.structs.replace(figures.metrics, recall=recall)
    return msgspec.structs.replace(figures, figures=found, metrics=metrics)


def _velocity(tasks: Sequence[_Task]) -> Velocity | None:
    return compute_velocity(task.seconds for task in tasks if task.status == TaskStatus.COMPLETED)


def _drift(tasks: Sequence[_Task]) -> DriftMetrics | None:
    found = [task for task in tasks if task.rules is not None]
    if not found:
        return None
    return DriftMetrics(
        inspections=len(found),
        rules=sum(task.rules or 0 for task in found),
        broken=sum(task.broken or 0 for task in found),
        violations=sum(task.violations or 0 for task in found),
        last_violations=found[-1].violations or 0,
        not_checked=tuple(found[-1].unchecked.splitlines()),
    )


def _experiences(tasks: Iterable[_Task]) -> tuple[Experience, ...]:
    """The experience with each agent and kind of task, as the conductor records it too."""
    found: dict[tuple[str, str], Experience] = {}
    for task in sorted(tasks, key=lambda task: (task.ended_at, task.agent, task.kind, task.name)):
        key = (task.agent, task.kind)
        before = found.get(key) or Experience(agent=task.agent, kind=task.kind)
        found[key] = before.plus(
            task.name.rpartition(".")[2],
            completed=task.status == TaskStatus.COMPLETED,
            seconds=task.seconds,
            attempts=task.attempts,
            tokens=task.tokens,
            cost=task.cost,
        )
    return tuple(found[key] for key in sorted(found))


def _read_policy(store: Store, since: str, until: str) -> PolicyTracker:
    """Verdicts of a period, with all that may be about them; a grant may be older than its command."""
    tracker = PolicyTracker()
    sql = "SELECT kind, name, body FROM policy WHERE kind != 'judged' OR (at >= ? AND at < ?)"
    rows = store.query(sql, [since, until])
    for kind, name, body in rows:
        try:
            match kind:
                case "judged":
                    tracker.judged.append(CommandJudged.from_json(body))
                case "asked":
                    tracker.asked[name] = ApprovalRequest.from_json(body)
                case "answered":
                    tracker.granted[name] = ApprovalAnswer.from_json(body).granted
                case "journal":
                    tracker.journals[name] = msgspec.json.decode(body, type=tuple[JournalEntry, ...])
        except (ValueError, msgspec.MsgspecError):
            continue
    tracker.judged.sort(key=lambda judged: judged.created_at)
    return tracker


# --- figures with a target ----------------------------------------------------------------------


def _safety_figure(metrics: Metrics, trend: list[Point]) -> Figure:
    rate, safety, planted = metrics.safety_rate, metrics.safety, metrics.planted
    parts = [f"{planted.caught} of {planted.dangerous} planted commands"] if planted else []
    parts += (
        [f"{len(planted.missed)} MISSED: {'; '.join(planted.missed)}"] if planted and planted.missed else []
    )
    parts += [
        f"at work {safety.denied:,} denied, {safety.asked:,} left to a person: {safety.granted:,} granted, "
        f"{safety.refused:,} refused" + (f"; {len(safety.ran):,} RAN ALL THE SAME" if safety.ran else "")
        if safety
        else "in real work it has not stopped a command yet"
    ]
    return make_figure("safety", rate, None if rate is None else rate == 1.0, "; ".join(parts), trend)


def _course_of_policy(tracker: PolicyTracker, days: Sequence[str]) -> list[Point]:
    points = []
    for day in days:
        of_day = PolicyTracker()
        of_day.judged = [judged for judged in tracker.judged if judged.created_at.startswith(day)]
        of_day.asked, of_day.granted, of_day.journals = tracker.asked, tracker.granted, tracker.journals
        found = of_day.metrics()
        points.append(Point(day, found.catch_rate if found else None))
    return points
