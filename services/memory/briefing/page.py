"""A briefing's page: sections of items that stay together, and its Markdown within a limit of characters."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate

import msgspec

from shared.contracts import Node
from shared.text.shorten import flatten

ITEMS = 10
"""The most items of a section."""

TOTAL = 50
"""The most items of a briefing."""

CHARACTERS = 8_000
"""The most characters of a briefing's text, headings and all: about 2,000 tokens."""

LENGTHS = ((256, 400), (256, 200), (160, 120), (120, 80))
"""The most characters of a title and of a body; the first that fit are used, before items are left out."""

TITLE = 100
"""The most characters of a title."""

_STARTS = re.compile(r"^(\d{0,9})([-#>+=.)])")
"""What at the start of a line makes a heading, a list or a quotation of it."""

_MARKUP = re.compile(r"[\\`*\[|~]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])")
"""Markup within a line of Markdown; an underscore inside a word is none, nor a "<" before a space."""

_MANY = 9_999_999
"""The highest number of omitted items: its digits are reserved, so that the number always fits."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A node in a briefing; ``note`` says how it is connected: "applies to", "contradicts the one above"."""

    node: Node
    score: float
    note: str = ""


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Items that belong together, of which at least the first ``least`` are shown."""

    items: tuple[Item, ...]
    least: int = 1


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A section, best units first; ``omitted`` counts what is left out, and ``ask`` describes it."""

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
    """A briefing's contents: made at ``moment`` (seconds since the epoch) from ``consulted`` nodes."""

    agent: str
    version: int
    moment: float
    consulted: int = 0
    preface: str = ""
    sections: tuple[Section, ...] = ()


Line = Callable[[Item], str]
"""Writes an item as one line."""

Lines = Mapping[str, str]
"""The line of each item by its node's id: a page has an item once."""


def divide_fairly(demands: Sequence[int], total: int) -> list[int]:
    """Split ``total`` so that no share exceeds its demand, and larger demands get equal shares.

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


def fit_units(units: Sequence[Unit], room: int) -> tuple[Unit, ...]:
    """The units, whole or their beginnings, that fit into ``room`` items, in order."""
    taken = []
    for unit in units:
        count = min(len(unit.items), room)
        if count and count >= unit.least:
            taken.append(Unit(items=unit.items[:count], least=unit.least))
            room -= count
    return tuple(taken)


def limit_sections(sections: Sequence[Section], each: int = ITEMS, total: int = TOTAL) -> tuple[Section, ...]:
    """The sections cut to ``each`` items and, divided fairly, ``total`` in all; without empty ones."""
    cut = [fit_units(section.units, each) for section in sections]
    rooms = divide_fairly([_size(units) for units in cut], total)
    limited = []
    for section, units, room in zip(sections, cut, rooms, strict=True):
        kept = fit_units(units, room)
        left_out = _size(section.units) - _size(kept)
        if kept:
            limited.append(msgspec.structs.replace(section, units=kept, omitted=section.omitted + left_out))
    return tuple(limited)


def _size(units: Sequence[Unit]) -> int:
    return sum(len(unit.items) for unit in units)


class RenderedText(msgspec.Struct, frozen=True, kw_only=True):
    """A finished text, and the sections cut to what it shows."""

    text: str
    sections: tuple[Section, ...]


def render_markdown(page: Page, characters: int = CHARACTERS) -> RenderedText:
    """The page as Markdown of at most ``characters``, with items as ``- **title** (kind): body``."""
    lines: list[Callable[[Item], str]] = [partial(_format_item, title, body) for title, body in LENGTHS]
    return _fit(page, lines, characters)


def _format_item(title_limit: int, body_limit: int, item: Item) -> str:
    node = item.node
    title = escape(flatten(node.title, title_limit)) or "untitled"
    about = f"{node.kind}; {item.note}" if item.note else node.kind
    body = escape(flatten(node.body, body_limit))
    return f"- **{title}** ({escape(about)})" + (f": {body}\n" if body else "\n")


def render_compact(page: Page, characters: int = CHARACTERS) -> RenderedText:
    """The page as Markdown of at most ``characters``: a heading a section, ``- title`` an item."""
    return _fit(page, [_format_title], characters)


def _format_title(item: Item) -> str:
    title = _STARTS.sub(r"\1\\\2", escape(flatten(item.node.title, TITLE))) or "untitled"
    return f"- {title} ({escape(item.note)})\n" if item.note else f"- {title}\n"


def escape(line: str) -> str:
    """A line as Markdown that shows it literally: without emphasis, code, links, HTML or tables."""
    return _MARKUP.sub(lambda match: "\\" + match[0], line)


def _fit(page: Page, forms: Sequence[Line], characters: int = CHARACTERS) -> RenderedText:
    """The page as text of at most ``characters``.

    ``forms`` are ways to write an item, the longest first: the first that gets everything in is taken. If
    none does, the last one is used, the characters are divided fairly among the sections, and each shows its
    best units whole; what a section leaves unused goes to the others, first come first served. What is left
    out is counted in its ``omitted``.
    """
    lines: Lines = {}
    for form in forms:
        lines = {item.node.id: form(item) for section in page.sections for item in section.items}
        text = _write(page, page.sections, lines)
        if len(text) <= characters:
            return RenderedText(text=text, sections=page.sections)
    bare = [msgspec.structs.replace(section, units=(), omitted=_MANY) for section in page.sections]
    sections = _divide(page.sections, characters - len(_write(page, bare, lines)), lines)
    return RenderedText(text=_write(page, sections, lines), sections=sections)


def _divide(sections: Sequence[Section], room: int, lines: Lines) -> tuple[Section, ...]:
    rooms = divide_fairly([_length(section, lines) for section in sections], max(0, room))
    shown = [_fill(section, part, lines) for section, part in zip(sections, rooms, strict=True)]
    for index, section in enumerate(sections):
        spare = room - sum(_length(other, lines) for other in shown)
        shown[index] = _fill(section, _length(shown[index], lines) + spare, lines)
    return tuple(shown)


def _length(section: Section, lines: Lines) -> int:
    return sum(len(lines[item.node.id]) for item in section.items)


def _fill(section: Section, room: int, lines: Lines) -> Section:
    """The section with the leading units that fit into ``room`` characters; the last may be cut."""
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
