"""Briefings of the real memory: the real model's meaning, LanceDB's past, the cache that the daemon keeps."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from markdown_it import MarkdownIt

from services.memory.briefing import service
from services.memory.briefing.page import escape
from services.memory.briefing.service import BriefingService
from shared.contracts import Briefing, BriefQuery, Edge, MemoryWrite, Node, Source
from shared.errors import ActionError
from shared.settings import Settings
from tests.support.direct_memory import DirectMemory
from tests.support.teams import AGENTS, fill, read_store


class BriefedMemory:
    """A memory, and the briefings of it."""

    def __init__(self, memory: DirectMemory, settings: Settings) -> None:
        self.memory = memory
        self.engine = memory.engine
        self.briefings = BriefingService(memory.engine, settings)

    async def write(self, *nodes: Node, edges: Iterable[Edge] = (), **fields: object) -> int:
        """Write at the next version, and return that."""
        write = MemoryWrite(sender="user", nodes=nodes, edges=tuple(edges), insist=True, **fields)  # type: ignore[arg-type]
        written = await self.memory.write(write)
        assert written.error == ""
        return self.engine.version

    async def brief(self, agent: str, **fields: Any) -> Briefing:
        return Briefing.from_json(await self.briefings.answer(BriefQuery(agent=agent, **fields)))


@pytest.fixture
async def briefed(tmp_path: Path) -> AsyncIterator[BriefedMemory]:
    settings = Settings(state_dir=tmp_path / "state", briefed_agents=("scout",))
    async with DirectMemory.open(settings) as memory:
        yield BriefedMemory(memory, settings)


def node(node_id: str, kind: str, title: str, body: str = "", agent: str = "nexus", **fields: object) -> Node:
    return Node(id=node_id, kind=kind, title=title, body=body, source=Source(agent=agent), **fields)  # type: ignore[arg-type]


WARREN = (
    node("scout", "agent", "Scout", "Fetches and reads: web pages, search, documents."),
    node("ada", "person", "Ada", "Maintains the parser."),
    node("terse", "preference", "Ada wants answers of three sentences at most"),
    node("retry", "pattern", "Retry a failed download once, then report it"),
    node("flaky", "observation", "The mirror failed twice on Monday and worked on Tuesday"),
    node("ship", "goal", "Release version 2 of the parser in November"),
    node("cache", "decision", "Cache fetched web pages for a day", "Sites asked us to.", agent="scout"),
    node("polite", "fact", "The crawler waits a second between requests to one site"),
    node("lunch", "fact", "The canteen serves soup on Fridays"),
    node("port-a", "fact", "The parser service listens on port 8080"),
    node("port-b", "fact", "The parser service does not listen on port 8080"),
    node("deploy", "event", "The parser was deployed to production", agent="scout"),
)
LINKS = (
    Edge(from_id="terse", to_id="scout", relation="applies_to"),  # type: ignore[arg-type]
    Edge(from_id="scout", to_id="ada", relation="depends_on"),  # type: ignore[arg-type]
    Edge(from_id="retry", to_id="scout", relation="applies_to"),  # type: ignore[arg-type]
    Edge(from_id="flaky", to_id="retry", relation="instance_of"),  # type: ignore[arg-type]
    Edge(from_id="port-a", to_id="ada", relation="related_to"),  # type: ignore[arg-type]
    Edge(from_id="port-a", to_id="port-b", relation="contradicts"),  # type: ignore[arg-type]
)


def titles(briefing: Briefing) -> dict[str, list[str]]:
    return {section.title: [node.id for node in section.nodes] for section in briefing.sections}


async def test_an_agent_is_told_what_it_needs_to_know(briefed: BriefedMemory) -> None:
    version = await briefed.write(*WARREN, edges=LINKS)
    briefing = await briefed.brief("scout")
    assert titles(briefing) == {
        "Identity": ["scout", "terse"],
        "Active Context": ["cache", "polite"],
        "Key Relationships": ["ada"],
        "Patterns & Lessons": ["retry", "flaky"],
        "Goals": ["ship"],
        "Unresolved": ["port-a", "port-b"],
        "Recent Events": ["deploy"],
    }
    assert briefing.version == version
    assert f"Graph version {version}, made " in briefing.text
    tokens = MarkdownIt("commonmark").parse(briefing.text)
    found = [tokens[place + 1].content for place, token in enumerate(tokens) if token.type == "heading_open"]
    assert found == ["Briefing for scout", *titles(briefing)]
    assert "lunch" not in titles(await briefed.brief("critic"))
    with pytest.raises(ActionError, match=r"There is no agent 'nobody'.*critic.*scout"):
        await briefed.brief("nobody")


async def test_a_briefing_is_told_again_to_the_letter(briefed: BriefedMemory) -> None:
    told = {}
    for number in range(4):
        await briefed.write(*WARREN[number::4], edges=LINKS if number == 3 else ())
        for agent in ("scout", "critic"):
            briefing = await briefed.brief(agent)
            told[agent, briefing.version] = briefing.text
            assert (await briefed.brief(agent, compact=True)).version == briefing.version
    await briefed.write(node("new", "goal", "Translate the manual"), retire=("ship", "cache"))
    await briefed.write(accessed={"scout": 9, "ada": 2})
    await briefed.write(node("terse", "preference", "Ada wants tables"), unlink=())
    for (agent, version), text in told.items():
        again = await briefed.brief(agent, at=version)
        assert again.text == text
        assert again.version == version
    assert len(told) == 8


async def test_a_briefing_made_while_memory_is_written_to_is_of_one_version(
    briefed: BriefedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Edges are seen before the version is: a briefing made in between had those of the next version."""
    version = await briefed.write(*WARREN)
    graph, drawn = briefed.engine.view.graph, []
    put = graph.put
    with ThreadPoolExecutor(1) as pool:

        def put_and_wait(edges: Iterable[Edge], nodes: Sequence[Node]) -> None:
            put(edges, nodes)
            drawn.append(pool.submit(briefed.briefings._draft, BriefQuery(agent="scout")))
            time.sleep(0.2)

        monkeypatch.setattr(graph, "put", put_and_wait)
        await briefed.write(edges=LINKS)
        assert [page.result().version for page in drawn] == [version + 1]


