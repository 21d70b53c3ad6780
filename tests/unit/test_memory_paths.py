import math
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.memory.graph import paths
from services.memory.graph.paths import find_paths
from shared.contracts import PathsQuery
from tests.unit.test_memory_walk import DAY, MOMENT, edge, edges, fan, memory, plain_steps


def go(view, start, end, moment=MOMENT, **fields):
    return find_paths(view, PathsQuery(from_id=start, to_id=end, **fields), moment)


def names(path):
    return "".join(node.id for node in path.nodes)


def test_the_greatest_product_wins_not_the_fewest_hops():
    view = memory(edge("a", "d", 0.5), edge("a", "b", 0.9), edge("b", "c", 0.9), edge("c", "d", 0.9))
    (best,) = go(view, "a", "d")
    assert names(best) == "abcd"
    assert best.weight == pytest.approx(0.729)
    assert [(each.from_id, each.to_id) for each in best.edges] == [("a", "b"), ("b", "c"), ("c", "d")]


def test_fewer_hops_may_force_a_weaker_way():
    view = memory(edge("a", "d", 0.5), edge("a", "b", 0.9), edge("b", "c", 0.9), edge("c", "d", 0.9))
    assert [names(path) for path in go(view, "a", "d", depth=2)] == ["ad"]


def test_the_hops_are_bound_where_a_strong_way_to_the_middle_is_long():
    view = memory(edge("a", "b"), edge("b", "m"), edge("a", "m", 0.2), edge("m", "z"))
    assert [names(path) for path in go(view, "a", "z", depth=2)] == ["amz"]
    assert [names(path) for path in go(view, "a", "z", depth=3, k=5)] == ["abmz", "amz"]


def test_k_ways_come_best_first_and_without_loops():
    view = memory(
        edge("a", "b", 0.9),
        edge("b", "d", 0.9),
        edge("a", "c", 0.8),
        edge("c", "d", 0.8),
        edge("b", "c", 0.5),
        edge("b", "a", 1.0),
        edge("a", "d", 0.3),
    )
    found = go(view, "a", "d", k=10, direction="out")
    assert [names(path) for path in found] == ["abd", "acd", "abcd", "ad"]
    assert [path.weight for path in found] == pytest.approx([0.81, 0.64, 0.36, 0.3])
    assert [names(path) for path in go(view, "a", "d", k=2, direction="out")] == ["abd", "acd"]


def test_of_equals_the_shorter_comes_first_then_the_lesser_ids():
    view = memory(edge("a", "x"), edge("x", "z"), edge("a", "b"), edge("b", "z"), edge("b", "x"))
    assert [names(path) for path in go(view, "a", "z", k=9, direction="out")] == ["abz", "axz", "abxz"]


def test_a_weak_short_cut_is_kept_where_the_strong_way_leaves_too_few_hops():
    view = memory(
        edge("a", "b"),
        edge("a", "p"),
        edge("p", "v"),
        edge("a", "v", 0.5),
        edge("v", "a"),  # from v it looks as if one could go back and on from there
        edge("v", "q"),
        edge("q", "r"),
        edge("r", "b"),
    )
    assert [names(path) for path in go(view, "a", "b", k=5, depth=4, direction="out")] == ["ab", "avqrb"]


def test_direction():
    view = memory(edge("a", "b"), edge("c", "b"))
    assert [names(path) for path in go(view, "a", "c")] == ["abc"]
    assert go(view, "a", "c", direction="out") == []
    assert [names(path) for path in go(view, "b", "a", direction="in")] == ["ba"]
    assert go(view, "b", "a", direction="out") == []


def test_relations_weights_retired_nodes_and_faded_edges_are_respected():
    view = memory(
        edge("a", "b", 0.9, "led_to"),
        edge("b", "z", 0.9, "led_to"),
        edge("a", "z", 0.5, by="similarity"),
        edge("a", "r"),
        edge("r", "z"),
        retired={"r"},
    )
    assert [names(path) for path in go(view, "a", "z", k=9)] == ["abz", "az"]
    assert [names(path) for path in go(view, "a", "z", k=9, relations=("led_to",))] == ["abz"]
    assert [names(path) for path in go(view, "a", "z", k=9, min_weight=0.6)] == ["abz"]
    assert [names(path) for path in go(view, "a", "z", k=9, moment=MOMENT + 200 * DAY)] == ["abz"]


