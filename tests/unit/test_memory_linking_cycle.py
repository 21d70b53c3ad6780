"""Cycles of the linker over the real view, with vectors given."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.memory.linking.linker import MAX_EDGES, MAX_NODES, merge_duplicates, remove_faded_edges
from services.memory.linking.plan import MAX_AUTOMATIC, is_automatic
from shared.contracts import Edge, MemoryWrite, Node, Relation
from tests.support.memory import DIMENSIONS, NOW, World, at, beside, direction, note

DAY = 86_400.0


def apart(number: int) -> tuple[float, ...]:
    """Unit vectors that are at right angles."""
    values = np.zeros(DIMENSIONS)
    values[number] = 1
    return tuple(values.tolist())


def spread(count: int, seed: int = 0) -> list[tuple[float, ...]]:
    """Unit vectors that have nothing to do with each other."""
    values = np.random.default_rng(seed).normal(size=(count, DIMENSIONS))
    return [tuple(row) for row in (values / np.linalg.norm(values, axis=1, keepdims=True)).tolist()]


@pytest.fixture
def world() -> World:
    return World()


def test_what_is_alike_is_linked_from_the_newer_to_the_older(world: World) -> None:
    world.write(note("new", "Retries need jitter", 5, embedding=beside(0.8)))
    world.write(note("old", "A storm of requests", 0, embedding=direction(1)))
    world.write(note("far", "Lunch was late", 9, embedding=beside(0.7, axis=2)))
    cycle = world.cycle()
    assert cycle.counts["similar"] == 1
    assert list(world.edges("old")) == [("new", "related_to", "old")]
    assert world.edges("old")["new", "related_to", "old"].weight == pytest.approx(0.8, abs=0.003)


def test_a_second_cycle_on_the_same_memory_writes_nothing(world: World) -> None:
    world.write(
        note("a", "Retries need jitter", embedding=beside(0.8)), note("b", "Storms", embedding=direction(1))
    )
    assert world.cycle().write is not None
    version = world.view.version
    world.cursor, world.after = 0, ""
    assert world.cycle().write is None
    assert world.view.version == version
    assert world.cycle().nodes == 0


def test_a_contradiction_is_flagged_and_both_sides_stay(world: World) -> None:
    world.write(note("a", "We deploy on Fridays", embedding=direction(1)))
    world.write(note("b", "We never deploy on Fridays", 1, embedding=beside(0.93)))
    world.settle()
    assert list(world.edges("a")) == [("b", "contradicts", "a")]
    assert not world.node("a").retired_version
    assert not world.node("a").valid_to


def test_a_contradiction_goes_when_a_side_is_put_right(world: World) -> None:
    world.write(note("a", "We deploy on Fridays", embedding=direction(1)))
    world.write(note("b", "We never deploy on Fridays", 1, embedding=beside(0.9)))
    world.settle()
    world.write(note("b", "We deploy on Fridays too, says Ann", 1, embedding=beside(0.9)))
    world.settle()
    assert list(world.edges("a")) == [("b", "related_to", "a")]


def test_what_is_asked_of_texts_that_are_little_alike_stays_asked(world: World) -> None:
    world.write(note("a", "The port is 4222", embedding=direction(1), agent="scout"))
    world.write(note("b", "The port is 4333", 1, embedding=beside(0.5), agent="scout"))
    world.settle()
    asked = [edge for edge in world.edges("a").values() if edge.relation is Relation.CONTRADICTS]
    ended = world.node("a").valid_to
    assert asked or ended
    world.cursor, world.after = 0, ""
    assert all(cycle.write is None for cycle in world.settle())


def test_a_likeness_goes_when_the_text_has_changed(world: World) -> None:
    world.write(note("a", "Retries need jitter", embedding=direction(1)))
    world.write(note("b", "A storm of retries", 1, embedding=beside(0.8)))
    world.write(note("c", "Drawn by hand", 1, embedding=apart(9)), edges=[Edge(from_id="c", to_id="b")])
    world.settle()
    world.write(note("b", "Lunch was late", 1, embedding=beside(0.2)))
    world.settle()
    assert list(world.edges("b")) == [("c", "related_to", "b")]


def test_a_newer_value_ends_the_older_one(world: World) -> None:
    world.write(note("a", "The port of the broker is 4222", embedding=direction(1)))
    world.write(note("b", "The port of the broker is 4333", 60, embedding=beside(0.85)))
    cycles = world.settle()
    assert cycles[0].counts["superseded"] == 1
    assert list(world.edges("a")) == [("b", "supersedes", "a")]
    assert world.node("a").valid_to == at(60)
    assert world.node("a").updated_at == at(0)  # nobody shall take it for something new
    assert sum(cycle.write is not None for cycle in cycles) == 1


def test_a_pair_that_supersedes_or_contradicts_is_not_related_beside_that(world: World) -> None:
    world.write(
        note("a", "The port is 4222", embedding=direction(1)), note("x", "We ship it", embedding=apart(7))
    )
    world.write(note("b", "The port is 4333", 1, embedding=beside(0.99)))
    world.write(note("y", "We never ship it", 1, embedding=apart(7), kind="decision"))
    world.settle()
    world.cursor, world.after = 0, ""
    world.settle()
    assert list(world.edges("a")) == [("b", "supersedes", "a")]
    assert list(world.edges("x")) == [("y", "contradicts", "x")]


def test_each_of_a_chain_ends_the_one_before(world: World) -> None:
    for hour, port in enumerate((4222, 4333, 4444)):
        world.write(note(f"p{port}", f"The port is {port}", 60 * hour, embedding=beside(0.9, axis=1 + hour)))
        world.settle()
    assert [world.node(f"p{port}").valid_to for port in (4222, 4333, 4444)] == [at(60), at(120), ""]


def test_duplicates_become_one_with_the_edges_of_both(world: World) -> None:
    world.write(note("x", "Something else", embedding=apart(5)), note("y", "And another", embedding=apart(6)))
    world.write(
        note("a", "The port of the broker is 4222", embedding=direction(1), tags=("net",)),
        edges=[Edge(from_id="a", to_id="x", relation=Relation.DEPENDS_ON, weight=0.7)],
    )
    world.write(
        note("b", "The broker listens on port 4222", 1, embedding=beside(0.95), importance=0.7),
        edges=[Edge(from_id="y", to_id="b", relation=Relation.LED_TO, weight=0.6)],
    )
    cycles = world.settle()
    assert cycles[0].counts["merged"] == 1
    assert world.node("b").retired_version
    assert world.edges("b") == {}
    assert world.node("a").metadata == {"merged_from": ["b"]}
    assert (world.node("a").importance, world.node("a").tags) == (0.7, ("net",))
    assert sorted(world.edges("a")) == [("a", "depends_on", "x"), ("y", "led_to", "a")]
    assert world.edges("a")["y", "led_to", "a"].provenance == {"by": "manual", "moved_from": "b"}


@pytest.mark.parametrize("ends", [("b", "x"), ("x", "b")])
def test_the_weightier_of_two_edges_that_become_one_stays(world: World, ends: tuple[str, str]) -> None:
    world.write(note("x", "Something else", embedding=apart(5)))
    for start, end, weight in (("a", "x", 0.4), (*ends, 0.9)):
        world.write(
            note(min(start, end), "The port of the broker is 4222", embedding=direction(1)),
            edges=[
                Edge(from_id=start, to_id=end, weight=weight, provenance={"by": "structural", "rule": "tags"})
            ],
        )
    world.settle()
    (edge,) = world.edges("x").values()
    assert ({edge.from_id, edge.to_id}, edge.weight) == ({"a", "x"}, 0.9)


def test_many_copies_become_one(world: World) -> None:
    copies = [note(f"n{n:02}", "The port of the broker is 4222", embedding=direction(1)) for n in range(40)]
    world.write(*copies)
    world.settle()
    live = [copy.id for copy in copies if world.view.is_live(copy.id)]
    assert len(live) == 1
    assert sorted(world.node(live[0]).metadata["merged_from"]) == sorted({c.id for c in copies} - {live[0]})


def test_a_pair_somebody_drew_a_contradiction_between_is_not_merged(world: World) -> None:
    world.write(
        note("a", "The port is 4222", embedding=direction(1)),
        note("b", "The port is 4222", embedding=direction(1)),
        edges=[Edge(from_id="a", to_id="b", relation=Relation.CONTRADICTS)],
    )
    assert world.cycle().write is None


def alike(count: int) -> list[tuple[float, ...]]:
    """Unit vectors with a cosine of about .8 to each other."""
    values = np.zeros((count, DIMENSIONS))
    values[:, 0] = np.sqrt(0.8)
    values[np.arange(count), 1 + np.arange(count)] = np.sqrt(0.2)
    return [tuple(row) for row in values.tolist()]


@pytest.mark.parametrize(("neighbours", "generic"), [(30, False), (31, True)])
def test_more_than_30_neighbours_are_flagged_and_not_linked(
    world: World, neighbours: int, generic: bool
) -> None:
    words = "ash birch cedar fir oak pine elm yew".split()
    world.write(
        *(
            note(f"n{n:02}", f"{words[n % 8]} {words[n // 8 % 8]} are trees {chr(97 + n)}", embedding=vector)
            for n, vector in enumerate(alike(neighbours + 1))
        )
    )
    cycle = world.cycle()
    assert len(cycle.flagged) == (neighbours + 1 if generic else 0)
    assert bool(world.edges("n00")) != generic
    assert world.node("n00").metadata == ({"flag": "generic"} if generic else {})
    if generic:
        assert all(later.write is None for later in world.settle())


def test_a_turn_like_many_others_keeps_its_place_in_the_talk(world: World) -> None:
    world.write(
        *(
            note(f"n{n:02}", f"Yes, {n} of them!", n, kind="episodic", session="s", embedding=vector)
            for n, vector in enumerate(alike(32))
        )
    )
    cycle = world.cycle()
    assert cycle.flagged == ()
    assert {edge.provenance["by"] for edge in world.edges("n07").values()} == {"structural"}
    assert len(world.edges("n07")) == 6


def test_a_generic_node_is_linked_again_when_it_no_longer_is(world: World) -> None:
    world.write(
        note("a", "Ashes are trees", metadata={"flag": "generic", "k": 1}, embedding=direction(1)),
        note("b", "Birches grow", embedding=beside(0.8)),
    )
    world.settle()
    assert world.node("a").metadata == {"k": 1}
    assert world.edges("a")


def test_a_manual_edge_is_left_alone(world: World) -> None:
    drawn = Edge(from_id="a", to_id="b", weight=0.2)
    world.write(
        note("a", "Ashes are trees", embedding=direction(1)),
        note("b", "Birches grow", embedding=beside(0.8)),
        edges=[drawn],
    )
    assert world.cycle().write is None


def test_a_weaker_automatic_edge_grows(world: World) -> None:
    faint = Edge(from_id="a", to_id="b", weight=0.3, provenance={"by": "structural", "rule": "session"})
    world.write(
        note("a", "Ashes are trees", embedding=direction(1)),
        note("b", "Birches grow", embedding=beside(0.8)),
        edges=[faint],
    )
    world.cycle()
    (edge,) = world.edges("a").values()
    assert (edge.from_id, edge.provenance["by"]) == ("a", "similarity")
    assert edge.weight == pytest.approx(0.8, abs=0.003)


def test_sessions_half_hours_and_tags_link(world: World) -> None:
    def entry(node_id: str, minutes: float, number: int, **fields: Any) -> Node:
        return note(node_id, f"Entry {node_id}", minutes, embedding=apart(number), **fields)

    world.write(
        entry("s1", 0, 0, session="s", agent="scout"),
        entry("s2", 20, 1, session="s", agent="scout"),
        entry("s3", 500, 2, session="s", agent="critic"),
        entry("t1", 0, 3, tags=("x", "y", "z")),
        entry("t2", 0, 4, tags=("y", "x", "z")),
        entry("t3", 0, 5, tags=("x",)),
        entry("d", 600, 6, kind="decision", session="r"),
        entry("e", 610, 7, kind="event", session="r"),
        entry("e0", 590, 8, kind="event", session="r"),
    )
    world.settle()
    assert world.edges("s2")["s2", "related_to", "s1"].weight == 0.4
    assert world.edges("s3")["s3", "related_to", "s2"].weight == 0.3
    assert world.edges("t2")["t2", "related_to", "t1"].weight == 0.55
    assert not world.edges("t3")
    assert world.edges("d")["d", "led_to", "e"].weight == 0.6
    assert ("d", "led_to", "e0") not in world.edges("d")


def test_what_is_remembered_later_of_earlier_is_linked_with_what_came_after(world: World) -> None:
    world.write(note("later", "The later entry", 10, session="s", embedding=apart(0)))
    world.settle()
    world.write(note("earlier", "The earlier entry", 5, session="s", embedding=apart(1)))
    world.settle()
    assert list(world.edges("earlier")) == [("later", "related_to", "earlier")]


def test_a_long_session_is_a_chain_and_not_a_knot(world: World) -> None:
    vectors = spread(300)
    world.write(
        *(
            note(f"t{n:03}", f"Turn {n}", n, session="s", kind="episodic", embedding=vectors[n])
            for n in range(300)
        )
    )
    world.settle()
    assert len(world.view.graph) <= 3 * 300
    assert {other for edge in world.edges("t150") for other in (edge[0], edge[2])} == {
        f"t{n}" for n in range(147, 154)
    }


def test_observations_are_instances_of_patterns(world: World) -> None:
    world.write(note("p", "Full queues time out", kind="pattern", embedding=direction(1)))
    world.write(note("o", "It timed out thrice", 1, kind="observation", embedding=beside(0.72)))
    world.write(note("n", "It rained", 1, kind="observation", embedding=beside(0.68, axis=2)))
    world.settle()
    assert list(world.edges("p")) == [("o", "instance_of", "p")]


def test_no_node_gets_more_than_50_automatic_edges(world: World) -> None:
    vectors = spread(90)
    world.write(note("hub", "The hub", kind="decision", session="s", embedding=vectors[0]))
    for n in range(1, 80):
        world.write(
            note(f"n{n}", f"Spoke {n}", embedding=vectors[n]),
            edges=[Edge(from_id=f"n{n}", to_id="hub", weight=0.5 + n / 200, provenance={"by": "similarity"})],
        )
    world.write(note("event", "The event", 1, kind="event", session="s", embedding=vectors[80]))
    world.settle()
    assert ("hub", "led_to", "event") not in world.edges("hub")


def test_a_contradiction_makes_room_for_itself(world: World) -> None:
    vectors = spread(60, seed=3)
    world.write(note("hub", "We deploy on Fridays", embedding=direction(1)))
    for n in range(MAX_AUTOMATIC):
        world.write(
            note(f"n{n}", f"Spoke {n}", embedding=vectors[n]),
            edges=[Edge(from_id=f"n{n}", to_id="hub", weight=0.4 + n / 100, provenance={"by": "structural"})],
        )
    world.settle()
    world.write(note("no", "We never deploy on Fridays", 1, embedding=beside(0.9)))
    world.settle()
    edges = world.edges("hub")
    assert ("no", "contradicts", "hub") in edges
    assert ("n0", "related_to", "hub") not in edges
    assert sum(map(is_automatic, edges.values())) == MAX_AUTOMATIC


def test_a_bulk_write_is_worked_off_in_bounded_cycles(world: World) -> None:
    vectors = spread(1_234)
    world.write(*(note(f"n{n:04}", f"Entry {n}", embedding=vectors[n]) for n in reversed(range(1_234))))
    world.write(note("last", "The last entry", embedding=direction(1)))
    handled = [cycle.nodes for cycle in world.settle()]
    assert handled == [MAX_NODES, MAX_NODES, 234 + 1, 0]


def test_a_cycle_stops_at_its_edges(world: World) -> None:
    groups = [spread(1, seed=n)[0] for n in range(60)]
    rng = np.random.default_rng(1)
    nodes = []
    for group, centre in enumerate(groups):
        for n in range(15):
            vector = np.array(centre) + rng.normal(size=DIMENSIONS) * 0.02
            vector /= np.linalg.norm(vector)
            letters = chr(97 + group % 26) + chr(97 + group // 26) + chr(97 + n)
            nodes.append(note(f"{letters}", f"{letters} {letters[::-1]}x", embedding=tuple(vector.tolist())))
    world.write(*nodes)
    cycles = world.settle()
    sizes = [len(cycle.write.edges) if cycle.write else 0 for cycle in cycles]
    assert max(sizes) <= MAX_EDGES
    assert sizes[0] > MAX_EDGES - MAX_AUTOMATIC - 15
    assert len(world.view.graph) == 60 * 15 * 14 // 2


def test_decay_removes_what_has_faded_and_nothing_else(world: World) -> None:
    world.write(
        note("a", "One", embedding=apart(0), importance=0.0),
        note("b", "Two", embedding=apart(1), importance=0.0),
        note("c", "Three", embedding=apart(2), importance=1.0),
        edges=[
            Edge(from_id="a", to_id="b", weight=0.5, provenance={"by": "similarity"}, touched_at=at(0)),
            Edge(from_id="a", to_id="b", weight=0.5, relation=Relation.LED_TO, touched_at=at(0)),
            Edge(from_id="a", to_id="c", weight=0.5, provenance={"by": "similarity"}, touched_at=at(0)),
        ],
    )
    begin = NOW - 30 * DAY
    assert remove_faded_edges(world.view, begin + 230 * DAY) is None  # 0.5 x e^-2.30 = 0.0501
    write = remove_faded_edges(world.view, begin + 231 * DAY)
    assert write is not None
    assert [(key.from_id, key.to_id, key.relation.value) for key in write.unlink] == [
        ("a", "b", "related_to")
    ]
    world.apply(write)
    assert remove_faded_edges(world.view, begin + 231 * DAY) is None
    assert (
        remove_faded_edges(world.view, begin + 5_000 * DAY) is not None
    )  # what is important fades slowly, but fades


def test_the_sweep_finds_the_duplicates_that_are_there(world: World) -> None:
    vectors = spread(600)
    nodes = [note(f"n{n:03}", f"Entry number {n}", embedding=vectors[n]) for n in range(600)]
    twins = [note(f"t{n:03}", f"Entry number {n}", 1, embedding=vectors[n]) for n in range(0, 600, 60)]
    world.write(*nodes, *twins)
    first = merge_duplicates(world.view, limit=300)
    assert (first.merged, first.after) == (5, "n299")
    assert first.write is not None
    world.apply(first.write)
    second = merge_duplicates(world.view, first.after)
    assert (second.merged, second.after) == (5, "")
    assert second.write is not None
    world.apply(second.write)
    assert merge_duplicates(world.view).write is None
    assert [n.id for n in twins if world.view.is_live(n.id)] == []


TITLES = (
    "We deploy on Fridays",
    "We never deploy on Fridays",
    "The port is 4222",
    "The port is 4333",
    "The port of the broker is 4222",
    "Anna lives in Rome",
    "Anna lives in Oslo",
    "Nothing was found",
)
nodes = st.builds(
    lambda place, title, kind, minutes, session, agent, cosine, axis, tags, importance: {
        "node_id": f"n{place}",
        "title": title,
        "kind": kind,
        "minutes": minutes,
        "session": session,
        "agent": agent,
        "tags": tuple(sorted(tags)),
        "importance": importance,
        "embedding": beside(cosine, axis),
    },
    st.integers(0, 12),
    st.sampled_from(TITLES),
    st.sampled_from(["fact", "decision", "event", "observation", "pattern", "episodic"]),
    st.integers(0, 90),
    st.sampled_from(["", "s", "t"]),
    st.sampled_from(["", "scout"]),
    st.sampled_from([1.0, 0.99, 0.95, 0.9, 0.8, 0.5]),
    st.integers(1, 3),
    st.sets(st.sampled_from("xyz")),
    st.sampled_from([0.1, 0.5, 0.9]),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(nodes, min_size=1, max_size=6), min_size=1, max_size=4))
def test_the_linker_comes_to_rest_whatever_is_written(writes: list[list[dict[str, Any]]]) -> None:
    world = World()
    for write in writes:
        world.write(*{entry["node_id"]: note(**entry) for entry in write}.values())
        cycles = world.settle()
        assert sum(cycle.write is not None for cycle in cycles) <= 5
    for _ in range(
        3
    ):  # what left or moved may have made others nearest: these are found when all is seen again
        world.cursor, world.after = 0, ""
        cycles = world.settle()
    assert all(cycle.write is None for cycle in cycles)
    for node_id in world.view.select():
        edges = list(world.edges(node_id).values())
        assert sum(map(is_automatic, edges)) <= MAX_AUTOMATIC
        for edge in edges:
            assert world.view.is_live(edge.from_id)
            assert world.view.is_live(edge.to_id)
            if edge.relation is Relation.SUPERSEDES:
                assert world.node(edge.to_id).valid_to
        pairs = [frozenset((e.from_id, e.to_id)) for e in edges if e.relation is Relation.RELATED_TO]
        assert len(pairs) == len(set(pairs))


def test_a_write_of_the_linker_needs_nobodys_leave(world: World) -> None:
    world.write(
        note("a", "Retries need jitter", embedding=beside(0.8)), note("b", "Storms", embedding=direction(1))
    )
    write = world.cycle().write
    assert isinstance(write, MemoryWrite)
    assert (write.sender, write.insist) == ("memory", True)
