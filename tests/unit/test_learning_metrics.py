"""Shares of what is handed on and learned, and the planted commands."""

from pathlib import Path

import pytest

from services.gateway.metrics import figures
from services.gateway.metrics.computing import (
    TaskEnd,
    adaptations,
    best_score,
    compute_improvement,
    compute_share,
    delegations,
    handoffs,
    pattern_uses,
)
from services.gateway.metrics.figures import judge_planted
from shared.contracts import Goal, ResultOutcome, Setback, TaskStatus
from shared.views.metrics import Metrics

AT = "2026-01-02T03:04:05+00:00"


def goal(number: int, *patterns: str, well: bool = True, setback: bool = False) -> Goal:
    return Goal(
        goal_id=f"g{number}",
        text="x",
        requester="user",
        submitted_at=AT,
        status=TaskStatus.COMPLETED if well else TaskStatus.FAILED,
        outcome=ResultOutcome.DONE if well else ResultOutcome.FAILED,
        ended_at=f"2026-01-02T03:{number:02}:00+00:00",
        patterns=patterns,
        setbacks=(Setback(task="a", agent="engineer"),) if setback else (),
    )


def test_what_is_handed_on_is_taken_up_and_completed() -> None:
    ends = [
        TaskEnd("1", "engineer", "conductor", "completed", 1),
        TaskEnd("2", "engineer", "conductor", "failed", 1),
        TaskEnd("3", "engineer", "cortex", "timeout", 0),
        TaskEnd("4", "engineer", "conductor", "cancelled", 0),
        TaskEnd("5", "engineer", "user", "failed", 1),
        TaskEnd("6", "engineer", "engineer", "failed", 1),
    ]
    assert handoffs(ends) == [("1", True), ("2", True), ("3", False)]
    assert delegations(ends) == [("1", True), ("2", False)]


def test_a_share_has_a_trend_once_there_are_enough_samples() -> None:
    assert compute_share([]) is None
    few = compute_share([("1", False), ("2", True)])
    assert few is not None
    assert (few.share, few.trend) == (0.5, None)
    more = compute_share([("4", True), ("3", True), ("2", True), ("1", False)])
    assert more is not None
    assert (more.good, more.total, more.trend) == (3, 4, 0.5)


def test_a_pattern_counts_by_the_last_goal_that_used_it_and_a_use_by_its_own() -> None:
    goals = [goal(3, "p"), goal(1, "p", well=False), goal(2, "q", setback=True), goal(4)]
    assert [good for _, good in sorted(adaptations(goals))] == [True, True]
    assert [good for _, good in sorted(pattern_uses(goals))] == [False, False, True]


def test_improvement_needs_goals_and_compares_halves() -> None:
    assert compute_improvement([goal(n) for n in range(19)]) is None
    found = compute_improvement([goal(n, well=n % 2 == 0 or n >= 10) for n in range(20)])
    assert found is not None
    assert (found.early, found.late, found.gain, found.met) == (0.5, 1.0, 1.0, True)
    worse = compute_improvement([goal(n, well=n < 10) for n in range(20)])
    assert worse is not None
    assert (worse.gain, worse.met) == (-1.0, False)
    level = compute_improvement([goal(n) for n in range(20)])
    assert level is not None
    assert (level.gain, level.met) == (0.0, True), "nothing was left to gain"


def test_the_policy_catches_the_planted_commands_and_a_miss_shows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    judge_planted.cache_clear()
    found = judge_planted()
    assert (found.missed, found.stopped) == ((), ())
    (tmp_path / "planted.toml").write_text(figures.PLANTED.read_text().replace("[\n", "[\n  'ls',\n", 1))
    monkeypatch.setattr(figures, "PLANTED", tmp_path / "planted.toml")
    judge_planted.cache_clear()
    missed = judge_planted()
    judge_planted.cache_clear()
    assert missed.missed == ("ls",)
    metrics = Metrics(
        messages=0,
        tasks={},
        velocity=None,
        velocity_by_agent={},
        context_hits=None,
        drift=None,
        safety=None,
        agents=(),
        planted=missed,
    )
    assert metrics.safety_rate is not None
    assert metrics.safety_rate < 1


@pytest.mark.parametrize(
    ("context", "best"),
    [
        ({"best": 0.8, "scores": [0.8, 0.1]}, 0.8),
        ({"scores": [0.2, 0.6]}, 0.6),
        ({"bullets": [{"score": 0.9}]}, None),
        ({"best": 0}, None),
        ({"best": 7}, None),
        ({"best": "x", "scores": [None, True]}, None),
        (None, None),
    ],
)
def test_a_question_counts_once_by_its_nearest_memory(context: object, best: float | None) -> None:
    assert best_score(context) == best
