"""How much is measured."""

import msgspec


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """``tasks`` of a run at the slower settings, ``rounds`` of each comparison, ``quick`` for a smoke run.

    ``big`` has memory measured with a million nodes too.
    """

    tasks: int = 2_000
    rounds: int = 5
    quick: bool = False
    big: bool = False
