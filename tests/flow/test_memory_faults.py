"""The memory daemon as a process: killed, frozen, doubled, robbed of its folder, fed with rubbish."""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from shared import subjects
from shared.contracts import Edge, MemoryWrite, Node, Relation, generate_id
from shared.contracts.base import amended
from shared.errors import MailroomError, NoResponders, Refused
from shared.memory import Memory
from tests.support.office import Office
from tests.support.waiting import eventually

KILLS = 10


@pytest.fixture
async def memory_office(tmp_path: Path) -> AsyncIterator[Office]:
    """An office of the memory daemon alone."""
    office = Office(tmp_path, MAILROOM_LINKER_INTERVAL="3600")
    try:
        await office.open(["memory"])
        yield office
    finally:
        await office.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lasting_office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """The same for the tests that leave it as it was: each writes nodes of its own."""
    office = Office(tmp_path_factory.mktemp("office"), MAILROOM_LINKER_INTERVAL="3600")
    try:
        await office.open(["memory"])
        yield office
    finally:
        await office.close()


@contextlib.asynccontextmanager
async def client(office: Office, name: str = "scout") -> AsyncIterator[Memory]:
    bus = await office.connect(name)
    try:
        yield Memory(bus)
    finally:
        await bus.close()


def vector(seed: int) -> tuple[float, ...]:
    numbers = random.Random(seed)
    values = [numbers.gauss(0, 1) for _ in range(384)]
    length = sum(value * value for value in values) ** 0.5
    return tuple(value / length for value in values)


def note(index: int) -> Node:
    """A node that brings its vector, so that nothing waits for the model."""
    return Node(id=f"n{index}", title=f"Note number {index} of the test", embedding=vector(index))


async def every_node(memory: Memory) -> dict[str, Node]:
    return {node.id: node async for node in memory.iterate_nodes()}


async def test_a_settled_search_finds_what_was_only_queued(lasting_office: Office) -> None:
    """As nexus asks: a goal's findings are queued just before it ends."""
    async with client(lasting_office) as memory:
        titles = [f"Lighthouse {number} burns paraffin" for number in range(40)]
        await memory.queue(*(Node(title=title) for title in titles), insist=True)
        hits = await memory.search("which lighthouses burn paraffin?", settled=True)
    assert len(hits) == 10
    assert {hit.node.title for hit in hits} <= set(titles)


async def test_killed_ten_times_in_the_middle_of_a_hundred_batches(memory_office: Office) -> None:
    """What was answered is there once; what was not is there once after all; the version never goes back."""
    office = memory_office
    answered: list[str] = []
    versions: list[int] = []
    sent = 0

    async def write_on(memory: Memory, stop: asyncio.Event) -> None:
        nonlocal sent
        while not stop.is_set() or sent < 100:
            index, sent = sent, sent + 1
            write = MemoryWrite(
                sender="scout", nodes=(note(3 * index), note(3 * index + 1), note(3 * index + 2)), insist=True
            )
            while True:
                try:
                    written = await memory.write(write)
                except Refused:
                    raise
                except MailroomError:
                    await asyncio.sleep(0.05)
                    continue
                break
            answered.extend(node.id for node in write.nodes)
            versions.append(written.version)

    async with client(office) as memory:
        stop = asyncio.Event()
        writers = [asyncio.create_task(write_on(memory, stop)) for _ in range(4)]
        for _ in range(KILLS):
            before = len(answered)
            await eventually(lambda before=before: len(answered) > before + 12, 60)  # type: ignore[misc]
            office.kill("memory")
            office.start("memory")
            await office.ready("memory")
        stop.set()
        await asyncio.gather(*writers)
        found = await every_node(memory)
        assert sorted(found) == sorted(answered) == sorted(f"n{index}" for index in range(3 * sent))
        stats = await memory.stats()
        assert stats["nodes"] == 3 * sent
        assert stats["version"] == max(versions)


@contextlib.asynccontextmanager
async def versions_heard(office: Office) -> AsyncIterator[list[int]]:
    """The versions of memory that an agent hears of, as they come."""
    heard: list[int] = []
    listener = await office.connect("critic")

    async def hear(subject: str, payload: bytes, headers: dict[str, str]) -> None:
        heard.append(json.loads(payload)["version"])

    await listener.subscribe(subjects.GRAPH_VERSION, hear)
    try:
        yield heard
    finally:
        await listener.close()


