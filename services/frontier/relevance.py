"""The interests of the office, and how relevant papers are to them: by embedding, and by a model."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from shared.agent.context import AgentContext
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
    r"(?i)\b(?:interest(?:ed)? in|interests?:|curious about|keeps? up with|follows?|research(?:es|ing)"
    r"|likes? (?:papers|news|articles|reading) (?:about|on|of)"
    r"|wants? (?:to )?(?:know|read|hear|learn|see)\b[^.]{0,40}?\b(?:about|on|of))\s+(?P<topic>.+)"
)
"""How a preference says that it is an interest: "Ann is interested in graph memory"."""
MAX_NODES = 1_000  # How many nodes are read: one page of memory
MAX_WORDS = 6  # Words of a topic: arXiv is asked for papers that hold all of them


async def remembered_interests(memory: Memory, most: int) -> tuple[str, ...]:
    """The ``most`` important topics of interest in memory, the most important first.

    Raises BusError if memory does not answer.
    """
    page = await memory.nodes(ListQuery(kinds=KINDS, limit=MAX_NODES))
    return choose_interests(page.nodes, most)


def choose_interests(nodes: Iterable[Node], most: int) -> tuple[str, ...]:
    """The topics that ``nodes`` state, each once, the most important first."""
    topics: dict[str, str] = {}
    for node in sorted(nodes, key=lambda node: (-node.importance, node.id)):
        if not node.valid_to and (topic := parse_topic(node)):
            topics.setdefault(topic.casefold(), topic)
    return tuple(topics.values())[:most]


def parse_topic(node: Node) -> str:
    """The topic a node states, in a few words; empty if it states none."""
    stated = STATED.search(node.title)
    is_tagged = bool(TAGS & {tag.casefold() for tag in node.tags})
    if not is_tagged and (stated is None or node.kind != "preference"):
        return ""
    words = stated["topic"] if stated else node.title
    return shorten_topic(re.split(r"[.;:!?(\n]|, (?:and|but|not)\b", words, maxsplit=1)[0])


def shorten_topic(words: str) -> str:
    """The beginning of ``words`` with at most MAX_WORDS that are no stop words; empty if there are none."""
    taken, counted = [], 0
    for phrase, word in TERM.findall(words):
        counted += (phrase or word).casefold() not in EMPTY_WORDS
        if counted > MAX_WORDS:
            break
        taken.append(phrase or word)
    return " ".join(taken) if counted else ""


def merge_interests(profile: Sequence[str], remembered: Sequence[str]) -> tuple[str, ...]:
    """The topics of the profile, then those of memory that it does not name."""
    topics = {topic.casefold(): topic for topic in (*reversed(remembered), *reversed(profile))}
    return tuple(reversed(topics.values()))


UNRELATED, SAME = 0.5, 0.85
"""Cosines that count as 0 and as 10. With the model that comes with Mailroom, interests and papers of other
fields had cosines of .43 to .55, a paper and the very topic it is about .80 to .86."""
MAX_ABSTRACT = 1_500  # Characters of an abstract that are compared or shown to a model


class Relevance(msgspec.Struct, frozen=True, kw_only=True):
    """A paper's relevance, 0..10, and what it was judged by."""

    score: float
    by: Literal["embedding", "model"]
    interest: str = ""
    reason: str = ""

    @property
    def sentence(self) -> str:
        """The rating as a sentence."""
        near = f", nearest to {self.interest!r}" if self.interest else ""
        why = f": {self.reason}" if self.reason else ""
        return f"{self.score:.1f} of 10 by {self.by}{near}{why}"


class Rating(msgspec.Struct, kw_only=True):
    """A model's rating of one paper."""

    number: int
    relevance: Annotated[float, msgspec.Meta(ge=0, le=10)]
    reason: str


class Ratings(msgspec.Struct, kw_only=True):
    """A model's ratings of papers."""

    ratings: list[Rating]


Paper = dict[str, Any]


