"""Papers and news that were reported: records that prevent a second report, and their nodes in memory."""

import asyncio
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from services.frontier.brief import item_url
from shared import subjects
from shared.bus import Bus, Entry
from shared.bus.entry import seal
from shared.bus.records import read_record
from shared.contracts import DiscoveryResult, Node, Source, Task
from shared.errors import BusError, BusUnavailable, Conflict
from shared.memory import Memory, WriteRefused
from shared.skills.news import plain_link
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
        return [self._entry(key, item, task) for key, item in keys.items() if not reporters[key]]

    async def _reporters(self, keys: Iterable[str]) -> Mapping[str, str]:
        gate = asyncio.Semaphore(MAX_CONCURRENT)

        async def look_up(key: str) -> tuple[str, str]:
            async with gate:
                record = await read_record(self._bus, self._subject(key), DiscoveryResult)
            return key, record.value.task_id if record else ""

        return dict(await asyncio.gather(*map(look_up, keys)))

    def _entry(self, key: str, item: Mapping[str, Any], task: Task) -> Entry:
        title = str(item.get("title", ""))[:300]
        reported = DiscoveryResult(
            sender=self._agent,
            goal_id=task.goal_id,
            task_id=task.task_id,
            agent=self._agent,
            query=title or key,
            citations=(key, item_url(item)),
            summary=clean(str(item.get("told") or item.get("summary") or item.get("abstract") or ""), 500),
        )
        return seal(self._subject(key), reported, expect=0)

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
            refused = [node for node in nodes if not await _is_accepted(memory, node)]
    except BusUnavailable as error:
        return f"Not in memory yet: {error}"
    except BusError as error:
        return f"Memory did not take what was found: {error}"
    return f"Memory had {len(refused)} of {len(nodes)} items already." if refused else ""


async def _is_accepted(memory: Memory, node: Node) -> bool:
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
        body=f"{clean(said, 1_500)}\n\nSource: {item_url(item)}".strip(),
        tags=("discovery", "paper" if paper else "news"),
        metadata={
            **{name: item[name] for name in kept if name in item},
            "url": item_url(item),
            "topic": clean(topic, 300),
        },
        source=Source(agent=agent, channel="arxiv" if paper else "feed"),
        importance=IMPORTANCE,
    )
