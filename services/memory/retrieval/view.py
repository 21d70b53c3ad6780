"""The view of memory at one graph version, for readers: nodes, search, edges."""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import NDArray

from services.memory.graph.graph import Graph
from services.memory.retrieval.keywords import Keywords, load_keywords, query_words, save_keywords
from services.memory.retrieval.node_index import Mask, NodeColumns, NodeIndex
from services.memory.retrieval.node_table import OFFSETS, REACH, searchable_text
from services.memory.retrieval.postings import renumber
from services.memory.retrieval.ranking import find_questioned, wants_history
from services.memory.retrieval.search import Search, SearchState, admit
from services.memory.retrieval.vectors import Vectors, build_vectors, top_places
from shared.contracts import Edge, Hit, ListQuery, MemoryQuery, Node, NodePage, Traversal
from shared.contracts.base import amended
from shared.subjects import USER

if TYPE_CHECKING:
    from services.memory.storage.tables import Tables
    from services.memory.writes.change import Change

LEAST_WASTED = 1_000  # Outdated slots that are left alone, however few nodes there are

RARE = 64  # A word that at most so many nodes have is rare

SHARED = 2  # Rare words that two nodes about one thing share at least

_HIT = Hit(node=Node(title="blank"), score=0.0)
Floats = NDArray[np.floating]
FEW_OF = 8  # Less than one in so many nodes are put in order for a page; else all are, once for many pages

Order = Literal["recent", "important"]
Rank = Callable[[Floats, Floats], Floats]
Ids = list[str]
Nodes = list[Node]
Slots = list[int]


