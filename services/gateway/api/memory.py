"""Memory: search, nodes with their history, the graph and its versions, briefings and their changes."""

import asyncio
import difflib
from collections.abc import Awaitable
from typing import Annotated, TypeVar

import msgspec

from services.gateway.call import Call
from services.gateway.problems import Failure, not_found
from services.gateway.routing import Endpoint
from shared.access.scopes import Scope
from shared.contracts import (
    NAME,
    TOKEN,
    Briefing,
    Direction,
    Edge,
    EdgesQuery,
    HistoryQuery,
    Hit,
    Node,
    NodeHistory,
    Picture,
    PictureQuery,
    Relation,
    Traversal,
    TraverseQuery,
    VersionPage,
    VersionsQuery,
)
from shared.contracts.queries import MAX_DRAWN
from shared.errors import Refused
from shared.memory import Memory

API = "/api/v1/memory"
MAX_EDGES = 200  # The most edges that come with a node
MAX_VERSION = 2**53  # The largest version a browser can count
CONTEXT = 3  # Lines around a change in the difference of two briefings

T = TypeVar("T")
Version = Annotated[int, msgspec.Meta(ge=0, le=MAX_VERSION)]
Words = Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
AgentName = Annotated[str, msgspec.Meta(pattern=f"^{NAME.pattern}$")]
Id = Annotated[str, msgspec.Meta(pattern=f"^({TOKEN.pattern})?$")]


