"""The vectors in RAM, two bytes a number, in arrays that grow while others read them."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import simsimd
from numpy.typing import NDArray

SPARE = 2.0
"""How much larger than needed an array gets when it grows. Capacity that was never written takes no memory
yet; with a quarter to spare the copies were a sixth of what a large write costs (10,000 nodes)."""

STRIDE = 16  # One in so many values is looked at to estimate how high the highest are

Places = NDArray[np.intp]


def capacity_for(count: int) -> int:
    """The capacity to allocate for ``count`` entries."""
    return max(1_024, int(SPARE * count))


class GrowingArray:
    """An array that grows; one thread extends it, any number read it.

    ``used`` is how many of ``values`` are there already: all, unless some are spare capacity. What was read
    stays as it was: growing beyond the capacity makes a new array, and the old one lasts as long as it is
    referenced.
    """

    def __init__(self, values: NDArray[Any], used: int | None = None) -> None:
        self._room = values
        self._used: int = len(values) if used is None else used

    def __len__(self) -> int:
        return self._used

    def extend(self, values: NDArray[Any]) -> None:
        """Put ``values`` at the end."""
        room, start = self._room, self._used
        end = start + len(values)
        if end > len(room):
            room = np.empty((capacity_for(end), *room.shape[1:]), room.dtype)
            room[:start] = self._room[:start]
        room[start:end] = values
        self._room, self._used = room, end

    def read(self, count: int) -> NDArray[Any]:
        """The first ``count`` entries; not a copy."""
        return self._room[:count]


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


Vectors = NDArray[np.float32]
Slots = NDArray[np.integer[Any]]
Numbers = NDArray[np.float32]

TRIED, LEAST_TRIED = 4, 100
"""How many of the nearest by the first bytes are compared exactly: so many times those asked for, and these.
Their cosines are within .002 of the exact ones."""

_pool = ThreadPoolExecutor(2, thread_name_prefix="memory-nearest")
_BLOCK = 1_024
_BYTE = 256
_LARGEST = 127 * _BYTE
_OUT = 4


class VectorTable:
    """A unit vector a slot, or none; slots are numbered from 0 in the order of ``extend``.

    A vector is kept as whole numbers of 16 bits and the factor that makes it one of length 1 again: cosines
    are exact to .0001, where 8 bits were .004 off, which puts what is near in another order. The two bytes
    of a number lie in two arrays, the first rounded. One thread extends, any number read.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._high = GrowingArray(np.empty((0, dimensions), np.int8))
        self._low = GrowingArray(np.empty((0, dimensions), np.int8))
        self._scales = GrowingArray(np.empty(0, np.float32))

    def __len__(self) -> int:
        return len(self._scales)

    def extend(self, vectors: Vectors) -> None:
        """Keep vectors in the next slots; a row of zeros is no vector."""
        for start in range(0, len(vectors), _BLOCK):
            high, low, scales = _quantise(vectors[start : start + _BLOCK])
            self._high.extend(high)
            self._low.extend(low)
            self._scales.extend(scales)

    def replace(self, slots: Slots, vectors: Vectors) -> None:
        """Keep other vectors in slots there are."""
        arrays = (self._high, self._low, self._scales)
        for array, values in zip(arrays, _quantise(vectors), strict=True):
            array.read(len(self))[slots] = values

    def read(self, slots: Slots) -> Vectors:
        """The vectors in slots, of length 1 each; of zeros where there is none."""
        high, low, scales = (array.read(len(self))[slots] for array in (self._high, self._low, self._scales))
        vectors: Vectors = (high * np.float32(_BYTE) + low) * scales[:, np.newaxis]
        return vectors

    def compare(self, slots: Slots, vector: Vectors) -> Numbers:
        """The cosines of a unit vector and those in ``slots``; 0 if there is none."""
        if not len(slots):
            return np.empty(0, np.float32)
        count = len(self)
        high, low, scale = _quantise(vector[np.newaxis])
        wanted = np.concatenate((high, low))
        (first, second), (third, last) = (
            np.asarray(simsimd.cdist(wanted, np.take(array.read(count), slots, axis=0), "dot"))
            for array in (self._high, self._low)
        )
        dots = _BYTE**2 * first + _BYTE * (second + third) + last
        return np.asarray(dots * (np.take(self._scales.read(count), slots) * scale), np.float32)

    def estimate(self, vector: Vectors, result: Numbers, first: int = 0) -> None:
        """Put into ``result`` about the cosines of a unit vector and those from slot ``first`` on; other
        threads work meanwhile.
        """
        if not len(result):
            return
        end = first + len(result)
        wanted, _, scale = _quantise(vector[np.newaxis])
        if not scale:  # no vector, which is as far from all
            result[:] = 0
            return
        dots = np.asarray(simsimd.cdist(wanted, self._high.read(end)[first:], "dot"))[0]
        np.multiply(dots, self._scales.read(end)[first:], out=result, casting="same_kind")
        result *= scale * _BYTE**2

    def choose(self, estimates: Numbers, admitted: NDArray[np.bool_], limit: int) -> Places:
        """The ``limit`` slots with the highest estimates among those admitted that have a vector, in no
        order; the estimates of others are changed.
        """
        admitted = admitted & (self._scales.read(len(admitted)) > 0)
        if np.count_nonzero(admitted) < len(admitted):
            estimates -= np.float32(_OUT) * ~admitted
        return top_slots(estimates, limit, -_OUT / 2)

    def nearest(
        self, vector: Vectors, admitted: NDArray[np.bool_], limit: int
    ) -> tuple[Slots, NDArray[np.float32]]:
        """The ``limit`` slots admitted that are nearest to a unit vector, with their cosines, best first."""
        estimates, half = np.empty(len(admitted), np.float32), len(admitted) // 2
        beside = _pool.submit(self.estimate, vector, estimates[:half])
        self.estimate(vector, estimates[half:], half)
        beside.result()
        slots = self.choose(estimates, admitted, TRIED * limit + LEAST_TRIED)
        cosines = self.compare(slots, vector)
        order = np.lexsort((slots, -cosines))[:limit]
        return slots[order], cosines[order]

    def keep(self, slots: Slots) -> "VectorTable":
        """A table of these slots alone, renumbered."""
        table, count = VectorTable(self.dimensions), len(self)
        table._high = GrowingArray(self._high.read(count)[slots])
        table._low = GrowingArray(self._low.read(count)[slots])
        table._scales = GrowingArray(self._scales.read(count)[slots])
        return table


