"""Copies of memory: standbys take over from a writer that is gone or frozen, readers answer beside it."""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from shared.bus.service import CREDIT
from shared.contracts import ListQuery, Node
from shared.errors import BusError
from shared.memory import Memory
from shared.tasks.installed_agents import InstalledAgent
from tests.support.erasing import erasing
from tests.support.office import Office
from tests.support.waiting import eventually

READER = "reader"


def note(number: int, **fields: object) -> Node:
    return Node(id=f"n{number}", title=f"Boat {number} lies at pier {number * 7}", **fields)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def client(office: Office, name: str = "scout") -> AsyncIterator[Memory]:
    bus = await office.connect(name)
    try:
        yield Memory(bus)
    finally:
        await bus.close()


async def open_copies(office: Office, standbys: Sequence[str] = (), readers: Sequence[str] = ()) -> None:
    """Start further processes of memory, and wait until the writer knows of them."""
    member = office.members["memory"]
    for name in standbys:
        office.start("memory", name)
    office.members["memory"] = as_reader(member)
    for name in readers:
        office.start("memory", name)
    office.members["memory"] = member
    for name in (*standbys, *readers):
        await office.ready("memory", name)


def as_reader(member: InstalledAgent) -> InstalledAgent:
    return msgspec.structs.replace(member, command=(*member.command, READER))


async def copies(memory: Memory) -> list[dict[str, object]]:
    found: list[dict[str, object]] = (await memory.health()).get("copies", [])
    return found


async def everything(memory: Memory) -> set[str]:
    return {node.id async for node in memory.iterate_nodes(ListQuery(limit=100))}


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """An office of the memory daemon alone, for a test that ends processes."""
    office = Office(tmp_path, MAILROOM_LINKER_INTERVAL="3600")
    try:
        await office.open(["memory"])
        yield office
    finally:
        await office.close()


def last_lines(office: Office, name: str) -> str:
    return (office.config.logs / f"memory{name}.log").read_text()


async def test_a_standby_takes_over_from_one_that_was_killed(office: Office) -> None:
    async with client(office) as memory:
        for number in range(20):
            await memory.add(note(number), insist=True)
        await open_copies(office, ["standby"])
        await eventually(lambda: copies(memory), 20)
        await memory.add(note(20), insist=True)
        writes = [asyncio.create_task(memory.add(note(number), insist=True)) for number in range(100, 160)]
        await asyncio.sleep(0.05)
        office.kill("memory")  # in the middle of a batch
        await asyncio.gather(*writes)
        written = {f"n{number}" for number in (*range(21), *range(100, 160))}
        assert await everything(memory) == written
        assert (await memory.search("Boat 20 lies at pier 140"))[0].node.id == "n20"
        # The one that comes back follows what it was ahead of, in the folder that it had
        office.start("memory")
        await office.ready("memory")
        await eventually(lambda: copies(memory), 20)
        await memory.add(note(22), insist=True)
        office.kill("memorystandby")
        assert (await memory.add(note(23), insist=True)).version
        assert await everything(memory) == written | {"n22", "n23"}


async def test_one_that_was_frozen_writes_nothing_when_it_wakes(office: Office) -> None:
    """The standbys are elsewhere, so they cannot kill its process."""
    script = Path(__file__).parents[1] / "support" / "memory_elsewhere.py"
    async with client(office) as memory:
        await memory.add(note(1), insist=True)
        member = msgspec.structs.replace(office.members["memory"], command=(sys.executable, str(script)))
        office.members["memory"] = member
        await open_copies(office, ["a", "b"])
        await eventually(lambda: has(memory, 2), 20)
        writes = [asyncio.create_task(memory.add(note(number), insist=True)) for number in range(10, 40)]
        await asyncio.sleep(0.02)
        office.signal("memory", signal.SIGSTOP)
        begun = time.monotonic()
        await asyncio.gather(*writes)
        assert time.monotonic() - begun < 15
        assert sum("took_over" in last_lines(office, name) for name in "ab") == 1
        before = await office.stored("event.memory.graph_version")
        log = await office.stored_count("MEMORY")
        frozen = office.processes["memory"]
        office.signal("memory", signal.SIGCONT)
        await eventually(lambda: frozen.poll() is not None, 30)
        assert frozen.poll() == 75
        assert await office.stored_count("MEMORY") == log
        after = await office.stored("event.memory.graph_version")
        assert after == before
        versions = [msgspec.json.decode(data)["version"] for _, __, data in after]
        assert versions == sorted(set(versions))
        await memory.add(note(2), insist=True)
        assert await everything(memory) == {"n1", "n2", *(f"n{number}" for number in range(10, 40))}


