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
from shared.contracts import Node, Relation
from shared.text.display import flatten

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
