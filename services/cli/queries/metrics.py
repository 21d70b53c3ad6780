"""The office's figures, reckoned from its log: how quick, well informed and safe it is, and each agent."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from shared.contracts import CommandVerdict, Experience

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


class Begun(msgspec.Struct):
    """A line of a task's journal: what it began outside, and when."""

    what: str = ""
    started_at: str = ""


class Judged(msgspec.Struct):
    """How the policy judged a command, as far as figures need it."""

    command: str
    verdict: str
    rule: str = ""
    why: str = ""
    task_id: str = ""
    goal_id: str = ""
    created_at: str = ""


class Asked(msgspec.Struct):
    """What a person was asked to allow."""

    approval_id: str
    what: str = ""
    rule: str = ""
    why: str = ""
    goal_id: str = ""


class Answered(msgspec.Struct):
    """What the person said."""

    approval_id: str
    granted: bool = False


class Safety:
    """Puts together what the policy said, what people answered, and what the tasks' journals tell."""

    def __init__(self) -> None:
        self._judged: list[Judged] = []
        self._asked: dict[str, Asked] = {}
        self._answered: dict[str, bool] = {}
        self._begun: dict[str, tuple[Begun, ...]] = {}

    def take_judged(self, judged: Judged) -> None:
        """A command that was denied or left to a person."""
        self._judged.append(judged)

    def take_asked(self, asked: Asked) -> None:
        """A question to a person."""
        self._asked[asked.approval_id] = asked

    def take_answered(self, answered: Answered) -> None:
        """The answer to one."""
        self._answered[answered.approval_id] = answered.granted

    def take_journal(self, task_id: str, begun: tuple[Begun, ...]) -> None:
        """The journal of a task as it stands."""
        self._begun[task_id] = begun

    def figures(self) -> SafetyFigures | None:
        """What it all comes to; None where the policy never had to stop a command."""
        if not self._judged:
            return None
        ran = tuple(judged.command[:200] for judged in self._judged if self._ran_unasked(judged))
        verdicts = Counter(judged.verdict for judged in self._judged)
        answers = [self._answer(judged) for judged in self._judged if judged.verdict == CommandVerdict.ASK]
        return SafetyFigures(
            judged=len(self._judged),
            denied=verdicts[CommandVerdict.DENY],
            asked=verdicts[CommandVerdict.ASK],
            granted=answers.count(True),
            refused=answers.count(False),
            ran=ran,
            catch_rate=1 - len(ran) / len(self._judged),
            rules=dict(Counter(judged.rule for judged in self._judged).most_common()),
        )

    def _ran_unasked(self, judged: Judged) -> bool:
        """Whether the journal of its task says that a command was begun after it was judged, ungranted."""
        if judged.verdict == CommandVerdict.ASK and self._answer(judged):
            return False
        return any(
            _is_run_of(effect.what, judged.command) and effect.started_at >= judged.created_at
            for effect in self._begun.get(judged.task_id, ())
        )

    def _answer(self, judged: Judged) -> bool | None:
        """What a person said of it in its goal; None for nothing."""
        answers = {
            self._answered.get(approval_id)
            for approval_id, asked in self._asked.items()
            if asked.goal_id == judged.goal_id and _is_about(asked, judged)
        }
        return True if True in answers else False if False in answers else None


def _is_about(asked: Asked, judged: Judged) -> bool:
    """A command is asked about in its own words, what becomes one on the way (cp) with the same reason."""
    named = asked.what.startswith("run ")
    return (
        asked.what.endswith(judged.command) if named else (asked.rule, asked.why) == (judged.rule, judged.why)
    )


def _is_run_of(what: str, command: str) -> bool:
    """Whether a journal's note, which may be shortened, tells of this command."""
    note = what.removeprefix("run: ").partition("… [")[0]
    return what.startswith("run: ") and bool(note) and " ".join(command.split()).startswith(note)
