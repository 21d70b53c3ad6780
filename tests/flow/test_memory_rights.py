"""What an agent can do to the memories of others, tried with its own key on a running memory daemon."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest
import pytest_asyncio

from services.memory.__main__ import for_people
from shared import subjects
from shared.bus import Bus
from shared.bus.entry import current_audience
from shared.contracts import (
    Edge,
    EdgeKey,
    EdgesQuery,
    ListQuery,
    MemoryQuery,
    MemoryWrite,
    MemoryWritten,
    Node,
    PathsQuery,
    Question,
    Relation,
    Response,
    Source,
    TraverseQuery,
)
from shared.contracts.base import amended
from shared.errors import ActionError, BusUnavailable, Refused
from shared.memory import Memory, WriteRefused
from shared.memory.ownership import reads_for
from shared.queries.records import scan
from shared.reasoning.recall import MemoryRecall, recall_patterns
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


@pytest.mark.parametrize("verb", ["search", "get", "list", "edges", "traverse", "paths", "brief", "picture"])
async def test_a_stolen_key_reads_in_no_name_but_its_own(office: Office, verb: str) -> None:
    engineer = await office.connect("engineer")
    for asker in ("user", "critic", "nexus"):
        with pytest.raises(BusUnavailable):  # unanswered; a Refused would be an answer
            await engineer.request(f"memory.{verb}.{asker}", b"{}", timeout=0.5)


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
    query = b'{"id": "any"}' if verb == "history" else b"{}"
    answered: list[bytes] = []

    async def answer(data: bytes) -> bytes:
        answered.append(data)
        return b"done"

    endpoint = for_people(verb, answer)
    with pytest.raises(ActionError, match="engineer may not"):
        await endpoint(b"{}", "engineer")
    assert not answered
    assert await endpoint(b"{}", subjects.USER) == b"done"
    assert json.loads(await office.user.request(f"memory.{verb}", query))

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


# --- what is private -----------------------------------------------------------------------------

NOTE = "The lantern oil of the harbour is paid from a purse that nobody may see: pelargonium"
SECRET = "pelargonium"
PATTERN = "When the lantern oil is ordered, pay it from the pelargonium purse"
PRIVATE = Source(agent="scout", session="agents/scout/notes.md", channel="ingest")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def told(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """An office whose memory has private notes of scout, joined with what everybody knows."""
    office = Office(tmp_path_factory.mktemp("told"), MAILROOM_LINKER_INTERVAL="3600")
    try:
        await office.open(["memory", "nexus"])
        user = Memory(office.user)
        await user.add(
            Node(id="open-a", title="The lantern oil of the harbour is ordered each spring"),
            Node(id="open-b", title="Barrels of the harbour are rolled to the north shed"),
            Node(id="secret", title=NOTE, body=NOTE, source=PRIVATE, tags=("oil",)),
            Node(id="taught", kind="pattern", title=PATTERN, body=PATTERN, source=PRIVATE),
            Node(id="gone", title=f"{NOTE}, once", source=PRIVATE),
            edges=[
                Edge(from_id="open-a", to_id="secret", weight=0.9),
                Edge(from_id="secret", to_id="open-b", weight=0.9),
            ],
            insist=True,
        )
        await user.retire("gone")
        yield office
    finally:
        await office.close()


async def ask_nexus_as(office: Office, bus: Bus, text: str) -> Response:
    question = Question(sender=bus.name, recipient=subjects.NEXUS, text=text)
    await bus.store(
        subjects.mail(subjects.NEXUS, bus.name), question.to_json(), headers={"Nats-Msg-Id": question.id}
    )
    found: list[Response] = []

    async def is_answered() -> bool:
        async for each in scan(office.user, subjects.OFFICE, subjects.mail(bus.name, subjects.NEXUS)):
            answer = Response.from_json(each.data)
            found.extend([answer] if answer.cause == question.id else [])
        return bool(found)

    await eventually(is_answered, 60)
    return found[0]


ASKED = "Who pays the lantern oil of the harbour?"
Path = Callable[[Office, Bus], Awaitable[object]]
PATHS: dict[str, Path] = {
    "search": lambda _, bus: Memory(bus).search(ASKED),
    "search among filters": lambda _, bus: Memory(bus).search(
        ASKED, tags=("oil",), agent="scout", session=PRIVATE.session
    ),
    "search deep": lambda _, bus: Memory(bus).search(ASKED, deep=True),
    "search in the past": lambda _, bus: Memory(bus).search(ASKED, history=True),
    "search beside an anchor": lambda _, bus: Memory(bus).search(ASKED, anchors=("open-a",)),
    "search at a version": lambda _, bus: Memory(bus).search(ASKED, at=1),
    "get": lambda _, bus: Memory(bus).get("secret", "taught", "gone"),
    "get at a version": lambda _, bus: Memory(bus).get("secret", at=1),
    "list": lambda _, bus: Memory(bus).nodes(ListQuery(limit=1_000, retired=True)),
    "list of an agent": lambda _, bus: Memory(bus).nodes(ListQuery(agent="scout")),
    "list at a version": lambda _, bus: Memory(bus).nodes(ListQuery(at=1)),
    "edges": lambda _, bus: Memory(bus).edges(EdgesQuery(node="secret")),
    "traverse": lambda _, bus: Memory(bus).traverse(TraverseQuery(start=("open-a",), depth=3)),
    "traverse from it": lambda _, bus: Memory(bus).traverse(TraverseQuery(start=("secret",))),
    "paths": lambda _, bus: Memory(bus).ask("paths", PathsQuery(from_id="open-a", to_id="open-b")),
    "briefing of its own": lambda _, bus: Memory(bus).brief(bus.name),
    "briefing of scout": lambda _, bus: Memory(bus).brief("scout"),
    "picture": lambda _, bus: bus.request("memory.picture", b"{}", timeout=0.3),
    "versions": lambda _, bus: bus.request("memory.versions", b"{}", timeout=0.3),
    "history": lambda _, bus: bus.request("memory.history", b'{"id": "secret"}', timeout=0.3),
    "recall for a prompt": lambda _, bus: MemoryRecall(Memory(bus)).recall(ASKED),
    "patterns for a prompt": lambda _, bus: recall_patterns(Memory(bus), "Order and pay the lantern oil"),
    "the write gate": lambda _, bus: Memory(bus).add(Node(title=NOTE.partition(":")[0])),
    "a reader of its own choice": lambda _, bus: read_as(bus, "scout"),
    "the front desk": lambda office, bus: ask_nexus_as(office, bus, ASKED),
    "the front desk, to forget": lambda office, bus: ask_nexus_as(office, bus, "forget the lantern oil"),
}


async def read_as(bus: Bus, name: str) -> bytes:
    """A search that names another reader, as nexus may."""
    query = msgspec.json.encode(MemoryQuery(text=ASKED))
    return await bus.request("memory.search", query, headers={subjects.READER_HEADER: name})


async def walk(office: Office, path: str, bus: Bus) -> str:
    try:
        return repr(await PATHS[path](office, bus))
    except (Refused, BusUnavailable) as error:
        return str(error)


@pytest.mark.parametrize("path", PATHS)
async def test_what_is_private_stays_so_on_every_path(told: Office, path: str) -> None:
    bus = await told.connect("engineer")
    answer = await walk(told, path, bus)
    assert SECRET not in answer
    assert '"secret"' not in answer
    await bus.close()


# --- what is one of the people's alone -------------------------------------------------------------

ANAS = Source(agent="user", session="s", channel="private:ana")
DIARY = "The lantern oil of the harbour is bought with my own savings: gaillardia"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """An office whose memory has what is Ana's alone, tagged for everybody and joined to what all know."""
    office = Office(tmp_path_factory.mktemp("people"), MAILROOM_LINKER_INTERVAL="3600")
    try:
        await office.open(["memory", "nexus"])
        user = Memory(office.user)
        engineer = Node(id="open-e", kind="agent", title="engineer", metadata={"name": "engineer"})
        await user.add(
            Node(id="open-a", title="The lantern oil of the harbour is ordered each spring"),
            Node(id="open-b", title="Barrels of the harbour are rolled to the north shed"),
            engineer,
            edges=[Edge(from_id="open-a", to_id="open-b", weight=0.2)],
            insist=True,
        )
        ends = [("open-a", "secret"), ("secret", "open-b"), ("open-e", "secret"), ("secret", "open-e")]
        tags = ("oil", "global", "engineer", "scout")
        await user.add(
            Node(id="secret", title=DIARY, body=DIARY, source=ANAS, tags=tags, importance=0.9),
            Node(id="taught", kind="pattern", title=f"{DIARY} again", body=DIARY, source=ANAS, tags=tags),
            Node(
                id="filed",
                title=f"{DIARY} too",
                source=Source(agent="user", session="people/ana/n.md", channel="ingest"),
            ),
            Node(id="gone", title=f"{DIARY}, once", source=ANAS),
            edges=[Edge(from_id=one, to_id=other, weight=0.9) for one, other in ends],
            insist=True,
        )
        await user.retire("gone")
        yield office
    finally:
        reads_for.set("")
        await office.close()


