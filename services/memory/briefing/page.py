"""A briefing's page: sections of items that stay together (contradictions, patterns with what supports them),
and its Markdown within a limit of characters.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from services.memory.briefing.scope import (
    MIN_IMPORTANCE,
    MIN_WEIGHT,
    AgentScope,
    Link,
    find_links,
    is_current,
    is_private,
    rank,
)
from services.memory.ingest.pieces import SEPARATOR
from shared.contracts import Node, Relation
from shared.text.display import ELLIPSIS, flatten, shorten
from shared.text.prose import STOP_WORDS, split_sentences

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

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

HEADROOM = 4  # Of a body that says something twice, so many times the wanted characters are looked at

DETAILED = 3  # How many of these are tried to get in what is near too

GIST = 20  # The most characters of an item in the compact form

_FILLERS = STOP_WORDS - {"who", "what", "when", "which", "from", "to"}
"""English words that the compact form leaves out."""

_WORD = re.compile(r"[^\W_]+")

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

    def cut(self, count: int) -> "Unit":
        """The first ``count`` of them."""
        return msgspec.structs.replace(self, items=self.items[:count])


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
        body = _continue(title, item.body or _tell_body(node), own_limit if item.tier == OWN else body_limit)
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
    """The page as Markdown within ``limits``: a heading a section, and of each item the gist of its title."""
    return _fit(page, [_format_titles], limits or Limits(), compact=True)


def _format_titles(unit: Unit) -> list[str]:
    lines: list[str] = []
    for item in unit.items:
        told = _abbreviate(flatten(item.node.title, 256).rpartition(SEPARATOR)[2])
        title = _STARTS.sub(r"\1\\\2", escape(told)) or "untitled"
        note = f" ({escape(item.note)})" if item.note in (FIRST_NOTE, NEXT_NOTE, LATER_NOTE) else ""
        begins = f"- {escape(unit.head)}: " if unit.head and not lines else "; " if unit.head else "- "
        lines.append(f"{begins}{title}{note}" + ("" if unit.head else "\n"))
    return lines


def _abbreviate(title: str) -> str:
    """The first words of a title without _FILLERS."""
    words = title.split(" ")
    told = " ".join([word for word in words if word.casefold() not in _FILLERS] or words).rstrip(" .")
    return shorten(told[:1].upper() + told[1:], GIST)


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
    room = limits.characters - len(_write(page, (), {}, compact))
    filled: dict[Form, _Filling] = {}
    for needed, tried in ((2 + NEAR, forms[:DETAILED]), (2 + SHARED, forms), (1, forms[DETAILED - 1 :])):
        for form in tried:
            filled[form] = filled.get(form) or _fill(page, queue, form, room, limits.total, compact)
            if filled[form].missed > needed:
                return _finish(page, filled[form], compact)
    return _finish(page, filled[form], compact)


def _finish(page: Page, filling: "_Filling", compact: bool) -> RenderedText:
    sections = []
    for index, units in sorted(filling.kept.items()):
        section = page.sections[index]
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
    return sorted(queue, key=lambda each: each[:3])


class _Filling(NamedTuple):
    """What a text has room for: units by the number of their section, their lines, and the turn of the first
    unit that did not fit, else infinity.
    """

    kept: dict[int, list[Unit]]
    lines: dict[str, str]
    missed: float


def _fill(page: Page, queue: Iterable[_Turn], form: Form, room: int, places: int, compact: bool) -> _Filling:
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
        spent = (
            0 if turn.section in kept else len(_head(section, compact)) + len(_tail(section, _MANY, compact))
        )
        items, written = turn.unit.items, form(turn.unit)
        lines.update((item.node.id, line) for item, line in zip(items, written, strict=True))
        ends = list(accumulate(map(len, written), initial=spent + bool(turn.unit.head)))
        count = min(sum(end <= room for end in ends[1:]), places)
        if count >= turn.unit.least:
            kept.setdefault(turn.section, []).append(turn.unit.cut(count))
            room, places = room - ends[count], places - count
        if count < len(items):
            closed.add(turn.section)
            missed = min(missed, turn.turn)
    return _Filling(kept, lines, missed)


def _write(page: Page, sections: Sequence[Section], lines: Lines, compact: bool) -> str:
    made = datetime.fromtimestamp(page.moment, UTC).isoformat(timespec="seconds")
    nodes = "node" if page.consulted == 1 else "nodes"
    title = f"# Briefing for {escape(page.agent)}\n"
    about = f"\nGraph version {page.version}, made {made}, {page.consulted:,} {nodes} consulted.\n"
    parts = [title, f"Version {page.version}, made {made}.\n" if compact else about]
    if page.preface:
        parts.append(f"\n{page.preface}\n")
    for section in sections:
        parts.append(_head(section, compact))
        for unit in section.units:
            parts += (lines[item.node.id] for item in unit.items)
            parts.append("\n" if unit.head else "")
        parts.append(_tail(section, section.omitted, compact))
    return "".join(parts)


def _head(section: Section, compact: bool) -> str:
    return f"## {section.title}\n" if compact else f"\n## {section.title}\n\n"


def _tail(section: Section, omitted: int, compact: bool) -> str:
    """How many items are left out, and but for the compact form how to get them; empty for none."""
    number = f"at least {omitted:,}" if section.open else f"{omitted:,}"
    how = "" if compact else f": ask memory about {section.ask}"
    return f"\n_And {number} more{how}._\n" if omitted else ""


MAX_SIDES = 200  # The most nodes with contradictions that are considered

FIRST_NOTE = "disputed"

NEXT_NOTE = "contradicts the one above"

LATER_NOTE = "contradicts one of those above"

OBSERVATIONS = 2  # The most observations under one pattern

PATTERNS_FIRST = 7  # How many of the first patterns have observations below them

EVIDENCE = 10  # The most observations below all of them

SUPPORTING = (Relation.INSTANCE_OF, Relation.INFORMED_BY, Relation.LED_TO)
"""The relations between an observation and the pattern that it supports, in either direction."""

SUPPORT_NOTE = "supports the pattern above"


def find_disputes(
    view: "View", links: Sequence[Link], tiers: Mapping[str, int], scope: AgentScope
) -> list[Unit]:
    """Units of nodes that contradict each other, the gravest first, a node and its opposite at the head.

    Both sides hold, of at least MIN_IMPORTANCE, and neither is private to another agent. A unit's score is 1
    more than that of its first pair, so that contradictions come before other open questions; it gets room
    with the first of its nodes that has a place: ``tiers`` has those of all that have one.
    """
    moment = scope.moment
    ids = sorted({end for link in links for end in (link.node, link.other)})[-MAX_SIDES:]
    superseded = view.find_superseded(ids)
    sides = {
        node.id: node
        for node in view.nodes(ids)
        if node.id not in superseded and _is_open(node, moment) and not is_private(node, scope.agent)
    }
    pairs = _weigh(links, sides, moment)
    units = []
    while pairs:
        unit = _assemble(pairs, sides)
        tier = min((tiers[item.node.id] for item in unit.items if item.node.id in tiers), default=SHARED)
        items = tuple(msgspec.structs.replace(item, tier=min(tier, SHARED)) for item in unit.items)
        units.append(Unit(items=items, least=unit.least))
    return units


def _is_open(node: Node, moment: float) -> bool:
    """Whether a node can be a side of a contradiction that is shown."""
    return node.importance >= MIN_IMPORTANCE and is_current(node, moment)


def _weigh(links: Sequence[Link], sides: Mapping[str, Node], moment: float) -> dict[tuple[str, str], float]:
    """The pairs of nodes and their scores, best first: the better side's rank by the weight of the edge."""
    pairs: dict[tuple[str, str], float] = {}
    for link in links:
        if link.node in sides and link.other in sides:
            pair = (min(link.node, link.other), max(link.node, link.other))
            score = max(rank(sides[end], link.weight, moment) for end in pair)
            pairs[pair] = max(score, pairs.get(pair, 0.0))
    return dict(sorted(pairs.items(), key=lambda entry: (-entry[1], entry[0])))


