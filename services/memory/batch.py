"""A batch of writes folded into one change of the graph, the bad ones among them left out whole."""

import math
from collections.abc import Callable, Sequence

import msgspec

from shared.contracts import Edge, MemoryWrite, MemoryWritten, Node

EdgeKey = tuple[str, str, str]
"""from, to, relation."""

MAX_TAG = 128
"""The longest tag, in characters."""

UNIT_TOLERANCE = 0.01
"""How far from 1 the length of a given embedding may be: float32 and rounded JSON stay well within."""

MAX_COUNT = 2**63 - 1
"""The largest access_count that the table holds."""


class StoredEdge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge and the graph version that created it."""

    edge: Edge
    created_version: int


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What one commit writes: whole nodes by id, edges by key, and the ids of the writes it comes from."""

    version: int
    nodes: dict[str, Node]
    edges: dict[EdgeKey, StoredEdge]
    writes: tuple[str, ...]


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """How to look up what the graph holds already.

    ``node`` gives the node of an id (retired ones too), ``edge`` the version that created an edge.
    """

    node: Callable[[str], Node | None]
    edge: Callable[[EdgeKey], int | None]


def fold(
    writes: Sequence[MemoryWrite], version: int, known: Known, dimensions: int
) -> tuple[Change, list[str]]:
    """The change that ``writes`` make in their order, and for each its error ("" where it is taken).

    A node that is there already is replaced, keeping its created_at, its created_version and the higher
    access_count; one that was retired comes back. Edges join nodes that are there, of this write or earlier
    ones. Retiring is a tombstone: the node stays, marked with the version; doing it twice changes nothing.
    """
    nodes: dict[str, Node] = {}
    edges: dict[EdgeKey, StoredEdge] = {}
    taken: list[str] = []
    errors: list[str] = []
    staged = Known(
        node=lambda node_id: nodes.get(node_id) or known.node(node_id),
        edge=lambda key: edges[key].created_version if key in edges else known.edge(key),
    )
    for write in writes:
        try:
            _check(write, dimensions)
            new_nodes, new_edges = _take(write, version, staged)
        except ValueError as error:
            errors.append(str(error))
            continue
        nodes.update(new_nodes)
        edges.update(new_edges)
        taken.append(write.id)
        errors.append("")
    return Change(version=version, nodes=nodes, edges=edges, writes=tuple(taken)), errors


def embedded_text(node: Node) -> str:
    """What a node's vector is made of: title, then body; tags and metadata tell little of meaning."""
    return f"{node.title}\n{node.body}" if node.body else node.title


def answer(write: MemoryWrite, error: str, version: int) -> MemoryWritten:
    """What is sent back: the ids of its nodes and the version, or why nothing of it was stored."""
    ids = tuple(dict.fromkeys((*(node.id for node in write.nodes), *write.retire)))
    return MemoryWritten(
        recipient=write.sender,
        cause=write.id,
        goal_id=write.goal_id,
        ids=() if error else ids,
        version=0 if error else version,
        error=error,
    )


def _take(
    write: MemoryWrite, version: int, known: Known
) -> tuple[dict[str, Node], dict[EdgeKey, StoredEdge]]:
    nodes: dict[str, Node] = {}
    for node in write.nodes:
        nodes[node.id] = _merge(node, nodes.get(node.id) or known.node(node.id), write.created_at, version)
    edges = {}
    for edge in write.edges:
        for field, end in (("from", edge.from_id), ("to", edge.to_id)):
            _require_live(f"edge {field}", end, nodes.get(end) or known.node(end))
        key = (edge.from_id, edge.to_id, edge.relation.value)
        edges[key] = StoredEdge(edge=edge, created_version=known.edge(key) or version)
    for node_id in write.retire:
        there = nodes.get(node_id) or known.node(node_id)
        if there is None:
            raise ValueError(f"retire names {node_id}, which is not in memory")
        if not there.retired_version:
            nodes[node_id] = msgspec.structs.replace(there, retired_version=version)
    return nodes, edges


def _merge(node: Node, old: Node | None, written_at: str, version: int) -> Node:
    if old is None:
        return msgspec.structs.replace(node, created_version=version, retired_version=0)
    return msgspec.structs.replace(
        node,
        created_at=old.created_at,
        updated_at=node.updated_at or written_at,
        created_version=old.created_version,
        retired_version=0,
        access_count=max(node.access_count, old.access_count),
        last_accessed_at=node.last_accessed_at or old.last_accessed_at,
    )


def _require_live(field: str, node_id: str, node: Node | None) -> None:
    if node is None:
        raise ValueError(f"{field} names {node_id}, which is not in memory")
    if node.retired_version:
        raise ValueError(f"{field} names {node_id}, which was retired at version {node.retired_version}")


def _check(write: MemoryWrite, dimensions: int) -> None:
    """Raise ValueError naming the field where a table could not hold what the contract admits."""
    try:
        msgspec.json.encode(write)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ValueError(f"the write has no JSON form: {error}") from None
    for node in write.nodes:
        if not 0 <= node.access_count <= MAX_COUNT:
            raise ValueError(f"access_count must be between 0 and {MAX_COUNT}, not {node.access_count}")
        for tag in node.tags:
            if not tag.strip() or len(tag) > MAX_TAG:
                raise ValueError(f"tags must be 1 to {MAX_TAG} characters each, not {tag[:40]!r}")
        if node.embedding:
            _check_vector(node.embedding, dimensions)


def _check_vector(vector: tuple[float, ...], dimensions: int) -> None:
    if len(vector) != dimensions:
        raise ValueError(f"embedding has {len(vector)} numbers; this memory's model has {dimensions}")
    length = math.hypot(*vector)
    if not abs(length - 1) <= UNIT_TOLERANCE:  # also where it is not a number
        raise ValueError(f"embedding must be a unit vector; its length is {length:.4g}")