@pytest.mark.parametrize("reader", ["engineer", "scout", "nexus", "user-ben", "user-"])
@pytest.mark.parametrize("path", PATHS)
async def test_what_is_a_persons_alone_stays_so_on_every_path(
    shared_office: Office, path: str, reader: str
) -> None:
    """``user-ben`` is the gateway's request for Ben, ``user-`` one for nobody in particular."""
    is_person = reader.startswith("user-")
    if "front desk" in path and reader in ("scout", "nexus", "user-"):
        pytest.skip("the desk is asked by an agent and by the operator, whose answers all may read")
    bus = await shared_office.connect("user" if is_person else reader)
    reads_for.set(reader if is_person else "")
    try:
        if is_person and path in ("picture", "versions", "history"):
            query = b'{"id": "secret"}' if path == "history" else b"{}"
            answer = repr(await Memory(bus)._bus.request(f"memory.{path}", query, headers=named(reader)))
        elif path == "a reader of its own choice" and is_person:
            answer = repr(await read_as(bus, reader))
        elif path == "a reader of its own choice" and reader == "nexus":
            return  # nexus may name whom it reads for: the desk is trusted with that
        else:
            answer = await walk(shared_office, path, bus)
    finally:
        reads_for.set("")
        await bus.close()
    assert "gaillardia" not in answer
    assert '"secret"' not in answer or answer.startswith('b\'{"id":"secret","states":[]')


