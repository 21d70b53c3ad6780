"""How much is measured."""

from typing import TypeVar

import msgspec

T = TypeVar("T")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """``tasks`` of a run at the slower settings, ``rounds`` of each comparison, ``quick`` for a smoke run.

    ``big`` has memory measured with a million nodes too, ``nodes`` with so many alone; ``small`` is for the
    budget of speed, which compares ratios alone.
    """

    tasks: int = 2_000
    rounds: int = 5
    quick: bool = False
    big: bool = False
    nodes: int = 0
    small: bool = False

    def choose(self, full: T, small: T, quick: T) -> T:
        """The size that fits."""
        return quick if self.quick else small if self.small else full
