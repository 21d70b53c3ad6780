"""Which papers and news are told: not reported before, rated by interests and by judgements of people."""

import asyncio
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from services.frontier.brief import item_url
from services.frontier.relevance import Rater, relevance_of_cosine, score_of, summary_of
from services.frontier.sources import Options, SourceAnswer, group_stories
from shared import subjects
from shared.agent.context import AgentContext
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import read_record, retry_on_conflict
from shared.clock import parse_timestamp
from shared.contracts import AgentReport, DiscoveryResult, Node, Source, Task
from shared.errors import BusError, BusUnavailable, Conflict
from shared.memory import Memory, WriteRefused
from shared.skills.news import plain_link
from shared.text.prose import find_terms
from shared.web.quoting import clean

VERSION = re.compile(r"v\d+$")
PAPER = re.compile(
    r"https?://(?:www\.|export\.)?arxiv\.org/(?:abs|pdf|html)/(?P<id>\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(?:v\d+)?(?:\.pdf)?/?(?:[?#].*)?"
)
SHORT_ID = 10  # Characters of an item's id: a million items have two of the same with a chance of 1 in 2
MAX_CONCURRENT = 16  # Records that are looked up side by side


class ReportedItems:
    """The items one agent reported, each under a record that names the task."""

    def __init__(self, bus: Bus, agent: str) -> None:
        self._bus = bus
        self._agent = agent

    async def unreported(self, items: Sequence[dict[str, Any]], task: Task) -> list[dict[str, Any]]:
        """The items, each once, that no other task reported.

        An earlier attempt at the same task does not count: it may have ended before anybody saw its report.
        """
        keys = {item_key(item): item for item in items}
        reporters = await self._reporters(keys)
        return [item for key, item in keys.items() if reporters[key] in ("", task.task_id)]

    async def entries(
        self, items: Sequence[dict[str, Any]], task: Task, *, exclusive: bool = True
    ) -> list[Entry]:
        """The records that keep other tasks from reporting ``items``; none for those that have one.

        Raises Conflict if another task reported one of them meanwhile and ``exclusive`` is set: the task is
        then tried again, without that item.
        """
        keys = {item_key(item): item for item in items}
        reporters = await self._reporters(keys)
        if exclusive and any(reporter not in ("", task.task_id) for reporter in reporters.values()):
            raise Conflict("What it found was reported by another task meanwhile")
        entries = []
        for key, item in ((key, item) for key, item in keys.items() if not reporters[key]):
            reported = DiscoveryResult(
                sender=self._agent,
                goal_id=task.goal_id,
                task_id=task.task_id,
                agent=self._agent,
                query=str(item.get("title", ""))[:300] or key,
                citations=(key, item_url(item)),
                summary=clean(str(item.get("told") or summary_of(item)), 500),
            )
            entries.append(seal(self._subject(key), reported, expect=0))
        return entries

    async def _reporters(self, keys: Iterable[str]) -> Mapping[str, str]:
        gate = asyncio.Semaphore(MAX_CONCURRENT)

        async def look_up(key: str) -> tuple[str, str]:
            async with gate:
                record = await read_record(self._bus, self._subject(key), DiscoveryResult)
            return key, record.value.task_id if record else ""

        return dict(await asyncio.gather(*map(look_up, keys)))

    def _subject(self, key: str) -> str:
        return subjects.record(self._agent, "reported", _digest(key))


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:32]


def item_id(item: Mapping[str, Any]) -> str:
    """The id by which people keep or dismiss an item: the beginning of its record's."""
    return _digest(item_key(item))[:SHORT_ID]


def item_key(item: Mapping[str, Any]) -> str:
    """The identity of an item: the paper's id without its version, or the address of the news.

    News that is a paper of arXiv, as in the feeds of its archives, is that paper.
    """
    if "arxiv_id" in item:
        return f"arxiv:{VERSION.sub('', str(item['arxiv_id']))}"
    if paper := PAPER.fullmatch(str(item["link"])):
        return f"arxiv:{paper['id']}"
    return f"news:{plain_link(str(item['link']))}"


IMPORTANCE = 0.4  # Of an item that no person has read: above what briefings leave out, below what people say


async def store_discoveries(
    memory: Memory, agent: str, items: Sequence[Mapping[str, Any]], topic: str
) -> str:
    """Add ``items`` to memory; returns "" or a sentence about what memory did not accept.

    An item found again has the same node id. Items that the write gate refuses are in memory already.
    """
    if not items:
        return ""
    nodes = [make_node(item, agent, topic) for item in items]
    try:
        try:
            await memory.add(*nodes)
            return ""
        except WriteRefused:
            refused = 0
            for node in nodes:
                try:
                    await memory.add(node)
                except WriteRefused:
                    refused += 1
    except BusUnavailable as error:
        return f"Not in memory yet: {error}"
    except BusError as error:
        return f"Memory did not take what was found: {error}"
    return f"Memory had {refused} of {len(nodes)} items already." if refused else ""


def make_node(item: Mapping[str, Any], agent: str, topic: str) -> Node:
    """The node of a paper or an item of news; its id follows from the item."""
    key = item_key(item)
    paper = "arxiv_id" in item
    kept = ("arxiv_id", "authors", "published", "categories") if paper else ("published", "source")
    return Node(
        id=f"discovery-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:32]}",
        kind="observation",
        title=clean(f"{'Paper' if paper else 'News'}: {item['title']}", 250),
        body=f"{clean(summary_of(item), 1_500)}\n\nSource: {item_url(item)}".strip(),
        tags=("discovery", "paper" if paper else "news"),
        metadata={
            **{name: item[name] for name in kept if name in item},
            "url": item_url(item),
            "topic": clean(topic, 300),
        },
        source=Source(agent=agent, channel="arxiv" if paper else "feed"),
        importance=IMPORTANCE,
    )


