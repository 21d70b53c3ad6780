"""Memory: search, nodes with their history, the graph and its versions, briefings and their changes; what
commands ask of it, and what people write there.
"""

import asyncio
import difflib
from collections.abc import Awaitable
from typing import Annotated, Any, TypeVar

import msgspec
from starlette.responses import Response as HttpResponse

from services.gateway.call import Call
from services.gateway.problems import Failure, not_found
from services.gateway.routing import JSON, Endpoint, require_scope
from shared import subjects
from shared.access.scopes import People, Person, Scope
from shared.asyncapi.channels import MEMORY_VERBS
from shared.contracts import (
    NAME,
    TOKEN,
    Briefing,
    BriefQuery,
    Direction,
    Edge,
    EdgesQuery,
    HistoryQuery,
    Hit,
    MemoryWrite,
    MemoryWritten,
    Node,
    NodeHistory,
    Picture,
    PictureQuery,
    Relation,
    Traversal,
    TraverseQuery,
    VersionPage,
    VersionsQuery,
    generate_id,
)
from shared.contracts.base import amended
from shared.contracts.queries import MAX_PAGE
from shared.errors import Refused
from shared.memory import Memory, WriteRefused
from shared.memory.ownership import PRIVATE, find_owner
from shared.reasoning.prompts import compose_prompt, fetch_soul, format_day, own_soul
from shared.reasoning.recall import briefing_size
from shared.tasks.installed_agents import load_agents, load_specialists
from shared.views.memory_change import MemoryChange

API = "/api/v1/memory"
MAX_EDGES = 200  # The most edges that come with a node
MAX_VERSION = 2**53  # The largest version a browser can count
CONTEXT = 3  # Lines around a change in the difference of two briefings

T = TypeVar("T")
Version = Annotated[int, msgspec.Meta(ge=0, le=MAX_VERSION)]
Words = Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
AgentName = Annotated[str, msgspec.Meta(pattern=f"^{NAME.pattern}$")]
Name = Annotated[str, msgspec.Meta(pattern=f"^{TOKEN.pattern}$")]


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


