"""A rebuild: a second store and view, made of the log while the first ones are read and written to."""

import asyncio
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from services.memory.embedding import KnownVectors
from services.memory.loading import load_view, open_store
from services.memory.storage.disk import DRAFT
from services.memory.writes.change import LoggedWrite
from services.memory.writes.writer import Writer

if TYPE_CHECKING:
    from services.memory.embedding import Embedder
    from services.memory.storage.tables import Vectors


class Rebuild:
    """The store and the view that writes of the log are applied to, in a thread of their own."""

    def __init__(self, path: Path, embedder: "Embedder", rows: dict[str, int], vectors: "Vectors") -> None:
        self._draft = path / DRAFT
        self._closed = False
        shutil.rmtree(self._draft, ignore_errors=True)
        self.store = open_store(self._draft, embedder, synced=False)
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
        shutil.rmtree(self._draft, ignore_errors=True)
