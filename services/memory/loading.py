"""Opening the store and loading the view from it, and the RAM that this gives back."""

import contextlib
import gc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from services.memory.allocator import release_ram, share_heap
from shared.log import logger

if TYPE_CHECKING:
    from services.memory.embedding import Embedder
    from services.memory.retrieval.view import View
    from services.memory.storage.store import Store

SNAPSHOT = "index"  # The folder, within the store's, of what makes building the view quicker

WORTH_SAVING = 0.1  # The snapshot is rewritten if more than this share of the nodes is not in it

COLLECTED_AFTER = 50_000
"""New objects after which cycles are looked for: 70 times the usual, since large writes make many objects
and no cycles."""

log = logger(__name__)


def open_store(path: Path, embedder: "Embedder", *, synced: bool = True) -> "Store":
    """The store in ``path``, whose commits are ``synced``; raises StartError with the cure."""
    from services.memory.storage.disk import Disk, settle
    from services.memory.storage.store import Store

    share_heap()
    settle(path)
    return Store(path, embedder.slug, embedder.dimensions, Disk(path, synced=synced))


def open_whole(path: Path, embedder: "Embedder") -> tuple["Store", "View"]:
    """The store in ``path`` and its view.

    A store that is damaged is moved aside, and an empty one takes its place: memory's log has all that it
    held but how often each node was read. Only one is kept aside: if memory is found damaged again, that is
    for a person to look at. Raises StartError.
    """
    from services.memory.storage.disk import Damaged

    try:
        return _open(path, embedder)
    except Damaged as error:
        if any(path.parent.glob(f"{path.name}.damaged-*")):
            raise
        aside = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}")
        path.rename(aside)
        log.error("damaged", reason=error.cause, moved_to=str(aside), next="it is rebuilt from its log")
        return _open(path, embedder)


def _open(path: Path, embedder: "Embedder") -> tuple["Store", "View"]:
    from services.memory.storage.disk import open_error
    from services.memory.storage.store import FAILURES

    store = open_store(path, embedder)
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
