"""The writer: judges writes, embeds their texts, stores them, and shows them to the readers."""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from services.memory.writes.change import Change, KnownState, LoggedWrite, embedded_text
from services.memory.writes.gate import find_rejection, find_wrong_date
from services.memory.writes.staging import fold
from shared import subjects
from shared.contracts import EdgeKey, GraphVersion, MemoryRefused, MemoryWrite, MemoryWritten, Node, Rejection
from shared.contracts.base import amended, generate_id, generate_iso_timestamp
from shared.errors import ActionError
from shared.log import logger
from shared.memory.ownership import CHANNEL

if TYPE_CHECKING:
    from services.memory.embedding import Embedder, KnownVectors
    from services.memory.retrieval.view import View
    from services.memory.storage.store import Store
    from services.memory.storage.tables import Vectors

MAX_EVENT_IDS = 1_000
"""The most ids that a version event names; a reader that needs more asks what changed since."""

COMPARED = 5  # The nodes that a new one is held against: the nearest may be an event, and hide a fact

_ANSWER = MemoryWritten(cause="blank")

log = logger(__name__)

Watcher = Callable[[Change], None]
"""Called with each change after the view has it and before it is answered, in the writer's thread."""


class BatchResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a batch: an answer to each write, in order, and the event to publish, if any.

    ``refused`` are the refusals that a rebuild would not come to by itself.
    """

    answers: list[MemoryWritten]
    event: GraphVersion | None = None
    refused: list[MemoryRefused] = []


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a write is not stored; ``recorded`` if replaying the log might not come to the same verdict."""

    error: str
    rejection: Rejection | None = None
    recorded: bool = False


_APPLIED = Refusal(error="")