# --- what people kept, opened and dismissed ---------------------------------------------------------

MAX_JUDGED = 200  # How many judgements are kept: the latest
HALF_LIFE = 30.0  # Days until a judgement counts half
POINTS = {"keep": 4.0, "open": 1.5, "dismiss": -6.0}
"""By how much, of 10, an item is rated higher that is the very thing that was judged today."""

Verdict = Literal["keep", "open", "dismiss"]


def fade(moment: str, now: datetime, half_life: float) -> float:
    """1 at a moment, a half after ``half_life`` days; 0 if that is no moment."""
    try:
        days = (now - parse_timestamp(moment)).total_seconds() / 86_400
    except ValueError:
        return 0.0
    return float(0.5 ** (max(0.0, days) / half_life))


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What a person thought of an item; ``at`` is when."""

    item_id: str
    title: str
    verdict: Verdict
    at: str

    def points(self, now: datetime) -> float:
        """How much it counts now."""
        return POINTS[self.verdict] * fade(self.at, now, HALF_LIFE)


class Feedback:
    """The judgements, in one record of the agent that ``bus`` belongs to."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._subject = subjects.record(bus.name, "judged", "all")

    async def read(self) -> list[Judged]:
        """The judgements, the latest last."""
        return (await self._read())[0]

    async def accept(self, report: AgentReport) -> None:
        """Keep what a person's report says of an item that was told; a later one replaces an earlier one."""
        item_id, verdict = str(report.metadata.get("item", "")), report.metadata.get("verdict")
        if verdict not in POINTS or not item_id.isalnum():
            return
        told = subjects.record(self._bus.name, "reported", item_id)
        record = await read_record(self._bus, told, DiscoveryResult)
        if record is None:
            return
        judged = Judged(
            item_id=item_id, title=clean(record.value.query, 300), verdict=verdict, at=report.created_at
        )

        async def attempt() -> None:
            known, seq = await self._read()
            before = next((each for each in known if each.item_id == item_id), None)
            if before is not None and verdict in (before.verdict, "open"):
                return
            kept = [*(each for each in known if each.item_id != item_id), judged][-MAX_JUDGED:]
            report = AgentReport(
                sender=self._bus.name,
                report_id="judged",
                agent=self._bus.name,
                report_type="judged_items",
                summary=f"{len(kept)} items kept, opened or dismissed",
                metadata={"items": msgspec.to_builtins(kept)},
            )
            await self._bus.commit([seal(self._subject, report, expect=seq)])

        await retry_on_conflict(attempt)

    async def _read(self) -> tuple[list[Judged], int]:
        record = await read_record(self._bus, self._subject, AgentReport)
        if record is None:
            return [], 0
        return msgspec.convert(record.value.metadata.get("items", []), list[Judged]), record.seq


def apply_feedback(
    items: Sequence[dict[str, Any]],
    judged: Sequence[Judged],
    vectors: Mapping[str, Sequence[float]],
    now: datetime | None = None,
) -> list[dict[str, Any]]:
    """The items with ``liking``, the points that they get or lose, and ``like``, the title that was kept.

    ``vectors`` are of titles; those of items and of what was judged are compared, words where one is missing.
    """
    moment = now or datetime.now(UTC)
    weighted = [(each, each.points(moment)) for each in judged]
    liked = []
    for item in items:
        rated = [(points * _likeness(item["title"], each.title, vectors), each) for each, points in weighted]
        best = max(rated, key=lambda each: each[0], default=None)
        gain = max(0.0, best[0]) if best else 0.0
        loss = min((points for points, _ in rated), default=0.0)
        liking = round(gain + min(0.0, loss), 2)
        like = best[1].title if best and gain >= 1 and best[1].verdict == "keep" else ""
        liked.append({**item, "liking": liking, **({"like": like} if like else {})} if liking else item)
    return liked


def _likeness(one: str, other: str, vectors: Mapping[str, Sequence[float]]) -> float:
    if one in vectors and other in vectors:
        cosine = sum(a * b for a, b in zip(vectors[one], vectors[other], strict=True))
        return relevance_of_cosine(cosine) / 10
    words, known = find_terms(one).keys(), find_terms(other).keys()
    return len(words & known) / max(1, len(words | known))


# --- choosing ---------------------------------------------------------------------------------------

MAX_RATED = 120
"""The most items of news that are rated, the newest: embedding one takes some ten milliseconds."""
MAX_COMPARED = 50  # The latest judgements of people that items are compared with
FRESH = 3.0
"""Points, of 10, that news of this moment has over old news; after NEWS_HALF_LIFE days half of them."""
NEWS_HALF_LIFE = 2.0
PRIVATE = ("members",)  # Fields of a story that are not told

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

    async def stories(
        self, items: Sequence[Item], wanted: Sequence[str], most: int, *, again: bool = False
    ) -> list[Item]:
        """The ``most`` interesting stories that are new, or ``again`` of all; the newest if none is rated."""
        fresh = items if again else await self._reported.unreported(items, self._context.task)
        unreported = fresh[:MAX_RATED]
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
    return score_of(item) + FRESH * fade(str(item.get("published") or ""), now, NEWS_HALF_LIFE)


def all_items(papers: Sequence[Item], stories: Sequence[Item]) -> list[Item]:
    """The papers and the news of all stories, which count as reported with them."""
    members = [member for story in stories for member in story.get("members", ())]
    return [*papers, *stories, *members]


def without_private(stories: Sequence[Item]) -> list[Item]:
    """The stories as they are told."""
    return [{name: value for name, value in story.items() if name not in PRIVATE} for story in stories]
