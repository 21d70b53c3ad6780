"""What was reported before, as records of the agent's own, so that nothing is reported twice."""

import asyncio
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.contracts import DiscoveryResult, Task
from shared.errors import Conflict
from shared.skills.news import plain_link

VERSION = re.compile(r"v\d+$")
PAPER = re.compile(
    r"https?://(?:www\.|export\.)?arxiv\.org/(?:abs|pdf|html)/(?P<id>\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7})(?:v\d+)?(?:\.pdf)?/?(?:[?#].*)?"
)
AT_ONCE = 16
"""Records that are looked up side by side."""


class Ledger:
    """The items one agent reported, each under a record that names the task."""

    def __init__(self, bus: Bus, agent: str) -> None:
        self._bus = bus
        self._agent = agent

    async def fresh(self, items: Sequence[dict[str, Any]], task: Task) -> list[dict[str, Any]]:
        """The items, each once, that no other task reported.

        An earlier attempt at the same task does not count: it may have ended before anybody saw its report.
        """
        keys = {item_key(item): item for item in items}
        reporters = await self._reporters(keys)
        return [item for key, item in keys.items() if reporters[key] in ("", task.task_id)]

    async def marks(
        self, items: Sequence[dict[str, Any]], task: Task, *, exclusive: bool = True
    ) -> list[Entry]:
        """What to store so that no other task reports ``items``; nothing for those that are marked.

        Raises Conflict where another task reported one of them meanwhile, unless it is not ``exclusive``:
        the task is then tried again, and leaves that one out.
        """
        keys = {item_key(item): item for item in items}
        reporters = await self._reporters(keys)
        if exclusive and any(reporter not in ("", task.task_id) for reporter in reporters.values()):
            raise Conflict("What it found was reported by another task meanwhile")
        return [self._mark(key, item, task) for key, item in keys.items() if not reporters[key]]

    async def _reporters(self, keys: Iterable[str]) -> Mapping[str, str]:
        gate = asyncio.Semaphore(AT_ONCE)

        async def look_up(key: str) -> tuple[str, str]:
            async with gate:
                stored = await self._bus.last(subjects.OFFICE, self._subject(key))
            return key, DiscoveryResult.from_json(stored.data).task_id if stored else ""

        return dict(await asyncio.gather(*map(look_up, keys)))

    def _mark(self, key: str, item: Mapping[str, Any], task: Task) -> Entry:
        title = str(item.get("title", ""))[:300]
        reported = DiscoveryResult(
            sender=self._agent,
            goal_id=task.goal_id,
            task_id=task.task_id,
            agent=self._agent,
            query=title or key,
            citations=(key,),
        )
        return seal(self._subject(key), reported, expect=0)

    def _subject(self, key: str) -> str:
        digest = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()
        return subjects.record(self._agent, "reported", digest[:32])


def item_key(item: Mapping[str, Any]) -> str:
    """What tells an item from others: the paper without its version, or the address of the news.

    News that is nothing but a paper of arXiv, as the feeds of its archives have it, is that paper.
    """
    if "arxiv_id" in item:
        return f"arxiv:{VERSION.sub('', str(item['arxiv_id']))}"
    if paper := PAPER.fullmatch(str(item["link"])):
        return f"arxiv:{paper['id']}"
    return f"news:{plain_link(str(item['link']))}"
