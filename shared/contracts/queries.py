"""Asking memory: the questions, and what is answered to them."""

from typing import Literal

import msgspec

from shared.contracts.base import (
    Contract,
    require_count,
    require_name,
    require_text,
    require_timestamp,
    require_token,
    require_unit,
)
from shared.contracts.memory import Edge, Node, Relation

Direction = Literal["out", "in", "both"]
Strategy = Literal["bfs", "dfs", "weighted"]

MAX_LIMIT = 100
"""The most hits of one search."""
MAX_PAGE = 1_000
"""The most entries of one page of a list."""
MAX_DEPTH = 20
"""The deepest walk: further away everything is connected with everything."""
MAX_VISITED = 10_000
"""The most nodes one walk looks at."""


class MemoryQuery(Contract, frozen=True, kw_only=True):
    """A search: ``limit`` is 1 to 100; empty filters admit everything.

    ``agent`` and ``session`` admit what came from there, ``since`` and ``until`` what last changed in
    between; ``anchors`` are ids of nodes whose neighbourhood in the graph counts as nearer; ``at`` searches
    memory as it was at that graph version (0: as it is); ``deep`` has the best read again by the
    cross-encoder, which is better and slower; ``vector`` is the embedded text where the asker has it already.
    """

    text: str
    limit: int = 10
    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    agent: str = ""
    session: str = ""
    since: str = ""
    until: str = ""
    anchors: tuple[str, ...] = ()
    at: int = 0
    deep: bool = False
    vector: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        require_text("text", self.text)
        _require_between("limit", self.limit, 1, MAX_LIMIT)
        _require_version(self.at)
        for field in ("since", "until"):
            if value := getattr(self, field):
                require_timestamp(field, value)
        for anchor in self.anchors:
            require_token("anchors", anchor)


class Hit(Contract, frozen=True, kw_only=True):
    """A found node with its score in 0..1 and the parts that made it."""

    node: Node
    score: float
    why: dict[str, float] = {}


class GetQuery(Contract, frozen=True, kw_only=True):
    """The nodes of these ids, as they are or as they were at version ``at``."""

    ids: tuple[str, ...]
    at: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.ids) > MAX_PAGE:
            raise ValueError(f"ids has {len(self.ids):,} entries; the limit is {MAX_PAGE:,}")
        for node_id in self.ids:
            require_token("ids", node_id)
        _require_version(self.at)


class ListQuery(Contract, frozen=True, kw_only=True):
    """Nodes in the order of their ids, a page at a time.

    ``after`` is the last id of the page before; ``limit`` is 1 to 1000; the filters are those of a search;
    ``changed_since`` admits what was written after that graph version; ``retired`` admits tombstones too.
    """

    after: str = ""
    limit: int = 100
    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    agent: str = ""
    session: str = ""
    since: str = ""
    until: str = ""
    changed_since: int = 0
    retired: bool = False
    at: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.after:
            require_token("after", self.after)
        _require_between("limit", self.limit, 1, MAX_PAGE)
        require_count("changed_since", self.changed_since)
        _require_version(self.at)
        for field in ("since", "until"):
            if value := getattr(self, field):
                require_timestamp(field, value)


class NodePage(Contract, frozen=True, kw_only=True):
    """A page of nodes; ``next`` goes into ``after`` for the following one, and is empty on the last."""

    nodes: tuple[Node, ...] = ()
    next: str = ""
    version: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("version", self.version)


class EdgesQuery(Contract, frozen=True, kw_only=True):
    """Edges in the order of (from, to, relation), a page at a time; of one ``node`` where it is given.

    ``after`` is what ``next`` of the page before said; ``limit`` is 1 to 1000.
    """

    node: str = ""
    direction: Direction = "both"
    relations: tuple[Relation, ...] = ()
    after: str = ""
    limit: int = 1_000
    at: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.node:
            require_token("node", self.node)
        _require_between("limit", self.limit, 1, MAX_PAGE)
        _require_version(self.at)


