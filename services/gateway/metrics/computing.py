"""How the metrics are computed: velocity, handing on, what is learned, and what the policy caught."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from shared import subjects
from shared.contracts import (
    ApprovalRequest,
    CommandJudged,
    CommandVerdict,
    Goal,
    ResultOutcome,
    TaskStatus,
)
from shared.errors import MailroomError
from shared.memory import Memory, RecallMeasured
from shared.views.metrics import (
    TARGET_SECONDS,
    Improvement,
    PolicyMetrics,
    Recall,
    Share,
    Velocity,
)


def compute_velocity(seconds: Iterable[float]) -> Velocity | None:
    """The velocity of tasks from their seconds; None without tasks."""
    ordered = sorted(seconds)
    if not ordered:
        return None
    return Velocity(
        tasks=len(ordered),
        p50=round(_percentile(ordered, 0.5), 3),
        p95=round(_percentile(ordered, 0.95), 3),
        within_target=sum(each <= TARGET_SECONDS for each in ordered) / len(ordered),
    )


def _percentile(ordered: list[float], share: float) -> float:
    """The nearest-rank percentile: always one of the values, which statistics.quantiles interpolates."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def best_score(context: object) -> float | None:
    """The best cosine of what memory gave for one question, from the ``context`` of its result or answer.

    None if it says none: scores of searches are on another scale, and are not counted.
    """
    found = context if isinstance(context, dict) else {}
    scores = found.get("scores")
    given = [found.get("best"), *(scores if isinstance(scores, list) else ())]
    numbers = [each for each in given if isinstance(each, int | float) and not isinstance(each, bool)]
    best = max((float(number) for number in numbers), default=0.0)
    return best if 0 < best <= 1.0001 else None


def read_inspection(metadata: Mapping[str, Any]) -> tuple[list[int], list[str]] | None:
    """The violations of each rule of the inspection in a result's metadata, which may hold anything, and the
    rules that it did not check; None if there is none.
    """
    inspection = metadata.get("inspection")
    rules = (inspection.get("drift") if isinstance(inspection, dict) else None) or metadata.get("drift")
    if not isinstance(rules, list):
        return None
    found = [rule for rule in rules if isinstance(rule, dict)]
    lists = [rule.get("violations") for rule in found]
    unchecked = [str(rule.get("rule", ""))[:200] for rule in found if rule.get("not_checked")]
    return [len(each) if isinstance(each, list) else 0 for each in lists], unchecked


class JournalEntry(msgspec.Struct):
    """A line of a task's journal: an effect that it began, and when."""

    what: str = ""
    started_at: str = ""


class PolicyTracker:
    """Verdicts of the policy, requests and answers by approval id, and journals by task id."""

    def __init__(self) -> None:
        self.judged: list[CommandJudged] = []
        self.asked: dict[str, ApprovalRequest] = {}
        self.granted: dict[str, bool] = {}
        self.journals: dict[str, tuple[JournalEntry, ...]] = {}

    def metrics(self) -> PolicyMetrics | None:
        """The metrics; None if the policy allowed every command."""
        if not self.judged:
            return None
        ran = tuple(judged.command[:200] for judged in self.judged if self._ran_unasked(judged))
        verdicts = Counter(judged.verdict for judged in self.judged)
        answers = [self._answer(judged) for judged in self.judged if judged.verdict == CommandVerdict.ASK]
        return PolicyMetrics(
            judged=len(self.judged),
            denied=verdicts[CommandVerdict.DENY],
            asked=verdicts[CommandVerdict.ASK],
            granted=answers.count(True),
            refused=answers.count(False),
            ran=ran,
            catch_rate=1 - len(ran) / len(self.judged),
            rules=dict(Counter(judged.rule for judged in self.judged).most_common()),
        )

    def _ran_unasked(self, judged: CommandJudged) -> bool:
        """Whether, by the journal of its task, a command ran after its verdict and without a grant."""
        if judged.verdict == CommandVerdict.ASK and self._answer(judged):
            return False
        return any(
            _is_run_of(effect.what, judged.command) and effect.started_at >= judged.created_at
            for effect in self.journals.get(judged.task_id, ())
        )

    def _answer(self, judged: CommandJudged) -> bool | None:
        """A person's answer about the command in its goal; None without one."""
        answers = {
            self.granted.get(approval_id)
            for approval_id, asked in self.asked.items()
            if asked.goal_id == judged.goal_id and _is_about(asked, judged)
        }
        return True if True in answers else False if False in answers else None


