"""A briefing before it is text: what is to be shown, in units that stay together, and who gets how much
room.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from shared.contracts import Node

ITEMS = 10
"""The most items of a section."""

TOTAL = 50
"""The most items of a briefing."""

CHARACTERS = 8_000
"""The most characters of a briefing's text, headings and all: about 2,000 tokens."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it stands in a briefing; ``note`` says how it is connected: "applies to", "contradicts the
    one above".
    """

    node: Node
    score: float
    note: str = ""


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Items that belong together, the leading ones first: shown whole, or at least the first ``least`` of
    them.
    """

    items: tuple[Item, ...]
    least: int = 1


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A titled part, best units first; ``omitted`` counts what would have belonged here too, and ``ask``
    names it.
    """

    title: str
    ask: str
    units: tuple[Unit, ...] = ()
    omitted: int = 0
    open: bool = False

    @property
    def items(self) -> tuple[Item, ...]:
        """All items in order."""
        return tuple(item for unit in self.units for item in unit.items)


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What ``agent`` is to be told: made at ``moment`` (seconds since the epoch) from ``consulted`` nodes."""

    agent: str
    version: int
    moment: float
    consulted: int = 0
    preface: str = ""
    sections: tuple[Section, ...] = ()


T = TypeVar("T")


def share(demands: Sequence[int], total: int) -> list[int]:
    """Split ``total`` so that nobody gets more than asked for, and who asks for more than the others gets
    as much as they.

    What small demands leave over goes to the larger ones in equal parts, the odd remainder to the first of
    them.
    """
    shares = [0] * len(demands)
    open_ones = sorted(range(len(demands)), key=lambda index: (demands[index], index))
    while open_ones:
        level = total // len(open_ones)
        if demands[open_ones[0]] > level:
            break
        index = open_ones.pop(0)
        shares[index] = demands[index]
        total -= demands[index]
    for place, index in enumerate(sorted(open_ones)):
        level, rest = divmod(total, len(open_ones))
        shares[index] = level + (place < rest)
    return shares


def take(units: Sequence[Unit], room: int) -> tuple[Unit, ...]:
    """The units that ``room`` items hold, in order: whole, or their beginning; one that does not fit is
    passed over.
    """
    taken = []
    for unit in units:
        count = min(len(unit.items), room)
        if count and count >= unit.least:
            taken.append(Unit(items=unit.items[:count], least=unit.least))
            room -= count
    return tuple(taken)


def limit(sections: Sequence[Section], each: int = ITEMS, total: int = TOTAL) -> tuple[Section, ...]:
    """The sections cut to ``each`` items and to ``total`` in all, which are shared out fairly; empty ones
    are left out.
    """
    cut = [take(section.units, each) for section in sections]
    rooms = share([_size(units) for units in cut], total)
    limited = []
    for section, units, room in zip(sections, cut, rooms, strict=True):
        kept = take(units, room)
        left_out = _size(section.units) - _size(kept)
        if kept:
            limited.append(msgspec.structs.replace(section, units=kept, omitted=section.omitted + left_out))
    return tuple(limited)


def _size(units: Sequence[Unit]) -> int:
    return sum(len(unit.items) for unit in units)
