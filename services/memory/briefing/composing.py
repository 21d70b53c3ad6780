"""What an agent needs to know now: the nodes chosen, in sections, as a briefing."""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from services.memory.briefing.choosing import Choice, choose
from services.memory.briefing.disputes import find_disputes
from services.memory.briefing.evidence import add_evidence
from services.memory.briefing.page import Item, Page, Section, Unit, limit
from services.memory.briefing.rendering import escape, render_compact, render_markdown
from services.memory.briefing.scope import Scope, survey
from services.memory.briefing.sections import ORDER, PATTERNS, UNRESOLVED
from shared.contracts import Briefing, BriefingSection, Node
from shared.text.shorten import flatten

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

BODY = 1_000
"""The most characters of a node's body within a briefing; the whole of it is to be had by its id."""

METADATA = 1_000
"""The most characters of its metadata, as JSON; longer ones are left out."""

EMPTY = (
    "Memory holds nothing to tell yet. It fills with what agents remember, with files put into the ingest"
    " folder, and with `mailroom memory add`."
)
UNKNOWN = "Memory knows no agent of this name: here is what concerns everybody."
NODELESS = "Memory has no node for this agent: here is what it wrote itself and what concerns everybody."


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A page, and what it was made of: the scope, the claimed nodes (``disputed`` by a contradiction), the
    evidence.
    """

    page: Page
    scope: Scope
    disputed: frozenset[str]


def compose(view: "View", agent: str, moment: float, *, compact: bool = False) -> Briefing:
    """The briefing of ``agent`` from ``view`` at ``moment`` (seconds since the epoch), its text included.

    Depends on these alone: at another time, from another view of the same version, the text is the same to
    the letter.
    """
    return finish(draft(view, agent, moment), compact=compact)


def draft(view: "View", agent: str, moment: float) -> Draft:
    """Choose what the briefing of ``agent`` shows; the view is not to change meanwhile."""
    scope = survey(view, agent, moment)
    choice = choose(view, scope)
    disputes = find_disputes(view, choice.contradictions, moment)
    disputed = frozenset(item.node.id for unit in disputes for item in unit.items)
    sections = _sort(agent, choice, disputes, disputed)
    evidence = add_evidence(view, sections[PATTERNS], scope, {*choice.places, *disputed})
    sections[PATTERNS] = evidence
    limited = limit(list(sections.values()))
    page = Page(
        agent=agent,
        version=view.version,
        moment=moment,
        consulted=choice.consulted,
        preface=_preface(scope, limited),
        sections=limited,
    )
    return Draft(page=page, scope=scope, disputed=disputed)


def finish(made: Draft, *, compact: bool = False) -> Briefing:
    """Write a draft out, as Markdown or as titles alone; its sections hold what the text shows."""
    page = made.page
    result = render_compact(page) if compact else render_markdown(page)
    stamp = datetime.fromtimestamp(page.moment, UTC).isoformat(timespec="microseconds")
    return Briefing(
        created_at=stamp,
        agent=page.agent,
        version=page.version,
        sections=tuple(
            BriefingSection(
                title=section.title,
                nodes=tuple(_abridge(item.node) for item in section.items),
                omitted=section.omitted,
            )
            for section in result.sections
        ),
        nodes_consulted=page.consulted,
        generated_at=stamp,
        text=result.text,
    )


def _sort(
    agent: str, choice: Choice, disputes: Sequence[Unit], disputed: Collection[str]
) -> dict[str, Section]:
    """All sections in their order, with every unit that belongs there, best first; equal ones by their
    ids.
    """
    units: dict[str, list[Unit]] = {title: [] for title in ORDER}
    for key, spot in choice.places.items():
        if key not in disputed:
            item = Item(node=choice.nodes[key], score=spot.score, note=spot.note)
            units[spot.section].append(Unit(items=(item,)))
    for rest in units.values():
        rest.sort(key=lambda unit: (-unit.items[0].score, unit.items[0].node.id))
    units[UNRESOLVED] = [*disputes, *units[UNRESOLVED]]
    return {
        title: Section(
            title=title,
            ask=escape(ask.format(agent)),
            units=tuple(units[title]),
            omitted=choice.left[title],
            open=title in choice.open,
        )
        for title, ask in ORDER.items()
    }


def _preface(scope: Scope, sections: Iterable[Section]) -> str:
    if not any(sections):
        return EMPTY
    if scope.unknown:
        return UNKNOWN
    return "" if scope.node else NODELESS


def _abridge(node: Node) -> Node:
    metadata = node.metadata if len(msgspec.json.encode(node.metadata)) <= METADATA else {}
    return msgspec.structs.replace(node, body=flatten(node.body, BODY), metadata=metadata, embedding=())
