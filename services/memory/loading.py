"""Opening the store and loading the view from it, and the RAM that this gives back."""

import asyncio
import contextlib
import ctypes
import gc
import itertools
import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from services.memory.embedding import KnownVectors
from services.memory.storage.commit_table import DRAFT
from services.memory.writes.change import LoggedWrite
from services.memory.writes.writer import Writer
from shared.log import logger
from shared.settings import Settings

if TYPE_CHECKING:
    from services.memory.embedding import Embedder
    from services.memory.retrieval.view import View
    from services.memory.storage.store import Store
ARENAS = 1  # Heaps of glibc: each thread would have one of its own, and keep what its largest moment took

MAPPED = 4 << 20
"""Bytes from which on a block is mapped by itself, and goes back to the system when it is freed.

Unless it is set, glibc raises it to the largest block that was freed: large arrays then lie among small ones.
"""

KEPT = 32 << 20  # Free bytes at the end of the heap that are kept: what a search takes and frees

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8


def limit_heaps() -> None:
    """Keep all threads on one heap, and little of it that is free; to be called before there are threads.

    Does nothing where glibc is not used. After 100,000 nodes and 500,000 edges had been written, the process
    had 744 MB instead of 898, together with ``share_heap``.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        for option, value in ((_ARENA_MAX, ARENAS), (_MMAP_THRESHOLD, MAPPED), (_TRIM_THRESHOLD, KEPT)):
            library.mallopt(option, value)


def share_heap() -> None:
    """Have Arrow use the same heap: its own gives back little."""
    import pyarrow as pa

    pa.set_memory_pool(pa.system_memory_pool())


def release_ram() -> None:
    """Give back to the system what is free; other threads may go on."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


SNAPSHOT = "index"  # The folder, within the store's, of what makes building the view quicker

WORTH_SAVING = 0.1  # The snapshot is rewritten if more than this share of the nodes is not in it

COLLECTED_AFTER = 50_000
"""New objects after which cycles are looked for: 70 times the usual, since large writes make many objects
and no cycles."""

COPIES = "memory-copies"
"""The folder, in the state directory, with the memories of standbys and readers: 1, 2 and so on."""

log = logger(__name__)


def open_store(path: Path, embedder: "Embedder", root: str = "", *, synced: bool = True) -> "Store":
    """The store in ``path``, whose commits are ``synced``; raises StartError with the cure.

    The tables of a new one lie below ``root``, the address of an object store; empty: in ``path``.
    """
    from services.memory.storage.commit_table import Disk, settle
    from services.memory.storage.store import Store

    share_heap()
    settle(path)
    return Store(path, embedder.slug, embedder.dimensions, Disk(path, synced=synced, root=root))


def open_whole(path: Path, embedder: "Embedder", root: str) -> tuple["Store", "View"]:
    """The store in ``path`` and its view.

    A store that is damaged is moved aside, and an empty one takes its place: memory's log has all that it
    held but how often each node was read. Only one is kept aside: if memory is found damaged again, that is
    for a person to look at. Raises StartError.
    """
    from services.memory.storage.commit_table import Damaged

    try:
        return _open(path, embedder, root)
    except Damaged as error:
        if any(path.parent.glob(f"{path.name}.damaged-*")):
            raise
        aside = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}")
        path.rename(aside)
        log.error("damaged", reason=error.cause, moved_to=str(aside), next="it is rebuilt from its log")
        return _open(path, embedder, root)


def open_files(settings: Settings, embedder: "Embedder", *, copy: bool) -> tuple[Path, "Store", "View"]:
    """The folder of memory, its store and its view; of a ``copy`` the first that no process has open.

    Raises StartError.
    """
    from services.memory.storage.commit_table import Locked

    state_dir, root = settings.state_dir, settings.memory_tables
    if not copy:
        return state_dir / "memory", *open_whole(state_dir / "memory", embedder, root)
    for number in itertools.count(1):
        path = state_dir / COPIES / str(number)
        with contextlib.suppress(Locked):
            return path, *open_whole(path, embedder, root)
    raise AssertionError


def _open(path: Path, embedder: "Embedder", root: str) -> tuple["Store", "View"]:
    from services.memory.storage.commit_table import open_error
    from services.memory.storage.store import FAILURES

    store = open_store(path, embedder, root)
    try:
        return store, load_view(store, path)
    except FAILURES as error:
        store.close()
        raise open_error(path, error) from None


def load_view(store: "Store", folder: Path | None = None, at: int = 0) -> "View":
    """Memory as the store has it, or had it at a version; ``folder`` contains the snapshot."""
    from services.memory.retrieval.view import View

    with _uncollected():
        view = View.build(store.load(at), folder / SNAPSHOT if folder else None)
    release()
    return view


def save_view(view: "View", folder: Path, *, least: float = WORTH_SAVING) -> None:
    """Rewrite the snapshot if more than a share of ``least`` of the nodes is not in it."""
    if view.unsaved <= least * view.count():
        return
    try:
        view.save(folder / SNAPSHOT)
    except OSError as error:
        log.warning("snapshot_unsaved", reason=str(error))


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Nothing of what is made goes in circles: looking for that, over and over, takes a fifth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def release() -> None:
    """Give back what loading took and nothing holds any more: some 200 MB at 100,000 nodes."""
    gc.collect()
    gc.freeze()  # what exists now stays, and need not be searched at every collection
    gc.set_threshold(COLLECTED_AFTER, 20, 20)
    release_ram()


if TYPE_CHECKING:
    from services.memory.embedding import Embedder
    from services.memory.storage.tables import Vectors


class Rebuild:
    """The store and the view that writes of the log are applied to, in a thread of their own."""

    def __init__(
        self, path: Path, root: str, embedder: "Embedder", rows: dict[str, int], vectors: "Vectors"
    ) -> None:
        self._draft = path / DRAFT
        self._closed = False
        shutil.rmtree(self._draft, ignore_errors=True)
        self.store = open_store(self._draft, embedder, root, synced=False)
        self.view = load_view(self.store)
        known = KnownVectors(embedder, rows, vectors)
        self._writer = Writer(self.store, self.view, known, threading.Lock(), ())
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="memory-rebuild")

    async def write(self, entries: Sequence[LoggedWrite]) -> None:
        """Apply writes that were judged before, in their order; raises ActionError if it cannot."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._writer.replay, list(entries))

    def close(self) -> None:
        """Flush and close the store; the view stays. Raises ActionError if it cannot be flushed."""
        self._thread.shutdown()
        if not self._closed:
            self._closed = True
            try:
                self.store.flush()
            finally:
                self.store.close()
            del self._writer  # and with it the known vectors, before RAM is given back

    def discard(self) -> None:
        """Close the store and remove it, unless it has taken its place."""
        self.close()
        if self._draft.exists():
            self.store.leave()
        shutil.rmtree(self._draft, ignore_errors=True)
