"""Copies of memory: standbys take over from a writer that is gone or frozen, readers answer beside it."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from shared.contracts import ListQuery, Node
from shared.errors import BusError
from shared.memory import Memory
from shared.tasks.installed_agents import InstalledAgent
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


async def test_a_standby_takes_over_from_one_that_was_killed(office: Office) -> None:
    async with client(office) as memory:
        for number in range(20):
            await memory.add(note(number), insist=True)
        await open_copies(office, ["standby"])
        await eventually(lambda: copies(memory), 20)
        await memory.add(note(20), insist=True)
        office.kill("memory")
        begun = time.monotonic()
        await memory.add(note(21), insist=True)
        took = time.monotonic() - begun
        assert await everything(memory) == {f"n{number}" for number in range(22)}
        assert (await memory.search("Boat 20 lies at pier 140"))[0].node.id == "n20"
        print("took over after", took)
