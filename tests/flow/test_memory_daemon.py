"""The memory daemon with the real model and LanceDB on disk: stored, found, updated, refused."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from services.memory.engine import MemoryEngine
from services.memory.retrieval.ranking import MEANING
from services.memory.writes.change import LoggedWrite
from services.memory.writes.writer import BatchResult
from shared.contracts import (
    Edge,
    EdgesQuery,
    MemoryQuery,
    MemoryWrite,
    MemoryWritten,
    Node,
    Relation,
    Source,
)
from shared.errors import ActionError
from shared.settings import Settings
from tests.support.once import find_models


@pytest.fixture(scope="session")
def models() -> Path:
    """The model's files where the settings have them; fetched if they are missing."""
    return find_models()


@pytest.fixture
def settings(tmp_path: Path, models: Path) -> Settings:
    return Settings(state_dir=tmp_path / "state", model_dir=models)


@pytest.fixture
async def memory(settings: Settings) -> AsyncIterator[MemoryEngine]:
    daemon = await MemoryEngine.open(settings)
    yield daemon
    await daemon.close()


async def store(memory: MemoryEngine, *writes: MemoryWrite) -> BatchResult:
    """Store writes as the log would bring them: each with the next version and a sender."""
    start = memory.version + 1
    signed = [msgspec.structs.replace(write, sender=write.sender or "user") for write in writes]
    entries = [
        LoggedWrite(seq=start + place, stored_at=time.time(), write=write)
        for place, write in enumerate(signed)
    ]
    return await memory.write(entries)


async def store_one(memory: MemoryEngine, **fields: object) -> MemoryWritten:
    written = await store(memory, MemoryWrite(insist=True, **fields))  # type: ignore[arg-type]
    return written.answers[0]


async def find(memory: MemoryEngine, text: str, **filters: object) -> list[str]:
    return [hit.node.title for hit in await memory.search(MemoryQuery(text=text, **filters))]  # type: ignore[arg-type]


async def test_what_was_written_comes_back_also_after_reopening(settings: Settings) -> None:
    node = Node(
        id="n1",
        kind="decision",
        title="Use JetStream as the write-ahead log",
        body="Losing the folder loses nothing: ümläut, 漢字, 🐈",
        tags=("bus", "memory"),
        metadata={"score": 0.25, "nested": {"list": [1, None, "x"]}},
        source=Source(agent="conductor", session="s1", channel="mail"),
        importance=0.1 + 0.2,
        valid_from="2026-01-01T00:00:00+00:00",
    )
    memory = await MemoryEngine.open(settings)
    other = Node(id="n2", title="Sync before answering")
    write = MemoryWrite(
        id="w1",
        insist=True,
        sender="conductor",
        goal_id="g1",
        nodes=(node, other),
        edges=(Edge(from_id="n1", to_id="n2"),),
    )
    written = await store(memory, write)
    (answer,) = written.answers
    assert (answer.ids, answer.version, answer.error) == (("n1", "n2"), 1, "")
    assert (answer.cause, answer.recipient, answer.goal_id) == ("w1", "conductor", "g1")
    assert written.event is not None
    assert (written.event.version, written.event.kinds) == (1, ("decision", "fact"))
    assert (written.event.agents, written.event.ids) == (("conductor",), ("n1", "n2"))
    expected = msgspec.structs.replace(node, created_version=1, version=1)
    assert await memory.get(["n1", "nobody"]) == [expected]
    before = await memory.search(MemoryQuery(text="write-ahead log"))
    await memory.close()

    memory = await MemoryEngine.open(settings)
    assert await memory.get(["n1"]) == [expected]
    assert await memory.search(MemoryQuery(text="write-ahead log")) == before
    stats = memory.stats()
    assert (stats["version"], stats["nodes"], stats["edges"]) == (1, 2, 1)
    assert stats["kinds"] == {"decision": 1, "fact": 1}
    await memory.close()


async def test_a_write_sent_again_changes_nothing(memory: MemoryEngine) -> None:
    first = MemoryWrite(id="w1", insist=True, nodes=(Node(id="n1", title="The port is 4222"),))
    second = MemoryWrite(id="w2", insist=True, nodes=(Node(id="n1", title="The port is 4333"),))
    await store(memory, first)
    await store(memory, second)
    again = await store(memory, first, first)
    assert [(answer.version, answer.ids) for answer in again.answers] == [(1, ("n1",))] * 2
    assert again.event is None
    (node,) = await memory.get(["n1"])
    assert (node.title, node.created_version) == ("The port is 4333", 1)
    assert memory.stats()["version"] == 2


