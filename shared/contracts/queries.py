"""Queries to memory and their answers: nodes, the past, and the picture of the graph."""

from typing import Annotated, Literal

import msgspec

from shared.contracts.base import (
    AgentName,
    Contract,
    Count,
    OptionalTimestamp,
    OptionalToken,
    Text,
    Token,
    Unit,
    at_most,
    between,
)
from shared.contracts.memory import Edge, Node, Relation

Direction = Literal["out", "in", "both"]
Strategy = Literal["bfs", "dfs", "weighted"]

MAX_LIMIT = 100  # The most hits of one search
MAX_PAGE = 1_000  # The most entries of one page of a list
MAX_DEPTH = 20  # The most hops of a walk: further away everything is connected with everything
MAX_VISITED = 10_000  # The most nodes one walk visits


def require_version(field: str, value: int) -> None:
    """Raise ValueError unless ``value`` can be a version of the graph; 0 is the present one."""
    if value < 0:
        raise ValueError(f"{field} must be a graph version, at least 0, not {value}")


Version = Annotated[int, require_version]


class MemoryQuery(Contract, frozen=True, kw_only=True):
    """A search: ``limit`` is 1 to 100; empty filters admit everything.

    ``agent`` and ``session`` admit what came from there, ``since`` and ``until`` what last changed in
    between; ``anchors`` are ids of nodes whose neighbourhood in the graph counts as nearer; ``at`` searches
    memory as it was at that graph version (0: as it is); ``deep`` compares the top hits with the
    text word by word (slower, finds more); ``vector`` is the embedding of the text, if known already;
    ``settled`` waits, ten seconds at most, for the writes that have reached memory and are not stored yet.
    What is superseded or past its ``valid_to`` is left out, unless ``history`` is set, ``at`` is, or the text
    asks for the past ("what was", "before", "used to").
    """

    text: Text
    limit: Annotated[int, between(1, MAX_LIMIT)] = 10
    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    agent: str = ""
    session: str = ""
    since: OptionalTimestamp = ""
    until: OptionalTimestamp = ""
    anchors: tuple[Token, ...] = ()
    at: Version = 0
    deep: bool = False
    history: bool = False
    vector: tuple[float, ...] = ()
    settled: bool = False


class Hit(Contract, frozen=True, kw_only=True):
    """A found node with its score in 0..1 and the parts of the score.

    ``superseded_by`` is the id of what superseded it, if anything did; ``questioned_by`` that of a newer node
    that may have: nobody has decided it.
    """

    node: Node
    score: float
    why: dict[str, float] = {}
    superseded_by: str = ""
    questioned_by: str = ""


class GetQuery(Contract, frozen=True, kw_only=True):
    """The nodes of these ids, as they are or as they were at version ``at``."""

    ids: Annotated[tuple[Token, ...], at_most(MAX_PAGE, "entries")]
    at: Version = 0


class ListQuery(Contract, frozen=True, kw_only=True):
    """Nodes in the order of their ids, a page at a time.

    ``after`` is the last id of the page before; ``limit`` is 1 to 1000; the filters are those of a search;
    ``changed_since`` admits what was written after that graph version; ``retired`` admits tombstones too.
    """

    after: OptionalToken = ""
    limit: Annotated[int, between(1, MAX_PAGE)] = 100
    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    agent: str = ""
    session: str = ""
    since: OptionalTimestamp = ""
    until: OptionalTimestamp = ""
    changed_since: Count = 0
    retired: bool = False
    at: Version = 0


class NodePage(Contract, frozen=True, kw_only=True):
    """A page of nodes; ``next`` goes into ``after`` for the following one, and is empty on the last."""

    nodes: tuple[Node, ...] = ()
    next: str = ""
    version: Count = 0


class EdgesQuery(Contract, frozen=True, kw_only=True):
    """Edges in the order of (from, to, relation), a page at a time; of one ``node`` if it is given.

    ``after`` is ``next`` of the page before; ``limit`` is 1 to 1000.
    """

    node: OptionalToken = ""
    direction: Direction = "both"
    relations: tuple[Relation, ...] = ()
    after: str = ""
    limit: Annotated[int, between(1, MAX_PAGE)] = 1_000
    at: Version = 0


