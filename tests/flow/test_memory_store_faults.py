"""The store when things go wrong, by a crash, a full disk or a kill: it is the same afterwards."""

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.memory.briefing.service import compose
from services.memory.retrieval.view import View
from services.memory.storage import store as store_module
from services.memory.storage.commit_table import Disk
from shared.contracts import Edge, EdgeKey, MemoryWrite, Node
from shared.contracts.base import amended
from shared.errors import ActionError
from tests.support.forking import run_forked
from tests.support.memory import FaultyDisk, StoredMemory, picture


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memory"


def pair(name: str) -> dict[str, Any]:
    """Two nodes and an edge between them."""
    return {
        "nodes": (Node(id=name, title=f"First of {name}"), Node(id=f"{name}2", title=f"Second of {name}")),
        "edges": (Edge(from_id=name, to_id=f"{name}2"),),
    }


def test_what_is_not_in_the_commit_table_did_not_happen(folder: Path) -> None:
    disk = FaultyDisk(folder)
    memory = StoredMemory(folder, disk=disk)
    memory.add(**pair("a"))
    memory.store.compact()
    memory.add(**pair("b"))
    memory.store.flush()
    before = picture(memory.store.load())
    memory.add(**pair("x"))
    disk.fail("commit", dies=True)  # a crash comes after the tables' commits
    with pytest.raises(ActionError):
        memory.store.flush()
    assert disk.steps.count("add") >= 3
    memory.store.close()
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


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["add", "sync", "commit"])
def test_a_flush_that_fails_half_way_loses_nothing_and_is_done_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    disk = FaultyDisk(folder)
    memory = StoredMemory(folder, disk=disk)
    memory.add(id="v", **pair("a"))
    before = picture(memory.store.load())
    monkeypatch.setattr(store_module, "FLUSH_PARTS", 1)
    disk.fail(step, after=after, error=sqlite3.OperationalError("database or disk is full"))
    with pytest.raises(ActionError) as raised:
        memory.add(id="w", **pair("b"))
    disk.failing = ""
    assert str(raised.value) == (
        f"Memory cannot be written: the disk of {folder} is full. Free some space and send it again"
    )
    assert picture(memory.store.load()) == before
    assert (memory.store.version, memory.store.commits.find("w")) == (1, None)
    assert memory.add(id="w", **pair("b")) == ""
    assert memory.store.commits.find_all(["v", "w"]) == {"v": 1, "w": 2}
    after_all = picture(memory.store.load())
    assert set(after_all[0]) == {"a", "a2", "b", "b2"}
    memory.close()
    memory = StoredMemory(folder)
    assert picture(memory.store.load()) == after_all
    memory.close()


def every_version(memory: StoredMemory, last: int) -> list[object]:
    return [picture(memory.store.load(at)) for at in range(1, last + 1)]


@pytest.mark.parametrize("step", ["split", "compact", "clean", "sync", "commit"])
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
    memory.store.flush()
    before = every_version(memory, memory.store.version)
    disk.fail(step, after=after)
    with pytest.raises(ActionError, match="is full"):
        memory.store.compact()
    memory.store.close()  # as if it had died there
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


def test_a_full_disk_is_told_reads_go_on_and_writing_resumes(
    disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "FLUSH_BYTES", 1 << 19)
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


class Dying(Disk):
    """Kills its process before or after the nth time of a step: ``before add``, ``after commit#2``."""

    def __init__(self, folder: Path, dies_at: str) -> None:
        super().__init__(folder)
        self._where, _, nth = dies_at.partition("#")
        self._left = int(nth or 1)

    def run(self, step: str, work: Any, *args: Any, **kwargs: Any) -> Any:
        self.die(f"before {step}")
        done = super().run(step, work, *args, **kwargs)
        self.die(f"after {step}")
        return done

    def die(self, where: str) -> None:
        self._left -= where == self._where
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)


def write_until(folder: Path, point: str) -> None:
    """Apply the log from where the store is, until ``point``; notes the version it began at."""
    store_module.FLUSH_PARTS, store_module.SPLIT_ROWS = 25, 4
    disk = Dying(folder, point)
    memory = StoredMemory(folder, disk=disk)
    begun = memory.store.version
    folder.with_name("begun").write_text(str(begun))
    for version, write in enumerate(write_log()[begun:], begun + 1):
        memory.write(write)
        disk.die("after apply")
        if version % 30 == 0:
            memory.store.compact()
    memory.close()


POINTS = [
    "after apply#12",  # before anything is flushed
    "before add",
    "after add",  # nodes are in their table, edges and vectors are not
    "after add#2",
    "after add#3",
    "before sync#2",
    "after sync#2",
    "before commit#2",  # tables yes; versions, access counts and position no
    "after commit#2",
    "after split",  # in the history and in the table
    "before compact#2",
    "after compact",
    "before clean",
    "after clean",
    "after apply#40",
]


def write_log() -> list[MemoryWrite]:
    """What the log has: nodes made, changed, joined, parted, retired and counted."""
    draw, writes = random.Random(5), []
    for turn in range(180):
        name, other = f"n{draw.randrange(12)}", f"n{draw.randrange(12)}"
        made = tuple(
            Node(
                id=each,
                kind=draw.choice(["fact", "decision", "task"]),
                title=f"Turn {turn} of {each}",
                importance=draw.random(),
                created_at="2026-11-01T00:00:00Z",
            )
            for each in dict.fromkeys((name, other))
        )
        edges = (Edge(from_id=name, to_id=other, weight=draw.random()),) if name != other else ()
        what = draw.randrange(4)
        accessed = {name: draw.randrange(1, 5)} if what else {}
        retire = (other,) if what == 1 and name != other and turn % 3 == 0 else ()
        writes.append(
            MemoryWrite(
                id=f"w{turn}",
                created_at="2026-11-01T00:00:00Z",
                nodes=made,
                edges=edges if not retire else (),
                accessed=accessed,
                retire=retire,
            )
        )
    return writes


def everything(folder: Path) -> list[object]:
    """Nodes, edges, vectors, counts and briefings, now and at many versions; when each was."""
    memory = StoredMemory(folder)
    store = memory.store
    found: list[object] = [store.version, store.load().access, store.commits.versions(0, 1_000)]
    for version in (*range(1, store.version, 7), store.version):
        tables = store.load(version)
        page = compose(View.build(tables), "scout", 1_800_000_000.0)
        found += [picture(tables), amended(page, id="same").to_json()]
        changes = store.read_changes("nodes", version, version), store.read_changes("edges", version, version)
        found += [sorted(map(str, each.to_pylist())) for each in changes]
    memory.close()
    return found


@pytest.mark.timeout(300)
def test_killed_at_every_point_it_is_the_same_after_its_log_is_applied_again(folder: Path) -> None:
    unkilled = folder.with_name("unkilled")
    for point in POINTS:
        begun = run_writer(folder, point)
        assert begun[1] == -signal.SIGKILL, point  # it came by there
        if point in ("after commit#2", "after clean"):
            shutil.rmtree(folder)  # from the beginning of the log again
    assert run_writer(folder, "")[1] == 0
    assert run_writer(unkilled, "") == (0, 0)
    for killed, other in zip(everything(folder), everything(unkilled), strict=True):
        assert killed == other


def run_writer(folder: Path, point: str) -> tuple[int, int]:
    """Have ``write_until`` run; the version it began at, how it ended."""
    ended = run_forked(write_until, folder, point)
    return int(folder.with_name("begun").read_text()), ended


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
