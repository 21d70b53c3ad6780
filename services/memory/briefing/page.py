"""A briefing's page: sections of items that stay together, and its Markdown within a limit of characters."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import accumulate
from math import inf
from typing import NamedTuple

import msgspec

from shared.contracts import Node
from shared.text.display import flatten

SECTION = 100  # The most items of a section, unless a query says otherwise: its room ends before that

TOTAL = 400  # The most items of a briefing

CHARACTERS = 8_000
"""The most characters of a briefing's text, headings and all, unless a query says otherwise."""

QUOTA = 3  # The items of a section that get room before other sections have more: a minimum, no limit

OWN, SHARED, NEAR, REST = range(4)
"""The tiers by which items get room: what an agent is bound by, what concerns all, what is near, all else."""

LENGTHS = ((256, 1_000, 400), (256, 400, 200), (256, 400, 120), (160, 200, 80), (120, 200, 0))
"""The most characters of a title, of the body of an OWN item, and of any other body, the longest first."""

ENDS = ".:;!?"  # What may stand between a title and the rest of a body that begins with it

DETAILED = 3  # How many of these are tried to get in what is near too

TITLE = 100  # The most characters of a title

BULLET = re.compile(r"^\s*[-*+•]\s+")  # The mark of a list at the start of a body

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
    tier: int = SHARED


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Items that belong together, of which at least the first ``least`` are shown."""

    items: tuple[Item, ...]
    least: int = 1

    def cut(self, count: int) -> "Unit":
        """The first ``count`` of them."""
        return self if count == len(self.items) else Unit(items=self.items[:count], least=self.least)


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


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The most characters of a text, and the most items of one of its sections and in all."""

    characters: int = CHARACTERS
    section: int = SECTION
    total: int = TOTAL


Line = Callable[[Item], str]  # Writes an item as one line

Lines = Mapping[str, str]  # The line of each item by its node's id: a page has an item once


def fit_units(units: Sequence[Unit], room: int) -> tuple[Unit, ...]:
    """The units, whole or their beginnings, that fit into ``room`` items, in order."""
    taken = []
    for unit in units:
        count = min(len(unit.items), room)
        if not room:
            break
        if count >= unit.least:
            taken.append(unit.cut(count))
            room -= count
    return tuple(taken)


class RenderedText(msgspec.Struct, frozen=True, kw_only=True):
    """A finished text, and the sections cut to what it shows."""

    text: str
    sections: tuple[Section, ...]


def render_markdown(page: Page, limits: Limits | None = None) -> RenderedText:
    """The page as Markdown within ``limits``, with items as ``- **title** (kind): body``."""
    lines: list[Line] = [partial(_format_item, *lengths) for lengths in LENGTHS]
    return _fit(page, lines, limits or Limits())


def _format_item(title_limit: int, own_limit: int, body_limit: int, item: Item) -> str:
    node = item.node
    title = flatten(node.title, title_limit)
    body = _continue(title, node.body, own_limit if item.tier == OWN else body_limit)
    about = f"{node.kind}; {item.note}" if item.note else node.kind
    return f"- **{escape(title) or 'untitled'}** ({escape(about)})" + (
        f": {escape(body)}\n" if body else "\n"
    )


def _continue(title: str, body: str, limit: int) -> str:
    """The body in one line of at most ``limit`` characters, without the title that it may begin with."""
    begun = title.removesuffix("…").rstrip(" .")
    text = flatten(BULLET.sub("", body), len(begun) + limit) if limit else ""
    following = text[len(begun) : len(begun) + 1]
    if not begun or not text.startswith(begun) or (following not in " …" and following not in ENDS):
        return flatten(body, limit) if limit else ""
    rest = text[len(begun) :].lstrip(f" {ENDS}")
    return f"…{rest}" if rest and title.endswith("…") else rest


def render_compact(page: Page, limits: Limits | None = None) -> RenderedText:
    """The page as Markdown within ``limits``: a heading a section, ``- title`` an item."""
    return _fit(page, [_format_title], limits or Limits())


def _format_title(item: Item) -> str:
    title = _STARTS.sub(r"\1\\\2", escape(flatten(item.node.title, TITLE))) or "untitled"
    return f"- {title} ({escape(item.note)})\n" if item.note else f"- {title}\n"


@lru_cache(1_024)
def escape(line: str) -> str:
    """A line as Markdown that shows it literally: without emphasis, code, links, HTML or tables."""
    return _MARKUP.sub(lambda match: "\\" + match[0], line)


