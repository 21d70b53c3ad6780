"""The search over all nodes, by meaning and by words."""

import threading
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from services.memory.catalogue import Catalogue
from services.memory.embedder import DIMENSIONS, Vectors
from services.memory.keywords import Keywords
from shared.contracts import Hit, MemoryQuery, Node

VECTOR_SHARE = 0.5
"""What meaning weighs in the score; words weigh the rest. Shares from .4 to .6 found evidence alike."""

FAR = 0.4
"""The cosine above which texts count as near: of unrelated pairs a tenth lie under .39, half under .48."""


class Index:
    """What search needs, in RAM: the catalogue of nodes, their vectors, their words. Safe in any thread.

    Made of the table of nodes; ``model`` names the vectors that are compared: a node with one of another
    model is found by words alone. Comparing all vectors takes 4 to 9 ms at 100,000 nodes, where LanceDB takes
    39.
    """

    def __init__(self, table: pa.Table, model: str) -> None:
        self._lock = threading.Lock()
        self._catalogue = Catalogue(table)
        self._keywords = Keywords()
        columns = (table.column(name).to_pylist() for name in ("title", "body", "tags"))
        for title, body, tags in zip(*columns, strict=True):
            self._keywords.add(_words_of(title, body, tags))
        self._vectors = _read_vectors(table, model)

    @property
    def wasted(self) -> int:
        """Slots that hold an outdated state of a node; a new Index has none."""
        return self._catalogue.wasted

    def put(self, nodes: Sequence[Node], vectors: Vectors) -> None:
        """Take in nodes, each with the vector in the same row; at once they are found as they are now."""
        with self._lock:
            start = len(self._catalogue)
            if start + len(nodes) > len(self._vectors):
                self._grow(start + len(nodes))
            self._vectors[start : start + len(nodes)] = vectors
            for node in nodes:
                self._catalogue.add(node)
                self._keywords.add(_words_of(node.title, node.body, node.tags))

    def get(self, ids: Iterable[str]) -> list[Node]:
        """The nodes of these ids in order, retired ones too, without embeddings; unknown ids are left out."""
        with self._lock:
            slots = [self._catalogue.find(node_id) for node_id in ids]
            return [self._catalogue.read(slot) for slot in slots if slot is not None]

    def vector(self, node_id: str) -> Vectors | None:
        """A node's vector; None for an unknown node and for one whose vector is another model's."""
        with self._lock:
            slot = self._catalogue.find(node_id)
            vector = None if slot is None else self._vectors[slot].copy()
        return vector if vector is not None and vector.any() else None

    def count(self) -> int:
        """How many nodes are live."""
        with self._lock:
            return int(np.count_nonzero(self._catalogue.live))

    def count_kinds(self) -> dict[str, int]:
        """How many live nodes there are of each kind."""
        with self._lock:
            return self._catalogue.count_kinds()

    def search(self, query: MemoryQuery, vector: Vectors) -> list[Hit]:
        """The best nodes for a query, best first, at most ``query.limit``; ``vector`` is the embedded query
        text.

        score = VECTOR_SHARE x near + (1 - VECTOR_SHARE) x words, in 0..1, where

        - near is (cosine - FAR) / (1 - FAR), not below 0: 0 is unrelated, 1 the same text;
        - words is the node's BM25 score for the query over the highest any text could have, so that words
          which are rare in memory count more, and words which are nowhere in it lower all scores.

        Both are measured against fixed ends, not against the best of this query, so scores of different
        queries compare and a low one means that nothing fits. ``why`` holds the two summands, ``vector`` and
        ``keyword``; nodes that score 0 are no hits. Of equal scores the later written comes first.
        """
        with self._lock:
            admitted = self._catalogue.admit(query)
            words = self._keywords.score(query.text, self._catalogue.live)
            vectors = self._vectors[: len(words)]
        near = np.clip((vectors @ vector - FAR) / (1 - FAR), 0, 1)
        parts = {"vector": VECTOR_SHARE * near, "keyword": (1 - VECTOR_SHARE) * words}
        scores = np.where(admitted, parts["vector"] + parts["keyword"], 0)
        with self._lock:
            return [
                Hit(
                    node=self._catalogue.read(slot),
                    score=min(1.0, round(float(scores[slot]), 4)),
                    why={name: round(float(part[slot]), 4) for name, part in parts.items()},
                )
                for slot in _best(scores, query.limit)
            ]

    def _grow(self, size: int) -> None:
        grown = np.empty((max(1024, 2 * size), DIMENSIONS), np.float32)
        grown[: len(self._vectors)] = self._vectors
        self._vectors = grown


def _best(scores: NDArray[np.float32], limit: int) -> list[int]:
    count = min(limit, len(scores))
    if not count:
        return []
    threshold = np.partition(scores, -count)[-count]
    slots = np.flatnonzero((scores >= threshold) & (scores > 0))
    order = np.lexsort((-slots, -scores[slots]))[:count]
    return [int(slot) for slot in slots[order]]


def _read_vectors(table: pa.Table, model: str) -> Vectors:
    vectors: Vectors = np.zeros((table.num_rows, DIMENSIONS), np.float32)
    start = 0
    for chunk in table.column("embedding").chunks:
        vectors[start : start + len(chunk)] = chunk.flatten().to_numpy().reshape(-1, DIMENSIONS)
        start += len(chunk)
    others = np.array(table.column("model").to_pylist(), dtype=object) != model
    vectors[others] = 0
    return vectors


def _words_of(title: str, body: str, tags: Iterable[str]) -> str:
    return "\n".join((title, body, *tags))
