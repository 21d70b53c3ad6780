"""The auto-linker: cycles over what was written since the last one, and passes over all of memory."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from services.memory.graph.decay import DELETED, parse_time
from services.memory.linking import rules, supersession
from services.memory.linking.parts import divide, take_apart
from services.memory.linking.plan import MAX_AUTOMATIC, STATEMENTS, WritePlan
from services.memory.writes.change import embedded_text, name_edge
from shared.contracts import Edge, ListQuery, MemoryWrite, Node, Relation
from shared.contracts.queries import MAX_PAGE

if TYPE_CHECKING:
    from services.memory.retrieval.vectors import Vectors
    from services.memory.retrieval.view import View

MAX_NODES = 500
MAX_EDGES = 2_000  # What one cycle handles and writes at most

MAX_CANDIDATES = 64  # Neighbours of a node that are compared with it: twice the number that makes it generic

MAX_COMPARED = 40
"""Nearest of the kinds that hold until something else does: what a node takes the place of is among them."""

MAX_SHARING = 10
"""Those that share its rarest words, however near they are: in a large memory many are nearer."""

MAX_INSTANCES = 10  # Patterns of an observation, or observations of a pattern, that are linked in one cycle

Neighbours = list[tuple[str, float]]

MAX_UNLINKED = 5_000  # Edges that one pass removes: so many keys are a message of less than a megabyte

CLOSEST = 16
"""The most nodes that one is compared with: only in a memory that was never linked there are more."""

MAX_MERGES = 500  # Merges of one pass; the next finds the rest


TAGS_LOOKED_UP = 8  # The most tags of a node that are looked up

MAX_TAGGED = 200
"""The most nodes of a tag that are considered, the latest first: a tag that all have says nothing."""

Entry = tuple[float, str, Node]


class Proximity:
    """Looks up neighbours for a cycle, each session, half hour and tag once.

    Of a session, and of an agent's half hour, the first thousand nodes and those of the cycle's own ``batch``
    are seen: that bounds the work, and what comes later in a longer one comes in a batch with its neighbours.
    """

    def __init__(self, view: "View", batch: Sequence[Node]) -> None:
        self._view = view
        self._own: dict[tuple[str, str], list[Node]] = defaultdict(list)
        for node in batch:
            self._own["session", node.source.session].append(node)
            self._own["agent", node.source.agent].append(node)
        self._sessions: dict[str, list[Entry]] = {}
        self._agents: dict[tuple[str, int], list[Entry]] = {}
        self._tagged: dict[str, list[str]] = {}

    def in_session(self, node: Node) -> list[tuple[Node, float]]:
        """The nearest nodes of its session, three before and three after, and how many seconds later they
        came.
        """
        session = node.source.session
        if not session:
            return []
        if session not in self._sessions:
            self._sessions[session] = self._fetch(self._own["session", session], session=session)
        return _nearest(self._sessions[session], node)

    def of_agent(self, node: Node) -> list[tuple[Node, float]]:
        """The same of what its agent remembered within 30 minutes."""
        agent, moment = node.source.agent, parse_time(node.created_at)
        if not agent:
            return []
        place = int(moment // rules.WINDOW)
        entries = sorted(
            {
                entry[1]: entry for at in range(place - 1, place + 2) for entry in self._half_hour(agent, at)
            }.values()
        )
        return [
            (other, seconds) for other, seconds in _nearest(entries, node) if abs(seconds) <= rules.WINDOW
        ]

    def tagged(self, node: Node) -> list[str]:
        """Ids of nodes that share at least two tags with it, those that share most first; at most five."""
        shared: Counter[str] = Counter()
        for tag in node.tags[:TAGS_LOOKED_UP]:
            if tag not in self._tagged:
                self._tagged[tag] = self._view.select(tags=(tag,), limit=MAX_TAGGED)
            shared.update(self._tagged[tag])
        del shared[node.id]
        return [
            node_id for node_id, count in shared.most_common(rules.MOST_TAGGED) if count >= rules.MIN_TAGS
        ]

    def _half_hour(self, agent: str, place: int) -> list[Entry]:
        if (agent, place) not in self._agents:
            begin, end = place * rules.WINDOW, (place + 1) * rules.WINDOW
            own = [n for n in self._own["agent", agent] if begin <= parse_time(n.created_at) < end]
            since, until = (datetime.fromtimestamp(at, UTC).isoformat() for at in (begin, end))
            self._agents[agent, place] = self._fetch(own, agent=agent, since=since, until=until)
        return self._agents[agent, place]

    def _fetch(self, own: Sequence[Node], **filters: Any) -> list[Entry]:
        page = self._view.list(ListQuery(limit=MAX_PAGE, **filters)).nodes
        nodes = {node.id: node for node in (*page, *own)}
        return sorted((parse_time(node.created_at), node.id, node) for node in nodes.values())


def _nearest(entries: Sequence[Entry], node: Node) -> list[tuple[Node, float]]:
    moment = parse_time(node.created_at)
    place = bisect_left(entries, (moment, node.id), key=lambda entry: entry[:2])
    before = entries[max(0, place - rules.NEAREST) : place]
    after = [entry for entry in entries[place : place + rules.NEAREST + 1] if entry[1] != node.id][
        : rules.NEAREST
    ]
    return [(entry[2], entry[0] - moment) for entry in (*before, *after)]


class CycleResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a cycle came to: the ``write`` that makes it so (None: nothing changes), and what was done.

    ``cursor`` and ``after`` are where the next one goes on: the graph version and id of the last node that
    was handled; they are to be kept once the write is applied. ``nodes`` is how many were handled, fewer than
    500 if nothing is left; ``counts`` are by what was made; ``flagged`` are the ids found generic.
    """

    write: MemoryWrite | None
    cursor: int
    after: str = ""
    nodes: int = 0
    counts: dict[str, int] = {}
    flagged: tuple[str, ...] = ()


