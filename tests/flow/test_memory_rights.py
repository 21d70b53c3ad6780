"""What an agent can do to the memories of others, tried with its own key on a running memory daemon."""

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from services.memory.__main__ import for_people
from shared import subjects
from shared.contracts import Edge, EdgeKey, EdgesQuery, MemoryWrite, MemoryWritten, Node, Relation, Source
from shared.contracts.base import amended
from shared.errors import ActionError, BusUnavailable, Refused
from shared.memory import Memory, WriteRefused
from tests.support.office import Office
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "The harbour opens at six in the morning"
CHANGED = "The harbour never opens, whatever anybody says"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """An office of the memory daemon alone, for all tests: each writes nodes of its own."""
    office = Office(tmp_path_factory.mktemp("office"), MAILROOM_LINKER_INTERVAL="3600")
    try:
        await office.open(["memory"])
        yield office
    finally:
        await office.close()


async def client(office: Office, name: str) -> Memory:
    return Memory(await office.connect(name))


async def node(memory: Memory, node_id: str) -> Node:
    (found,) = await memory.get(node_id)
    return found


async def test_whoever_a_write_names_its_author_is_its_sender(office: Office) -> None:
    engineer, user = await office.connect("engineer"), await client(office, "user")
    forged = [
        {"id": "author-a", "title": TEXT, "agent": "critic"},
        {"id": "author-b", "title": "Ships are counted every evening", "source": {"agent": "user"}},
    ]
    added = json.loads(
        await engineer.request("memory.add", json.dumps({**forged[0], "insist": True}).encode())
    )
    assert not added["error"]
    await engineer.request("memory.add", json.dumps({**forged[1], "insist": True}).encode())
    link = {"from": "author-a", "to": "author-b", "provenance": {"by": "manual", "agent": "critic"}}
    await engineer.request("memory.link", json.dumps(link).encode())
    mine = Node(id="author-c", title="Nobody counts the gulls", source=Source(agent="critic"))
    edge = Edge(from_id="author-c", to_id="author-a", provenance={"by": "manual", "agent": "user"})
    await Memory(engineer).add(mine, edges=[edge], insist=True)
    assert [found.source.agent for found in await user.get("author-a", "author-b", "author-c")] == [
        "engineer"
    ] * 3
    edges = (await user.edges(EdgesQuery(node="author-a"))).edges
    assert [edge.provenance["agent"] for edge in edges] == ["engineer"] * 2


async def test_a_write_in_anothers_name_is_not_stored(office: Office) -> None:
    engineer = await office.connect("engineer")
    write = MemoryWrite(sender="critic", nodes=(Node(id="forged", title=TEXT),), insist=True)
    with pytest.raises(WriteRefused, match="'engineer' sent it"):
        await Memory(engineer).write(write)
    with pytest.raises(BusUnavailable):
        await engineer.store(subjects.memory_write("critic"), write.to_json(), timeout=0.3)
    assert await Memory(engineer).get("forged") == []


@pytest.mark.parametrize("owner", ["critic", "user"])
async def test_what_another_wrote_can_be_disputed_and_not_replaced(office: Office, owner: str) -> None:
    mine, engineer, own = await client(office, owner), await client(office, "engineer"), f"{owner}-n"
    others = [found.id async for found in mine.iterate_nodes()]
    await mine.add(Node(id=own, title=TEXT), insist=True)
    before = await node(mine, own)
    written = await engineer.add(Node(id=own, title=CHANGED), insist=True)
    assert await node(mine, own) == before
    (proposed,) = written.proposed
    assert (proposed.to_id, proposed.relation) == (own, Relation.CONTRADICTS)
    assert written.ids == (proposed.from_id,)
    proposal = await node(mine, proposed.from_id)
    assert (proposal.title, proposal.source.agent) == (CHANGED, "engineer")
    (edge,) = (await mine.edges(EdgesQuery(node=own))).edges
    assert (edge.provenance["by"], edge.provenance["proposes"]) == ("proposal", "replace")
    assert edge.provenance["agent"] == "engineer"
    # Another try of the same agent changes its proposal, and the owner's own write the node.
    again = await engineer.add(Node(id=own, title="It opens at noon, says everybody"), insist=True)
    assert again.proposed == written.proposed
    made = {found.id async for found in mine.iterate_nodes()}.difference(others)
    assert made == {own, proposal.id}
    assert not (await mine.add(Node(id=own, title="The harbour opens at seven now"), insist=True)).proposed
    assert (await node(mine, own)).title == "The harbour opens at seven now"


async def test_the_same_again_by_another_is_no_proposal(office: Office) -> None:
    critic, engineer = await client(office, "critic"), await client(office, "engineer")
    await critic.add(Node(id="same-n", title=TEXT), insist=True)
    written = await engineer.add(Node(id="same-n", title=TEXT), insist=True)
    assert written.proposed == ()
    assert (await node(critic, "same-n")).source.agent == "critic"


