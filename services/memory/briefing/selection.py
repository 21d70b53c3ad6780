"""Candidates read and put in their places, the best first, until every section has enough."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import compress
from typing import TYPE_CHECKING

import msgspec

from services.memory.briefing.candidates import Candidates, find_candidates
from services.memory.briefing.page import SECTION
from services.memory.briefing.ranking import MIN_WEIGHT, is_flagged, is_uncertain
from services.memory.briefing.scope import AgentScope, Link, find_bound, find_links
from services.memory.briefing.sections import EVENTS, LASTING, SHARED, Facts, Placement, assign_sections
from services.memory.retrieval.precedence import find_questioned
from shared.contracts import Node, Relation

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

BATCH = 32
"""How many candidates of a section are considered at a time."""

ROUNDS = 16
"""How often more of them are."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that have a place by id, their places, and the contradictions among what was considered.

    ``left`` counts the candidates of each section that were not considered, each ranking below those that
    were; in the ``open`` sections there are more. ``consulted`` is the number of all.
    """

    nodes: dict[str, Node]
    places: dict[str, Placement]
    contradictions: list[Link]
    left: dict[str, int]
    open: Collection[str]
    consulted: int


def select_nodes(view: "View", scope: AgentScope) -> Selection:
    """Consider candidates in the order of their rank until every section has enough, those with a
    contradiction in any case, and read what has a place.
    """
    listed = find_candidates(view, scope)
    everything = dict.fromkeys(key for ids in listed.ids.values() for key in ids)
    links = _find_contradictions(view, scope, everything)
    contested = {link.node for link in links}
    own = [scope.node.id] if scope.node else []
    wanted = [*own, *sorted(contested & everything.keys()), *sorted(scope.suspects)]
    spots = _assign_sections(view, scope, [*dict.fromkeys((*everything, *wanted))])
    considered: set[str] = set()
    places: dict[str, Placement] = {}
    read = dict.fromkeys(listed.ids, 0)
    placed = Counter[str]()
    for _ in range(ROUNDS):
        for title in _unfilled(listed, read, placed):
            wanted += listed.ids[title][read[title] : read[title] + BATCH]
            read[title] += BATCH
        if not wanted:
            break
        new = [key for key in dict.fromkeys(wanted) if key not in considered]
        considered.update(new)
        assigned = {key: spots[key] for key in new if key in spots}
        placed.update(spot.section for key, spot in assigned.items() if key not in contested)
        places.update(assigned)
        wanted = []
    nodes = {node.id: node for node in view.nodes(places)}
    places = _leave_out_repeated(nodes, places)
    return Selection(
        nodes=nodes,
        places=places,
        contradictions=[link for link in links if link.node in places or _is_local(link.node, scope)],
        left={title: sum(key not in considered for key in ids) for title, ids in listed.ids.items()},
        open=listed.open,
        consulted=len(considered | everything.keys()),
    )


def _leave_out_repeated(nodes: dict[str, Node], places: dict[str, Placement]) -> dict[str, Placement]:
    """The places without the earlier ones of events that read the same: one agent's, of one title."""
    latest: dict[tuple[str, str], str] = {}
    for key in sorted(places, key=lambda key: nodes[key].created_at):
        if nodes[key].kind in EVENTS:
            latest[nodes[key].source.agent, nodes[key].title] = key
    kept = set(latest.values())
    return {key: place for key, place in places.items() if nodes[key].kind not in EVENTS or key in kept}


def _is_local(node_id: str, scope: AgentScope) -> bool:
    """Whether a node's contradictions concern the agent, though the node itself is not shown."""
    return node_id in scope.near or node_id in scope.ties or node_id in scope.anchors


def _find_contradictions(view: "View", scope: AgentScope, candidates: Iterable[str]) -> list[Link]:
    """The contradictions of candidates and of what is in the agent's neighbourhood and scope."""
    starts = dict.fromkeys((*candidates, *scope.ties, *scope.near, *scope.anchors))
    relations = (Relation.CONTRADICTS,)
    return find_links(view, starts, scope.moment, relations=relations, floor=MIN_WEIGHT)


def _assign_sections(view: "View", scope: AgentScope, ids: list[str]) -> dict[str, Placement]:
    """The places of those nodes that have one, by id."""
    nodes = view.describe(ids)
    may_be_shared = nodes.of_kinds(*SHARED).tolist()
    flagged, uncertain = _read_suspects(view, scope)
    facts = Facts(
        bound=find_bound(view, compress(ids, may_be_shared), scope.moment),
        questioned=find_questioned(view.graph, ids, scope.moment),
        flagged=flagged,
        uncertain=uncertain,
    )
    return assign_sections(ids, nodes, scope, facts)


def _read_suspects(view: "View", scope: AgentScope) -> tuple[set[str], set[str]]:
    """Those of the suspects whose metadata ask for a review, and those that say that little is sure."""
    nodes = view.nodes(scope.suspects)
    flagged = (node for node in nodes if is_flagged(node, but="generic" if node.kind in LASTING else ""))
    return {node.id for node in flagged}, {node.id for node in nodes if is_uncertain(node)}


def _unfilled(listed: Candidates, read: Mapping[str, int], placed: Mapping[str, int]) -> list[str]:
    """The sections that have candidates left and not yet enough undisputed nodes ``placed``."""
    return [title for title, ids in listed.ids.items() if placed[title] < SECTION and read[title] < len(ids)]
