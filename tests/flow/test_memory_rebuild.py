"""A rebuild of memory from its log while it is read and written to, and what a crash leaves of one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from services.memory.embedding import KnownVectors
from services.memory.storage.commit_table import DRAFT, settle
from services.memory.writes.write_log import WriteLog
from shared import subjects
from shared.contracts import Edge, EdgeKey, MemoryWrite, Node
from shared.memory import Memory, WriteRefused
from tests.support.office import Office
from tests.support.waiting import eventually

SAME = "The harbour opens at six in the morning"


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    """An office of the memory daemon alone."""
    office = Office(tmp_path, MAILROOM_LINKER_INTERVAL="3600")
    try:
        await office.open(["memory"])
        yield office
    finally:
        await office.close()


def note(index: int, text: str = "") -> Node:
    vector = np.random.default_rng(index).standard_normal(384)
    unit = tuple((vector / np.linalg.norm(vector)).tolist())
    return Node(id=f"n{index:04}", title=text or f"Note number {index} of the test", embedding=unit)


async def fill(memory: Memory) -> None:
    """Nodes and edges of every kind of write, refused ones among them."""
    for first in range(0, 1_200, 100):
        nodes = [note(index) for index in range(first, first + 100)]
        edges = [Edge(from_id=node.id, to_id="n0000", weight=0.5) for node in nodes[1:]]
        await memory.add(*nodes, edges=edges, insist=True)
    await memory.add(Node(id="embedded", title=SAME))
    with pytest.raises(WriteRefused):
        await memory.add(Node(id="refused", title=SAME))
    await memory.add(note(3, "Another text"), insist=True)
    await memory.retire("n0007")
    await memory.unlink(EdgeKey(from_id="n0008", to_id="n0000"))


async def send_rubbish(office: Office) -> None:
    """What was not accepted when it came: a value that no node may have, and another's name."""
    scout, good = (
        await office.connect("scout"),
        MemoryWrite(nodes=(Node(id="bad", title="Bad"),), insist=True),
    )
    for text, other in (('"importance":0.5', '"importance":5.5'), ('"sender":""', '"sender":"critic"')):
        await scout.store(
            subjects.memory_write("scout"), good.to_json().replace(text.encode(), other.encode())
        )


async def picture(memory: Memory) -> list[object]:
    return [
        [node async for node in memory.iterate_nodes()],
        [edge async for edge in memory.iterate_edges()],
        await memory.get("n0003", "n0007", "refused", "bad"),
        await memory.get("n0003", at=12),
        [(hit.node.id, hit.score) for hit in await memory.search(SAME, limit=3)],
    ]


async def is_done(memory: Memory) -> bool:
    health = await memory.health()
    assert "rebuild_failed" not in health, health
    return "rebuilding" not in health


async def test_it_is_read_and_written_to_meanwhile_and_the_same_afterwards(office: Office) -> None:
    memory = Memory(office.user)
    await fill(memory)
    await send_rubbish(office)
    await memory.add(note(2_000), insist=True)
    before, asked, written = await picture(memory), 0, 0
    counts = await memory.stats()
    assert (await memory.rebuild())["writes"] > 16
    while not await is_done(memory):
        assert [hit.node.id for hit in await memory.search(SAME, limit=1)] == ["embedded"]
        await memory.add(note(5_000 + written), insist=True)
        assert (await memory.get(f"n{5_000 + written}"))[0].title
        asked, written = asked + 1, written + 1
    assert asked, "it was not asked during the rebuild"
    assert (await memory.stats())["version"] == counts["version"] + written
    await memory.retire(*(f"n{5_000 + index}" for index in range(written)))
    assert await picture(memory) == before
    assert not (office.config.state_dir / "memory" / DRAFT).exists()
    # What was answered before, meanwhile and after is there for a restarted daemon too.
    await memory.add(Node(id="later", title="Ships are counted every evening"))
    office.kill("memory")
    office.start("memory")
    await office.ready("memory")
    assert (await memory.get("later"))[0].title
    await memory.retire("later")
    assert await picture(memory) == before


async def test_killed_in_the_middle_of_one_nothing_is_lost(office: Office) -> None:
    memory = Memory(office.user)
    await fill(memory)
    before, draft = await picture(memory), office.config.state_dir / "memory" / DRAFT
    for pause in (0.0, 0.1, 0.3):
        await memory.rebuild()
        with contextlib.suppress(TimeoutError):
            await eventually(draft.exists, 5)
        await asyncio.sleep(pause)
        office.kill("memory")
        office.start("memory")
        await office.ready("memory")
        assert await picture(memory) == before
        assert not draft.exists()


@pytest.mark.parametrize("ready", [True, False])
def test_a_crash_leaves_the_old_store_or_the_new_one(tmp_path: Path, ready: bool) -> None:
    (tmp_path / "old.lance").mkdir()
    (tmp_path / "ledger").write_text("old")
    (tmp_path / DRAFT / "new.lance").mkdir(parents=True)
    (tmp_path / DRAFT / "ledger").write_text("new")
    if ready:
        (tmp_path / DRAFT / "ready").touch()
    settle(tmp_path)
    settle(tmp_path)
    names = sorted(entry.name for entry in tmp_path.iterdir())
    assert names == (["ledger", "new.lance"] if ready else ["ledger", "old.lance"])
    assert (tmp_path / "ledger").read_text() == ("new" if ready else "old")


def test_what_was_moved_before_a_crash_stays(tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("new")
    (tmp_path / DRAFT / "new.lance").mkdir(parents=True)
    (tmp_path / DRAFT / "moving").touch()
    settle(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["ledger", "new.lance"]


def test_texts_that_have_a_vector_are_not_embedded_again() -> None:
    class Embedder:
        model_name, slug, dimensions = "m", "m", 2
        asked: list[str] = []

        def embed(self, texts: Sequence[str]) -> np.ndarray:
            self.asked += texts
            return np.full((len(texts), 2), 7, np.float32)

    embedder = Embedder()
    known = KnownVectors(embedder, {"a": 1, "b": 0}, np.array([[1, 2], [3, 4]], np.float32))  # type: ignore[arg-type]
    assert known.embed(["b", "new", "a"]).tolist() == [[1, 2], [7, 7], [3, 4]]
    assert embedder.asked == ["new"]


async def test_all_of_a_stream_is_read_as_it_is_piece_by_piece(office: Office) -> None:
    memory = Memory(office.user)
    for first in range(0, 1_100, 50):
        await asyncio.gather(*(memory.add(note(index), insist=True) for index in range(first, first + 50)))
    await memory.add(*(Node(title="A long one", body="x" * 200_000) for _ in range(5)), insist=True)
    await office.user.request("memory.add", b'{"id": "by-request", "title": "Gulls are never counted"}')
    bus = await office.connect("memory")
    request = {"seq": 1, "next_by_subj": ">", "batch": 1_000}
    first_page = [stored async for stored in bus.read(subjects.MEMORY, request)]
    last = await WriteLog(bus).last()
    assert len(first_page) == 1_000
    pages = [page async for page in bus.read_all(subjects.MEMORY, 1, last)]
    found = [stored for page in pages for stored in page]
    assert [stored.seq for stored in found] == list(range(1, last + 1))
    alone = [stored._replace(block=b"") for stored in found[: len(first_page)]]
    assert [stored._replace(headers={}) for stored in first_page] == alone
    own = [page async for page in bus.read_all(subjects.MEMORY, 1, last, subject="memory.write.memory")]
    assert {stored.subject for page in own for stored in page} == {"memory.write.memory"}
    assert [page async for page in bus.read_all(subjects.MEMORY, 10_000, 20_000)] == []