def link_cycle(
    view: "View", cursor: int, moment: float, after: str = "", read: supersession.Read | None = None
) -> CycleResult:
    """Link what was written after version ``cursor`` (and of that version, with ids greater than ``after``).

    At most 500 nodes and 2,000 edges. Each node is held against its nearest 64: what says the same becomes
    one node, what contradicts it is flagged, what it replaces is ended, what is alike is related; then
    against its session, its half hour and its tags. The same memory gives no write the second time: what the
    linker wrote itself is handled once more, and found to be in order. ``moment`` is in seconds since the
    epoch; ``read`` reads what pairs of texts mean, without it the evidence of their words alone counts.
    """
    batch = find_pending(view, cursor, after)
    plan, flagged = WritePlan(view), []
    proximity = Proximity(view, batch)
    handled = 0
    waiting = {node.id for node in batch}
    for node in batch:
        waiting.discard(node.id)
        if len(plan.edges) + MAX_AUTOMATIC > MAX_EDGES or plan.is_long:
            break
        if _link_node(node.id, view, plan, proximity, waiting, moment, read):
            flagged.append(node.id)
        handled += 1
        cursor, after = node.version, node.id
    return CycleResult(
        write=plan.make_write(),
        cursor=cursor,
        after=after,
        nodes=handled,
        counts=dict(plan.counts),
        flagged=tuple(flagged),
    )


def find_pending(view: "View", cursor: int, after: str) -> list[Node]:
    """The next 500 nodes in the order of version and id; one write alone may have brought more."""
    limit = 2 * MAX_NODES
    while True:
        ids = view.changed(cursor - 1 if after else cursor, limit)
        nodes = view.nodes(ids)
        complete = len(ids) < limit
        if not complete:  # of the last version some may be missing
            nodes = [node for node in nodes if node.version < nodes[-1].version]
        ahead = [node for node in nodes if (node.version, node.id) > (cursor, after)]
        if ahead or complete:
            return sorted(ahead, key=lambda node: (node.version, node.id))[:MAX_NODES]
        limit *= 4


