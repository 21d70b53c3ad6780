"""Arrays that grow at one end while others read them, and the first of many in order."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

SPARE = 2.0
"""How much larger than needed an array gets when it grows. Capacity that was never written takes no memory
yet; with a quarter to spare the copies were a sixth of what a large write costs (10,000 nodes)."""

STRIDE = 16
"""One in so many values is looked at to estimate how high the highest are."""

Places = NDArray[np.intp]


def capacity_for(count: int) -> int:
    """The capacity to allocate for ``count`` entries."""
    return max(1_024, int(SPARE * count))


class GrowingArray:
    """An array that grows along ``axis``; one thread extends it, any number read it.

    ``used`` is how many of ``values`` are there already: all, unless some are spare capacity. What was read
    stays as it was: growing beyond the capacity makes a new array, and the old one lasts as long as it is
    referenced.
    """

    def __init__(self, values: NDArray[Any], axis: int = 0, used: int | None = None) -> None:
        self._axis = axis
        self._room = values
        self._used: int = values.shape[axis] if used is None else used

    def __len__(self) -> int:
        return self._used

    def extend(self, values: NDArray[Any]) -> None:
        """Put ``values`` at the end."""
        room, start = self._room, self._used
        end = start + values.shape[self._axis]
        if end > room.shape[self._axis]:
            room = self._enlarge(end)
        if self._axis:
            room[:, start:end] = values
        else:
            room[start:end] = values
        self._room, self._used = room, end

    def read(self, count: int) -> NDArray[Any]:
        """The first ``count`` entries; not a copy."""
        return self._room[:, :count] if self._axis else self._room[:count]

    def _enlarge(self, least: int) -> NDArray[Any]:
        shape = list(self._room.shape)
        shape[self._axis] = capacity_for(least)
        room = np.empty(shape, self._room.dtype)
        if self._axis:
            room[:, : self._used] = self._room[:, : self._used]
        else:
            room[: self._used] = self._room[: self._used]
        return room


def top_slots(values: NDArray[np.float32], limit: int, floor: float) -> Places:
    """Where the ``limit`` highest values above ``floor`` are, in no order.

    A sample tells about how high these are: looking at all values for what is higher than that takes a tenth
    of partitioning them.
    """
    least = floor
    if len(values) > STRIDE * limit:
        sample = values[::STRIDE]
        rank = 2 * limit // STRIDE + 8
        least = max(floor, float(np.partition(sample, -rank)[-rank]))
    found = np.flatnonzero(values > least)
    if len(found) < limit and least > floor:
        found = np.flatnonzero(values > floor)
    if len(found) <= limit:
        return found
    rest = len(found) - limit
    return found[np.argpartition(values[found], rest)[rest:]]


def top_places(
    keys: Sequence[NDArray[Any]], limit: int, name: Callable[[Places], Sequence[str]] | None = None
) -> Places:
    """``limit`` places in the order of keys, the highest first; of equal ones by the next key, then by name.

    Names are compared if keys do not decide, in ascending order; without names, places are.
    """
    chosen, level, left = [], np.arange(len(keys[0])), limit
    for key in keys:
        if not 0 < left < len(level):
            break
        values = key[level]
        least = np.partition(values, -left)[-left]
        chosen.append(level[values > least])
        left -= len(chosen[-1])
        level = level[values == least]
    places = np.concatenate((*chosen, level))
    falling = [-key[places] for key in reversed(keys)]
    order = np.lexsort(falling)
    if name is not None and _has_equals(falling, order):
        order = np.lexsort([np.argsort(np.argsort(name(places))), *falling])
    return places[order][:limit]


def _has_equals(keys: Sequence[NDArray[Any]], order: Places) -> bool:
    same = np.ones(max(0, len(order) - 1), np.bool_)
    for key in keys:
        arranged = key[order]
        same &= arranged[1:] == arranged[:-1]
    return bool(same.any())
