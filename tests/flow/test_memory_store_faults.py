"""The store when things go wrong, by a crash, a full disk or a kill: what was committed is there, once."""

import contextlib
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.memory.storage import store as store_module
from shared.contracts import Edge, EdgeKey, Node
from shared.errors import ActionError
from tests.support.memory import FaultyDisk, StoredMemory, picture

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memory"


def pair(name: str) -> dict[str, Any]:
    """Two nodes and an edge between them."""
    return {
        "nodes": (Node(id=name, title=f"First of {name}"), Node(id=f"{name}2", title=f"Second of {name}")),
        "edges": (Edge(from_id=name, to_id=f"{name}2"),),
    }


def test_what_is_not_in_the_commit_table_did_not_happen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FaultyDisk(folder)
    memory = StoredMemory(folder, disk=disk)
    memory.add(**pair("a"))
    memory.store.compact()
    memory.add(**pair("b"))
    before = picture(memory.store.load())
    disk.fail("commit", dies=True)  # a crash comes after the tables' commits
    monkeypatch.setattr(store_module, "FLUSH_BYTES", 1)
    with pytest.raises(ActionError):
        memory.add(**pair("x"))
    monkeypatch.undo()
    assert disk.steps.count("add") >= 3
    memory.close()
    with (folder / "tail.arrow").open("ab") as tail:
        tail.write(b"half a batch")
    newest = min((folder / "edges.lance/_versions").glob("*.manifest"))
    newest.with_name(f"{2**64 - 10}.manifest").write_bytes(b"")  # and the power failed
    (folder / "vectors_other.lance/_versions").mkdir(parents=True)

    memory = StoredMemory(folder)
    assert picture(memory.store.load()) == before
    memory.add(**pair("c"))
    memory.store.compact()
    after = picture(memory.store.load())
    assert set(after[0]) == {"a", "a2", "b", "b2", "c", "c2"}
    memory.close()
    memory = StoredMemory(folder)
    assert picture(memory.store.load()) == after
    assert not (folder / "vectors_other.lance").exists()
    memory.close()


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("step", ["wal", "commit", "add", "sync"])
def test_a_commit_that_fails_half_way_is_taken_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch, step: str, flush: bool
) -> None:
    monkeypatch.setattr(store_module, "FLUSH_BYTES", 1 if flush else 1 << 20)
    disk = FaultyDisk(folder)
    memory = StoredMemory(folder, disk=disk)
    memory.add(**pair("a"))
    before = picture(memory.store.load())
    disk.fail(step, after=step == "add", error=sqlite3.OperationalError("database or disk is full"))
    used = step == "commit" or (step in ("add", "sync")) is flush
    with pytest.raises(ActionError) if used else contextlib.nullcontext() as raised:
        memory.add(id="w", **pair("b"))
    disk.failing = ""
    if used:
        assert str(raised.value) == (
            f"Memory cannot be written: the disk of {folder} is full. Free some space and send it again"
        )
        assert picture(memory.store.load()) == before
        assert (memory.store.version, memory.store.commits.find("w")) == (1, None)
        assert memory.add(id="w", **pair("b")) == ""
    assert memory.store.commits.find("w") == 2
    after = picture(memory.store.load())
    assert set(after[0]) == {"a", "a2", "b", "b2"}
    memory.close()
    memory = StoredMemory(folder)
    assert picture(memory.store.load()) == after
    memory.close()


def every_version(memory: StoredMemory, last: int) -> list[object]:
    return [picture(memory.store.load(at)) for at in range(1, last + 1)]


@pytest.mark.parametrize("step", ["add", "split", "compact", "clean", "sync", "commit"])
@pytest.mark.parametrize("after", [False, True])
def test_tidying_that_breaks_off_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    monkeypatch.setattr(store_module, "SPLIT_ROWS", 2)
    disk = FaultyDisk(folder)
    memory = StoredMemory(folder, disk=disk)
    memory.add(**pair("a"))
    memory.store.compact()
    for turn in range(5):
        memory.add(nodes=(Node(id="a", title=f"Turn {turn}"),))
    memory.add(unlink=(EdgeKey(from_id="a", to_id="a2"),))
    before = every_version(memory, memory.store.version)
    disk.fail(step, after=after)
    with pytest.raises(ActionError, match="is full"):
        memory.store.compact()
    memory.close()  # as if it had died there
    memory = StoredMemory(folder)
    assert every_version(memory, memory.store.version) == before
    memory.store.compact()
    assert memory.add(**pair("b")) == ""
    assert every_version(memory, memory.store.version - 1) == before
    memory.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() or not mount(disk, "size=3m"):
        pytest.skip("a small disk can be mounted by root only")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def mount(disk: Path, options: str) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
    return subprocess.run(command, capture_output=True).returncode == 0


def fill(memory: StoredMemory) -> None:
    """Write nodes and edges until it is refused."""
    for batch in range(100):
        nodes = [Node(title=f"n {batch}", body=random.randbytes(300).hex()) for _ in range(100)]
        memory.add(nodes=tuple(nodes), edges=tuple(Edge(from_id="hub", to_id=node.id) for node in nodes))