async def test_the_version_only_grows_for_whoever_listens(memory_office: Office) -> None:
    """Killed at once after an answer, it announces the version of that answer when it is back."""
    office = memory_office
    async with versions_heard(office) as heard, client(office) as memory:
        for index in range(8):
            version = (await memory.add(note(index), insist=True)).version
            if index % 2:
                office.kill("memory")
                office.start("memory")
                await office.ready("memory")
            await eventually(lambda version=version: version in heard)  # type: ignore[misc]
        assert heard == sorted(set(heard))


async def test_killed_with_all_its_writes_in_the_log_alone_it_is_the_same(memory_office: Office) -> None:
    """Tables are far behind: what was answered is found at once by its words, then by meaning too."""
    office = memory_office
    async with client(office) as memory, client(office, subjects.USER) as person:
        for number in range(30):
            await memory.add(
                Node(id=f"l{number}", title=f"Lighthouse {number} burns oil of kind {number * 7}"),
                edges=[Edge(from_id=f"l{number}", to_id="l0")] if number else [],
            )
        version = (await memory.add(Node(id="l0", title="Lighthouse 0 was torn down"), insist=True)).version
        with pytest.raises(Refused):
            await memory.add(Node(id="again", title="Lighthouse 3 burns oil of kind 21"))
        await memory.retire("l7")
        await memory.brief("scout")

        async def picture() -> list[object]:
            return [
                await every_node(memory),
                [edge async for edge in memory.iterate_edges()],
                await memory.get("l0", "l7", at=version - 1),
                [(hit.node.id, hit.score) for hit in await memory.search("which burns oil of kind 70?")],
                await person.versions(),
                amended(await memory.brief("scout", at=version), id="same").to_json(),
            ]

        before = await picture()
        for _ in range(2):
            office.kill("memory")
            office.start("memory")
            await office.ready("memory")
            (found, *_) = await memory.search("burns oil of kind 70", limit=1)
            assert found.node.id == "l10"
            await eventually(lambda: is_embedded(memory), 20)
            assert await picture() == before
        with pytest.raises(Refused):  # the gate compares with what was applied again
            await memory.add(Node(id="again", title="Lighthouse 3 burns oil of kind 21"))


async def test_what_was_answered_is_not_judged_again_after_a_kill(memory_office: Office) -> None:
    """Both are in one batch then, in which the gate would find that the second says what the first says."""
    office = memory_office
    async with client(office) as memory:
        await memory.add(Node(id="first", title="The lamp of the lighthouse burns paraffin"))
        await memory.retire("first")
        await memory.add(Node(id="second", title="The lamp of the lighthouse burns paraffin"))
        office.kill("memory")
        office.start("memory")
        await office.ready("memory")
        assert set(await every_node(memory)) >= {"second"}


@pytest.mark.parametrize("flushed", [False, True])
async def test_a_log_that_lost_its_end_goes_on_above_all_that_was_announced(
    memory_office: Office, flushed: bool
) -> None:
    """As after a power cut without syncs: memory keeps what its tables have, and no version comes twice."""
    office = memory_office
    stream, copy = office.config.state_dir / "nats", office.config.state_dir.parent / "copy"
    (stream,) = stream.glob("**/streams/MEMORY")
    async with versions_heard(office) as heard, client(office) as memory:
        for index in range(5):
            await memory.add(note(index), insist=True)
        shutil.copytree(stream, copy)
        for index in range(5, 9):
            version = (await memory.add(note(index), insist=True)).version
        await eventually(lambda: version in heard)
        office.signal("memory", signal.SIGTERM if flushed else signal.SIGKILL)
        office.processes["memory"].wait(20)
    office.server.kill()
    shutil.rmtree(stream)
    shutil.copytree(copy, stream)
    await office.server.restart()
    office.start("memory")
    await office.ready("memory")
    async with client(office) as memory:
        kept = await every_node(memory)
        assert set(kept) == {f"n{index}" for index in range(9 if flushed else 5)}
        added = await memory.add(note(50), insist=True)
        assert added.version > version
    office.kill("memory")
    office.start("memory")
    await office.ready("memory")
    async with client(office) as memory:
        assert set(await every_node(memory)) == {*kept, *added.ids}
        assert (await memory.add(note(99), insist=True)).version == added.version + 1


