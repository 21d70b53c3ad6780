"""The score of a node for a query: by meaning, words, dates and names, and by its neighbours."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.memory.graph.decay import parse_time
from services.memory.graph.graph import Graph
from services.memory.linking.rules import UNDECIDED
from services.memory.retrieval.keywords import K1, B, plain_words
from services.memory.retrieval.node_table import NONE, OFFSETS
from shared.contracts import Hit, MemoryQuery, Node, Relation
from shared.contracts.base import amended
from shared.language.times.spans import find_date_spans
from shared.text.prose import asks_about_work, asks_past, find_phrases, find_stems, find_terms

Numbers = NDArray[np.float32]

FAR = 0.4
"""The cosine above which texts count as near: of unrelated pairs a tenth lie under .39, half under .48. With
.5 more was found in three sets of conversations (.1 to .6 %), but of 20 plain facts of a team's store 16
instead of 18 were the first hit."""

NEIGHBOUR = 0.5
"""What the node next to one counts in it; the one after that, a half of a half.

Evidence among the first ten hits in LoCoMo's conversations, by words alone: 65 % without neighbours, 76 %
with .5 and .25, no more with .7 and .49, nor with three on each side."""

WORDS_AROUND = {-2: 0.3, -1: 0.6, 1: 0.4, 2: 0.2}
"""What a word of a node at this offset counts in one: an answer follows its question. With NEIGHBOUR on both
sides 1 % less was found in FriendsQA, .5 % less in QMSum and as much in the half of LoCoMo that constants are
chosen on."""

MEANING_AROUND = {offset: NEIGHBOUR ** abs(offset) for offset in OFFSETS}
"""What the meaning of a node at this offset counts; one that follows the same direction found less."""

WORDS, MEANING, DATE, NAME = 0.6, 0.4, 0.2, 0.05
"""The shares of the score; the last two come on top.

Evidence found as above: 80.2 % by words and meaning, 82.3 % with dates, 82.9 % with names too; 82 to 83 % too
with DATE or NAME halved, or WORDS from .5 to .7."""

BETWEEN_TWO = 0.08
"""NAME in a session in which two speak: there, what the other one says is mostly not what is asked for. With
it .6 % more was found in the half of LoCoMo that constants are chosen on, .7 % in REALTALK; in deep searches
.4 and .3 %. In all sessions: 1.7 % less in FriendsQA and .9 % less in QMSum, where many speak."""

FADING = 7.0
"""Days outside of the time a question names after which a node gets half of what it would get within: people
talk about events for about that long. 3 and 14 found as much."""

SIBLING = 0.1
"""How far a score is raised towards the best one of its session. Found with it: .6 % more in FriendsQA and in
the half of LoCoMo that constants are chosen on, .2 % in REALTALK, as much in QMSum (a meeting is one
session); with .2 less in the first three."""


class QueryCandidates(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a question and its candidates, all of them live; arrays have one entry a candidate.

    ``cosines`` of the question and each candidate (0 if it has no vector), ``created`` in seconds since
    the epoch, ``lengths`` in words, ``beside`` their places in these arrays at OFFSETS from each in its
    session, a row each, -1 for none. ``mean_length`` is the mean over all live nodes of their
    lengths with ``sum_neighbours`` (WORDS_AROUND) of these. ``weights`` has the weight of each word that is
    searched, ``counts`` how often it occurs in each candidate, a column a word; ``named`` returns which
    candidates have a tag or an agent among words, ``between_two`` which of some are in a session in which two
    speak. ``moment`` is now, in seconds since the epoch.
    """

    text: str
    moment: float
    cosines: Numbers
    created: NDArray[np.float64]
    lengths: Numbers
    beside: NDArray[np.int32]
    mean_length: float
    weights: Numbers
    counts: Numbers
    named: Callable[[Collection[str]], NDArray[np.bool_]]
    between_two: Callable[[NDArray[np.bool_]], NDArray[np.bool_]]