async def test_a_write_ends_the_briefings_and_access_counts_do_not(briefed: BriefedMemory) -> None:
    await briefed.write(*WARREN, edges=LINKS)
    first = await briefed.brief("scout")
    await briefed.write(accessed={"ada": 1})
    assert (await briefed.brief("scout")).id == first.id
    version = await briefed.write(
        node("y", "fact", "Web pages are cached for two days by the proxy", agent="other")
    )
    second = await briefed.brief("scout")
    assert (second.version, second.id != first.id) == (version, True)
    assert "y" in titles(second)["Active Context"]


async def test_briefings_are_made_ahead_and_reading_them_is_counted(
    briefed: BriefedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "IDLE", 0.1)
    await briefed.write(*WARREN, edges=LINKS)
    ahead = asyncio.create_task(briefed.briefings.keep_ready())
    try:
        async with asyncio.timeout(20):
            while not briefed.briefings.stats()["made"]:
                await asyncio.sleep(0.02)
        assert await briefed.briefings.take_accesses() is None
        briefing = await briefed.brief("scout")
        assert datetime.fromisoformat(briefing.generated_at) < datetime.now(UTC)
        assert briefed.briefings.stats() == {"served": 1, "made": 1}
        write = await briefed.briefings.take_accesses()
        assert write is not None
        shown = {name for names in titles(briefing).values() for name in names}
        assert write.accessed == dict.fromkeys(shown, 1)
        await briefed.write(accessed=write.accessed)
        assert (await briefed.engine.get(["ada"]))[0].access_count == 1
        assert (await briefed.brief("scout")).id == briefing.id
    finally:
        ahead.cancel()
        await asyncio.gather(ahead, return_exceptions=True)


async def test_no_briefing_is_made_ahead_while_writes_come(
    briefed: BriefedMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "IDLE", 0.5)
    monkeypatch.setattr(service, "CHECK_EVERY", 0.01)
    await briefed.write(*WARREN, edges=LINKS)
    ahead = asyncio.create_task(briefed.briefings.keep_ready())
    try:
        for number in range(20):
            await briefed.write(node(f"g{number}", "goal", f"Goal number {number}"))
            await asyncio.sleep(0.05)
        assert briefed.briefings.stats()["made"] == 0
        async with asyncio.timeout(20):
            while not briefed.briefings.stats()["made"]:
                await asyncio.sleep(0.02)
        version = await briefed.write(node("late", "goal", "One more goal", importance=0.9))
        await asyncio.sleep(0.8)
        assert briefed.briefings.stats()["made"] == 1  # not again so soon
        asked = await briefed.brief("scout")
        assert (asked.version, "late" in titles(asked)["Goals"]) == (version, True)
        assert briefed.briefings.stats()["made"] == 2
    finally:
        ahead.cancel()
        await asyncio.gather(ahead, return_exceptions=True)


async def test_writing_goes_on_while_briefings_are_made(briefed: BriefedMemory) -> None:
    """What is told at a version is what memory held at that version, whatever was written meanwhile."""
    await briefed.write(*WARREN, edges=LINKS)

    async def write() -> None:
        for number in range(25):
            await briefed.write(
                node(f"g{number}", "goal", f"Goal number {number}", importance=0.5 + number / 60)
            )

    async def read() -> dict[int, str]:
        told = {}
        while not writing.done():
            briefing = await briefed.brief("scout")
            told[briefing.version] = briefing.text
        return told

    writing = asyncio.create_task(write())
    told = await read()
    await writing
    assert len(told) > 3
    for version, text in told.items():
        assert (await briefed.brief("scout", at=version)).text == text


def lines_of(briefing: Briefing) -> set[str]:
    return {line for line in briefing.text.splitlines() if line.startswith("- ")}


def words_of(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.casefold())


STORES = ("shop", "bakery", "clinic", "winery")


