"""The search for import circles, and the budget of lines and modules."""

import rustworkx

from tests.house import LIMITS, Figure, find_circles, find_growth, find_over, lower_budget


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


def test_growth_without_a_changed_budget_is_found() -> None:
    budget = {"shared/a": (100, 2), "shared/b": (100, 2), "shared/c": (100, 2)}
    sizes = {"shared/a": (100, 2), "shared/b": (101, 2), "shared/c": (90, 3), "shared/new": (1, 1)}
    found = find_growth(sizes, budget)
    assert [sentence.split()[0] for sentence in found] == ["shared/b", "shared/c", "shared/new"]


def test_a_budget_is_lowered_and_never_raised() -> None:
    text = '# Why\n"shared/a" = [100, 2]  # because\n"shared/b" = [100, 2]\n'
    lowered = lower_budget(text, {"shared/a": (90, 3), "shared/b": (200, 1)})
    assert lowered == '# Why\n"shared/a" = [90, 2]  # because\n"shared/b" = [100, 1]\n'