class BriefingDiffQuery(msgspec.Struct, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """Whose briefing, and between which graph versions; ``to`` 0 is the present one."""

    agent: AgentName
    since: Version
    until: Version = 0
    compact: bool = False


class PromptQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whose prompt, and of which graph version: 0 is the present one."""

    agent: AgentName
    at: Version = 0


class AgentPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """The system prompt of an agent's model, and the briefing in it."""

    prompt: str
    briefing: Briefing


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


class NamesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ids of nodes, or how they begin."""

    names: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_PAGE)]


class FoundIds(msgspec.Struct, frozen=True, kw_only=True):
    """The ids that begin so; a name that fits none is among them as it is."""

    ids: list[str]


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


async def list_versions(call: Call, query: VersionsQuery) -> VersionPage:
    """Graph versions, the latest first: when, by whom, and what was changed."""
    return await _memory(call).versions(query)


async def draw_graph(call: Call, query: PictureQuery) -> Picture:
    """The nodes and edges of the graph that are to be drawn."""
    return await _of_known(_memory(call).picture(query))


async def read_briefing(call: Call, query: BriefQuery) -> Briefing:
    """The briefing of an agent: ``text``, and the nodes it was made of."""
    return await _of_known(_memory(call).brief(**msgspec.structs.asdict(query)))


async def read_prompt(call: Call, query: PromptQuery) -> AgentPrompt:
    """The prompt as the agent's model gets it: persona, the day, and the briefing, sized to the model."""
    config = call.gateway.settings
    asked = _memory(call).brief(query.agent, max_chars=briefing_size(config), at=query.at)
    briefing = await _of_known(asked)
    profiles = await asyncio.to_thread(lambda: [*load_agents(config), *load_specialists(config)])
    own = next((own_soul(each.profile) for each in profiles if each.profile.name == query.agent), "")
    soul = await fetch_soul(query.agent, config, own)
    parts = compose_prompt(soul, briefing.text, day=format_day(config))
    return AgentPrompt(prompt="\n\n".join(filter(None, parts)), briefing=briefing)


async def compare_briefings(call: Call, query: BriefingDiffQuery) -> BriefingDiff:
    """What changed in the briefing of an agent between two graph versions, line by line."""
    memory = _memory(call)
    before, after = [
        await _of_known(memory.brief(query.agent, compact=query.compact, at=version))
        for version in (query.since or 1, query.until)
    ]
    texts = [
        each.text.replace("; ", ";\n") if query.compact else each.text  # an item a line
        for each in (before, after)
    ]
    lines = diff_lines(*texts)
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


async def find_ids(call: Call, body: NamesQuery) -> FoundIds:
    """The ids of nodes by how they begin: four characters or more, if no other begins so."""
    return FoundIds(ids=await _memory(call).find_ids(body.names))


def _pass_on(verb: str, scope: Scope = Scope.READ) -> Endpoint:
    """The row that passes a query on to memory, and memory's answer back."""
    summary, query, answer = MEMORY_VERBS[verb]

    async def ask(call: Call, body: Any) -> HttpResponse:
        if getattr(body, "action", "status") != "status":  # it occupies all of memory for a while
            require_scope(call.request, Scope.ADMIN)
        return HttpResponse(await _of_known(_memory(call).ask(verb, body)), media_type=JSON)

    ask.__name__, ask.__doc__ = f"ask_memory_{verb}", f"{summary}."
    ask.__annotations__["body"] = query
    return Endpoint("POST", f"{API}/{verb}", ask, scope=scope, tag="memory", contracts=(answer,))


async def write_memory(call: Call, body: MemoryChange) -> MemoryWritten:
    """Add and change nodes and edges, retire nodes, remove edges: all of it or nothing.

    It answers once it is on disk; ``error`` and ``rejection`` say why nothing was stored. What may be sent
    again has an ``id``, under which it is stored once. What a person says is that person's; a node whose text
    stays as it was stays its author's, and administrators may name another. Nothing is forgotten so.
    """
    memory = _memory(call)
    nodes = body.nodes
    if call.person.name and nodes:  # at the command line of its machine it is not known who it is
        known = {node.id: node for node in await memory.get(*(node.id for node in nodes))}
        nodes = tuple(_sign(call.person, node, known.get(node.id)) for node in nodes)
        mine = People(call.gateway.settings).find(call.person.audience) is not None
        nodes = tuple(
            _address(node, known.get(node.id), call.person, body.audience if mine else "team")
            for node in nodes
        )
    write = MemoryWrite(
        id=body.id or generate_id(),
        sender=subjects.USER,
        person=call.person.name,
        audience=call.person.audience if any(map(find_owner, nodes)) else "",
        nodes=nodes,
        edges=body.edges,
        retire=body.retire,
        unlink=body.unlink,
        insist=body.insist,
    )
    try:
        return await memory.write(write)
    except WriteRefused as refused:
        return refused.written


def _sign(person: Person, node: Node, known: Node | None) -> Node:
    """A node with its author, ``known`` as memory holds it."""
    if known is not None and (known.title, known.body) == (node.title, node.body):
        source, name = known.source, known.metadata.get("person", "")
    elif person.scope is Scope.ADMIN and (node.source.agent != subjects.USER or "person" in node.metadata):
        source, name = node.source, node.metadata.get("person", "")
    else:
        source, name = msgspec.structs.replace(node.source, agent=subjects.USER), person.name
    rest = {key: value for key, value in node.metadata.items() if key != "person"}
    return amended(node, source=source, metadata={**rest, "person": name} if name else rest)


def _address(node: Node, known: Node | None, person: Person, audience: str) -> Node:
    """The node for whom it is to be; raises Failure if it is not the person's to take from the team."""
    own = PRIVATE + person.audience
    is_own = known is not None and known.source.channel == own
    if audience == "me" and known and not is_own and known.metadata.get("person") != person.name:
        raise Failure(403, f"{node.id} is not yours alone to keep", "Add one of your own")
    alone = audience == "me" or (audience == "" and person.audience != "" and (known is None or is_own))
    channel = own if alone else "" if node.source.channel.startswith(PRIVATE) else node.source.channel
    return amended(node, source=msgspec.structs.replace(node.source, channel=channel))


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
        cause, cure = error.cause, error.cure
        if "not in memory" in cause:
            cause, cure = f"{cause[0].upper()}{cause[1:]}", cure or "'mailroom memory search' finds ids"
        elif not any(missing in cause for missing in ("no graph version", "no agent")):
            raise
        raise Failure(404, cause, cure) from None


ENDPOINTS = (
    Endpoint("GET", f"{API}/counts", count_memory, scope=Scope.READ, tag="memory"),
    Endpoint("GET", f"{API}/search", search_memory, scope=Scope.READ, tag="memory"),
    Endpoint("GET", f"{API}/nodes/{{id}}", read_node, scope=Scope.READ, tag="memory"),
    Endpoint("GET", f"{API}/nodes/{{id}}/neighbours", walk_from_node, scope=Scope.READ, tag="memory"),
    Endpoint("GET", f"{API}/versions", list_versions, scope=Scope.READ, tag="memory"),
    Endpoint("GET", f"{API}/graph", draw_graph, scope=Scope.READ, tag="memory"),
    Endpoint("GET", f"{API}/brief", read_briefing, scope=Scope.READ, tag="memory"),
    Endpoint("GET", f"{API}/prompt", read_prompt, scope=Scope.READ, tag="memory"),
    Endpoint("GET", f"{API}/brief/diff", compare_briefings, scope=Scope.READ, tag="memory"),
    Endpoint("POST", f"{API}/ids", find_ids, scope=Scope.READ, tag="memory"),
    *map(_pass_on, ("search", "get", "list", "edges", "traverse", "paths", "stats", "health", "linker")),
    *(_pass_on(verb, Scope.ADMIN) for verb in ("reindex", "rebuild")),
    Endpoint("POST", f"{API}/write", write_memory, scope=Scope.SUBMIT, tag="memory"),
)
