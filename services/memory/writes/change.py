"""What goes into a batch of writes, what comes out of it, and the states that nodes and edges get by it."""

from collections.abc import Callable, Collection, Iterable
from operator import attrgetter

import msgspec
import numpy as np
from numpy.typing import NDArray

from shared.contracts import Direction, Edge, EdgeKey, MemoryWrite, Node
from shared.contracts.base import amended

EdgeTuple = tuple[str, str, str]  # from, to, relation

Vectors = NDArray[np.float32]

MAX_TAG = 128  # The longest tag, in characters

MAX_COUNT = 2**63 - 1  # The largest count that a table holds

_content = attrgetter(
    *"kind title body tags metadata source importance valid_from valid_to retired_version".split()
)
"""The fields in which states of a node differ; the others say when it was written and read."""

UNIT_TOLERANCE = 0.01
"""How far from 1 the length of a given embedding may be: float32 and rounded JSON stay well within."""

_LEAST, _MOST = (1 - UNIT_TOLERANCE) ** 2, (1 + UNIT_TOLERANCE) ** 2


class LoggedWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write of the log at ``seq``, stored there at ``stored_at`` (seconds since 1970).

    Versions of the graph count from ``base``. ``judged`` says that it was answered before a crash: the gate
    has let it pass. ``traceparent`` is its trace, which is known of what was delivered; ``left`` says that
    the message was erased, and this is left of it.
    """

    seq: int
    stored_at: float
    write: MemoryWrite
    base: int = 0
    judged: bool = False
    traceparent: str = ""
    left: bool = False

    @property
    def version(self) -> int:
        """The graph version that is its own."""
        return self.base + self.seq

    @property
    def rows(self) -> int:
        """How many nodes and edges it has."""
        return len(self.write.nodes) + len(self.write.edges)


class NodeText(msgspec.Struct, frozen=True, kw_only=True):
    """The text that a node has had since ``version``, and the vector that came with it, if any."""

    id: str
    version: int
    text: str
    vector: Vectors | None = None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What one commit changes: the states that nodes and edges have after it, each with its ``version``.

    ``version`` is that of the last write. Nodes hold no embedding. ``replaced_nodes`` and
    ``replaced_edges`` are the states before, each with the version that ended it, also those that began and
    ended within this batch. ``accessed`` has new totals and times. ``texts_changed`` are the nodes that need
    a vector, with the version since which they have their text; ``given`` are vectors of those that came with
    one; ``interim`` are texts that were replaced within the batch (their vectors are for "as of" alone).
    ``writes`` are ids and versions of what was taken, ``moments`` the time of each; ``proposed`` are, by the
    write, the edges that stand for what its sender may not change.
    """

    version: int
    nodes: dict[str, Node]
    edges: dict[EdgeTuple, Edge]
    replaced_nodes: list[tuple[Node, int]]
    replaced_edges: list[tuple[Edge, int]]
    accessed: dict[str, tuple[int, str]]
    texts_changed: dict[str, int]
    given: dict[str, Vectors]
    interim: list[NodeText]
    writes: tuple[tuple[str, int], ...]
    moments: tuple[float, ...]
    proposed: dict[str, tuple[EdgeKey, ...]] = {}


class KnownState(msgspec.Struct, frozen=True, kw_only=True):
    """How to look up what memory holds already.

    ``node`` gives the node of an id (retired ones too, accesses counted), ``edge`` the live edge from, to and
    of a relation, ``edges_of`` the live edges at a node: those "out" of it, "in" to it or "both", of the
    relations given or of all. ``is_live`` may say quickly that a node is there, not retired, and nobody's
    alone; if it does not, ``node`` is asked.
    """

    node: Callable[[str], Node | None]
    edge: Callable[[str, str, str], Edge | None]
    edges_of: Callable[[str, Direction, Collection[str]], Iterable[Edge]]
    is_live: Callable[[str], bool] = lambda _: False


def key_of(edge: Edge) -> EdgeTuple:
    """The key of an edge."""
    return edge.from_id, edge.to_id, edge.relation.value


