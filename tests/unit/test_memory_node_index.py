"""Nodes by slot: what is read out of tables, the times, and who stands beside whom in a session."""

import random

import numpy as np
import pyarrow as pa
import pytest

from services.memory.graph.decay import parse_time
from services.memory.retrieval.node_index import COLUMNS, MANY, NodeIndex
from services.memory.retrieval.node_table import CONFIDENT, DONE, GENERIC, OFFSETS, read_times
from services.memory.storage.tables import write_nodes
from shared.contracts import Node, Source
from tests.support.memory import at, note


def index(*nodes: Node) -> NodeIndex:
    return NodeIndex(write_nodes(nodes))


def put(some: NodeIndex, *nodes: Node) -> None:
    some.stage(nodes)
    some.publish()


@pytest.mark.parametrize(
    "times",
    [
        ["2026-03-01T00:00:00.123456+00:00", "1969-12-31T23:59:59+00:00"],
        ["2026-03-01T00:00:00.123456+00:00", "2026-03-01"],
        ["2026-03-01T00:00:00+02:00", "2026-03-01T12:30:00Z", "2026-03-01 12:30"],
        ["2026-W10-7T00:00:00+00:00"],
        [],
    ],
)
def test_times_of_a_column_are_those_of_each(times: list[str]) -> None:
    assert read_times(pa.array(times, pa.string())).tolist() == [parse_time(text) for text in times]


def test_a_time_without_a_zone_is_utc() -> None:
    assert parse_time("1970-01-02T00:00:00") == parse_time("1970-01-01T22:00:00-02:00") == 86_400


def test_columns_are_the_same_for_what_is_loaded_and_what_is_put() -> None:
    nodes = [
        note(
            "a", "one", body="two", tags=("x", "y"), source=Source(agent="scout", session="s"), importance=0.3
        ),
        note("b", "ümläut", kind="goal", updated_at="2026-04-01T00:00:00+00:00", version=5),
        note("c", "gone", retired_version=7),
        note("d", "later", valid_from=at(5), valid_to="2027-01-01", metadata={"flag": "generic"}),
        note("e", "done", metadata={"status": "Done", "confidence": 0.2, "note": "flag"}),
        note("f", "own", source=Source(session="agents/ada/notes.md", channel="ingest")),
        note("g", "no file", source=Source(session="agents/ada/notes.md", channel="goal")),
    ]
    loaded, grown = index(*nodes), index()
    put(grown, *nodes)
    for name in COLUMNS.keys() - {"kind", "agent", "session", "owner"}:
        assert loaded.column(name).tolist() == grown.column(name).tolist(), name
    for name, value in (("kind", "goal"), ("agent", "scout"), ("session", "s"), ("owner", "ada")):
        of_loaded, of_grown = (some.column(name) == some.code(value) for some in (loaded, grown))
        assert of_loaded.tolist() == of_grown.tolist()
        assert np.count_nonzero(of_loaded) == 1
    assert loaded.column("marks").tolist() == [0, 0, 0, GENERIC, CONFIDENT + DONE, 0, 0]
    slots = range(len(nodes))
    assert loaded.read(slots) == grown.read(slots) == nodes
    assert loaded.count_kinds() == {"fact": 5, "goal": 1}


def test_a_staged_node_is_not_there_before_it_is_published() -> None:
    some = index(note("a", "one", tags=("x",)))
    some.stage([note("b", "two", tags=("x",)), note("a", "three")])
    assert some.size == 1
    assert some.find("b") is None
    assert some.admit(some.column("live"), tags=("x",)).tolist() == [True]
    some.publish()
    assert some.find("a") == 2
    assert some.admit(some.column("live"), tags=("x",)).tolist() == [False, True, False]
    assert some.wasted == 1


def test_only_what_is_asked_for_is_kept() -> None:
    some = index(*[note(f"n{i}", f"title {i}", tags=(f"t{i}",)) for i in range(4)])
    put(some, note("n1", "again", tags=("t9",)), note("n4", "more", tags=("t0",)))
    kept = some.keep(np.flatnonzero(some.column("current")))
    assert [entry.title for entry in kept.read(range(kept.size))] == [
        *("title 0", "title 2", "title 3"),
        *("again", "more"),
    ]
    assert kept.find("n1") == 3
    assert kept.wasted == 0
    assert kept.admit(kept.column("live"), tags=("t0",)).tolist() == [True, False, False, False, True]
    for page in (kept.page_of_many, kept.page_of_few):
        assert page(kept.column("live"), "n1", 2) == [1, 2]
    put(kept, note("n5", "later"))
    assert kept.read([5])[0].title == "later"


