"""The index in RAM: fusion, filters, replacement, and that a table loads into the same state."""

from typing import Any

import numpy as np
import pytest

from services.memory import rows
from services.memory.embedder import DIMENSIONS, Vectors
from services.memory.search import Index
from shared.contracts import MemoryQuery, Node, Source

MODEL = "test-model"


def vector(*weights: float) -> Vectors:
    values = np.zeros(DIMENSIONS, np.float32)
    values[: len(weights)] = weights
    return values / np.float32(np.linalg.norm(values))


def node(node_id: str, title: str, **fields: Any) -> Node:
    return Node(id=node_id, title=title, **{"created_at": "2026-03-01T00:00:00+00:00", **fields})


def make(*entries: tuple[Node, Vectors]) -> Index:
    index = Index(rows.NODES.empty_table(), MODEL)
    index.put([entry[0] for entry in entries], np.array([entry[1] for entry in entries]))
    return index


def find(index: Index, text: str, direction: Vectors | None = None, **filters: Any) -> list[str]:
    hits = index.search(
        MemoryQuery(text=text, **filters), vector(0, 0, 1) if direction is None else direction
    )
    return [hit.node.id for hit in hits]


THREE = (
    (node("a", "apples", kind="fact", tags=("fruit", "red"), source=Source(agent="scout")), vector(1)),
    (node("b", "pears", kind="goal", tags=("fruit",), source=Source(agent="nexus")), vector(0, 1)),
    (
        node(
            "c",
            "apples again, in more words than before",
            kind="goal",
            created_at="2026-06-01T00:00:00+02:00",
        ),
        vector(1, 0.1),
    ),
)


def test_meaning_and_words_add_up_to_the_score() -> None:
    hit = make(*THREE).search(MemoryQuery(text="apples"), vector(1))[0]
    assert hit.node.id == "a"
    assert hit.why["vector"] == 0.5
    assert 0 < hit.why["keyword"] < 0.5
    assert hit.score == pytest.approx(sum(hit.why.values()), abs=2e-4)


def test_a_node_is_found_by_meaning_alone_and_by_words_alone() -> None:
    index = make(*THREE)
    assert find(index, "zebra", vector(0, 1)) == ["b"]
    assert find(index, "pears") == ["b"]
    assert find(index, "zebra") == []


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, {"a", "c"}),
        ({"kinds": ("fact",)}, {"a"}),
        ({"kinds": ("fact", "goal")}, {"a", "c"}),
        ({"kinds": ("unheard-of",)}, set()),
        ({"tags": ("fruit",)}, {"a"}),
        ({"tags": ("fruit", "red")}, {"a"}),
        ({"tags": ("red", "unheard-of")}, set()),
        ({"agent": "scout"}, {"a"}),
        ({"agent": "nexus"}, set()),
        ({"since": "2026-05-31T22:00:00"}, {"c"}),
        ({"since": "2026-05-31T22:00:01"}, set()),
        ({"limit": 1}, {"a"}),
    ],
)
def test_filters(filters: dict[str, Any], found: set[str]) -> None:
    assert set(find(make(*THREE), "apples", **filters)) == found


def test_of_equal_scores_the_later_written_comes_first() -> None:
    index = make(*[(node(f"n{i}", "same words"), vector(1)) for i in range(30)])
    assert find(index, "same words", limit=3) == ["n29", "n28", "n27"]


def test_writing_a_node_again_replaces_it() -> None:
    index = make(*THREE)
    index.put([node("a", "oranges", updated_at="2026-07-01T00:00:00+00:00")], vector(0, 0, 0, 1)[None])
    assert find(index, "apples", vector(1)) == ["c"]
    assert find(index, "oranges", since="2026-06-30T00:00:00+00:00") == ["a"]
    assert index.count() == 3
    assert index.wasted == 1


def test_a_retired_node_is_got_but_not_found() -> None:
    index = make(*THREE)
    index.put([node("a", "apples", retired_version=5)], vector(1)[None])
    assert find(index, "apples", vector(1)) == ["c"]
    assert [found.retired_version for found in index.get(["a", "nobody"])] == [5]
    assert index.count() == 2
    assert index.count_kinds() == {"goal": 2}


def test_the_table_loads_into_the_same_nodes_and_answers() -> None:
    full = node(
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
    entries = (*THREE, (full, vector(0, 1, 1)))
    table = rows.write_nodes(
        [entry[0] for entry in entries], np.array([entry[1] for entry in entries]), MODEL, 4
    )
    loaded = Index(table, MODEL)
    assert loaded.get(["full", "a"]) == [full, THREE[0][0]]
    query = MemoryQuery(text="apples")
    assert loaded.search(query, vector(0, 1)) == make(*entries).search(query, vector(0, 1))
    assert loaded.vector("full") == pytest.approx(vector(0, 1, 1))


def test_vectors_of_another_model_are_not_compared() -> None:
    table = rows.write_nodes([THREE[0][0]], vector(1)[None], "another-model", 1)
    index = Index(table, MODEL)
    assert find(index, "zebra", vector(1)) == []
    assert find(index, "apples", vector(1)) == ["a"]
    assert index.vector("a") is None


def test_an_empty_index_answers() -> None:
    assert find(Index(rows.NODES.empty_table(), MODEL), "anything") == []
