from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.memory.graph import walk
from services.memory.graph.graph import Graph
from services.memory.graph.walk import traverse, traverse_quickly
from shared.contracts import Edge, Node, Relation, TraverseQuery
from shared.contracts.base import amended

NOW = "2026-03-01T12:00:00.000000+00:00"
MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
DAY = 86_400


def edge(start, end, weight=1.0, relation="related_to", by="manual"):
    return Edge(
        from_id=start,
        to_id=end,
        weight=weight,
        relation=Relation(relation),
        provenance={"by": by},
        touched_at=NOW,
    )


def fan(center, count, weight):
    """Edges from one node to many, each of weight(number)."""
    any_edge = edge("a", "b")
    return [
        amended(any_edge, from_id=center, to_id=f"n{number:05}", weight=weight(number))
        for number in range(count)
    ]


def memory(*edges, kinds=None, retired=(), importance=0.0, version=7):
    def node(name):
        kind, gone = (kinds or {}).get(name, "fact"), int(name in retired)
        return Node(id=name, title=name, kind=kind, importance=importance, retired_version=gone)

    few = len(edges) < 100  # of more it does not matter what the graph knows of their nodes
    told = {name for each in edges for name in (each.from_id, each.to_id)} if few else set()
    graph = Graph()
    graph.put(edges, map(node, sorted(told | set(kinds or ()) | set(retired))))
    return SimpleNamespace(graph=graph, version=version, nodes=lambda ids: [node(name) for name in ids])


def go(view, *start, moment=MOMENT, **fields):
    return traverse(view, TraverseQuery(start=start, **fields), moment)


def names(traversal):
    return [visit.node.id for visit in traversal.visits]


STRATEGIES = ["bfs", "dfs", "weighted"]

TREE = (
    edge("a", "b", 0.9),
    edge("a", "c", 0.5),
    edge("b", "d", 0.4),
    edge("b", "e", 0.8),
    edge("c", "f", 0.95),
    edge("e", "g", 0.99),
)


def test_bfs_goes_hop_by_hop_the_strongest_way_first():
    found = go(memory(*TREE), "a")
    assert names(found) == ["a", "b", "c", "e", "f", "d", "g"]
    assert [visit.depth for visit in found.visits] == [0, 1, 1, 2, 2, 2, 3]
    assert found.truncated == ""
    assert found.visited == 7
    assert found.version == 7


def test_dfs_goes_to_the_end_of_a_branch_first():
    assert names(go(memory(*TREE), "a", strategy="dfs")) == ["a", "b", "e", "g", "d", "c", "f"]


def test_weighted_takes_the_strongest_way_there_is():
    found = go(memory(*TREE), "a", strategy="weighted")
    assert names(found) == ["a", "b", "e", "g", "c", "f", "d"]
    weights = [visit.weight for visit in found.visits]
    assert weights == sorted(weights, reverse=True)
    assert weights[3] == pytest.approx(0.9 * 0.8 * 0.99)


def test_weighted_prefers_a_long_strong_way_to_a_short_weak_one():
    view = memory(edge("a", "c", 0.3), edge("a", "b", 0.9), edge("b", "c", 0.9))
    (_, _, last) = go(view, "a", strategy="weighted").visits
    assert (last.node.id, last.depth, last.parent, last.weight) == ("c", 2, "b", pytest.approx(0.81))
    (_, _, last) = go(view, "a").visits
    assert (last.node.id, last.depth, last.parent, last.weight) == ("c", 1, "a", 0.3)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_visit_says_how_the_walk_came_there(strategy):
    view = memory(edge("a", "b", 0.5, "led_to"), edge("a", "b", 0.5, "depends_on"), edge("a", "b", 0.4))
    start, visit = go(view, "a", strategy=strategy).visits
    assert (start.depth, start.weight, start.parent, start.relation) == (0, 1.0, "", "")
    assert (visit.depth, visit.weight, visit.parent, visit.relation) == (1, 0.5, "a", "led_to")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(("direction", "reached"), [("out", "bc"), ("in", "de"), ("both", "bcde")])
