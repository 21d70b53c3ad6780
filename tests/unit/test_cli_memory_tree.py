"""A walk through the graph as people see it."""

from services.cli.commands.memory.graph import format_path, format_walk
from shared.contracts import Edge, Node, Path, Relation, Traversal, Visit


def node(name: str, version: int = 1) -> Node:
    return Node(id=name, title=f"Title {name}", version=version)


def edge(start: str, end: str, version: int = 1, relation: Relation = Relation.LED_TO) -> Edge:
    return Edge(from_id=start, to_id=end, relation=relation, weight=0.5, version=version)


def walk(
    *steps: tuple[str, str], edges: tuple[Edge, ...] = (), versions: dict[str, int] | None = None
) -> Traversal:
    visits = (
        Visit(
            node=node(name, (versions or {}).get(name, 1)),
            parent=parent,
            relation="led_to" if parent else "",
        )
        for name, parent in steps
    )
    return Traversal(visits=tuple(visits), edges=edges)


def lines(traversal: Traversal, changed_since: int = 0) -> list[str]:
    return [str(line) for line in format_walk(traversal, changed_since)]


def test_a_tree_shows_how_each_node_is_joined_to_the_one_above():
    found = lines(
        walk(
            ("a", ""), ("b", "a"), ("c", "a"), ("d", "b"),
            edges=(edge("a", "b"), edge("c", "a"), edge("b", "d")),
        )
    )  # fmt: skip
    assert found == [
        "fact Title a",
        "│ a",
        "├─ → led_to 0.50 fact Title b",
        "│  │ b",
        "│  └─ → led_to 0.50 fact Title d",
        "│       d",
        "└─ ← led_to 0.50 fact Title c",
        "     c",
    ]


def test_a_node_behind_a_hidden_one_stands_at_the_top():
    found = lines(walk(("a", ""), ("d", "hidden")))
    assert found == ["fact Title a", "  a", "… → led_to fact Title d", "  d"]


def test_only_what_changed_and_the_way_to_it():
    traversal = walk(
        ("a", ""), ("b", "a"), ("c", "b"), ("d", "a"), ("e", "a"),
        edges=(edge("a", "b"), edge("b", "c"), edge("a", "d"), edge("a", "e", version=9)),
        versions={"c": 9},
    )  # fmt: skip
    shown = {line.split()[-1] for line in lines(traversal, changed_since=5) if "Title" not in line}
    assert shown == {"a", "b", "c", "e"}
    assert lines(walk(("a", "")), changed_since=5) == []


def test_a_deep_walk_is_no_danger():
    steps = [(f"n{number}", f"n{number - 1}" if number else "") for number in range(2_000)]
    assert len(lines(walk(*steps))) == 4_000


def test_a_title_cannot_steer_the_terminal():
    visit = Visit(node=Node(id="a", title="one\x1b[2J\ntwo"))
    assert lines(Traversal(visits=(visit,)))[0] == "fact one[2J two"


def test_a_path_is_a_chain_with_its_weight():
    path = Path(nodes=(node("a"), node("b"), node("c")), edges=(edge("a", "b"), edge("c", "b")), weight=0.25)
    assert [str(line) for line in format_path(path)] == [
        "weight 0.250, 2 steps",
        "  fact Title a",
        "    a",
        "  → led_to 0.50 fact Title b",
        "    b",
        "  ← led_to 0.50 fact Title c",
        "    c",
    ]