def build_vectors(vectors: Vectors, slots: Slots, count: int) -> VectorTable:
    """A table of ``count`` slots, with the rows of ``vectors`` in ``slots`` (-1: nowhere), else nothing."""
    dimensions, room = vectors.shape[1], capacity_for(count)
    table = VectorTable(dimensions)
    high, low = np.zeros((room, dimensions), np.int8), np.zeros((room, dimensions), np.int8)
    scales = np.zeros(room, np.float32)

    def fill(start: int) -> None:
        block, there = vectors[start : start + _BLOCK], slots[start : start + _BLOCK]
        if there.min() < 0:
            block, there = block[there >= 0], there[there >= 0]
        high[there], low[there], scales[there] = _quantise(block)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(fill, range(0, len(vectors), _BLOCK)))
    table._high, table._low = GrowingArray(high, used=count), GrowingArray(low, used=count)
    table._scales = GrowingArray(scales, used=count)
    return table


def _quantise(vectors: Vectors) -> tuple[NDArray[np.int8], NDArray[np.int8], Numbers]:
    """The first and the second byte of each number, and the factor of each row."""
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    steps = np.divide(_LARGEST, largest, out=np.zeros_like(largest), where=largest > 0)
    rounded = np.rint(vectors * steps)
    lengths = np.sqrt(np.einsum("ij,ij->i", rounded, rounded))
    scales = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    codes = rounded.astype(np.int16)
    high = (codes + np.int16(_BYTE // 2)) >> 8
    return high.astype(np.int8), (codes - high * np.int16(_BYTE)).astype(np.int8), scales