def name_edge(edge: Edge) -> EdgeKey:
    """The same as a write names it."""
    return EdgeKey(from_id=edge.from_id, to_id=edge.to_id, relation=edge.relation)


def embedded_text(node: Node) -> str:
    """What a node's vector is made of: title, then body; tags and metadata say little about meaning."""
    return join_text(node.title, node.body)


def join_text(title: str, body: str) -> str:
    """The text of a node with this title and body."""
    return f"{title}\n{body}" if body else title


def check_node(node: Node) -> None:
    """Raise ValueError naming the field if a table cannot hold what the contract admits."""
    if node.access_count > MAX_COUNT:
        raise ValueError(f"access_count must be at most {MAX_COUNT}, not {node.access_count}")
    for tag in node.tags:
        if len(tag) > MAX_TAG or not tag.strip():
            raise ValueError(f"tags must be 1 to {MAX_TAG} characters each, not {tag[:40]!r}")


def merge_node(
    node: Node, old: Node | None, version: int, written_at: str, seen: tuple[int, str] = (0, "")
) -> Node:
    """A node as it is stored: without embedding, and with what the ``old`` one keeps.

    ``seen`` is how often that was shown so far, and when last.
    """
    if old is None:
        return amended(node, created_version=version, version=version, retired_version=0, embedding=())
    return amended(
        node,
        created_at=old.created_at,
        updated_at=node.updated_at or written_at,
        created_version=old.created_version,
        version=version,
        retired_version=0,
        embedding=(),
        access_count=max(node.access_count, seen[0]),
        last_accessed_at=max(node.last_accessed_at, seen[1]),
    )


def is_same(node: Node, old: Node) -> bool:
    """Whether they say the same."""
    return bool(_content(node) == _content(old))


def merge_edge(edge: Edge, old: Edge | None, version: int, stamp: str) -> Edge:
    """An edge as it is stored, with what the ``old`` one keeps; ``stamp`` is when it is written."""
    return amended(
        edge,
        created_at=old.created_at if old else edge.created_at or stamp,
        touched_at=edge.touched_at or stamp,
        created_version=old.created_version if old else version,
        version=version,
        retired_version=0,
    )


def is_same_edge(edge: Edge, old: Edge) -> bool:
    """Whether writing ``edge`` over ``old`` changes nothing."""
    if edge.touched_at and edge.touched_at != old.touched_at:
        return False
    return edge.weight == old.weight and edge.provenance == old.provenance


def read_vectors(write: MemoryWrite, dimensions: int) -> dict[int, Vectors]:
    """The vectors that came with a write, by the place of their node; raises ValueError for a bad one."""
    if write.vectors:
        if len(write.vectors) != 4 * dimensions * len(write.nodes):
            raise ValueError(
                f"vectors holds {len(write.vectors):,} bytes; {len(write.nodes)} vectors of this memory's "
                f"model ({dimensions} numbers each) take {4 * dimensions * len(write.nodes):,}"
            )
        rows = np.frombuffer(write.vectors, "<f4").astype(np.float32, copy=False).reshape(-1, dimensions)
        _require_units(rows)
        return dict(enumerate(rows))
    places = [place for place, node in enumerate(write.nodes) if node.embedding]
    for place in places:
        if len(write.nodes[place].embedding) != dimensions:
            count = len(write.nodes[place].embedding)
            raise ValueError(f"embedding has {count} numbers; this memory's model has {dimensions}")
    if not places:
        return {}
    with np.errstate(over="ignore"):
        rows = np.array([write.nodes[place].embedding for place in places], np.float32)
    _require_units(rows)
    return dict(zip(places, rows, strict=True))


def _require_units(rows: Vectors) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.vecdot(rows, rows)
        if squares.min() >= _LEAST and squares.max() <= _MOST:  # neither if one is not a number
            return
        lengths = np.sqrt(squares)
        bad = np.flatnonzero(~(np.abs(lengths - 1) <= UNIT_TOLERANCE))  # also if it is not a number
    if len(bad):
        raise ValueError(f"embedding must be a unit vector; its length is {lengths[bad[0]]:.4g}")
