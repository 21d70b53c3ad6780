"""How work is handed on, what is learned, and what the policy stops: shares with their targets."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shared import subjects
from shared.contracts import Goal, ResultOutcome, TaskStatus
from shared.errors import MailroomError
from shared.memory import Memory, RecallMeasured
from shared.views.metrics import Improvement, Recall, Share

LEAST_GOALS = 10  # Goals of each half that improvement needs: with fewer, luck outweighs change
LEAST_TREND = 4  # Samples that a trend needs
WELL = (ResultOutcome.DONE, ResultOutcome.FINDINGS)

Sample = tuple[str, bool]  # When something ended, and whether it ended well


class TaskEnd(NamedTuple):
    """How a task ended that ``requester`` gave ``agent``."""

    ended_at: str
    agent: str
    requester: str
    status: str
    attempts: int


def compute_share(samples: Iterable[Sample]) -> Share | None:
    """The share of good samples, and its trend; None without samples."""
    good = [well for _, well in sorted(samples)]
    if not good:
        return None
    half = len(good) // 2
    trend = _share(good[half:]) - _share(good[:half]) if len(good) >= LEAST_TREND else None
    return Share(good=sum(good), total=len(good), share=_share(good), trend=trend)


def compute_recall(course: Sequence[RecallMeasured]) -> Recall | None:
    """The last of the measurements, and the trend of those of all days; None if there are none."""
    if not course:
        return None
    last, half = course[-1], len(course) // 2

    def mean(days: Sequence[RecallMeasured]) -> float:
        return sum(each.good / each.total for each in days) / len(days)

    trend = mean(course[half:]) - mean(course[:half]) if len(course) >= LEAST_TREND else None
    share = round(last.good / last.total, 4)
    return Recall(
        good=last.good, total=last.total, share=share, trend=trend, nodes=last.nodes, missed=last.missed
    )


async def read_recall(memory: Memory) -> list[RecallMeasured]:
    """Memory's recall of planted facts by day; empty if memory does not answer."""
    try:
        return await memory.recall()
    except MailroomError:
        return []


def handoffs(tasks: Iterable[TaskEnd]) -> list[Sample]:
    """Of what one agent gave another and did not take back: whether it was taken up and brought to an end."""
    return [
        (task.ended_at, task.attempts > 0 and task.status != TaskStatus.TIMEOUT)
        for task in tasks
        if _is_handed_on(task)
    ]


def delegations(tasks: Iterable[TaskEnd]) -> list[Sample]:
    """Of what one agent gave another and was taken up: whether it was completed."""
    taken = (task for task in tasks if _is_handed_on(task) and task.attempts > 0)
    return [(task.ended_at, task.status == TaskStatus.COMPLETED) for task in taken]


def _is_handed_on(task: TaskEnd) -> bool:
    among_agents = task.requester not in ("", task.agent, *subjects.PEOPLE)
    return among_agents and task.status != TaskStatus.CANCELLED


# --- goals ---------------------------------------------------------------------------------------


def pattern_uses(goals: Iterable[Goal]) -> list[Sample]:
    """Each use of a pattern in a goal that ended: whether the goal ended well, and at once."""
    return [(goal.ended_at, _went_well(goal)) for goal in _ended(goals) for _ in goal.patterns]


def adaptations(goals: Iterable[Goal]) -> list[Sample]:
    """Each pattern that was used, made of a failure: whether the last goal that used it ended well."""
    last = {pattern: goal for goal in _ended(goals) for pattern in goal.patterns}
    return [(goal.ended_at, goal.outcome in WELL) for goal in last.values()]


def compute_improvement(goals: Iterable[Goal]) -> Improvement | None:
    """How the later half of the ended goals did against the earlier; None for fewer than 2 x LEAST_GOALS."""
    good = [_went_well(goal) for goal in _ended(goals)]
    if len(good) < 2 * LEAST_GOALS:
        return None
    half = len(good) // 2
    early, late = _share(good[:half]), _share(good[half:])
    return Improvement(goals=len(good), early=early, late=late, gain=(late - early) / max(early, 1 / half))


def _ended(goals: Iterable[Goal]) -> list[Goal]:
    over = (goal for goal in goals if goal.status.final and goal.status is not TaskStatus.CANCELLED)
    return sorted(over, key=lambda goal: goal.ended_at)


def _went_well(goal: Goal) -> bool:
    return goal.outcome in WELL and not goal.setbacks


def _share(values: Sequence[bool]) -> float:
    return round(sum(values) / len(values), 4)