class Rater:
    """Rates papers by embedding, and by the model if there is one; ratings are under ``relevance``."""

    def __init__(self, context: AgentContext) -> None:
        self._memory = context.memory
        self._models = context.models

    async def rate(self, papers: Sequence[Paper], interests: Sequence[str]) -> tuple[list[Paper], list[str]]:
        """The papers with their ratings, and a sentence for each way of rating that failed.

        Raises ActionError if there are no interests to measure papers by.
        """
        rated, problems = await self.rate_by_embedding(papers, interests)
        rated, more = await self.rate_by_model(rated, interests)
        return rated, problems + more

    async def rate_by_embedding(
        self, papers: Sequence[Paper], interests: Sequence[str]
    ) -> tuple[list[Paper], list[str]]:
        """As ``rate``, by the cosine to the nearest interest alone."""
        if not papers:
            return [], []
        if not interests:
            raise ActionError(
                "There are no interests to measure papers by",
                "Name some, or put them into the profile's options or into memory with the tag interest",
            )
        texts = [f"{paper['title']}. {summary_of(paper)[:MAX_ABSTRACT]}" for paper in papers]
        try:
            vectors = await self._memory.embed(*interests, *texts)
        except BusError as error:
            return list(papers), [f"Relevance is not rated by embedding: {error}"]
        wanted, ratings = vectors[: len(interests)], []
        for vector in vectors[len(interests) :]:
            cosines = [sum(a * b for a, b in zip(vector, other, strict=True)) for other in wanted]
            best = max(range(len(cosines)), key=cosines.__getitem__)
            score, interest = relevance_of_cosine(cosines[best]), interests[best]
            ratings.append(Relevance(score=score, by="embedding", interest=interest))
        return _with_ratings(papers, ratings), []

    async def rate_by_model(
        self, papers: Sequence[Paper], interests: Sequence[str]
    ) -> tuple[list[Paper], list[str]]:
        """As ``rate``, by the model alone; without one the papers are returned as they are."""
        if not papers or not self._models.model.available:
            return list(papers), []

        def check(ratings: Ratings) -> str | None:
            numbers = sorted(rating.number for rating in ratings.ratings)
            if numbers == list(range(1, len(papers) + 1)):
                return None
            return f"Rate each paper once: their numbers are 1 to {len(papers)}, and you rated {numbers}"

        try:
            answer = await self._models.ask_model_for([_rating_prompt(papers, interests)], Ratings, check)
        except ModelError as error:
            return list(papers), [f"Relevance is not rated by a model: {error}"]
        ratings = [
            Relevance(score=round(each.relevance, 1), by="model", reason=clean(each.reason, 300))
            for each in sorted(answer.ratings, key=lambda each: each.number)
        ]
        return _with_ratings(papers, ratings), []


def summary_of(item: Mapping[str, Any]) -> str:
    """The abstract of a paper, or the summary of news."""
    return str(item.get("abstract") or item.get("summary") or "")


def ratings_of(paper: Mapping[str, Any]) -> list[Relevance]:
    """The ratings of a paper."""
    return msgspec.convert(paper.get("relevance", []), list[Relevance])


def score_of(paper: Mapping[str, Any]) -> float:
    """The mean of a paper's ratings, 0 without any, and what people's judgements of others add or take."""
    ratings = ratings_of(paper)
    mean = sum(rating.score for rating in ratings) / max(1, len(ratings))
    return mean + float(paper.get("liking") or 0.0)


def relevance_of_cosine(cosine: float) -> float:
    """A cosine as a relevance of 0 to 10, one decimal."""
    return round(10 * min(1.0, max(0.0, (cosine - UNRELATED) / (SAME - UNRELATED))), 1)


def _with_ratings(papers: Sequence[Paper], ratings: Sequence[Relevance]) -> list[Paper]:
    return [
        {**paper, "relevance": [*paper.get("relevance", []), msgspec.to_builtins(rating)]}
        for paper, rating in zip(papers, ratings, strict=True)
    ]


def _rating_prompt(papers: Sequence[Paper], interests: Sequence[str]) -> Message:
    listed = [
        f"{number}. {paper['title']}\n{clean(summary_of(paper), MAX_ABSTRACT)}\n"
        for number, paper in enumerate(papers, start=1)
    ]
    asked = (
        "Rate how relevant each of these papers and news is to the interests, from 0 (another field) to 10 "
        f"(exactly that), with a reason in one sentence.\nInterests: {'; '.join(interests)}\n\n"
    )
    return Message(role="user", text=asked + quote("what was found", "\n".join(listed), "web"))