async def has(memory: Memory, number: int) -> bool:
    with contextlib.suppress(BusError):
        return len(await copies(memory)) == number
    return False


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def read_office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """An office with two readers of memory, for tests that leave its processes as they are."""
    office = Office(tmp_path_factory.mktemp("office"), MAILROOM_LINKER_INTERVAL="3600")
    try:
        await office.open(["memory"])
        await open_copies(office, readers=["r1", "r2"])
        yield office
    finally:
        await office.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_what_was_just_written_is_found_whoever_answers(read_office: Office) -> None:
    async with client(read_office) as memory:
        for number in range(30):
            await memory.add(note(number), insist=True)
            assert [found.id for found in await memory.get(f"n{number}")] == [f"n{number}"]
            assert (await memory.search(note(number).title))[0].node.id == f"n{number}"
            await memory.retire(f"n{number}")
            assert f"n{number}" not in [hit.node.id for hit in await memory.search(note(number).title)]


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_told_one_agent_alone_no_reader_tells_another(read_office: Office) -> None:
    folder = read_office.config.ingest / "agents" / "scout"
    folder.mkdir(parents=True)
    (folder / "secret.md").write_text(
        "# Treasure\n\nThe treasure lies beneath the third bench of the harbour.\n"
    )
    async with client(read_office) as scout, client(read_office, "critic") as critic:

        async def found() -> bool:
            """Any process may answer; a copy finds files by meaning once it has the vectors."""
            return all([await scout.search("treasure beneath the bench") for _ in range(12)])

        await eventually(found, 30)
        (ids,) = {hit.node.id for hit in await scout.search("treasure beneath the bench", limit=1)}
        for _ in range(30):
            assert not [
                hit for hit in await critic.search("treasure beneath the bench") if hit.node.id == ids
            ]
            assert await critic.get(ids) == []
            assert await scout.get(ids)


async def level(memory: Memory) -> bool:
    found = await copies(memory)
    return len(found) == 2 and not any(each["behind"] for each in found)


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_forgotten_is_gone_from_all_copies(read_office: Office) -> None:
    office, secret = read_office, "The combination of the safe is heliotrope"
    async with client(office) as memory, client(office, "user") as user, erasing(office.server):
        await memory.add(
            Node(id="safe", title=secret),
            Node(id="quote", title="Said in the meeting", body=f"They put it so: {secret}. We wait."),
            insist=True,
        )
        await memory.get("safe")
        await eventually(lambda: level(memory), 20)
        office.kill("memoryr2")  # it has to learn of it when it is back
        await user.forget("safe")
        await eventually(lambda: forgot(memory, 1), 40)
        await open_copies(office, readers=["r2"])
        await eventually(lambda: forgot(memory, 2), 40)
        for _ in range(10):
            (quote,) = await memory.get("quote")
            assert quote.body == "They put it so: [forgotten]. We wait."
            assert await memory.search("combination of the safe", kinds=("fact",), limit=1) != []
        texts = (secret.encode(), b"heliotrope")
        files = [path for path in office.config.state_dir.rglob("*") if path.is_file()]
        assert [str(path) for path in files if any(text in path.read_bytes() for text in texts)] == []


async def forgot(memory: Memory, number: int) -> bool:
    health = await memory.health()
    found = health.get("copies", [])
    return (
        "forgetting" not in health
        and len(found) == number
        and not any(each["forgetting"] or each["behind"] for each in found)
    )


@pytest.mark.asyncio(loop_scope="module")
async def test_a_reader_that_stands_still_is_not_asked(read_office: Office) -> None:
    async with client(read_office) as memory:
        await memory.add(note(77), insist=True)
        await eventually(lambda: level(memory), 20)
        read_office.signal("memoryr1", signal.SIGSTOP)
        try:
            took = []
            for _ in range(60):
                begun = time.monotonic()
                assert await memory.get("n77")
                took.append(time.monotonic() - begun)
            assert sum(each > 0.9 for each in took) <= 2 * CREDIT, took
            assert max(took[-10:]) < 0.9, took
        finally:
            read_office.signal("memoryr1", signal.SIGCONT)
        await eventually(lambda: level(memory), 20)
