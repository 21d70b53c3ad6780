"""The vectors in RAM: two bytes a number, and a bit a number for a first selection."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.memory.retrieval.arrays import GrowingArray, capacity_for

Vectors = NDArray[np.float32]
Slots = NDArray[np.integer[Any]]

LEAST_TRIED = 1_500
"""How many of the nearest by bits are compared exactly, at least."""

TRIED = 0.02
"""Which part is, in larger memories: of the ten nearest turns of conversations among 100,000 texts 99.7 %
were among the 2,000 nearest by bits."""

_AT_ONCE = 512
"""Rows compared in one go: so many stay in the processor's own cache."""

_BLOCK = 1_024
_SIFTED = 8_192
_FAR = 0xFFFF
_LARGEST = 32_767


class VectorTable:
    """A unit vector a slot, or none; slots are numbered from 0 in the order of ``extend``.

    A vector is kept as whole numbers of 16 bits and the factor that makes it one of length 1 again: cosines
    are exact to .0001, where 8 bits were .004 off, which puts what is near in another order. One thread
    extends, any number read.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._codes = GrowingArray(np.empty((0, dimensions), np.int16))
        self._scales = GrowingArray(np.empty(0, np.float32))
        self._bits = GrowingArray(np.empty(((dimensions + 63) // 64, 0), np.uint64), axis=1)

    def __len__(self) -> int:
        return len(self._scales)

    def extend(self, vectors: Vectors) -> None:
        """Keep vectors in the next slots; a row of zeros is no vector."""
        for start in range(0, len(vectors), _BLOCK):
            block = vectors[start : start + _BLOCK]
            codes, scales = _quantise(block)
            self._codes.extend(codes)
            self._bits.extend(_pack_signs(block))
            self._scales.extend(scales)

    def replace(self, slots: Slots, vectors: Vectors) -> None:
        """Keep other vectors in slots there are."""
        count = len(self)
        self._codes.read(count)[slots], self._scales.read(count)[slots] = _quantise(vectors)
        self._bits.read(count)[:, slots] = _pack_signs(vectors)

    def read(self, slot: int) -> Vectors | None:
        """The vector in a slot, of length 1."""
        scale = self._scales.read(slot + 1)[slot]
        return np.asarray(self._codes.read(slot + 1)[slot] * scale, np.float32) if scale else None

    def compare(self, slots: Slots, vector: Vectors) -> NDArray[np.float32]:
        """The cosines of a unit vector and those in ``slots``; 0 if there is none."""
        codes, cosines = self._codes.read(len(self)), np.empty(len(slots), np.float32)
        for start in range(0, len(slots), _AT_ONCE):
            block = np.take(codes, slots[start : start + _AT_ONCE], axis=0).astype(np.float32)
            np.vecdot(
                block, vector, out=cosines[start : start + _AT_ONCE]
            )  # matmul waits for a second thread
        cosines *= np.take(self._scales.read(len(self)), slots)
        return cosines

    def nearest(
        self, vector: Vectors, admitted: NDArray[np.bool_], limit: int, share: float = 1.0
    ) -> tuple[Slots, NDArray[np.float32]]:
        """The ``limit`` slots nearest to a unit vector among those admitted, and their cosines, best first.

        Found by the signs of their numbers first, unless few are admitted: nearly always the nearest.
        ``share`` is how many are tried of those that usually are.
        """
        count = len(admitted)
        tried = max(int(share * max(LEAST_TRIED, TRIED * count)), 4 * limit)
        admitted = admitted & (self._scales.read(count) > 0)
        if np.count_nonzero(admitted) > tried:
            slots = self._sift(vector, admitted, tried)
        else:
            slots = np.flatnonzero(admitted)
        cosines = self.compare(slots, vector)
        if len(slots) > limit:
            best = np.argpartition(-cosines, limit)[:limit]
            slots, cosines = slots[best], cosines[best]
        order = np.argsort(-cosines, kind="stable")
        return slots[order], cosines[order]

    def keep(self, slots: Slots) -> "VectorTable":
        """A table of these slots alone, renumbered."""
        table, count = VectorTable(self.dimensions), len(self)
        table._codes = GrowingArray(self._codes.read(count)[slots])
        table._scales = GrowingArray(self._scales.read(count)[slots])
        table._bits = GrowingArray(np.ascontiguousarray(self._bits.read(count)[:, slots]), axis=1)
        return table

    def _sift(self, vector: Vectors, admitted: NDArray[np.bool_], least: int) -> Slots:
        count = len(admitted)
        bits, wanted = self._bits.read(count), _pack_signs(vector[None])[:, 0]
        distances = np.empty(count, np.uint16)
        for start in range(0, count, _SIFTED):  # so many and what is made of them stay in the cache
            block = bits[:, start : start + _SIFTED] ^ wanted[:, None]
            np.bitwise_count(block).sum(axis=0, dtype=np.uint16, out=distances[start : start + _SIFTED])
        distances[~admitted] = _FAR
        low, high = 0, self.dimensions
        while low < high:  # the least distance within which there are enough
            middle = (low + high) // 2
            if np.count_nonzero(distances <= middle) < least:
                low = middle + 1
            else:
                high = middle
        return np.flatnonzero(distances <= low)


def build_vectors(vectors: Vectors, slots: Slots, count: int) -> VectorTable:
    """A table of ``count`` slots, with the rows of ``vectors`` in ``slots`` (-1: nowhere), else nothing."""
    dimensions, room = vectors.shape[1], capacity_for(count)
    table = VectorTable(dimensions)
    codes, scales = np.zeros((room, dimensions), np.int16), np.zeros(room, np.float32)
    bits = np.zeros(((dimensions + 63) // 64, room), np.uint64)

    def fill(start: int) -> None:
        block, there = vectors[start : start + _BLOCK], slots[start : start + _BLOCK]
        if there.min() < 0:
            block, there = block[there >= 0], there[there >= 0]
        codes[there], scales[there] = _quantise(block)
        bits[:, there] = _pack_signs(block)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(fill, range(0, len(vectors), _BLOCK)))
    table._codes, table._scales = GrowingArray(codes, used=count), GrowingArray(scales, used=count)
    table._bits = GrowingArray(bits, axis=1, used=count)
    return table


def _quantise(vectors: Vectors) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    steps = np.divide(_LARGEST, largest, out=np.zeros_like(largest), where=largest > 0)
    rounded = np.rint(vectors * steps)
    lengths = np.sqrt(np.einsum("ij,ij->i", rounded, rounded))
    scales = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return rounded.astype(np.int16), scales


def _pack_signs(vectors: Vectors) -> NDArray[np.uint64]:
    """A bit a number, 64 to a row, a column a vector."""
    packed = np.packbits(vectors > 0, axis=1)
    padded = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(padded.view(np.uint64).T)
