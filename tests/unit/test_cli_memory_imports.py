"""Lines on their way into memory, where memory does not do what one hopes."""

import json
import threading
import time

import pytest

from services.cli.commands.memory import transfer
from services.cli.commands.memory.transfer import Importer
from shared.contracts import MemoryWritten
from shared.errors import BusUnavailable, MailroomError, Refused
from shared.views.memory_change import MemoryChange


class Memory:
    """Stores what ``judge`` finds nothing wrong with: a full disk cannot be had in a test that is quick."""

    def __init__(self, judge):
        self.judge = judge
        self.stored: list[MemoryChange] = []

    def write(self, change: MemoryChange) -> MemoryWritten:
        error = self.judge(change)
        if isinstance(error, Exception):
            raise error
        if error:
            return MemoryWritten(error=error)
        self.stored.append(change)
        return MemoryWritten(version=len(self.stored))


def lines(count: int) -> list[bytes]:
    return [json.dumps({"id": f"n{n}", "title": f"Title {n}"}).encode() for n in range(1, count + 1)]


def run(memory: Memory, given: list[bytes]) -> Importer:
    told: list[int] = []
    result = Importer(memory.write, told.append)
    result.run(given)
    assert told == sorted(told)
    return result


def test_only_the_lines_to_blame_are_refused():
    bad = {"n7", "n8", "n431"}
    memory = Memory(lambda write: "it is bad" if bad & {node.id for node in write.nodes} else "")
    result = run(memory, lines(500))
    assert [(problem.number, problem.reason) for problem in result.problems] == [
        (7, "it is bad"),
        (8, "it is bad"),
        (431, "it is bad"),
    ]
    assert result.nodes == 497
    stored = [node.id for write in memory.stored for node in write.nodes]
    assert len(stored) == len(set(stored)) == 497


def test_edges_come_after_all_nodes_wherever_they_stand():
    memory = Memory(lambda write: "")
    edge = json.dumps({"from": "n1", "to": "n300", "provenance": {"text": "two\nlines"}}).encode()
    result = run(memory, [edge, *lines(300)])
    assert (result.nodes, result.edges) == (300, 1)
    assert [len(write.nodes) for write in memory.stored] == [200, 100, 0]
    assert memory.stored[-1].edges[0].provenance == {"text": "two\nlines"}


def test_a_memory_that_stores_nothing_ends_it():
    memory = Memory(lambda write: "The disk is full.")
    with pytest.raises(MailroomError, match=r"stores nothing at present: The disk is full\. Run the same"):
        run(memory, lines(1_000))


def test_of_many_batches_that_fail_one_error_is_told_and_no_thread_goes_on():
    before = threading.active_count()
    memory = Memory(lambda write: "The disk is full.")
    with pytest.raises(MailroomError, match="stores nothing at present"):
        run(memory, lines(3_000))
    assert threading.active_count() == before


def test_what_ends_it_ends_what_is_being_sent_again():
    broken = threading.Event()

    def judge(change: MemoryChange) -> Exception:
        if change.nodes[0].id == "n1":
            broken.wait(10)
            return ValueError("broken")
        broken.set()
        return BusUnavailable("no answer")

    begun = time.monotonic()
    with pytest.raises(ValueError, match="broken"):
        run(Memory(judge), lines(600))
    assert time.monotonic() - begun < transfer.MAX_SENDS * transfer.RETRY_INTERVAL / 2


def test_what_is_not_answered_is_sent_again_under_the_same_id(monkeypatch):
    monkeypatch.setattr(transfer, "RETRY_INTERVAL", 0)
    errors = [BusUnavailable("no answer"), Refused("The write is still in line")]
    tried: list[str] = []

    def judge(write: MemoryChange) -> Exception | str:
        tried.append(write.id)
        return errors.pop() if errors else ""

    result = run(Memory(judge), lines(2))
    assert (result.nodes, result.problems) == (2, [])
    assert len(tried) == 3
    assert len(set(tried)) == 1


def test_it_gives_up_in_the_end(monkeypatch):
    monkeypatch.setattr(transfer, "RETRY_INTERVAL", 0)
    tried: list[str] = []

    def judge(write: MemoryChange) -> Exception:
        tried.append(write.id)
        return BusUnavailable("no answer")

    with pytest.raises(BusUnavailable):
        run(Memory(judge), lines(1))
    assert len(tried) == transfer.MAX_SENDS


def test_a_tombstone_stays_one():
    memory = Memory(lambda write: "")
    line = json.dumps({"id": "n1", "title": "Gone", "retired_version": 7}).encode()
    run(memory, [line])
    (write,) = memory.stored
    assert write.retire == ("n1",)
    assert write.nodes[0].retired_version == 0
    assert write.insist
