"""Papers and news that were reported: records that prevent a second report, and their nodes in memory."""

import asyncio
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from services.frontier.brief import address_of
from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.contracts import DiscoveryResult, Node, Source, Task
from shared.errors import BusError, BusUnavailable, Conflict
from shared.memory import Memory, WriteRefused
from shared.skills.news import plain_link
from shared.web.quoting import clean

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


IMPORTANCE = 0.4
"""What was found, and nobody has looked at yet: above what briefings leave out, below what people say."""


async def remember(memory: Memory, agent: str, items: Sequence[Mapping[str, Any]], topic: str) -> str:
    """Remember ``items``; returns "" or a sentence that says what memory did not take.

    An item found again is the same node. What the write gate refuses, since memory has it, is left to it.
    """
    if not items:
        return ""
    nodes = [make_node(item, agent, topic) for item in items]
    try:
        try:
            await memory.add(*nodes)
            return ""
        except WriteRefused:
            refused = [node for node in nodes if not await _is_taken(memory, node)]
    except BusUnavailable as error:
        return f"Not in memory yet: {error}"
    except BusError as error:
        return f"Memory did not take what was found: {error}"
    return f"Memory had {len(refused)} of {len(nodes)} items already." if refused else ""


async def _is_taken(memory: Memory, node: Node) -> bool:
    try:
        await memory.add(node)
    except WriteRefused:
        return False
    return True


def make_node(item: Mapping[str, Any], agent: str, topic: str) -> Node:
    """The node of a paper or an item of news; its id follows from the item."""
    key = item_key(item)
    paper = "arxiv_id" in item
    kept = ("arxiv_id", "authors", "published", "categories") if paper else ("published", "source")
    said = str(item.get("abstract") or item.get("summary") or "")
    return Node(
        id=f"discovery-{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:32]}",
        kind="observation",
        title=clean(f"{'Paper' if paper else 'News'}: {item['title']}", 250),
        body=f"{clean(said, 1_500)}\n\nSource: {address_of(item)}".strip(),
        tags=("discovery", "paper" if paper else "news"),
        metadata={
            **{name: item[name] for name in kept if name in item},
            "url": address_of(item),
            "topic": clean(topic, 300),
        },
        source=Source(agent=agent, channel="arxiv" if paper else "feed"),
        importance=IMPORTANCE,
    )
