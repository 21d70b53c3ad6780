"""What of all that was found is told: rated by interests and by what people kept and dismissed, by story."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from services.frontier.feedback import Feedback, apply_feedback
from services.frontier.relevance import Rater, score_of
from services.frontier.reported_items import ReportedItems, item_id
from services.frontier.sources import Options, SourceAnswer
from services.frontier.stories import group_stories
from shared.agent.context import AgentContext
from shared.clock import parse_timestamp
from shared.errors import BusError

MAX_RATED = 120
"""The most items of news that are rated, the newest: embedding one takes some ten milliseconds."""
MAX_COMPARED = 50
"""The latest judgements of people that items are compared with."""
FRESH = 3.0
"""Points, of 10, that news of this moment has over old news; after HALF_LIFE days half of them."""
HALF_LIFE = 2.0
PRIVATE = ("members",)
"""Fields of a story that are not told."""

Item = dict[str, Any]


class Selector:
    """Chooses papers and stories that were not reported before."""

    def __init__(self, context: AgentContext, options: Options, reported: ReportedItems) -> None:
        self._context = context
        self._options = options
        self._reported = reported
        self._rater = Rater(context)
        self.feedback = Feedback(context.bus)

    async def papers(
        self, by_topic: Mapping[str, SourceAnswer], wanted: Sequence[str]
    ) -> tuple[dict[str, list[Item]], list[str]]:
        """The most relevant papers of each topic, and a sentence for each way of rating that failed."""
        candidates = {paper["arxiv_id"]: paper for found in by_topic.values() for paper in found.items}
        unreported = await self._reported.unreported(list(candidates.values()), self._context.task)
        rated, problems = await self._rater.rate_by_embedding(unreported, wanted)
        ordered = sorted(await self._with_feedback(rated), key=score_of, reverse=True)
        chosen: dict[str, list[Item]] = {}
        for topic, found in by_topic.items():
            ids = {paper["arxiv_id"] for paper in found.items}
            chosen[topic] = [p for p in ordered if p["arxiv_id"] in ids][: self._options.papers_per_interest]
        return chosen, problems

    async def stories(self, items: Sequence[Item], wanted: Sequence[str], most: int) -> list[Item]:
        """The ``most`` interesting stories that were not reported; the newest, if none can be rated."""
        unreported = (await self._reported.unreported(items, self._context.task))[:MAX_RATED]
        if not wanted or not unreported:
            return group_stories(unreported)[:most]
        rated, problems = await self._rater.rate_by_embedding(unreported, wanted)
        liked = await self._with_feedback(rated)
        now = datetime.now(UTC)
        # what cannot be rated stays in the order of time, but for what people said of its like
        ordered = sorted(liked, key=lambda each: -(score_of(each) if problems else _interest(each, now)))
        return group_stories(ordered)[: max(0, most)]

    async def rate_by_model(
        self, chosen: Mapping[str, Sequence[Item]], stories: Sequence[Item], wanted: Sequence[str]
    ) -> tuple[dict[str, list[Item]], list[Item], list[str]]:
        """The papers by topic and the stories with a model's ratings, asked for once."""
        shown = list({p["arxiv_id"]: p for papers in chosen.values() for p in papers}.values())
        judged, problems = await self._rater.rate_by_model([*shown, *stories], wanted)
        final = {paper["arxiv_id"]: paper for paper in judged[: len(shown)]}
        papers = {topic: [final[p["arxiv_id"]] for p in papers] for topic, papers in chosen.items()}
        return papers, judged[len(shown) :], problems

    async def _with_feedback(self, items: Sequence[Item]) -> list[Item]:
        named = [{**item, "item_id": item_id(item)} for item in items]
        judged = (await self.feedback.read())[-MAX_COMPARED:]
        if not judged or not named:
            return named
        titles = list(dict.fromkeys([*(each["title"] for each in named), *(each.title for each in judged)]))
        try:
            vectors = dict(zip(titles, await self._context.memory.embed(*titles), strict=True))
        except BusError:
            vectors = {}
        return apply_feedback(named, judged, vectors)


def _interest(item: Mapping[str, Any], now: datetime) -> float:
    return score_of(item) + FRESH * _freshness(str(item.get("published") or ""), now)


def _freshness(published: str, now: datetime) -> float:
    try:
        days = (now - parse_timestamp(published)).total_seconds() / 86_400
    except ValueError:
        return 0.0
    return float(0.5 ** (max(0.0, days) / HALF_LIFE))


def all_items(papers: Sequence[Item], stories: Sequence[Item]) -> list[Item]:
    """The papers and the news of all stories, which count as reported with them."""
    members = [member for story in stories for member in story.get("members", ())]
    return [*papers, *stories, *members]


def without_private(stories: Sequence[Item]) -> list[Item]:
    """The stories as they are told."""
    return [{name: value for name, value in story.items() if name not in PRIVATE} for story in stories]
