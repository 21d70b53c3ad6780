"""The picture of the graph: which nodes and edges are drawn; kept by graph version.

Where they are drawn is the page's (services/gateway/web/app/views/graph_places.js).
"""

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.memory.engine import MemoryEngine
from services.memory.graph.decay import HIDDEN, parse_time
from shared.contracts import Node, Picture, PictureEdge, PictureNode, PictureQuery, Relation, Standing
from shared.subjects import USER

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

MAX_EDGES = 5_000  # The most edges of a picture, the strongest ones
DEPTH = 3  # How many edges a node of a neighbourhood may be away from its anchor
FORGOTTEN = 4  # One in so many nodes of a picture may be retired, if those are wanted
KEPT = 16  # Pictures that are kept, as JSON: a large one has 500 kB
FREE_ATTEMPTS = 2
"""How often nodes are chosen at the risk that memory is written to meanwhile; then writes have to wait."""


def draw(view: "View", query: PictureQuery, moment: float, reader: str = USER) -> Picture:
    """What the query shows ``reader`` of a view at ``moment``, in seconds since the epoch.

    The nodes are in the order of their ids. Raises ValueError for an anchor that is not in memory.
    """
    version = view.version
    start, end, _ = view.graph.walkable((), HIDDEN, moment)
    degrees = np.bincount(np.concatenate((start, end)), minlength=view.graph.count_places())
    if query.anchor and view.nodes([query.anchor]) and not view.keep_readable([query.anchor], reader):
        raise ValueError(f"{query.anchor} is not in memory")
    ids = _choose_near(view, query, degrees) if query.anchor else _choose_foremost(view, query, degrees)
    ids = view.keep_readable(ids, reader)
    places = view.graph.find_places(ids)
    edges = view.graph.between(list(places.values()), (), HIDDEN, moment, MAX_EDGES)
    gone = view.forgotten(max(1, query.limit // FORGOTTEN)) if query.forgotten else []
    gone = view.keep_readable(gone, reader)
    nodes = sorted(view.nodes(dict.fromkeys((*places, *gone))), key=lambda node: node.id)
    numbers = {node.id: number for number, node in enumerate(nodes)}
    return Picture(
        version=version,
        nodes=tuple(
            PictureNode(
                id=node.id,
                kind=node.kind,
                title=node.title,
                agent=node.source.agent,
                importance=node.importance,
                standing=_standing_of(view, node, moment),
                degree=int(degrees[places[node.id]]) if node.id in places else 0,
            )
            for node in nodes
        ),
        edges=tuple(
            PictureEdge(
                start=numbers[edge.from_id],
                end=numbers[edge.to_id],
                relation=edge.relation,
                weight=edge.weight,
            )
            for edge in edges
        ),
        total=view.count(),
        total_edges=len(view.graph),
    )


def _choose_near(view: "View", query: PictureQuery, degrees: NDArray[np.intp]) -> list[str]:
    """The anchor, and what is nearest to it; of equally near ones those with the most edges."""
    view.graph.locate([query.anchor])
    hops = view.graph.hops([query.anchor], DEPTH)
    places = view.graph.find_places(hops)
    ranked = sorted(places, key=lambda node_id: (hops[node_id], -degrees[places[node_id]], node_id))
    return ranked[: query.limit]


def _choose_foremost(view: "View", query: PictureQuery, degrees: NDArray[np.intp]) -> list[str]:
    """Those with the most edges, the most important and the most recent, each of these weighing the same."""
    hubs = np.argsort(-degrees, kind="stable")[: query.limit]
    candidates = dict.fromkeys(view.graph.names(hubs.tolist()))
    candidates |= dict.fromkeys(view.select(limit=query.limit, order="recent"))
    candidates |= dict.fromkeys(view.select(limit=query.limit, order="important"))
    places = view.graph.find_places(candidates)
    ids = sorted(places)
    if len(ids) <= query.limit:
        return ids
    nodes = view.describe(ids)
    importance, changed = nodes.column("importance"), nodes.column("changed")
    joined = np.log1p(degrees[[places[node_id] for node_id in ids]])
    score = importance + joined / max(1.0, joined.max()) + np.argsort(np.argsort(changed)) / len(ids)
    best = np.argsort(-score, kind="stable")[: query.limit]
    return [ids[place] for place in best.tolist()]


def _standing_of(view: "View", node: Node, moment: float) -> Standing:
    if node.retired_version:
        return "forgotten"
    if node.valid_to and parse_time(node.valid_to) <= moment:
        return "superseded"
    replaced = view.graph.edges_of(node.id, "in", (Relation.SUPERSEDES,))
    return "superseded" if replaced else "current"


class PictureService:
    """Answers what to draw of a graph version, in a thread, one picture at a time."""

    def __init__(self, engine: MemoryEngine) -> None:
        self._engine = engine
        self._turn = asyncio.Lock()
        self._kept: dict[tuple[PictureQuery, str], bytes] = {}

    async def answer(self, query: PictureQuery, reader: str) -> bytes:
        """The Picture as JSON. Raises ActionError for a version that has not been, ValueError for an unknown
        anchor.
        """
        async with self._turn:
            view = await self._engine.view_at(query.at)
            key = msgspec.structs.replace(query, at=view.version)
            if (key, reader) in self._kept:
                self._kept[key, reader] = self._kept.pop((key, reader))
                return self._kept[key, reader]
            is_live = view is self._engine.view
            moment = time.time() if is_live else await self._engine.moment_of(view.version)
            picture, data = await self._engine.run_in_reader(self._draw, view, key, moment, reader)
            self._kept[msgspec.structs.replace(key, at=picture.version), reader] = data
            while len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
            return data

    def _draw(self, view: "View", key: PictureQuery, moment: float, reader: str) -> tuple[Picture, bytes]:
        """Draw a view that is not changed meanwhile, if possible without blocking the writer."""
        for _ in range(FREE_ATTEMPTS):
            picture = draw(view, key, moment, reader)
            if view.version == picture.version:
                return picture, picture.to_json()
        with self._engine.lock:
            picture = draw(view, key, moment, reader)
        return picture, picture.to_json()