def talk(number: int, session: str, minute: int, **fields: object) -> Node:
    created = f"2026-03-01T{minute // 60:02}:{minute % 60:02}:00+00:00"
    return note(f"n{number:03}", "t", created_at=created, source=Source(session=session), **fields)


def stands_beside(some: NodeIndex) -> dict[str, list[str]]:
    """Of each live node the ids around it."""
    live = np.flatnonzero(some.column("live"))
    beside = some.sessions.neighbours(live, some.size)
    return {
        node_id: [some.name(np.array([slot]))[0] if slot >= 0 else "" for slot in column]
        for node_id, column in zip(some.name(live), beside.T.tolist(), strict=True)
    }


def should_stand_beside(nodes: dict[str, Node]) -> dict[str, list[str]]:
    result = {}
    live = sorted(
        (entry for entry in nodes.values() if not entry.retired_version),
        key=lambda entry: (entry.created_at, entry.id),
    )
    for entry in live:
        around = [other.id for other in live if other.source.session == entry.source.session]
        place = around.index(entry.id)
        result[entry.id] = [
            around[place + offset] if entry.source.session and 0 <= place + offset < len(around) else ""
            for offset in OFFSETS
        ]
    return result


def test_neighbours_in_sessions_however_they_came_in() -> None:
    chance = random.Random(5)
    first = [talk(i, chance.choice(["", "s", "t", "u"]), chance.randrange(30)) for i in range(40)]
    nodes = {entry.id: entry for entry in first}
    some = index(*first)
    assert stands_beside(some) == should_stand_beside(nodes)
    for turn in range(60):
        retired = turn if chance.random() < 0.3 else 0
        batch = [
            talk(number, chance.choice(["", "s", "t", "v"]), chance.randrange(30), retired_version=retired)
            for number in chance.sample(range(60), 3)
        ]
        put(some, *batch)
        nodes.update((entry.id, entry) for entry in batch)
        assert stands_beside(some) == should_stand_beside(nodes)
    assert stands_beside(some.keep(np.flatnonzero(some.column("current")))) == should_stand_beside(nodes)


def test_who_came_later_stands_beside_nobody_yet() -> None:
    some = index(talk(1, "s", 1), talk(3, "s", 3))
    put(some, talk(4, "s", 4), talk(2, "s", 2))
    slots = np.array([0, 1])
    assert some.sessions.neighbours(slots, 4).T.tolist() == [[-1, -1, 3, 1], [0, 3, 2, -1]]
    assert (some.sessions.neighbours(slots, 2) < 2).all()


def test_neighbours_after_sessions_were_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.memory.retrieval.node_table.MAX_CHANGED", 3)
    nodes = {entry.id: entry for entry in (talk(i, f"s{i % 3}", i) for i in range(12))}
    some = index(*nodes.values())
    for i in range(12, 30):
        entry = talk(i % 17, f"s{i % 4}", 60 - i)
        put(some, entry)
        nodes[entry.id] = entry
        assert stands_beside(some) == should_stand_beside(nodes)


def test_many_put_at_once_are_as_if_put_one_by_one() -> None:
    nodes = [
        note(
            f"n{number}",
            f"Töpfe {number}",
            body="x" * (number % 7),
            kind=("fact", "goal")[number % 2],
            tags=(f"t{number % 5}", "all"),
            source=Source(agent=("scout", "")[number % 2], session=f"s{number // 10}"),
            updated_at="2026-04-01" if number == 3 else "",
            retired_version=int(number == 5),
            metadata={"n": number},
        )
        for number in range(MANY + 10)
    ]
    once, one_by_one = index(note("n1", "older")), index(note("n1", "older"))
    put(once, *nodes)
    for node in nodes:
        put(one_by_one, node)
    slots = np.arange(once.size)
    for name in ("live", "current", "created", "changed", "importance", "version", "size"):
        assert once.column(name).tolist() == one_by_one.column(name).tolist(), name
    live = once.column("live")
    for filters in ({"tags": ("t2", "all")}, {"agent": "scout"}, {"session": "s3"}, {"kinds": ("goal",)}):
        assert once.admit(live, **filters).tolist() == one_by_one.admit(live, **filters).tolist()  # type: ignore[arg-type]
    assert once.read(slots.tolist()) == one_by_one.read(slots.tolist())
    kept = once.keep(slots[once.column("current")])
    assert {node.id: node for node in kept.read(range(kept.size))} == {node.id: node for node in nodes}