class EdgePage(Contract, frozen=True, kw_only=True):
    """A page of edges; ``next`` goes into ``after`` for the following one, and is empty on the last."""

    edges: tuple[Edge, ...] = ()
    next: str = ""
    version: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("version", self.version)


class TraverseQuery(Contract, frozen=True, kw_only=True):
    """A walk from ``start``: at most ``depth`` hops (0 to 20) and ``limit`` nodes in the answer (1 to 1000).

    ``bfs`` goes hop by hop, ``dfs`` to the end of each branch first, ``weighted`` along the strongest edge
    there is. ``relations`` and ``min_weight`` decide which edges are walked; ``kinds`` only which nodes are
    shown: hidden ones are walked through. ``at`` walks memory as it was at that graph version.
    """

    start: tuple[str, ...]
    strategy: Strategy = "bfs"
    depth: int = 3
    direction: Direction = "out"
    relations: tuple[Relation, ...] = ()
    kinds: tuple[str, ...] = ()
    min_weight: float = 0.0
    include_start: bool = True
    limit: int = 1_000
    at: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(self.start) <= MAX_PAGE:
            raise ValueError(f"start must name 1 to {MAX_PAGE:,} nodes, not {len(self.start):,}")
        for node_id in self.start:
            require_token("start", node_id)
        _require_between("depth", self.depth, 0, MAX_DEPTH)
        _require_between("limit", self.limit, 1, MAX_PAGE)
        require_unit("min_weight", self.min_weight)
        _require_version(self.at)


class Visit(Contract, frozen=True, kw_only=True):
    """A node a walk came to: ``depth`` hops from the start, by an edge with ``parent``, empty at the start.

    ``weight`` is the product of the edges' weights on the way there.
    """

    node: Node
    depth: int = 0
    weight: float = 1.0
    parent: str = ""
    relation: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("depth", self.depth)
        require_unit("weight", self.weight)


class Traversal(Contract, frozen=True, kw_only=True):
    """Where a walk came to, in the order of arrival; ``edges`` join the nodes shown.

    ``visited`` counts every node looked at. ``truncated`` is empty, or says which bound ended the walk
    before its end: the nodes, the time or the answer's limit.
    """

    visits: tuple[Visit, ...] = ()
    edges: tuple[Edge, ...] = ()
    visited: int = 0
    truncated: str = ""
    version: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("visited", self.visited)
        require_count("version", self.version)


class PathsQuery(Contract, frozen=True, kw_only=True):
    """The best ``k`` (1 to 20) ways from one node to another, of at most ``depth`` hops (1 to 20)."""

    from_id: str = msgspec.field(name="from")
    to_id: str = msgspec.field(name="to")
    k: int = 1
    depth: int = 10
    direction: Direction = "both"
    relations: tuple[Relation, ...] = ()
    min_weight: float = 0.0
    at: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_token("from", self.from_id)
        require_token("to", self.to_id)
        _require_between("k", self.k, 1, 20)
        _require_between("depth", self.depth, 1, MAX_DEPTH)
        require_unit("min_weight", self.min_weight)
        _require_version(self.at)


class Path(Contract, frozen=True, kw_only=True):
    """A way through the graph; ``weight`` is the product of its edges' weights."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    weight: float

    def __post_init__(self) -> None:
        super().__post_init__()
        require_unit("weight", self.weight)


class BriefQuery(Contract, frozen=True, kw_only=True):
    """What ``agent`` needs to know, as it is or as it was told at graph version ``at``.

    ``compact`` asks for titles alone.
    """

    agent: str
    compact: bool = False
    at: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_name("agent", self.agent)
        _require_version(self.at)


def _require_between(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{field} must be between {least} and {most}, not {value}")


def _require_version(at: int) -> None:
    if at < 0:
        raise ValueError(f"at must be a graph version, at least 0, not {at}")