def score(evidence: QueryCandidates) -> dict[str, Numbers]:
    """The parts of every candidate's score by name; their sum, at most 1, is the score.

    - ``vector``, up to MEANING: how near the node is to the question, raised by how near its neighbours are:
      near + (1 - near) x mean of its neighbours' near, weighted by NEIGHBOUR, where near is (cosine - FAR) /
      (1 - FAR), not below 0: 0 is unrelated, 1 the same text. A node without neighbours has its own nearness.
    - ``keyword``, up to WORDS: the BM25 score for the question of the node and its neighbours read as one
      text, in which theirs count by WORDS_AROUND, over the highest any text could have: words that are rare
      in memory count more, and words which are nowhere in it lower all scores.
    - ``date``, up to DATE: whether the node was created in a time the question names; see FADING.
    - ``name``, NAME, BETWEEN_TWO or 0: whether the question names one of its tags or its agent, and whether
      two alone speak in its session.

    All are measured against fixed ends, not against the best of this question, so scores of different
    questions compare and a low one means that nothing fits. Neighbours are the nodes up to two before and
    after one in its session; a filter on what is found does not take them away.
    """
    meaning, words = _score_texts(evidence)
    return {
        "vector": np.float32(MEANING) * meaning,
        "keyword": np.float32(WORDS) * words,
        "date": np.float32(DATE) * _score_dates(evidence),
        "name": _score_names(evidence),
    }


def _score_names(evidence: QueryCandidates) -> Numbers:
    named = evidence.named(plain_words(evidence.text))
    parts = np.float32(NAME) * named.astype(np.float32)
    if named.any():
        parts[evidence.between_two(named)] = BETWEEN_TWO
    return parts


def _score_texts(evidence: QueryCandidates) -> tuple[Numbers, Numbers]:
    """How near each candidate and its neighbours are in meaning, and how much of the question's words they
    cover, both 0 to 1.
    """
    near = np.clip((evidence.cosines - np.float32(FAR)) / np.float32(1 - FAR), 0, 1)
    columns = np.column_stack((near, np.ones_like(near), evidence.lengths, evidence.counts))
    around = sum_neighbours(columns, evidence.beside)
    nears, number = around[:, 0], around[:, 1]
    meaning = near + (1 - near) * nears / np.maximum(number, np.float32(NEIGHBOUR**2))
    lengths, counts = np.split(columns[:, 2:] + around[:, 2:], [1], axis=1)
    norms = np.float32(K1 * (1 - B)) + np.float32(K1 * B / max(1.0, evidence.mean_length)) * lengths
    most = max(evidence.weights.sum(), np.float32(1e-9))
    return meaning, (evidence.weights / most * counts / (counts + norms)).sum(axis=1)


def sum_neighbours(columns: Numbers, beside: NDArray[np.int32]) -> Numbers:
    """The sum of each row's neighbours: two columns of meaning by MEANING_AROUND, the others, of words, by
    WORDS_AROUND.
    """
    padded = np.zeros((len(columns) + 1, columns.shape[1]), np.float32)  # -1, which is none, reads the last
    padded[:-1] = columns
    result = np.zeros_like(columns)
    weights = np.empty(columns.shape[1], np.float32)
    for offset, places in zip(OFFSETS, beside, strict=True):
        weights[:2], weights[2:] = MEANING_AROUND[offset], WORDS_AROUND[offset]
        result += weights * padded[places]
    return result


def _score_dates(evidence: QueryCandidates) -> Numbers:
    created = evidence.created
    result = np.zeros(len(created), np.float32)
    for start, end in find_date_spans(evidence.text, evidence.moment, _years(created)):
        outside = np.maximum(np.maximum(start - created, created - end), 0) / 86_400
        result = np.maximum(result, np.exp2(-outside / FADING).astype(np.float32))
    return result


def lift_siblings(scores: Numbers, sessions: NDArray[np.integer]) -> Numbers:
    """What each score gains: SIBLING of what it lacks of the best of its session; nothing if that is NONE."""
    codes, places = np.unique(sessions, return_inverse=True)
    best = np.zeros(len(codes), np.float32)
    np.maximum.at(best, places, scores)
    lifted: Numbers = np.float32(SIBLING) * (best[places] - scores) * (sessions != NONE)
    return lifted


def _years(created: NDArray[np.float64]) -> Sequence[int]:
    if not len(created):
        return ()
    first, last = (datetime.fromtimestamp(float(end), UTC).year for end in (created.min(), created.max()))
    return range(first, last + 1)


