"""Which terms occur in which slots, and how often: compact arrays, and short lists for what came since."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Slots = NDArray[np.uint32]
Counts = NDArray[np.uint8]
Numbers = NDArray[np.int64]

MOST = 255  # The highest count that is kept: saying a word more often than that adds nothing


AT_ONCE = 32_768  # Pairs that are sorted in among the others at once; until then a lookup scans them (20 us)


class Codes(dict[str, int]):
    """A number for each term, a new one for a new term; ``of_raw`` has those of words as they are written."""

    def __init__(self, *pairs: Iterable[tuple[str, int]]) -> None:
        super().__init__(*pairs)
        self.of_raw: dict[str, list[int]] = {}

    def __missing__(self, term: str) -> int:
        code = self[term] = len(self)
        return code


class StoredPostings(NamedTuple):
    """All terms, and their postings in the order of the terms: from ``starts[t]`` on are those of term t."""

    terms: list[str]
    starts: Numbers
    slots: Slots
    counts: Counts


class RecentPairs(NamedTuple):
    """Pairs as they came, none of a slot lower than ``first``; ``used`` of them are there."""

    codes: NDArray[np.int32]
    slots: Slots
    first: int
    used: int


_NONE = RecentPairs(np.empty(0, np.int32), np.empty(0, np.uint32), 2**32, 0)


class Postings:
    """Terms and where they occur; one thread extends, any number read. Slots of one term are in no order.

    Made of what was stored, which is kept as it is; what is added since lies in a list for each term, each
    entry a number of 64 bits: the slot times 256 plus the count; and what came last, at most AT_ONCE pairs,
    as it came. All pairs of a slot are added at once, and of a later slot later. ``codes`` gives the number
    of a term.
    """

    def __init__(self, stored: StoredPostings | None = None) -> None:
        stored = stored or StoredPostings(
            [], np.zeros(1, np.int64), np.empty(0, np.uint32), np.empty(0, np.uint8)
        )
        self.codes = Codes(zip(stored.terms, range(len(stored.terms)), strict=True))
        self._stored = stored
        self._stored_end = int(stored.slots.max(initial=0)) + 1
        self._later: dict[int, tuple[NDArray[np.uint64], int]] = {}
        self._fresh = _NONE

    @classmethod
    def build(cls, terms: list[str], codes: Numbers, slots: NDArray[np.int64]) -> "Postings":
        """Of pairs of a term's place in ``terms`` and a slot; a pair that is there twice counts 2."""
        return cls(StoredPostings(terms, *_group(len(terms), *_count(codes, slots))))

    def extend(self, codes: Numbers, slots: NDArray[np.int64]) -> None:
        """Add pairs of a term's number and a slot."""
        if not len(codes):
            return
        codes_before, slots_before, first, used = self._fresh
        end = used + len(codes)
        if end > AT_ONCE:
            self._sort_in(
                np.concatenate((codes_before[:used], codes)), np.concatenate((slots_before[:used], slots))
            )
            self._fresh = _NONE
            return
        if not used:
            codes_before, slots_before = np.empty(AT_ONCE, np.int32), np.empty(AT_ONCE, np.uint32)
            first = int(slots.min())
        codes_before[used:end], slots_before[used:end] = codes, slots
        self._fresh = RecentPairs(codes_before, slots_before, first, end)

    def _sort_in(self, codes: NDArray[Any], slots: NDArray[Any]) -> None:
        codes, slots, counts = _count(codes.astype(np.int64), slots.astype(np.int64))
        packed = slots.astype(np.uint64) << np.uint64(8) | counts.astype(np.uint64)
        bounds = np.flatnonzero(np.diff(codes, prepend=-1, append=-1)).tolist()
        for code, start, end in zip(codes[bounds[:-1]].tolist(), bounds, bounds[1:], strict=False):
            self._append(code, packed[start:end])

    def find(self, term: str, before: int, since: int = 0) -> tuple[Slots, Counts]:
        """The slots from ``since`` on and lower than ``before`` in which a term occurs, and how often in
        each.
        """
        code = self.codes.get(term, -1)
        fresh = self._fresh  # before the lists: what is sorted in meanwhile is then in both
        found = [self._find_stored(code)] if since < self._stored_end else []
        if code in self._later:
            packed, used = self._later[code]
            packed = packed[:used]
            later = (packed >> np.uint64(8)).astype(np.uint32)
            here = later < min(before, fresh.first)
            found.append((later[here], (packed & np.uint64(MOST)).astype(np.uint8)[here]))
        if fresh.used:
            found.append(_find_fresh(fresh, code, before))
        slots, counts = found[0] if len(found) == 1 else _join(found)
        if since:
            wanted = slots >= since
            return slots[wanted], counts[wanted]
        return slots, counts

    def store(self, new_slots: NDArray[np.int32]) -> StoredPostings:
        """All of it in one, for slots that get other numbers: ``new_slots[old]``, or -1 where one goes."""
        codes, slots, counts = self._gather()
        moved = new_slots[slots]
        stay = moved >= 0
        present = np.flatnonzero(np.bincount(codes[stay], minlength=len(self.codes)))
        names = list(self.codes)
        terms = [names[code] for code in present.tolist()]
        new_codes = renumber(present, len(names))[codes[stay]]
        return StoredPostings(terms, *_group(len(terms), new_codes, moved[stay], counts[stay]))

    def _find_stored(self, code: int) -> tuple[Slots, Counts]:
        starts = self._stored.starts
        if not 0 <= code < len(starts) - 1:
            return self._stored.slots[:0], self._stored.counts[:0]
        start, end = int(starts[code]), int(starts[code + 1])
        return self._stored.slots[start:end], self._stored.counts[start:end]

    def _append(self, code: int, packed: NDArray[np.uint64]) -> None:
        room, used = self._later.get(code) or (packed, 0)
        end = used + len(packed)
        if used and end > len(room):
            grown = np.empty(2 * end, np.uint64)
            grown[:used] = room[:used]
            room = grown
        if used:
            room[used:end] = packed
        self._later[code] = (room, end)

    def _gather(self) -> tuple[Numbers, Slots, Counts]:
        fresh = self._fresh
        self._sort_in(fresh.codes[: fresh.used], fresh.slots[: fresh.used])
        self._fresh = _NONE
        stored = self._stored
        codes = [np.repeat(np.arange(len(stored.starts) - 1), np.diff(stored.starts))]
        later = [packed[:used] for packed, used in self._later.values()]
        codes.append(np.repeat(np.fromiter(self._later, np.int64), [len(packed) for packed in later]))
        packed = np.concatenate((np.empty(0, np.uint64), *later))
        slots = (packed >> np.uint64(8)).astype(np.uint32)
        counts = (packed & np.uint64(MOST)).astype(np.uint8)
        return (
            np.concatenate(codes),
            np.concatenate((stored.slots, slots)),
            np.concatenate((stored.counts, counts)),
        )