def _assemble(pairs: dict[tuple[str, str], float], sides: Mapping[str, Node]) -> Unit:
    """Remove the best pair and all pairs connected with it; each node comes after one it contradicts."""
    (first, second), score = next(iter(pairs.items()))
    ids = [first, second]
    opposites = set(pairs)
    while pair := next((pair for pair in pairs if (pair[0] in ids) != (pair[1] in ids)), None):
        ids.append(pair[1] if pair[0] in ids else pair[0])
    for pair in [pair for pair in pairs if pair[0] in ids]:
        del pairs[pair]
    items = []
    for place, node_id in enumerate(ids):
        above = ids[place - 1] if place else ""
        note = NEXT_NOTE if (min(above, node_id), max(above, node_id)) in opposites else LATER_NOTE
        items.append(Item(node=sides[node_id], score=1 + score, note=note if place else FIRST_NOTE))
    return Unit(items=tuple(items), least=2)


def add_evidence(view: "View", section: Section, scope: AgentScope, elsewhere: Container[str]) -> Section:
    """The section of patterns with the best supporting observations below each, as many as fit.

    Each of the first patterns gets its best one before any gets a second.
    """
    patterns = section.units[:PATTERNS_FIRST]
    support = _find_support(view, [unit.items[0].node.id for unit in patterns], scope, elsewhere)
    room = EVIDENCE
    given: dict[str, list[Item]] = {node_id: [] for node_id in support}
    for turn in range(OBSERVATIONS):
        for node_id, items in support.items():
            if room and len(items) > turn:
                given[node_id].append(items[turn])
                room -= 1
    units = [
        Unit(items=(*unit.items, *given.get(unit.items[0].node.id, ()))) if unit in patterns else unit
        for unit in section.units
    ]
    return msgspec.structs.replace(section, units=tuple(units))


def _find_support(
    view: "View", patterns: list[str], scope: AgentScope, elsewhere: Container[str]
) -> dict[str, list[Item]]:
    """The observations of each pattern, best first; each is shown below one pattern only."""
    links = find_links(
        view,
        patterns,
        scope.moment,
        relations=SUPPORTING,
        floor=MIN_WEIGHT,
        kinds=("observation",),
    )
    ids = {link.other for link in links}
    superseded = view.find_superseded([*ids])
    found = (node for node in view.nodes(ids) if not is_private(node, scope.agent))
    nodes = {node.id: node for node in found if _is_open(node, scope.moment)}
    best: dict[tuple[str, str], Item] = {}
    for link in links:
        if link.other in nodes and link.other not in superseded and link.other not in elsewhere:
            score = rank(nodes[link.other], link.weight, scope.moment)
            old = best.get((link.node, link.other))
            if old is None or score > old.score:
                best[link.node, link.other] = Item(node=nodes[link.other], score=score, note=SUPPORT_NOTE)
    taken: set[str] = set()
    support: dict[str, list[Item]] = {}
    for pattern in patterns:
        mine = [item for (owner, other), item in best.items() if owner == pattern and other not in taken]
        support[pattern] = sorted(mine, key=lambda item: (-item.score, item.node.id))[:OBSERVATIONS]
        taken.update(item.node.id for item in support[pattern])
    return support
