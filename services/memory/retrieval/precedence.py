"""The order of hits beside their scores: what holds now first, and knowledge before bookkeeping."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from services.memory.graph.decay import parse_time
from services.memory.graph.graph import Graph
from services.memory.linking.rules import UNDECIDED
from shared.contracts import Hit, MemoryQuery, Node, Relation
from shared.contracts.base import amended
from shared.text.prose import asks_about_work, asks_past, find_phrases, find_stems, find_terms

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
