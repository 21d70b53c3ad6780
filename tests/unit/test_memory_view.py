"""A view: what is put shows at once, what is listed and selected, and that threads may read meanwhile."""

import sys
import threading
from random import Random
from typing import Any

import numpy as np
import pytest

from services.memory.retrieval import node_table as sessions_module
from services.memory.retrieval import view as view_module
from services.memory.retrieval.view import View
from shared.contracts import Edge, ListQuery, MemoryQuery, Node, Source
from tests.support.memory import (
    DIMENSIONS,
    NOW,
    World,
    edge,
    make_tables,
    make_view,
    note,
    put,
    search_ids,
    vector,
)


def titles(view: View, **fields: Any) -> list[str]:
    return [entry.id for entry in view.list(ListQuery(**fields)).nodes]


def test_writing_a_node_again_replaces_it() -> None:
    view = make_view((note("a", "apples", tags=("x",)), vector(1)), (note("c", "apples"), vector(1, 0.1)))
    again = note("a", "oranges", updated_at="2026-07-01T00:00:00+00:00", version=2)
    put(view, again, vectors={"a": vector(0, 0, 0, 1)})
    assert search_ids(view, "apples", vector(1)) == ["c"]
    assert search_ids(view, "oranges", since="2026-06-30T00:00:00+00:00") == ["a"]
    assert search_ids(view, "oranges", tags=("x",)) == []
    assert view.node("a") == again
    assert view.count() == 2
    assert view.version == 2


def test_a_node_whose_text_stays_keeps_its_vector() -> None:
    view = make_view((note("a", "apples"), vector(1, 2)), (note("b", "pears"), None))
    put(view, note("a", "apples", tags=("more",), version=2), note("b", "pears", version=2))
    kept = view.vector("a")
    assert kept is not None
    assert kept == pytest.approx(vector(1, 2), abs=1e-4)
    assert view.vector("b") is None
    assert view.vector("nobody") is None


def test_a_retired_node_is_got_but_not_found() -> None:
    view = make_view((note("a", "apples"), vector(1)), (note("c", "apples", kind="goal"), vector(1, 0.1)))
    put(view, note("a", "apples", retired_version=2, version=2))
    assert search_ids(view, "apples", vector(1)) == ["c"]
    assert [entry.retired_version for entry in view.nodes(["a", "nobody"])] == [2]
    assert not view.is_live("a")
    assert not view.is_live("nobody")
    assert view.is_live("c")
    assert view.count_kinds() == {"goal": 1}
    assert [found for found, _ in view.similar(vector(1), 5)] == ["c"]
    assert view.select() == ["c"]
    assert view.changed(0, 5) == ["c"]
    assert titles(view) == ["c"]
    assert titles(view, retired=True) == ["a", "c"]
    put(view, note("a", "apples", version=3))
    assert search_ids(view, "apples", vector(1)) == ["a", "c"]


def test_tables_build_into_the_same_nodes_and_answers() -> None:
    full = note(
        "full",
        "apples, in full",
        body="with a body: ümläut",
        metadata={"n": [1, {"deep": None}]},
        source=Source(agent="scout", session="s1", channel="mail"),
        importance=0.1 + 0.2,
        access_count=3,
        last_accessed_at="2026-03-02T00:00:00+00:00",
        valid_from="2026-01-01",
        tags=("x", "y"),
        created_version=4,
    )
    entries = [(full, vector(0, 1, 1)), (note("a", "apples", created_at="2026-03-01"), vector(1))]
    loaded, grown = make_view(*entries), make_view()
    for entry, direction in entries:
        assert direction is not None
        put(grown, entry, vectors={entry.id: direction})
    for view in (loaded, grown):
        assert view.nodes(["full", "a"]) == [entry for entry, _ in entries]
    query = MemoryQuery(text="apples")
    assert loaded.search(query, vector(0, 1), NOW) == grown.search(query, vector(0, 1), NOW)


def test_how_often_a_node_was_shown_is_laid_over_it() -> None:
    shown = make_tables([(note("a", "apples"), None)])._replace(
        access={"a": (7, "2026-05-01T00:00:00+00:00")}
    )
    view = View.build(shown)
    assert [view.nodes(["a"])[0].access_count, search_ids(view, "apples")] == [7, ["a"]]
    put(view, accessed={"a": (8, "2026-05-02T00:00:00+00:00")})
    assert view.list(ListQuery()).nodes[0].access_count == 8
    hit = view.search(MemoryQuery(text="apples"), vector(1), NOW)[0]
    assert hit.node.last_accessed_at == "2026-05-02T00:00:00+00:00"


def test_edges_come_with_the_nodes() -> None:
    view = make_view((note("a", "one"), None), (note("b", "two"), None), edges=[Edge(from_id="a", to_id="b")])
    put(view, note("c", "three"), edges=[Edge(from_id="c", to_id="a")])
    assert view.graph.hops(["c"]) == {"c": 0, "a": 1, "b": 2}