def test_direction(strategy, direction, reached):
    view = memory(edge("a", "b"), edge("b", "c"), edge("d", "a"), edge("e", "d"))
    found = go(view, "a", strategy=strategy, direction=direction, include_start=False)
    assert sorted(names(found)) == list(reached)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_depth_bounds_the_hops_and_nothing_else(strategy):
    view = memory(*(edge(f"n{number:02}", f"n{number + 1:02}") for number in range(30)))
    assert len(go(view, "n00", strategy=strategy, depth=20).visits) == 21
    assert len(go(view, "n00", strategy=strategy, depth=1).visits) == 2
    only = go(view, "n00", strategy=strategy, depth=0)
    assert names(only) == ["n00"]
    assert (only.visited, only.truncated) == (1, "")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_long_way_found_first_hides_nothing_beyond_a_short_one(strategy):
    """The strong way to c uses up the depth; what lies behind c is reached by the weak short one."""
    view = memory(edge("a", "b"), edge("b", "c"), edge("a", "c", 0.2), edge("c", "d"))
    assert sorted(names(go(view, "a", strategy=strategy, depth=2))) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_lies_beyond_is_looked_at_again_for_one_hop_less(strategy):
    view = memory(
        edge("a", "b"), edge("b", "c"), edge("c", "d"), edge("a", "x", 0.5), edge("x", "d"), edge("d", "e")
    )
    assert sorted(names(go(view, "a", strategy=strategy, depth=3))) == ["a", "b", "c", "d", "e", "x"]