def _link_node(
    node_id: str,
    view: "View",
    plan: WritePlan,
    proximity: Proximity,
    waiting: Collection[str],
    moment: float,
    read: supersession.Read | None,
) -> bool:
    """Link one node; says whether it is generic."""
    vector = view.vector(node_id)
    near = [] if vector is None else view.similar(vector, MAX_CANDIDATES + 1, rules.LINK)
    near = [(other, cosine) for other, cosine in near if other != node_id]
    node = _merge_duplicates_of(node_id, near, plan)
    if node is None:
        return False
    # What it was merged with in this cycle is not near to it any more: it is it.
    near = [(other, cosine) for other, cosine in near if plan.node(other) is not None]
    compared = _supersede(node, view, plan, waiting, moment, read)
    node = plan.node(node_id) or node  # it may have ended
    generic = rules.is_generic(len(near))
    if generic and rules.is_assertion(node):
        if not rules.is_flagged(node):
            _rewrite(node, {**node.metadata, "flag": rules.FLAG}, plan)
            plan.counts["flagged"] += 1
        return True
    if rules.is_flagged(node):
        node = _rewrite(node, {key: value for key, value in node.metadata.items() if key != "flag"}, plan)
    if len(near) < MAX_CANDIDATES:
        _drop_stale(node, compared | dict(near), plan, moment)
    for other, cosine in near if not generic else ():
        _relate((node.id, other), cosine, plan, waiting, moment)
    _link_instances(node, plan, view)
    _link_proximity(node, plan, proximity)
    return False


def _merge_duplicates_of(node_id: str, near: Neighbours, plan: WritePlan) -> Node | None:
    """Merge a node with its duplicates; the node as it is then, None if it was merged into another."""
    node = plan.node(node_id)
    for other_id, cosine in near:
        if plan.is_long:  # what stays was written again, and is handled in the next cycle
            break
        other = plan.node(other_id) if cosine >= rules.DUPLICATE else None
        if node is None or other is None or not rules.are_duplicates(node, other, cosine):
            continue
        if any(edge.relation in STATEMENTS for edge in plan.between(node.id, other.id)):
            continue
        if plan.merge(node, other).id != node.id:
            return None
        node = plan.node(node_id)
    return node


def _supersede(
    node: Node,
    view: "View",
    plan: WritePlan,
    waiting: Collection[str],
    moment: float,
    read: supersession.Read | None,
) -> dict[str, float]:
    """End what a node takes the place of, or what takes its place; ask about what cannot be decided.

    Gives what it was compared with, with cosines. Each statement of a node takes the place of one claim, the
    likeliest, and of all nodes that say it. What is newer and ``waiting`` for its turn is held against the
    node then.
    """
    vector = view.vector(node.id) if node.kind in rules.KINDS else None
    if vector is None or not rules.still_holds(node, moment):
        return {}
    near = _find_candidates(node, view, vector)
    others = plan.load(near)
    pairs = []
    for other in others:
        older, newer = rules.sort_by_age(node, other)
        if newer.id not in waiting and (newer.id, older.id) not in plan.chances:
            pairs.append((newer, older, near[other.id]))
    weighed = supersession.weigh(pairs, others, moment, read)
    mine = [each for each in weighed if each.newer.id == node.id]
    theirs = [each for each in weighed if each.newer.id != node.id]
    for each in sorted((*supersession.share(mine), *theirs), key=lambda each: -each.chance):
        newer, older, cosine, _ = each
        plan.chances[newer.id, older.id] = each.chance
        held = plan.node(older.id) or older
        edge = supersession.find_supersession(newer, held, cosine, moment, each.chance)
        likely = edge is not None and edge.provenance["rule"] == supersession.LIKELY
        if edge and not (likely and _replaces_another(each, plan)):
            _end(edge, each, held, likely, plan)
        elif edge := supersession.find_contradiction(newer, held, cosine, moment, each.chance):
            plan.count_link("contradictions", edge)
    return near


