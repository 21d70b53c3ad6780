"""Requests to the server while it reloads its settings."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

import pytest

from shared import subjects
from shared.bus import Bus, Entry
from shared.contracts import generate_id
from tests.bus.conftest import AGENTS
from tests.support.server import Server

SECONDS = 3.0


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path, AGENTS)
    try:
        await server.start()
        yield server
    finally:
        await server.close()


async def read_on(bus: Bus, until: float) -> int:
    count = 0
    while time.monotonic() < until:
        assert await bus.last(subjects.OFFICE, subjects.goal("none")) is None
        count += 1
    return count


async def write_on(bus: Bus, until: float) -> int:
    count = 0
    while time.monotonic() < until:
        await bus.store(subjects.mail("engineer", subjects.USER), b"x")
        count += 1
    return count


async def commit_on(bus: Bus, until: float) -> int:
    count = 0
    while time.monotonic() < until:
        subject = subjects.mail("engineer", subjects.USER)
        await bus.commit([Entry(subject, b"x", generate_id()), Entry(subject, b"y", generate_id())])
        count += 1
    return count


@pytest.mark.parametrize("work", [read_on, write_on, commit_on])
async def test_it_answers_while_it_reloads(
    server: Server, work: Callable[[Bus, float], Coroutine[None, None, int]]
) -> None:
    bus = await server.connect(subjects.USER)
    until = time.monotonic() + SECONDS
    readers = [asyncio.create_task(work(bus, until)) for _ in range(4)]
    while time.monotonic() < until:
        await asyncio.to_thread(server.reload)
        await asyncio.sleep(0.05)
    assert all(count for count in await asyncio.gather(*readers))
    await bus.close()