def test_depth_of_ten_thousand_is_refused():
    with pytest.raises(ValueError, match="depth must be between 0 and 20"):
        TraverseQuery(start=("a",), depth=10_000)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_relations_decide_what_is_walked(strategy):
    view = memory(
        edge("a", "b", relation="led_to"), edge("a", "c"), edge("b", "d"), edge("b", "e", 1, "led_to")
    )
    assert names(go(view, "a", strategy=strategy, relations=("led_to",))) == ["a", "b", "e"]
    assert len(go(view, "a", strategy=strategy, relations=("led_to", "related_to")).visits) == 5


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_kinds_hide_nodes_that_are_walked_through(strategy):
    view = memory(edge("a", "b"), edge("b", "c"), kinds={"a": "fact", "b": "event", "c": "fact"})
    found = go(view, "a", strategy=strategy, kinds=("fact",))
    assert names(found) == ["a", "c"]
    assert found.visits[1].parent == "b"
    assert found.visited == 3
    assert found.edges == ()
    assert names(go(view, "a", strategy=strategy, kinds=("event",))) == ["b"]
    assert names(go(view, "a", strategy=strategy, kinds=("goal",))) == []


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_min_weight_is_held_against_the_weight_of_today(strategy):
    view = memory(edge("a", "b", 0.6, by="similarity"), edge("a", "c", 0.6))
    assert names(go(view, "a", strategy=strategy, min_weight=0.6)) == ["a", "b", "c"]
    assert names(go(view, "a", strategy=strategy, min_weight=0.61)) == ["a"]
    assert names(go(view, "a", strategy=strategy, min_weight=0.5, moment=MOMENT + 30 * DAY)) == ["a", "c"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_edges_that_faded_below_a_tenth_are_not_walked(strategy):
    view = memory(edge("a", "b", by="similarity"))
    assert names(go(view, "a", strategy=strategy, moment=MOMENT + 230 * DAY)) == ["a", "b"]
    assert names(go(view, "a", strategy=strategy, moment=MOMENT + 231 * DAY)) == ["a"]
    important = memory(edge("a", "b", by="similarity"), importance=1.0)
    assert names(go(important, "a", strategy=strategy, moment=MOMENT + 231 * DAY)) == ["a", "b"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_retired_nodes_are_not_walked_through(strategy):
    view = memory(edge("a", "b"), edge("b", "c"), edge("a", "d"), retired={"b"})
    assert names(go(view, "a", strategy=strategy)) == ["a", "d"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_unknown_and_retired_starts_are_named(strategy):
    view = memory(edge("a", "b"), retired={"b"})
    with pytest.raises(ValueError, match=r"not in memory: b, nobody$"):
        go(view, "a", "b", "nobody", strategy=strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_starts_one_of_them_twice(strategy):
    view = memory(edge("a", "b"), edge("c", "b", 0.5), edge("c", "d", 0.5))
    found = go(view, "c", "a", "c", strategy=strategy)
    assert sorted(names(found)) == ["a", "b", "c", "d"]
    assert {visit.node.id for visit in found.visits if not visit.depth} == {"a", "c"}
    assert sorted(names(go(view, "c", "a", strategy=strategy, include_start=False))) == ["b", "d"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_circle_ends(strategy):
    view = memory(edge("a", "b"), edge("b", "c"), edge("c", "a"))
    assert names(go(view, "a", strategy=strategy, depth=20, include_start=False)) == ["b", "c"]


def test_edges_are_all_that_join_the_nodes_shown():
    view = memory(
        edge("a", "b", 0.5), edge("a", "c"), edge("c", "b"), edge("c", "b", 1, "led_to"), edge("d", "a")
    )
    found = go(view, "a", depth=1)
    joined = [(each.from_id, each.to_id, each.relation.value, each.weight) for each in found.edges]
    assert joined == [
        ("a", "b", "related_to", 0.5),
        ("a", "c", "related_to", 1.0),
        ("c", "b", "led_to", 1.0),
        ("c", "b", "related_to", 1.0),
    ]
    assert len(go(view, "a", depth=1, min_weight=0.6).edges) == 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_limit_is_said_only_where_there_is_more_to_show(strategy):
    view = memory(*(edge("a", f"b{number}") for number in range(9)))
    exact = go(view, "a", strategy=strategy, limit=10)
    assert (len(exact.visits), exact.truncated) == (10, "")
    cut = go(view, "a", strategy=strategy, limit=9)
    assert (len(cut.visits), cut.truncated) == (9, "limit: there is more to show than 9")
    without = go(view, "a", strategy=strategy, limit=9, include_start=False)
    assert (len(without.visits), without.truncated) == (9, "")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_hidden_does_not_count_against_the_limit(strategy):
    kinds = {f"b{number}": "event" for number in range(9)} | {"c": "goal"}
    view = memory(*(edge("a", name) for name in kinds), kinds=kinds)
    found = go(view, "a", strategy=strategy, limit=1, kinds=("goal",))
    assert (names(found), found.truncated) == (["c"], "")


@pytest.fixture(scope="module")
def hub():
    return memory(*fan("hub", 50_000, lambda number: 0.2 + number / 100_000))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_hub_shows_its_thousand_strongest_and_says_so(hub, strategy):
    found = go(hub, "hub", strategy=strategy, include_start=False)
    assert found.truncated.startswith("level: more than 1,000")
    assert found.visited == 1_001
    assert names(found) == [f"n{number:05}" for number in range(49_999, 48_999, -1)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_thousand_at_one_level_are_not_too_many(strategy):
    view = memory(*fan("hub", 1_000, lambda number: 0.5))
    assert go(view, "hub", strategy=strategy, include_start=False).truncated == ""
    view.graph.put([edge("hub", "n00000x", 0.5)])
    found = go(view, "hub", strategy=strategy, include_start=False)
    assert found.truncated.startswith("level")
    assert "n00999" not in names(found)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ten_thousand_nodes_end_a_walk(strategy, monkeypatch):
    monkeypatch.setattr(walk, "MAX_VISITED", 40)
    chain = memory(*(edge(f"n{a}_{b}", f"n{a + 1}_{b}") for a in range(19) for b in range(3)))
    starts = ["n0_0", "n0_1", "n0_2"]
    found = go(chain, *starts, strategy=strategy, depth=20)
    assert found.truncated.startswith("nodes")
    assert found.visited == len(found.visits) == 40
    monkeypatch.setattr(walk, "MAX_VISITED", 60)
    found = go(chain, *starts, strategy=strategy, depth=20)
    assert (found.visited, found.truncated) == (60, "")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_time_ends_a_walk(strategy, monkeypatch):
    monkeypatch.setattr(walk, "MAX_SECONDS", -1.0)
    monkeypatch.setattr(walk, "_CHUNK", 2)
    view = memory(*(edge(start, f"{start}{number}") for start in "abcd" for number in range(2)))
    found = go(view, *"abcd", strategy=strategy)
    assert found.truncated.startswith("time")
    assert found.visited == len(found.visits) <= 4


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_node_that_comes_meanwhile_is_passed_over(strategy):
    view = memory(edge("a", "b"))
    walking = walk.Walk(view.graph, TraverseQuery(start=("a",), strategy=strategy), MOMENT, walk.MAX_SECONDS)
    view.graph.put([edge("a", "new"), edge("b", "newer")])
    places = [arrival.place for arrivals in walking.run() for arrival in arrivals]
    assert view.graph.names(places) == ["a", "b"]


letters = st.sampled_from("abcdefgh")
edges = st.dictionaries(
    st.tuples(letters, letters, st.sampled_from(["related_to", "led_to"])).filter(
        lambda key: key[0] != key[1]
    ),
    st.sampled_from([0.05, 0.2, 0.5, 0.8, 1.0]),
    max_size=24,
)


def plain_steps(plain, name, direction, relations, floor):
    for (start, end, relation), weight in plain.items():
        if weight >= floor and (not relations or relation in relations):
            if start == name and direction in {"out", "both"}:
                yield end, weight
            if end == name and direction in {"in", "both"}:
                yield start, weight


def plain_reach(plain, starts, depth, dead, *filters):
    """For every number of hops the nodes first reached by it, with the best product of weights."""
    levels = [dict.fromkeys(starts, 1.0)]
    while len(levels) <= depth:
        seen = {name for level in levels for name in level}
        following = {}
        for name, so_far in levels[-1].items():
            for other, weight in plain_steps(plain, name, *filters):
                if other not in seen and other not in dead:
                    following[other] = max(following.get(other, 0.0), so_far * weight)
        levels.append(following)
    return levels


def plain_best(plain, starts, depth, dead, *filters):
    """The best product of weights to every node with so many hops at most."""
    best = dict.fromkeys(starts, 1.0)
    for _ in range(depth):
        before = dict(best)
        for name, so_far in before.items():
            for other, weight in plain_steps(plain, name, *filters):
                if other not in dead:
                    best[other] = max(best.get(other, 0.0), so_far * weight)
    return best


@settings(deadline=None, max_examples=200)
@given(
    plain=edges,
    starts=st.sets(letters, min_size=1, max_size=2),
    dead=st.sets(letters, max_size=2),
    depth=st.integers(0, 5),
    direction=st.sampled_from(["out", "in", "both"]),
    relations=st.sampled_from([(), ("led_to",)]),
    min_weight=st.sampled_from([0.0, 0.5]),
)
def test_every_strategy_does_what_a_simple_one_would(
    plain, starts, dead, depth, direction, relations, min_weight
):
    dead -= starts
    view = memory(
        *(edge(start, end, weight, relation) for (start, end, relation), weight in plain.items()),
        kinds=dict.fromkeys("abcdefgh", "fact"),
        retired=dead,
    )
    filters = (direction, relations, max(min_weight, 0.1))
    fields = {"depth": depth, "direction": direction, "relations": relations, "min_weight": min_weight}
    levels = plain_reach(plain, starts, depth, dead, *filters)
    expected = [
        (name, hops, weight)
        for hops, level in enumerate(levels)
        for name, weight in sorted(level.items(), key=lambda entry: (-entry[1], entry[0]))
    ]
    found = {strategy: go(view, *sorted(starts), strategy=strategy, **fields) for strategy in STRATEGIES}
    assert [
        (visit.node.id, visit.depth, pytest.approx(visit.weight)) for visit in found["bfs"].visits
    ] == expected
    best = plain_best(plain, starts, depth, dead, *filters)
    weighted = {visit.node.id: visit.weight for visit in found["weighted"].visits}
    assert weighted == pytest.approx(best)
    weights = list(weighted.values())
    assert weights == sorted(weights, reverse=True)
    assert sorted(names(found["dfs"])) == sorted(best)
    for traversal in found.values():
        assert traversal.truncated == ""
        assert traversal.visited == len(traversal.visits) == len(best)
        assert traversal.edges == found["bfs"].edges
        by_id = {visit.node.id: visit for visit in traversal.visits}
        for visit in traversal.visits:
            if visit.depth:
                steps = dict.fromkeys(plain_steps(plain, visit.parent, *filters))
                assert visit.node.id in {other for other, _ in steps}
                assert visit.parent in by_id
    joined = {
        (start, end, relation)
        for (start, end, relation), weight in plain.items()
        if {start, end} <= set(best) and weight >= filters[2] and (not relations or relation in relations)
    }
    assert {(each.from_id, each.to_id, each.relation.value) for each in found["bfs"].edges} == joined


@settings(deadline=None)
@given(edges, st.sampled_from(STRATEGIES), st.integers(1, 8))
def test_a_smaller_limit_gives_the_beginning_of_the_same_answer(plain, strategy, limit):
    view = memory(
        *(edge(start, end, weight, relation) for (start, end, relation), weight in plain.items()),
        kinds={"a": "fact"},
    )
    whole = go(view, "a", strategy=strategy)
    part = go(view, "a", strategy=strategy, limit=limit)
    assert names(part) == names(whole)[:limit]
    assert bool(part.truncated) == (len(whole.visits) > limit)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_quick_walk_is_the_same_and_one_that_is_not_quick_is_left_to_a_thread(strategy, monkeypatch):
    query = TraverseQuery(start=("a",), strategy=strategy)
    monkeypatch.setattr(walk, "QUICK", 60.0)
    tree = memory(*TREE)
    found, same = traverse_quickly(tree, query, MOMENT), go(tree, "a", strategy=strategy)
    assert (names(found), found.edges, found.truncated) == (names(same), same.edges, same.truncated)
    wide = memory(*fan("a", walk.FEW, lambda number: 0.5))
    assert traverse_quickly(wide, query, MOMENT) is None
    monkeypatch.setattr(walk, "QUICK", -1.0)
    assert traverse_quickly(memory(*TREE), query, MOMENT) is None
