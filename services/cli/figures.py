"""The office's figures, reckoned from its log: how quick, well informed and safe it is, and each agent."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from shared.contracts import Experience

ATOMIC = 30.0
"""Seconds within which a task should be done (docs/benchmarks.md)."""
HIT = 0.75
"""The relevance, 0 to 1, above which what memory brought counts as a hit."""


class Velocity(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from handed out to completed; ``within_target`` is the share within ATOMIC seconds."""

    tasks: int
    p50: float
    p95: float
    within_target: float


class ContextHits(msgspec.Struct, frozen=True, kw_only=True):
    """How relevant retrieved memory was: the share of ``items`` above HIT, and the mean."""

    items: int
    hits: int
    rate: float
    mean: float


class DriftFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Import rules broken, over all inspections, and in the last one of each that was made."""

    inspections: int
    rules: int
    broken: int
    violations: int
    last_violations: int


class SafetyFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Commands the policy did not simply allow; ``ran`` are those that were begun all the same.

    Of those ``asked`` about some were ``granted`` and some ``refused``; the others have no answer.
    ``catch_rate`` is the share of them that did not run without a person's grant: it has to be 1.
    """

    judged: int
    denied: int
    asked: int
    granted: int
    refused: int
    ran: tuple[str, ...]
    catch_rate: float
    rules: dict[str, int]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures; null where the log holds nothing to reckon one from."""

    messages: int
    tasks: dict[str, int]
    velocity: Velocity | None
    velocity_by_agent: dict[str, Velocity]
    context_hits: ContextHits | None
    drift: DriftFigures | None
    safety: SafetyFigures | None
    agents: tuple[Experience, ...]


class Sample(NamedTuple):
    """A task that ended."""

    ended_at: str
    agent: str
    kind: str
    task_id: str
    completed: bool
    seconds: float
    attempts: int
    tokens: int
    cost: float


def velocity_of(seconds: Iterable[float]) -> Velocity | None:
    """The velocity of tasks that took so long; None for none."""
    ordered = sorted(seconds)
    if not ordered:
        return None
    return Velocity(
        tasks=len(ordered),
        p50=round(_percentile(ordered, 0.5), 3),
        p95=round(_percentile(ordered, 0.95), 3),
        within_target=sum(each <= ATOMIC for each in ordered) / len(ordered),
    )


def _percentile(ordered: list[float], share: float) -> float:
    """The least of them that ``share`` of them do not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def hits_of(scores: Sequence[float]) -> ContextHits | None:
    """How often memory was relevant; None where nothing says so."""
    if not scores:
        return None
    hits = sum(score > HIT for score in scores)
    mean = sum(scores) / len(scores)
    return ContextHits(items=len(scores), hits=hits, rate=hits / len(scores), mean=round(mean, 4))


def experiences_of(samples: Iterable[Sample]) -> tuple[Experience, ...]:
    """What the tasks teach about each agent and kind of task; the conductor keeps the same of its own."""
    found: dict[tuple[str, str], Experience] = {}
    for sample in sorted(samples):
        key = (sample.agent, sample.kind)
        before = found.get(key) or Experience(agent=sample.agent, kind=sample.kind)
        found[key] = before.plus(
            sample.task_id,
            completed=sample.completed,
            seconds=sample.seconds,
            attempts=sample.attempts,
            tokens=sample.tokens,
            cost=sample.cost,
        )
    return tuple(found[key] for key in sorted(found))


def drift_of(inspections: Sequence[tuple[str, list[int]]]) -> DriftFigures | None:
    """Broken rules, from the time of each inspection and the violations of each rule; None without any."""
    if not inspections:
        return None
    counts = [broken for _, broken in sorted(inspections)]
    return DriftFigures(
        inspections=len(inspections),
        rules=sum(map(len, counts)),
        broken=sum(count > 0 for rules in counts for count in rules),
        violations=sum(map(sum, counts)),
        last_violations=sum(counts[-1]),
    )
