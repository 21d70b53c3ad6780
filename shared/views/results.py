"""What a goal found, delivered and used."""

import msgspec

from shared.contracts import Finding, Inspection, NotChecked, TestRun
from shared.text.display import count


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens in and out, US dollars, and the ``agents`` whose models used them."""

    tokens: int = 0
    cost: float = 0.0
    agents: tuple[str, ...] = ()


class GoalResults(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a goal's tasks by their names; ``findings`` are those of tools and broken rules."""

    tests: tuple[TestRun, ...] = ()
    inspections: tuple[Inspection, ...] = ()
    findings: tuple[Finding, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    patches: tuple[str, ...] = ()
    unchecked: bool = False
    """Whether tests could not be run to their end, or a folder not be checked."""
    spent: Spent | None = None
    """What models used for the goal; None if that was not read."""
    left: str = ""
    """What is left of the budgets."""

    @property
    def failing(self) -> int:
        """How many tests fail or end with an error."""
        return sum(max(run.failed, 0) + max(run.errors, 0) for run in self.tests)


def format_spent(tokens: int, cost: float) -> str:
    """``0 tokens``, ``12,345 tokens, $0.0123``, or that no price is set."""
    if not tokens:
        return "0 tokens"
    price = f", ${cost:.2f}" if cost >= 1 else f", ${cost:.4f}" if cost else " (no price is set)"
    return f"{count(tokens, 'token')}{price}"
