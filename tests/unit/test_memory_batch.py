"""Folding a batch of writes into one change: what is kept and what is refused."""

from typing import Any

import msgspec
import pytest

from services.memory.batch import Change, EdgeKey, Known, fold
from shared.contracts import Edge, MemoryWrite, Node, Relation

EARLIER = Node(
    id="old",
    title="An older thought",
    created_at="2026-01-01T00:00:00+00:00",
    created_version=3,
    access_count=5,
)
GONE = Node(id="gone", title="Retired", created_version=2, retired_version=6)
STORED = {node.id: node for node in (EARLIER, GONE)}
LINKS: dict[EdgeKey, int] = {("old", "gone", "related_to"): 4}


def fold_all(*writes: MemoryWrite) -> tuple[Change, list[str]]:
    return fold(writes, 7, Known(node=STORED.get, edge=LINKS.get), dimensions=4)


def fold_one(**fields: Any) -> tuple[Change, str]:
    change, (error,) = fold_all(MemoryWrite(id="w1", **fields))
    return change, error


def test_a_new_node_gets_the_version() -> None:
    change, error = fold_one(nodes=(Node(id="a", title="New", created_version=99, retired_version=99),))
    assert error == ""
    assert change.version == 7
    assert change.writes == ("w1",)
    assert (change.nodes["a"].created_version, change.nodes["a"].retired_version) == (7, 0)
    assert change.nodes["a"].updated_at == ""


def test_writing_a_node_again_keeps_its_beginning() -> None:
    write = MemoryWrite(
        created_at="2026-05-05T05:05:05+00:00", nodes=(Node(id="old", title="A newer thought"),)
    )
    change, _ = fold_all(write)
    node = change.nodes["old"]
    assert node.title == "A newer thought"
    assert (node.created_at, node.created_version, node.access_count) == (EARLIER.created_at, 3, 5)
    assert node.updated_at == "2026-05-05T05:05:05+00:00"


def test_writing_a_retired_node_brings_it_back() -> None:
    change, _ = fold_one(nodes=(Node(id="gone", title="Back"),))
    assert change.nodes["gone"].retired_version == 0
    assert change.nodes["gone"].created_version == 2


def test_retiring_is_a_tombstone_and_twice_is_once() -> None:
    change, error = fold_one(retire=("old", "gone"))
    assert error == ""
    assert list(change.nodes) == ["old"]
    assert change.nodes["old"].retired_version == 7
    assert change.nodes["old"].title == EARLIER.title


def test_later_writes_of_a_batch_see_earlier_ones() -> None:
    first = MemoryWrite(id="w1", nodes=(Node(id="a", title="One"),))
    second = MemoryWrite(id="w2", edges=(Edge(from_id="a", to_id="old"),))
    third = MemoryWrite(id="w3", nodes=(Node(id="a", title="One, improved"),))
    change, errors = fold_all(first, second, third)
    assert errors == ["", "", ""]
    assert change.nodes["a"].title == "One, improved"
    assert change.nodes["a"].created_version == 7
    assert list(change.edges) == [("a", "old", "related_to")]


def test_an_edge_written_again_keeps_the_version_that_created_it() -> None:
    nodes = (Node(id="gone", title="Back"),)
    again = Edge(from_id="old", to_id="gone", weight=0.25)
    other = Edge(from_id="old", to_id="gone", relation=Relation.SUPERSEDES)
    change, _ = fold_one(nodes=nodes, edges=(again, other))
    assert change.edges["old", "gone", "related_to"].created_version == 4
    assert change.edges["old", "gone", "related_to"].edge.weight == 0.25
    assert change.edges["old", "gone", "supersedes"].created_version == 7


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"edges": (Edge(from_id="old", to_id="nowhere"),)}, "edge to names nowhere, which is not in memory"),
        (
            {"edges": (Edge(from_id="gone", to_id="old"),)},
            "edge from names gone, which was retired at version 6",
        ),
        ({"retire": ("nobody",)}, "retire names nobody, which is not in memory"),
        ({"nodes": (Node(title="T", tags=("ok", " ")),)}, "tags must be 1 to 128 characters each"),
        ({"nodes": (Node(title="T", tags=("x" * 129,)),)}, "tags must be 1 to 128 characters each"),
        ({"nodes": (Node(title="T", access_count=-1),)}, "access_count must be between 0 and"),
        ({"nodes": (Node(title="T", access_count=2**63),)}, "access_count must be between 0 and"),
        (
            {"nodes": (Node(title="T", embedding=(1.0,)),)},
            "embedding has 1 numbers; this memory's model has 4",
        ),
        ({"nodes": (Node(title="T", embedding=(1.0, 1.0, 0, 0)),)}, "embedding must be a unit vector"),
    ],
)
def test_a_bad_write_is_refused_whole(fields: dict[str, Any], reason: str) -> None:
    bad = MemoryWrite(
        id="bad", **{**fields, "nodes": (Node(id="beside", title="Beside"), *fields.get("nodes", ()))}
    )
    good = MemoryWrite(id="good", nodes=(Node(id="fine", title="Fine"),))
    change, errors = fold_all(bad, good)
    assert errors[0].startswith(reason)
    assert errors[1] == ""
    assert list(change.nodes) == ["fine"]
    assert change.edges == {}
    assert change.writes == ("good",)


@pytest.mark.parametrize(("field", "value"), [("title", "half a \ud83d pair"), ("metadata", {"x": object()})])
def test_what_a_contract_let_through_is_refused_before_it_can_spoil_the_batch(field: str, value: Any) -> None:
    node = Node(title="T")
    msgspec.structs.force_setattr(node, field, value)
    change, error = fold_one(nodes=(node,))
    assert error.startswith("the write has no JSON form")
    assert change.nodes == {}
