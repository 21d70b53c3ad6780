"""What a change of memory touches, as far as briefings are concerned; worked out once for all of them."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from services.memory.briefing.links import (
    BINDING,
    Link,
    Standing,
    find_bound,
    find_links,
    find_superseded,
)
from services.memory.briefing.ranking import MIN_IMPORTANCE, MIN_WEIGHT, is_current
from services.memory.briefing.scope import Scope
from services.memory.briefing.sections import CONTEXT, SHARED
from services.memory.graph import decay
from services.memory.writes.change import Change
from shared.contracts import Edge, Node, Relation

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

ALIKE = 1e-4
"""How far a weight may lie from what reinforcement makes of it: clocks and rounding."""

MAX_NEIGHBOURS = 1_000
"""The most neighbours of a node that are looked at again when it becomes an agent, or is one no longer."""


class Rewritten(NamedTuple):
    """A node before and after; None: it was not there."""

    old: Node | None
    new: Node


class Rewoven(NamedTuple):
    """An edge, and its effective weight before and after; 0: it was not there."""

    edge: Edge
    before: float
    after: float


class Touch(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes and edges of a change that differ, and the nodes to look at because of them, as they are now.

    Those are in ``nodes`` by id, and so are their ``links``, and ``disputes``: the contradictions of those
    that are ``holding``. ``standing`` lacks the ties, which depend on the agent. ``by`` has their ids by
    source agent and by tag, ``shared`` those that may concern everybody.
    """

    moment: float
    rewritten: Mapping[str, Rewritten]
    rewoven: tuple[Rewoven, ...]
    nodes: Mapping[str, Node]
    links: Mapping[str, list[Link]]
    standing: Standing
    holding: Collection[str]
    disputes: Mapping[str, list[Link]]
    by: Mapping[str, set[str]]
    shared: Collection[str]

    def measure(self, view: "View", scope: Scope) -> dict[str, float]:
        """The cosines of the nodes' vectors with the direction in which the agent works, where that may
        matter.
        """
        ids = [node.id for node in self.nodes.values() if node.kind in CONTEXT]
        if scope.direction is None or not ids:
            return {}
        return dict(zip(ids, view.measure(ids, scope.direction)[2].tolist(), strict=True))


def touch(view: "View", change: Change) -> Touch | None:
    """What ``change``, which ``view`` has taken in, touches; None where it is nothing that a briefing shows.

    Access counts are nothing of the kind, nor is reinforcement: an edge whose weight became what
    ``decay.reinforce`` makes of it.
    """
    olds: dict[str, Node] = {}
    for node, _ in change.replaced_nodes:
        olds.setdefault(node.id, node)
    rewritten = {node_id: Rewritten(olds.get(node_id), node) for node_id, node in change.nodes.items()}
    rewoven = tuple(_find_rewoven(view, change, rewritten))
    if not rewritten and not rewoven:
        return None
    ends = dict.fromkeys(end for key in change.edges for end in key[:2])
    ends.update(dict.fromkeys(end for edge, _, _ in rewoven for end in (edge.from_id, edge.to_id)))
    ends.update(dict.fromkeys(_bystanders(view, rewritten.values())))
    old = (node_id for node_id, (before, _) in rewritten.items() if before)
    return look(view, dict.fromkeys((*ends, *old)), change.moment, rewritten, rewoven)