async def test_without_its_folder_it_is_made_anew_from_the_log(memory_office: Office) -> None:
    office = memory_office
    async with client(office) as memory:
        await memory.add(
            Node(id="port", title="The broker listens on port 4222", body="As nats-server does by default."),
            Node(id="sync", title="Writes are synced before they are answered", kind="decision"),
            edges=[Edge(from_id="port", to_id="sync", weight=0.6)],
        )
        await memory.add(Node(id="port", title="The broker listens on port 4333"), insist=True)
        with pytest.raises(Refused):
            await memory.add(Node(id="thin", title="Hm"))
        with pytest.raises(Refused):
            await memory.add(
                Node(id="loose", title="An edge to nowhere"), edges=[Edge(from_id="loose", to_id="x")]
            )
        await memory.retire("sync")

        async def picture() -> list[object]:
            return [
                await memory.get("port", "sync", "thin", "loose"),
                await memory.get("port", at=1),
                await memory.search("which port has the broker"),
                (await memory.stats())["version"],
                [edge async for edge in memory.iterate_edges()],
            ]

        before = await picture()
        office.signal("memory", signal.SIGTERM)
        office.processes["memory"].wait(20)
        shutil.rmtree(office.config.state_dir / "memory")
        office.start("memory")
        await office.ready("memory")
        await eventually(lambda: is_embedded(memory), 30)
        assert await picture() == before


async def is_embedded(memory: Memory) -> bool:
    return not (await memory.health())["not_embedded"]


@pytest.mark.parametrize("damage", ["manifest gone", "rows overwritten", "commit table overwritten"])
async def test_what_is_damaged_is_moved_aside_and_made_anew_from_the_log(
    memory_office: Office, damage: str
) -> None:
    office, folder = memory_office, memory_office.config.state_dir / "memory"
    async with client(office) as memory:
        await memory.write(MemoryWrite(sender="scout", nodes=tuple(map(note, range(40))), insist=True))
        await memory.write(MemoryWrite(sender="scout", nodes=(note(40),), insist=True))
        before = await every_node(memory)
    office.signal("memory", signal.SIGTERM)
    await eventually(lambda: office.processes["memory"].poll() is not None)
    match damage:
        case "manifest gone":
            files = list(folder.glob("nodes.lance/_versions/*.manifest"))
        case "rows overwritten":
            files = list(folder.glob("nodes.lance/data/*.lance"))
        case _:
            files = [folder / "ledger.sqlite"]
    assert files
    for file in files:
        if damage == "manifest gone":
            file.unlink()
        else:
            file.write_bytes(random.Random(1).randbytes(file.stat().st_size))
    office.start("memory")
    await office.ready("memory")
    async with client(office) as memory:
        await eventually(lambda: has_caught_up(memory), 30)
        assert await every_node(memory) == before
    (aside,) = folder.parent.glob("memory.damaged-*")
    log = (office.config.logs / "memory.log").read_text()
    assert f'"moved_to": "{aside}"' in log
    if damage == "commit table overwritten":  # a second time it is a person's to look at
        office.kill("memory")
        for file in folder.glob("ledger.sqlite*"):
            file.write_bytes(b"no database" * 1_000)
        office.start("memory")
        await eventually(lambda: office.processes["memory"].poll() is not None, 30)
        assert "is damaged" in (office.config.logs / "memory.log").read_text().splitlines()[-1]
        assert list(folder.parent.glob("memory.damaged-*")) == [aside]


async def has_caught_up(memory: Memory) -> bool:
    health = await memory.health()
    return bool(health["status"] == "ok")


async def test_made_anew_on_demand_while_it_runs(memory_office: Office) -> None:
    async with client(memory_office, "user") as memory:
        for index in range(50):
            await memory.add(note(index), insist=True)
        version = (await memory.stats())["version"]
        await memory.rebuild()

        async def ready() -> bool:
            return bool((await memory.health())["status"] == "ok")

        await eventually(ready, 30)
        assert len(await every_node(memory)) == 50
        assert (await memory.stats())["version"] == version
        assert (await memory.add(note(51), insist=True)).version == version + 1


