"""Deep search: the best hits are compared with the question word by word, with what was said around them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.memory.retrieval.ranking import lift_siblings
from services.memory.retrieval.reading_models import Aligner
from services.memory.retrieval.sessions import NONE
from shared.contracts import Hit, MemoryQuery, Node
from shared.contracts.base import amended
from shared.errors import StartError
from shared.log import logger

if TYPE_CHECKING:
    from services.memory.retrieval.vectors import Numbers, Vectors
    from services.memory.retrieval.view import View

CANDIDATES = 70
"""How many hits are compared: with those around them some 160 texts of a conversation, .3 s if none was
compared before. With 100 or all of a conversation as much was found."""

BEFORE, AFTER = (0.95, 0.87), (0.93, 0.87)
"""What a cosine counts with the two texts before one in its session, the nearest first, and with those after
it: an answer follows its question. Without these texts 10 % less was found in FriendsQA; with .93 before too
.3 % less there and in QMSum, .6 % more in REALTALK."""

WHOLE = 0.22
"""What each of the two tokens that stand for the whole question counts, beside 1 for all words. With .15 .2
to .4 % less was found in all sets but QMSum."""

EVEN = 0.4
"""What all tokens count alike, beside 1 for what their words do: "when" and "where" say what is asked.
With .3 to 1 as much was found."""

SHARES = {"vector": 0.3, "keyword": 0.3, "date": 0.9, "name": 0.6, "graph": 0.3}
"""What the parts of the fast search count beside the comparison, which knows words and meaning already, but
neither dates nor who spoke. With .42 for all parts, without EVEN and without what the best of a session
lifts, recall in the half of LoCoMo that constants are chosen on (786 questions), REALTALK (705), FriendsQA
(500) and QMSum (102) was 84.3, 62.2, 66.3 and 51.5 %; with all of these 86.1, 63.5, 67.1 and 50.7, and
86.5, 63.9, 67.1 and 50.7 since a name counts more where two speak."""

COMPARED = 0.5  # The share of the comparison

FLOOR = 0.5  # The mean cosine below which a text has nothing of a question

UNREAD = "unread"
"""The part of a score, always 0, that says that the model is missing: the order is the fast search's."""

log = logger(__name__)


class Passage(NamedTuple):
    """The text of a hit, and those before and after it in its session, the nearest first."""

    own: str
    before: list[str]
    after: list[str]

    def weigh(self) -> list[tuple[str, float]]:
        """Each text, and what a cosine with it counts."""
        before, after = zip(self.before, BEFORE, strict=False), zip(self.after, AFTER, strict=False)
        return [(self.own, 1.0), *before, *after]


class DeepSearch:
    """Searches whose best hits are compared with the question by ``aligner``."""

    def __init__(self, aligner: Aligner) -> None:
        self._aligner = aligner

    def search(self, view: "View", query: MemoryQuery, vector: "Vectors", moment: float) -> list[Hit]:
        """The best nodes, best first; candidates are the first CANDIDATES of the fast search.

        A hit's nearness is the mean over the words of the question, weighed as in the fast search and by
        EVEN, of the best cosine that a token of the hit has with the word, or a token of the two texts before
        and after it in its session, times BEFORE and AFTER. Its score is the sum of the parts of the fast
        search, times SHARES, of COMPARED x the nearness above FLOOR (``why``: ``compared``), and of what it
        gains by the best of its session (``session``: ``lift_siblings``). All is done however long it takes.
        Without the model the hits are those of the fast search, with UNREAD in ``why``.
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
        nodes = [hit.node for hit in hits[:CANDIDATES]]
        beside = view.session_neighbours([node.id for node in nodes])
        passages = [make_passage(node, *around) for node, around in zip(nodes, beside, strict=True)]
        parts = [_scale(hit.why) for hit in hits]
        for part, near in zip(parts, self._compare(view, question, passages), strict=False):
            part["compared"] = COMPARED * max(0.0, near - FLOOR) / (1 - FLOOR)
        scores = np.array([sum(part.values()) for part in parts], np.float32)
        lifts = lift_siblings(scores, _number_sessions(hits)).tolist()
        scored = [
            _score(hit, {**part, "session": lift}) for hit, part, lift in zip(hits, parts, lifts, strict=True)
        ]
        return sorted(scored, key=lambda hit: -hit.score)

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
    """What each token of a question counts, 1 in all: what its word does, shared by the word's tokens, for
    the first two, which stand for all of it, WHOLE of that sum, and EVEN shared by all.
    """
    weights = view.weigh_words(set(words))
    found = np.array([weights[word] / words.count(word) for word in words], np.float32)
    if not found.any():
        return np.full(len(words), 1 / len(words), np.float32)
    found[:2] = WHOLE * found.sum()
    shares: Numbers = (found / found.sum() + np.float32(EVEN / len(words))) / np.float32(1 + EVEN)
    return shares


def _scale(why: Mapping[str, float]) -> dict[str, float]:
    """What the parts of the fast search count in a deep one."""
    return {name: SHARES[name] * part for name, part in why.items() if name in SHARES}


def _number_sessions(hits: Sequence[Hit]) -> NDArray[np.intp]:
    numbers = {"": NONE}
    return np.array([numbers.setdefault(hit.node.source.session, len(numbers)) for hit in hits])


def _score(hit: Hit, parts: Mapping[str, float]) -> Hit:
    why = {name: round(part, 4) for name, part in parts.items() if part}
    return amended(hit, score=min(1.0, round(sum(parts.values()), 4)), why=why)


def _text_of(node: Node) -> str:
    """A node's title and body; the body alone if it begins with the title."""
    return node.body if node.body.startswith(node.title) else f"{node.title}\n{node.body}".strip()