def look(
    view: "View",
    ids: Iterable[str],
    moment: float,
    rewritten: Mapping[str, Rewritten] | None = None,
    rewoven: tuple[Rewoven, ...] = (),
) -> Touch:
    """What is to be known of these nodes, of those that they contradict, and of ``rewritten`` ones, which
    have no edges unless they are among ``ids``.
    """
    rewritten = rewritten or {}
    contradicts = (Relation.CONTRADICTS,)
    joined = dict.fromkeys(ids)
    opposed = find_links(view, joined, moment, relations=contradicts, floor=MIN_WEIGHT, oriented=False)
    joined.update(dict.fromkeys(link.other for link in opposed))
    nodes = {node_id: state.new for node_id, state in rewritten.items()}
    nodes.update((node.id, node) for node in view.nodes(key for key in joined if key not in nodes))
    superseded = find_superseded(view, joined, moment)
    holding = {
        node.id
        for node in nodes.values()
        if node.importance >= MIN_IMPORTANCE and node.id not in superseded and is_current(node, moment)
    }
    links: dict[str, list[Link]] = {}
    for link in find_links(view, joined, moment, floor=MIN_WEIGHT):
        links.setdefault(link.node, []).append(link)
    disputes = {
        node_id: [link for link in links[node_id] if link.relation in contradicts and link.other in holding]
        for node_id in holding & links.keys()
    }
    by: dict[str, set[str]] = {}
    for node in nodes.values():
        for name in (node.source.agent, *node.tags):
            by.setdefault(name, set()).add(node.id)
    return Touch(
        moment=moment,
        rewritten=rewritten,
        rewoven=rewoven,
        nodes=nodes,
        links=links,
        standing=Standing(bound=find_bound(view, joined, moment), superseded=superseded, ties={}),
        holding=holding,
        disputes=disputes,
        by=by,
        shared=[node.id for node in nodes.values() if node.kind in SHARED],
    )


def _find_rewoven(view: "View", change: Change, rewritten: Mapping[str, Rewritten]) -> Iterable[Rewoven]:
    """Edges that were drawn, cut or given another weight, and those that weigh otherwise by a node's
    importance.
    """
    olds: dict[tuple[str, str, str], Edge] = {}
    for edge, _ in change.replaced_edges:
        olds.setdefault((edge.from_id, edge.to_id, edge.relation.value), edge)
    for key, edge in change.edges.items():
        old = olds.get(key)
        if old is None or not _is_reinforced(old, edge, _importance(view, edge)):
            yield from _compare(view, change.moment, rewritten, old, edge)
    for node_id, (before, after) in rewritten.items():
        if before and before.importance != after.importance:
            for edge in view.graph.edges_of(node_id):
                yield from _compare(view, change.moment, rewritten, edge, edge)


def _compare(
    view: "View", moment: float, rewritten: Mapping[str, Rewritten], old: Edge | None, new: Edge
) -> Iterable[Rewoven]:
    """The edge, where its weight differs and counts: only whether it is there does where it says what holds,
    and for whom.
    """
    before = after = 0.0
    if old and not old.retired_version:
        before = decay.effective(old, _importance(view, old, rewritten), moment)
    if not new.retired_version:
        after = decay.effective(new, _importance(view, new), moment)
    lasting = new.relation in (*BINDING, Relation.SUPERSEDES) and (not before or not after)
    if before != after and (lasting or max(before, after) >= MIN_WEIGHT):
        yield Rewoven(new, before, after)


def _is_reinforced(old: Edge, new: Edge, importance: float) -> bool:
    if old.retired_version or new.retired_version or old.provenance != new.provenance or not new.touched_at:
        return False
    weight = decay.effective(old, importance, decay.parse_moment(new.touched_at))
    return abs(new.weight - weight - decay.GAIN * (1 - weight)) < ALIKE


def _importance(view: "View", edge: Edge, before: Mapping[str, Rewritten] | None = None) -> float:
    """The higher importance of an edge's ends, as they are or as they were ``before``."""
    states = [
        (before[end].old or before[end].new) if before and end in before else view.node(end)
        for end in (edge.from_id, edge.to_id)
    ]
    return max((node.importance for node in states if node), default=0.0)


def _bystanders(view: "View", rewritten: Iterable[Rewritten]) -> Iterable[str]:
    """The neighbours of nodes that became an agent, or are one no longer: they may be bound, or free."""
    for old, new in rewritten:
        if old is not None and (old.kind == "agent") != (new.kind == "agent"):
            edges = view.graph.edges_of(new.id)[:MAX_NEIGHBOURS]
            yield from (edge.to_id if edge.from_id == new.id else edge.from_id for edge in edges)
