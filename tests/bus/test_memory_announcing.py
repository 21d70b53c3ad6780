"""Graph versions, as whoever listens hears them."""

import asyncio
import json

from services.memory.writes.write_log import Announcer
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
    assert heard == [7, 8, 9, 10, 4]


async def test_commits_that_follow_one_another_are_announced_together(server: Server) -> None:
    memory, engineer = await server.connect("memory"), await server.connect("engineer")
    heard: list[GraphVersion] = []

    async def hear(subject: str, data: bytes, headers: dict[str, str]) -> None:
        heard.append(GraphVersion.from_json(data))

    await engineer.subscribe(subjects.GRAPH_VERSION, hear)
    announcer = Announcer(memory)
    running = asyncio.create_task(announcer.run(0))
    for version in range(1, 40):
        kind = "fact" if version % 2 else "event"
        announcer.put(GraphVersion(version=version, kinds=(kind,), ids=(f"n{version}",)))
        await asyncio.sleep(0.01)
    await eventually(lambda: bool(heard) and heard[-1].version == 39)
    running.cancel()
    assert len(heard) < 15
    assert sorted({name for event in heard for name in event.ids}) == sorted(f"n{i}" for i in range(1, 40))
    assert {kind for event in heard for kind in event.kinds} == {"fact", "event"}