async def test_a_second_daemon_stands_by_and_takes_over(memory_office: Office) -> None:
    office = memory_office
    async with client(office) as memory:
        await memory.add(note(1), insist=True)
        office.start("memory", "second")
        log = office.config.logs / "memorysecond.log"
        await eventually(lambda: "standing_by" in log.read_text(), 20)
        await memory.add(note(2), insist=True)
        office.kill("memory")
        await office.ready("memory", "second")
        await memory.add(note(3), insist=True)
        assert len(await every_node(memory)) == 3


@pytest.mark.timeout(150)
async def test_one_that_was_frozen_ends_when_another_has_taken_over(
    memory_office: Office, tmp_path: Path
) -> None:
    """The other one has a folder of its own, as on another machine: the lease alone tells them apart."""
    office = memory_office
    async with client(office) as memory:
        await memory.add(note(1), insist=True)
        office.signal("memory", signal.SIGSTOP)
        elsewhere = tmp_path / "elsewhere"
        shutil.copytree(office.config.keys, elsewhere / "keys")
        office.environment["MAILROOM_STATE_DIR"] = str(elsewhere)
        frozen = office.processes["memory"]
        office.start("memory", "second")
        begun = time.monotonic()
        await eventually(lambda: any(elsewhere.glob("run/memory-*.alive")), 60)
        assert time.monotonic() - begun < 40
        office.signal("memory", signal.SIGCONT)
        await eventually(lambda: frozen.poll() is not None, 30)
        await memory.add(note(2), insist=True)
        assert len(await every_node(memory)) == 2


BAD_WRITES: list[dict[str, object]] = [
    {"nodes": [{"title": "t" * 300}]},
    {"nodes": [{"title": "Too important to be true", "importance": 7}]},
    {"nodes": [{"title": "A vector of nothing", "embedding": [float("nan")] * 384}]},
    {"nodes": [{"title": "A short vector", "embedding": [1.0, 0.0]}]},
    {"nodes": [{"title": "Tags without end", "tags": [f"t{index}" for index in range(33)]}]},
    {"edges": [{"from": "here", "to": "nowhere"}]},
    {"edges": [{"from": "here", "to": "there", "relation": "is_fond_of"}]},
    {"edges": [{"from": "here", "to": "here"}]},
    {"edges": [{"from": "here", "to": "there", "weight": 1.5}]},
    {"edges": [{"from": "there", "to": "here", "relation": "supersedes"}]},
    {"retire": ["nobody"]},
]


@pytest.mark.asyncio(loop_scope="module")
async def test_bad_input_is_refused_and_nothing_of_it_stored(lasting_office: Office) -> None:
    """Each in the company of a good node, which must not be stored either; and all are told why."""
    office = lasting_office
    scout = await office.connect("scout")
    async with client(office) as memory:
        await memory.add(
            Node(id="here", title="Here is one end of it"),
            Node(id="there", title="There is the other end of it"),
            edges=[Edge(from_id="here", to_id="there", relation=Relation.SUPERSEDES)],
            insist=True,
        )
        before = await memory.stats()
        for body in BAD_WRITES:
            write_id = generate_id()
            nodes = [{"id": "good", "title": "A good one in bad company"}, *body.get("nodes", [])]  # type: ignore[misc]
            message = {"type": "memory_write.v1", "id": write_id, "insist": True, **body, "nodes": nodes}
            stored = await scout.store(subjects.memory_write("scout"), json.dumps(message).encode())
            await refused_or_buried(office, write_id, stored["seq"])
            after = await memory.stats()
            assert (after["nodes"], after["edges"]) == (before["nodes"], before["edges"]), body
        await memory.add(note(7), insist=True)
    await scout.close()