async def test_a_batch_is_one_commit_and_its_duplicate_counts_once(memory: MemoryEngine) -> None:
    writes = [MemoryWrite(insist=True, nodes=(Node(title=f"Thought number {index}"),)) for index in range(20)]
    written = await store(memory, *writes, writes[0])
    assert [answer.version for answer in written.answers] == [*range(1, 21), 1]
    assert written.event is not None
    assert written.event.version == 20
    assert memory.stats()["nodes"] == 20
    assert await find(memory, "thought number 7", limit=1) == ["Thought number 7"]


async def test_an_update_replaces_text_vector_and_edge_weight(
    memory: MemoryEngine, settings: Settings
) -> None:
    await store_one(memory, nodes=(Node(id="a", title="The cat sleeps"), Node(id="b", title="Invoices")))
    await store_one(memory, edges=(Edge(from_id="a", to_id="b", weight=0.2),))
    await store_one(
        memory, nodes=(Node(id="a", title="Taxes are due in May"),), edges=(Edge(from_id="a", to_id="b"),)
    )
    assert (await find(memory, "when must I pay taxes"))[0] == "Taxes are due in May"
    assert "The cat sleeps" not in await find(memory, "cat")
    assert memory.stats()["nodes"] == 2
    edges = (await memory.list_edges(EdgesQuery())).edges
    await memory.close()
    memory = await MemoryEngine.open(settings)
    assert (await memory.list_edges(EdgesQuery())).edges == edges
    (edge,) = (await memory.list_edges(EdgesQuery())).edges
    assert (edge.weight, edge.created_version, edge.version) == (1.0, 2, 3)


async def test_retiring_hides_a_node_and_marks_it(memory: MemoryEngine) -> None:
    await store_one(memory, nodes=(Node(id="a", title="The door code is 1234"),))
    answer = await store_one(memory, retire=("a",))
    assert (answer.ids, answer.version) == (("a",), 2)
    assert await find(memory, "door code") == []
    assert [(node.title, node.retired_version) for node in await memory.get(["a"])] == [
        ("The door code is 1234", 2)
    ]


NOTES = (
    Node(title="Lunch", body="Meals at midday are covered by the company.", tags=("money", "food")),
    Node(title="Release train", kind="decision", body="We ship to production on Fridays.", tags=("release",)),
    Node(
        title="Fault ERR_4242",
        kind="event",
        body="It means that the disk is full.",
        source=Source(agent="scout"),
    ),
    Node(
        title="Old rule",
        body="We ship on Mondays.",
        created_at="2020-01-01T00:00:00+00:00",
        tags=("release",),
    ),
)


