"""The search for import circles."""

import rustworkx

from tests.house import LIMITS, Figure, find_circles, find_over


def graph_of(*edges: tuple[str, str]) -> "rustworkx.PyDiGraph[str, None]":
    graph: rustworkx.PyDiGraph[str, None] = rustworkx.PyDiGraph(multigraph=False)
    nodes = {name: graph.add_node(name) for name in sorted({name for edge in edges for name in edge})}
    graph.add_edges_from_no_data([(nodes[start], nodes[end]) for start, end in edges])
    return graph


def test_layers_are_no_circle() -> None:
    assert find_circles(graph_of(("a", "b"), ("a", "c"), ("b", "c"))) == []


def test_a_circle_has_its_size_and_its_shortest_path() -> None:
    ((size, path),) = find_circles(graph_of(("a", "b"), ("b", "c"), ("c", "a"), ("c", "b"), ("d", "a")))
    assert size == 3
    assert path in (["b", "c", "b"], ["c", "b", "c"])


def test_a_figure_over_its_limit_is_found():
    most = LIMITS["largest module"]
    at, over = Figure("largest module", most, "a.py"), Figure("largest module", most + 1, "b.py")
    assert find_over([at, over, Figure("modules", 10_000)]) == [over]
