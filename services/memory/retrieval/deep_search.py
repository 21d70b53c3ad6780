"""Deep search: the best hits are compared with the question word by word, with what was said around them, and
the best of these are read by a cross-encoder.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from services.memory.retrieval.aligner import Aligner
from services.memory.retrieval.reranker import Reranker
from shared.contracts import Hit, MemoryQuery, Node
from shared.errors import StartError
from shared.log import logger

if TYPE_CHECKING:
    from services.memory.retrieval.vectors import Numbers, Vectors
    from services.memory.retrieval.view import View

CANDIDATES = 70
"""How many hits are compared: with those around them some 160 texts of a conversation, .3 s if none was
compared before. Figures here are recall in FriendsQA (400 questions), QMSum (35) and the half of LoCoMo that
constants are chosen on (300): 64.8, 42.4 and 85.2 %, where the fast search had 60.2, 40.2 and 82.9. With 100
hits it was 65.0, 42.4 and 85.3."""

FADES = (0.93, 0.87)
"""What a cosine with the next texts of the session counts, and with those after them. Without these texts
10 % less was found in FriendsQA; with .95 and .9 or .9 and .81 as much, within .5 %."""

WHOLE = 0.15
"""What each of the two tokens that stand for the whole question counts, beside 1 for all words."""

READ = 20
"""How many of those that come nearest are read by the cross-encoder: .1 s."""

AROUND = 100
"""Characters that are read along of the text before and of the one after."""

FAST, COMPARED, READING = 0.42, 0.5, 0.08
"""The shares of the score: of the fast search, the comparison and the reading. Without reading 62.2 % was
found in FriendsQA and 85.6 in the half of LoCoMo (200 questions each), with it 62.8 and 87.8; with twice its
share 62.2 and 88.2."""

SOFTNESS = 4.0
"""By what the logits of the cross-encoder (-11 to 10) are divided before they are squeezed into 0..1."""

FLOOR = 0.5
"""The mean cosine below which a text has nothing of a question."""

UNREAD = "unread"
"""The part of a score, always 0, that says that a model is missing and the order that of the fast search."""

log = logger(__name__)


class Passage(NamedTuple):
    """The text of a hit, and those before and after it in its session, the nearest first."""

    own: str
    before: list[str]
    after: list[str]

    def weigh(self) -> list[tuple[str, float]]:
        """Each text, and what a cosine with it counts."""
        around = [*zip(self.before, FADES, strict=False), *zip(self.after, FADES, strict=False)]
        return [(self.own, 1.0), *around]

    def join(self) -> str:
        """The text between the end of the one before and the beginning of the one after it."""
        parts = [text[-AROUND:] for text in self.before[:1]]
        return "\n".join([*parts, self.own, *(text[:AROUND] for text in self.after[:1])])


class DeepSearch:
    """Searches whose best hits are compared with the question by ``aligner`` and read by ``reranker``."""

    def __init__(self, aligner: Aligner, reranker: Reranker) -> None:
        self._aligner, self._reranker = aligner, reranker

    def search(self, view: "View", query: MemoryQuery, vector: "Vectors", moment: float) -> list[Hit]:
        """The best nodes, best first; candidates are the first CANDIDATES of the fast search.

        A hit's nearness is the mean over the words of the question, weighed as in the fast search, of the
        best cosine that a token of the hit has with the word, or a token of the two texts before and after it
        in its session, times FADES. Its score is FAST x that of the fast search + COMPARED x the nearness
        above FLOOR (``why``: ``compared``); the best READ of these get + READING x what the cross-encoder
        makes of their passage, 0 to 1 (``why``: ``reading``). All is done however long it takes. Without the
        models the hits are those of the fast search, with UNREAD in ``why``.
        """
        wide = msgspec.structs.replace(query, limit=max(query.limit, CANDIDATES))
        hits = view.search(wide, vector, moment)
        try:
            hits = self._reorder(view, query.text, hits)
        except StartError as error:
            log.warning("not_read", reason=str(error))
            hits = [msgspec.structs.replace(hit, why={**hit.why, UNREAD: 0.0}) for hit in hits]
        return hits[: query.limit]

    def _reorder(self, view: "View", question: str, hits: Sequence[Hit]) -> list[Hit]:
        passages = {
            hit.node.id: make_passage(hit.node, *view.session_neighbours(hit.node.id))
            for hit in hits[:CANDIDATES]
        }
        near = self._compare(view, question, [*passages.values()])
        shares = [COMPARED * max(0.0, one - FLOOR) / (1 - FLOOR) for one in near]
        scaled = [_add(_scale(hit), "compared", share) for hit, share in zip(hits, shares, strict=False)]
        scaled = [*_sort(scaled), *map(_scale, hits[CANDIDATES:])]
        logits = self._reranker.read(question, [passages[hit.node.id].join() for hit in scaled[:READ]])
        read = [
            _add(hit, "reading", READING / (1 + math.exp(-logit / SOFTNESS)))
            for hit, logit in zip(scaled, logits, strict=False)
        ]
        return [*_sort(read), *scaled[READ:]]

    def _compare(self, view: "View", question: str, passages: Sequence[Passage]) -> list[float]:
        weighed = [one.weigh() for one in passages]
        texts = {text: row for row, text in enumerate(dict.fromkeys(t for one in weighed for t, _ in one))}
        words, cosines = self._aligner.compare_tokens(question, [*texts])
        weights = _weigh_tokens(view, words)
        return [
            float(_fade(cosines[[texts[text] for text, _ in one]], [fade for _, fade in one]) @ weights)
            for one in weighed
        ]


def make_passage(node: Node, before: Sequence[Node], after: Sequence[Node]) -> Passage:
    """A node with those before and after it, both in the order of their session."""
    return Passage(_text_of(node), [*map(_text_of, before[::-1])], [*map(_text_of, after)])


def _fade(cosines: "Numbers", fades: Sequence[float]) -> "Numbers":
    best: Numbers = (cosines * np.array(fades, np.float32)[:, None]).max(axis=0)
    return best


def _weigh_tokens(view: "View", words: Sequence[str]) -> "Numbers":
    """What each token of a question counts, 1 in all: what its word does, shared by the word's tokens, and
    for the first two, which stand for all of it, WHOLE of that sum.
    """
    weights = view.weigh_words(set(words))
    found = np.array([weights[word] / words.count(word) for word in words], np.float32)
    if not found.any():
        return np.full(len(words), 1 / len(words), np.float32)
    found[:2] = WHOLE * found.sum()
    shares: Numbers = found / found.sum()
    return shares


def _scale(hit: Hit) -> Hit:
    """The hit with what its parts count in a deep search."""
    why = {name: round(FAST * part, 4) for name, part in hit.why.items()}
    return msgspec.structs.replace(hit, score=round(FAST * hit.score, 4), why=why)


def _add(hit: Hit, name: str, part: float) -> Hit:
    score = min(1.0, round(hit.score + part, 4))
    return msgspec.structs.replace(hit, score=score, why={**hit.why, name: round(part, 4)})


def _sort(hits: Sequence[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: -hit.score)


def _text_of(node: Node) -> str:
    """A node's title and body; the body alone if it begins with the title."""
    return node.body if node.body.startswith(node.title) else f"{node.title}\n{node.body}".strip()