WIDE = 24  # How many hits are put in order at least, so that those behind the asked number can come forward

SAME = 0.7
"""The least cosine of two texts that say the same. With .60 to .72 the outdated was before the current for
0 to 2 of 58 questions of a made-up store, with .75 for 6; for 7 of 58 of another store in other words with
.68. By scores alone that was so for 26 and 28 of 40."""

LEAST = 0.5
"""The share of the older one's score that the newer one must have; .3 to .6 found the same, .7 less."""

ASSERTING = frozenset({"fact", "decision", "preference", "observation", "pattern", "goal"})
"""Kinds of which one may say the same as another; a kind of the user's own only says the same as itself."""

BOOKKEEPING = frozenset({"agent", "episodic", "task"})
"""Kinds that the office notes of itself, beside everything that it notes of goals and runs (NOTING)."""

NOTING = frozenset({"goal", "cognition"})  # Channels of what the office notes of itself

EVERY = 3  # Bookkeeping has one of so many places, if there is knowledge for the others

FITS = 0.25  # The share of the score of bookkeeping that knowledge must have to come before it

FINDING = 0.8  # What the score of a finding of a goal counts beside what people and files say

LONG = 300  # Characters of a query whose words may ask for the past: a longer one is a task, not a question

SLACK = 0.001
"""How far off a cosine may be that is computed with others at once: in that order of sums it differs."""

VectorsOf = Callable[[Sequence[str]], NDArray[np.float32]]
"""The unit vectors of nodes, a row each; of zeros where there is none."""


def arrange(hits: Sequence[Hit], query: MemoryQuery, vectors_of: VectorsOf) -> list[Hit]:
    """``hits``, which come best first, in the order in which they are told; at most ``query.limit``.

    - Of those that say the same about what is asked the newest is first, in the place and with the score of
      the best of them (``why`` has the difference as ``newest``). They say the same if both are of ASSERTING
      kinds or of one kind, their cosine is SAME, and the newer one has the phrases of the question that the
      older one has: that keeps staging and production apart. The linker's open question whether the newer
      one takes the place of the older puts it first too.
    - Bookkeeping has one place of EVERY three, behind knowledge; unless the question is about it, or asks for
      kinds. Its score is lowered to its place (``why``: ``bookkeeping``).
    """
    ordered = [*hits] if wants_history(query) else _newest_first(hits, query.text, vectors_of)
    if not query.kinds and not asks_about_work(query.text):
        ordered = _knowledge_first(ordered)
    return ordered[: query.limit]


def wants_history(query: MemoryQuery) -> bool:
    """Whether a query admits what no longer holds: by ``history``, ``at`` or its words (``asks_past``)."""
    return query.history or bool(query.at) or (len(query.text) <= LONG and asks_past(query.text))


def is_bookkeeping(node: Node) -> bool:
    """Whether the office noted it of itself: an agent, task, turn or episode, a goal's event or lesson."""
    of_goal = node.kind in ("event", "pattern") and node.source.channel in NOTING
    return node.kind in BOOKKEEPING or of_goal


def _newest_first(hits: Sequence[Hit], text: str, vectors_of: VectorsOf) -> list[Hit]:
    if len(hits) < 2:
        return [*hits]
    told, ordered = _Told(hits, text, vectors_of), []
    left = [*range(len(hits))]
    while left:
        leader = left[0]
        newer = told.find_newer(leader, left[1:])
        first = max(newer, key=lambda other: told.created[other], default=leader)
        left.remove(first)
        ordered.append(_scored(hits[first], hits[leader].score, "newest"))
    return ordered