@pytest.mark.parametrize("name", STORES)
async def test_agents_of_an_office_are_told_what_is_theirs(
    briefed: BriefedMemory, tmp_path: Path, name: str
) -> None:
    """35 of 36 to 43 lines were the same for all agents, and 20 of 37 repeated their title."""
    store = read_store(name)
    await fill(briefed.memory, store, tmp_path)
    pages = {agent: await briefed.brief(agent) for agent in AGENTS}
    questions = re.findall(r"- (.+\?)$", store.memory, re.MULTILINE)
    heading, bullets = re.findall(r"## (.+)\n((?:- .+\n)+)", store.memory)[0]
    owners = re.findall(r"- (.+)\.", bullets)
    for page in pages.values():
        sections = dict(re.findall(r"## (.+)\n\n((?:.+\n)+)", page.text))
        assert store.incident() in sections["Recent Events"]
        assert all(question in sections["Unresolved"] for question in questions)
        assert f"**{heading}**: " in sections["Key Relationships"]
        assert sum(owner in page.text for owner in owners) >= len(owners) - 1
        for line in lines_of(page):
            title, _, body = line.partition("**: ")
            told = " ".join(words_of(title.partition(" › ")[2] or title))
            assert told not in " ".join(words_of(body)), line
        everything = [words for line in page.text.splitlines() if len(words := words_of(line)) > 4]
        assert len(everything) == len(set(map(tuple, everything)))
    engineer = pages["engineer"].text
    assert re.search(r"\*\*critic\*\* \(agent; on \d goals? with engineer\): Checks code", engineer)


@pytest.mark.parametrize("name", STORES)
async def test_shorter_pages_differ_and_compact_ones_hold_more(
    briefed: BriefedMemory, tmp_path: Path, name: str
) -> None:
    """Of lines at most three of five are the same, whatever the room; what a page shows is in the index."""
    await fill(briefed.memory, read_store(name), tmp_path)
    for characters in (8_000, 2_500, 1_500):
        pages = {agent: await briefed.brief(agent, max_chars=characters) for agent in AGENTS}
        for one, other in combinations(AGENTS, 2):
            mine, theirs = lines_of(pages[one]), lines_of(pages[other])
            assert len(mine & theirs) <= 0.6 * max(len(mine), len(theirs)), (one, other, mine & theirs)
        for agent, page in pages.items():
            compact = await briefed.brief(agent, compact=True, max_chars=characters)
            shown, listed = (
                {each for some in titles(made).values() for each in some} for made in (page, compact)
            )
            assert shown <= listed
            assert len(listed) / len(compact.text) >= 3.5 * len(shown) / len(page.text)


async def test_what_is_little_is_told_to_all(briefed: BriefedMemory, tmp_path: Path) -> None:
    told = {
        "decision": "Payments go through Adyen",
        "pattern": "Never deploy on a Friday afternoon",
        "preference": "Ana wants reports of at most one page",
        "goal": "Reduce the lint warnings of the storefront to zero",
        "event": "The storefront was down for half an hour",
    }
    shop = read_store("shop")
    memory = shop.memory.partition("## Decisions")[0]
    await fill(
        briefed.memory, msgspec.structs.replace(shop, memory=memory, said=[], found=[], goals=[]), tmp_path
    )
    await briefed.write(*(node(kind, kind, text, agent="user") for kind, text in told.items()))
    for agent in AGENTS:
        shown = {name for names in titles(await briefed.brief(agent)).values() for name in names}
        assert shown >= told.keys(), agent


STATES = (
    ("The session store is kept in Cassandra.", "The session store is kept in SQLite."),
    ("The failed logins are posted in #ops-night.", "Look for the failed logins in #on-call instead."),
    ("We print the wine labels at Offset Hallam.", "The wine labels come from the Kolb press."),
    ("Our night nurse calls the house doctor first.", "At night the house doctor is called by reception."),
    ("The spray diary is a spreadsheet.", "Petar keeps the spray diary in an app."),
    ("Orders for the paint shop go through Rune.", "Tamsin takes orders for the paint shop."),
)
APART = (
    ("The contract tests are written in k6.", "The component tests are written in k6."),
    ("The east gate closes at eight.", "The west gate closes at nine."),
    ("Flour is ordered on Mondays.", "Butter is ordered on Mondays."),
)


async def test_what_may_have_been_replaced_is_told_behind_the_newer_one(briefed: BriefedMemory) -> None:
    """Nobody takes the first of two states for the last word where the linker has not decided."""
    now = datetime.now(UTC)
    for place, pair in enumerate((*STATES, *APART)):
        for days, text in zip((30, 3), pair, strict=True):
            day = (now - timedelta(days=days)).isoformat()
            await briefed.write(node(f"{days}-{place}", "decision", text, agent="scout", created_at=day))
    lines = (await briefed.brief("scout")).text.splitlines()
    for before, after in STATES:
        told = [escape(text) for text in (after, before)]
        place = lines.index(f"- **{told[0]}** (decision)")
        assert lines[place + 1] == f"- **{told[1]}** (decision; earlier)"
    for pair in APART:
        assert all(f"- **{text}** (decision)" in lines for text in pair)
