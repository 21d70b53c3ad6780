"""Graph versions, as whoever listens hears them."""

import asyncio
import json

from services.memory.writes.batcher import Announcer
from shared import subjects
from shared.contracts import GraphVersion
from tests.support.server import Server
from tests.support.waiting import eventually


async def test_each_version_is_heard_once_also_where_they_are_counted_anew(server: Server) -> None:
    memory, engineer = await server.connect("memory"), await server.connect("engineer")
    heard: list[int] = []

    async def hear(subject: str, data: bytes, headers: dict[str, str]) -> None:
        heard.append(json.loads(data)["version"])

    await engineer.subscribe(subjects.GRAPH_VERSION, hear)

    async def run(stored: int, *events: tuple[int, bool]) -> None:
        announcer = Announcer(memory)
        for version, replayed in events:
            announcer.put(GraphVersion(version=version), replayed=replayed)
        running = asyncio.create_task(announcer.run(stored))
        await eventually(lambda: bool(heard) and heard[-1] == events[-1][0])
        running.cancel()

    await run(7, (8, True), (9, False))
    assert heard == [7, 8, 9]
    await run(0, (5, True), (9, True), (10, False))
    assert heard == [7, 8, 9, 10]
    await run(0, (2, True), (3, False), (4, False))
    assert heard == [7, 8, 9, 10, 3, 4]
