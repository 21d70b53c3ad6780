import random
import threading
from datetime import UTC, datetime

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.memory.graph import network
from services.memory.graph.graph import Graph
from services.memory.storage.tables import EDGES, NODES
from shared.contracts import Edge, EdgesQuery, Node, Relation

NOW = "2026-03-01T12:00:00.000001+00:00"
MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()


def edge(start, end, relation="related_to", weight=0.5, **fields):
    fields = {"created_at": NOW, "touched_at": NOW, "provenance": {"by": "similarity", "score": 0.8}} | fields
    return Edge(from_id=start, to_id=end, relation=Relation(relation), weight=weight, **fields)


def graph_of(*edges, nodes=()):
    graph = Graph()
    graph.put(edges, nodes)
    return graph


def table(edges):
    rows = [msgspec.structs.asdict(each) for each in edges]
    for row in rows:
        row["provenance"] = msgspec.json.encode(row["provenance"]).decode()
        row["relation"] = row["relation"].value
    return pa.Table.from_pylist(rows, schema=EDGES)


def node_table(nodes):
    schema = pa.schema([NODES.field(name) for name in ("id", "kind", "importance", "retired_version")])
    return pa.table({name: [getattr(node, name) for node in nodes] for name in schema.names}, schema)


def test_an_edge_comes_back_as_it_was_put():
    given = edge("a", "b", created_version=3, version=7, touched_at="2026-04-01T00:00:00.999999+00:00")
    assert graph_of(given).edge("a", "b", "related_to") == given


def test_direction_and_relation_tell_edges_apart():
    graph = graph_of(edge("a", "b"), edge("b", "a", weight=0.2), edge("a", "b", "led_to", weight=0.3))
    assert len(graph) == 3
    assert graph.edge("b", "a", "related_to").weight == 0.2
    assert graph.edge("a", "b", Relation.LED_TO).weight == 0.3
    assert graph.edge("b", "a", "led_to") is None
    assert graph.edge("a", "nobody", "led_to") is None


def test_putting_it_again_changes_it_and_retiring_it_takes_it_out():
    graph = graph_of(edge("a", "b", weight=0.5))
    graph.put([edge("a", "b", weight=0.9, provenance={"by": "manual"}, version=2)])
    assert len(graph) == 1
    assert graph.edge("a", "b", "related_to").provenance == {"by": "manual"}
    graph.put([edge("a", "b", retired_version=3)])
    graph.put([edge("a", "b", retired_version=3), edge("x", "y", retired_version=3)])
    assert len(graph) == 0
    assert graph.edges_of("a") == []


def test_the_row_of_a_retired_edge_serves_the_next_one():
    odd = "2026-03-01T12:00:00Z"
    graph = graph_of(edge("a", "b", created_at=odd), edge("b", "c"))
    graph.put([edge("a", "b", retired_version=2)])
    graph.put([new := edge("c", "d", "led_to", provenance={"by": "manual"})])
    assert graph.edges_of("c", "out") == [new]
    assert [each.to_id for each in graph.edges_of("b")] == ["c"]


@pytest.mark.parametrize("load", [False, True])
@pytest.mark.parametrize(
    ("created", "touched"),
    [
        ("", ""),
        ("", "2026-03-01T12:00:00.000001+00:00"),
        ("2026-03-01T12:00:00.000001+00:00", ""),
        ("2026-03-01T12:00:00Z", "2026-03-01 13:00:00.5+01:00"),
        ("2026-03-01T12:00:00", "2026-03-01T12:00:00.000001+00:00"),
        ("1969-12-31T23:59:59.999999+00:00", "2999-03-01T12:00:00.000001+00:00"),
    ],
)
def test_times_keep_the_form_they_are_written_in(created, touched, load):
    given = [edge("a", "b", created_at=created, touched_at=touched), edge("b", "c")]
    graph = Graph.load(table(given)) if load else graph_of(*given)
    assert graph.edges_of("b") == given


def test_a_table_loads_to_what_was_put():
    given = [
        edge("a", "b", provenance={"by": "manual"}),
        edge("b", "c", "led_to", 0.25, provenance={"by": "structural", "rule": "manual"}, version=9),
        edge("c", "a", "supersedes", provenance={}),
    ]
    loaded = Graph.load(table([*given, edge("a", "c", retired_version=4)]))
    assert list(loaded.page(EdgesQuery()).edges) == given
    assert len(loaded) == 3
    later = MOMENT + 1_000 * 86_400
    steps = loaded.steps(loaded.locate(["a", "b", "c"]), "out", (), 0.0, later)
    assert [weight > 0.2 for weight in steps.weights] == [True, False, False]


