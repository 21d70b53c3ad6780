"""Cognitive runs, checkpoints of agent loops, daily usage, and experience with agents."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import msgspec

from shared.contracts.base import (
    AgentName,
    Contract,
    Count,
    Envelope,
    Text,
    Timestamp,
    Token,
    Unit,
    generate_id,
    generate_iso_timestamp,
    text_up_to,
)


class MessageType(StrEnum):
    """The kinds of message between the parts of a cognitive run; cortex sends the last two alone."""

    REQUEST = "request"
    RESPONSE = "response"
    NOTIFICATION = "notification"
    ERROR = "error"


class CognitiveMessage(Envelope, frozen=True, kw_only=True, tag="cognitive_message.v1"):
    """A message between cognitive parts; a higher ``priority`` is more urgent."""

    sender: AgentName
    recipient: AgentName
    message_type: MessageType
    payload: dict[str, Any] = {}
    correlation_id: Token = msgspec.field(default_factory=generate_id)
    timestamp: Timestamp = msgspec.field(default_factory=generate_iso_timestamp)
    priority: int = 0


class CognitiveContext(Contract, frozen=True, kw_only=True):
    """Everything the parts of one cognitive run share; a new stage makes a new context.

    ``percept`` is what was understood of the query, ``evaluation`` the last judgement of how far the work is,
    ``answer`` what was put together, ``mode`` how much thinking the run gets.
    """

    user_query: Text
    original_query: str
    conversation_history: tuple[dict[str, Any], ...] = ()
    accumulated_results: tuple[dict[str, Any], ...] = ()
    current_plan: dict[str, Any] | None = None
    memory_cache: dict[str, Any] = {}
    episodic_memories: tuple[dict[str, Any], ...] = ()
    processing_stage: Annotated[str, text_up_to(100)] = "initialized"
    iteration_count: Count = 0
    confidence: Unit = 0.0
    mode: str = ""
    percept: dict[str, Any] = {}
    evaluation: dict[str, Any] = {}
    answer: str = ""

    def update_stage(self, stage: str) -> "CognitiveContext":
        """The same context at another stage."""
        return msgspec.structs.replace(self, processing_stage=stage)


class LoopCheckpoint(Envelope, frozen=True, kw_only=True, tag="thinking.v1"):
    """A checkpoint of an agent loop on a task, from which another attempt resumes.

    ``usage`` is that of the loop, ``spent`` that of the whole task until then. ``doubts`` are effects that
    may or may not have happened. The first one has the ``task`` and the ``persona`` as the model got them;
    ``summary`` stands for the first ``summed`` messages.
    """

    task_id: Token
    steps: int = 0
    messages: tuple[dict[str, Any], ...] = ()
    usage: dict[str, Any] = {}
    spent: dict[str, Any] = {}
    evidence_refs: tuple[str, ...] = ()
    output_paths: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    task: str = ""
    persona: str = ""
    summary: str = ""
    summed: int = 0


class DailySpending(Envelope, frozen=True, kw_only=True, tag="spending.v1"):
    """An agent's model usage on one ``day`` (UTC, as 2026-01-02); ``cost`` in US dollars."""

    day: Annotated[str, text_up_to(10)]
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    calls: int = 0


class Failure(Contract, frozen=True, kw_only=True):
    """How a task with a named action failed: about what (``subject``, as /srv/app), and for what reason.

    ``error`` is the kind of failure, ``project`` the kind of the project it was about; empty if unknown.
    """

    goal_id: Token
    subject: str = ""
    params: dict[str, Any] = {}
    error: str = ""
    project: str = ""
    reason: str = ""


RECENT = 20  # Tasks whose durations and ids are kept; the ids prevent counting one twice


class Experience(Envelope, frozen=True, kw_only=True, tag="experience.v1"):
    """How ``agent`` did at tasks of a ``kind``: an action's name, else its name in the plan.

    ``attempts`` counts the starts, ``seconds`` are the durations of the last tasks from submission to end,
    ``tokens`` and ``cost`` (US dollars) are the model usage, ``counted`` the last ids. ``failures`` are the
    last ones that nothing has helped yet, ``patterns`` the ids of the patterns learned from others.
    """

    agent: AgentName
    kind: Annotated[str, text_up_to(100)]
    completed: Count = 0
    failed: Count = 0
    attempts: Count = 0
    seconds: tuple[float, ...] = ()
    tokens: Count = 0
    cost: float = 0.0
    counted: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    patterns: tuple[Token, ...] = ()

    @property
    def samples(self) -> int:
        """How many tasks ended."""
        return self.completed + self.failed

    @property
    def success(self) -> float:
        """The share that was completed, 0 to 1; 0 if there is none."""
        return self.completed / self.samples if self.samples else 0.0

    @property
    def retries(self) -> float:
        """Further attempts a task, on average."""
        return max(0, self.attempts - self.samples) / self.samples if self.samples else 0.0

    @property
    def duration(self) -> float:
        """The median of the durations kept, in seconds; 0 if there is none."""
        from statistics import median  # few ask, and all agents would have it in RAM

        return median(self.seconds) if self.seconds else 0.0

    def plus(
        self,
        task_id: str,
        *,
        completed: bool,
        seconds: float,
        attempts: int = 1,
        tokens: int = 0,
        cost: float = 0.0,
    ) -> "Experience":
        """A copy that counts one more ended task, unless it is counted already."""
        if task_id in self.counted:
            return self
        return msgspec.structs.replace(
            self,
            id=generate_id(),
            created_at=generate_iso_timestamp(),
            completed=self.completed + completed,
            failed=self.failed + (not completed),
            attempts=self.attempts + max(1, attempts),
            seconds=(*self.seconds, round(max(0.0, seconds), 3))[-RECENT:],
            tokens=self.tokens + max(0, tokens),
            cost=self.cost + max(0.0, cost),
            counted=(*self.counted, task_id)[-RECENT:],
        )


