"""The client of memory: what it says when a write is refused, and what a script's entry becomes."""

import asyncio
import time

import msgspec
import pytest

from shared.bus.entry import Entry
from shared.contracts import (
    Hit,
    MemoryWritten,
    Node,
    NodePage,
    Rejection,
    TraverseQuery,
)
from shared.errors import BusUnavailable, NoResponders, Refused, StartError
from shared.memory import Memory, WriteRefused, add_memory_entry, get_memory_health, search_memory
from shared.memory.scripts import _as_entry

NODE = Node(id="n1", title="The harbour opens at six")


def test_a_refusal_says_why_and_what_to_do():
    rejection = Rejection(
        check="known", reason="it says nothing new", suggestion="Add to that one", existing=NODE
    )
    refused = WriteRefused(MemoryWritten(error="known", rejection=rejection))
    assert str(refused) == "Not stored: it says nothing new. Add to that one"
    assert (refused.cause, refused.cure) == ("Not stored: it says nothing new", "Add to that one")
    assert refused.rejection.existing.id == "n1"
    assert isinstance(refused, Refused)


def test_a_refusal_without_a_gate_is_the_error():
    refused = WriteRefused(MemoryWritten(error="edge to names x, which is not in memory"))
    assert str(refused) == "edge to names x, which is not in memory"
    assert refused.rejection is None


@pytest.mark.parametrize(
    ("title", "body", "text"),
    [
        ("The harbour opens.", "", "The harbour opens."),
        ("The harbour opens.", "The harbour opens. It closes.", "The harbour opens. It closes."),
        ("The harbour…", "The harbour opens at six.", "The harbour opens at six."),
        ("Harbour", "It opens at six.", "Harbour\nIt opens at six."),
    ],
)
def test_an_entry_has_the_text_it_was_made_of(title, body, text):
    node = msgspec.structs.replace(NODE, title=title, body=body, metadata={"a": 1}, kind="task")
    entry = _as_entry(Hit(node=node, score=0.5))
    assert entry["text"] == text
    assert (entry["id"], entry["type"], entry["metadata"], entry["score"]) == ("n1", "task", {"a": 1}, 0.5)


class Wire:
    """What the client sends, and canned answers: the form of the requests is the contract here."""

    name = "scout"

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict]] = []

    async def request(self, subject: str, payload: bytes, *, timeout: float, headers: object = None) -> bytes:
        self.asked.append((subject, msgspec.json.decode(payload)))
        self.timeout = timeout
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return msgspec.json.encode(answer)

    async def append(self, entry: Entry) -> int:
        self.asked.append((entry.subject, msgspec.json.decode(entry.payload)))
        self.message_id = entry.id
        return 7


async def test_what_is_added_is_signed_and_asked_after():
    wire = Wire(MemoryWritten(ids=("n1",), version=7))
    written = await Memory(wire).add(NODE, insist=True)
    (subject, write), (asked, query) = wire.asked
    assert written.version == 7
    assert subject == "memory.write.scout"
    assert (write["sender"], write["insist"], write["nodes"][0]["source"]["agent"]) == (
        "scout",
        True,
        "scout",
    )
    assert (asked, query) == ("memory.written", {"id": write["id"], "seq": 7})
    assert wire.message_id == write["id"]


async def test_a_refused_write_raises_its_rejection():
    rejection = Rejection(check="thin", reason="too little")
    with pytest.raises(WriteRefused, match="Not stored: too little") as caught:
        await Memory(Wire(MemoryWritten(error="thin", rejection=rejection))).add(NODE)
    assert caught.value.rejection == rejection


class SlowWire(Wire):
    """A daemon that is at work on a write until so much time has passed, and answers other requests."""

    def __init__(self, seconds: float, *, there: bool = True, early: bool = False) -> None:
        super().__init__()
        self.done = time.monotonic() + seconds
        self.there, self.early = there, early

    async def request(self, subject: str, payload: bytes, *, timeout: float, headers: object = None) -> bytes:
        if subject == "memory.written" and time.monotonic() < self.done:
            await asyncio.sleep(timeout / 2 if self.early else timeout)
            raise BusUnavailable("No answer")
        if subject == "memory.health" and not self.there:
            raise BusUnavailable("nobody")
        return msgspec.json.encode(MemoryWritten(version=7))


async def test_a_write_is_waited_for_as_long_as_the_daemon_is_at_work(monkeypatch):
    for name, seconds in (("ASK_AGAIN", 0.02), ("PAUSE", 0.01), ("ANSWER_TIMEOUT", 0.1)):
        monkeypatch.setattr(f"shared.memory.client.{name}", seconds)
    assert (await Memory(SlowWire(0.5)).add(NODE)).version == 7
    assert (await Memory(SlowWire(0.5, early=True)).add(NODE)).version == 7  # loops' clocks lag under load
    with pytest.raises(BusUnavailable):
        await Memory(SlowWire(0.5, there=False)).add(NODE)
    monkeypatch.setattr("shared.memory.client.SLOW_TIMEOUT", 0.2)
    with pytest.raises(BusUnavailable):
        await Memory(SlowWire(5.0)).add(NODE)


async def test_pages_follow_each_other_to_the_end():
    nodes = [msgspec.structs.replace(NODE, id=f"n{number}") for number in range(3)]
    wire = Wire(NodePage(nodes=nodes[:2], next="n1"), NodePage(nodes=nodes[2:]))
    assert [node.id async for node in Memory(wire).iterate_nodes()] == ["n0", "n1", "n2"]
    assert [query["after"] for _, query in wire.asked] == ["", "n1"]


async def test_many_ids_are_asked_for_in_parts():
    wire = Wire([NODE], [], [])
    assert await Memory(wire).get(*(f"n{number}" for number in range(2_001)), at=5) == [NODE]
    assert [len(query["ids"]) for _, query in wire.asked] == [1_000, 1_000, 1]
    assert {query["at"] for _, query in wire.asked} == {5}
    assert await Memory(wire).get() == []


async def test_the_past_may_take_longer():
    wire = Wire({}, {})
    await Memory(wire).health()
    now = wire.timeout
    with pytest.raises(msgspec.ValidationError):
        await Memory(Wire([])).traverse(TraverseQuery(start=("n1",)))
    wire = Wire({"visits": []})
    await Memory(wire).traverse(TraverseQuery(start=("n1",), at=3))
    assert wire.timeout > now


async def test_a_daemon_that_is_away_is_told_with_a_cure():
    with pytest.raises(BusUnavailable, match=r"The memory daemon does not answer \(nobody\)\. See whether"):
        await Memory(Wire(BusUnavailable("nobody"))).stats()


async def test_a_write_that_nobody_answers_is_said_to_be_pending():
    with pytest.raises(BusUnavailable, match=r"the write is in its log.*Do not repeat it"):
        await Memory(Wire(*[NoResponders("nobody")] * 8)).add(NODE)


def test_scripts_are_told_where_no_office_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("MAILROOM_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("NATS_URL", raising=False)
    for call in (
        get_memory_health,
        lambda: add_memory_entry("The harbour opens"),
        lambda: search_memory("x"),
    ):
        with pytest.raises(StartError, match="No office is running in"):
            call()

    async def inside() -> None:
        get_memory_health()

    with pytest.raises(StartError, match="No office is running in"):
        asyncio.run(inside())


def test_what_is_no_node_is_refused_before_anything_is_sent():
    for wrong in ({"text": ""}, {"text": "x", "type": "Not A Kind"}, {"text": "x", "importance": 7}):
        with pytest.raises(ValueError, match=r"title|kind|importance"):
            add_memory_entry(**wrong)