def test_new_vectors_of_nodes_that_stay() -> None:
    view = make_view((note("a", "apples"), vector(1)), (note("b", "pears"), None))
    view.put_vectors(["b", "nobody", "a"], np.array([vector(0, 1), vector(1, 1), vector(0, 0, 1)]))
    assert [found for found, _ in view.similar(vector(0, 1), 1)] == ["b"]
    assert view.similar(vector(0, 0, 1), 1) == [("a", pytest.approx(1, abs=1e-4))]


def test_similar_gives_true_cosines_best_first() -> None:
    directions = [vector(1, i / 10) for i in range(10)]
    view = make_view(*[(note(f"n{i}", "t", kind=f"k{i % 2}"), directions[i]) for i in range(10)])
    found = view.similar(vector(1), 4)
    assert [node_id for node_id, _ in found] == ["n0", "n1", "n2", "n3"]
    for i, (_, cosine) in enumerate(found):
        assert cosine == pytest.approx(float(directions[i] @ vector(1)), abs=1e-4)
    assert [node_id for node_id, _ in view.similar(vector(1), 9, floor=0.96)] == ["n0", "n1", "n2"]
    assert [node_id for node_id, _ in view.similar(vector(1, 9), 20)] == [f"n{i}" for i in range(9, -1, -1)]
    assert [node_id for node_id, _ in view.similar(vector(1), 2, kinds=("k1",))] == ["n1", "n3"]


def test_pages_are_in_the_order_of_ids() -> None:
    names = [f"n{i:03}" for i in range(50)]
    view = make_view(*[(note(name, "t", kind=f"k{i % 10}"), None) for i, name in enumerate(names[::-1])])
    assert titles(view, limit=2) == ["n000", "n001"]
    put(view, note("n0005", "between"), note("z", "last"))
    expected = sorted([*names, "n0005", "z"])
    seen, after = [], ""
    while True:
        page = view.list(ListQuery(after=after, limit=7))
        seen += [entry.id for entry in page.nodes]
        if not (after := page.next):
            break
    assert seen == expected
    few = view.list(ListQuery(kinds=("k3",), limit=2, after="n006"))
    assert [entry.id for entry in few.nodes] == ["n016", "n026"]
    assert few.next == "n026"
    assert titles(view, after="n048") == ["n049", "z"]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"kinds": ("goal",)}, ["b"]),
        ({"tags": ("x",)}, ["a"]),
        ({"agent": "scout"}, ["a"]),
        ({"session": "s"}, ["b"]),
        ({"since": "2026-03-02T00:00:00Z"}, ["b"]),
        ({"until": "2026-03-02T00:00:00Z"}, ["a"]),
        ({"changed_since": 3}, ["b"]),
        ({"changed_since": 4}, []),
    ],
)
def test_pages_are_filtered(fields: dict[str, Any], found: list[str]) -> None:
    one = note("a", "one", tags=("x",), source=Source(agent="scout"), version=3)
    two = note(
        "b",
        "two",
        kind="goal",
        source=Source(session="s"),
        version=4,
        updated_at="2026-04-01T00:00:00+00:00",
    )
    assert titles(make_view((one, None), (two, None)), **fields) == found


def test_select_orders_and_filters() -> None:
    day = "2026-03-{:02}T00:00:00+00:00"
    entries = [
        note(f"n{i}", "t", importance=importance, created_at=day.format(i + 1), kind=f"k{i % 2}")
        for i, importance in enumerate((0.5, 0.9, 0.5, 0.1, 0.9))
    ]
    view = make_view(*[(entry, None) for entry in entries])
    assert view.select() == ["n4", "n3", "n2", "n1", "n0"]
    assert view.select(limit=2) == ["n4", "n3"]
    assert view.select(order="important") == ["n4", "n1", "n2", "n0", "n3"]
    assert view.select(order="important", limit=3) == ["n4", "n1", "n2"]
    assert view.select(min_importance=0.5, kinds=("k0",)) == ["n4", "n2", "n0"]
    third = 1_772_496_000.0  # 2026-03-03
    assert view.select(since=third) == ["n4", "n3", "n2"]
    assert view.select(order=lambda importance, _: importance) == ["n1", "n4", "n0", "n2", "n3"]


def test_changed_gives_the_earliest_first() -> None:
    view = make_view(*[(note(f"n{i}", "t", version=10 - i), None) for i in range(10)])
    assert view.changed(4, 3) == ["n5", "n4", "n3"]
    assert view.changed(8, 9) == ["n1", "n0"]
    assert view.changed(10, 9) == []


def test_beside_gives_the_neighbours_in_the_session() -> None:
    entries = [
        (note(f"n{i}", "t", source=Source(session="s"), created_at=f"2026-03-01T00:0{i}:00Z"), None)
        for i in range(6)
    ]
    view = make_view(*entries)
    [(before, after)] = view.session_neighbours(["n1"])
    assert [[entry.id for entry in half] for half in (before, after)] == [["n0"], ["n2", "n3"]]
    put(view, retire(entries[2][0]))
    [(before, after)] = view.session_neighbours(["n3"])
    assert [[entry.id for entry in half] for half in (before, after)] == [["n0", "n1"], ["n4", "n5"]]
    assert view.session_neighbours(["n2", "nobody"]) == [([], [])] * 2


