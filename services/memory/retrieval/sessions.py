"""The neighbours of nodes in their sessions."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.memory.retrieval.vectors import GrowingArray

REACH = 2
"""How many nodes before and after one bear on it: three found no more of the evidence in conversations."""

OFFSETS = tuple(offset for offset in range(-REACH, REACH + 1) if offset)
"""The rows of ``Sessions.neighbours``: two before, one before, one after, two after."""

NONE = 0  # The number of the session of a node that has none

MAX_CHANGED = 500_000
"""Entries kept of the sessions that were changed; beyond that they are put back with the others."""

Slots = NDArray[np.int32]
Member = tuple[float, str, int]


class Sessions:
    """The live slots of each session in their order, by time and then by id, and how many speak in it.

    ``codes``, ``moments``, ``speakers`` and ``ids`` have for each slot its session's code, the time in
    seconds, a number for who speaks (0: nobody) and the node's id; they are read when a session changes. One
    thread changes it, any number read.
    """

    def __init__(
        self,
        codes: GrowingArray,
        moments: GrowingArray,
        speakers: GrowingArray,
        ids: Sequence[str],
        live: NDArray[np.bool_],
    ) -> None:
        self._codes, self._moments, self._speakers, self._ids = codes, moments, speakers, ids
        count = len(live)
        order = _arrange(codes.read(count), moments.read(count), ids, live)
        arranged = codes.read(count)[order]
        same = arranged[1:] == arranged[:-1]
        before, after = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
        before[order[1:][same]] = order[:-1][same]
        after[order[:-1][same]] = order[1:][same]
        self._before, self._after = GrowingArray(before), GrowingArray(after)
        self._order, self._arranged = order, arranged
        self._speaking = GrowingArray(_count_speakers(arranged, speakers.read(count)[order]))
        self._changed: dict[int, list[Member]] = {}
        self._said: dict[int, Counter[int]] = {}
        self._entries = 0

    def extend(self, count: int) -> None:
        """Add ``count`` slots, which have no neighbours yet."""
        nobody = np.full(count, -1, np.int32)
        self._before.extend(nobody)
        self._after.extend(nobody)

    def place(self, slot: int) -> None:
        """Take a slot into its session."""
        if (code := self._code(slot)) == NONE:
            return
        members, member = self._members(code), self._member(slot)
        place = bisect_left(members, member)
        left = members[place - 1][2] if place else -1
        right = members[place][2] if place < len(members) else -1
        members.insert(place, member)
        self._entries += 1
        self._count(code, slot, 1)
        self._join(left, slot)
        self._join(slot, right)

    def remove(self, slot: int) -> None:
        """Remove a slot from its session, if it is in one."""
        if (code := self._code(slot)) == NONE:
            return
        members, member = self._members(code), self._member(slot)
        place = bisect_left(members, member)
        if place == len(members) or members[place] != member:
            return
        del members[place]
        self._count(code, slot, -1)
        left, right = int(self._before.read(slot + 1)[slot]), int(self._after.read(slot + 1)[slot])
        self._join(left, right)
        self._join(-1, slot)
        self._join(slot, -1)

    def neighbours(self, slots: NDArray[Any], count: int) -> NDArray[np.int32]:
        """For each of ``slots`` the slots at OFFSETS from it, -1 if none is below ``count``."""
        rows = np.empty((len(OFFSETS), len(slots)), np.int32)
        for links, near, far in ((self._before, REACH - 1, 0), (self._after, REACH, -1)):
            rows[near] = _follow(links.read(count), slots, count)
            rows[far] = _follow(links.read(count), rows[near], count)
        return rows

    def count_speakers(self, codes: NDArray[np.int32]) -> NDArray[np.int32]:
        """How many speak in each of the sessions of live slots; 0 for NONE."""
        return self._speaking.read(len(self._speaking))[codes]

    def _count(self, code: int, slot: int, change: int) -> None:
        """Count what the speaker of a slot says in a session once more, or once less."""
        if code >= len(self._speaking):
            self._speaking.extend(np.zeros(code + 1 - len(self._speaking), np.int32))
        if speaker := int(self._speakers.read(slot + 1)[slot]):
            said, before = self._said[code], self._said[code][speaker] > 0
            said[speaker] += change
            self._speaking.read(code + 1)[code] += (said[speaker] > 0) - before

    def _code(self, slot: int) -> int:
        return int(self._codes.read(slot + 1)[slot])

    def _member(self, slot: int) -> Member:
        return float(self._moments.read(slot + 1)[slot]), self._ids[slot], slot

    def _members(self, code: int) -> list[Member]:
        if code in self._changed:
            return self._changed[code]
        if self._entries > MAX_CHANGED:
            self._merge_changed()
        start, end = np.searchsorted(self._arranged, (code, code + 1)).tolist()
        slots = self._order[start:end]
        members = self._changed[code] = [self._member(slot) for slot in slots.tolist()]
        self._said[code] = Counter(self._speakers.read(len(self._ids))[slots].tolist())
        self._entries += len(members)
        return members

    def _merge_changed(self) -> None:
        """Put what was changed into the arrays that the others are in."""
        changed = np.fromiter(self._changed, np.int32)
        stay = ~np.isin(self._arranged, changed)
        later = [(code, member[2]) for code, members in self._changed.items() for member in members]
        codes = np.concatenate((self._arranged[stay], np.array([code for code, _ in later], np.int32)))
        slots = np.concatenate((self._order[stay], np.array([slot for _, slot in later], np.int32)))
        order = np.argsort(codes, kind="stable")
        self._arranged, self._order = codes[order], slots[order]
        self._changed.clear()
        self._said.clear()
        self._entries = 0

    def _join(self, left: int, right: int) -> None:
        if left >= 0:
            self._after.read(left + 1)[left] = right
        if right >= 0:
            self._before.read(right + 1)[right] = left


def _count_speakers(sessions: Slots, speakers: NDArray[np.uint32]) -> NDArray[np.int32]:
    """How many different speakers each session has, by its code; those of number 0 do not count."""
    heard = speakers > 0
    pairs = np.unique(sessions[heard].astype(np.int64) << 32 | speakers[heard])
    return np.bincount(pairs >> 32, minlength=int(sessions.max(initial=0)) + 1).astype(np.int32)


def _arrange(
    codes: NDArray[np.int32], moments: NDArray[np.float64], ids: Sequence[str], live: NDArray[np.bool_]
) -> Slots:
    slots = np.flatnonzero(live & (codes != NONE)).astype(np.int32)
    ranks = np.empty(len(slots), np.int32)
    ranks[sorted(range(len(slots)), key=[ids[slot] for slot in slots.tolist()].__getitem__)] = np.arange(
        len(slots)
    )
    return slots[np.lexsort((ranks, moments[slots], codes[slots]))]


def _follow(links: Slots, slots: NDArray[Any], count: int) -> Slots:
    """Where links lead from slots; -1 leads to -1."""
    there = np.where(slots >= 0, links[slots], -1)
    return np.where(there < count, there, -1)
