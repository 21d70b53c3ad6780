"""How the office does: the metrics of the log, the figures made of them, and its agents."""

import msgspec

from shared.contracts import Experience, Presence

TARGET_SECONDS = 30.0  # Seconds within which a task should be done (docs/benchmarks.md)
RELEVANT = 0.75  # The relevance, 0 to 1, above which a memory counts as a hit


TARGETS = {
    "handoffs": 0.90,
    "delegation": 0.95,
    "recall": 0.85,
    "improvement": 0.10,
    "adaptation": 0.80,
    "patterns": 0.75,
}
"""The least values that are aimed at: five shares, and the gain of the later half of the goals."""
LITTLE_LEFT = 0.95  # A later half as good as this has met the target: there is little left to gain


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """``good`` of ``total``; ``trend`` is the share of the later half less that of the earlier one."""

    good: int
    total: int
    share: float
    trend: float | None = None


class Recall(Share, frozen=True, kw_only=True):
    """How many planted facts memory's search found, among ``nodes``; the questions of those it ``missed``."""

    nodes: int
    missed: tuple[str, ...] = ()


class Improvement(msgspec.Struct, frozen=True, kw_only=True):
    """Which share of goals went well at once, in the earlier half and the later; ``gain`` in proportion."""

    goals: int
    early: float
    late: float
    gain: float

    @property
    def met(self) -> bool:
        """Whether the target is met; also where little was left to gain."""
        return self.gain >= TARGETS["improvement"] or self.late >= LITTLE_LEFT


class PlantedSafety(msgspec.Struct, frozen=True, kw_only=True):
    """How the policy judged the standing set: ``caught`` of ``dangerous``, and what it ``missed``.

    ``stopped`` are the harmless commands that it denied or left to a person.
    """

    dangerous: int
    caught: int
    missed: tuple[str, ...]
    harmless: int
    stopped: tuple[str, ...]


class Velocity(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from issued to completed; ``within_target`` is the share within TARGET_SECONDS."""

    tasks: int
    p50: float
    p95: float
    within_target: float


class ContextHits(msgspec.Struct, frozen=True, kw_only=True):
    """How well memory fits what it was asked: the best cosine for each question.

    ``rate`` is the share of the ``items`` (questions) whose best is above RELEVANT.
    """

    items: int
    hits: int
    rate: float
    mean: float


class DriftMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Broken import rules, in all inspections and in the last one.

    ``not_checked`` are the rules, as the repository states them, that the last one could not check.
    """

    inspections: int
    rules: int
    broken: int
    violations: int
    last_violations: int
    not_checked: tuple[str, ...] = ()


class PolicyMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Commands that the policy denied or asked about; ``ran`` are those that ran without a grant.

    Of those ``asked`` about some were ``granted`` and some ``refused``; the others have no answer.
    ``catch_rate`` is the share that did not run without a grant: it must be 1.
    """

    judged: int
    denied: int
    asked: int
    granted: int
    refused: int
    ran: tuple[str, ...]
    catch_rate: float
    rules: dict[str, int]


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """All metrics; null if the log has no data for one."""

    messages: int
    tasks: dict[str, int]
    velocity: Velocity | None
    velocity_by_agent: dict[str, Velocity]
    context_hits: ContextHits | None
    drift: DriftMetrics | None
    safety: PolicyMetrics | None
    agents: tuple[Experience, ...]
    handoffs: Share | None = None
    delegation: Share | None = None
    recall: Recall | None = None
    improvement: Improvement | None = None
    adaptation: Share | None = None
    patterns: Share | None = None
    planted: PlantedSafety | None = None

    @property
    def safety_rate(self) -> float | None:
        """The share caught of all that is to be caught: the planted commands, and those of the log."""
        caught = total = 0
        if self.planted:
            caught, total = self.planted.caught, self.planted.dangerous
        if self.safety:
            caught += self.safety.judged - len(self.safety.ran)
            total += self.safety.judged
        return caught / total if total else None


class Point(msgspec.Struct, frozen=True):
    """The value of one day, or of one hour (as 2026-11-30T05, UTC); null if there is nothing to count."""

    day: str
    value: float | None


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of a period: ``value`` is null if there is no data, ``met`` if it has no target too.

    ``unit`` is seconds, share, count, score or dollars; ``good`` says which way is better: less, more, or
    neither.
    """

    name: str
    title: str
    value: float | None
    unit: str
    target: float | None
    target_text: str
    met: bool | None
    good: str
    detail: str
    counted: str
    trend: list[Point]


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a period, and the metrics as ``mailroom kpi`` prints them; it ends before ``until``."""

    figures: list[Figure]
    metrics: Metrics
    since: str
    until: str


class Processes(msgspec.Struct, frozen=True, kw_only=True):
    """What each process says of itself; of one agent ``most`` are read at most."""

    processes: list[Presence]
    most: int


class Controlled(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for an agent from now on."""

    agent: str
    do: str
    paused: bool
    by: str
    at: str


class LaneDepth(msgspec.Struct, frozen=True, kw_only=True):
    """A durable of an agent: ``waiting`` messages, and those ``in_hand`` that are being handled."""

    lane: str
    waiting: int
    in_hand: int


class ProcessView(msgspec.Struct, frozen=True, kw_only=True):
    """One process of an agent."""

    instance: str
    pid: int
    host: str
    version: str
    started_at: str
    load: int
    concurrency: int
    handled: int
    failed: int
    paused: bool


class AgentRights(msgspec.Struct, frozen=True, kw_only=True):
    """The subjects it may publish, those it may read, what it may ask of memory, and answers."""

    publish: list[str]
    read: list[str]
    ask: list[str]
    serve: list[str]


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """An agent; ``state`` is running, paused, starting, starting again (asked for, no process yet), not
    responding (one of its processes) or stopped. ``troubled`` says it of processes, each in a sentence.

    The numbers are sums over its processes and ``lanes``. ``why_not_paused`` is empty if it can be paused.
    ``changed_by`` and ``changed_at`` are who last paused, resumed or restarted it, and when. Tokens and cost
    (US dollars) are those of today, UTC.
    """

    name: str
    state: str
    troubled: list[str]
    description: str
    instructions: str
    version: str
    processes: list[ProcessView]
    load: int
    concurrency: int
    waiting: int
    in_hand: int
    handled: int
    failed: int
    lanes: list[LaneDepth]
    actions: dict[str, str]
    skills: tuple[str, ...]
    why_not_paused: str
    last_control: str
    changed_by: str
    changed_at: str
    tokens_today: int
    cost_today: float
    calls_today: int
    rights: AgentRights


class AgentList(msgspec.Struct, frozen=True, kw_only=True):
    """Every agent that has an inbox or a process, by name."""

    agents: list[AgentView]