@pytest.mark.parametrize("flush", [False, True])
def test_a_full_disk_is_told_reads_go_on_and_writing_resumes(
    disk: Path, monkeypatch: pytest.MonkeyPatch, flush: bool
) -> None:
    monkeypatch.setattr(store_module, "FLUSH_BYTES", 1 if flush else 1 << 30)
    memory = StoredMemory(disk / "memory")
    memory.add(nodes=(Node(id="hub", title="The first thing"),))
    with pytest.raises(ActionError) as told:
        fill(memory)
    assert str(told.value) == (
        f"Memory cannot be written: the disk of {disk}/memory is full. Free some space and send it again"
    )
    before = picture(memory.store.load())
    stored = len(memory.edges)
    assert (len(before[0]), len(before[1]), len(before[2])) == (1 + stored, stored, 1 + stored)
    with contextlib.suppress(ActionError):
        memory.store.compact()
    assert picture(memory.store.load()) == before
    assert mount(disk, "remount,size=60m")
    assert memory.add(nodes=(Node(id="room", title="Room again"),)) == ""
    after = picture(memory.store.load())
    assert set(after[0]) - set(before[0]) == {"room"}
    memory.close()
    memory = StoredMemory(disk / "memory")
    assert picture(memory.store.load()) == after
    memory.close()


WRITER = """
import sys
from pathlib import Path
from services.memory.storage import store
from shared.contracts import Edge, MemoryWrite, Node
from tests.support.memory import StoredMemory

store.FLUSH_SEGMENTS = 24
memory = StoredMemory(Path(sys.argv[1]))
print("version", memory.store.version, flush=True)
for batch in range(int(sys.argv[2]), int(sys.argv[2]) + 100_000):
    nodes = tuple(Node(id=f"b{batch}n{row}", title=f"Batch {batch}") for row in range(3))
    edges = (Edge(from_id="counter", to_id=f"b{batch}n0"),)
    writes = [
        MemoryWrite(id=f"w{batch}", nodes=nodes, accessed={f"b{batch}n0": 1}),
        MemoryWrite(id=f"c{batch}", nodes=(Node(id="counter", title=f"Count {batch}"),), edges=edges),
    ]
    if memory.store.commits.find(f"c{batch}") is None:
        assert memory.write(*writes) == ["", ""]
    print("done", batch, memory.store.commits.find(f"c{batch}"), flush=True)
    if memory.store.needs_compaction:
        memory.store.compact()
"""


def write_until_killed(folder: Path, start: int, seconds: float) -> tuple[int, list[tuple[int, int]]]:
    """Kill -9 a process that writes batches; the version it began at, and each (batch, version) done."""
    command = [sys.executable, "-c", WRITER, str(folder), str(start)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        first = writer.stdout.readline().split()
        time.sleep(seconds)
        writer.kill()
        lines = [line.split() for line in writer.stdout if line.endswith("\n")]
    return int(first[1]), [(int(batch), int(version)) for _, batch, version in lines]


def test_kill_9_in_the_middle_of_batches_loses_and_doubles_nothing(folder: Path) -> None:
    done: list[tuple[int, int]] = []
    for seconds in (0.3, 0.7, 1.1):
        begin, batches = write_until_killed(
            folder, max((batch for batch, _ in done), default=-1) + 1, seconds
        )
        assert begin >= max((version for _, version in done), default=0)
        done += batches
    assert len(done) > 60
    assert [version for _, version in done] == [2 * batch + 2 for batch, _ in done]

    memory = StoredMemory(folder)
    last = done[-1][0]
    kept = memory.store.version // 2 - 1
    assert memory.store.version % 2 == 0
    assert kept in (last, last + 1)  # one batch may be stored and not yet told
    nodes, edges, vectors = picture(memory.store.load())
    names = {f"b{batch}n{row}" for batch in range(kept + 1) for row in range(3)}
    assert set(nodes) == set(vectors) == names | {"counter"}
    assert {end for _, end, _ in edges} == {f"b{batch}n0" for batch in range(kept + 1)}
    assert {count for count, _ in memory.store.load().access.values()} == {1}
    titles = [picture(memory.store.load(2 * batch + 2))[0]["counter"].title for batch in (0, kept // 2, kept)]
    assert titles == [f"Count {batch}" for batch in (0, kept // 2, kept)]
    memory.close()


def test_ten_thousand_nodes_open_quickly(folder: Path) -> None:
    memory = StoredMemory(folder)
    for start in range(0, 10_000, 500):
        memory.add(nodes=tuple(Node(id=f"n{row}", title=f"Note {row}") for row in range(start, start + 500)))
    memory.close()
    begin = time.perf_counter()
    memory = StoredMemory(folder)
    took = time.perf_counter() - begin
    assert len(memory.nodes) == 10_000
    memory.close()
    assert took < 2
