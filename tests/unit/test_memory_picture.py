"""The picture of the graph: what is drawn. Where it is drawn: tests/browser/test_graph_places.py."""

import itertools

import pytest

from services.memory.picture import draw
from shared.contracts import Picture, PictureQuery
from tests.support.memory import NOW, World, edge, node


def choose(world: World, **query: object) -> Picture:
    return draw(world.view, PictureQuery(**query), NOW)  # type: ignore[arg-type]


def chain(count: int, start: int = 0) -> World:
    """Nodes of which each has an edge to the next."""
    nodes = [node(f"n{number:03}", age=count - number) for number in range(start, start + count)]
    edges = [edge(one.id, other.id) for one, other in itertools.pairwise(nodes)]
    return World(*nodes, edges=edges)


def test_the_same_nodes_give_the_same_picture() -> None:
    first = choose(chain(30))
    assert first == choose(chain(30))
    assert [one.id for one in first.nodes] == [f"n{number:03}" for number in range(30)]
    assert sorted((each.start, each.end) for each in first.edges) == [(n, n + 1) for n in range(29)]
    assert (first.total, first.total_edges, first.version) == (30, 29, 1)


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
    assert {one.id: one.degree for one in chosen.nodes}["n199"] == 50
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
    standing = {one.id: one.standing for one in choose(world).nodes}
    assert standing == {"old": "superseded", "new": "current", "ended": "superseded"}
    drawn = choose(world, forgotten=True)
    assert {one.id: one.standing for one in drawn.nodes}["gone"] == "forgotten"
    assert len(drawn.nodes) == 4


def test_an_empty_memory_is_an_empty_picture() -> None:
    assert choose(World()) == Picture(version=0)
