"""What the office learns from its own history: how agents did at kinds of tasks."""

from collections.abc import Mapping
from statistics import median
from typing import Annotated, Any

from shared.contracts.base import AgentName, Count, Envelope, text_up_to

RECENT = 20
"""Tasks whose duration is kept, and whose id is, so that none is counted twice."""


class Experience(Envelope, frozen=True, kw_only=True, tag="experience.v1"):
    """How ``agent`` did at tasks of a ``kind``: an action's name, else what the plan calls it.

    ``attempts`` counts the times they were begun, ``seconds`` are the durations of the last of them, from
    handed out to done, ``tokens`` and ``cost`` (US dollars) what thinking took, ``counted`` the last ids.
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

    @property
    def samples(self) -> int:
        """How many tasks ended."""
        return self.completed + self.failed

    @property
    def success(self) -> float:
        """The share that was completed, 0 to 1; 0 where there is none."""
        return self.completed / self.samples if self.samples else 0.0

    @property
    def retries(self) -> float:
        """Further attempts a task, on average."""
        return max(0, self.attempts - self.samples) / self.samples if self.samples else 0.0

    @property
    def duration(self) -> float:
        """The median of the durations kept, in seconds; 0 where there is none."""
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
        """With one more task that ended; the same where that one is counted already."""
        if task_id in self.counted:
            return self
        fields = ("agent", "kind", "sender", "recipient")
        return Experience(
            **{name: getattr(self, name) for name in fields},
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


def kind_of(text: str, action: str = "", name: str = "") -> str:
    """The kind of a task: its action, else the ``name`` a playbook gives it, else its first word."""
    word = next(iter(text.split()), "task")
    plain = "".join(letter for letter in word.lower() if letter.isalnum())
    return (action or name or plain or "task")[:60]


def spending_of(metadata: Mapping[str, Any]) -> tuple[int, float]:
    """The tokens and US dollars in the metadata of a result; 0 for what is missing or no number."""
    usage = metadata.get("usage")
    values = usage if isinstance(usage, Mapping) else {}
    numbers = {name: value for name, value in values.items() if isinstance(value, int | float)}
    tokens = numbers.get("input_tokens", 0) + numbers.get("output_tokens", 0)
    return int(tokens), float(numbers.get("cost", 0.0))
