"""Which edges lead from and to a place, of many places at once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]
Places = NDArray[np.intp]


class Adjacency:
    """The rows of the edges at places 0 to ``count``, as they were when it was made.

    ``is_stale`` marks the places whose edges changed since; ``changed`` counts them.
    """

    def __init__(self, start: Rows, end: Rows, rows: NDArray[Any], count: int) -> None:
        self.is_stale = np.zeros(count, np.bool_)
        self.changed = 0
        self._leaving = _group(start, rows, count)
        self._coming = _group(end, rows, count)

    def mark(self, place: int) -> None:
        """Note that a place has other edges now; one that came since is stale without that."""
        self.changed += 1
        if place < len(self.is_stale):
            self.is_stale[place] = True

    def find_fresh(self, places: Places) -> NDArray[np.bool_]:
        """Which of the places have the edges they had."""
        known = places < len(self.is_stale)
        known[known] = ~self.is_stale[places[known]]
        return known

    def find(self, places: Places, *, leaving: bool) -> tuple[Rows, Places]:
        """The rows of the edges that leave these places, or come to them; and at the how manieth each is."""
        bounds, rows = self._leaving if leaving else self._coming
        first = bounds[places]
        counts = bounds[places + 1] - first
        ends = np.cumsum(counts)
        total = int(ends[-1]) if len(ends) else 0
        return (
            rows[np.arange(total) + np.repeat(first - ends + counts, counts)],
            np.repeat(np.arange(len(places)), counts),
        )


def _group(ends: Rows, rows: NDArray[Any], count: int) -> tuple[NDArray[np.int64], Rows]:
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(ends, minlength=count), out=bounds[1:])
    return bounds, rows[np.argsort(ends, kind="stable")].astype(np.int32)
