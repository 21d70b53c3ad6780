"""A briefing's page: sections of items that stay together (contradictions, patterns with what supports them),
and its Markdown within a limit of characters.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import accumulate
from math import inf
from typing import NamedTuple

import msgspec

from services.memory.ingest.pieces import SEPARATOR
from shared.contracts import Node
from shared.text.display import ELLIPSIS, flatten, shorten
from shared.text.prose import STOP_WORDS, split_sentences

SECTION = 100  # The most items of a section, unless a query says otherwise: its room ends before that

TOTAL = 400  # The most items of a briefing

CHARACTERS = 8_000
"""The most characters of a briefing's text, headings and all, unless a query says otherwise."""

QUOTA = 3  # The items of a section that get room before other sections have more: a minimum, no limit

OWN, SHARED, NEAR, REST = range(4)
"""The tiers by which items get room: what an agent is bound by, what concerns all, what is near, all else."""

LENGTHS = ((256, 1_000, 400), (256, 400, 200), (256, 400, 120), (160, 200, 80), (120, 200, 0))
"""The most characters of a title, of the body of an OWN item, and of any other body, the longest first."""

FIRST_NOTE = "disputed"

NEXT_NOTE = "contradicts the one above"

LATER_NOTE = "contradicts one of those above"

EARLIER_NOTE = "earlier"  # Of what stands behind something newer that is said of the same thing

ENDS = ".:;!?"  # What may stand between a title and the rest of a body that begins with it

HEADROOM = 4  # Of a body that says something twice, so many times the wanted characters are looked at

DETAILED = 3  # How many of these are tried to get in what is near too

GIST = 14  # The most characters of an item in the compact form

_NEGATIONS = frozenset("no not never nobody nothing none without".split())

_FILLERS = STOP_WORDS - _NEGATIONS - {"who", "what", "when", "which"}
"""English words that the compact form leaves out."""

_WORD = re.compile(r"[^\W_]+")

_AROUND = " *_`.,:;!?()[]{}\"'“”‘’…"  # What stands around words

_BLACK = re.compile(r"\S+")

_DAY = re.compile(r" \(\d{4}-\d\d-\d\d\)$")  # The day in the title of an event of a goal

_CLAUSE = re.compile(r"[,;:(]\s| \(| because | until | so that ")
"""Where a title has said the most."""

BETWEEN = "; "  # What stands between the items of a section in the compact form

_STARTS = re.compile(r"^(\d{0,9})([-#>+=.)])")
"""What at the start of a line makes a heading, a list or a quotation of it."""

_MARKUP = re.compile(r"[\\`*\[|~]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])")
"""Markup within a line of Markdown; an underscore inside a word is none, nor a "<" before a space."""

LEFT = "\n_Ask memory for what is left out._\n"  # The end of a page on which something is