@pytest.mark.parametrize("load", [False, True])
def test_an_edge_that_was_never_touched_fades_from_its_creation_on(load):
    given = [edge("a", "b", touched_at=""), edge("a", "c", touched_at="", created_at="")]
    graph = Graph.load(table(given)) if load else graph_of(*given)
    steps = graph.steps(graph.locate(["a"]), "out", (), 0.0, MOMENT + 100 * 86_400)
    assert dict(zip(graph.names(steps.targets), steps.weights.round(2).tolist(), strict=True)) == {
        "b": 0.27,
        "c": 0.5,
    }


def test_a_loaded_graph_goes_on_changing():
    loaded = Graph.load(table([edge("a", "b"), edge("b", "c")]))
    loaded.put([edge("a", "b", weight=1.0), edge("c", "d"), edge("b", "c", retired_version=5)])
    assert [(each.from_id, each.to_id, each.weight) for each in loaded.page(EdgesQuery()).edges] == [
        ("a", "b", 1.0),
        ("c", "d", 0.5),
    ]


def test_nothing_loads_to_an_empty_graph():
    for graph in (Graph.load(None), Graph.load(EDGES.empty_table()), Graph.load(None, node_table([]))):
        assert len(graph) == 0
        graph.put([edge("a", "b")])
        assert len(graph) == 1


def test_an_edge_to_a_node_that_no_table_has_is_still_loaded():
    nodes = [Node(id="b", title="b", importance=1.0), Node(id="z", title="z")]
    graph = Graph.load(table([edge("a", "b"), edge("b", "z")]), node_table(nodes))
    assert [(each.from_id, each.to_id) for each in graph.edges_of("b")] == [("a", "b"), ("b", "z")]
    assert graph.names(graph.locate(["a", "z", "b"])) == ["a", "z", "b"]


def test_edges_of_a_node_by_direction_and_relation():
    graph = graph_of(edge("b", "a"), edge("a", "c"), edge("a", "b", "led_to"), edge("a", "b"), edge("b", "c"))
    assert [(each.from_id, each.to_id, each.relation.value) for each in graph.edges_of("a")] == [
        ("a", "b", "led_to"),
        ("a", "b", "related_to"),
        ("a", "c", "related_to"),
        ("b", "a", "related_to"),
    ]
    assert [each.from_id for each in graph.edges_of("a", "in")] == ["b"]
    assert [each.to_id for each in graph.edges_of("a", "out", ["led_to"])] == ["b"]
    assert graph.edges_of("nobody") == []


def test_hops_go_in_any_direction_around_retired_nodes_up_to_the_depth():
    retired = Node(id="x", title="x", retired_version=3)
    chain = [edge("b", "a"), edge("b", "c"), edge("d", "c"), edge("d", "e"), edge("a", "x"), edge("x", "e")]
    graph = graph_of(*chain, nodes=[retired])
    assert graph.hops(["a"]) == {"a": 0, "b": 1, "c": 2, "d": 3}
    assert graph.hops(["a", "d", "nobody"], depth=1) == {"a": 0, "d": 0, "b": 1, "c": 1, "e": 1}
    assert graph.hops(["nobody"]) == {}


def test_hops_stop_at_ten_thousand_nodes():
    hub = graph_of(*(edge("hub", f"n{number}") for number in range(12_000)))
    assert len(hub.hops(["hub"])) == 10_000


def test_locate_names_what_is_not_in_memory():
    graph = graph_of(edge("a", "b"), nodes=[Node(id="gone", title="gone", retired_version=1)])
    assert graph.names(graph.locate(["b", "a", "b"])) == ["b", "a"]
    with pytest.raises(ValueError, match="not in memory: gone, other"):
        graph.locate(["a", "gone", "other"])
    with pytest.raises(ValueError, match="n9 and 5 more"):
        graph.locate([f"n{number}" for number in range(15)])


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_hold_every_edge_once_and_in_order(limit):
    edges = [
        edge(start, end, relation)
        for start in "acb"
        for end in ("b", "d", "a", "aa")
        for relation in ("related_to", "led_to")
        if start != end
    ]
    graph = graph_of(*edges)
    found, after = [], ""
    while True:
        page = graph.page(EdgesQuery(after=after, limit=limit), version=5)
        assert page.version == 5
        found += page.edges
        if not (after := page.next):
            break
        assert len(page.edges) == limit
    assert found == sorted(edges, key=lambda each: (each.from_id, each.to_id, each.relation.value))


def test_a_page_that_is_just_full_has_no_next_one():
    graph = graph_of(edge("a", "b"), edge("a", "c"))
    assert graph.page(EdgesQuery(limit=2)).next == ""
    assert graph.page(EdgesQuery(limit=1)).next == "a b related_to"


