"""The figures that people look at: each with its target, its course over 30 days, and what is counted."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from services.gateway.index.reader import Tables
from services.gateway.metrics.computing import (
    Inspected,
    JournalEntry,
    PolicyTracker,
    Sample,
    compute_context_hits,
    compute_drift,
    compute_experiences,
    compute_recall,
    compute_velocity,
)
from services.gateway.metrics.figures import (
    Figure,
    Handled,
    Point,
    add_handled,
    judge_planted,
    learning_figures,
    read_handled,
    recall_figure,
)
from shared.contracts import ApprovalAnswer, ApprovalRequest, CommandJudged, TaskStatus
from shared.memory import RecallMeasured
from shared.text.display import count
from shared.views.metrics import (
    RELEVANT,
    TARGET_SECONDS,
    ContextHits,
    DriftMetrics,
    Metrics,
    Velocity,
)

DAYS = 30  # Days of a course, today included; days are those of UTC
MAX_SAMPLES = 5_000  # The tasks, latest first, from which the experience with agents is computed


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of the last 30 days, and the metrics since ``since``, as ``mailroom kpi`` prints them."""

    figures: list[Figure]
    metrics: Metrics
    since: str


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

    @property
    def day(self) -> str:
        """The day of its end."""
        return self.ended_at[:10]


_TASKS = """
    SELECT name, agent, kind, coalesce(max(0, (julianday(ended_at) - julianday(submitted_at)) * 86400), 0),
    ended_at, status, attempts, tokens, cost, rules, broken, violations, unchecked
    FROM tasks WHERE ended_at >= ? ORDER BY ended_at"""


def read_figures(store: Tables, now: datetime | None = None) -> Figures:
    """The figures up to ``now`` (default: the present)."""
    today = (now or datetime.now(UTC)).date()
    days = [(today - timedelta(days=back)).isoformat() for back in reversed(range(DAYS))]
    counted = _read_counted(store, days[0])
    metrics, tasks, handled = _compute(counted), counted.tasks, counted.handled
    by_day = {day: list(group) for day, group in groupby(tasks, key=lambda task: task.day)}

    def course(compute: Callable[[list[_Task]], float | None]) -> list[Point]:
        return [Point(day, compute(by_day.get(day, []))) for day in days]

    figures = [
        _velocity_figure(metrics.velocity, course(lambda found: _p50(_velocity(found)))),
        _context_figure(metrics.context_hits, _course_of_scores(counted.scores, days)),
        _drift_figure(metrics.drift, course(lambda found: _violations(_drift(found)))),
        _safety_figure(metrics, _course_of_policy(counted.policy, days)),
        *learning_figures(metrics, handled, days),
        *_other_figures(store, days, tasks, course),
    ]
    return Figures(figures=figures, metrics=metrics, since=days[0])


class _Counted(NamedTuple):
    """What the index holds since a moment; scores are with their days."""

    messages: int
    tasks: list[_Task]
    scores: list[tuple[str, float]]
    policy: PolicyTracker
    handled: Handled


def read_metrics(store: Tables, since: str) -> Metrics:
    """The metrics of what ended since a moment in ISO 8601, without the recall of planted facts."""
    return _compute(_read_counted(store, since))


def _read_counted(store: Tables, since: str) -> _Counted:
    return _Counted(
        messages=store.count,
        tasks=[_Task(*row) for row in store.query(_TASKS, [since])],
        scores=store.query("SELECT substr(at, 1, 10), score FROM scores WHERE at >= ?", [since]),
        policy=_read_policy(store, since),
        handled=read_handled(store, since),
    )


def _compute(counted: _Counted) -> Metrics:
    tasks = counted.tasks
    metrics = Metrics(
        messages=counted.messages,
        tasks=_count(task.status for task in tasks),
        velocity=_velocity(tasks),
        velocity_by_agent=_velocity_by_agent(tasks),
        context_hits=compute_context_hits([score for _, score in counted.scores]),
        drift=_drift(tasks),
        safety=counted.policy.metrics(),
        agents=compute_experiences(_sample(task) for task in tasks[-MAX_SAMPLES:]),
        planted=judge_planted(),
    )
    return add_handled(metrics, counted.handled)


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


def _velocity_by_agent(tasks: Sequence[_Task]) -> dict[str, Velocity]:
    agents = sorted({task.agent for task in tasks})
    found = {agent: _velocity([task for task in tasks if task.agent == agent]) for agent in agents}
    return {agent: velocity for agent, velocity in found.items() if velocity is not None}


def _drift(tasks: Sequence[_Task]) -> DriftMetrics | None:
    """As ``compute_drift``, from what the index kept of each inspection."""
    found = [task for task in tasks if task.rules is not None]
    drift = compute_drift(
        [
            Inspected(task.ended_at, [task.violations or 0], tuple(task.unchecked.splitlines()))
            for task in found
        ]
    )
    if drift is None:
        return None
    return msgspec.structs.replace(
        drift,
        rules=sum(task.rules or 0 for task in found),
        broken=sum(task.broken or 0 for task in found),
    )


def _sample(task: _Task) -> Sample:
    facts = {
        "completed": task.status == TaskStatus.COMPLETED,
        "seconds": task.seconds,
        "attempts": task.attempts,
        "tokens": task.tokens,
        "cost": task.cost,
    }
    return Sample(task.ended_at, task.agent, task.kind, task.name.rpartition(".")[2], facts)


def _read_policy(store: Tables, since: str) -> PolicyTracker:
    """Verdicts since a day, with all that may be about them; a grant may be older than its command."""
    tracker = PolicyTracker()
    rows = store.query("SELECT kind, name, body FROM policy WHERE kind != 'judged' OR at >= ?", [since])
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