def _join(found: list[tuple[Slots, Counts]]) -> tuple[Slots, Counts]:
    parts = [pair for pair in found if len(pair[0])]
    if len(parts) < 2:
        return parts[0] if parts else (_NONE.slots, np.empty(0, np.uint8))
    slots, counts = zip(*parts, strict=True)
    return np.concatenate(slots), np.concatenate(counts)


def _find_fresh(fresh: RecentPairs, code: int, before: int) -> tuple[Slots, Counts]:
    found = fresh.slots[: fresh.used][fresh.codes[: fresh.used] == code]
    if not len(found):
        return found, np.empty(0, np.uint8)
    slots, counts = np.unique(found[found < before], return_counts=True)
    return slots, np.minimum(counts, MOST).astype(np.uint8)


def _count(codes: Numbers, slots: NDArray[np.int64]) -> tuple[Numbers, NDArray[np.int64], NDArray[np.int64]]:
    """Each pair once, in order, and how often it was there."""
    pairs, counts = np.unique(codes << 32 | slots, return_counts=True)
    return pairs >> 32, pairs & 0xFFFFFFFF, np.minimum(counts, MOST)


def _group(
    terms: int, codes: NDArray[Any], slots: NDArray[Any], counts: NDArray[Any]
) -> tuple[Numbers, Slots, Counts]:
    if np.any(codes[1:] < codes[:-1]):
        order = np.argsort(codes, kind="stable")
        codes, slots, counts = codes[order], slots[order], counts[order]
    starts = np.searchsorted(codes, np.arange(terms + 1))
    return starts, slots.astype(np.uint32), counts.astype(np.uint8)


def renumber(kept: NDArray[np.intp], count: int) -> NDArray[np.int32]:
    """For each of ``count`` numbers its place among those that are kept, or -1."""
    places = np.full(count, -1, np.int32)
    places[kept] = np.arange(len(kept), dtype=np.int32)
    return places
