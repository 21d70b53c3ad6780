"""The store: what was applied is there, at every version, whether it is in the tables yet or not."""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from services.memory.storage import store as store_module
from services.memory.storage.store import Store
from services.memory.storage.tables import import_lancedb
from services.memory.writes.change import LoggedWrite
from services.memory.writes.staging import fold
from shared.contracts import Edge, EdgeKey, MemoryWrite, Node, Relation
from shared.errors import StartError
from tests.support.memory import (
    STORED_DIMENSIONS as DIMENSIONS,
)
from tests.support.memory import (
    StoredMemory,
    count_files,
    embed,
    picture,
    read_edges,
    read_nodes,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memory"


@pytest.fixture
def memory(folder: Path) -> Iterator[StoredMemory]:
    memory = StoredMemory(folder)
    yield memory
    memory.close()


FULL = Node(
    id="full",
    kind="decision",
    title="Everything is said",
    body="At length.\x00\n\N{SNOWMAN}",
    tags=("a", "b"),
    metadata={"deep": [1, {"x": None}], "big": 10**30},
    importance=0.75,
    access_count=3,
    last_accessed_at="2026-01-03T00:00:00Z",
    created_at="2026-01-01T00:00:00Z",
    updated_at="2026-01-02T00:00:00Z",
    valid_from="2026-01-01",
    valid_to="2027-01-01",
)


def test_what_is_stored_is_read_again(memory: StoredMemory, folder: Path) -> None:
    memory.add(nodes=(FULL, Node(id="b", title="B")), edges=(Edge(from_id="full", to_id="b", weight=0.3),))
    memory.add(accessed={"full": 2})
    for _ in range(2):  # out of the tail, out of the tables
        tables = memory.store.load()
        assert read_nodes(tables)[0] == memory.nodes["full"].__class__.from_dict(
            {**FULL.to_dict(), "created_version": 1, "version": 1}
        )
        assert read_edges(tables) == [memory.edges["full", "b", "related_to"]]
        assert tables.access == {"full": (5, memory.nodes["full"].last_accessed_at)}
        assert dict(zip(tables.vector_ids, tables.vectors.tolist(), strict=True)) == {
            "full": embed(f"{FULL.title}\n{FULL.body}").tolist(),
            "b": embed("B").tolist(),
        }
        assert (tables.version, memory.store.version) == (2, 2)
        memory.store.compact()
    memory.close()
    memory.store = Store(folder, "model-a", DIMENSIONS)
    assert picture(memory.store.load()) == picture(tables)


def test_an_empty_store_loads(memory: StoredMemory) -> None:
    tables = memory.store.load()
    assert (tables.nodes.num_rows, tables.edges.num_rows, tables.vectors.shape, tables.version) == (
        0,
        0,
        (0, DIMENSIONS),
        0,
    )


def random_write(draw: random.Random, memory: StoredMemory) -> MemoryWrite:
    """Something that may happen to a small memory: made, changed, joined, parted, retired."""
    live = [node.id for node in memory.nodes.values() if not node.retired_version]
    what = draw.choice(["node", "node", "text", "edge", "edge", "unlink", "retire"]) if live else "node"
    if what == "edge" and len(live) > 1:
        start, end = draw.sample(live, 2)
        relation = draw.choice([Relation.RELATED_TO, Relation.LED_TO])
        return MemoryWrite(edges=(Edge(from_id=start, to_id=end, relation=relation, weight=draw.random()),))
    edges = [edge for edge in memory.edges.values() if not edge.retired_version]
    if what == "unlink" and edges:
        edge = draw.choice(edges)
        return MemoryWrite(unlink=(EdgeKey(from_id=edge.from_id, to_id=edge.to_id, relation=edge.relation),))
    if what == "retire" and len(live) > 3:
        return MemoryWrite(retire=(draw.choice(live),))
    if what == "text" and live:
        node = memory.nodes[draw.choice(live)]
        return MemoryWrite(nodes=(Node(id=node.id, title=f"{node.title}'", importance=draw.random()),))
    return MemoryWrite(nodes=(Node(id=f"n{draw.randrange(30)}", title=f"T {draw.randrange(5)}"),))


def test_every_version_can_be_read_again(
    memory: StoredMemory, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is in the tail, the tables or the history, and whether written singly or in batches."""
    monkeypatch.setattr(store_module, "FLUSH_PARTS", 10)
    monkeypatch.setattr(store_module, "SPLIT_ROWS", 4)
    draw = random.Random(7)
    seen = {0: picture(memory.store.load())}
    log: list[MemoryWrite] = []
    for turn in range(60):
        write = random_write(draw, memory)
        assert memory.write(write) == [""]
        log.append(write)
        if turn % 20 == 19:
            memory.store.compact()
        seen[memory.store.version] = picture(memory.store.load())
    assert len(seen) == 61
    for version in range(1, 61):
        assert picture(memory.store.load(version)) == seen[version]

    again = StoredMemory(folder.with_name("again"))
    for start in range(0, 60, 17):
        assert set(again.write(*log[start : start + 17])) == {""}
    for version in range(1, 61):
        assert picture(again.store.load(version)) == seen[version]
    again.close()


def test_old_states_leave_the_tables_for_the_history(
    memory: StoredMemory, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "SPLIT_ROWS", 5)
    memory.add(nodes=(Node(id="a", title="A"), Node(id="b", title="B")))
    for turn in range(10):
        memory.add(
            nodes=(Node(id="a", title=f"A {turn}"),),
            edges=(Edge(from_id="a", to_id="b", weight=turn / 10),),
        )
    memory.add(retire=("b",))
    before = picture(memory.store.load())
    memory.store.compact()
    assert picture(memory.store.load()) == before
    database = import_lancedb().connect(str(folder))
    names = ("nodes", "node_history", "edges", "edge_history")
    counts = {name: database.open_table(name).count_rows() for name in names}
    assert counts == {"nodes": 2, "node_history": 11, "edges": 0, "edge_history": 11}
    assert memory.store.commits.state()["old nodes"] == 0


def test_what_must_not_be_applied_is_not(memory: StoredMemory) -> None:
    memory.add(nodes=(Node(id="a", title="A"),))
    change = memory.apply
    with pytest.raises(ValueError, match="version 1 does not come after 1"):
        change(_change_at(memory, 1))
    assert memory.store.version == 1


def test_texts_stored_without_a_vector_are_missing_until_they_get_it(
    memory: StoredMemory, folder: Path
) -> None:
    memory.add(nodes=(Node(id="a", title="A"),))
    nothing = np.zeros((0, DIMENSIONS), np.float32)
    memory.store.apply(_change_at(memory, 2), [], nothing)
    assert memory.store.missing_vectors(10) == [("b", 2, "B")]
    memory.store.apply(_change_at(memory, 3, "c"), [], nothing)
    assert memory.store.count_missing() == 2
    memory.close()

    store = memory.store = Store(folder, "model-a", DIMENSIONS)
    assert store.missing_vectors(1) == [("b", 2, "B")]  # after a crash too
    store.apply(_change_at(memory, 4, "d"), [], nothing)
    store.add_vectors([("b", 2)], np.ones((1, DIMENSIONS), np.float32))
    assert store.missing_vectors(10) == [("c", 3, "C"), ("d", 4, "D")]
    store.add_vectors([("c", 3), ("d", 4)], np.ones((2, DIMENSIONS), np.float32))
    assert store.missing_vectors(10) == []
    assert store.count_missing() == 0
    assert sorted(store.load().vector_ids) == ["a", "b", "c", "d"]


def _change_at(memory: StoredMemory, version: int, name: str = "b"):  # type: ignore[no-untyped-def]
    write = MemoryWrite(nodes=(Node(id=name, title=name.upper()),))
    entry = LoggedWrite(seq=version, stored_at=0.0, write=write)
    return fold([entry], memory.known(), DIMENSIONS)[0]


def test_a_write_is_known_by_its_id_and_a_version_has_its_moment(memory: StoredMemory) -> None:
    memory.write(*(MemoryWrite(id=f"w{row}", nodes=(Node(title="T"),)) for row in range(3)))
    assert [memory.store.commits.find(name) for name in ("w0", "w2", "w3")] == [1, 3, None]
    assert memory.store.commits.moment_of(2) == 1_800_000_002.0


def test_many_single_writes_leave_few_files(memory: StoredMemory, folder: Path) -> None:
    most = 0
    for turn in range(200):
        memory.add(nodes=(Node(id=f"n{turn}", title=f"Note {turn}"),), accessed={"n0": 1})
        if memory.store.needs_compaction:
            memory.store.compact()
        most = max(most, count_files(folder))
    assert most < 200
    assert sorted(memory.store.load().vector_ids) == sorted(f"n{turn}" for turn in range(200))


def test_large_batches_leave_few_files_too(
    memory: StoredMemory, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "FLUSH_BYTES", 1)
    most, tidied = 0, 0
    for turn in range(60):
        memory.add(nodes=(Node(id=f"n{turn}", title=f"Note {turn}"), Node(id="n0", title=f"Turn {turn}")))
        if memory.store.needs_compaction:
            memory.store.compact()
            tidied += 1
        most = max(most, count_files(folder))
    assert most < 200
    assert 1 <= tidied <= 4
    assert memory.store.load(30).nodes.num_rows == 30


def test_what_cannot_be_opened_is_told(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match=r"The memory cannot be stored in .*file/memory: Not a directory"):
        Store(tmp_path / "file/memory", "model-a", DIMENSIONS)
    memory = StoredMemory(folder)
    memory.add(nodes=(Node(title="T"),))
    memory.store.compact()
    with pytest.raises(StartError, match=r"Another memory daemon has .*memory open"):
        Store(folder, "model-a", DIMENSIONS)
    memory.close()
    with pytest.raises(StartError, match=r"vectors_model-a has other columns than it should"):
        Store(folder, "model-a", DIMENSIONS + 1)
    (folder / "ledger.sqlite").unlink()
    with pytest.raises(
        StartError, match=r"contains data, but ledger.sqlite does not list it.*Move that folder away"
    ):
        Store(folder, "model-a", DIMENSIONS)
    with pytest.raises(ValueError, match="cannot be part of a table's name"):
        Store(folder, "../model", DIMENSIONS)


def test_another_model_has_other_vectors_and_in_the_end_only_these(folder: Path) -> None:
    memory = StoredMemory(folder)
    memory.add(nodes=tuple(Node(id=f"n{row}", title=f"T {row}") for row in range(5)))
    memory.add(nodes=(Node(id="n0", title="T 0 anew"),), retire=("n4",))
    before = picture(memory.store.load())
    earlier = picture(memory.store.load(1))
    memory.close()

    memory = StoredMemory(folder, "model-b")
    store = memory.store
    assert store.load().vector_ids == []
    assert picture(store.load())[:2] == before[:2]
    assert store.count_missing() == 6
    first = store.missing_vectors(3)
    assert first == [("n1", 1, "T 1"), ("n2", 1, "T 2"), ("n3", 1, "T 3")]
    store.add_vectors([row[:2] for row in first], np.array([embed(text) for *_, text in first]))
    memory.add(nodes=(Node(id="n9", title="T 9"),))
    memory.close()

    memory = StoredMemory(folder, "model-b")
    store = memory.store
    assert sorted(store.load().vector_ids) == ["n1", "n2", "n3", "n9"]
    rest = store.missing_vectors(10)
    assert rest == [("n4", 1, "T 4"), ("n0", 2, "T 0 anew"), ("n0", 1, "T 0")]
    store.add_vectors([row[:2] for row in rest], np.array([embed(text) for *_, text in rest]))
    assert store.version == 3
    assert (folder / "vectors_model-a.lance").exists()
    assert store.missing_vectors(10) == []
    assert store.count_missing() == 0
    assert not (folder / "vectors_model-a.lance").exists()
    assert picture(store.load(2)) == before
    assert picture(store.load(1)) == earlier
    memory.close()
    memory = StoredMemory(folder, "model-b")
    assert memory.store.missing_vectors(10) == []
    memory.close()


def test_going_back_to_the_first_model_half_way_embeds_what_came_between(folder: Path) -> None:
    memory = StoredMemory(folder)
    memory.add(nodes=(Node(id="a", title="A"), Node(id="b", title="B")))
    memory.store.compact()
    memory.add(nodes=(Node(id="c", title="C"),))
    memory.close()
    memory = StoredMemory(folder, "model-b")
    memory.add(nodes=(Node(id="a", title="A anew"),))
    memory.close()
    memory = StoredMemory(folder)
    missing = memory.store.missing_vectors(10)
    assert ("a", 3, "A anew") in missing
    assert {row[0] for row in missing} <= {"a", "c"}
    memory.store.add_vectors([row[:2] for row in missing], np.array([embed(text) for *_, text in missing]))
    assert memory.store.missing_vectors(10) == []
    assert picture(memory.store.load())[2] == {
        "a": embed("A anew").tolist(),
        "b": embed("B").tolist(),
        "c": embed("C").tolist(),
    }
    memory.close()
    assert list(folder.glob("vectors_model-b*")) == []


def test_the_import_of_lancedb_leaves_the_rest_client_out() -> None:
    """If it does not ask for these modules any more, the import hook is useless and should go."""
    program = (
        "import sys\n"
        "from services.memory.storage.tables import UNUSED, import_lancedb\n"
        "import_lancedb()\n"
        "found = [module for name, module in sys.modules.items() if name.startswith(UNUSED)]\n"
        "print(len(found), sum(hasattr(module, '__file__') for module in found))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    asked, loaded = map(int, done.stdout.split())
    assert asked > 0
    assert loaded == 0
