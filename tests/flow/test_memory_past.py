"""Pictures, versions and histories of a running memory daemon, asked for over the bus as people do."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.contracts import Edge, HistoryQuery, Node, PictureQuery, Relation, VersionsQuery
from shared.errors import MailroomError
from shared.memory import Memory
from tests.support.office import Office


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """An office of the memory daemon alone."""
    office = Office(tmp_path, MAILROOM_LINKER_INTERVAL="3600")
    try:
        await office.open(["memory"])
        yield office
    finally:
        await office.close()


def decision(node_id: str, title: str, **fields: object) -> Node:
    return Node(id=node_id, kind="decision", title=title, **fields)  # type: ignore[arg-type]


async def test_who_changed_what_and_when(office: Office) -> None:
    scout, user = Memory(await office.connect("scout")), Memory(office.user)
    await scout.add(decision("d1", "Deploys happen on Tuesdays at noon"), insist=True)
    await user.add(
        decision("d2", "Deploys happen on Thursdays at noon"),
        edges=[Edge(from_id="d2", to_id="d1", relation=Relation.SUPERSEDES)],
        insist=True,
    )
    await scout.add(decision("d1", "Deploys happened on Tuesdays", body="until March"), insist=True)
    await user.retire("d1")
    page = await user.versions()
    told = [
        (change.sender, [(node.id, node.change) for node in change.nodes], change.linked, change.unlinked)
        for change in page.versions
    ]
    assert told == [
        ("user", [("d1", "forgotten")], 0, 1),
        ("scout", [("d1", "changed")], 0, 0),
        ("user", [("d2", "added")], 1, 0),
        ("scout", [("d1", "added")], 0, 0),
    ]
    assert all(change.at and change.write for change in page.versions)
    assert page.next == 0
    assert page.version == page.versions[0].version

    history = await user.history(HistoryQuery(id="d1"))
    assert [(state.change, state.sender, state.node.title) for state in history.states] == [
        ("forgotten", "user", "Deploys happened on Tuesdays"),
        ("changed", "scout", "Deploys happened on Tuesdays"),
        ("added", "scout", "Deploys happen on Tuesdays at noon"),
    ]
    assert history.states[1].fields == ("title", "body")
    assert history.states[0].fields == ("retired_version",)
    assert (await user.history(HistoryQuery(id="nobody"))).states == ()


async def test_pages_of_versions_have_each_once(office: Office) -> None:
    user = Memory(office.user)
    for number in range(7):
        await user.add(Node(id=f"n{number}", title=f"The harbour has {number} cranes"), insist=True)
    found, before = [], 0
    while True:
        page = await user.versions(VersionsQuery(before=before, limit=3))
        found += [change.nodes[0].id for change in page.versions]
        before = page.next
        if not before:
            break
    assert found == [f"n{number}" for number in reversed(range(7))]


async def test_versions_survive_a_restart_and_a_rebuild(office: Office) -> None:
    user = Memory(office.user)
    await user.add(decision("d1", "Deploys happen on Tuesdays at noon"), insist=True)
    await user.add(decision("d1", "Deploys happen on Fridays at noon"), insist=True)
    before = await user.versions()
    history = await user.history(HistoryQuery(id="d1"))
    office.kill("memory")
    office.start("memory")
    await office.ready("memory")
    assert await user.versions() == before
    await user.rebuild()
    async with asyncio.timeout(20):
        while "rebuilding" in await user.health():
            await asyncio.sleep(0.1)
    assert [change.version for change in (await user.versions()).versions] == [
        change.version for change in before.versions
    ]
    again = await user.history(HistoryQuery(id="d1"))
    assert [state.node.title for state in again.states] == [state.node.title for state in history.states]


async def test_a_picture_of_the_present_and_of_the_past(office: Office) -> None:
    user = Memory(office.user)
    nodes = [Node(id=f"n{number:02}", title=f"The harbour has {number} cranes") for number in range(20)]
    written = await user.add(
        *nodes, edges=[Edge(from_id="n00", to_id=each.id) for each in nodes[1:]], insist=True
    )
    picture = await user.picture()
    assert [drawn.id for drawn in picture.nodes] == [each.id for each in nodes]
    assert len(picture.edges) == 19
    assert picture.nodes[0].degree == 19
    assert picture.nodes[0].agent == "user"
    assert await user.picture() == picture
    await user.add(Node(id="later", title="A lighthouse stands at the pier"), insist=True)
    now = await user.picture()
    past = await user.picture(PictureQuery(at=written.version))
    assert len(now.nodes) == 21
    assert past.nodes == picture.nodes
    near = await user.picture(PictureQuery(anchor="n03", limit=2))
    assert {drawn.id for drawn in near.nodes} == {"n00", "n03"}
    with pytest.raises(MailroomError, match="no graph version"):
        await user.picture(PictureQuery(at=10_000))
    with pytest.raises(MailroomError, match="not in memory"):
        await user.picture(PictureQuery(anchor="nobody"))


async def test_memory_answers_while_a_large_picture_is_made(office: Office) -> None:
    user = Memory(office.user)
    vector = (1.0, *[0.0] * 383)
    nodes = [
        Node(id=f"n{number:04}", title=f"Crane {number} of the harbour", embedding=vector)
        for number in range(2_000)
    ]
    for first in range(0, 2_000, 500):
        await user.add(*nodes[first : first + 500], insist=True)
    drawing = asyncio.create_task(user.picture(PictureQuery(limit=2_000)))
    asked, longest = 0, 0.0
    while not drawing.done():
        begun = asyncio.get_running_loop().time()
        await user.get("n0001")
        longest = max(longest, asyncio.get_running_loop().time() - begun)
        asked += 1
        await asyncio.sleep(0.01)
    assert len((await drawing).nodes) == 2_000
    assert asked > 5
    assert longest < 0.5
