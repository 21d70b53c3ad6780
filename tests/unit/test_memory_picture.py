"""The picture of the graph: what is drawn, where, and that it stays there."""

import itertools
import time

import numpy as np
import pytest

from services.memory.picture import NOTHING, Selection, draw, relax, scatter, select
from shared.contracts import Layout, LayoutQuery
from tests.support.memory import NOW, World, edge, node


def choose(world: World, **query: object) -> Selection:
    return select(world.view, LayoutQuery(**query), NOW)  # type: ignore[arg-type]


def chain(count: int, start: int = 0) -> World:
    """Nodes of which each has an edge to the next."""
    nodes = [node(f"n{number:03}", age=count - number) for number in range(start, start + count)]
    edges = [edge(one.id, other.id) for one, other in itertools.pairwise(nodes)]
    return World(*nodes, edges=edges)


def places(layout: Layout) -> dict[str, tuple[float, float]]:
    return {placed.id: (placed.x, placed.y) for placed in layout.nodes}


def test_the_same_nodes_give_the_same_picture() -> None:
    first, _ = draw(choose(chain(30)), NOTHING)
    again, _ = draw(choose(chain(30)), NOTHING)
    assert first == again
    assert len(first.edges) == 29
    assert (first.total, first.total_edges, first.version) == (30, 29, 1)
    assert all(-1 <= number <= 1 for place in places(first).values() for number in place)
    assert len(set(places(first).values())) == 30


def test_what_is_joined_lies_nearer_than_what_is_not() -> None:
    layout, _ = draw(choose(chain(40)), NOTHING)
    where = np.array([place for _, place in sorted(places(layout).items())])
    steps = np.hypot(*(where[1:] - where[:-1]).T)
    assert steps.mean() < 0.5 * np.hypot(*(where[20:] - where[:20]).T).mean()


def test_what_was_seen_stays_when_a_little_is_new() -> None:
    world = chain(40)
    before, plan = draw(choose(world), NOTHING)
    world.write(node("new", age=0), edges=[edge("new", "n010")])
    after, _ = draw(choose(world), plan)
    where = places(after)
    assert {key: where[key] for key in places(before)} == places(before)
    beside = np.hypot(*np.subtract(where["new"], where["n010"]))
    assert beside < 0.6


def test_the_past_is_drawn_where_the_present_is() -> None:
    present, plan = draw(choose(chain(40)), NOTHING)
    past, _ = draw(choose(chain(25)), plan)
    assert places(past).items() <= places(present).items()


def test_a_quarter_new_is_laid_out_together() -> None:
    _, plan = draw(choose(chain(40)), NOTHING)
    grown, later = draw(choose(chain(60)), plan)
    assert later.settled == {placed.id for placed in grown.nodes}


def test_the_hub_the_important_and_the_recent_are_drawn_first() -> None:
    nodes = [node(f"n{number:03}", age=1_000 + number, importance=0.1) for number in range(200)]
    world = World(
        *nodes,
        node("important", age=9_000, importance=1.0),
        node("recent", age=1, importance=0.1),
        edges=[edge("n199", one.id) for one in nodes[:50]],
    )
    chosen = choose(world, limit=10)
    assert {"n199", "important", "recent"} <= {one.id for one in chosen.nodes}
    assert len(chosen.nodes) == 10
    assert chosen.degrees["n199"] == 50
    assert chosen.total == 202


def test_an_anchor_shows_its_neighbourhood() -> None:
    chosen = choose(chain(40), anchor="n020", limit=5)
    assert [one.id for one in chosen.nodes] == ["n018", "n019", "n020", "n021", "n022"]
    with pytest.raises(ValueError, match="not in memory: nobody"):
        choose(chain(3), anchor="nobody")


def test_how_nodes_stand() -> None:
    world = World(
        node("old", title="Deploys on Tuesday"),
        node("new", title="Deploys on Thursday"),
        node("ended", valid_to="2020-01-01T00:00:00+00:00"),
        node("gone"),
        edges=[edge("new", "old", "supersedes")],
    )
    world.write(retire=["gone"])
    assert choose(world).standing == {"old": "superseded", "new": "current", "ended": "superseded"}
    assert choose(world, forgotten=True).standing["gone"] == "forgotten"
    drawn, _ = draw(choose(world, forgotten=True), NOTHING)
    assert len(drawn.nodes) == 4


def test_an_empty_memory_is_an_empty_picture() -> None:
    layout, _ = draw(choose(World()), NOTHING)
    assert layout == Layout(version=0)


def test_a_large_picture_is_bounded_in_time() -> None:
    points = np.array([scatter(f"n{number}") for number in range(2_000)], np.float32)
    springs = np.array([(number, number // 2) for number in range(1, 2_000)])
    begun = time.monotonic()
    relax(points, springs, np.ones(1_999, np.float32), np.ones(2_000, np.bool_), 10_000, 0.2)
    assert time.monotonic() - begun < 2


def test_nodes_in_one_place_come_apart() -> None:
    points = np.zeros((3, 2), np.float32)
    points[1:] += np.float32(1e-4) * np.array([[1, 0], [0, 1]], np.float32)
    moved = relax(points, np.zeros((0, 2), np.intp), np.zeros(0, np.float32), np.ones(3, np.bool_), 50, 5)
    assert np.isfinite(moved).all()
    assert np.hypot(*(moved[0] - moved[1])) > 0.1
