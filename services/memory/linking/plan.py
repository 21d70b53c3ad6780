"""What a cycle of the linker is going to write, what it has made, and its open questions."""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from services.memory.linking.rules import choose_survivor, merge_nodes, move_edges
from services.memory.writes.change import EdgeTuple, key_of, name_edge
from shared.contracts import Edge, EdgeKey, MemoryWrite, Node, Relation

if TYPE_CHECKING:
    from services.memory.retrieval.view import View


MAX_AUTOMATIC = 50  # The most edges of a node that the linker made (issue 3)

MAX_TEXT = 500_000  # Characters of nodes after which nothing more is begun

AUTOMATIC = frozenset({"similarity", "structural", "contradiction", "supersession"})
"""What ``provenance["by"]`` says of these."""

STATEMENTS = frozenset({Relation.SUPERSEDES, Relation.CONTRADICTS})
"""Relations of which one says all there is to say about a pair."""

MUTUAL = frozenset({Relation.RELATED_TO, Relation.CONTRADICTS})
"""Relations that hold in both directions, whichever their edge has."""

SAME_WEIGHT = 0.01  # Weights that differ by less are left as they are

_Edges = dict[EdgeTuple, Edge]


class WritePlan:
    """Collects changes; every question about nodes and edges is answered as if they were made already."""

    def __init__(self, view: "View") -> None:
        self.counts: Counter[str] = Counter()
        self.edges: _Edges = {}
        self.chances: dict[tuple[str, str], float] = {}
        """Pairs of a newer and an older node, and the chance that the one takes the place of the other."""
        self._view = view
        self._nodes: dict[str, Node] = {}
        self._rewritten: dict[str, None] = {}
        self._retired: dict[str, None] = {}
        self._unlinked: dict[EdgeTuple, EdgeKey] = {}
        self._around: dict[str, _Edges] = {}
        self._size: int | None = None
        """The text of the nodes to write; None once one was added."""

    @property
    def is_long(self) -> bool:
        """Whether the nodes to write have more text than a message of the bus should carry."""
        if self._size is None:
            written = (*self._rewritten, *self._retired)
            self._size = sum(len(self._nodes[node_id].body) + 500 for node_id in written)
        return self._size > MAX_TEXT

    def load(self, ids: Iterable[str]) -> list[Node]:
        """The live ones among these nodes, in order."""
        wanted = list(ids)
        missing = [node_id for node_id in wanted if node_id not in self._nodes]
        self._nodes.update((node.id, node) for node in self._view.nodes(missing))
        found = (self._nodes.get(node_id) for node_id in wanted if node_id not in self._retired)
        return [node for node in found if node is not None and not node.retired_version]

    def node(self, node_id: str) -> Node | None:
        """A live node as it will be."""
        return next(iter(self.load([node_id])), None)

    def edges_of(self, node_id: str) -> list[Edge]:
        """A node's edges as they will be."""
        return list(self._edges_at(node_id).values())

    def between(self, one: str, other: str) -> list[Edge]:
        """The edges that join two nodes, in either direction."""
        return [edge for edge in self._edges_at(one).values() if other in (edge.from_id, edge.to_id)]

    def rewrite(self, node: Node) -> None:
        """Write a node as it is here."""
        self._nodes[node.id] = node
        self._rewritten[node.id] = None
        self._size = None

    def link(self, edge: Edge) -> bool:
        """Make an edge, unless the pair is linked by as much already; says whether it was made.

        A pair that supersedes or contradicts is not related beside that. Edges made by hand are left
        alone. No node gets more than 50 edges of the linker; of these the weakest relation is replaced by
        one that supersedes or contradicts.
        """
        joined = self.between(edge.from_id, edge.to_id)
        if any(old.relation in STATEMENTS for old in joined):
            return False
        if edge.relation in STATEMENTS:
            for old in joined:
                if old.relation is Relation.RELATED_TO and is_automatic(old):
                    self.unlink(old)
            return self._add(edge)
        if edge.relation is not Relation.RELATED_TO:
            known = any(key_of(old) == key_of(edge) for old in joined)
            return not known and self._add(edge)
        return self._relate(edge, joined)

    def count_link(self, kind: str, edge: Edge | None) -> None:
        """``link`` an edge, if there is one, and count it under ``kind``."""
        if edge is not None:
            self.counts[kind] += self.link(edge)

    def unlink(self, edge: Edge) -> None:
        """Remove an edge."""
        key = key_of(edge)
        self.edges.pop(key, None)
        for end in (edge.from_id, edge.to_id):
            self._edges_at(end).pop(key, None)
        if self._view.graph.edge(*key) is not None:
            self._unlinked[key] = name_edge(edge)

    def merge(self, one: Node, other: Node) -> Node:
        """Make two nodes one; returns the one that stays, as it will be."""
        around = {node.id: self.edges_of(node.id) for node in (one, other)}
        degrees = (_degree(around[one.id]), _degree(around[other.id]))
        stays, goes = choose_survivor(one, other, degrees)
        for edge in around[goes.id]:
            self.unlink(edge)
        for edge in move_edges(around[goes.id], goes.id, stays.id):
            # Put a moved edge: the weightier of two that become one, an automatic one below the limit
            there = next(
                (old for old in self.between(edge.from_id, edge.to_id) if _is_equivalent(old, edge)), None
            )
            if there is None:
                if is_automatic(edge):
                    self._add(edge)
                else:
                    self._put(edge)
            elif is_automatic(there) and (there.weight < edge.weight or not is_automatic(edge)):
                self.unlink(there)
                self._put(edge)
        self._retired[goes.id] = None
        self._size = None
        self._rewritten.pop(goes.id, None)
        merged = merge_nodes(stays, goes)
        self.rewrite(merged)
        self.counts["merged"] += 1
        return merged

    def make_write(self) -> MemoryWrite | None:
        """What is to be written; None if nothing changes.

        Its nodes, and those that go are among them, have the version at which they were read: if one has
        another by the time the write is applied, the write is refused.
        """
        # Of a node that goes its edges go with it.
        unlink = [
            key for key in self._unlinked.values() if not {key.from_id, key.to_id} & self._retired.keys()
        ]
        if not (self._rewritten or self.edges or unlink or self._retired):
            return None
        return MemoryWrite(
            sender="memory",
            nodes=tuple(self._nodes[node_id] for node_id in (*self._rewritten, *self._retired)),
            edges=tuple(self.edges.values()),
            unlink=tuple(unlink),
            retire=tuple(self._retired),
            insist=True,
        )

    def _edges_at(self, node_id: str) -> _Edges:
        if node_id not in self._around:
            self._around[node_id] = {key_of(edge): edge for edge in self._view.graph.edges_of(node_id)}
        return self._around[node_id]

    def _relate(self, edge: Edge, joined: Collection[Edge]) -> bool:
        if any(old.weight >= edge.weight - SAME_WEIGHT for old in joined):
            return False
        old = next((old for old in joined if old.relation is Relation.RELATED_TO), None)
        if old is None:
            return self._add(edge)
        if not is_automatic(old):
            return False
        return self._put(
            msgspec.structs.replace(
                old, weight=edge.weight, provenance=edge.provenance, touched_at="", version=0
            )
        )

    def _add(self, edge: Edge) -> bool:
        """Put an automatic edge if both ends are below their limit; a statement replaces their weakest
        relation.
        """
        for end in (edge.from_id, edge.to_id):
            automatic = [old for old in self._edges_at(end).values() if is_automatic(old)]
            if len(automatic) < MAX_AUTOMATIC:
                continue
            weakest = min(
                (old for old in automatic if old.relation not in STATEMENTS),
                key=lambda old: old.weight,
                default=None,
            )
            if edge.relation not in STATEMENTS or weakest is None:
                return False
            self.unlink(weakest)
        return self._put(edge)

    def _put(self, edge: Edge) -> bool:
        key = key_of(edge)
        self._unlinked.pop(key, None)
        self.edges[key] = edge
        for end in (edge.from_id, edge.to_id):
            self._edges_at(end)[key] = edge
        return True