class _Told:
    """What of hits decides which of them replaces which; what they say is looked at if the rest fits."""

    def __init__(self, hits: Sequence[Hit], text: str, vectors_of: VectorsOf) -> None:
        nodes = [hit.node for hit in hits]
        self.created = [parse_time(node.created_at) if node.created_at else 0.0 for node in nodes]
        self._nodes, self._text = nodes, text
        self._terms = find_terms(text).keys()
        self._said: dict[int, tuple[frozenset[str], frozenset[str]]] = {}
        self._questioned = [hit.questioned_by for hit in hits]
        self._vectors = vectors_of([node.id for node in nodes])
        cosines = self._vectors @ self._vectors.T
        self._cosines = cosines.tolist()
        self._may = (
            self._compare(np.array([hit.score for hit in hits])) & (cosines >= SAME - SLACK)
        ).tolist()

    def _compare(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """For each two whether the second is later, and of a score and a kind that may replace the first."""
        created = np.array(self.created)
        kinds = {kind: code for code, kind in enumerate(dict.fromkeys(node.kind for node in self._nodes))}
        codes = np.array([kinds[node.kind] for node in self._nodes], np.intp)
        replaces = np.array([[_may_replace(kind, other) for other in kinds] for kind in kinds], np.bool_)
        knows = ~np.array([is_bookkeeping(node) for node in self._nodes], np.bool_)
        return (
            (created > created[:, None])
            & ~(scores < LEAST * scores[:, None])
            & replaces[codes, codes[:, None]]
            & (knows & knows[:, None])
        )

    def find_newer(self, older: int, others: Sequence[int]) -> list[int]:
        """Those of others that say the same as one, later."""
        may, asked = self._may[older], self._questioned[older]
        return [
            other
            for other in others
            if (may[other] and self._says_the_same(other, older)) or self._nodes[other].id == asked
        ]

    def _says_the_same(self, newer: int, older: int) -> bool:
        cosine = self._cosines[newer][older]
        if cosine < SAME + SLACK and float(self._vectors[newer] @ self._vectors[older]) < SAME:
            return False
        (phrases, words), (mine, my_words) = self._cover(older), self._cover(newer)
        return phrases <= mine if phrases else words <= my_words

    def _cover(self, place: int) -> tuple[frozenset[str], frozenset[str]]:
        """The phrases and the terms of the question that a hit has."""
        if place not in self._said:
            node = self._nodes[place]
            said = f"{node.title} {node.body[:2_000]}"
            terms = frozenset(self._terms & find_stems(said))
            self._said[place] = find_phrases(self._text, said), terms
        return self._said[place]


def _may_replace(kind: str, other: str) -> bool:
    if kind in ("event", *BOOKKEEPING):
        return False
    return kind == other or (kind in ASSERTING and other in ASSERTING)


def _knowledge_first(hits: Sequence[Hit]) -> list[Hit]:
    known = [_weighed(hit) for hit in hits if not is_bookkeeping(hit.node)]
    known.sort(key=lambda hit: -hit.score)
    notes = [hit for hit in hits if is_bookkeeping(hit.node)]
    ordered: list[Hit] = []
    room = 0
    while known or notes:
        room += not (len(ordered) + 1) % EVERY
        if notes and (not known or known[0].score < FITS * notes[0].score):
            ordered.append(notes.pop(0))
        elif notes and room and notes[0].score > known[0].score:
            ordered.append(notes.pop(0))
            room -= 1
        else:
            ordered.append(known.pop(0))
    return _falling(ordered)


def _weighed(hit: Hit) -> Hit:
    """What people and files say as it is; the findings of a goal for less."""
    if hit.node.source.channel not in NOTING:
        return hit
    return _scored(hit, round(FINDING * hit.score, 4), "finding")


def _falling(hits: Sequence[Hit]) -> list[Hit]:
    """The hits with scores that never rise."""
    least, told = 1.0, []
    for hit in hits:
        least = min(least, hit.score)
        told.append(_scored(hit, least, "bookkeeping"))
    return told


def _scored(hit: Hit, score: float, part: str) -> Hit:
    if hit.score == score:
        return hit
    why = {**hit.why, part: round(hit.why.get(part, 0.0) + score - hit.score, 4)}
    return amended(hit, score=score, why=why)


def find_questioned(graph: Graph, ids: Iterable[str], moment: float) -> dict[str, str]:
    """The older sides among live nodes, each with the newer one that may take its place."""
    places = graph.find_places(ids)
    if not places:
        return {}
    steps = graph.steps([*places.values()], "in", (Relation.CONTRADICTS,), 0.0, moment)
    is_open = graph.find_made_by(steps.rows, UNDECIDED)
    origins, newer = steps.origins[is_open].tolist(), graph.names(steps.targets[is_open].tolist())
    known = [*places]
    return {known[origin]: other for origin, other in zip(origins, newer, strict=True)}
