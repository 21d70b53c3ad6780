"""The search over all nodes: which are candidates, and what each scores."""

import math
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.memory.graph.decay import parse_time
from services.memory.retrieval import ranking
from services.memory.retrieval.keywords import K1, B, Keywords, query_words
from services.memory.retrieval.node_index import Mask, NodeIndex
from services.memory.retrieval.sessions import OFFSETS
from services.memory.retrieval.vectors import Vectors, VectorTable
from shared.contracts import ListQuery, MemoryQuery

BEST = 300
"""How many nodes are candidates, by meaning and by words each, unless more are asked for: of the best ten
of 100,000 that scoring all would find, 99 % are found, and as much of the evidence."""

TRIED = 0.6
"""Which part of the vectors that are usually tried is: others have words or neighbours to speak for them."""

FEW = 1_000
"""If filters leave no more, all are candidates."""

GRAPH = 0.1
"""What an anchor and its neighbours get on top; those at two hops half of it, at three a third."""

NEAR = 500
"""How many nodes around the anchors are candidates, the nearest first."""

FREQUENT = 32
"""A word that one in so many nodes has is frequent."""

SAMPLE = 4_096
"""The mean length of a text with its neighbours is that of so many nodes, spread evenly."""

LONG = 30_000
"""From that many slots on, meaning and words are searched in parallel; a thread takes 60 us to start."""

_pool = ThreadPoolExecutor(2, thread_name_prefix="memory-meaning")

Slots = NDArray[np.intp]
Meant = NDArray[np.integer[Any]]
Numbers = NDArray[np.float32]
Among = tuple[NDArray[np.integer[Any]], NDArray[np.uint8], int]


class WordMatches(NamedTuple):
    """Where a word occurs and how often, in how many live nodes, and its weight.

    Of a frequent word ``spread`` has the counts by slot: a lookup there costs the same however frequent it
    is.
    """

    slots: NDArray[np.uint32]
    counts: NDArray[np.uint8]
    frequency: int
    weight: float
    spread: NDArray[np.uint8] | None


class Scored(NamedTuple):
    """A slot, its score and the parts that made it."""

    slot: int
    score: float
    why: dict[str, float]


class SearchState(NamedTuple):
    """What is searched: nodes, words, vectors by slot; replaced whole when slots get other numbers.

    ``measured`` remembers a mean length and how many slots there were when it was taken.
    """

    nodes: NodeIndex
    keywords: Keywords
    vectors: VectorTable
    measured: dict[str, tuple[int, float]]


