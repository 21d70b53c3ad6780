"""Candidates read and put in their places, the best first, until every section has enough."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from services.memory.briefing.candidates import Candidates, find_candidates
from services.memory.briefing.links import EdgeFacts, Link, find_bound, find_links
from services.memory.briefing.page import SECTION
from services.memory.briefing.ranking import MIN_WEIGHT
from services.memory.briefing.scope import AgentScope
from services.memory.briefing.sections import EVENTS, SHARED, Placement, assign_section
from services.memory.linking.open_questions import find_questioned
from shared.contracts import Node, Relation
from shared.memory.ownership import find_owner

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

BATCH = 32
"""How many candidates of a section are read at a time."""

ROUNDS = 16
"""How often more of them are read."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates that were read by id, the places of those that have one, and the contradictions among
    them.

    ``left`` counts the candidates of each section that were not read, each ranking below those that were;
    in the ``open`` sections there are more. ``consulted`` is the number of nodes that were considered.
    """

    nodes: dict[str, Node]
    places: dict[str, Placement]
    contradictions: list[Link]
    left: dict[str, int]
    open: Collection[str]
    consulted: int


def select_nodes(view: "View", scope: AgentScope) -> Selection:
    """Read candidates in the order of their rank, those with a contradiction in any case, and place them."""
    listed = find_candidates(view, scope)
    everything = dict.fromkeys(key for ids in listed.ids.values() for key in ids)
    links = _find_contradictions(view, scope, everything)
    contested = {link.node for link in links}
    nodes: dict[str, Node] = {}
    places: dict[str, Placement] = {}
    read = dict.fromkeys(listed.ids, 0)
    placed = Counter[str]()
    own = [scope.node.id] if scope.node else []
    wanted = [*own, *sorted(contested & everything.keys()), *sorted(scope.suspects)]
    for _ in range(ROUNDS):
        for title in _unfilled(listed, read, placed):
            wanted += listed.ids[title][read[title] : read[title] + BATCH]
            read[title] += BATCH
        if not wanted:
            break
        new = view.nodes(key for key in dict.fromkeys(wanted) if key not in nodes)
        nodes.update((node.id, node) for node in new)
        assigned = _assign_sections(view, scope, new)
        placed.update(spot.section for key, spot in assigned.items() if key not in contested)
        places.update(assigned)
        wanted = []
    places = _leave_out_repeated(nodes, places)
    return Selection(
        nodes=nodes,
        places=places,
        contradictions=[link for link in links if link.node in places or _is_local(link.node, scope)],
        left={title: sum(key not in nodes for key in ids) for title, ids in listed.ids.items()},
        open=listed.open,
        consulted=len(nodes.keys() | everything.keys()),
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


def _assign_sections(view: "View", scope: AgentScope, nodes: Iterable[Node]) -> dict[str, Placement]:
    """The places of those nodes that have one, by id."""
    nodes = list(nodes)
    facts = _read_edges(view, scope, nodes)
    cosines = view.measure([node.id for node in nodes], scope.direction)[2].tolist()
    spots = (assign_section(node, scope, facts, cosine) for node, cosine in zip(nodes, cosines, strict=True))
    return {node.id: spot for node, spot in zip(nodes, spots, strict=True) if spot}


def _read_edges(view: "View", scope: AgentScope, nodes: list[Node]) -> EdgeFacts:
    """What the edges say of these nodes: what may have been superseded counts as if it were, but for the
    agent's own notes. That is asked elsewhere, if there is room.
    """
    ids = [node.id for node in nodes]
    shared = [node.id for node in nodes if node.kind in SHARED]
    superseded = view.find_superseded(ids)
    own = {node.id for node in nodes if find_owner(node) == scope.agent}
    superseded.update(find_questioned(view.graph, ids, scope.moment).keys() - own)
    return EdgeFacts(
        bound=find_bound(view, shared, scope.moment),
        superseded=superseded,
        ties=scope.ties,
    )


def _unfilled(listed: Candidates, read: Mapping[str, int], placed: Mapping[str, int]) -> list[str]:
    """The sections that have candidates left and not yet enough undisputed nodes ``placed``."""
    return [title for title, ids in listed.ids.items() if placed[title] < SECTION and read[title] < len(ids)]
