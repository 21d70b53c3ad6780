"""Making a page's text: as much of every item as there is room for, and a fair share of it for every
section.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate

import msgspec

from services.memory.briefing.page import CHARACTERS, Item, Page, Section, Unit, share
from services.memory.briefing.text import escape

Line = Callable[[Item], str]
"""Writes an item as one line."""

Lines = Mapping[str, str]
"""The line of each item by its node's id: an item stands in a page once."""

_MANY = 9_999_999
"""Left out of a section, at most: room for this number is kept, so that one more never pushes an item out."""


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """A finished text, and the sections cut to what stands in it."""

    text: str
    sections: tuple[Section, ...]


def fit(page: Page, forms: Sequence[Line], characters: int = CHARACTERS) -> Text:
    """The page as text of at most ``characters``.

    ``forms`` are ways to write an item, the longest first: the first that gets everything in is taken.
    Where none does, the last one is, the room is shared out fairly among the sections, and each shows its
    best units whole; what a section leaves unused goes to the others, first come first served. What is left
    out is counted in its ``omitted``.
    """
    lines: Lines = {}
    for form in forms:
        lines = {item.node.id: form(item) for section in page.sections for item in section.items}
        text = _write(page, page.sections, lines)
        if len(text) <= characters:
            return Text(text=text, sections=page.sections)
    bare = [msgspec.structs.replace(section, units=(), omitted=_MANY) for section in page.sections]
    sections = _share_out(page.sections, characters - len(_write(page, bare, lines)), lines)
    return Text(text=_write(page, sections, lines), sections=sections)


def _share_out(sections: Sequence[Section], room: int, lines: Lines) -> tuple[Section, ...]:
    rooms = share([_length(section, lines) for section in sections], max(0, room))
    shown = [_fill(section, part, lines) for section, part in zip(sections, rooms, strict=True)]
    for index, section in enumerate(sections):
        spare = room - sum(_length(other, lines) for other in shown)
        shown[index] = _fill(section, _length(shown[index], lines) + spare, lines)
    return tuple(shown)


def _length(section: Section, lines: Lines) -> int:
    return sum(len(lines[item.node.id]) for item in section.items)


def _fill(section: Section, room: int, lines: Lines) -> Section:
    """The section with the leading units that fit into ``room`` characters; the last of them may be its
    beginning.
    """
    kept: list[Unit] = []
    for unit in section.units:
        ends = accumulate(len(lines[item.node.id]) for item in unit.items)
        count = sum(end <= room for end in ends)
        if count < unit.least:
            break
        kept.append(Unit(items=unit.items[:count], least=unit.least))
        room -= sum(len(lines[item.node.id]) for item in unit.items[:count])
        if count < len(unit.items):
            break
    omitted = len(section.items) - sum(len(unit.items) for unit in kept)
    return msgspec.structs.replace(section, units=tuple(kept), omitted=section.omitted + omitted)


def _write(page: Page, sections: Sequence[Section], lines: Lines) -> str:
    made = datetime.fromtimestamp(page.moment, UTC).isoformat(timespec="seconds")
    nodes = "node" if page.consulted == 1 else "nodes"
    parts = [
        f"# Briefing for {escape(page.agent)}\n\n",
        f"Graph version {page.version}, made {made}, {page.consulted:,} {nodes} consulted.\n",
    ]
    if page.preface:
        parts.append(f"\n{page.preface}\n")
    for section in sections:
        parts += (f"\n## {section.title}\n\n", *(lines[item.node.id] for item in section.items))
        if section.omitted:
            number = f"at least {section.omitted:,}" if section.open else f"{section.omitted:,}"
            parts.append(f"\n_And {number} more: ask memory about {section.ask}._\n")
    return "".join(parts)
