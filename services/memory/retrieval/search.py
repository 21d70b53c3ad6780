"""The search over all nodes: which are candidates, and what each scores."""

import math
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.memory.graph.decay import parse_time
from services.memory.retrieval import ranking
from services.memory.retrieval.keywords import (
    K1,
    STOP_WORDS,
    B,
    Keywords,
    WordMatches,
    query_words,
    split_words,
)
from services.memory.retrieval.node_index import Mask, NodeIndex
from services.memory.retrieval.node_table import OFFSETS
from services.memory.retrieval.vectors import Vectors, VectorTable, top_slots
from shared.contracts import ListQuery, MemoryQuery

BEST = 300
"""How many nodes are candidates, by meaning and by words each, unless more are asked for: of the best ten
of 100,000 that scoring all would find, 99 % are found, and as much of the evidence."""

FEW = 1_000  # If filters leave no more, all are candidates

GRAPH = 0.1  # What an anchor and its neighbours get on top; those at two hops half of it, at three a third

NEAR = 500  # How many nodes around the anchors are candidates, the nearest first

RARITY = 1.2
"""The power of a word's weight. Found with it: .2 % more in the half of LoCoMo that constants are chosen on,
.5 % in FriendsQA and QMSum, as much in REALTALK; with 1.5 less in the last."""

SAMPLE = 4_096  # The mean length of a text with its neighbours is that of so many nodes, spread evenly

LONG = 30_000
"""From that many slots on, meaning and words are searched in parallel; a thread takes 60 us to start."""

BESIDE = 0.7
"""Which part of the vectors is compared beside the words; the rest follows these in the same thread."""

_pool = ThreadPoolExecutor(2, thread_name_prefix="memory-meaning")

Slots = NDArray[np.intp]
Numbers = NDArray[np.float32]
_NOTHING: Numbers = np.empty(0, np.float32)


class WeighedWord(NamedTuple):
    """Where a word occurs, in how many live nodes, and its weight."""

    matches: WordMatches
    frequency: int
    weight: float


class Scored(NamedTuple):
    """A slot, its score and the parts that made it."""

    slot: int
    score: float
    why: dict[str, float]


class SearchState(NamedTuple):
    """What is searched: nodes, words, vectors by slot; replaced whole when slots get other numbers.

    ``measured`` remembers a mean length and how many slots there were when it was taken, ``normed`` what
    ``find_by_words`` makes of all lengths.
    """

    nodes: NodeIndex
    keywords: Keywords
    vectors: VectorTable
    measured: dict[str, tuple[int, float]]
    normed: dict[str, tuple[int, Numbers]]


