"""The memory itself: opened, written to in batches, read from; it knows nothing of the bus."""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from services.memory.batch import Change, Known, answer, embedded_text, fold
from shared.contracts import GraphVersion, Hit, MemoryQuery, MemoryWrite, MemoryWritten, Node
from shared.errors import ActionError
from shared.log import logger
from shared.settings import Settings

if TYPE_CHECKING:
    from services.memory.embedder import Embedder, Vectors
    from services.memory.search import Index
    from services.memory.store import Store

READERS = 4
"""Threads for reading: more than cores, since they wait for one another's short locks."""

MAX_EVENT_IDS = 1_000
"""The most ids a version event names; whoever needs more asks what changed since."""

T = TypeVar("T")
log = logger(__name__)


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a batch: an answer to each write, in order, and the event to publish if any."""

    answers: list[MemoryWritten]
    event: GraphVersion | None = None


class MemoryDaemon:
    """The team's memory in the folder ``memory`` of the state directory.

    Everything takes place in threads, so that an event loop that awaits it stays free: one thread writes, a
    few read. What was answered to a write is on disk and is found from then on. Made by ``open``.
    """

    def __init__(self, path: Path, store: "Store", index: "Index", embedder: "Embedder") -> None:
        self._path = path
        self._store = store
        self._index = index
        self._embedder = embedder
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="memory-writer")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="memory-reader")
        self._tidying: asyncio.Task[None] | None = None
        self._problem = ""
        self._started = time.monotonic()
        self._counts = {"writes": 0, "refused": 0, "searches": 0}

    @classmethod
    async def open(cls, settings: Settings) -> Self:
        """Open what is there, or begin anew; two to three seconds, most of them for importing lancedb.

        Raises StartError with cause and cure: no model, the folder not writable, of a later version, broken,
        or open in another process.
        """
        path = settings.state_dir / "memory"
        embedder, loaded = await asyncio.gather(
            asyncio.to_thread(_load_embedder, settings.models),
            asyncio.to_thread(_load_store, path),
            return_exceptions=True,
        )
        if isinstance(loaded, BaseException):
            raise loaded
        store, index = loaded
        if isinstance(embedder, BaseException):
            store.close()
            raise embedder
        return cls(path, store, index, embedder)

    async def write(self, writes: Sequence[MemoryWrite]) -> Written:
        """Apply writes in their order as one commit, and answer each; nothing of a write with an error is
        stored.

        A write that was applied before, by its id, is answered again and not applied again. A node's text,
        its title and then its body, is embedded unless the node brings a vector or the same text has one.
        When the disk cannot take it, all are answered with that reason, and reading goes on.
        """
        written = await self._in(self._writer, self._write, list(writes))
        if self._store.untidy and (self._tidying is None or self._tidying.done()):
            self._tidying = asyncio.create_task(self._in(self._writer, self._tidy))
        return written

    async def written(self, write_id: str) -> MemoryWritten | None:
        """The answer to a write that was applied, at whatever time; None where it was not."""
        version = await self._in(self._writer, self._store.find_write, write_id)
        return None if version is None else MemoryWritten(cause=write_id, version=version)

    async def get(self, ids: Sequence[str]) -> list[Node]:
        """The nodes of these ids in their order, without embeddings; a retired one tells by
        ``retired_version``.

        Unknown ids are left out.
        """
        return await self._in(self._readers, self._index.get, list(ids))

    async def search(self, query: MemoryQuery) -> list[Hit]:
        """The live nodes that fit a query best; how they are scored is told at ``Index.search``."""
        return await self._in(self._readers, self._search, query)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A unit vector of each text, as nodes have them."""
        vectors = await self._in(self._readers, self._embedder.embed, list(texts))
        result: list[list[float]] = vectors.tolist()
        return result

    def stats(self) -> dict[str, Any]:
        """Counts: version, nodes and edges there are, nodes by kind, and what was done since the start."""
        return {
            "version": self._store.version,
            "nodes": self._index.count(),
            "edges": self._store.count_edges(),
            "kinds": self._index.count_kinds(),
            "model": self._embedder.model_name,
            "uptime_seconds": round(time.monotonic() - self._started, 1),
            **self._counts,
        }

    def health(self) -> dict[str, Any]:
        """``status`` ok or degraded; ``problem`` is why the last write could not be stored, if so."""
        return {
            "status": "degraded" if self._problem else "ok",
            "problem": self._problem,
            "version": self._store.version,
            "path": str(self._path),
        }

    async def close(self) -> None:
        """Finish what is being written and let the folder go."""
        if self._tidying is not None:
            await self._tidying
        for pool in (self._writer, self._readers):
            await asyncio.to_thread(pool.shutdown)
        self._embedder.close()
        self._store.close()

    async def _in(self, pool: ThreadPoolExecutor, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, work, *args)

    def _search(self, query: MemoryQuery) -> list[Hit]:
        self._counts["searches"] += 1
        return self._index.search(query, self._embedder.embed([query.text])[0])

    def _write(self, writes: list[MemoryWrite]) -> Written:
        earlier = {write.id: self._store.find_write(write.id) for write in writes}
        new: dict[str, MemoryWrite] = {}
        for write in writes:
            if earlier[write.id] is None:
                new.setdefault(write.id, write)
        known = Known(node=self._find_node, edge=self._store.find_edge)
        change, errors = fold(list(new.values()), self._store.version + 1, known, self._embedder.dimensions)
        event = None
        if change.writes:
            try:
                event = self._apply(change)
                self._problem = ""
            except ActionError as error:
                self._problem = str(error)
                log.warning("not stored", reason=self._problem, writes=len(change.writes))
                errors = [own or self._problem for own in errors]
        self._counts["writes"] += len(new)
        self._counts["refused"] += sum(map(bool, errors))
        verdicts = dict(zip(new, errors, strict=True))
        answers = [
            answer(write, verdicts.get(write.id, ""), earlier[write.id] or change.version) for write in writes
        ]
        return Written(answers=answers, event=event)

    def _apply(self, change: Change) -> GraphVersion:
        vectors = self._embed_nodes(change)
        fresh = all(node.created_version == change.version for node in change.nodes.values())
        self._store.apply(change, vectors, self._embedder.model_name, fresh=fresh)
        bare = [msgspec.structs.replace(node, embedding=()) for node in change.nodes.values()]
        self._index.put(bare, vectors)
        return self._describe(change)

    def _embed_nodes(self, change: Change) -> "Vectors":
        """The vectors of a change's nodes: given, kept where the text is the same, else made in one call."""
        import numpy as np

        vectors = np.zeros((len(change.nodes), self._embedder.dimensions), np.float32)
        rest: dict[int, str] = {}
        for row, node in enumerate(change.nodes.values()):
            kept = None if node.created_version == change.version else self._keep_vector(node)
            if node.embedding:
                vectors[row] = node.embedding
            elif kept is not None:
                vectors[row] = kept
            else:
                rest[row] = embedded_text(node)
        if rest:
            vectors[list(rest)] = self._embedder.embed(list(rest.values()))
        return vectors

    def _keep_vector(self, node: Node) -> "Vectors | None":
        old = self._find_node(node.id)
        same = old is not None and embedded_text(old) == embedded_text(node)
        return self._index.vector(node.id) if same else None

    def _find_node(self, node_id: str) -> Node | None:
        return next(iter(self._index.get([node_id])), None)

    def _describe(self, change: Change) -> GraphVersion:
        ends = [end for stored in change.edges.values() for end in (stored.edge.from_id, stored.edge.to_id)]
        ids = tuple(dict.fromkeys([*change.nodes, *ends]))
        touched = self._index.get(ids)
        return GraphVersion(
            version=change.version,
            kinds=tuple(sorted({node.kind for node in touched})),
            agents=tuple(sorted({node.source.agent for node in touched if node.source.agent})),
            ids=ids[:MAX_EVENT_IDS],
        )

    def _tidy(self) -> None:
        try:
            self._store.tidy()
            if self._index.wasted > self._index.count():
                self._index = _load_index(self._store)
        except ActionError as error:
            log.warning("not tidied", reason=str(error))


def _load_embedder(directory: Path) -> "Embedder":
    from services.memory.embedder import Embedder

    return Embedder(directory)


def _load_store(path: Path) -> "tuple[Store, Index]":
    from services.memory.store import Store

    store = Store(path)
    return store, _load_index(store)


def _load_index(store: "Store") -> "Index":
    from services.memory.embedder import MODEL_NAME
    from services.memory.search import Index

    return Index(store.load_nodes(), MODEL_NAME)
