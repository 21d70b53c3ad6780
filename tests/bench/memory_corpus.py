"""Memories made up for measuring: Zipf words, vectors in clusters, edges with hubs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.memory.graph.network import NAMES
from shared.contracts import Edge, MemoryWrite, Node, Relation, Source

DIMENSIONS = 384
AGENTS = 8
EDGES_EACH = 5
"""Edges a node has to earlier ones; so it has ten neighbours, and a hub has far more."""
HUBS = 10
TO_HUBS = 0.1
"""The share of edges beyond a cluster that go to a hub: of 100,000 memories each has over a thousand."""
KINDS = ("fact", "decision", "event", "observation", "pattern", "goal", "preference")

_SYLLABLES = "ba ce di fo gu la me ni po ru sa te vi zo ku ra lo mi ne ta".split()
_WORDS = 20_000
_CENTRES = 200
_SPREAD = 0.6
_BLOCK = 50_000


class Corpus:
    """``size`` memories and their edges; the same ones for the same size and name."""

    def __init__(self, size: int, name: int = 1) -> None:
        self.size = size
        self._name = name
        self._random = random = np.random.default_rng([size, name])
        self._words = _make_words()
        ranks = 1 / np.arange(1, _WORDS + 1)
        self._chances = ranks / ranks.sum()
        self._centres = _units(random.standard_normal((_CENTRES, DIMENSIONS), np.float32))
        self._clusters = random.integers(0, _CENTRES, size)
        self._members = [np.flatnonzero(self._clusters == cluster) for cluster in range(_CENTRES)]
        self.vectors = np.empty((size, DIMENSIONS), np.float32)
        for first in range(0, size, _BLOCK):
            block = slice(first, first + _BLOCK)
            self.vectors[block] = self._around(self._clusters[block])

    def ids(self, numbers: Sequence[int] | NDArray[np.int64]) -> list[str]:
        """The ids of some memories, of the length a UUID has."""
        return [f"{self._name:08x}-0000-7000-8000-{number:012x}" for number in numbers]

    def nodes(self, first: int, last: int) -> list[Node]:
        """Memories of one sentence as title and two or three as body, without their vectors."""
        count = last - first
        lengths = self._random.integers(16, 45, count)
        words = self.some_words(int(lengths.sum()))
        ends = np.cumsum(lengths)
        importance = self._random.random(count).round(3)
        nodes = []
        for row, node_id in enumerate(self.ids(range(first, last))):
            number, text = first + row, words[ends[row] - lengths[row] : ends[row]]
            source = Source(agent=f"agent{number % AGENTS}", session=f"session-{number // 20}")
            nodes.append(
                Node(
                    id=node_id,
                    kind=KINDS[number % len(KINDS)],
                    title=" ".join(text[:6]),
                    body=" ".join(text[6:]),
                    tags=(text[0], text[1]),
                    source=source,
                    importance=float(importance[row]),
                )
            )
        return nodes

    def edges(self, first: int, last: int) -> list[Edge]:
        """What leads from these memories to earlier ones: mostly of their own cluster, some to hubs."""
        edges = []
        for number in range(max(1, first), last):
            members = self._members[self._clusters[number]]
            earlier = int(np.searchsorted(members, number))
            near = members[self._random.integers(0, earlier, EDGES_EACH - 1)].tolist() if earlier else []
            chosen = set(near)
            for other in self._random.integers(0, number, EDGES_EACH + 1).tolist():
                if len(chosen) >= min(EDGES_EACH, number):
                    break
                chosen.add(other % HUBS if self._random.random() < TO_HUBS else other)
            edges += self._edges_to(number, sorted(chosen))
        return edges

    def writes(self, first: int, last: int, each: int = 1_000, *, embedded: bool = True) -> list[MemoryWrite]:
        """The writes that store these memories, ``each`` at once, with their vectors if ``embedded``."""
        return [
            MemoryWrite(
                sender="user",
                nodes=tuple(self.nodes(start, min(start + each, last))),
                vectors=self.vectors[start : min(start + each, last)].tobytes() if embedded else b"",
                insist=True,
            )
            for start in range(first, last, each)
        ]

    def link_writes(self, first: int, last: int, each: int = 1_000) -> list[MemoryWrite]:
        """The writes that store the edges of these memories, those of ``each`` memories at once."""
        found = (self.edges(start, min(start + each, last)) for start in range(first, last, each))
        return [MemoryWrite(sender="user", edges=tuple(edges)) for edges in found if edges]

    def questions(self, count: int) -> list[tuple[str, list[float]]]:
        """What might be asked: a few words, and a vector near to that of some memory."""
        vectors = self._around(self._clusters[self._random.integers(0, self.size, count)])
        texts = [" ".join(self.some_words(6)) for _ in range(count)]
        return list(zip(texts, vectors.astype(np.float64).tolist(), strict=True))

    def some_words(self, count: int) -> list[str]:
        """Words by their frequency."""
        found: list[str] = self._words[self._random.choice(_WORDS, count, p=self._chances)].tolist()
        return found

    def _around(self, clusters: NDArray[np.int64]) -> NDArray[np.float32]:
        noise = _units(self._random.standard_normal((len(clusters), DIMENSIONS), np.float32))
        return _units(self._centres[clusters] + np.float32(_SPREAD) * noise)

    def _edges_to(self, number: int, others: Sequence[int]) -> list[Edge]:
        start, *ends = self.ids([number, *others])
        relations = self._random.integers(0, len(NAMES), len(ends)).tolist()
        weights = self._random.uniform(0.3, 1.0, len(ends)).round(4).tolist()
        return [
            Edge(
                from_id=start,
                to_id=end,
                relation=Relation(NAMES[relation] if NAMES[relation] != "supersedes" else "related_to"),
                weight=weight,
                provenance={"by": "similarity", "score": weight},
            )
            for end, relation, weight in zip(ends, relations, weights, strict=True)
        ]


def _make_words() -> NDArray[Any]:
    count = len(_SYLLABLES)
    numbers = range(count, count + _WORDS)
    return np.array([_spell(number) for number in numbers], object)


def _spell(number: int) -> str:
    spelt = ""
    while number:
        number, place = divmod(number, len(_SYLLABLES))
        spelt += _SYLLABLES[place]
    return spelt


def _units(rows: NDArray[Any]) -> NDArray[Any]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
