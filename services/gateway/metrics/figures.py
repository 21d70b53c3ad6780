"""Figures that people look at, by day; how work is handed on, what is learned, planted commands."""

import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from services.gateway.metrics.computing import (
    EndedWell,
    TaskEnd,
    adaptations,
    delegations,
    handoffs,
    pattern_uses,
)
from shared.contracts import CommandVerdict, Goal
from shared.memory import RecallMeasured
from shared.text.display import count
from shared.views.metrics import (
    RELEVANT,
    TARGET_SECONDS,
    TARGETS,
    Figure,
    Metrics,
    PlantedSafety,
    Point,
    Recall,
    Share,
)


def learning_figures(
    metrics: Metrics, ends: Sequence[TaskEnd], goals: Sequence[Goal], days: Sequence[str]
) -> list[Figure]:
    """The six figures, each with its target; a share has a value for each of the days with samples."""

    def course(samples: Iterable[EndedWell]) -> list[Point]:
        by_day: dict[str, list[bool]] = {}
        for at, good in samples:
            by_day.setdefault(at[: len(days[0])], []).append(good)
        return [Point(day, sum(found) / len(found) if (found := by_day.get(day)) else None) for day in days]

    found = metrics.improvement
    told = f"From {found.early:.0%} to {found.late:.0%} of {found.goals:,} goals" if found else ""
    return [
        _share("handoffs", metrics.handoffs, course(handoffs(ends))),
        _share("delegation", metrics.delegation, course(delegations(ends))),
        _share("recall", metrics.recall, course(())),
        make_figure(
            "improvement",
            found.gain if found else None,
            found.met if found else None,
            f"{told} that went well at once" if found else "It takes 20 goals that ended.",
            course(()),
        ),
        _share("adaptation", metrics.adaptation, course(adaptations(goals))),
        _share("patterns", metrics.patterns, course(pattern_uses(goals))),
    ]


class Kind(NamedTuple):
    """What a figure says of itself whatever it is: ``good`` says which way is better."""

    title: str
    counted: str
    unit: str = "share"
    target: float | None = None
    target_text: str = ""
    good: str = "more"


SHARES = {
    "handoffs": (
        "Handoffs that arrived",
        "Tasks that one agent gave another: taken up, and ended before their deadline.",
        "tasks taken up and ended",
        "No agent gave another a task.",
    ),
    "delegation": (
        "Delegated tasks completed",
        "Tasks that one agent gave another and that were taken up: those completed. What failed because no "
        "host could be reached is left out.",
        "tasks completed",
        "No agent gave another a task.",
    ),
    "recall": (
        "Planted facts recalled",
        "A standing set of facts, planted in a copy of what memory holds: those that a search for a question "
        "in other words has among its first five hits.",
        "planted facts among the first five hits",
        "Memory did not answer, or holds too little.",
    ),
    "adaptation": (
        "Patterns that helped",
        "Patterns made of what helped: whether the last goal that used one ended well.",
        "patterns led to success the last time they were used",
        "No goal used a pattern.",
    ),
    "patterns": (
        "Uses of patterns that paid",
        "Uses of patterns in goals that ended: those that ended well, with nothing done twice.",
        "uses in goals that went well at once",
        "No goal used a pattern.",
    ),
}
"""Of each share its title, what is counted, the same in a few words, and why there may be none."""
KINDS = {
    **{
        name: Kind(title, counted, "share", TARGETS[name], f"at least {TARGETS[name]:.0%}")
        for name, (title, counted, *_) in SHARES.items()
    },
    "velocity": Kind(
        "Median time of a task",
        "Seconds from submitted to completed, of every completed task; the median, by nearest rank.",
        "seconds",
        TARGET_SECONDS,
        f"at most {TARGET_SECONDS:g} s",
        "less",
    ),
    "context": Kind(
        "Relevance of memories",
        "The cosine of the nearest memory for each question of answers and tasks; the mean of these.",
        "score",
        RELEVANT,
        f"above {RELEVANT:g}",
    ),
    "drift": Kind(
        "Import rules broken",
        "Violations of a project's own import rules that the last inspection found.",
        "count",
        0,
        "0",
        "less",
    ),
    "safety": Kind(
        "Risky commands caught",
        "A standing set of dangerous commands, and those that the policy stopped at work: those of both that "
        "did not run without a grant.",
        "share",
        1.0,
        "all",
    ),
    "improvement": Kind(
        "Improvement over time",
        "The later half of the goals against the earlier; met, too, where 95% go well at once.",
        "share",
        TARGETS["improvement"],
        f"{TARGETS['improvement']:+.0%}",
    ),
    "tasks": Kind("Tasks ended", "Tasks that ended, however they did.", "count", good="neither"),
    "tokens": Kind(
        "Tokens of model calls",
        "Tokens in and out, as the model's server counts them.",
        "count",
        good="neither",
    ),
    "cost": Kind(
        "Spent on models",
        "US dollars, computed from the tokens and the setting brain_price.",
        "dollars",
        good="neither",
    ),
}


def make_figure(name: str, value: float | None, met: bool | None, detail: str, trend: list[Point]) -> Figure:
    """A figure of one of KINDS."""
    kind = KINDS[name]
    return Figure(
        name=name,
        title=kind.title,
        value=value,
        unit=kind.unit,
        target=kind.target,
        target_text=kind.target_text,
        met=met,
        good=kind.good,
        detail=detail,
        counted=kind.counted,
        trend=trend,
    )


def _share(name: str, share: Share | None, trend: list[Point]) -> Figure:
    *_, what, none = SHARES[name]
    if share is None:
        return make_figure(name, None, None, none, trend)
    met = share.share >= TARGETS[name]
    return make_figure(name, share.share, met, f"{share.good:,} of {share.total:,} {what}", trend)


def recall_figure(recall: Recall | None, days: Sequence[Point], measured: Sequence[RecallMeasured]) -> Figure:
    """The recall of the planted facts, with what was measured on each of the days."""
    by_day = {each.day: each.good / each.total for each in measured}
    found = _share("recall", recall, [Point(point.day, by_day.get(point.day)) for point in days])
    if recall is None:
        return found
    missed = f". Missed: {' '.join(recall.missed)}" if recall.missed else ""
    detail = f"{found.detail}, among {count(recall.nodes, 'memory', 'memories')}{missed}"
    return msgspec.structs.replace(found, detail=detail)


PLANTED = Path(__file__).with_name("planted.toml")


@cache
def judge_planted() -> PlantedSafety:
    """The policy's verdicts on the standing set; computed once in a process, in some milliseconds."""
    from shared.policy import judge

    planted = tomllib.loads(PLANTED.read_text())
    dangerous, harmless = planted["dangerous"], planted["harmless"]

    def allows(command: str) -> bool:
        return judge(command, workspace="/srv/work").verdict == CommandVerdict.ALLOW

    missed = tuple(command for command in dangerous if allows(command))
    return PlantedSafety(
        dangerous=len(dangerous),
        caught=len(dangerous) - len(missed),
        missed=missed,
        harmless=len(harmless),
        stopped=tuple(command for command in harmless if not allows(command)),
    )
