"""Lines on their way into memory, where memory does not do what one hopes."""

import asyncio
import gc
import json

import pytest

from services.cli.commands.memory import imports
from services.cli.commands.memory.imports import Importer
from shared.contracts import MemoryWrite, MemoryWritten
from shared.errors import BusUnavailable, MailroomError, Refused
from shared.memory import WriteRefused


class Memory:
    """Stores what ``judge`` finds nothing wrong with: a full disk cannot be had in a test that is quick."""

    def __init__(self, judge):
        self.judge = judge
        self.stored: list[MemoryWrite] = []

    async def write(self, write: MemoryWrite) -> MemoryWritten:
        error = self.judge(write)
        if isinstance(error, Exception):
            raise error
        if error:
            raise WriteRefused(MemoryWritten(error=error))
        self.stored.append(write)
        return MemoryWritten(version=len(self.stored))


def lines(count: int) -> list[bytes]:
    return [json.dumps({"id": f"n{n}", "title": f"Title {n}"}).encode() for n in range(1, count + 1)]


async def run(memory: Memory, given: list[bytes]) -> Importer:
    told: list[int] = []
    result = Importer(memory, told.append)
    await result.run(given)
    assert told == sorted(told)
    return result


async def test_only_the_lines_to_blame_are_refused():
    bad = {"n7", "n8", "n431"}
    memory = Memory(lambda write: "it is bad" if bad & {node.id for node in write.nodes} else "")
    result = await run(memory, lines(500))
    assert [(problem.number, problem.reason) for problem in result.problems] == [
        (7, "it is bad"),
        (8, "it is bad"),
        (431, "it is bad"),
    ]
    assert result.nodes == 497
    stored = [node.id for write in memory.stored for node in write.nodes]
    assert len(stored) == len(set(stored)) == 497


async def test_edges_come_after_all_nodes_wherever_they_stand():
    memory = Memory(lambda write: "")
    edge = json.dumps({"from": "n1", "to": "n300", "provenance": {"text": "two\nlines"}}).encode()
    result = await run(memory, [edge, *lines(300)])
    assert (result.nodes, result.edges) == (300, 1)
    assert [len(write.nodes) for write in memory.stored] == [200, 100, 0]
    assert memory.stored[-1].edges[0].provenance == {"text": "two\nlines"}


async def test_a_memory_that_stores_nothing_ends_it():
    memory = Memory(lambda write: "The disk is full.")
    with pytest.raises(MailroomError, match=r"stores nothing at present: The disk is full\. Run the same"):
        await run(memory, lines(1_000))


async def test_of_many_batches_that_fail_one_error_is_told_and_none_is_lost():
    lost = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    memory = Memory(lambda write: "The disk is full.")
    with pytest.raises(MailroomError, match="stores nothing at present"):
        await run(memory, lines(3_000))
    gc.collect()
    assert lost == []


async def test_what_is_not_answered_is_sent_again_under_the_same_id(monkeypatch):
    monkeypatch.setattr(imports, "RETRY_INTERVAL", 0)
    errors = [BusUnavailable("no answer"), Refused("The write is still in line")]
    tried: list[str] = []

    def judge(write: MemoryWrite) -> Exception | str:
        tried.append(write.id)
        return errors.pop() if errors else ""

    result = await run(Memory(judge), lines(2))
    assert (result.nodes, result.problems) == (2, [])
    assert len(tried) == 3
    assert len(set(tried)) == 1


async def test_it_gives_up_in_the_end(monkeypatch):
    monkeypatch.setattr(imports, "RETRY_INTERVAL", 0)
    tried: list[str] = []

    def judge(write: MemoryWrite) -> Exception:
        tried.append(write.id)
        return BusUnavailable("no answer")

    with pytest.raises(BusUnavailable):
        await run(Memory(judge), lines(1))
    assert len(tried) == imports.MAX_SENDS


async def test_a_tombstone_stays_one():
    memory = Memory(lambda write: "")
    line = json.dumps({"id": "n1", "title": "Gone", "retired_version": 7}).encode()
    await run(memory, [line])
    (write,) = memory.stored
    assert write.retire == ("n1",)
    assert write.nodes[0].retired_version == 0
    assert write.insist