class Search:
    """One search of a state; ``live`` says which slots were live when it began; nothing later counts."""

    def __init__(self, state: SearchState, live: Mask) -> None:
        self._index, self._keywords, self._vectors, self._measured = state
        self._live = live
        self._count = len(live)
        self._total = int(np.count_nonzero(live))
        self._found: dict[str, WordMatches] = {}

    def run(
        self, query: MemoryQuery, vector: Vectors, moment: float, hops: Mapping[int, int]
    ) -> list[Scored]:
        """The best nodes, best first; ``hops`` has the distances of the slots around the anchors.

        The score is the sum of the parts that ``ranking.score`` documents and of ``graph``: GRAPH for an
        anchor and its neighbours, GRAPH / 2 and GRAPH / 3 for those at two and three hops; at most 1. ``why``
        holds the parts that are not 0. A node that scores nothing by meaning, words and graph is no hit, and
        of equal scores the later written comes first. Candidates are the BEST by meaning, the BEST by words,
        the neighbours of these in their sessions, and those NEAR the anchors; if filters leave FEW, all that
        are left. ``hops`` begins with the nearest.
        """
        admitted = admit(self._index, query, self._live)
        near = np.fromiter((slot for slot in hops if slot < self._count), np.intp)
        near = near[admitted[near]][:NEAR]
        slots, places = self._choose(query, vector, admitted, near)
        if not len(slots):
            return []
        parts = ranking.score(self._gather(query.text, vector, moment, slots, places))
        parts["graph"] = np.zeros(len(slots), np.float32)
        parts["graph"][places[near]] = [GRAPH / max(1, hops[slot]) for slot in near.tolist()]
        return self._pick(query.limit, slots, parts, admitted[slots])

    def _choose(
        self, query: MemoryQuery, vector: Vectors, admitted: Mask, near: Slots
    ) -> tuple[Slots, NDArray[np.int32]]:
        """The slots of the candidates, in order, and for every slot its place among them or -1."""
        best = max(BEST, 4 * query.limit)
        chosen = np.zeros(self._count, np.bool_)
        if np.count_nonzero(admitted) <= FEW:
            chosen |= admitted
        else:
            meant, worded = self._find_both(query.text, vector, admitted, best)
            chosen[meant] = chosen[worded] = True
        beside = self._index.sessions.neighbours(np.flatnonzero(chosen), self._count)
        chosen[beside[beside >= 0]] = True
        chosen[near] = True
        slots = np.flatnonzero(chosen & self._live)
        places = np.full(self._count, -1, np.int32)
        places[slots] = np.arange(len(slots), dtype=np.int32)
        return slots, places

    def _find_both(self, text: str, vector: Vectors, admitted: Mask, best: int) -> tuple[Meant, Slots]:
        """The slots that are best by meaning, and by words; in parallel if that takes long."""
        if self._count < LONG:
            nearest = self._vectors.nearest(vector, admitted, best, TRIED)[0]
            return nearest, self.find_by_words(text, admitted, best)
        beside = _pool.submit(self._vectors.nearest, vector, admitted, best, TRIED)
        worded = self.find_by_words(text, admitted, best)
        return beside.result()[0], worded

    def _gather(
        self, text: str, vector: Vectors, moment: float, slots: Slots, places: NDArray[np.int32]
    ) -> ranking.QueryCandidates:
        beside = self._index.sessions.neighbours(slots, self._count)
        return ranking.QueryCandidates(
            text=text,
            moment=moment,
            cosines=self._vectors.compare(slots, vector),
            created=self._index.column("created", self._count)[slots],
            lengths=self._keywords.lengths(self._count)[slots],
            beside=np.where(beside >= 0, places[beside], -1),
            total=self._total,
            mean_length=self._measure(),
            find=self._finder(slots, places),
            named=self._namer(slots, places),
        )

    def _finder(self, slots: Slots, places: NDArray[np.int32]) -> Callable[[str], Among]:
        def find(word: str) -> Among:
            found = self._find(word)
            if found.spread is not None:
                counts = found.spread[slots]
                here = np.flatnonzero(counts)
                return here, counts[here], found.frequency
            there = places[found.slots]
            among = there >= 0
            return there[among], found.counts[among], found.frequency

        return find

    def _namer(self, slots: Slots, places: NDArray[np.int32]) -> Callable[[Collection[str]], Mask]:
        def name(words: Collection[str]) -> Mask:
            named: Mask = np.zeros(len(slots), np.bool_)
            for agent in self._index.codes(words):
                named |= self._index.column("agent", self._count)[slots] == agent
            for tagged in self._index.find_named(words, self._count):
                there = places[tagged]
                named[there[there >= 0]] = True
            return named

        return name

    def _find(self, word: str) -> WordMatches:
        """Where a word occurs, and in how many live nodes; cached, since it is needed twice."""
        if word not in self._found:
            slots, counts = self._keywords.find(word, self._count)
            frequent = FREQUENT * len(slots) > self._count > FEW
            spread = self._keywords.spread(word, self._count) if frequent else None
            if self._total == self._count:
                frequency = len(slots)
            else:
                live = self._live[slots] if spread is None else spread.astype(np.bool_) & self._live
                frequency = int(np.count_nonzero(live))
            weight = math.log(1 + (self._total - frequency + 0.5) / (frequency + 0.5))
            self._found[word] = WordMatches(slots, counts, frequency, weight, spread)
        return self._found[word]

    def find_by_words(self, text: str, admitted: Mask, best: int) -> Slots:
        """The slots that score best by BM25, each by itself.

        Rare words come first. Once the other words cannot lift a slot that has none of those, they are
        searched only where those occur: most of the time goes into words of little weight.
        """
        found = [entry for entry in map(self._find, query_words(text)) if entry.frequency]
        found.sort(key=lambda entry: -entry.weight)
        lengths = self._keywords.lengths(self._count)
        mean = max(1.0, float(lengths[:: max(1, self._count // SAMPLE)].mean()))
        scores, rest = np.zeros(self._count, np.float32), sum(entry.weight for entry in found)
        for number, entry in enumerate(found):
            if number and entry.spread is not None:
                worded = np.flatnonzero((scores > 0) & admitted)
                least = _find_least(scores[worded], best)
                if least > rest:
                    worded = worded[scores[worded] >= least - rest]
                    return _best(worded, self._add_words(worded, scores, found[number:], mean), best)
            norms = _find_norms(lengths[entry.slots], mean)
            scores[entry.slots] += np.float32(entry.weight) * entry.counts / (entry.counts + norms)
            rest -= entry.weight
        worded = np.flatnonzero((scores > 0) & admitted)
        return _best(worded, scores[worded], best)

    def _add_words(self, worded: Slots, scores: Numbers, found: list[WordMatches], mean: float) -> Numbers:
        """The scores of some slots with those of further words, all of them frequent."""
        norms = _find_norms(self._keywords.lengths(self._count)[worded], mean)
        result = scores[worded]
        for entry in found:
            if entry.spread is not None:
                counts = entry.spread[worded]
                result += np.float32(entry.weight) * counts / (counts + norms)
        return result

    def _measure(self) -> float:
        """The mean length of a live text and its neighbours, measured again once 1 % is new."""
        count, mean = self._measured.get("mean", (0, 0.0))
        if self._total != count and 100 * abs(self._total - count) >= self._total:
            mean = self._measure_sample()
            self._measured["mean"] = self._total, mean
        return mean

    def _measure_sample(self) -> float:
        slots = np.flatnonzero(self._live)[:: max(1, self._total // SAMPLE)]
        lengths = self._keywords.lengths(self._count)
        beside = self._index.sessions.neighbours(slots, self._count)
        total = lengths[slots].astype(np.float64)
        for offset, others in zip(OFFSETS, beside, strict=True):
            total += ranking.NEIGHBOUR ** abs(offset) * lengths[others] * (others >= 0)
        return float(total.mean()) if len(total) else 0.0

    def _pick(self, limit: int, slots: Slots, parts: dict[str, Numbers], admitted: Mask) -> list[Scored]:
        speaks = admitted & (parts["vector"] + parts["keyword"] + parts["graph"] > 0)
        scores = np.where(speaks, sum(parts.values()), 0)
        places = np.flatnonzero(speaks)
        if len(places) > limit:
            least = np.partition(scores[places], -limit)[-limit]
            places = places[scores[places] >= least]
        versions = self._index.column("version", self._count)[slots[places]]
        order = np.lexsort((-slots[places], -versions, -scores[places]))[:limit]
        return [
            Scored(
                slot=int(slots[place]),
                score=min(1.0, round(float(scores[place]), 4)),
                why={name: round(float(part[place]), 4) for name, part in parts.items() if part[place]},
            )
            for place in places[order].tolist()
        ]


def _find_norms(lengths: Numbers, mean: float) -> Numbers:
    return np.float32(K1 * (1 - B)) + np.float32(K1 * B / mean) * lengths


def _find_least(scores: Numbers, best: int) -> float:
    """The least of the ``best`` scores; 0 if there are not that many."""
    return float(np.partition(scores, -best)[-best]) if len(scores) > best else 0.0


def _best(slots: Slots, scores: Numbers, best: int) -> Slots:
    return slots[np.argpartition(-scores, best)[:best]] if len(slots) > best else slots


def admit(index: NodeIndex, query: MemoryQuery | ListQuery, among: Mask) -> Mask:
    """The slots among those given that pass a query's filters."""
    return index.admit(
        among,
        kinds=query.kinds,
        tags=query.tags,
        agent=query.agent,
        session=query.session,
        since=parse_time(query.since) if query.since else 0.0,
        until=parse_time(query.until) if query.until else 0.0,
    )