class MemorySearch(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for in memory, and in which part: ``at`` is a graph version, 0 the present one.

    ``deep`` compares the best with the question word by word, which is slower and finds more.
    """

    q: Words
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
    kinds: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    agent: Annotated[str, msgspec.Meta(max_length=64)] = ""
    at: Version = 0
    deep: bool = False


class FoundNodes(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that fit best, best first, each with the parts of its score."""

    hits: list[Hit]


class VersionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A graph version; 0 is the present one."""

    at: Version = 0


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """An edge of a node, and what is at its other end; ``direction`` is ``out`` if the edge begins here."""

    direction: str
    edge: Edge
    node: Node


class NodeDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A node with its edges, the states it had, and what took its place or what it took the place of."""

    node: Node
    version: int
    edges: list[Neighbour]
    history: NodeHistory
    superseded_by: list[Node]
    supersedes: list[Node]
    contradicts: list[Node]


class NeighboursQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A walk through the graph: how many hops, along which edges."""

    depth: Annotated[int, msgspec.Meta(ge=1, le=5)] = 1
    direction: Direction = "both"
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50
    at: Version = 0


class VersionPageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A page of graph versions, the latest first: those before ``before`` (0: the latest)."""

    before: Version = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50


class GraphQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the graph to draw: near ``anchor``, or the most important; at a version (0: now)."""

    at: Version = 0
    anchor: Id = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_DRAWN)] = 500
    forgotten: bool = False


class BriefingQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whose briefing, as of which graph version (0: now); ``compact`` asks for titles alone.

    The text has at most ``max_chars`` characters, a section ``per_section`` nodes (0: any). Without
    ``include_contradictions``, the sides of contradictions stand where they would without them.
    """

    agent: AgentName
    at: Version = 0
    compact: bool = False
    max_chars: Annotated[int, msgspec.Meta(ge=1_000, le=60_000)] = 8_000
    per_section: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    include_contradictions: bool = True


class BriefingDiffQuery(msgspec.Struct, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """Whose briefing, and between which graph versions; ``to`` 0 is the present one."""

    agent: AgentName
    since: Version
    until: Version = 0
    compact: bool = False


class DiffLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a briefing: ``same``, ``added``, ``removed``; ``skipped`` stands for lines left out."""

    kind: str
    text: str


class BriefingDiff(msgspec.Struct, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """What changed in a briefing from one graph version to another."""

    agent: str
    since: int
    until: int
    added: int
    removed: int
    lines: list[DiffLine]


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How much memory holds: nodes that are not forgotten, edges, nodes by kind; and its graph version."""

    version: int
    nodes: int
    edges: int
    kinds: dict[str, int]


async def count_memory(call: Call) -> Counts:
    """How much memory holds."""
    stats = await _memory(call).stats()
    return msgspec.convert({name: stats[name] for name in Counts.__struct_fields__}, Counts)


async def search_memory(call: Call, query: MemorySearch) -> FoundNodes:
    """The nodes that fit some words best, with why."""
    filters = {"kinds": query.kinds, "tags": query.tags, "agent": query.agent}
    search = _memory(call).search(query.q, limit=query.limit, at=query.at, deep=query.deep, **filters)
    return FoundNodes(hits=await _of_known(search))


async def read_node(call: Call, query: VersionQuery) -> NodeDetails:
    """A node as it is or was, with its edges and its history.

    A forgotten node has no edges; its history shows what it was.
    """
    node_id, memory = node_id_of(call), _memory(call)
    found, page, history = await asyncio.gather(
        _of_known(memory.get(node_id, at=query.at)),
        _of_known(memory.edges(EdgesQuery(node=node_id, limit=MAX_EDGES, at=query.at))),
        memory.history(HistoryQuery(id=node_id)),
    )
    if not found:
        at = f" at version {query.at}" if query.at else ""
        raise not_found(f"node {node_id!r} in memory{at}", "Search for it; an id is exact")
    others = {_other_end(edge, node_id) for edge in page.edges}
    nodes = {node.id: node for node in await memory.get(*sorted(others), at=query.at)}
    edges = [
        Neighbour(
            direction="out" if edge.from_id == node_id else "in",
            edge=edge,
            node=nodes[_other_end(edge, node_id)],
        )
        for edge in page.edges
        if _other_end(edge, node_id) in nodes
    ]
    return NodeDetails(
        node=found[0],
        version=page.version,
        edges=edges,
        history=history,
        superseded_by=_related(edges, Relation.SUPERSEDES, "in"),
        supersedes=_related(edges, Relation.SUPERSEDES, "out"),
        contradicts=_related(edges, Relation.CONTRADICTS),
    )


def _other_end(edge: Edge, node_id: str) -> str:
    return edge.to_id if edge.from_id == node_id else edge.from_id


def _related(edges: list[Neighbour], relation: Relation, direction: str = "") -> list[Node]:
    return [
        each.node for each in edges if each.edge.relation is relation and direction in ("", each.direction)
    ]


async def walk_from_node(call: Call, query: NeighboursQuery) -> Traversal:
    """What is near a node in the graph, hop by hop."""
    walk = TraverseQuery(
        start=(node_id_of(call),),
        depth=query.depth,
        direction=query.direction,
        limit=query.limit,
        at=query.at,
        include_start=False,
    )
    return await _of_known(_memory(call).traverse(walk))


async def list_versions(call: Call, query: VersionPageQuery) -> VersionPage:
    """Graph versions, the latest first: when, by whom, and what was changed."""
    return await _memory(call).versions(VersionsQuery(before=query.before, limit=query.limit))


async def draw_graph(call: Call, query: GraphQuery) -> Picture:
    """The nodes and edges of the graph that are to be drawn."""
    wanted = PictureQuery(at=query.at, anchor=query.anchor, limit=query.limit, forgotten=query.forgotten)
    return await _of_known(_memory(call).picture(wanted))


async def read_briefing(call: Call, query: BriefingQuery) -> Briefing:
    """The briefing of an agent: ``text``, and the nodes it was made of."""
    return await _of_known(_memory(call).brief(**msgspec.structs.asdict(query)))


async def compare_briefings(call: Call, query: BriefingDiffQuery) -> BriefingDiff:
    """What changed in the briefing of an agent between two graph versions, line by line."""
    memory = _memory(call)
    before, after = [
        await _of_known(memory.brief(query.agent, compact=query.compact, at=version))
        for version in (query.since or 1, query.until)
    ]
    lines = diff_lines(before.text, after.text)
    return BriefingDiff(
        agent=query.agent,
        since=before.version,
        until=after.version,
        added=sum(line.kind == "added" for line in lines),
        removed=sum(line.kind == "removed" for line in lines),
        lines=lines,
    )


def diff_lines(before: str, after: str) -> list[DiffLine]:
    """The lines of both, CONTEXT lines around each change; one ``skipped`` stands for what is between."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[DiffLine] = []
    reached = 0
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT):
        if skipped := group[0][1] - reached:
            lines.append(DiffLine(kind="skipped", text=str(skipped)))
        for tag, first, last, begin, end in group:
            same = tag == "equal"
            lines += [DiffLine(kind="same" if same else "removed", text=text) for text in old[first:last]]
            lines += [] if same else [DiffLine(kind="added", text=text) for text in new[begin:end]]
        reached = group[-1][2]
    if lines and (skipped := len(old) - reached):
        lines.append(DiffLine(kind="skipped", text=str(skipped)))
    return lines


def _memory(call: Call) -> Memory:
    return Memory(call.gateway.bus)


def node_id_of(call: Call) -> str:
    """The id of a node in the path; raises Failure if none can have it."""
    node_id = call.path["id"]
    if not TOKEN.fullmatch(node_id):
        raise not_found(f"node {node_id[:40]!r} in memory", "Search for it; an id is exact")
    return node_id


async def _of_known(answer: Awaitable[T]) -> T:
    try:
        return await answer
    except Refused as error:
        if any(missing in error.cause for missing in ("not in memory", "no graph version", "no agent")):
            raise Failure(404, error.cause, error.cure) from None
        raise


ENDPOINTS = (
    Endpoint("GET", f"{API}/counts", count_memory, scope=Scope.READ, tag="memory"),
    Endpoint("GET", f"{API}/search", search_memory, scope=Scope.READ, tag="memory"),
    Endpoint("GET", f"{API}/nodes/{{id}}", read_node, scope=Scope.READ, tag="memory"),
    Endpoint("GET", f"{API}/nodes/{{id}}/neighbours", walk_from_node, scope=Scope.READ, tag="memory"),
    Endpoint("GET", f"{API}/versions", list_versions, scope=Scope.READ, tag="memory"),
    Endpoint("GET", f"{API}/graph", draw_graph, scope=Scope.READ, tag="memory"),
    Endpoint("GET", f"{API}/brief", read_briefing, scope=Scope.READ, tag="memory"),
    Endpoint("GET", f"{API}/brief/diff", compare_briefings, scope=Scope.READ, tag="memory"),
)