def _replaces_another(weighed: supersession.Weighed, plan: WritePlan) -> bool:
    """Whether the statement that takes a place takes that of another claim already."""
    (new, old), _ = max(weighed.chances.items(), key=lambda entry: entry[1])
    replaced = [
        edge.to_id
        for edge in plan.edges_of(weighed.newer.id)
        if edge.from_id == weighed.newer.id
        and edge.relation is Relation.SUPERSEDES
        and edge.provenance.get("statement", new) == new
    ]
    texts = map(embedded_text, plan.load(replaced))
    return any(not supersession.are_restatements(old, text, new) for text in texts)


def _end(edge: Edge, weighed: supersession.Weighed, held: Node, likely: bool, plan: WritePlan) -> None:
    """End what is replaced of a node: all of it, or the statements that are, which become a node of their
    own.
    """
    said = divide(held)
    ended = weighed.ended.intersection(said) if likely else frozenset(said)
    if likely and len(divide(weighed.newer)) > 1:
        (new, _), _ = max(weighed.chances.items(), key=lambda entry: entry[1])
        edge = msgspec.structs.replace(edge, provenance={**edge.provenance, "statement": new})
    if ended and len(ended) < len(said):
        until = weighed.newer.valid_from or weighed.newer.created_at
        rest, part = take_apart(held, ended, until)
        plan.rewrite(rest)
        plan.rewrite(part)
        plan.chances[weighed.newer.id, held.id] = 0.0  # the rest of it is compared again
        edge = msgspec.structs.replace(edge, to_id=part.id)
        plan.counts["superseded"] += plan.link(edge)
    elif plan.link(edge):
        plan.rewrite(supersession.end_validity(held, weighed.newer))
        plan.counts["superseded"] += 1


def _find_candidates(node: Node, view: "View", vector: "Vectors") -> dict[str, float]:
    """What a node may take the place of, with cosines: its nearest, and what shares its rarest words."""
    near = dict(view.similar(vector, MAX_COMPARED + 1, supersession.COMPARED, kinds=tuple(rules.KINDS)))
    sharing = [
        other
        for other in view.sharing(embedded_text(node), MAX_SHARING, tuple(rules.KINDS))
        if other not in near
    ]
    cosines = view.describe(sharing).compare(vector).tolist()
    near |= {
        other: cosine
        for other, cosine in zip(sharing, cosines, strict=True)
        if cosine >= supersession.COMPARED
    }
    near.pop(node.id, None)
    return near


def _relate(
    ids: tuple[str, str], cosine: float, plan: WritePlan, waiting: Collection[str], moment: float
) -> None:
    """Make of a pair what it is: a contradiction or a relation; one whose newer node is still ``waiting`` may
    yet be found to be a supersession.
    """
    pair = plan.load(ids)
    if len(pair) < 2:
        return
    older, newer = rules.sort_by_age(*pair)
    chance = plan.chances.get((newer.id, older.id), 0.0)
    edge = supersession.find_contradiction(newer, older, cosine, moment, chance)
    if edge and newer.id not in waiting:
        plan.count_link("contradictions", edge)
    elif not (rules.is_flagged(older) or rules.is_flagged(newer) or older.kind == newer.kind == "agent"):
        plan.count_link("similar", rules.link_similar(newer, older, cosine))


def _link_instances(node: Node, plan: WritePlan, view: "View") -> None:
    """Observations with patterns; searched by kind, since a pattern may be far down among the neighbours."""
    other_kind = {"observation": "pattern", "pattern": "observation"}.get(node.kind)
    vector = view.vector(node.id) if other_kind else None
    if other_kind is None or vector is None:
        return
    for other_id, cosine in view.similar(vector, MAX_INSTANCES, rules.PATTERN, kinds=(other_kind,)):
        other = plan.node(other_id)
        if other is None or rules.is_flagged(other):
            continue
        observation, pattern = (node, other) if node.kind == "observation" else (other, node)
        plan.count_link("structural", rules.link_instance(observation, pattern, cosine))


