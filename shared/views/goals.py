"""Goals as lists show them."""

import msgspec

from shared.contracts import Goal


class LatestGoals(msgspec.Struct, frozen=True, kw_only=True):
    """Goals, the one that was submitted last at the end, and how many ``others`` there are."""

    goals: list[Goal]
    others: int