class EdgePage(Contract, frozen=True, kw_only=True):
    """A page of edges; ``next`` goes into ``after`` for the following one, and is empty on the last."""

    edges: tuple[Edge, ...] = ()
    next: str = ""
    version: Count = 0


class TraverseQuery(Contract, frozen=True, kw_only=True):
    """A walk from ``start``: at most ``depth`` hops (0 to 20) and ``limit`` nodes in the answer (1 to 1000).

    ``bfs`` goes hop by hop, ``dfs`` to the end of each branch first, ``weighted`` along the strongest edge
    there is. ``relations`` and ``min_weight`` decide which edges are walked; ``kinds`` only which nodes are
    shown: hidden ones are walked through. ``at`` walks memory as it was at that graph version.
    """

    start: tuple[Token, ...]
    strategy: Strategy = "bfs"
    depth: Annotated[int, between(0, MAX_DEPTH)] = 3
    direction: Direction = "out"
    relations: tuple[Relation, ...] = ()
    kinds: tuple[str, ...] = ()
    min_weight: Unit = 0.0
    include_start: bool = True
    limit: Annotated[int, between(1, MAX_PAGE)] = 1_000
    at: Version = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(self.start) <= MAX_PAGE:
            raise ValueError(f"start must name 1 to {MAX_PAGE:,} nodes, not {len(self.start):,}")


class Visit(Contract, frozen=True, kw_only=True):
    """A node a walk reached: ``depth`` hops from the start, by an edge with ``parent``, empty at the start.

    ``weight`` is the product of the edges' weights on the way there.
    """

    node: Node
    depth: Count = 0
    weight: Unit = 1.0
    parent: str = ""
    relation: str = ""


class Traversal(Contract, frozen=True, kw_only=True):
    """The nodes a walk reached, in order; ``edges`` join the nodes shown.

    ``visited`` counts all visited nodes. ``truncated`` names the limit that ended the walk early (nodes, time
    or the answer's limit), or is empty.
    """

    visits: tuple[Visit, ...] = ()
    edges: tuple[Edge, ...] = ()
    visited: Count = 0
    truncated: str = ""
    version: Count = 0


class PathsQuery(Contract, frozen=True, kw_only=True):
    """The best ``k`` (1 to 20) paths from one node to another, of at most ``depth`` hops (1 to 20)."""

    from_id: Token = msgspec.field(name="from")
    to_id: Token = msgspec.field(name="to")
    k: Annotated[int, between(1, 20)] = 1
    depth: Annotated[int, between(1, MAX_DEPTH)] = 10
    direction: Direction = "both"
    relations: tuple[Relation, ...] = ()
    min_weight: Unit = 0.0
    at: Version = 0


