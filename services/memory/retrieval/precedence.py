"""The order of hits beside their scores: what holds now first, and knowledge before bookkeeping."""

from collections.abc import Callable, Sequence, Set
from functools import cached_property

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.memory.graph.decay import parse_time
from shared.contracts import Hit, MemoryQuery, Node
from shared.text.cues import asks_about_work, asks_past
from shared.text.subjects import find_phrases
from shared.text.words import find_stems, find_terms

WIDE = 24
"""How many hits are put in order at least, so that those behind the asked number can come forward."""

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

NOTING = frozenset({"goal", "cognition"})
"""Channels of what the office notes of itself."""

EVERY = 3
"""Bookkeeping has one of so many places, if there is knowledge for the others."""

FITS = 0.25
"""The share of the score of bookkeeping that knowledge must have to come before it."""

FINDING = 0.8
"""What the score of a finding of a goal counts beside what people and files say."""

LONG = 300
"""Characters of a query whose words may ask for the past: a longer one is a task, not a question."""

Vector = NDArray[np.float32]


def arrange(hits: Sequence[Hit], query: MemoryQuery, vector_of: Callable[[str], Vector | None]) -> list[Hit]:
    """``hits``, which come best first, in the order in which they are told; at most ``query.limit``.

    - Of those that say the same about what is asked the newest is first, in the place and with the score of
      the best of them (``why`` has the difference as ``newest``). They say the same if both are of ASSERTING
      kinds or of one kind, their cosine is SAME, and the newer one has the phrases of the question that the
      older one has: that keeps staging and production apart. The linker's open question whether the newer
      one takes the place of the older puts it first too.
    - Bookkeeping has one place of EVERY three, behind knowledge; unless the question is about it, or asks for
      kinds. Its score is lowered to its place (``why``: ``bookkeeping``).
    """
    ordered = [*hits] if wants_history(query) else _newest_first(hits, query.text, vector_of)
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


def _newest_first(hits: Sequence[Hit], text: str, vector_of: Callable[[str], Vector | None]) -> list[Hit]:
    terms = find_terms(text).keys()
    left = [_Told(hit, text, terms, vector_of) for hit in hits]
    ordered: list[Hit] = []
    while left:
        leader = left[0]
        newer = [other for other in left[1:] if other.replaces(leader)]
        first = max(newer, key=lambda other: other.created, default=leader)
        left.remove(first)
        ordered.append(_scored(first.hit, leader.hit.score, "newest"))
    return ordered


class _Told:
    """A hit and what deciding about it takes; what it says of a question is found when it is first needed.

    ``terms`` are those of the question ``text``.
    """

    def __init__(
        self, hit: Hit, text: str, terms: Set[str], vector_of: Callable[[str], Vector | None]
    ) -> None:
        self.hit = hit
        self.created = parse_time(hit.node.created_at) if hit.node.created_at else 0.0
        self._text, self._terms, self._vector_of = text, terms, vector_of

    def replaces(self, older: "_Told") -> bool:
        """Whether it says the same as ``older``, later."""
        mine, its = self.hit.node, older.hit.node
        if older.hit.questioned_by == mine.id:
            return True
        if self.created <= older.created or self.hit.score < LEAST * older.hit.score:
            return False
        if not _may_replace(mine.kind, its.kind) or self._is_bookkeeping or older._is_bookkeeping:
            return False
        if not (older._phrases <= self._phrases if older._phrases else older._words <= self._words):
            return False
        one, other = self._vector, older._vector
        return one is not None and other is not None and float(one @ other) >= SAME

    @cached_property
    def _is_bookkeeping(self) -> bool:
        return is_bookkeeping(self.hit.node)

    @cached_property
    def _phrases(self) -> frozenset[str]:
        """The phrases of the question that it has."""
        return find_phrases(self._text, self._said)

    @cached_property
    def _words(self) -> frozenset[str]:
        """The terms of the question that it has."""
        return frozenset(self._terms & find_stems(self._said))

    @cached_property
    def _vector(self) -> Vector | None:
        return self._vector_of(self.hit.node.id)

    @property
    def _said(self) -> str:
        return f"{self.hit.node.title} {self.hit.node.body[:2_000]}"


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
    return msgspec.structs.replace(hit, score=score, why=why)
