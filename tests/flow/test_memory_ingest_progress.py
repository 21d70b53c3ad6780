"""Taking in a long file: its progress is told, it is found by words at once, and nobody else waits for it."""

import asyncio
import time
from pathlib import Path

import msgspec
import pytest

from services.cli.commands.memory import ingest
from shared import subjects
from shared.contracts import GraphVersion, MemoryWrite, Node
from shared.memory import Memory
from tests.bench.ingest_files import make_markdown
from tests.support.office import Office
from tests.support.waiting import eventually

SIZE = 75_000
"""Characters: over five hundred passages, which take some seconds to embed."""
SOON = 3.0
"""Seconds within which another's search or write is answered, on a machine that runs other tests too."""


async def test_a_long_file_tells_its_progress_and_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seconds in (("POLL", 0.02), ("ASK_EVERY", 0.05), ("TELL_EVERY", 0.05)):
        monkeypatch.setattr(ingest, name, seconds)
    running = Office(tmp_path)
    try:
        await running.open(["memory"])
        await asyncio.to_thread(running.server.start_gateway)
        for variable, value in running.environment.items():
            monkeypatch.setenv(variable, value)
        folder, memory = running.config.ingest, Memory(running.user)
        other = Memory(await running.connect("scout"))
        await eventually((folder / "processed").exists)
        versions: list[int] = []

        async def hear(_: str, data: bytes, __: dict[str, str]) -> None:
            versions.append(GraphVersion.from_json(data).version)

        await running.user.subscribe(subjects.AUDIT_PREFIX + subjects.GRAPH_VERSION, hear)
        await asyncio.to_thread(
            (folder / "long.md").write_text, f"{make_markdown(SIZE)}\nThe zebra stands by.\n"
        )
        capsys.readouterr()
        following = asyncio.create_task(asyncio.to_thread(ingest._wait, folder, ["long.md"], as_json=True))

        async def is_stored() -> bool:
            far = (await memory.health())["ingest"]["under_way"].get("long.md")
            return bool(far and far["stored"] == far["of"])

        await eventually(is_stored, 60)
        before = len(versions)
        hits = await memory.search("zebra")
        assert "zebra" in hits[0].node.body
        waited = []
        while not following.done():
            begun = time.monotonic()
            await other.search("who repaired the printer in Oslo?")
            number = len(waited)
            node = Node(title=f"Shelf {number} holds {number * 7} boxes of toner", kind="observation")
            await other.write(MemoryWrite(nodes=(node,), insist=True))
            waited.append(time.monotonic() - begun)
            await asyncio.sleep(0.1)
        assert await following == []
        assert len(waited) > 3
        assert sorted(waited)[len(waited) // 2] < SOON
        told = [
            msgspec.json.decode(line, type=ingest.TakenIn) for line in capsys.readouterr().err.splitlines()
        ]
        far = [(each.stored, each.embedded) for each in told if each.passages]
        passages = max(each.passages for each in told)
        assert passages > 500
        assert all(each.passages in (0, passages) for each in told)
        assert (passages, 0) <= max(far)  # all of it stored
        between = {embedded for stored, embedded in far if stored == passages and 0 < embedded < passages}
        assert len(between) > 3
        assert sorted(embedded for _, embedded in far) == [embedded for _, embedded in far]
        assert any(each.seconds_left for each in told)
        assert "passages stored" in str(told[-2])
        assert before
        assert versions == sorted(versions)
        assert len(versions) - before >= len(waited)  # writes of others are told meanwhile
    finally:
        await running.close()