async def test_a_full_disk_refuses_writes_serves_reads_and_ends(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "memory"
    folder.mkdir(parents=True)
    if os.geteuid() or not mount(folder, "size=3m"):
        pytest.skip("a small disk can be mounted by root only")
    office = Office(tmp_path, MAILROOM_LINKER_INTERVAL="3600")
    try:
        await office.open(["memory"])
        async with client(office) as memory:
            stored = await fill(memory)
            assert (await memory.health())["status"] == "degraded"
            assert len(await every_node(memory)) == 20 * stored
            assert [hit.node.id for hit in await memory.search("Bulk 0 of 0", limit=1)] == ["b0-0"]
            office.kill("memory")  # with what was answered in its log alone, and no room for it
            office.start("memory")
            await office.ready("memory")
            assert len(await every_node(memory)) == 20 * stored
            assert mount(folder, "remount,size=60m")
            await memory.add(note(1), insist=True)
            assert (await memory.health())["status"] == "ok"
            assert len(await every_node(memory)) == 20 * stored + 1
            office.kill("memory")
            office.start("memory")
            await office.ready("memory")
            # What was refused is in the log, and stays refused.
            assert len(await every_node(memory)) == 20 * stored + 1
    finally:
        await office.close()
        unmount(folder)


async def fill(memory: Memory) -> int:
    """Write batches of 20 until one is refused; returns how many were taken."""
    for batch in range(100):
        try:
            await memory.add(*bulk(batch), insist=True)
        except Refused as refused:
            assert "is full" in str(refused)
            return batch
    raise AssertionError("the disk never was full")


def bulk(batch: int) -> list[Node]:
    return [
        Node(
            id=f"b{batch}-{index}",
            title=f"Bulk {index} of {batch}",
            body=random.randbytes(2_000).hex(),
            embedding=vector(20 * batch + index),
        )
        for index in range(20)
    ]


def mount(folder: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True).returncode == 0


def unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder)], check=True)


async def refused_or_buried(office: Office, write_id: str, seq: int) -> None:
    """A write that can be read is answered; one that cannot has a dead letter. Both say why."""

    async def said() -> bool:
        records = await office.stored("memory.write.memory", subjects.MEMORY)
        if any(json.loads(data).get("cause") == write_id for _, _, data in records):
            return True
        letters = await office.stored("dead.memory")
        return any(json.loads(data).get("stream_seq") == seq for _, _, data in letters)

    async def answered() -> bool:
        query = json.dumps({"id": write_id, "seq": seq}).encode()
        try:
            answer = json.loads(await asyncio.wait_for(office.user.request("memory.written", query), 2))
        except (TimeoutError, MailroomError):
            return False
        return bool(answer["error"])

    async def either() -> bool:
        return await said() or await answered()

    await eventually(either, 20)


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_no_message_at_all_leaves_it_alive(lasting_office: Office) -> None:
    office = lasting_office
    scout = await office.connect("scout")
    for payload in (b"\xff\xfe\xfa", b"", b"{", b'{"type": "memory_write.v1"}', b"[" * 100_000):
        await scout.store(subjects.memory_write("scout"), payload)
    async with client(office) as memory:
        await memory.add(note(1), insist=True)
        with pytest.raises(MailroomError):
            await memory.add(
                Node(id="huge", title="Ten megabytes of it", body="x" * 999_999), *many_bodies(), insist=True
            )
        for verb in subjects.MEMORY_VERBS:
            if verb in ("stats", "health"):
                continue
            with pytest.raises(Refused):
                await office.user.request(f"memory.{verb}", b"\xff\xfe rubbish")
        with pytest.raises(Refused, match="depth"):
            await office.user.request("memory.traverse", b'{"start": ["n1"], "depth": 10000}')
        assert [node.id for node in await memory.get("n1")] == ["n1"]
    await scout.close()


def many_bodies() -> list[Node]:
    return [Node(id=f"huge{index}", title="Ten megabytes", body="x" * 1_000_000) for index in range(10)]


# --- requests in hand ----------------------------------------------------------------------------


async def test_what_a_killed_daemon_was_asked_is_given_up_at_once(memory_office: Office) -> None:
    """Who asked may ask the next one, instead of waiting for an answer that never comes."""
    async with client(memory_office) as memory:
        memory_office.signal("memory", signal.SIGSTOP)
        asking = asyncio.create_task(memory.embed("a text"))
        await asyncio.sleep(0.2)
        memory_office.kill("memory")
        begun = time.monotonic()
        with pytest.raises(NoResponders, match="The memory daemon does not answer"):
            await asking
        assert time.monotonic() - begun < 10


async def test_what_was_asked_when_the_server_was_killed_is_asked_again(memory_office: Office) -> None:
    async with client(memory_office) as memory:
        memory_office.signal("memory", signal.SIGSTOP)
        asking = asyncio.create_task(memory.embed("a text"))
        await asyncio.sleep(0.2)
        await memory_office.server.restart()
        memory_office.signal("memory", signal.SIGCONT)
        async with asyncio.timeout(20):
            (embedded,) = await asking
    assert len(embedded) == 384