def test_many_rewrites_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_module, "LEAST_WASTED", 10)
    names = [f"n{i}" for i in range(20)]
    view = make_view(*[(note(name, "first", tags=(name,)), vector(1, i)) for i, name in enumerate(names)])
    for turn in range(2, 8):
        for i, name in enumerate(names):
            source = Source(session="s")
            put(
                view,
                note(name, f"{name} turn{turn}", tags=(name,), source=source, version=turn),
                vectors={name: vector(turn, i)},
            )
    put(view, note("n7", "gone", retired_version=9, version=9))
    assert len(view._state.vectors) < 45
    assert set(search_ids(view, "turn7", limit=100, session="s")) == set(names) - {"n7"}
    assert search_ids(view, "turn6") == []
    assert search_ids(view, "n3", tags=("n3",)) == ["n3"]
    assert view.similar(vector(7, 3), 1)[0][0] == "n3"
    assert view.nodes(["n7"])[0].retired_version == 9
    assert titles(view, retired=True, limit=1000) == sorted(names)
    assert [entry.id for entry in view.session_neighbours(["n8"])[0][0]] == ["n5", "n6"]


def test_what_is_kept_of_nodes_beside_them_is_what_loading_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is superseded and how many speak in a session, after writes of all kinds as after a start."""
    monkeypatch.setattr(view_module, "LEAST_WASTED", 60)
    monkeypatch.setattr(sessions_module, "MAX_CHANGED", 40)
    random, names, linked = Random(23), [f"n{i}" for i in range(60)], set[tuple[str, str, str]]()
    world = World(*[said(name, random) for name in names])
    for turn in range(300):
        one, other = sorted(random.sample(names, 2))  # edges in one direction make no cycle
        if turn % 8 < 2:
            world.write(said(one, random))  # brings a retired one back, too
        elif turn % 8 == 2 and world.view.is_live(one):
            world.write(retire=[one])
            linked = {each for each in linked if one not in each}
        elif turn % 8 == 3 and linked:
            world.write(unlink=[gone := random.choice(sorted(linked))])
            linked.remove(gone)
        elif world.view.is_live(one) and world.view.is_live(other):
            world.write(edges=[edge(one, other, "supersedes")])
            linked.add((one, other, "supersedes"))
        if turn % 50 == 49:
            kept = keeps(world.view)
            assert kept == keeps(world.rebuilt())
            superseded = {node_id for node_id, (is_superseded, _) in kept.items() if is_superseded}
            assert superseded == world.view.graph.successors(kept).keys()
    assert {number for _, number in kept.values()} >= {0, 1, 2, 3}
    assert any(superseded for superseded, _ in kept.values())


def said(name: str, random: Random) -> Node:
    session, agent = random.choice(("", *"abcdefghijkl")), random.choice(("", "ada", "ben"))
    return note(name, name, session=session, agent=agent, tags=random.choice(((), ("x",))))


def keeps(view: View) -> dict[str, tuple[bool, int]]:
    """Of each live node whether it is superseded, and how many speak in its session."""
    index = view._state.nodes
    slots = np.flatnonzero(index.column("live"))
    speakers = index.sessions.count_speakers(index.column("session")[slots]).tolist()
    pairs = zip(index.column("superseded")[slots].tolist(), speakers, strict=True)
    return dict(zip(index.name(slots), pairs, strict=True))


def test_reading_while_writing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version of a node says the same in its title and its kind: no reader sees a mixture, or a gap."""
    names = [f"n{i}" for i in range(40)]
    view = make_view(*[(version_of(name, 0), towards(0)) for name in names])
    problems: list[str] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                hits = view.search(MemoryQuery(text="shared", limit=100), vector(1), NOW)
                ids = [hit.node.id for hit in hits]
                if sorted(ids) != sorted(names):
                    problems.append(f"{len(ids)} hits, {len(set(ids))} of them different")
                problems.extend(
                    f"{hit.node.title} is of kind {hit.node.kind}"
                    for hit in hits
                    if not hit.node.title.endswith(f" {hit.node.kind}")
                )
                if len(view.list(ListQuery(limit=1000)).nodes) != len(names):
                    problems.append("the list has gaps")
                view.similar(towards(3), 5)
                view.session_neighbours(["n3"])
        except Exception as error:
            problems.append(repr(error))

    monkeypatch.setattr(view_module, "LEAST_WASTED", 200)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns all the time
    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for turn in range(1, 60):
        batch = [version_of(name, turn) for name in names[turn % 7 :: 7]]
        put(view, *batch, vectors={entry.id: towards(turn) for entry in batch})
    done.set()
    for reader in readers:
        reader.join()
    sys.setswitchinterval(interval)
    assert problems == []


def version_of(name: str, turn: int) -> Node:
    title = f"shared {name} k{turn}"
    return note(name, title, kind=f"k{turn}", version=turn + 1, source=Source(session="s"))


def towards(turn: int) -> Any:
    return vector(1, turn % DIMENSIONS / 10)


def retire(entry: Node) -> Node:
    return note(entry.id, entry.title, source=entry.source, created_at=entry.created_at, retired_version=2)
