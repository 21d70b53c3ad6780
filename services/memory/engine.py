"""The memory engine: opened, written to in batches, read from; it does not know the bus."""

import asyncio
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

import msgspec

from services.memory.loading import (
    WORTH_SAVING,
    load_view,
    open_files,
    open_store,
    release,
    release_ram,
    save_view,
)
from services.memory.retrieval.ranking import WIDE, arrange
from services.memory.writes.change import LoggedWrite
from services.memory.writes.writer import BatchResult, Watcher, Writer
from shared.contracts import (
    EdgePage,
    EdgesQuery,
    Hit,
    ListQuery,
    MemoryQuery,
    MemoryWritten,
    Node,
    NodePage,
    PathsQuery,
    Traversal,
    TraverseQuery,
)
from shared.contracts import Path as GraphPath
from shared.contracts.base import amended
from shared.errors import ActionError
from shared.log import logger
from shared.settings import Settings
from shared.subjects import USER

if TYPE_CHECKING:
    from services.memory.embedding import Embedder
    from services.memory.loading import Rebuild
    from services.memory.retrieval.view import View
    from services.memory.storage.commit_table import CommitTable
    from services.memory.storage.store import Store
    from services.memory.storage.tables import Vectors

READERS = 4  # Threads for reading: more than cores, since they wait for one another's short locks

CLOSE_READERS = 2
"""Threads for what a model reads texts for: apart, so that fast searches do not wait behind it."""

MAX_WAITING = 32
"""How many such requests wait at most: a cold deep search takes .3 s, and askers wait for 30 s."""

UNUSED = 600.0
"""Seconds after the last such request until the models are unloaded, 130 MB with what is kept of texts; the
next one loads them again, in half a second."""

EMBEDDED_AT_ONCE = 64
"""Texts of one step in the background; other batches to be embedded wait for no more than that."""

MAX_READ = 100  # Passages that are read at once: 7 ms each on one core
IDLE = 3.0  # Seconds without a write or a query after which memory is tidied
LEAST_UNSAVED = 1_000  # Nodes written since then for which that is worth it
SWITCH = 0.00002
"""Seconds a thread computes while others wait: a search takes the interpreter lock some sixty times, and
waits so long each time while there are writes. With .001 it took half as long again among 200 writes/s.
"""

P = ParamSpec("P")
T = TypeVar("T")
FindVectors = Callable[[Sequence[tuple[str, int, str]]], Awaitable["Vectors | None"]]
"""Finds vectors elsewhere, of texts of ``Store.missing_vectors``; None if they are to be embedded here."""
log = logger(__name__)