async def test_what_another_wrote_cannot_be_retired_or_superseded(office: Office) -> None:
    critic, engineer = await client(office, "critic"), await client(office, "engineer")
    await critic.add(Node(id="kept-n", title=TEXT), insist=True)
    written = await engineer.retire("kept-n")
    (proposed,) = written.proposed
    assert (await node(critic, "kept-n")).retired_version == 0
    wish = await node(critic, proposed.from_id)
    assert (wish.title, wish.source.agent) == (f"engineer proposes to retire: {TEXT}", "engineer")
    await engineer.add(Node(id="kept-m", title=CHANGED), insist=True)
    linked = await engineer.link(Edge(from_id="kept-m", to_id="kept-n", relation=Relation.SUPERSEDES))
    assert linked.proposed == (EdgeKey(from_id="kept-m", to_id="kept-n", relation=Relation.CONTRADICTS),)
    relations = [edge.relation for edge in (await critic.edges(EdgesQuery(node="kept-n"))).edges]
    assert relations == [Relation.CONTRADICTS] * 2
    # Its author and people may.
    user = await client(office, "user")
    await user.link(Edge(from_id="kept-m", to_id="kept-n", relation=Relation.SUPERSEDES))
    assert not (await critic.retire("kept-n")).proposed
    assert (await node(user, "kept-n")).retired_version
    with pytest.raises(WriteRefused, match="may not bring it back"):
        await engineer.add(Node(id="kept-n", title=CHANGED), insist=True)


async def test_the_edges_of_others_stay_as_they_are(office: Office) -> None:
    critic, engineer = await client(office, "critic"), await client(office, "engineer")
    await critic.add(
        Node(id="edge-a", title=TEXT), Node(id="edge-b", title="Ships are counted every evening"), insist=True
    )
    await critic.link(Edge(from_id="edge-a", to_id="edge-b", weight=0.9))
    await engineer.link(Edge(from_id="edge-a", to_id="edge-b", weight=0.0))
    with pytest.raises(WriteRefused, match="may not take it out"):
        await engineer.unlink(EdgeKey(from_id="edge-a", to_id="edge-b"))
    (edge,) = (await critic.edges(EdgesQuery(node="edge-a"))).edges
    assert (edge.weight, edge.provenance["agent"]) == (0.9, "critic")
    await critic.unlink(EdgeKey(from_id="edge-a", to_id="edge-b"))
    assert (await critic.edges(EdgesQuery(node="edge-a"))).edges == ()


@pytest.mark.parametrize("verb", subjects.MEMORY_PEOPLE_VERBS)
async def test_maintenance_is_for_people_alone(office: Office, verb: str) -> None:
    engineer = await office.connect("engineer")
    for subject in (f"memory.{verb}", f"memory.{verb}.user", f"memory.{verb}.engineer"):
        with pytest.raises(BusUnavailable):
            await engineer.request(subject, b"{}", timeout=0.3)
    answered: list[bytes] = []

    async def answer(data: bytes) -> bytes:
        answered.append(data)
        return b"done"

    endpoint = for_people(verb, answer)
    with pytest.raises(ActionError, match="engineer may not"):
        await endpoint(b"{}", "engineer")
    assert not answered
    assert await endpoint(b"{}", subjects.USER) == b"done"
    assert json.loads(await office.user.request(f"memory.{verb}", b"{}"))

    async def ready() -> bool:
        return (await Memory(office.user).health())["status"] == "ok"

    await eventually(ready, 30)  # the office is for other tests too


async def test_people_may_name_another_author(office: Office) -> None:
    user = await client(office, "user")
    written: MemoryWritten = await user.add(
        Node(id="named-n", title=TEXT, source=Source(agent="critic")), insist=True
    )
    assert written.proposed == ()
    assert (await user.add(Node(id="named-m", title=CHANGED), insist=True)).proposed == ()
    assert [found.source.agent for found in await user.get("named-n", "named-m")] == ["critic", "user"]


async def test_no_agent_counts_how_often_nodes_were_shown_or_dates_its_own_changes(office: Office) -> None:
    engineer, user = await office.connect("engineer"), await client(office, "user")
    await user.add(Node(id="count-a", title=TEXT), Node(id="count-b", title="The lock is oiled"), insist=True)
    with pytest.raises(WriteRefused, match="leave out 'accessed'"):
        await Memory(engineer).write(MemoryWrite(sender="engineer", accessed={"count-a": 1_000_000}))
    later = "2099-01-01T00:00:00+00:00"
    shown = {"access_count": 1_000_000, "last_accessed_at": later, "updated_at": later, "version": 10**9}
    nodes = [
        Node.from_dict({"id": name, "title": f"The quay is {name}", **shown})
        for name in ("count-a", "count-c")
    ]
    edge = Edge(from_id="count-c", to_id="count-b", weight=0.9, touched_at=later, created_at=later)
    for _ in range(2):  # the second time it changes its own
        await Memory(engineer).add(*nodes, edges=[edge], insist=True)
        nodes = [amended(each, body="and wet") for each in nodes]
    found = {each.id: each for each in await user.get("count-a", "count-c")}
    assert {(each.access_count, each.last_accessed_at) for each in found.values()} == {(0, "")}
    assert found["count-c"].body == "and wet"
    assert found["count-c"].updated_at < later
    assert found["count-c"].version < 10**9
    edges = (await user.edges(EdgesQuery(node="count-c"))).edges
    assert [each for each in edges if later in (each.touched_at, each.created_at)] == []
    with pytest.raises(Refused, match="access_count is not a field"):
        await engineer.request("memory.add", b'{"title": "The quay is dry", "access_count": 9}')