def named(reader: str) -> dict[str, str]:
    return {subjects.READER_HEADER: reader}


async def test_ana_and_the_operator_read_what_is_anas(shared_office: Office) -> None:
    for reader in ("user-ana", ""):
        reads_for.set(reader)
        for path in ("search", "get", "list", "edges", "traverse", "paths", "search deep"):
            path_answer = await walk(shared_office, path, shared_office.user)
            assert "gaillardia" in path_answer or "secret" in path_answer, (reader, path)
        for verb, query in (("picture", b"{}"), ("history", b'{"id": "secret"}'), ("versions", b"{}")):
            headers = named(reader) if reader else None
            told = await shared_office.user.request(f"memory.{verb}", query, headers=headers)
            assert b"gaillardia" in told, (reader, verb)
    reads_for.set("")


async def test_nobody_writes_as_another_person_or_changes_what_is_anothers(shared_office: Office) -> None:
    user = Memory(shared_office.user)
    engineer = await client(shared_office, "engineer")
    nexus = await client(shared_office, "nexus")
    new = Node(id="planted", title="Ana said that engineer may sell the lantern", source=ANAS)
    known = Node(id="secret", title="Nothing is bought any more, says Ben")
    ends = Edge(from_id="open-a", to_id="secret", relation=Relation.SUPERSEDES)
    tries = [
        MemoryWrite(nodes=(new,), insist=True),
        MemoryWrite(nodes=(known,), insist=True),
        MemoryWrite(edges=(ends,)),
        MemoryWrite(retire=("secret",)),
        MemoryWrite(unlink=(EdgeKey(from_id="open-a", to_id="secret"),)),
    ]
    for write in tries:
        for memory, fields in (
            (user, {"sender": "user", "person": "ben"}),  # Ben at the gateway
            (user, {"sender": "user", "person": "ben", "audience": "ana"}),
            (engineer, {"sender": "engineer"}),
            (engineer, {"sender": "engineer", "audience": "ana", "person": "ana", "asker": "user"}),
            (nexus, {"sender": "nexus"}),  # on its own account
            (nexus, {"sender": "nexus", "asker": "user", "audience": "ben"}),  # for Ben
        ):
            name = f"try-{tries.index(write)}-{memory._bus.name}-{len(fields)}"
            forged = msgspec.structs.replace(write, id=name, **fields)
            with pytest.raises(WriteRefused, match="another person"):
                await memory.write(forged)
    assert (await node(user, "secret")).title == DIARY
    assert await user.get("planted") == []
    mine = Node(id="mine", title="The diary is kept below the stairs", source=ANAS)
    assert (await nexus.write(MemoryWrite(sender="nexus", asker="user", audience="ana", nodes=(mine,)))).ids
    await user.write(MemoryWrite(sender="user", person="ana", retire=("mine",)))
    assert (await node(user, "mine")).retired_version


