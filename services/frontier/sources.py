"""Where papers and news come from: arXiv and the feeds, asked no more often than the options say."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from services.frontier.cache import Cache
from services.frontier.options import Options
from shared.errors import ActionError
from shared.settings import Settings
from shared.skills.news import drop_duplicates, read_news
from shared.skills.papers import MOST, build_query, find_papers

CANDIDATES = 5
"""How many times more papers are asked for than are reported: most of the newest were reported before."""
FEED_ITEMS = 100
"""Items that are taken from the feeds, of which those reported before are then left out."""
NEVER = float("inf")


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What sources gave; ``problems`` say which did not answer, ``at`` is when the oldest of it was read."""

    items: list[dict[str, Any]] = []
    problems: list[str] = []
    at: float = NEVER


class Sources:
    """arXiv and the feeds of the settings, with what they answered in the last hours."""

    def __init__(self, settings: Settings, options: Options) -> None:
        self._settings = settings
        self._options = options
        self._cache = Cache(settings.state_dir / "cache" / "frontier", options.cache_hours * 3_600)

    async def papers(self, topic: str, count: int, *, newest: bool = False) -> Found:
        """The ``count`` most relevant (or newest) papers on ``topic``; raises ActionError as find_papers."""
        key = ("papers", self._settings.arxiv_url, build_query(topic), str(count), str(newest))
        kept = await asyncio.to_thread(self._cache.get, *key)
        if kept is None:
            found = await find_papers(
                topic,
                count,
                settings=self._settings,
                newest=newest,
                delay=self._options.arxiv_delay,
                retries=self._options.arxiv_retries,
            )
            kept = await asyncio.to_thread(self._cache.put, found, *key)
        return Found(items=kept.items, at=kept.at)

    async def papers_on(self, topics: Sequence[str]) -> tuple[dict[str, Found], list[str]]:
        """New papers by topic; after the first failure the other topics are named, not tried one by one."""
        count = min(MOST, CANDIDATES * self._options.papers_per_interest)
        found: dict[str, Found] = {}
        for position, topic in enumerate(topics):
            try:
                found[topic] = await self.papers(topic, count, newest=True)
            except ActionError as error:
                return found, [f"{error.cause}. Not looked up: {', '.join(topics[position:])}"]
        return found, []

    async def news(self) -> Found:
        """The newest items of all feeds, without duplicates; a broken one does not stop the others."""
        answers = await asyncio.gather(*map(self._feed, self._settings.feeds))
        items = [item for answer in answers for item in answer.items]
        newest = sorted(items, key=lambda item: str(item["published"]), reverse=True)
        return Found(
            items=drop_duplicates(newest),
            problems=[problem for answer in answers for problem in answer.problems],
            at=min((answer.at for answer in answers), default=NEVER),
        )

    async def _feed(self, url: str) -> Found:
        kept = await asyncio.to_thread(self._cache.get, "feed", url)
        if kept is not None:
            return Found(items=kept.items, at=kept.at)
        settings = self._settings
        news = await read_news(
            [url], FEED_ITEMS, timeout=settings.http_timeout, private_hosts=settings.private_hosts
        )
        if news.problems:
            return Found(items=list(news.items), problems=list(news.problems), at=time.time())
        kept = await asyncio.to_thread(self._cache.put, list(news.items), "feed", url)
        return Found(items=kept.items, at=kept.at)