class Search:
    """One search of a state; ``live`` says which slots were live when it began; nothing later counts."""

    def __init__(self, state: SearchState, live: Mask) -> None:
        self._index, self._keywords, self._vectors, self._measured, self._normed = state
        self._live = live
        self._count = len(live)
        self._total = int(np.count_nonzero(live))

    def run(
        self,
        query: MemoryQuery,
        vector: Vectors,
        moment: float,
        hops: Mapping[int, int],
        holds: Mask | None = None,
    ) -> list[Scored]:
        """The best nodes, best first; ``hops`` has the distances of the slots around the anchors.

        Only slots that ``holds`` has are found; the others still count as neighbours.

        The score is the sum of the parts that ``ranking.score`` documents, of ``graph`` (GRAPH for an anchor
        and its neighbours, GRAPH / 2 and GRAPH / 3 for those at two and three hops) and of ``session``
        (``ranking.lift_siblings``); at most 1. ``why`` holds the parts that are not 0. A node that scores
        nothing by meaning, words and graph is no hit, and of equal scores the later written comes first.
        Candidates are the BEST by meaning, the BEST by words, the neighbours of these in their sessions, and
        those NEAR the anchors; if filters leave FEW, all that are left. ``hops`` begins with the nearest.
        """
        admitted = admit(self._index, query, self._live if holds is None else self._live & holds)
        near = np.fromiter((slot for slot in hops if slot < self._count), np.intp)
        near = near[admitted[near]][:NEAR]
        words = self.weigh(query.text)
        slots, places = self._choose(query, vector, words, admitted, near)
        if not len(slots):
            return []
        parts = ranking.score(self._gather(query.text, vector, words, moment, slots, places))
        parts["graph"] = np.zeros(len(slots), np.float32)
        parts["graph"][places[near]] = [GRAPH / max(1, hops[slot]) for slot in near.tolist()]
        sessions = self._index.column("session", self._count)[slots]
        parts["session"] = ranking.lift_siblings(np.sum([*parts.values()], axis=0), sessions)
        return self._pick(query.limit, slots, parts, admitted[slots])

    def _choose(
        self, query: MemoryQuery, vector: Vectors, words: list[WeighedWord], admitted: Mask, near: Slots
    ) -> tuple[Slots, NDArray[np.int32]]:
        """The slots of the candidates, in order, and for every slot its place among them or -1."""
        best = max(BEST, 4 * query.limit)
        chosen = np.zeros(self._count, np.bool_)
        if np.count_nonzero(admitted) <= FEW:
            chosen |= admitted
        else:
            for found in self._find_both(vector, words, admitted, best):
                chosen[found] = True
        beside = self._index.sessions.neighbours(np.flatnonzero(chosen), self._count)
        chosen[beside[beside >= 0]] = True
        chosen[near] = True
        slots = np.flatnonzero(chosen & self._live)
        places = np.full(self._count, -1, np.int32)
        places[slots] = np.arange(len(slots), dtype=np.int32)
        return slots, places

    def _find_both(
        self, vector: Vectors, words: list[WeighedWord], admitted: Mask, best: int
    ) -> tuple[Slots, Slots]:
        """The slots that are best by meaning, and by words; in parallel if that takes long."""
        near, part = np.empty(self._count, np.float32), 0
        if self._count >= LONG:
            part = int(BESIDE * self._count)
            beside = _pool.submit(self._vectors.estimate, vector, near[:part])
        worded = self.find_by_words(words, admitted, best)
        self._vectors.estimate(vector, near[part:], part)
        if part:
            beside.result()
        return self._vectors.choose(near, admitted, best), worded

    def _gather(
        self,
        text: str,
        vector: Vectors,
        words: list[WeighedWord],
        moment: float,
        slots: Slots,
        places: NDArray[np.int32],
    ) -> ranking.QueryCandidates:
        compare = partial(self._vectors.compare, slots, vector)
        comparing = _pool.submit(compare) if self._count >= LONG else None
        beside = self._index.sessions.neighbours(slots, self._count)
        return ranking.QueryCandidates(
            text=text,
            moment=moment,
            created=self._index.column("created", self._count)[slots],
            lengths=self._keywords.lengths(self._count)[slots],
            beside=np.where(beside >= 0, places[beside], -1),
            mean_length=self._measure(),
            weights=np.array([word.weight for word in words], np.float32),
            counts=_count_words(words, slots, places),
            named=lambda names: self._find_named(names, slots, places),
            between_two=lambda among: self._find_between_two(among, slots),
            cosines=comparing.result() if comparing else compare(),
        )

    def _find_named(self, names: Collection[str], slots: Slots, places: NDArray[np.int32]) -> Mask:
        named: Mask = np.zeros(len(slots), np.bool_)
        for agent in self._index.codes(names):
            named |= self._index.column("agent", self._count)[slots] == agent
        if tagged := self._index.find_named(names, self._count):
            there = places[np.concatenate(tagged)]
            named[there[there >= 0]] = True
        return named

    def _find_between_two(self, among: Mask, slots: Slots) -> Mask:
        """Which of ``among`` are in a session whose live nodes are of two speakers."""
        sessions = self._index.column("session", self._count)[slots]
        between: Mask = self._index.sessions.count_speakers(sessions) == 2
        return among & between

    def weigh(self, text: str) -> list[WeighedWord]:
        """The words of a query, also those that occur nowhere: they count in what a text could score."""
        return [self._weigh_word(self._keywords.match(word, self._count)) for word in query_words(text)]

    def weigh_word(self, word: str) -> float:
        """What a word of a query counts; 0 for one that says nothing."""
        stems = set(split_words(word)) - STOP_WORDS
        return max(
            (self._weigh_word(self._keywords.match(stem, self._count)).weight for stem in stems), default=0.0
        )

    def _weigh_word(self, matches: WordMatches) -> WeighedWord:
        frequency = matches.number
        if self._total < self._count:
            live = self._live[matches.slots] if matches.spread is None else (matches.spread > 0) & self._live
            frequency = int(np.count_nonzero(live))
        weight = math.log(1 + (self._total - frequency + 0.5) / (frequency + 0.5))
        return WeighedWord(matches, frequency, weight**RARITY)

    def find_by_words(self, words: list[WeighedWord], admitted: Mask, best: int) -> Slots:
        """The slots that score best by BM25, each by itself."""
        # What BM25 adds to the count of a word in each slot; kept until there are more slots
        count, norms = self._normed.get("norms", (-1, _NOTHING))
        if count != self._count:
            lengths = self._keywords.lengths(self._count)
            mean = max(1.0, float(lengths[:: max(1, self._count // SAMPLE)].mean()))
            norms = np.float32(K1 * (1 - B)) + np.float32(K1 * B / mean) * lengths
            self._normed["norms"] = self._count, norms
        scores, share = np.zeros(self._count, np.float32), np.empty(self._count, np.float32)
        for matches, _, weight in words:
            if matches.spread is not None:
                np.add(matches.spread, norms, out=share)
                np.divide(matches.spread, share, out=share)
                share *= np.float32(weight)
                scores += share
        rare = [word for word in words if len(word.matches.slots)]
        if rare:
            slots = np.concatenate([word.matches.slots for word in rare])
            counts = np.concatenate([word.matches.counts for word in rare])
            weights = [np.float32(word.weight) for word in rare]
            scale = np.repeat(weights, [len(word.matches.slots) for word in rare])
            np.add.at(scores, slots, scale * counts / (counts + norms[slots]))
        if np.count_nonzero(admitted) < self._count:
            scores *= admitted
        return top_slots(scores, best, 0.0)

    def _measure(self) -> float:
        """The mean length of a live text and its neighbours, measured again once 1 % is new."""
        count, mean = self._measured.get("mean", (0, 0.0))
        if self._total != count and 100 * abs(self._total - count) >= self._total:
            slots = np.flatnonzero(self._live)[:: max(1, self._total // SAMPLE)]
            lengths = self._keywords.lengths(self._count)
            beside = self._index.sessions.neighbours(slots, self._count)
            total = lengths[slots].astype(np.float64)
            for offset, others in zip(OFFSETS, beside, strict=True):
                total += ranking.WORDS_AROUND[offset] * lengths[others] * (others >= 0)
            mean = float(total.mean()) if len(total) else 0.0
            self._measured["mean"] = self._total, mean
        return mean

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


def _count_words(words: list[WeighedWord], slots: Slots, places: NDArray[np.int32]) -> Numbers:
    """How often each word occurs in each of some slots, a column a word."""
    counts = np.zeros((len(slots), len(words)), np.float32)
    for column, (matches, _, _) in enumerate(words):
        if matches.spread is not None:
            counts[:, column] = matches.spread[slots]
        elif len(matches.slots):
            there = places[matches.slots]
            among = there >= 0
            counts[there[among], column] = matches.counts[among]
    return counts


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