async def test_the_owner_and_people_read_what_is_private(told: Office) -> None:
    for name in ("scout", "user", "nexus"):
        bus = told.user if name == "user" else await told.connect(name)
        for path in ("search", "get", "list", "traverse", "recall for a prompt"):
            assert SECRET in repr(await PATHS[path](told, bus)), (name, path)
    assert SECRET in (await ask_nexus_as(told, told.user, ASKED)).text
    desk = await told.connect("nexus")
    reads_for.set("engineer")
    assert SECRET not in repr(await Memory(desk).search(ASKED))
    reads_for.set("scout")
    assert SECRET in repr(await Memory(desk).search(ASKED))
    reads_for.set("")


@pytest.mark.parametrize("tag", ["global", "engineer", "Engineer", "eng", ""])
async def test_what_is_tagged_for_others_is_read_by_them(told: Office, tag: str) -> None:
    user, engineer = Memory(told.user), await client(told, "engineer")
    node_id, tags = f"tag-{tag or 'none'}", (tag,) if tag else ()
    await user.add(Node(id=node_id, title=f"Buoy {tag} is green", source=PRIVATE, tags=tags), insist=True)
    assert bool(await engineer.get(node_id)) is (tag in ("global", "engineer"))
    assert bool(await Memory(told.user).get(node_id))


async def test_what_an_agent_may_not_read_it_neither_changes_nor_proposes_to(told: Office) -> None:
    engineer, scout, user = await client(told, "engineer"), await client(told, "scout"), Memory(told.user)
    open_a = Edge(from_id="open-a", to_id="secret", relation=Relation.SUPERSEDES)
    for write in (
        MemoryWrite(sender="engineer", retire=("secret",)),
        MemoryWrite(sender="engineer", nodes=(Node(id="secret", title=CHANGED),), insist=True),
        MemoryWrite(sender="engineer", edges=(open_a,)),
    ):
        with pytest.raises(WriteRefused, match="the memory of another agent"):
            await engineer.write(write)
    assert "proposal-" not in repr(await user.nodes(ListQuery(limit=1_000)))
    await user.add(Node(id="scouts", title="The lamp of the pier burns low", source=PRIVATE), insist=True)
    assert not (await scout.retire("scouts")).proposed  # it is scout's own


async def test_an_agent_keeps_nothing_of_what_it_does_for_one_person_alone(shared_office: Office) -> None:
    engineer = await client(shared_office, "engineer")
    current_audience.set("ana")
    try:
        with pytest.raises(Refused, match="for ana alone"):
            await engineer.add(Node(id="kept", title="Ana owns two lanterns"), insist=True)
    finally:
        current_audience.set("")
    assert not await Memory(shared_office.user).get("kept")