async def test_search_finds_by_meaning_and_by_exact_word(memory: MemoryEngine) -> None:
    await store_one(memory, nodes=NOTES)
    hits = await memory.search(MemoryQuery(text="who pays for dinner"))
    assert hits[0].node.title == "Lunch"
    assert hits[0].why["vector"] > 0 == hits[0].why.get("keyword", 0)
    hits = await memory.search(MemoryQuery(text="err_4242"))
    assert hits[0].node.title == "Fault ERR_4242"
    assert hits[0].why["keyword"] > 0
    assert all(0 < hit.score <= 1 for hit in hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits[0].score > 2 * hits[1].score


async def test_search_keeps_to_its_filters(memory: MemoryEngine) -> None:
    await store_one(memory, nodes=NOTES)
    assert await find(memory, "when do we ship", kinds=("decision", "goal")) == ["Release train"]
    assert set(await find(memory, "when do we ship", tags=("release",))) == {"Release train", "Old rule"}
    assert await find(memory, "when do we ship", tags=("release",), since="2021-01-01") == ["Release train"]
    assert await find(memory, "disk", agent="scout") == ["Fault ERR_4242"]
    assert await find(memory, "disk", agent="nobody") == []
    assert len(await find(memory, "when do we ship", limit=2)) == 2


async def test_search_leaves_out_what_no_longer_holds_unless_it_is_asked_for(memory: MemoryEngine) -> None:
    old, new, ended, later = (
        Node(id="old", title="The queue of the importer is Celery"),
        Node(id="new", title="Temporal runs the jobs of the importer"),
        Node(id="ended", title="The importer is frozen", valid_to="2026-01-31T00:00:00+00:00"),
        Node(id="later", title="The importer has a licence", valid_to="2999-01-01T00:00:00+00:00"),
    )
    await store_one(memory, nodes=(old, new, ended, later))
    before = memory.version
    await store_one(memory, edges=(Edge(from_id="new", to_id="old", relation=Relation.SUPERSEDES),))

    async def hits(text: str, **fields: object) -> dict[str, str]:
        query = MemoryQuery(text=text, **fields)  # type: ignore[arg-type]
        return {hit.node.id: hit.superseded_by for hit in await memory.search(query)}

    assert await hits("queue of the importer") == {"new": "", "later": ""}
    everything = {"old": "new", "new": "", "ended": "", "later": ""}
    assert await hits("queue of the importer", history=True) == everything
    assert await hits("What was the queue of the importer?") == everything
    assert (await hits("queue of the importer", at=before))["old"] == ""
    await store_one(memory, retire=("new",))
    assert await hits("queue of the importer") == {"old": "", "later": ""}


async def test_of_an_open_question_search_tells_the_newer_first_and_says_so(memory: MemoryEngine) -> None:
    old, new, other = (
        Node(id="old", title="The queue of the importer is Celery"),
        Node(id="new", title="Jobs of the importer: Temporal"),
        Node(id="other", title="The importer has a licence"),
    )
    await store_one(memory, nodes=(old, new, other))
    for node_id in ("new", "other"):
        provenance = {"rule": "undecided"} if node_id == "new" else {}
        edge = Edge(from_id=node_id, to_id="old", relation=Relation.CONTRADICTS, provenance=provenance)
        await store_one(memory, edges=(edge,))
    hits = await memory.search(MemoryQuery(text="queue of the importer"))
    assert [hit.node.id for hit in hits][:2] == ["new", "old"]
    assert {hit.node.id: hit.questioned_by for hit in hits} == {"new": "", "old": "new", "other": ""}
    everything = await memory.search(MemoryQuery(text="queue of the importer", history=True))
    assert everything[0].node.id == "old"


async def test_passages_are_read_as_answers(memory: MemoryEngine) -> None:
    good, bad = await memory.read("Who owns the export?", ["Ada owns the export.", "The printer is on fire."])
    assert good > 5 > -5 > bad
    assert await memory.read("Who owns the export?", []) == []
    with pytest.raises(ActionError, match="There are 101 passages to read"):
        await memory.read("x", ["y"] * 101)


async def test_embed_gives_the_vectors_that_nodes_may_bring(memory: MemoryEngine) -> None:
    (vector,) = await memory.embed(["Who pays for lunch?"])
    answer = await store_one(memory, nodes=(Node(title="Zzz", embedding=tuple(vector)),))
    assert answer.error == ""
    hits = await memory.search(MemoryQuery(text="Who pays for lunch?"))
    assert [hit.node.title for hit in hits] == ["Zzz"]
    assert hits[0].why["vector"] == pytest.approx(MEANING, abs=0.001)
    assert hits[0].node.embedding == ()


async def test_a_bad_write_is_refused_and_the_others_go_on(memory: MemoryEngine) -> None:
    bad = MemoryWrite(nodes=(Node(id="x", title="Beside"),), edges=(Edge(from_id="x", to_id="nowhere"),))
    good = MemoryWrite(insist=True, nodes=(Node(id="fine", title="Fine"),))
    written = await store(memory, bad, good)
    assert [answer.error for answer in written.answers] == [
        "an edge cannot lead to nowhere, which is not in memory",
        "",
    ]
    assert (written.answers[0].ids, written.answers[0].version) == ((), 0)
    assert [node.id for node in await memory.get(["x", "fine"])] == ["fine"]
    assert written.event is not None
    assert written.event.ids == ("fine",)
    only_bad = await store(memory, bad)
    assert only_bad.event is None
    assert memory.stats()["version"] == 2


async def test_the_loop_stays_free_while_a_batch_is_embedded(memory: MemoryEngine) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    ticking = asyncio.create_task(tick())
    start = time.monotonic()
    nodes = tuple(Node(title=f"Note {index}", body="Some words to be embedded. " * 10) for index in range(60))
    await store_one(memory, nodes=nodes)
    passed = time.monotonic() - start
    ticking.cancel()
    assert ticks > passed / 0.05


async def test_a_search_during_a_long_write_does_not_wait_for_it(memory: MemoryEngine) -> None:
    await store_one(memory, nodes=NOTES)
    nodes = tuple(
        Node(title=f"Note {index}", body="Some words to be embedded. " * 20) for index in range(100)
    )
    writing = asyncio.create_task(store_one(memory, nodes=nodes))
    await asyncio.sleep(0.05)
    assert (await find(memory, "who pays for dinner"))[0] == "Lunch"
    assert not writing.done()
    assert (await writing).error == ""