class Writer:
    """Applies batches of writes to the store and to the live view; for one thread.

    ``lock`` is held while the view changes. ``watchers`` are called with each change. ``problem`` is why the
    last write could not be stored, if so.
    """

    def __init__(
        self,
        store: "Store",
        view: "View",
        embedder: "Embedder | KnownVectors",
        lock: threading.Lock,
        watchers: Sequence[Watcher],
    ) -> None:
        self.problem = ""
        self._store = store
        self._view = view
        self._embedder = embedder
        self._lock = lock
        self._watchers = watchers
        self._embedded: dict[str, Vectors] = {}

    def write(self, entries: Sequence[LoggedWrite]) -> BatchResult:
        """Apply writes in their order as one change; see MemoryEngine.write.

        Raises ActionError if what was judged before cannot be stored now.
        """
        self._embedded.clear()
        earlier = self._store.commits.find_all([entry.write.id for entry in entries])
        fresh: dict[str, LoggedWrite] = {}
        for entry in entries:
            if entry.write.id not in earlier:
                fresh.setdefault(entry.write.id, entry)
        misdated = {name: refusal for name, entry in fresh.items() if (refusal := self._check_dates(entry))}
        change, refusals = self._fold([entry for name, entry in fresh.items() if name not in misdated])
        refusals |= misdated
        event = None
        if change.writes:
            try:
                self._apply(change, self._find_later(fresh.values()))
                event = self._describe(change)
                self.problem = ""
            except ActionError as error:
                self.problem = str(error)
                log.warning("not_stored", reason=self.problem, writes=len(change.writes))
                if any(entry.judged for entry in entries):
                    raise
                unwritten = Refusal(error=self.problem, recorded=True)
                refusals = {name: refusals.get(name, unwritten) for name in fresh}
        versions = earlier | {name: entry.version for name, entry in fresh.items()}
        answers = []
        for write in (entry.write for entry in entries):
            refusal = refusals.get(write.id, _APPLIED)
            proposed = change.proposed.get(write.id, ()) if write.id in fresh else ()
            answers.append(
                answer(write, refusal.error, versions[write.id], refusal.rejection, proposed=proposed)
            )
        return BatchResult(
            answers=answers,
            event=event,
            refused=[
                MemoryRefused(
                    sender=subjects.MEMORY_DAEMON,
                    cause=name,
                    error=refusal.error,
                    rejection=refusal.rejection,
                )
                for name, refusal in refusals.items()
                if refusal.recorded
            ],
        )

    def replay(self, entries: Sequence[LoggedWrite]) -> None:
        """Apply writes that were judged before as one change: the gate and the answers are left out.

        Raises ActionError if they cannot be stored.
        """
        self._embedded.clear()
        earlier = self._store.commits.find_all([entry.write.id for entry in entries])
        change, _ = self._fold_once(
            [entry for entry in entries if entry.write.id not in earlier], recorded=False
        )
        if change.writes:
            self._apply(change, later=())

    def add_vectors(self, texts: Sequence[tuple[str, int, str]], vectors: "Vectors") -> None:
        """Store and show the vectors of the first texts of ``Store.missing_vectors``."""
        self._store.add_vectors([(node_id, version) for node_id, version, _ in texts], vectors)
        nodes = {node.id: node for node in self._view.nodes([node_id for node_id, _, _ in texts])}
        current = [
            row
            for row, (node_id, _, text) in enumerate(texts)
            if node_id in nodes and embedded_text(nodes[node_id]) == text
        ]
        with self._lock:
            self._view.put_vectors([texts[row][0] for row in current], vectors[current])

    def _check_dates(self, entry: LoggedWrite) -> Refusal | None:
        """Why a new node's ``created_at`` cannot be right; None if it can."""
        for node in entry.write.nodes:
            if (error := find_wrong_date(node.created_at, entry.stored_at)) and not self._view.node(node.id):
                return Refusal(error=f"{node.id}: {error}", recorded=True)
        return None

    def _fold(self, entries: list[LoggedWrite]) -> tuple[Change, dict[str, Refusal]]:
        """The change that the good ones among ``entries`` make, and why the others are refused, by id."""
        change, refusals = self._fold_once(entries, recorded=False)
        folded = [entry for entry in entries if entry.write.id not in refusals]
        if rejected := self._find_rejections(folded, change):
            kept = [entry for entry in folded if entry.write.id not in rejected]
            change, failed = self._fold_once(kept, recorded=True)
            refusals |= rejected | failed
        return change, refusals

    def _fold_once(self, entries: list[LoggedWrite], *, recorded: bool) -> tuple[Change, dict[str, Refusal]]:
        change, errors = fold(entries, self._known(), self._embedder.dimensions)
        pairs = zip(entries, errors, strict=True)
        return change, {
            entry.write.id: Refusal(error=error, recorded=recorded) for entry, error in pairs if error
        }

    def _find_rejections(self, entries: list[LoggedWrite], change: Change) -> dict[str, Refusal]:
        """What the write gate keeps out: only new nodes, and none of who insists."""
        rejected: dict[str, Refusal] = {}
        passed: list[tuple[Node, Vectors]] = []
        for entry in entries:
            if entry.write.insist or entry.judged:
                continue
            new = [node for node in entry.write.nodes if self._view.node(node.id) is None]
            vectors = self._vectors_of(new, change)
            for node, vector in zip(new, vectors, strict=True):
                near: list[tuple[Node | None, float]] = [*self._find_nearest(vector, passed)]
                verdicts = (find_rejection(node, *other) for other in near or [(None, 0.0)])
                if rejection := next(filter(None, verdicts), None):
                    error = f"{rejection.check}: {rejection.reason}"
                    rejected[entry.write.id] = Refusal(error=error, rejection=rejection, recorded=True)
                    break
            else:
                passed += zip(new, vectors, strict=True)
        return rejected

    def _vectors_of(self, nodes: list[Node], change: Change) -> "list[Vectors]":
        """The vectors of nodes: given with the write, or made of their texts, each text once a batch."""
        given = [change.given.get(node.id) for node in nodes]
        texts = [embedded_text(node) for node in nodes]
        rest = [text for text, vector in zip(texts, given, strict=True) if vector is None]
        rest = [text for text in dict.fromkeys(rest) if text not in self._embedded]
        if rest:
            self._embedded.update(zip(rest, self._embedder.embed(rest), strict=True))
        return [
            self._embedded[text] if vector is None else vector
            for text, vector in zip(texts, given, strict=True)
        ]

    def _find_nearest(
        self, vector: "Vectors", passed: "list[tuple[Node, Vectors]]"
    ) -> list[tuple[Node, float]]:
        """The live nodes, and those of this batch, whose texts are nearest in meaning, nearest first."""
        found = [(node, float(vector @ other)) for node, other in passed]
        for node_id, cosine in self._view.similar(vector, COMPARED):
            if (node := self._view.node(node_id)) is not None:
                found.append((node, cosine))
        return sorted(found, key=lambda pair: -pair[1])[:COMPARED]

    def _find_later(self, entries: Iterable[LoggedWrite]) -> set[str]:
        """The nodes that are found by words first, and by meaning once they are embedded in the background.

        They are those of files: many at once, and the gate compares them with nothing (``insist``); and what
        was judged before a crash, so that it is found soon after it.
        """
        return {
            node.id
            for entry in entries
            if entry.judged or (entry.write.sender == subjects.MEMORY_DAEMON and entry.write.insist)
            for node in entry.write.nodes
            if entry.judged or node.source.channel == CHANNEL
        }

    def _apply(self, change: Change, later: Collection[str]) -> None:
        """Store and show a change; texts of the nodes ``later`` that came without a vector get none yet."""
        import numpy as np

        waiting = [key for key in change.texts_changed if key in later and key not in change.given]
        ids, vectors = self._embed(change, waiting)
        self._store_change(change, ids, vectors, later)
        nothing = np.zeros((len(waiting), self._embedder.dimensions), np.float32)
        with self._lock:
            self._view.put(change, [*ids, *waiting], np.concatenate([vectors, nothing]))
        for watch in self._watchers:
            watch(change)

    def _embed(self, change: Change, waiting: Sequence[str]) -> "tuple[list[str], Vectors]":
        """The vectors of the texts that changed, but for those that wait for it."""
        import numpy as np

        left_out = set(waiting)
        ids = [key for key in change.texts_changed if key not in left_out]
        vectors = np.empty((len(ids), self._embedder.dimensions), np.float32)
        for row, vector in enumerate(self._vectors_of([change.nodes[node_id] for node_id in ids], change)):
            vectors[row] = vector
        return ids, vectors

    def _store_change(
        self, change: Change, ids: list[str], vectors: "Vectors", later: Collection[str]
    ) -> None:
        """Store a change, with the vectors of texts that it replaced again: only the past shows them."""
        import numpy as np

        versions = [change.texts_changed[node_id] for node_id in ids]
        for text in change.interim:
            if text.vector is None and text.id in later:
                continue
            ids, versions = [*ids, text.id], [*versions, text.version]
            made = self._embedder.embed([text.text]) if text.vector is None else text.vector[np.newaxis]
            vectors = np.concatenate([vectors, made])
        self._store.apply(change, ids, vectors, versions)

    def _known(self) -> KnownState:
        graph = self._view.graph
        return KnownState(
            node=self._view.node, edge=graph.edge, edges_of=graph.edges_of, is_live=self._view.is_common
        )

    def _describe(self, change: Change) -> GraphVersion:
        ends = (end for edge in change.edges.values() for end in (edge.from_id, edge.to_id))
        others = [end for end in dict.fromkeys(ends) if end not in change.nodes][:MAX_EVENT_IDS]
        touched = [*change.nodes.values(), *self._view.nodes(others)]
        return GraphVersion(
            version=change.version,
            kinds=tuple(sorted({node.kind for node in touched})),
            agents=tuple(sorted({node.source.agent for node in touched if node.source.agent})),
            ids=(*change.nodes, *others)[:MAX_EVENT_IDS],
        )


def answer(
    write: MemoryWrite,
    error: str,
    version: int,
    rejection: Rejection | None = None,
    proposed: tuple[EdgeKey, ...] = (),
) -> MemoryWritten:
    """What is sent back: the ids of its nodes and the version, or why nothing of it was stored.

    The id of a proposal takes the place of that of the node for which it was made.
    """
    instead = {edge.to_id: edge.from_id for edge in proposed}
    named = (*(node.id for node in write.nodes), *write.retire, *write.forget)
    ids = tuple(dict.fromkeys(instead.get(node_id, node_id) for node_id in named))
    return amended(
        _ANSWER,
        id=generate_id(),
        created_at=generate_iso_timestamp(),
        recipient=write.sender,
        cause=write.id,
        goal_id=write.goal_id,
        ids=() if error else ids,
        version=0 if error else version,
        error=error,
        rejection=rejection,
        proposed=() if error else proposed,
    )
