"""Forgetting for good: attacks, crashes and a search through every file of an office with its memory."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from services.gateway.index.index import LogIndex
from services.gateway.index.store import Filter, Store
from shared import subjects
from shared.bus.entry import seal
from shared.contracts import Edge, ListQuery, MemoryErasable, MemoryErased, MemoryWrite, MemoryWritten, Node
from shared.errors import BusUnavailable
from shared.memory import Memory, WriteRefused
from shared.trail.verification import Verification, verify_stream
from tests.support.erasing import erasing
from tests.support.office import Office
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """An office of the memory daemon alone, for all tests: each writes nodes of its own."""
    office = Office(tmp_path_factory.mktemp("office"), MAILROOM_LINKER_INTERVAL="3600")
    try:
        await office.open(["memory"])
        async with erasing(office.server):
            yield office
    finally:
        await office.close()


def secret(name: str) -> str:
    """A text that nothing else has."""
    return f"The codeword of {name} is heliotrope-{name} and nothing else"


def holders(office: Office, *texts: str) -> list[str]:
    """The files of the office, those of the server included, that hold one of the texts."""
    return [
        str(path)
        for path in office.config.state_dir.rglob("*")
        if path.is_file() and any(text.encode() in path.read_bytes() for text in texts)
    ]


async def verified(office: Office) -> Verification:
    found = await verify_stream(office.user, subjects.MEMORY)
    assert found.problems == []
    return found


async def done(memory: Memory) -> None:
    """Return when nothing is left to be forgotten."""

    async def is_done() -> bool:
        return "forgetting" not in await memory.health()

    await eventually(is_done, 25)


async def picture(memory: Memory) -> list[object]:
    return [
        [node async for node in memory.iterate_nodes()],
        [edge async for edge in memory.iterate_edges()],
    ]


async def test_a_forgotten_text_is_in_no_file_and_the_trail_is_whole(office: Office) -> None:
    memory, engineer = Memory(office.user), Memory(await office.connect("engineer"))
    text, body = secret("alpha"), 'It was told by Wilhelmina Überall, "in confidence", on a Tuesday'
    other = Node(id="other-a", title="Ships are counted every evening")
    secretive = Node(id="a", title=text, body=body, tags=("wilhelmina",), metadata={"who": "Wilhelmina Ü"})
    await engineer.add(other, secretive, edges=[Edge(from_id="other-a", to_id="a")], insist=True)
    quoting = Node(id="quoting", title="Said in the meeting", body=f"As they put it: {text}. So we wait.")
    edge = Edge(from_id="quoting", to_id="other-a", provenance={"by": "manual", "because": text})
    await memory.add(quoting, edges=[edge], insist=True)
    with pytest.raises(WriteRefused):
        await memory.add(Node(title=text))  # the write gate names the node that there is
    proposed = await Memory(await office.connect("critic")).retire("a")
    assert proposed.proposed
    before = await memory.get("other-a", "quoting")
    assert holders(office, text, "Wilhelmina")
    written = await memory.forget("a", proposed.proposed[0].from_id)
    await done(memory)
    assert holders(office, text, "Wilhelmina", "heliotrope-alpha") == []
    assert (await verified(office)).erased >= 3
    (stub,) = await memory.get("a")
    assert (stub.title, stub.body, stub.tags, stub.metadata) == ("[forgotten]", "", (), {})
    assert stub.retired_version == written.version
    after = await memory.get("other-a", "quoting")
    assert after[0] == before[0]
    assert after[1].body == "As they put it: [forgotten]. So we wait."
    assert after[1].created_version == before[1].created_version
    assert (await memory.get("a", at=before[0].version))[0].title == "[forgotten]"
    # A rebuild gives the same, and a restart; neither brings the text back.
    now = await picture(memory)
    await memory.rebuild()
    await eventually(lambda: _is_rebuilt(memory), 60)
    assert await picture(memory) == now
    office.kill("memory")
    office.start("memory")
    await office.ready("memory")
    assert await picture(memory) == now
    assert holders(office, text, "Wilhelmina") == []


async def _is_rebuilt(memory: Memory) -> bool:
    return "rebuilding" not in await memory.health()


async def test_an_agent_can_neither_order_it_nor_erase_messages(office: Office) -> None:
    engineer, memory = await office.connect("engineer"), Memory(office.user)
    await memory.add(Node(id="kept", title=secret("kept")), insist=True)
    order = MemoryWrite(sender="engineer", forget=("kept",))
    with pytest.raises(WriteRefused, match="for people alone"):
        await Memory(engineer).write(order)
    for bus in (engineer, office.user, await office.connect("memory")):
        with pytest.raises(BusUnavailable):
            await bus.request("$JS.API.STREAM.MSG.DELETE.MEMORY", b'{"seq": 1}', timeout=0.3)
    assert (await memory.get("kept"))[0].title == secret("kept")


async def test_a_write_sent_again_brings_nothing_back(office: Office) -> None:
    engineer, memory = await office.connect("engineer"), Memory(office.user)
    text = secret("again")
    write = MemoryWrite(sender="engineer", nodes=(Node(id="again", title=text),), insist=True)
    await Memory(engineer).write(write)
    await memory.forget("again")
    await done(memory)
    assert holders(office, text) == []
    # After the server has forgotten the id of the message: under another one.
    entry = seal(subjects.memory_write("engineer"), write)
    await engineer.append(entry._replace(id="another"))
    with pytest.raises(WriteRefused, match="forgotten by order"):
        await Memory(engineer).add(Node(id="again", title=text), insist=True)
    await done(memory)
    await eventually(lambda: holders(office, text) == [])
    assert (await memory.get("again"))[0].title == "[forgotten]"
    await verified(office)


async def test_the_same_order_twice_and_one_of_an_unknown_id(office: Office) -> None:
    memory = Memory(office.user)
    with pytest.raises(WriteRefused, match="not in memory"):
        await memory.forget("no-such-node")
    await memory.add(Node(id="twice", title=secret("twice")), insist=True)
    for _ in range(2):
        await memory.forget("twice")
        await done(memory)
    assert holders(office, secret("twice")) == []
    await verified(office)


async def test_two_texts_of_one_write_are_forgotten_one_after_the_other(office: Office) -> None:
    memory = Memory(office.user)
    nodes = [Node(id=f"pair-{name}", title=secret(name)) for name in ("first", "second", "third")]
    await memory.add(*nodes, insist=True)
    for node in nodes[:2]:
        await memory.forget(node.id)
        await done(memory)
        assert holders(office, node.title) == []
        await verified(office)
    assert [node.title for node in await memory.get(*(node.id for node in nodes))] == [
        "[forgotten]",
        "[forgotten]",
        secret("third"),
    ]


async def test_a_forgotten_passage_of_a_file_stays_out_and_that_is_told(office: Office) -> None:
    memory, text = Memory(office.user), secret("ingested")
    await take_in(office, "first.md", f"# Words\n\n- {text}\n- The gate of the yard opens at six\n")
    nodes = (await memory.nodes(ListQuery(session="first.md"))).nodes
    await memory.forget(next(node.id for node in nodes if text in node.body))
    await done(memory)
    again = f"# Other words\n\n- {text}\n- Trucks weigh at most twelve tons there\n"
    await take_in(office, "second.md", again)
    nodes = (await memory.nodes(ListQuery(session="second.md"))).nodes
    assert {node.title for node in nodes} == {
        "Other words",
        "Trucks weigh at most twelve tons there",
    }
    (reason,) = (await memory.health())["ingest"]["left_out"]["second.md"]
    assert reason.startswith("line 3: a person had it forgotten")
    kept = [path for path in holders(office, text) if "/processed/" not in path]
    assert kept == []


async def take_in(office: Office, name: str, text: str) -> None:
    """Have memory take in a file."""
    path = office.config.ingest / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    await eventually(lambda: not path.exists(), 20)


async def test_killed_at_any_moment_it_is_done_after_the_restart(office: Office) -> None:
    memory = Memory(office.user)
    for number, pause in enumerate((0.0, 0.05, 0.15, 0.3, 0.6)):
        text = secret(f"crash{number}")
        await memory.add(Node(id=f"crash-{number}", title=text), insist=True)
        order = MemoryWrite(sender="user", forget=(f"crash-{number}",))
        await office.user.append(seal(subjects.memory_write("user"), order))
        await asyncio.sleep(pause)
        office.kill("memory")
        office.start("memory")
        await office.ready("memory")
        await eventually(lambda n=number: _is_forgotten(memory, f"crash-{n}"), 30)
        await done(memory)
        assert holders(office, text) == []
    await verified(office)


async def _is_forgotten(memory: Memory, node_id: str) -> bool:
    return (await memory.get(node_id))[0].title == "[forgotten]"


async def test_the_index_of_the_gateway_forgets_too(office: Office) -> None:
    memory, text = Memory(office.user), secret("indexed")
    index = LogIndex(office.user, Store(office.config.gateway / "index.db"))
    following = asyncio.create_task(index.run())
    try:
        await memory.add(Node(id="indexed", title=text), insist=True)

        async def found() -> bool:
            return bool(index.store.messages(Filter(text="heliotrope indexed")))

        await eventually(found)
        await memory.forget("indexed")
        await done(memory)

        async def is_renewed() -> bool:
            return not await found() and not index.behind and index.store.count > 0

        await eventually(is_renewed)
        assert not index.problem
        assert index.position.memory == await office.stored_count(subjects.MEMORY)
        assert holders(office, text) == []
    finally:
        following.cancel()
        index.store.close()


async def test_a_part_of_a_text_in_another_form_goes_and_what_says_where_it_stood_stays(
    office: Office,
) -> None:
    memory = Memory(office.user)
    told, heading = (
        "The spare key of the\npump house hangs behind the *third* water meter",
        "How the yard is closed at night",
    )
    first = Node(
        id="part", title="Pump house", body=f"{secret('part')}. {told}", metadata={"heading": heading}
    )
    near = Node(
        id="near",
        title="Said at lunch",
        body="key of the **pump house** hangs behind the third water",
        metadata={"heading": heading},
    )
    await memory.add(first, near, insist=True)
    await memory.forget("part")
    await done(memory)
    (left,) = await memory.get("near")
    assert (left.body, left.metadata) == ("[forgotten]", {"heading": heading})
    assert holders(office, "heliotrope-part", "pump house** hangs") == []
    await verified(office)


async def test_memory_alone_can_have_nothing_erased(office: Office) -> None:
    """Also with a record of it, if no person gave the order: memory's own key cannot hide anything."""
    memory, own = Memory(office.user), await office.connect("memory")
    written: MemoryWritten = await memory.add(Node(title=secret("hidden")), insist=True)
    record = MemoryErased(
        sender="memory",
        cause="no-order",
        seqs=(written.version,),
        subject="memory.write.user",
        time="2026-01-01T00:00:00Z",
    )
    await own.append(seal(subjects.memory_write("memory"), record))
    told = MemoryErasable(sender="memory", cause="no-order", seqs=(written.version,))
    await own.commit([seal(subjects.ERASABLE, told)])
    await asyncio.sleep(1)
    await verified(office)
    assert holders(office, secret("hidden"))


async def test_without_an_eraser_the_order_waits_and_health_says_so(tmp_path: Path) -> None:
    office = Office(tmp_path, MAILROOM_LINKER_INTERVAL="3600")
    try:
        await office.open(["memory"])
        memory, text = Memory(office.user), secret("waiting")
        await memory.add(Node(id="waiting", title=text), insist=True)
        await memory.forget("waiting")

        async def waits() -> bool:
            return "waiting" in str((await memory.health()).get("forgetting", {}).get("step"))

        await eventually(waits)
        assert holders(office, text)
        office.kill("memory")
        office.start("memory")
        await office.ready("memory")
        with office.server.start_mailroom("provision", "--only", "erasures") as eraser:
            try:
                await done(memory)
            finally:
                eraser.terminate()
        assert holders(office, text) == []
        await verified(office)
    finally:
        await office.close()