def _link_proximity(node: Node, plan: WritePlan, proximity: Proximity) -> None:
    for known, seconds in (*proximity.in_session(node), *proximity.of_agent(node)):
        other = plan.node(known.id)
        if other is None or rules.is_flagged(other):
            continue
        older, newer = (other, node) if seconds < 0 else (node, other)
        plan.count_link("structural", rules.link_decision_to_event(older, newer, abs(seconds)))
        plan.count_link("structural", rules.link_in_time(newer, older, abs(seconds)))
    for other in plan.load(proximity.tagged(node)):
        older, newer = sorted((node, other), key=rules.age_order)
        if not rules.is_flagged(other):
            plan.count_link("structural", rules.link_by_tags(newer, older))


def _drop_stale(node: Node, near: dict[str, float], plan: WritePlan, moment: float) -> None:
    """Remove the links that a node which was written again has no longer."""
    for edge in plan.edges_of(node.id):
        other = plan.node(edge.to_id if edge.from_id == node.id else edge.from_id)
        if edge.version >= node.version or other is None:
            continue
        if not _still_applies(edge, (node, other), near.get(other.id, 0.0), plan, moment):
            plan.unlink(edge)
            plan.counts["unlinked"] += 1


def _still_applies(
    edge: Edge, pair: tuple[Node, Node], cosine: float, plan: WritePlan, moment: float
) -> bool:
    """Whether an edge would be made again: of the linker's, those that depend on what the texts say."""
    by = edge.provenance.get("by")
    older, newer = rules.sort_by_age(*pair)
    if by == "similarity":
        return cosine >= rules.LINK
    if by == "contradiction":
        chance = plan.chances.get((newer.id, older.id), 0.0)
        return supersession.find_contradiction(newer, older, cosine, moment, chance) is not None
    if by == "supersession":  # the older one was written again, and holds
        return bool(next(node for node in pair if node.id == edge.to_id).valid_to)
    return True


def _rewrite(node: Node, metadata: dict[str, object], plan: WritePlan) -> Node:
    changed = msgspec.structs.replace(node, metadata=metadata, updated_at=node.updated_at or node.created_at)
    plan.rewrite(changed)
    return changed


def remove_faded_edges(view: "View", moment: float) -> MemoryWrite | None:
    """The write that removes edges which weigh less than .05 at ``moment``, the lightest first, at most
    5,000.

    None if there are none. Edges made by hand or imported keep their weight and stay. To be repeated
    until None; when and how often does not matter.
    """
    faded = view.graph.faded(DELETED, moment, MAX_UNLINKED)
    if not faded:
        return None
    return MemoryWrite(sender="memory", unlink=tuple(map(name_edge, faded)))


class DedupResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass found: the ``write`` that merges it, None for nothing, and how many nodes were ``merged``.

    ``after`` is the id where the next pass goes on; empty if all nodes were compared.
    """

    write: MemoryWrite | None
    after: str = ""
    merged: int = 0


def merge_duplicates(view: "View", after: str = "", limit: int = 10_000) -> DedupResult:
    """Merge what says the same among all live nodes: the next ``limit`` of them, in the order of their ids,
    are compared with all, by the rules of a cycle, which finds the duplicates of what is written.
    """
    plan = WritePlan(view)
    ids = sorted(node_id for node_id in view.select() if node_id > after)
    for node_id in ids[:limit]:
        vector = view.vector(node_id)
        near = [] if vector is None else view.similar(vector, CLOSEST, rules.DUPLICATE)
        for other, cosine in near:
            if other > node_id:
                _merge(plan, node_id, other, cosine)
        after = node_id
        if plan.counts["merged"] >= MAX_MERGES or plan.is_long:
            break
    done = not ids or after == ids[-1]
    return DedupResult(write=plan.make_write(), after="" if done else after, merged=plan.counts["merged"])


def _merge(plan: WritePlan, one: str, other: str, cosine: float) -> None:
    pair = plan.load([one, other])
    if len(pair) < 2 or not rules.are_duplicates(pair[0], pair[1], cosine):
        return
    if not any(edge.relation in STATEMENTS for edge in plan.between(one, other)):
        plan.merge(pair[0], pair[1])