def test_between_two_nodes_the_strongest_edge_is_taken():
    view = memory(edge("a", "b", 0.4), edge("a", "b", 0.8, "led_to"), edge("b", "a", 0.9, "depends_on"))
    (path,) = go(view, "a", "b", k=5)
    assert (path.edges[0].relation.value, path.weight) == ("depends_on", 0.9)
    (path,) = go(view, "a", "b", k=5, direction="out")
    assert (path.edges[0].relation.value, path.weight) == ("led_to", 0.8)


def test_from_a_node_to_itself():
    view = memory(edge("a", "b"))
    (path,) = go(view, "a", "a", k=3)
    assert (names(path), path.edges, path.weight) == ("a", (), 1.0)


def test_unknown_nodes_are_named():
    view = memory(edge("a", "b"), retired={"b"})
    with pytest.raises(ValueError, match="not in memory: nobody"):
        go(view, "nobody", "a")
    with pytest.raises(ValueError, match="not in memory: b"):
        go(view, "a", "b")


def test_a_chain_of_twenty_hops_and_one_of_more():
    view = memory(*(edge(f"n{number:02}", f"n{number + 1:02}", 0.99) for number in range(25)))
    (path,) = go(view, "n00", "n20", depth=20, k=3)
    assert path.weight == pytest.approx(0.99**20)
    assert go(view, "n00", "n20", depth=19) == []
    assert go(view, "n00", "n21", depth=20) == []
    with pytest.raises(ValueError, match="depth must be between 1 and 20"):
        PathsQuery(from_id="a", to_id="b", depth=10_000)


def test_through_a_hub_of_many_equals_the_way_is_found_at_once(monkeypatch):
    limit = paths.MAX_SECONDS
    monkeypatch.setattr(paths, "MAX_SECONDS", 60.0)  # of the clock, which a busy machine takes away
    view = memory(*fan("one", 20_000, lambda number: 0.5), *fan("two", 20_000, lambda number: 0.5))
    begun = time.thread_time()
    found = go(view, "one", "two", k=3, depth=6)
    assert time.thread_time() - begun < limit
    assert [path.nodes[1].id for path in found] == ["n00000", "n00001", "n00002"]
    assert [path.weight for path in found] == [0.25] * 3


def test_looking_ends_and_keeps_what_it_has(monkeypatch):
    full = memory(*(edge(a, b, 0.9) for a in "abcdefgh" for b in "abcdefgh" if a != b))
    assert len(go(full, "a", "h", k=20)) == 20
    monkeypatch.setattr(paths, "MAX_VISITED", 3)
    assert 1 <= len(go(full, "a", "h", k=20)) < 20


def plain_paths(plain, start, end, depth, *filters):
    """Every way without loops, with its weight."""
    best = {}

    def extend(way, weight):
        if way[-1] == end:
            best[way] = max(best.get(way, 0.0), weight)
            return
        if len(way) <= depth:
            for other, step in plain_steps(plain, way[-1], *filters):
                if other not in way:
                    extend((*way, other), weight * step)

    extend((start,), 1.0)
    return best


letters = st.sampled_from("abcdefgh")


@settings(deadline=None, max_examples=200)
@given(
    plain=edges,
    start=letters,
    end=letters,
    k=st.integers(1, 20),
    depth=st.integers(1, 6),
    direction=st.sampled_from(["out", "in", "both"]),
    relations=st.sampled_from([(), ("led_to",)]),
)
def test_the_ways_are_those_that_trying_all_of_them_finds(plain, start, end, k, depth, direction, relations):
    view = memory(
        *(edge(a, b, weight, relation) for (a, b, relation), weight in plain.items()),
        kinds=dict.fromkeys("abcdefgh", "fact"),
    )
    every = plain_paths(plain, start, end, depth, direction, relations, 0.1)
    expected = sorted(every.items(), key=lambda entry: (round(-entry[1], 9), len(entry[0]), entry[0]))
    found = go(view, start, end, k=k, depth=depth, direction=direction, relations=relations)
    assert [(tuple(names(path)), pytest.approx(path.weight)) for path in found] == expected[:k]
    for path in found:
        assert math.prod(each.weight for each in path.edges) == pytest.approx(path.weight)
        joined = [{each.from_id, each.to_id} for each in path.edges]
        assert joined == [{one.id, other.id} for one, other in pairwise(path.nodes)]