class ExperienceIndex(Envelope, frozen=True, kw_only=True, tag="experience_index.v1"):
    """Which experiences the conductor keeps, by the ids of their records."""

    records: tuple[str, ...] = ()


MAX_EVIDENCE = 20
"""Goals that a pattern names as its evidence, and that it remembers to have counted: the last ones."""
TRIALS = 10  # Uses after which a pattern that does not pay is retired
PAYS = 0.5  # The least share of uses in goals that ended well for a pattern to be kept after TRIALS uses


class PatternOrigin(StrEnum):
    """What a pattern was learned from."""

    REPAIR = "repair"
    REVIEW = "review"
    CORRECTION = "correction"


class Pattern(Contract, frozen=True, kw_only=True):
    """What was learned: where ``condition`` holds, ``strategy`` helps. The metadata of a node ``pattern``.

    ``example`` is the text of a goal where it was so, ``evidence`` are the goals (``goal:ID``) it rests on.
    ``agent`` and ``action`` are the call that failed, ``project`` the kind of the project it was about,
    ``error`` the kind of failure; each is empty for any. ``params`` are parameters with which that call
    succeeded. ``uses`` counts goals that were given the pattern and ended, ``successes`` those of them that
    ended well, ``counted`` has the last of their ids, so that none is counted twice.
    """

    condition: Text
    strategy: Text
    learned_from: PatternOrigin
    example: str = ""
    agent: str = ""
    action: str = ""
    project: str = ""
    error: str = ""
    params: dict[str, Any] = {}
    evidence: tuple[str, ...] = ()
    uses: Count = 0
    successes: Count = 0
    counted: tuple[str, ...] = ()

    @property
    def advice(self) -> str:
        """The strategy, as what helped."""
        return f"What helped: {self.strategy}"

    @property
    def pays(self) -> bool:
        """False once at least TRIALS uses show that it rarely helps."""
        return self.uses < TRIALS or self.successes >= PAYS * self.uses

    def plus(self, goal_id: str, *, well: bool) -> "Pattern":
        """A copy with one more use, in a goal that ended ``well`` or not; itself if counted already."""
        if goal_id in self.counted:
            return self
        return msgspec.structs.replace(
            self,
            uses=self.uses + 1,
            successes=self.successes + well,
            counted=(*self.counted, goal_id)[-MAX_EVIDENCE:],
        )


def kind_of(text: str, action: str = "", name: str = "") -> str:
    """The kind of a task: its action, else the ``name`` a playbook gives it, else its first word."""
    word = next(iter(text.split()), "task")
    plain = "".join(letter for letter in word.lower() if letter.isalnum())
    return (action or name or plain or "task")[:60]


def cached_of(metadata: Mapping[str, Any]) -> tuple[int, int]:
    """The tokens that went in by the metadata of a result, and those of them that a cache had."""
    usage = metadata.get("usage")
    values = usage if isinstance(usage, Mapping) else {}
    read, cached = (
        min(max(value, 0), MAX_SPENDING) if isinstance(value := values.get(name), int) else 0
        for name in ("input_tokens", "cached_tokens")
    )
    return read, min(cached, read)


MAX_SPENDING = 2**53  # The most tokens, or dollars, that one result can name


def spending_of(metadata: Mapping[str, Any]) -> tuple[int, float]:
    """The tokens and US dollars in the metadata of a result; 0 for what is missing or no number.

    Agents may write anything: a number is taken as one from 0 to MAX_SPENDING.
    """
    usage = metadata.get("usage")
    values = usage if isinstance(usage, Mapping) else {}
    numbers = {
        name: min(max(value, 0), MAX_SPENDING)
        for name, value in values.items()
        if isinstance(value, int | float)
    }
    tokens = numbers.get("input_tokens", 0) + numbers.get("output_tokens", 0)
    return int(tokens), float(numbers.get("cost", 0.0))
