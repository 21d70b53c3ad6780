"""What a briefing depends on, and whether a change could show in it."""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from services.memory.briefing.choosing import is_local
from services.memory.briefing.composing import Draft
from services.memory.briefing.evidence import EACH, NOTE, SUPPORTING
from services.memory.briefing.links import Link, tie
from services.memory.briefing.page import Section
from services.memory.briefing.ranking import DAILY_RATES, DAY, MIN_WEIGHT, daily_rate, rank
from services.memory.briefing.scope import NEAR, WORK, Scope, is_anchor, is_candidate, recount
from services.memory.briefing.sections import FLOOR, ORDER, PATTERNS, SLACK, Placement, nearness, place
from services.memory.briefing.touch import Rewoven, Touch, look
from shared.contracts import Edge, Node, Relation

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

MAX_MOVED = 2_000
"""Where more than so many nodes became nearer or farther, nothing is asked any more."""

CHANGED = 0.01
"""The part by which a shown node's score must change to count: less may come of the time that passed."""

_FASTEST = max(DAILY_RATES.values())


class Footprint:
    """What the briefing of a draft depends on.

    A change could show in it (``is_changed_by``) if, for one of the nodes that it touches,

    - the node is shown, disputed, one the agent acts through, or one its present work was made out from, or
      now would be; or it could now be taken for the agent's own node;
    - it is not shown, has a place by the same rules that compose the briefing, and ranks no lower there
      than the last one shown, or nothing was left out there;
    - it is shown, and an edge or a neighbour of it changed, so that its place or rank is another one now;
    - it has, or had, a contradiction with a node that holds, and one of the two has a place or is near;
    - it is an observation that supports a shown pattern, and does so better than what is shown beneath that.

    Where edges were drawn or cut in the agent's neighbourhood, the steps are counted anew, and what has
    become nearer or farther is looked at likewise. It errs in one direction: it may see a change where
    composing anew would show none.
    """

    def __init__(self, draft: Draft) -> None:
        self._scope = draft.scope
        self._disputed = draft.disputed
        self._shown = {
            item.node.id: Placement(section.title, item.score, item.note)
            for section in draft.page.sections
            for item in section.items
        }
        sections = {section.title: section for section in draft.page.sections}
        self._roots = {*self._shown, *self._disputed, *draft.scope.hubs, *draft.scope.anchors}
        self._bars = {title: _bar(sections.get(title)) for title in ORDER}
        self._support = _support_bars(sections.get(PATTERNS))

    def is_changed_by(self, view: "View", touch: Touch) -> bool:
        """Whether ``touch``, which ``view`` has taken in, could show."""
        if not touch.rewritten.keys().isdisjoint(self._roots):
            return True
        if any(self._begins_with(old, new) for old, new in touch.rewritten.values()):
            return True
        if any(self._hangs_on(rewoven.edge) for rewoven in touch.rewoven):
            return True
        scope = msgspec.structs.replace(self._scope, moment=touch.moment)
        return self._shows(view, scope, touch) or self._is_moved_by(view, touch)

    def _begins_with(self, old: Node | None, new: Node) -> bool:
        """Whether a node is, or was, the agent's own or one that its present work is made out from."""
        return any(
            node and (is_anchor(node, self._scope) or is_candidate(node, self._scope)) for node in (old, new)
        )

    def _hangs_on(self, edge: Edge) -> bool:
        """Whether an edge joins what is shown as joined by it, or the agent's node with an instance."""
        ends = {edge.from_id, edge.to_id}
        if edge.relation is Relation.INSTANCE_OF and self._scope.node and self._scope.node.id in ends:
            return True
        if edge.relation is Relation.CONTRADICTS and ends <= self._disputed:
            return True
        return (
            edge.relation in SUPPORTING and ends <= self._shown.keys() and bool(ends & self._support.keys())
        )

    def _shows(self, view: "View", scope: Scope, touch: Touch) -> bool:
        """Looks at all nodes but those that nothing joins with the agent: no edge, no name, no likeness, no
        concern.
        """
        cosines = touch.measure(view, scope)
        alike = {key for key, cosine in cosines.items() if 0.5 * nearness(cosine) >= FLOOR - SLACK}
        ids = alike.union(touch.links, touch.shared, touch.by.get(scope.agent, ()))
        if scope.unknown:
            ids = set(touch.nodes)
        ids |= touch.nodes.keys() & self._roots
        return any(self._could_show(touch.nodes[key], scope, touch, cosines.get(key, 0.0)) for key in ids)

    def _could_show(self, node: Node, scope: Scope, touch: Touch, cosine: float) -> bool:
        links = touch.links.get(node.id, [])
        standing = msgspec.structs.replace(touch.standing, ties=tie(links, scope.hubs, scope.agent))
        if node.id in standing.ties or node.source.agent == scope.agent:
            scope = msgspec.structs.replace(scope, suspects=scope.suspects | {node.id})
        placement = place(node, scope, standing, cosine)
        local = bool(placement or node.id in standing.ties or is_local(node.id, scope))
        if node.id in self._disputed:
            known = local and node.id in touch.holding
        elif node.id in self._shown:
            known = self._is_in_place(node, placement, scope, touch)
        else:
            known = not placement or placement.score < self._bars[placement.section] * self._fading(scope)
        return not known or self._is_opposed(node, local, touch) or self._supports(node, links, scope, touch)

    def _is_in_place(self, node: Node, placement: Placement | None, scope: Scope, touch: Touch) -> bool:
        """Whether a shown node would still stand where it does, with the same rank."""
        shown = self._shown[node.id]
        if shown.note == NOTE:
            return node.id in touch.holding
        if placement is None or placement.section != shown.section or placement.note != shown.note:
            return False
        drift = math.exp(-daily_rate(node) * max(0.0, scope.moment - self._scope.moment) / DAY)
        return abs(placement.score - shown.score * drift) <= CHANGED * shown.score

    def _is_opposed(self, node: Node, local: bool, touch: Touch) -> bool:
        """Whether a node has a contradiction that belongs into the briefing and is not among the disputed
        ones.
        """
        known = self._disputed if node.id in self._disputed else frozenset()
        return local and any(link.other not in known for link in touch.disputes.get(node.id, ()))

    def _supports(self, node: Node, links: Iterable[Link], scope: Scope, touch: Touch) -> bool:
        """Whether it is an observation that belongs beneath a shown pattern."""
        if node.kind != "observation" or node.id not in touch.holding or node.id in self._shown:
            return False
        return any(
            link.relation in SUPPORTING
            and link.other in self._support
            and rank(node, link.weight, scope.moment) >= self._support[link.other] * self._fading(scope)
            for link in links
        )

    def _fading(self, scope: Scope) -> float:
        """What is left by now, at the least, of a rank from the time of the briefing."""
        return (1 - CHANGED) * math.exp(-_FASTEST * max(0.0, scope.moment - self._scope.moment) / DAY)

    def _is_moved_by(self, view: "View", touch: Touch) -> bool:
        """Whether edges that were drawn or cut bring something near, or take it away, that shows by that."""
        old = self._scope
        moved = any(
            _moves(rewoven, steps, depth)
            for steps, depth in ((old.near, NEAR), (old.work, WORK))
            for rewoven in touch.rewoven
        )
        if not moved:
            return False
        new = recount(view, old, touch.moment)
        ids = {
            node_id
            for before, after in ((old.near, new.near), (old.work, new.work))
            for node_id in before.keys() | after.keys()
            if before.get(node_id) != after.get(node_id)
        }
        if len(ids) > MAX_MOVED:
            return True
        self._scope = msgspec.structs.replace(new, moment=old.moment)
        beyond = look(view, ids, touch.moment)
        return self._shows(view, new, beyond)


def _bar(section: Section | None) -> float:
    """The rank from which on a node shows in a section: 0 where nothing was left out."""
    if section is None or not section.omitted:
        return 0.0
    single = [unit.items[0].score for unit in section.units if unit.least == 1]
    return min(single, default=0.0)


def _support_bars(section: Section | None) -> dict[str, float]:
    """The same of observations, by the pattern that they support."""
    units = section.units if section else ()
    return {unit.items[0].node.id: unit.items[-1].score if len(unit.items) > EACH else 0.0 for unit in units}


def _moves(rewoven: Rewoven, steps: Mapping[str, int], depth: int) -> bool:
    """Whether an edge that was drawn or cut may change the steps to anything."""
    far = depth + 1
    first, second = (steps.get(end, far) for end in (rewoven.edge.from_id, rewoven.edge.to_id))
    if rewoven.before < MIN_WEIGHT <= rewoven.after:
        return min(first, second) < depth and abs(first - second) > 1
    return (
        rewoven.after < MIN_WEIGHT <= rewoven.before and abs(first - second) == 1 and max(first, second) < far
    )
