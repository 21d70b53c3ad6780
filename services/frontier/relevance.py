"""The interests of the office, and how relevant papers are to them: by embedding, and by a model."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from shared.contracts import ListQuery, Node
from shared.errors import ActionError, BusError, ModelError
from shared.llm.protocol import Message
from shared.memory import Memory
from shared.skills.papers import EMPTY_WORDS, TERM
from shared.web.quoting import clean, quote

KINDS = ("preference", "goal", "decision")
TAGS = frozenset(("interest", "interests", "research"))
"""A preference, goal or decision with one of these is an interest, whatever its words."""
STATED = re.compile(
    r"\b(?:interest(?:ed)? in|interests?:|curious about|keeps? up with|follows?|research(?:es|ing)"
    r"|likes? (?:papers|news|articles|reading) (?:about|on|of)"
    r"|wants? (?:to )?(?:know|read|hear|learn|see)\b[^.]{0,40}?\b(?:about|on|of))\s+(?P<topic>.+)",
    re.IGNORECASE,
)
"""How a preference says that it is an interest: "Ann is interested in graph memory"."""
LOOKED_AT = 1_000
"""Nodes that are looked at: one page of memory."""
WORDS = 6
"""Words of a topic: arXiv is asked for papers that hold all of them."""


async def remembered_interests(memory: Memory, most: int) -> tuple[str, ...]:
    """The topics of interest among what memory holds, the most important first, ``most`` at most.

    Raises BusError where memory cannot be asked.
    """
    page = await memory.nodes(ListQuery(kinds=KINDS, limit=LOOKED_AT))
    return choose_interests(page.nodes, most)


def choose_interests(nodes: Iterable[Node], most: int) -> tuple[str, ...]:
    """The topics that ``nodes`` state, each once, the most important first."""
    topics: dict[str, str] = {}
    for node in sorted(nodes, key=lambda node: (-node.importance, node.id)):
        if not node.valid_to and (topic := read_topic(node)):
            topics.setdefault(topic.casefold(), topic)
    return tuple(topics.values())[:most]


def read_topic(node: Node) -> str:
    """The topic a node states, in a few words; empty where it states none."""
    stated = STATED.search(node.title)
    if stated is None and not TAGS & {tag.casefold() for tag in node.tags}:
        return ""
    if stated is not None and node.kind != "preference" and not TAGS & {tag.casefold() for tag in node.tags}:
        return ""
    words = stated["topic"] if stated else node.title
    return shorten_topic(re.split(r"[.;:!?(\n]|, (?:and|but|not)\b", words, maxsplit=1)[0])


def shorten_topic(words: str) -> str:
    """``words`` up to WORDS of them that mean something; empty where none does."""
    taken, counted = [], 0
    for phrase, word in TERM.findall(words):
        counted += (phrase or word).casefold() not in EMPTY_WORDS
        if counted > WORDS:
            break
        taken.append(phrase or word)
    return " ".join(taken) if counted else ""


def merge_interests(profile: Sequence[str], remembered: Sequence[str]) -> tuple[str, ...]:
    """Those of the profile, then those of memory that it does not name."""
    return tuple({topic.casefold(): topic for topic in (*reversed(remembered), *reversed(profile))}.values())[
        ::-1
    ]


UNRELATED, SAME = 0.5, 0.85
"""Cosines that count as 0 and as 10. With the model that comes with Mailroom, interests and papers of other
fields had cosines of .43 to .55, a paper and the very topic it is about .80 to .86."""
ABSTRACT = 1_500
"""Characters of an abstract that are compared or shown to a model."""


class Relevance(msgspec.Struct, frozen=True, kw_only=True):
    """A paper's relevance, 0..10, and what it was judged by."""

    score: float
    by: Literal["embedding", "model"]
    interest: str = ""
    reason: str = ""

    @property
    def sentence(self) -> str:
        """It in words, with its label."""
        near = f", nearest to {self.interest!r}" if self.interest else ""
        why = f": {self.reason}" if self.reason else ""
        return f"{self.score:.1f} of 10 by {self.by}{near}{why}"


class Rating(msgspec.Struct, kw_only=True):
    """What a model says of one paper."""

    number: int
    relevance: Annotated[float, msgspec.Meta(ge=0, le=10)]
    reason: str


class Ratings(msgspec.Struct, kw_only=True):
    """What a model says of several."""

    ratings: list[Rating]


Paper = dict[str, Any]
Consider = Callable[
    [Sequence[Message], type[Ratings], Callable[[Ratings], str | None] | None], Awaitable[Ratings]
]