def _is_about(asked: ApprovalRequest, judged: CommandJudged) -> bool:
    """Whether a request is about a command: it names it, or else has the same rule and reason (as for cp)."""
    if asked.what.startswith("run "):
        return asked.what.endswith(judged.command)
    return (asked.rule, asked.why) == (judged.rule, judged.why)


def _is_run_of(what: str, command: str) -> bool:
    """Whether a journal entry, which may be shortened, is about this command."""
    note = what.removeprefix("run: ").partition("… [")[0]
    return what.startswith("run: ") and bool(note) and " ".join(command.split()).startswith(note)


LEAST_GOALS = 10  # Goals of each half that improvement needs: with fewer, luck outweighs change
LEAST_TREND = 4  # Samples that a trend needs
WELL = (ResultOutcome.DONE, ResultOutcome.FINDINGS)

EndedWell = tuple[str, bool]  # When something ended, and whether it ended well


class TaskEnd(NamedTuple):
    """How a task ended that ``requester`` gave ``agent``; ``offline`` if the network led nowhere."""

    ended_at: str
    agent: str
    requester: str
    status: str
    attempts: int
    offline: bool = False


def compute_share(samples: Iterable[EndedWell]) -> Share | None:
    """The share of good samples, and its trend; None without samples."""
    good = [well for _, well in sorted(samples)]
    if not good:
        return None
    half = len(good) // 2
    trend = _mean(good[half:]) - _mean(good[:half]) if len(good) >= LEAST_TREND else None
    return Share(good=sum(good), total=len(good), share=_mean(good), trend=trend)


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


def handoffs(tasks: Iterable[TaskEnd]) -> list[EndedWell]:
    """Of what one agent gave another and did not take back: whether it was taken up and brought to an end."""
    return [
        (task.ended_at, task.attempts > 0 and task.status != TaskStatus.TIMEOUT)
        for task in tasks
        if _is_handed_on(task)
    ]


def delegations(tasks: Iterable[TaskEnd]) -> list[EndedWell]:
    """Of what one agent gave another and was taken up: whether it was completed.

    What was not for want of a network says nothing of agents, and is left out.
    """
    taken = (task for task in tasks if _is_handed_on(task) and task.attempts > 0)
    taken = (task for task in taken if task.status == TaskStatus.COMPLETED or not task.offline)
    return [(task.ended_at, task.status == TaskStatus.COMPLETED) for task in taken]


def _is_handed_on(task: TaskEnd) -> bool:
    among_agents = task.requester not in ("", task.agent, *subjects.PEOPLE)
    return among_agents and task.status != TaskStatus.CANCELLED


# --- goals ---------------------------------------------------------------------------------------


def pattern_uses(goals: Iterable[Goal]) -> list[EndedWell]:
    """Each use of a pattern in a goal that ended: whether the goal ended well, and at once."""
    return [(goal.ended_at, _went_well(goal)) for goal in _ended(goals) for _ in goal.patterns]


def adaptations(goals: Iterable[Goal]) -> list[EndedWell]:
    """Each pattern that was used, made of a failure: whether the last goal that used it ended well."""
    last = {pattern: goal for goal in _ended(goals) for pattern in goal.patterns}
    return [(goal.ended_at, goal.outcome in WELL) for goal in last.values()]


def compute_improvement(goals: Iterable[Goal]) -> Improvement | None:
    """How the later half of the ended goals did against the earlier; None for fewer than 2 x LEAST_GOALS."""
    good = [_went_well(goal) for goal in _ended(goals)]
    if len(good) < 2 * LEAST_GOALS:
        return None
    half = len(good) // 2
    early, late = _mean(good[:half]), _mean(good[half:])
    return Improvement(goals=len(good), early=early, late=late, gain=(late - early) / max(early, 1 / half))


def _ended(goals: Iterable[Goal]) -> list[Goal]:
    over = (goal for goal in goals if goal.status.final and goal.status is not TaskStatus.CANCELLED)
    return sorted(over, key=lambda goal: goal.ended_at)


def _went_well(goal: Goal) -> bool:
    return goal.outcome in WELL and not goal.setbacks


def _mean(values: Sequence[bool]) -> float:
    return round(sum(values) / len(values), 4)
