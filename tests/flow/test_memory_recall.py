"""The recall of planted facts: searched for among what memory holds, and remembered by day."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from services.gateway.metrics.computing import compute_recall
from services.memory import maintenance
from services.memory.maintenance import RecallService
from shared import settings
from shared.contracts import MemoryWrite, Node
from shared.memory import Memory, RecallMeasured
from tests.support.direct_memory import DirectMemory
from tests.support.office import Office

pytestmark = pytest.mark.timeout(60)

TODAY = f"{datetime.now(UTC):%Y-%m-%d}"
OWNERS = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus")


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[DirectMemory]:
    async with DirectMemory.open(settings.load({"MAILROOM_STATE_DIR": str(tmp_path / "state")})) as memory:
        yield memory


async def write(memory: DirectMemory, titles: Sequence[str]) -> None:
    nodes = tuple(Node(id=f"n{hash(title)}", kind="fact", title=title) for title in titles)
    written = await memory.write(MemoryWrite(sender="user", nodes=nodes, insist=True))
    assert not written.error


def chatter(first: int, many: int) -> list[str]:
    """Titles about other things."""
    return [f"Ticket {first + number} is about the colour of kettle {number}" for number in range(many)]


async def test_planted_facts_are_found_among_what_memory_holds(
    memory: DirectMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "FRESH", 0.0)
    service = RecallService(memory.engine)
    await write(memory, chatter(0, 19))
    assert await service.measure() == [], "among so few everything is found"
    assert compute_recall([]) is None

    await write(memory, chatter(100, 41))
    before = memory.engine.version
    (measured,) = await service.measure()
    assert (measured.day, measured.total, measured.nodes) == (TODAY, 20, 60)
    assert measured.good >= 18
    assert memory.engine.version == before
    assert memory.engine.view.count() == 60, "nothing is stored"

    # What stands in front of a planted fact costs it its place.
    await write(
        memory, [f"{name} is responsible for billing, says page {place}" for place, name in enumerate(OWNERS)]
    )
    (crowded,) = await service.measure()
    assert "Who is responsible for billing?" in crowded.missed
    assert crowded.good < measured.good


async def test_the_days_are_kept_and_give_the_trend(memory: DirectMemory) -> None:
    await write(memory, chatter(0, 30))
    earlier = [RecallMeasured(day=f"2026-01-0{day}", good=10, total=20, nodes=30) for day in range(1, 5)]
    stale = RecallMeasured(day=TODAY, good=1, total=20, nodes=30)
    await memory.engine.write_note(maintenance.COURSE, msgspec.json.encode([*earlier, stale]).decode())

    course = await RecallService(memory.engine).measure()
    assert course[:-1] == earlier
    assert (course[-1].day, course[-1].good >= 18) == (TODAY, True)
    found = compute_recall(course)
    assert found is not None
    assert (found.good, found.nodes) == (course[-1].good, 30)
    assert found.trend is not None
    assert found.trend > 0
    assert await RecallService(memory.engine).measure() == course


async def test_kpi_shows_what_memory_measured(tmp_path: Path) -> None:
    office = Office(tmp_path)
    try:
        await office.open(["memory", "gateway"])
        await Memory(office.user).add(
            *(Node(kind="fact", title=title) for title in chatter(0, 25)), insist=True
        )
        shown = await asyncio.to_thread(office.server.mailroom, "kpi")
        figures = json.loads((await asyncio.to_thread(office.server.mailroom, "kpi", "--json")).stdout)
    finally:
        await office.close()
    assert re.search(
        r"^recall +\d+%: \d+ of 20 planted facts were among the first five hits, among 25 memories;",
        shown.stdout,
        re.MULTILINE,
    ), shown.stdout
    assert figures["recall"]["total"] == 20