_MANY = 9_999_999
"""The highest number of omitted items: its digits are reserved, so that the number always fits."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A node in a briefing; ``note`` says how it is connected: "applies to", "contradicts the one above"."""

    node: Node
    score: float
    note: str = ""
    tier: int = SHARED
    is_common: bool = False
    """Whether others are told it too, and it is nearer to them."""
    is_plain: bool = False
    """Whether its section says its kind already."""
    body: str = ""
    """What is told in place of the node's body, if anything is."""


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """Items that belong together, of which at least the first ``least`` are shown.

    Those of a ``head`` share a line: it is the heading that their titles begin with.
    """

    items: tuple[Item, ...]
    least: int = 1
    head: str = ""

    @property
    def is_common(self) -> bool:
        """Whether others are told most of it too."""
        return 2 * sum(item.is_common for item in self.items) > len(self.items)

    @property
    def lines(self) -> int:
        """How many lines it takes."""
        return 1 if self.head else len(self.items)

    def cut(self, count: int) -> "Unit":
        """The first ``count`` of them."""
        return msgspec.structs.replace(self, items=self.items[:count])


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A section, best units first; ``omitted`` counts what is left out."""

    title: str
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


Form = Callable[[Unit], list[str]]  # Writes the items of a unit: each as a line, or as its part of one

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
    forms: list[Form] = [partial(_format_unit, *lengths) for lengths in LENGTHS]
    return _fit(page, forms, limits or Limits())


def _format_unit(title_limit: int, own_limit: int, body_limit: int, unit: Unit) -> list[str]:
    lines: list[str] = []
    for item in unit.items:
        node, begins = item.node, not lines
        title = flatten(node.title, title_limit)
        limit = 0 if item.note == EARLIER_NOTE else own_limit if item.tier == OWN else body_limit
        body = _continue(title, item.body or _tell_body(node), limit)
        if unit.head:
            told = title.removeprefix(f"{unit.head}{SEPARATOR}")
            is_cut = body.startswith(ELLIPSIS)
            told = f"{told[:-1]} {body[1:]}" if is_cut else ": ".join(filter(None, (told, body)))
            title, body = unit.head, told.rstrip(".")
        kind = "" if item.is_plain or unit.head else node.kind
        about = escape("; ".join(filter(None, (kind, item.note))))
        line = f"- **{escape(title) or 'untitled'}**" + (f" ({about})" if about else "")
        line = f"{line}: {escape(body)}" if body else line
        lines.append((line if begins else f"; {escape(body)}") if unit.head else f"{line}\n")
    return lines


def _tell_body(node: Node) -> str:
    """Its body; of an agent what it is, without how others ask it for something."""
    return node.body.partition("\n\n")[0] if node.kind == "agent" else node.body


@lru_cache(4_096)
def _continue(title: str, body: str, limit: int) -> str:
    """What the body says beyond the title, with or without its heading, on a line of at most ``limit``
    characters: without sentences that the title has, and without the title as their beginning.
    """
    said, begins = f" {_words(title)} ", title.removesuffix(ELLIPSIS).rstrip(" .")
    sentences = split_sentences(body[: HEADROOM * (limit + len(title))]) if limit else ()
    kept = " ".join(each for each in sentences if f" {_words(each)} " not in said)
    text = flatten(kept, len(begins) + limit)
    for begun in (begins, begins.rpartition(SEPARATOR)[2]):
        if begun and text.startswith(begun) and text[len(begun) : len(begun) + 1] in (" ", ELLIPSIS, *ENDS):
            rest = text[len(begun) :].lstrip(f" {ENDS}")
            return f"{ELLIPSIS}{rest}" if rest and title.endswith(ELLIPSIS) else rest
    return flatten(text, limit) if limit else ""


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def render_compact(page: Page, limits: Limits | None = None) -> RenderedText:
    """The page as Markdown within ``limits``: a heading a section, and the gist of each item on one line."""
    return _fit(page, [_format_gists], limits or Limits(), compact=True)


def _format_gists(unit: Unit) -> list[str]:
    pieces = []
    for item in unit.items:
        told = _abbreviate(flatten(item.node.title, 256).rpartition(SEPARATOR)[2])
        gist = _STARTS.sub(r"\1\\\2", escape(told)) or "untitled"
        pieces.append(f"{'vs ' if item.note in (NEXT_NOTE, LATER_NOTE) else ''}{gist}{BETWEEN}")
    return pieces


def _abbreviate(title: str) -> str:
    """The most telling words of a title, in their order, as many as have room."""
    first = len(_CLAUSE.split(title, maxsplit=1)[0])
    words = [(_bare(found[0]), found.start() < first) for found in _BLACK.finditer(_DAY.sub("", title))]
    words = [each for each in words if each[0] and each[0].casefold() not in _FILLERS] or words
    order = sorted(range(len(words)), key=lambda place: -_weigh_word(place, *words[place]))
    room, taken = GIST + 1, list[int]()
    for place in order:
        if len(words[place][0]) < room or not taken:
            taken.append(place)
            room -= len(words[place][0]) + 1
    told = " ".join(words[place][0] for place in sorted(taken))
    return shorten(told[:1].upper() + told[1:], GIST)


def _bare(word: str) -> str:
    """A word without what stands around it; of a path the last part."""
    return word.strip(_AROUND).rpartition("/")[2]


def _weigh_word(place: int, word: str, is_first: bool) -> float:
    """How much a word tells by its form and its place: names, numbers, negations, and long words do most."""
    names = 1.0 if word[:1].isupper() or word in _NEGATIONS else 0.5 * (not word.isalpha())
    return names + min(len(word), 8) / 8 + is_first + (place == 0) / 2


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


def _fit(page: Page, forms: Sequence[Form], limits: Limits, *, compact: bool = False) -> RenderedText:
    """The page as text within ``limits``.

    ``forms`` are ways to write an item, the longest first. Of the first DETAILED of them that one is taken
    which gets in everything but the REST; else the first of all that gets in what is OWN and SHARED; else
    the first from the last of those DETAILED on that gets in what is OWN; else the last.
    """
    queue = _queue(page.sections, limits.section)
    room = limits.characters - len(_write(page, (), {}, compact)) - len(LEFT)
    filled: dict[Form, _Filling] = {}
    for needed, tried in ((2 + NEAR, forms[:DETAILED]), (2 + SHARED, forms), (1, forms[DETAILED - 1 :])):
        for form in tried:
            filled[form] = filled.get(form) or _fill(page, queue, form, room, limits.total, compact)
            if filled[form].missed > needed:
                return _finish(page, filled[form], compact)
    return _finish(page, filled[form], compact)


def _finish(page: Page, filling: "_Filling", compact: bool) -> RenderedText:
    sections = []
    for index, kept in sorted(filling.kept.items()):
        section = page.sections[index]
        units = [kept[unit.items[0].node.id] for unit in section.units if unit.items[0].node.id in kept]
        cut = msgspec.structs.replace(section, units=tuple(units))
        omitted = section.omitted + len(section.items) - len(cut.items)
        sections.append(msgspec.structs.replace(cut, omitted=omitted))
    return RenderedText(text=_write(page, sections, filling.lines, compact), sections=tuple(sections))


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
    return _alternate(sorted(queue, key=lambda each: each[:3]))


def _alternate(queue: Iterable[_Turn]) -> list[_Turn]:
    """The turns, what others are told too behind as many lines of what they are not, while there are any."""
    placed, held, more = list[_Turn](), deque[_Turn](), 0
    for turn in queue:
        if turn.unit.is_common:
            held.append(turn)
        else:
            placed.append(turn)
            more += turn.unit.lines
        while held and held[0].unit.lines <= more:
            more -= held[0].unit.lines
            placed.append(held.popleft())
    return [*placed, *held]


class _Filling(NamedTuple):
    """What a text has room for: units by the number of their section and their first node, the lines of their
    items, and the turn of the first unit that did not fit, else infinity.
    """

    kept: dict[int, dict[str, Unit]]
    lines: dict[str, str]
    missed: float


def _fill(page: Page, queue: Iterable[_Turn], form: Form, room: int, places: int, compact: bool) -> _Filling:
    """What of ``queue`` fits into so many characters and items.

    What a section has after a unit that did not fit is left out too, so that it shows its best.
    """
    lines: dict[str, str] = {}
    kept: dict[int, dict[str, Unit]] = {}
    closed: set[int] = set()
    missed = inf
    for turn in queue:
        if turn.section in closed:
            continue
        section = page.sections[turn.section]
        spent = 0 if turn.section in kept else len(_head(section, compact)) + len(_tail(section, _MANY))
        items, written = turn.unit.items, form(turn.unit)
        lines.update((item.node.id, line) for item, line in zip(items, written, strict=True))
        ends = list(accumulate(map(len, written), initial=spent + bool(turn.unit.head)))
        count = min(sum(end <= room for end in ends[1:]), places)
        if count >= turn.unit.least:
            kept.setdefault(turn.section, {})[items[0].node.id] = turn.unit.cut(count)
            room, places = room - ends[count], places - count
        if count < len(items):
            closed.add(turn.section)
            missed = min(missed, turn.turn)
    return _Filling(kept, lines, missed)


def _write(page: Page, sections: Sequence[Section], lines: Lines, compact: bool) -> str:
    made = datetime.fromtimestamp(page.moment, UTC).isoformat(timespec="seconds")
    nodes = "node" if page.consulted == 1 else "nodes"
    title = f"# Briefing for {escape(page.agent)}"
    about = f"\n\nGraph version {page.version}, made {made}, {page.consulted:,} {nodes} consulted.\n"
    parts = [title, f", version {page.version}, {made[:16]}\n" if compact else about]
    if page.preface:
        parts.append(f"\n{page.preface}\n")
    for section in sections:
        told = [
            "".join(lines[item.node.id] for item in unit.items) + "\n" * (bool(unit.head) and not compact)
            for unit in section.units
        ]
        listed = "".join(told)
        parts += [_head(section, compact), listed.removesuffix(BETWEEN) + "\n" if compact else listed]
        parts.append(_tail(section, section.omitted))
    left = any(section.omitted for section in sections)
    return "".join(parts) + (LEFT if left else "")


def _head(section: Section, compact: bool) -> str:
    return f"## {section.title}\n" if compact else f"\n## {section.title}\n\n"


def _tail(section: Section, omitted: int) -> str:
    """How many items are left out; empty for none."""
    number = f"at least {omitted:,}" if section.open else f"{omitted:,}"
    return f"\n_And {number} more._\n" if omitted else ""
