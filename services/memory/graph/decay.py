"""How edges fade: computed when they are read, so that the number of reads does not matter."""

import math
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.contracts import Edge
from shared.contracts.base import amended

DAY = 86_400.0  # Seconds

RATE = 0.01  # What an edge between unimportant nodes loses a day: half of it after 69 days

SHELTER = 0.8
"""How much of that rate an importance of 1 takes away: half of the weight is then lost after 347 days."""

HIDDEN = 0.1
"""Edges of less effective weight are not walked and not shown; they are still stored, and can be revived."""

DELETED = 0.05  # Edges of less effective weight are removed by the linker's next pass

GAIN = 0.1  # The part of what is missing to a weight of 1 that one reinforcement gives back

EXEMPT = frozenset({"manual", "imported", "proposal"})
"""What ``provenance["by"]`` says of edges that were made on purpose: they keep their weight for ever."""


def is_exempt(provenance: dict[str, Any]) -> bool:
    """Whether an edge of this provenance keeps its weight."""
    by = provenance.get("by")
    return isinstance(by, str) and by in EXEMPT


def effective(edge: Edge, importance: float, moment: float) -> float:
    """An edge's weight at ``moment``: weight x e^(-0.01 x days x (1 - 0.8 x importance)).

    ``moment`` is in seconds since the epoch, ``importance`` that of the more important of its two nodes;
    the days count from its last write or reinforcement. An edge without any time, one from the future and
    one that is exempt have the weight they are stored with.
    """
    touched = edge.touched_at or edge.created_at
    if not touched or is_exempt(edge.provenance):
        return edge.weight
    return edge.weight * math.exp(
        -RATE * (1.0 - SHELTER * importance) * max(0.0, moment - parse_time(touched)) / DAY
    )


def effective_weights(
    weights: NDArray[np.float64],
    touched: NDArray[np.float64],
    importance: NDArray[np.float64],
    exempt: NDArray[np.bool_],
    moment: float,
) -> NDArray[np.float64]:
    """The same of many edges; ``touched`` in seconds since the epoch."""
    rates = RATE * (1.0 - SHELTER * importance)
    faded = weights * np.exp(-rates * np.maximum(0.0, moment - touched) / DAY)
    return np.where(exempt, weights, faded)


def reinforce(edge: Edge, importance: float, moment: float) -> Edge | None:
    """The edge after it proved useful, or None if that changes nothing.

    Its weight becomes the effective one and a tenth of what that lacks to 1. None for an exempt edge,
    whose weight was chosen, and for one that was written or reinforced less than a day ago.
    """
    touched = edge.touched_at or edge.created_at
    if is_exempt(edge.provenance) or (touched and moment - parse_time(touched) < DAY):
        return None
    weight = effective(edge, importance, moment)
    stamp = datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")
    return amended(edge, weight=min(1.0, weight + GAIN * (1.0 - weight)), touched_at=stamp)


@lru_cache(4_096)
def parse_time(text: str) -> float:
    """Seconds since the epoch of an ISO 8601 time; one without a zone is UTC."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