class Rater:
    """Rates papers by embedding, and by a model where there is one; ``has_model`` tells."""

    def __init__(self, memory: Memory, consider: Consider, has_model: Callable[[], bool]) -> None:
        self._memory = memory
        self._consider = consider
        self._has_model = has_model

    async def rate(self, papers: Sequence[Paper], interests: Sequence[str]) -> tuple[list[Paper], list[str]]:
        """The papers with their ratings, labelled, and a sentence for each way of rating that failed.

        Ratings stand under ``relevance``. Raises ActionError where there is nothing to measure papers by.
        """
        rated, problems = await self.rate_by_embedding(papers, interests)
        rated, more = await self.rate_by_model(rated, interests)
        return rated, problems + more

    async def rate_by_embedding(
        self, papers: Sequence[Paper], interests: Sequence[str]
    ) -> tuple[list[Paper], list[str]]:
        """As ``rate``, by the nearness of their meaning alone."""
        if papers and not interests:
            raise ActionError(
                "There are no interests to measure papers by",
                "Name some, or put them into the profile's options or into memory with the tag interest",
            )
        try:
            return _add(papers, await rate_by_embedding(self._memory, papers, interests)), []
        except BusError as error:
            return list(papers), [f"Relevance is not rated by embedding: {error}"]

    async def rate_by_model(
        self, papers: Sequence[Paper], interests: Sequence[str]
    ) -> tuple[list[Paper], list[str]]:
        """As ``rate``, by the model alone; without one the papers stay as they are."""
        if not papers or not self._has_model():
            return list(papers), []
        try:
            return _add(papers, await rate_by_model(self._consider, papers, interests)), []
        except ModelError as error:
            return list(papers), [f"Relevance is not rated by a model: {error}"]


def ratings_of(paper: Mapping[str, Any]) -> list[Relevance]:
    """The ratings a paper has."""
    return msgspec.convert(paper.get("relevance", []), list[Relevance])


def score_of(paper: Mapping[str, Any]) -> float:
    """The mean of a paper's ratings, 0 without any."""
    ratings = ratings_of(paper)
    return sum(rating.score for rating in ratings) / max(1, len(ratings))


def _add(papers: Sequence[Paper], ratings: Sequence[Relevance]) -> list[Paper]:
    return [
        {**paper, "relevance": [*paper.get("relevance", []), msgspec.to_builtins(rating)]}
        for paper, rating in zip(papers, ratings, strict=True)
    ]


async def rate_by_embedding(
    memory: Memory, papers: Sequence[Mapping[str, Any]], interests: Sequence[str]
) -> list[Relevance]:
    """The relevance of each paper to the interest it is nearest to; raises BusError without memory."""
    if not papers:
        return []
    texts = [f"{paper['title']}. {str(paper.get('abstract', ''))[:ABSTRACT]}" for paper in papers]
    vectors = await memory.embed(*interests, *texts)
    wanted, found = vectors[: len(interests)], vectors[len(interests) :]
    return [_nearest(vector, interests, wanted) for vector in found]


def _nearest(
    vector: Sequence[float], interests: Sequence[str], wanted: Sequence[Sequence[float]]
) -> Relevance:
    cosines = [sum(a * b for a, b in zip(vector, other, strict=True)) for other in wanted]
    best = max(range(len(cosines)), key=cosines.__getitem__)
    return Relevance(score=scale(cosines[best]), by="embedding", interest=interests[best])


def scale(cosine: float) -> float:
    """A cosine as a relevance of 0 to 10, one decimal."""
    return round(10 * min(1.0, max(0.0, (cosine - UNRELATED) / (SAME - UNRELATED))), 1)


async def rate_by_model(
    consider: Consider, papers: Sequence[Mapping[str, Any]], interests: Sequence[str]
) -> list[Relevance]:
    """The relevance of each paper as the model judges it; raises ModelError where it does not."""
    if not papers:
        return []
    listed = [
        f"{number}. {paper['title']}\n{clean(str(paper.get('abstract', '')), ABSTRACT)}\n"
        for number, paper in enumerate(papers, start=1)
    ]
    asked = (
        "Rate how relevant each of these papers is to the interests, from 0 (another field) to 10 (exactly "
        f"that), with a reason in one sentence.\nInterests: {'; '.join(interests)}\n\n"
    )
    message = Message(role="user", text=asked + quote("the papers", "\n".join(listed)))
    answer = await consider([message], Ratings, lambda ratings: _missing(ratings, len(papers)))
    rated = {rating.number: rating for rating in answer.ratings}
    return [
        Relevance(
            score=round(rated[number].relevance, 1), by="model", reason=clean(rated[number].reason, 300)
        )
        for number in range(1, len(papers) + 1)
    ]


def _missing(ratings: Ratings, count: int) -> str | None:
    numbers = sorted(rating.number for rating in ratings.ratings)
    if numbers == list(range(1, count + 1)):
        return None
    return f"Rate each paper once: their numbers are 1 to {count}, and you rated {numbers}"