def is_automatic(edge: Edge) -> bool:
    """Whether the linker made an edge."""
    return edge.provenance.get("by") in AUTOMATIC


def _is_equivalent(old: Edge, edge: Edge) -> bool:
    """Whether two edges of one pair say the same; relations without a direction do whatever theirs."""
    return old.relation is edge.relation and (old.from_id == edge.from_id or edge.relation in MUTUAL)


def _degree(edges: Iterable[Edge]) -> int:
    return max(0, len({end for edge in edges for end in (edge.from_id, edge.to_id)}) - 1)


def list_made(view: "View", limit: int) -> dict[str, Any]:
    """The last ``limit`` edges that were made automatically, newest first, as ``made``.

    Each has its ends with their titles, its weight when it was written, ``by`` and ``rule`` (why), ``score``
    (the cosine, if texts were compared), when it was made, and the graph version it was last written at.
    ``edges_by_kind`` counts all of them, by relation and then by rule.
    """
    edges = view.graph.latest_made(limit)
    titles = {
        node.id: node.title
        for node in view.nodes(list({e for edge in edges for e in (edge.from_id, edge.to_id)}))
    }
    return {"edges_by_kind": view.graph.count_made(), "made": [_describe(edge, titles) for edge in edges]}


def _describe(edge: Edge, titles: dict[str, str]) -> dict[str, Any]:
    why: dict[str, Any] = {
        name: edge.provenance[name] for name in ("by", "rule", "score") if name in edge.provenance
    }
    return {
        "from": edge.from_id,
        "from_title": titles.get(edge.from_id, ""),
        "relation": edge.relation.value,
        "to": edge.to_id,
        "to_title": titles.get(edge.to_id, ""),
        "weight": edge.weight,
        **why,
        "made_at": edge.created_at,
        "version": edge.version,
    }