class MemoryEngine:
    """The team's memory in the folder ``memory`` of the state directory. Made by ``open``.

    All but short walks runs in threads, so that an event loop that awaits it stays free: one thread writes, a
    few read. A write that was answered is found from then on; after a crash it is applied again from the log.
    """

    def __init__(self, path: Path, store: "Store", view: "View", embedder: "Embedder", models: Path) -> None:
        from services.memory.classifier import Classifiers
        from services.memory.retrieval.deep_search import Aligner, Reranker

        self.lock = threading.Lock()
        """Held while the view changes; readers that need much of it at one version hold it too, briefly."""
        self.path = path
        self._stored = threading.Lock()
        self.embedder = embedder
        self.reranker, self._aligner = Reranker(models), Aligner(models)
        self.classifiers = Classifiers(embedder, models)
        self._watchers: list[Watcher] = []
        self._past: View | None = None
        self._use(store, view)
        self._writing_thread = ThreadPoolExecutor(1, thread_name_prefix="memory-writer")
        self._reading_threads = ThreadPoolExecutor(READERS, thread_name_prefix="memory-reader")
        self._close_readers = ThreadPoolExecutor(CLOSE_READERS, thread_name_prefix="memory-close-reader")
        self._reading_closely = 0
        self._closely_read = 0.0  # when a model read last; 0 if none is loaded
        self._compacting: asyncio.Task[None] | None = None
        self.find_vectors: FindVectors | None = None
        self.unembedded = 0
        """How many texts lack a vector."""
        self._unembedded_came = asyncio.Event()
        self._embedding = asyncio.Lock()
        self._closed, self._started, self._used = False, time.monotonic(), time.monotonic()
        self._counts = {"writes": 0, "refused": 0, "searches": 0}

    @classmethod
    async def open(cls, settings: Settings, *, copy: bool = False) -> Self:
        """Open the existing memory, or create one, a ``copy`` as ``open_files`` has it: two to three seconds.

        What is damaged is moved aside, and memory is rebuilt from its log. Raises StartError with cause and
        cure: no model, the folder not writable, of another version, or open in another process.
        """
        from services.memory.embedding import open_embedder

        embedder = await asyncio.to_thread(open_embedder, settings)
        try:
            path, store, view = await asyncio.to_thread(open_files, settings, embedder, copy=copy)
        except BaseException:
            embedder.close()
            raise
        sys.setswitchinterval(SWITCH)
        return cls(path, store, view, embedder, settings.models)

    @property
    def version(self) -> int:
        """The graph version: that of the last write that was applied."""
        return self._store.version

    @property
    def idle(self) -> float:
        """Seconds since the last write or query; since the start if there was none."""
        return time.monotonic() - self._used

    def touch(self) -> None:
        """Count as used now: what is made ahead waits until nothing is."""
        self._used = time.monotonic()

    async def moment_of(self, version: int) -> float:
        """When a version was reached, in seconds since 1970; 0 if nothing was stored."""
        return await self.ask_commits(lambda commits: commits.moment_of(version))

    async def read_note(self, name: str) -> str:
        """The text that was recorded under a name; empty if there is none."""
        return await self.ask_commits(lambda commits: commits.read_note(name))

    async def write_note(self, name: str, value: str) -> None:
        """Record a text under a name; durable when this returns."""
        await self.ask_commits(lambda commits: commits.write_note(name, value))

    def mark_answered(self, version: int) -> None:
        """Note that all up to a version is answered."""
        self._store.commits.mark_answered(version)

    def answered(self) -> int:
        """The version up to which all was answered, as it was noted last; 0 if that is not known."""
        return self._store.commits.answered()

    async def record_briefing(self, agent: str, version: int, moment: float) -> None:
        """Record when a briefing was made, so that it can be reproduced."""
        await self.ask_commits(lambda commits: commits.record_briefing(agent, version, moment))

    async def briefing_moment(self, agent: str, version: int) -> float:
        """When a briefing was last made at a version; if that is not known, when the version was reached."""
        made = await self.ask_commits(lambda commits: commits.briefing_moment(agent, version))
        return await self.moment_of(version) if made is None else made

    async def write(self, entries: Sequence[LoggedWrite]) -> BatchResult:
        """Apply writes in their order as one change, and answer each; nothing of a write with an error is
        stored.

        A write that was applied before, by its id, is answered again and not applied again. A node's text,
        its title and then its body, is embedded unless the write brings a vector or the text is unchanged.
        If it cannot be stored, all are answered with the reason, and reading goes on.
        """
        self._used = time.monotonic()
        before = self.unembedded
        written = await self._run_in_writer(partial(self._write, list(entries)))
        if self.unembedded > before:
            self._unembedded_came.set()
        self._counts["writes"] += len(entries)
        self._counts["refused"] += sum(bool(answer.error) for answer in written.answers)
        if self._store.needs_compaction and (self._compacting is None or self._compacting.done()):
            self._compacting = asyncio.create_task(self._run_in_writer(self._compact))
        return written

    async def find_answer(self, write_id: str) -> MemoryWritten | None:
        """The answer to a write that was applied at any time; None if it was not."""
        version = await self.ask_commits(lambda commits: commits.find(write_id))
        return None if version is None else MemoryWritten(cause=write_id, version=version)

    async def get(self, ids: Sequence[str], at: int = 0, reader: str = USER) -> list[Node]:
        """The nodes of these ids in their order, without embeddings; a retired one has its
        ``retired_version``.

        Unknown ids are left out, and as in all that follows what ``reader`` may not read.
        """
        view = await self.view_at(at)
        return await self.run_in_reader(view.nodes, view.keep_readable(ids, reader))

    async def list_nodes(self, query: ListQuery, reader: str = USER) -> NodePage:
        """A page of nodes."""
        view = await self.view_at(query.at)
        return await self.run_in_reader(view.list, query, reader)

    async def list_edges(self, query: EdgesQuery, reader: str = USER) -> EdgePage:
        """A page of edges, which may have less of them than there are for others."""
        view = await self.view_at(query.at)
        page = await self.run_in_reader(view.graph.page, query, view.version)
        return amended(page, edges=view.keep_edges(page.edges, reader))

    async def search(self, query: MemoryQuery, reader: str = USER) -> list[Hit]:
        """The live nodes that fit a query best, scored and in the order that ``retrieval.ranking``
        documents.
        """
        self._counts["searches"] += 1
        view = await self.view_at(query.at)
        run = self._read_closely if query.deep else self.run_in_reader
        return await run(self._search, view, query, reader)

    async def traverse(self, query: TraverseQuery, reader: str = USER) -> Traversal:
        """Walk the graph; what is quick is not handed over to a thread, which would take half as long."""
        from services.memory.graph.walk import traverse, traverse_quickly

        view, moment = await self.view_at(query.at), await self._moment(query.at)
        quick = traverse_quickly(view, query, moment)
        walk = await self.run_in_reader(traverse, view, query, moment) if quick is None else quick
        return walk if reader == USER else view.conceal(walk, reader)

    async def paths(self, query: PathsQuery, reader: str = USER) -> list[GraphPath]:
        """The best ways from one node to another."""
        from services.memory.graph.paths import find_paths

        view = await self.view_at(query.at)
        found = await self.run_in_reader(find_paths, view, query, await self._moment(query.at))
        return [path for path in found if view.keep_edges(path.edges, reader) == path.edges]

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A unit vector of each text, as nodes have them."""
        vectors = await self.run_in_reader(self.embedder.embed, [*texts])
        result: list[list[float]] = vectors.tolist()
        return result

    async def read_vectors(self, ids: Sequence[str]) -> "Vectors":
        """The unit vectors of nodes, a row each; of zeros where there is none."""
        return await self.run_in_reader(self.view.vectors, [*ids])

    async def read(self, question: str, passages: Sequence[str]) -> list[float]:
        """How well each passage answers the question: the logits of the cross-encoder, -11 to 10.

        Raises ActionError for more than MAX_READ passages.
        """
        if len(passages) > MAX_READ:
            raise ActionError(f"There are {len(passages)} passages to read", f"Send at most {MAX_READ}")
        return await self._read_closely(self.reranker.read, question, [*passages])

    async def align(self, question: str, passages: Sequence[str]) -> list[dict[str, float]]:
        """How near each passage comes to each word of the question: cosines of words in their context.

        Raises ActionError for more than MAX_READ passages.
        """
        if len(passages) > MAX_READ:
            raise ActionError(f"There are {len(passages)} passages to read", f"Send at most {MAX_READ}")
        return await self._read_closely(self._aligner.align, question, [*passages])

    async def view_at(self, version: int) -> "View":
        """Memory at a graph version; 0 is as it is now. An older one is read from disk, and kept until
        another is asked for.

        Raises ActionError for a version that has not been.
        """
        self._used = time.monotonic()
        if version in (0, self.view.version):
            return self.view
        if version > self.view.version:
            raise ActionError(f"There is no graph version {version} yet", f"Memory is at {self.view.version}")
        if self._past is None or self._past.version != version:
            self._past = await self._run_in_writer(lambda: load_view(self._store, None, version))
        return self._past

    async def embed_missing(self) -> None:
        """Embed what has no vector of the model in use yet, step by step, until nothing is left.

        Between two steps others write and ask; what a crash interrupts is missing still, and done later.
        """
        logged = False
        async with self._embedding:
            while texts := await self._run_in_writer(self._take_missing):
                if not logged and self.find_vectors is None:
                    log.info("embedding_begun", texts=self.unembedded, model=self.embedder.model_name)
                    logged = True
                writer, embed = self._writer, self.embedder.embed
                vectors = await self.find_vectors(texts) if self.find_vectors else None
                if vectors is None:
                    vectors = await self.run_in_reader(embed, [text for _, _, text in texts])
                await self._run_in_writer(partial(self._add_vectors, writer, texts, vectors))

    async def keep_embedding(self) -> None:
        """Embed what is missing now, and what is written without its vector, until cancelled."""
        while True:
            self._unembedded_came.clear()
            await self.embed_missing()
            await self._unembedded_came.wait()

    def _write(self, entries: Sequence[LoggedWrite]) -> BatchResult:
        written = self._writer.write(entries)
        self.unembedded = self._store.count_missing()
        return written

    def _take_missing(self) -> list[tuple[str, int, str]]:
        texts = self._store.missing_vectors(EMBEDDED_AT_ONCE)
        self.unembedded = self._store.count_missing()
        return texts

    def _add_vectors(self, writer: Writer, texts: Sequence[tuple[str, int, str]], vectors: "Vectors") -> None:
        if writer is self._writer:  # else another store took its place meanwhile, in which they are missing
            writer.add_vectors(texts, vectors)
            self.unembedded = self._store.count_missing()

    def watch(self, watcher: Watcher) -> None:
        """Have ``watcher`` called with each change from now on."""
        self._watchers.append(watcher)

    async def begin_rebuild(self) -> "Rebuild":
        """A second memory, with nothing in it yet, that ``adopt`` puts in the place of this one.

        It knows the vectors of the texts that this one has. Raises StartError if it cannot be stored.
        """
        from services.memory.loading import Rebuild

        known = await self._run_in_writer(self._store.vectors_by_text)
        return await asyncio.to_thread(Rebuild, self.path, self._store.root, self.embedder, *known)

    async def adopt(self, rebuilt: "Rebuild") -> None:
        """Read and write a rebuilt memory from now on."""
        await self._run_in_writer(lambda: self._adopt(rebuilt))

    async def reindex(self) -> None:
        """Compact the tables, and rebuild from them all that search needs."""

        def reindex() -> None:
            self._store.compact()
            self._use(self._store, load_view(self._store))

        await self._run_in_writer(reindex)

    def stats(self) -> dict[str, Any]:
        """Counts: version, nodes and edges there are, nodes by kind, and what was done since the start."""
        return {
            "version": self.version,
            "nodes": self.view.count(),
            "edges": len(self.view.graph),
            "kinds": self.view.count_kinds(),
            "model": self.embedder.model_name,
            "not_embedded": self.unembedded,
            "uptime_seconds": round(time.monotonic() - self._started, 1),
            **self._counts,
        }

    def health(self) -> dict[str, Any]:
        """``status`` ok or degraded; ``problem`` of the last write; ``comparing`` tells of deep searches."""
        problem, progress = self._writer.problem, self._aligner.progress
        return {
            "status": "degraded" if problem else "ok",
            "problem": problem,
            "version": self.version,
            "path": str(self.path),
            "comparing": {"read": progress.read, "of": progress.wanted},
        }

    async def close(self) -> None:
        """Finish what is being written and close the store."""
        if self._closed:
            return
        self._closed = True
        if self._compacting is not None:
            await self._compacting
        await self._run_in_writer(partial(self._compact, closing=True))
        for pool in (self._writing_thread, self._reading_threads, self._close_readers):
            await asyncio.to_thread(pool.shutdown)
        self.embedder.close()
        self.classifiers.close()
        self.reranker.close()
        self._aligner.close()
        self._store.close()

    async def run_in_reader(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something that reads in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reading_threads, partial(work, *args, **kwargs))

    async def _read_closely(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something that has a model read texts in a thread; one that is cancelled in time is not begun.

        Raises ActionError if MAX_WAITING wait already.
        """
        if self._reading_closely >= CLOSE_READERS + MAX_WAITING:
            raise ActionError(
                f"{MAX_WAITING} requests wait for a model to read texts",
                "Ask again later, or search without --deep",
            )
        self._reading_closely += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._close_readers, partial(work, *args, **kwargs))
        finally:
            self._reading_closely -= 1
            self._closely_read = time.monotonic()

    async def _run_in_writer(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writing_thread, work)

    async def _moment(self, at: int) -> float:
        """The time of a version: now for the last one, else when it was written."""
        return time.time() if at in (0, self.version) else await self.moment_of(at)

    def _search(self, view: "View", query: MemoryQuery, reader: str) -> list[Hit]:
        import numpy as np

        from services.memory.retrieval.deep_search import DeepSearch

        given = np.array(query.vector, np.float32) if query.vector else None
        vector = self.embedder.embed([query.text])[0] if given is None else given
        wide = msgspec.structs.replace(query, limit=max(query.limit, WIDE))
        if query.deep:
            hits = DeepSearch(self._aligner).search(view, wide, vector, time.time(), reader)
        else:
            hits = view.search(wide, vector, time.time(), reader)
        return arrange(hits, query, view.vectors)

    async def tidy_when_idle(self) -> None:
        """After many writes, once memory is idle, bring it into the form in which a restart finds it; unload
        models that are unused.

        A search takes 5.7 ms then instead of 8.1, at 100,000 nodes. Runs until cancelled.
        """
        while True:
            await asyncio.sleep(IDLE)
            last = max(self._closely_read, self.reranker.last_used)  # the linker reads with it too
            if last and not (self._reading_closely or time.monotonic() - last < UNUSED):
                self._closely_read = 0.0
                self.reranker.unload()
                self._aligner.unload()
                release_ram()
            if self.idle >= IDLE and self.view.unsaved > max(LEAST_UNSAVED, WORTH_SAVING * self.view.count()):
                await self._run_in_writer(self._compact)
                await self._run_in_writer(release)

    def _compact(self, *, closing: bool = False) -> None:
        try:
            (self._store.flush if closing else self._store.compact)()
            save_view(self.view, self.path, least=0 if closing else WORTH_SAVING)
            release_ram()
        except ActionError as error:
            log.warning("not_tidied", reason=str(error))

    def _adopt(self, rebuilt: "Rebuild") -> None:
        from services.memory.storage.commit_table import replace

        rebuilt.store.commits.write_note("left", self._store.place)
        rebuilt.close()
        with self._stored:
            self._store.close()
            replace(self.path)
            self._use(open_store(self.path, self.embedder, rebuilt.store.root), rebuilt.view)
        self._aligner.forget()  # texts may have been forgotten
        release()
        self._store.drop_left()

    async def ask_commits(self, work: "Callable[[CommitTable], T]") -> T:
        """Read from the commit table, or write to it."""

        def ask() -> T:
            with self._stored:  # another store may be about to take its place
                return work(self._store.commits)

        return await self.run_in_reader(ask)

    async def ask_store(self, work: "Callable[[Store], T]") -> T:
        """Use the store between two writes."""
        return await self._run_in_writer(lambda: work(self._store))

    def _use(self, store: "Store", view: "View") -> None:
        with self.lock:
            self._store, self.view = store, view
        self._writer = Writer(store, view, self.embedder, self.lock, self._watchers)
        self._past = None