class Path(Contract, frozen=True, kw_only=True):
    """A path through the graph; ``weight`` is the product of its edges' weights."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    weight: Unit


class BriefQuery(Contract, frozen=True, kw_only=True):
    """The briefing of ``agent``, as it is or as it was at graph version ``at``.

    ``compact`` asks for titles alone, so that more nodes have room. Its text has at most ``max_chars``
    characters (1,000 to 60,000), a section at most ``per_section`` nodes (0: 100, as far as they have room).
    Without ``include_contradictions`` the sides of contradictions stand where they would without them.
    """

    agent: AgentName
    compact: bool = False
    at: Version = 0
    max_chars: Annotated[int, between(1_000, 60_000)] = 8_000
    per_section: Annotated[int, between(0, 100)] = 0
    include_contradictions: bool = True


ChangeOfNode = Literal["added", "changed", "forgotten"]


class NodeChange(Contract, frozen=True, kw_only=True):
    """What one write did to a node."""

    id: str
    kind: str
    title: str
    change: ChangeOfNode = "added"


class VersionsQuery(Contract, frozen=True, kw_only=True):
    """A page of graph versions, the latest first: those before ``before``, 0 for the latest of all.

    At most ``limit`` (1 to 200). Writes that only counted accesses are left out.
    """

    before: Count = 0
    limit: Annotated[int, between(1, 200)] = 50


class VersionChange(Contract, frozen=True, kw_only=True):
    """What made a graph version: the write of ``sender`` at ``at``, and what it changed.

    ``person`` is who it was if the sender is ``user`` and gave a name. ``write`` is the id of the write,
    ``cause`` what it answers. ``nodes`` are at most 20 of the ``changed`` ones; ``linked`` and ``unlinked``
    count edges. ``sender`` is empty if the log no longer has the write.
    """

    version: Count
    at: OptionalTimestamp = ""
    sender: str = ""
    person: str = ""
    write: str = ""
    cause: str = ""
    nodes: tuple[NodeChange, ...] = ()
    changed: Count = 0
    linked: Count = 0
    unlinked: Count = 0


class VersionPage(Contract, frozen=True, kw_only=True):
    """A page of versions; ``next`` goes into ``before`` for the following one, and is 0 on the last.

    ``version`` is the present one, ``first`` the oldest that ``at`` can name. A page may be shorter than its
    limit, even empty, although another one follows.
    """

    versions: tuple[VersionChange, ...] = ()
    next: Count = 0
    version: Count = 0
    first: Count = 0


class HistoryQuery(Contract, frozen=True, kw_only=True):
    """The states that a node had, the latest first, at most ``limit`` (1 to 100)."""

    id: Token
    limit: Annotated[int, between(1, 100)] = 50


class NodeState(Contract, frozen=True, kw_only=True):
    """What a node was from graph version ``version`` on, and who wrote that and when.

    ``fields`` are those in which it differs from the state before; ``sender`` and ``person`` as in a
    VersionChange.
    """

    version: Count
    node: Node
    change: ChangeOfNode = "added"
    fields: tuple[str, ...] = ()
    at: OptionalTimestamp = ""
    sender: str = ""
    person: str = ""
    write: str = ""
    cause: str = ""


class NodeHistory(Contract, frozen=True, kw_only=True):
    """The states of a node, the latest first; ``omitted`` counts the older ones that did not fit."""

    id: str
    states: tuple[NodeState, ...] = ()
    omitted: Count = 0
    version: Count = 0


MAX_DRAWN = 2_000  # The most nodes of one picture: a browser draws so many in a frame

Standing = Literal["current", "superseded", "forgotten"]
"""Whether a node holds, another one took its place (or its ``valid_to`` passed), or it was retired."""


class PictureQuery(Contract, frozen=True, kw_only=True):
    """What to draw of memory's graph, as it is or as it was at graph version ``at``.

    At most ``limit`` nodes (1 to 2000): those near the node ``anchor``, or else those with the most edges,
    the most important and the most recent. ``forgotten`` adds retired nodes, the latest first.
    """

    at: Version = 0
    anchor: OptionalToken = ""
    limit: Annotated[int, between(1, MAX_DRAWN)] = 500
    forgotten: bool = False


class PictureNode(Contract, frozen=True, kw_only=True):
    """A node of a picture; ``degree`` counts all of its edges. Where it is drawn is the page's to find."""

    id: str
    kind: str
    title: str
    agent: str = ""
    importance: Unit = 0.5
    standing: Standing = "current"
    degree: Count = 0


class PictureEdge(Contract, frozen=True, kw_only=True):
    """An edge between two nodes of a picture, which ``start`` and ``end`` count from 0 in its order."""

    start: Count
    end: Count
    relation: Relation = Relation.RELATED_TO
    weight: Unit = 1.0


class Picture(Contract, frozen=True, kw_only=True):
    """The picture of the graph at ``version``; ``total`` nodes and ``total_edges`` edges are there in all."""

    version: Count
    nodes: tuple[PictureNode, ...] = ()
    edges: tuple[PictureEdge, ...] = ()
    total: Count = 0
    total_edges: Count = 0