def _count(values: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for value in values:
        found[value] = found.get(value, 0) + 1
    return dict(sorted(found.items()))


# --- figures with a target ----------------------------------------------------------------------


def _p50(velocity: Velocity | None) -> float | None:
    return velocity.p50 if velocity else None


def _violations(drift: DriftMetrics | None) -> float | None:
    return drift.last_violations if drift else None


def _velocity_figure(velocity: Velocity | None, trend: list[Point]) -> Figure:
    return Figure(
        name="velocity",
        title="Median time of a task",
        value=_p50(velocity),
        unit="seconds",
        target=TARGET_SECONDS,
        target_text=f"at most {TARGET_SECONDS:g} s",
        met=velocity.p50 <= TARGET_SECONDS if velocity else None,
        good="less",
        detail=(
            f"{velocity.tasks:,} completed; 95% within {velocity.p95:,.2f} s, {velocity.within_target:.0%} "
            "in time"
            if velocity
            else "No task was completed."
        ),
        counted="Seconds from submitted to completed, of every completed task; the median, by nearest rank.",
        trend=trend,
    )


def _context_figure(hits: ContextHits | None, trend: list[Point]) -> Figure:
    return Figure(
        name="context",
        title="Relevance of memories",
        value=hits.mean if hits else None,
        unit="score",
        target=RELEVANT,
        target_text=f"above {RELEVANT:g}",
        met=hits.mean > RELEVANT if hits else None,
        good="more",
        detail=(
            f"{hits.hits:,} of {count(hits.items, 'question')} ({hits.rate:.0%}) found one above {RELEVANT:g}"
            if hits
            else "No answer or task says how near its memories were."
        ),
        counted="The cosine of the nearest memory for each question of answers and tasks; the mean of these.",
        trend=trend,
    )


def _drift_figure(drift: DriftMetrics | None, trend: list[Point]) -> Figure:
    return Figure(
        name="drift",
        title="Import rules broken",
        value=_violations(drift),
        unit="count",
        target=0,
        target_text="0",
        met=drift.last_violations == 0 if drift else None,
        good="less",
        detail=(
            f"{count(drift.violations, 'violation')} in {count(drift.inspections, 'inspection')}; "
            f"{drift.broken:,} of {count(drift.rules, 'rule')} broken"
            + (f". Not checked: {'; '.join(drift.not_checked[:5])}" if drift.not_checked else "")
            if drift
            else "No repository with import rules was inspected."
        ),
        counted="Violations of a project's own import rules that the last inspection found.",
        trend=trend,
    )


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
    return Figure(
        name="safety",
        title="Risky commands caught",
        value=rate,
        unit="share",
        target=1.0,
        target_text="all",
        met=None if rate is None else rate == 1.0,
        good="more",
        detail="; ".join(parts),
        counted="A standing set of dangerous commands, and those that the policy stopped at work: those of "
        "both that did not run without a grant.",
        trend=trend,
    )


def _course_of_scores(scores: Sequence[tuple[str, float]], days: Sequence[str]) -> list[Point]:
    by_day: dict[str, list[float]] = {}
    for day, score in scores:
        by_day.setdefault(day, []).append(score)
    return [Point(day, sum(found) / len(found) if (found := by_day.get(day)) else None) for day in days]


def _course_of_policy(tracker: PolicyTracker, days: Sequence[str]) -> list[Point]:
    points = []
    for day in days:
        of_day = PolicyTracker()
        of_day.judged = [judged for judged in tracker.judged if judged.created_at[:10] == day]
        of_day.asked, of_day.granted, of_day.journals = tracker.asked, tracker.granted, tracker.journals
        found = of_day.metrics()
        points.append(Point(day, found.catch_rate if found else None))
    return points


# --- figures without a target -------------------------------------------------------------------


def _other_figures(
    store: Tables,
    days: Sequence[str],
    tasks: Sequence[_Task],
    course: Callable[[Callable[[list[_Task]], float | None]], list[Point]],
) -> list[Figure]:
    ended = len(tasks)
    completed = sum(task.status == TaskStatus.COMPLETED for task in tasks)
    usage = {
        day: (tokens, cost)
        for day, tokens, cost in store.query(
            "SELECT day, sum(input + output), sum(cost) FROM usage WHERE day >= ? GROUP BY day", [days[0]]
        )
    }
    tokens, cost = (sum(each[place] for each in usage.values()) for place in (0, 1))
    return [
        _plain(
            "tasks",
            "Tasks ended",
            ended or None,
            "count",
            f"{completed:,} completed, {ended - completed:,} not" if ended else "No task has ended.",
            "Tasks that ended, however they did.",
            course(lambda found: len(found) or None),
        ),
        _plain(
            "tokens",
            "Tokens of model calls",
            tokens or None,
            "count",
            f"{count(len(usage), 'day')} with calls" if usage else "No model was called.",
            "Tokens in and out, as the model's server counts them.",
            [Point(day, usage[day][0] if day in usage else None) for day in days],
        ),
        _plain(
            "cost",
            "Spent on models",
            cost or None,
            "dollars",
            "By brain_price." if cost else "No price is set, or no model was called.",
            "US dollars, computed from the tokens and the setting brain_price.",
            [Point(day, usage[day][1] or None if day in usage else None) for day in days],
        ),
    ]


def _plain(
    name: str, title: str, value: float | None, unit: str, detail: str, counted: str, trend: list[Point]
) -> Figure:
    return Figure(
        name=name,
        title=title,
        value=value,
        unit=unit,
        target=None,
        target_text="",
        met=None,
        good="neither",
        detail=detail,
        counted=counted,
        trend=trend,
    )