Precedence = tuple[int, bool, float, str]


def precedence(item: Item) -> Precedence:
    """The order of items: by tier; of what is OWN, decisions and preferences before facts; then by score."""
    return item.tier, item.tier == OWN and item.node.kind == "fact", -item.score, item.node.id


class _Turn(NamedTuple):
    """When a unit gets room; ``place`` is its place in the section numbered ``section``."""

    turn: int
    place: int
    order: Precedence
    section: int
    unit: Unit


def _fit(page: Page, forms: Sequence[Line], limits: Limits) -> RenderedText:
    """The page as text within ``limits``.

    ``forms`` are ways to write an item, the longest first. Of the first DETAILED of them that one is taken
    which gets in everything but the REST; else the first of all that gets in what is OWN and SHARED; else
    the first from the last of those DETAILED on that gets in what is OWN; else the last.
    """
    queue = _queue(page.sections, limits.section)
    room = limits.characters - len(_write(page, (), {}))
    filled: dict[Line, _Filling] = {}
    for needed, tried in ((2 + NEAR, forms[:DETAILED]), (2 + SHARED, forms), (1, forms[DETAILED - 1 :])):
        for form in tried:
            filled[form] = filled.get(form) or _fill(page, queue, form, room, limits.total)
            if filled[form].missed > needed:
                return _finish(page, filled[form])
    return _finish(page, filled[form])


def _finish(page: Page, filling: "_Filling") -> RenderedText:
    sections = []
    for index, units in sorted(filling.kept.items()):
        section = page.sections[index]
        cut = msgspec.structs.replace(section, units=tuple(units))
        omitted = section.omitted + len(section.items) - len(cut.items)
        sections.append(msgspec.structs.replace(cut, omitted=omitted))
    return RenderedText(text=_write(page, sections, filling.lines), sections=tuple(sections))


def _queue(sections: Sequence[Section], each: int) -> list[_Turn]:
    """The units that a text may have, at most ``each`` items of a section, in the order that they get room.

    First comes the best of each section, then what is OWN, then up to QUOTA of each section, then the others
    by their tiers.
    """
    queue = []
    for index, section in enumerate(sections):
        for place, unit in enumerate(fit_units(section.units, each)):
            head = unit.items[0]
            turn = 2 + head.tier if place >= QUOTA else 2
            turn = 0 if place == 0 else 1 if head.tier == OWN else turn
            queue.append(_Turn(turn, place if turn == 2 else 0, precedence(head), index, unit))
    return sorted(queue, key=lambda each: each[:3])


class _Filling(NamedTuple):
    """What a text has room for: units by the number of their section, their lines, and the turn of the first
    unit that did not fit, else infinity.
    """

    kept: dict[int, list[Unit]]
    lines: dict[str, str]
    missed: float


def _fill(page: Page, queue: Iterable[_Turn], form: Line, room: int, places: int) -> _Filling:
    """What of ``queue`` fits into so many characters and items.

    What a section has after a unit that did not fit is left out too, so that it shows its best.
    """
    lines: dict[str, str] = {}
    kept: dict[int, list[Unit]] = {}
    closed: set[int] = set()
    missed = inf
    for turn in queue:
        if turn.section in closed:
            continue
        section = page.sections[turn.section]
        spent = 0 if turn.section in kept else len(_head(section)) + len(_tail(section, _MANY))
        items = turn.unit.items
        lines.update((item.node.id, form(item)) for item in items)
        ends = list(accumulate((len(lines[item.node.id]) for item in items), initial=spent))
        count = min(sum(end <= room for end in ends[1:]), places)
        if count >= turn.unit.least:
            kept.setdefault(turn.section, []).append(turn.unit.cut(count))
            room, places = room - ends[count], places - count
        if count < len(items):
            closed.add(turn.section)
            missed = min(missed, turn.turn)
    return _Filling(kept, lines, missed)


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
        parts += (_head(section), *(lines[item.node.id] for item in section.items))
        parts.append(_tail(section, section.omitted))
    return "".join(parts)


def _head(section: Section) -> str:
    return f"\n## {section.title}\n\n"


def _tail(section: Section, omitted: int) -> str:
    """How many items are left out, and how to get them; empty for none."""
    number = f"at least {omitted:,}" if section.open else f"{omitted:,}"
    return f"\n_And {number} more: ask memory about {section.ask}._\n" if omitted else ""