def test_a_page_of_one_node_and_of_a_relation():
    graph = graph_of(edge("a", "b"), edge("c", "a", "led_to"), edge("b", "c"))
    assert len(graph.page(EdgesQuery(node="a")).edges) == 2
    assert [each.from_id for each in graph.page(EdgesQuery(node="a", direction="in")).edges] == ["c"]
    assert [each.from_id for each in graph.page(EdgesQuery(relations=("led_to",))).edges] == ["c"]
    assert graph.page(EdgesQuery(node="nobody")).edges == ()


def test_pages_go_on_while_edges_come_and_go():
    graph = graph_of(*(edge(f"n{number:02}", "z") for number in range(10)))
    first = graph.page(EdgesQuery(limit=5))
    graph.put([edge("n04", "z", retired_version=2), edge("a", "n09"), edge("n045", "z")])
    rest = graph.page(EdgesQuery(after=first.next))
    assert [each.from_id for each in rest.edges] == ["n045", "n05", "n06", "n07", "n08", "n09"]


def test_steps_leave_out_what_is_weak_or_retired():
    nodes = [Node(id="gone", title="gone", retired_version=2), Node(id="b", title="b", kind="goal")]
    graph = graph_of(edge("a", "b", weight=0.3), edge("a", "c", weight=0.6), edge("a", "gone"), nodes=nodes)
    steps = graph.steps(graph.locate(["b", "a"]), "both", (), 0.4, MOMENT)
    assert graph.names(steps.targets) == ["c"]
    assert steps.origins.tolist() == [1]
    assert graph.of_kinds(graph.locate(["a", "b"]), ["goal", "unheard"]).tolist() == [False, True]


def test_importance_changes_what_an_edge_weighs_at_once():
    graph = graph_of(edge("a", "b"))
    later = MOMENT + 100 * 86_400
    (usual,) = graph.steps(graph.locate(["a"]), "out", (), 0.0, later).weights
    graph.put([], [Node(id="b", title="b", importance=1.0)])
    (sheltered,) = graph.steps(graph.locate(["a"]), "out", (), 0.0, later).weights
    assert sheltered > usual


ids = st.sampled_from("abcde")
changes = st.lists(
    st.builds(
        lambda pair, relation, weight, retired: edge(
            *pair, relation, weight, retired_version=retired, provenance={"by": "manual", "why": str(weight)}
        ),
        st.tuples(ids, ids).filter(lambda pair: pair[0] != pair[1]),
        st.sampled_from(["related_to", "led_to"]),
        st.floats(0, 1),
        st.sampled_from([0, 0, 1]),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(changes, st.integers(0, 40), st.sampled_from([0, 7, 1_000]))
def test_any_changes_leave_the_graph_as_a_dictionary_would_be(edges, loaded, least):
    """However often edges are listed by place, and their texts tidied, meanwhile."""
    plain = {}
    for each in edges:
        key = (each.from_id, each.to_id, each.relation.value)
        plain.pop(key, None)
        if not each.retired_version:
            plain[key] = each
    unique = {(each.from_id, each.to_id, each.relation): each for each in edges[:loaded]}
    graph = Graph.load(table(unique.values()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "LEAST_CHANGED", least)
        patch.setattr(network, "_LEAST_WASTED", least)
        for each in edges[loaded:]:
            graph.put([each])
    assert list(graph.page(EdgesQuery()).edges) == [plain[key] for key in sorted(plain)]
    assert len(graph) == len(plain)
    for name in "abcde":
        assert {(e.from_id, e.to_id, e.relation.value) for e in graph.edges_of(name)} == {
            key for key in plain if name in key[:2]
        }


def test_readers_and_a_writer_do_not_disturb_each_other():
    graph = graph_of(*(edge(f"n{number}", f"n{number + 1}") for number in range(100)))
    stop, failures = threading.Event(), []

    def read():
        while not stop.is_set():
            try:
                graph.hops(["n0"], 20)
                found = graph.steps(graph.locate([f"n{random.randrange(100)}"]), "both", (), 0.0, MOMENT)
                assert 0 < len(found.targets) <= 4
                assert len(graph.page(EdgesQuery(limit=50)).edges) == 50
            except Exception as error:
                failures.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for round_ in range(300):
        number = round_ % 100
        graph.put([edge(f"n{number}", f"n{(number + 50) % 100}", "led_to", version=round_)])
        graph.put([edge(f"n{number}", f"n{(number + 50) % 100}", "led_to", retired_version=round_ + 1)])
    stop.set()
    for reader in readers:
        reader.join()
    assert not failures