class View:
    """All of memory at ``version``, in RAM; ``graph`` holds the edges. One thread puts, any number read.

    The lock is held to see what is there or to show what is new, not while searching. Made by ``build``;
    ``unsaved`` counts the nodes that ``save`` would add to what it kept before. ``edition`` changes when a
    ``put`` begins and when it ends, and is odd in between: edges are seen before the version is.
    """

    def __init__(
        self, state: SearchState, graph: Graph, version: int, access: dict[str, tuple[int, str]]
    ) -> None:
        self._lock = threading.Lock()
        self._state = state
        self._access = access
        self.graph = graph
        self.version = version
        self.edition = 0
        self.unsaved = 0

    @classmethod
    def build(cls, tables: "Tables", folder: Path | None = None) -> Self:
        """The view of what the tables hold; ``folder`` is where ``save`` kept some of it, if at all."""
        nodes, edges, access, vector_ids, raw, version = tables
        del tables  # so that the vectors, half of what was read, go before the graph comes
        index = NodeIndex(nodes)
        vectors = build_vectors(raw, index.locate(vector_ids), index.size)
        del raw, vector_ids
        with ThreadPoolExecutor(1) as pool:
            graph = pool.submit(Graph.load, edges, nodes)
            kept = load_keywords(folder, index) if folder else None
            keywords, unsaved = kept or (Keywords.build(index.texts()), index.size)
        index.mark_superseded(dict.fromkeys(graph.result().find_superseded(), True))
        view = cls(SearchState(index, keywords, vectors, {}, {}), graph.result(), version, dict(access))
        view.unsaved = unsaved
        return view

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return self._state.vectors.dimensions

    def save(self, folder: Path) -> None:
        """Keep in ``folder`` what ``build`` takes long for; not while another thread puts. Raises OSError."""
        keywords = save_keywords(folder, self._state.nodes, self._state.keywords)
        if not self._state.nodes.wasted:  # the slots keep their numbers
            with self._lock:
                self._state = self._state._replace(keywords=keywords)
        self.unsaved = 0

    def put(self, change: "Change", vector_ids: Sequence[str], vectors: Vectors) -> None:
        """Take in a change; ``vectors`` holds the new ones of ``vector_ids``, the others keep theirs."""
        self.edition |= 1
        index, keywords, table, *_ = self._state
        fresh = dict(zip(vector_ids, vectors, strict=True))
        nodes = list(change.nodes.values())
        if nodes:
            table.extend(self._gather_vectors(nodes, fresh))
            keywords.extend([searchable_text(node.title, node.body, node.tags) for node in nodes])
            index.stage(nodes)
        edges = change.edges.values()
        self.graph.put(edges, nodes)
        superseded = self.graph.review_superseded(nodes, edges)
        with self._lock:
            index.publish()
            index.mark_superseded(superseded)
            self._access.update(change.accessed)
            self.version = change.version
        self.unsaved += len(nodes)
        if index.wasted > max(LEAST_WASTED, index.size // 2):
            self._compact()
        self.edition += 1

    def put_vectors(self, ids: Sequence[str], vectors: Vectors) -> None:
        """Take in new vectors of nodes that stay as they are; unknown ids are left out."""
        index = self._state.nodes
        slots = index.locate(ids)
        known = slots >= 0
        self._state.vectors.replace(slots[known], vectors[known])

    def node(self, node_id: str) -> Node | None:
        """The node of an id, retired ones too."""
        index = self._state.nodes
        slot = index.find(node_id)  # mostly None: the writer asks whether it is new
        return None if slot is None else self._read(index, [slot])[0]

    def nodes(self, ids: Iterable[str]) -> list[Node]:
        """The nodes of these ids in their order, retired ones too; unknown ids are left out."""
        index = self._state.nodes
        found = (index.find(node_id) for node_id in ids)
        return self._read(index, [slot for slot in found if slot is not None])

    def is_live(self, node_id: str) -> bool:
        """Whether there is such a node, not retired."""
        index = self._state.nodes
        slot = index.find(node_id)
        return slot is not None and bool(index.column("live", slot + 1)[slot])

    def is_common(self, node_id: str) -> bool:
        """The same, if it is not the memory of a person or an agent."""
        index = self._state.nodes
        slot = index.find(node_id)
        return slot is not None and bool(index.column("live", slot + 1)[slot]) and not index.is_owned(slot)

    def count(self) -> int:
        """How many nodes are live."""
        return int(np.count_nonzero(self._freeze()[1]))

    def count_kinds(self) -> dict[str, int]:
        """How many live nodes there are of each kind."""
        with self._lock:
            return self._state.nodes.count_kinds()

    def search(self, query: MemoryQuery, vector: Vectors, moment: float, reader: str = USER) -> list[Hit]:
        """The best nodes that ``reader`` may read for a query, best first, at most ``query.limit``;
        ``vector`` is its embedded text.

        How they are scored is documented at ``Search.run``. What a live node supersedes, and what is past its
        ``valid_to`` at ``moment``, is left out unless the query ``wants_history``; it then says what
        superseded it.
        """
        hops = self.graph.hops(query.anchors) if query.anchors else {}
        state, live = self._freeze()
        near = {slot: far for node_id, far in hops.items() if (slot := state.nodes.find(node_id)) is not None}
        holds = state.nodes.find_readable(reader, len(live))
        if not wants_history(query):
            holds &= state.nodes.find_holding(len(live), moment)
        scored = Search(state, live).run(query, vector, moment, near, holds)
        nodes = self._read(state.nodes, [entry.slot for entry in scored])
        ids = [node.id for node in nodes]
        successors, questioned = self.graph.successors(ids), find_questioned(self.graph, ids, moment)
        return [
            amended(
                _HIT,
                node=node,
                score=entry.score,
                why=entry.why,
                superseded_by=successors.get(node.id, ""),
                questioned_by=questioned.get(node.id, ""),
            )
            for node, entry in zip(nodes, scored, strict=True)
        ]

    def similar(
        self, vector: Vectors, limit: int, floor: float = 0.0, kinds: Sequence[str] = ()
    ) -> list[tuple[str, float]]:
        """The live nodes nearest to a unit vector with their cosines, best first, of at least ``floor``."""
        (index, _, vectors, *_), live = self._freeze()
        slots, cosines = vectors.nearest(vector, index.admit(live, kinds=kinds) if kinds else live, limit)
        near = cosines >= floor
        return list(zip(index.name(slots[near]), cosines[near].tolist(), strict=True))

    def sharing(self, text: str, limit: int, kinds: Sequence[str]) -> list[str]:
        """The live nodes that share at least two rare words with a text, those that share most first."""
        (index, keywords, *_), live = self._freeze()
        found = (keywords.find(word, len(live))[0] for word in sorted(query_words(text)))
        rare = [slots for slots in found if 0 < len(slots) <= RARE]
        if len(rare) < SHARED:
            return []
        slots, counts = np.unique(np.concatenate(rare), return_counts=True)
        kept = (counts >= SHARED) & index.admit(live, kinds=kinds)[slots]
        slots, counts = slots[kept], counts[kept]
        return index.name(slots[np.lexsort((slots, -counts))[:limit]])

    def vector(self, node_id: str) -> Vectors | None:
        """A node's unit vector, its cosines exact to .0001; None if it has none."""
        state = self._state
        slots = state.nodes.locate([node_id])
        row: Vectors = state.vectors.read(slots[slots >= 0])
        return row[0] if row.any() else None

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """The unit vectors of nodes, a row each; of zeros where there is none."""
        state = self._state
        rows, slots = np.zeros((len(ids), self.dimensions), np.float32), state.nodes.locate(ids)
        rows[slots >= 0] = state.vectors.read(slots[slots >= 0])
        return rows

    def weigh_words(self, words: Iterable[str]) -> dict[str, float]:
        """How much each word counts in a search: more if it is rare, 0 for one that says nothing."""
        search = Search(*self._freeze())
        return {word: search.weigh_word(word) for word in words}

    def session_neighbours(self, ids: Sequence[str]) -> list[tuple[Nodes, Nodes]]:
        """Up to two live nodes before each node in its session and up to two after it, in their order."""
        (index, *_), live = self._freeze()
        slots = index.locate(ids)
        known = (slots >= 0) & (slots < len(live))
        beside = np.full((len(OFFSETS), len(ids)), -1, np.int32)
        beside[:, known] = index.sessions.neighbours(slots[known], len(live))
        present = np.unique(beside[beside >= 0]).tolist()
        nodes = dict(zip(present, self._read(index, present), strict=True))

        def read(half: Slots) -> Nodes:
            return [nodes[slot] for slot in half if slot >= 0]

        return [(read(places[:REACH]), read(places[REACH:])) for places in beside.T.tolist()]

    def keep_readable(self, ids: Sequence[str], reader: str) -> Ids:
        """Those of the ids whose nodes, retired ones too, ``reader`` may read."""
        index = self._state.nodes
        slots = index.locate(ids)
        readable = np.append(index.find_readable(reader, index.size), False)[slots]  # -1 is no slot
        return [node_id for node_id, kept in zip(ids, readable.tolist(), strict=True) if kept]

    def keep_edges(self, edges: tuple[Edge, ...], reader: str) -> tuple[Edge, ...]:
        """Those of which ``reader`` may read both ends."""
        ends = {end for edge in edges for end in (edge.from_id, edge.to_id)}
        known = {*self.keep_readable([*ends], reader)}
        return tuple(edge for edge in edges if known.issuperset((edge.from_id, edge.to_id)))

    def conceal(self, walk: Traversal, reader: str) -> Traversal:
        """The walk without what ``reader`` may not read, and what was reached through that."""
        known = {"", *self.keep_readable([visit.node.id for visit in walk.visits], reader)}
        visits = []
        for visit in walk.visits:  # a parent comes before what was reached from it
            if visit.parent not in known:
                known.discard(visit.node.id)
            visits += [visit] if visit.node.id in known else []
        return amended(walk, visits=tuple(visits), edges=self.keep_edges(walk.edges, reader))

    def list(self, query: ListQuery, reader: str = USER) -> NodePage:
        """A page of the nodes that ``reader`` may read, in the order of their ids."""
        with self._lock:
            index, version = self._state.nodes, self.version
            among = index.column("current" if query.retired else "live")
            mask = admit(index, query, among & index.find_readable(reader, len(among)))
            if query.changed_since:
                mask &= index.column("version") > query.changed_since
            many = FEW_OF * np.count_nonzero(mask) >= len(mask)
            slots = index.page_of_many(mask, query.after, query.limit + 1) if many else []
        if not many:
            slots = index.page_of_few(mask, query.after, query.limit + 1)
        nodes = self._read(index, slots[: query.limit])
        following = nodes[-1].id if len(slots) > query.limit else ""
        return NodePage(nodes=tuple(nodes), next=following, version=version)

    def select(
        self,
        *,
        kinds: Sequence[str] = (),
        agent: str = "",
        session: str = "",
        tags: Sequence[str] = (),
        since: float = 0.0,
        min_importance: float = 0.0,
        limit: int = 0,
        order: Order | Rank = "recent",
        among: Sequence[str] | None = None,
    ) -> Ids:
        """Ids of live nodes that pass: of ``kinds``, ``agent`` and ``session``, all ``tags``, changed since.

        ``since`` is in seconds since the epoch, ``among`` names those that may pass; first come the latest
        changed, or the most important and of these the latest changed, or those that rank highest by their
        importance and last change; of equal ones those with the lowest ids. All of them if ``limit`` is 0.
        """
        (index, *_), live = self._freeze()
        count = len(live)
        if among is not None:
            wanted, named = np.zeros(count, np.bool_), index.locate(among)
            wanted[named[(named >= 0) & (named < count)]] = True
            live &= wanted
        mask = index.admit(live, kinds=kinds, tags=tags, agent=agent, session=session, since=since)
        slots = np.flatnonzero(mask)
        if min_importance:
            slots = slots[index.column("importance", count)[slots] >= min_importance]
        keys = [index.column(name, count)[slots] for name in ("importance", "changed")]
        if callable(order):
            keys = [order(*keys)]
        elif order == "recent":
            keys = keys[1:]
        best = top_places(keys, limit or len(slots), lambda places: index.name(slots[places]))
        return index.name(slots[best])

    def describe(self, ids: Collection[str]) -> NodeColumns:
        """What is known of nodes there are without reading them."""
        index, _, vectors, *_ = self._state
        return NodeColumns(index, vectors, index.locate(ids))

    def find_superseded(self, ids: Sequence[str]) -> set[str]:
        """Those of the nodes that a live one supersedes; that the edge grew weak brings nothing back."""
        index = self._state.nodes
        slots = index.locate(ids)
        superseded = index.column("superseded", int(slots.max(initial=-1)) + 1)
        return {key for key, slot in zip(ids, slots.tolist(), strict=True) if slot >= 0 and superseded[slot]}

    def changed(self, since_version: int, limit: int) -> Ids:
        """Ids of live nodes written after a version, in the order of their last write."""
        (index, *_), live = self._freeze()
        versions = index.column("version", len(live))
        slots = np.flatnonzero(live & (versions > since_version))
        return index.name(slots[top_places([-versions[slots]], limit)])

    def forgotten(self, limit: int) -> Ids:
        """Ids of retired nodes, those that were retired last first."""
        with self._lock:
            index = self._state.nodes
            slots = np.flatnonzero(index.column("current") & ~index.column("live"))
            versions = index.column("version")[slots]
        return index.name(slots[top_places([versions], limit)])

    def _freeze(self) -> tuple[SearchState, Mask]:
        """What is there now, and which slots of it are live; that stays so, whatever is put meanwhile."""
        with self._lock:
            return self._state, self._state.nodes.column("live").copy()

    def _read(self, index: NodeIndex, slots: Slots) -> Nodes:
        nodes = index.read(slots)
        return [self._overlay(node) if node.id in self._access else node for node in nodes]

    def _overlay(self, node: Node) -> Node:
        count, last = self._access[node.id]
        return amended(node, access_count=count, last_accessed_at=last)

    def _gather_vectors(self, nodes: Nodes, fresh: dict[str, Vectors]) -> Vectors:
        rows = self.vectors([node.id for node in nodes])
        for row, node in enumerate(nodes):
            if node.id in fresh:
                rows[row] = fresh[node.id]
        return rows

    def _compact(self) -> None:
        """Renumber the slots without those that are outdated."""
        index, keywords, vectors, *_ = self._state
        slots = np.flatnonzero(index.column("current"))
        kept = keywords.store(renumber(slots, index.size))
        lengths = keywords.lengths(index.size)[slots]
        state = SearchState(index.keep(slots), Keywords(kept, lengths), vectors.keep(slots), {}, {})
        with self._lock:
            self._state = state
