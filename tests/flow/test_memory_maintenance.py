"""The daemon's own work on the real memory, while others write to it."""

from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest

from services.memory import maintenance as maintenance_module
from services.memory.maintenance import Maintenance
from shared import settings
from shared.contracts import MemoryWrite, MemoryWritten, Node, Source
from tests.support.direct_memory import DirectMemory
from tests.support.logs import capture_log

OLD = Node(
    id="old",
    title="Deploys of the shop happen on Tuesdays",
    kind="decision",
    created_at="2026-03-01T00:00:00+00:00",
)
NEW = msgspec.structs.replace(
    OLD,
    id="new",
    title="We moved the deploys of the shop to Thursdays",
    created_at="2026-03-09T00:00:00+00:00",
)


async def test_nothing_is_linked_before_all_have_their_vectors(tmp_path: Path) -> None:
    config = settings.load({"MAILROOM_STATE_DIR": str(tmp_path)})
    nodes = tuple(
        msgspec.structs.replace(node, source=Source(session=f"{node.id}.md", channel="ingest"))
        for node in (OLD, NEW)
    )
    async with DirectMemory.open(config) as memory:
        await memory.write(MemoryWrite(sender="memory", nodes=nodes, insist=True))
        upkeep = Maintenance(memory.engine, Mock(), Mock(), memory.write, config)
        assert (await upkeep.answer("trigger"))["rounds"] == 0
        assert upkeep.health()["not_embedded"] == 2
        await memory.engine.embed_missing()
        status = await upkeep.answer("trigger")
    assert (status["rounds"] > 0, status["superseded"]) == (True, 1)


async def test_a_round_that_was_overtaken_is_repeated_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = capture_log(monkeypatch, maintenance_module)
    config = settings.load({"MAILROOM_STATE_DIR": str(tmp_path)})
    async with DirectMemory.open(config) as memory:
        await memory.write(MemoryWrite(sender="user", nodes=(OLD, NEW), insist=True))
        answers: list[str] = []

        async def submit(write: MemoryWrite) -> MemoryWritten:
            if not answers:  # a person writes between the linker's reading and its writing
                await memory.write(
                    MemoryWrite(
                        sender="user", nodes=(msgspec.structs.replace(OLD, tags=("shop",)),), insist=True
                    )
                )
            written = await memory.write(write)
            answers.append(written.error)
            return written

        upkeep = Maintenance(memory.engine, Mock(), Mock(), submit, config)
        status = await upkeep.answer("trigger")
        nodes = await memory.nodes()
    assert answers[0].endswith("after it was read")
    assert "" in answers
    assert (status["problem"], status["superseded"]) == ("", 1)
    assert nodes[OLD.title].valid_to
    assert nodes[OLD.title].tags == ("shop",)
    assert [entry["event"] for entry in logged] == ["round_repeated"]


async def test_what_is_done_weekly_is_done_at_once_if_asked(tmp_path: Path) -> None:
    config = settings.load({"MAILROOM_STATE_DIR": str(tmp_path), "MAILROOM_MEMORY_KEEP": "decision=90"})
    async with DirectMemory.open(config) as memory:
        recent = msgspec.structs.replace(NEW, created_at=datetime.now(UTC).isoformat())
        aged = msgspec.structs.replace(OLD, updated_at=OLD.created_at)
        await memory.write(MemoryWrite(sender="user", nodes=(aged, recent), insist=True))
        status = await Maintenance(memory.engine, Mock(), Mock(), memory.write, config).answer("consolidate")
        assert list(await memory.nodes()) == [NEW.title]
    assert status["expired"] == 1
