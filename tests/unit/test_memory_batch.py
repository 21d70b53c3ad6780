"""Folding a batch of writes into one change: what is kept and what is refused."""

import math
import struct
import sys
from collections.abc import Collection, Iterable
from typing import Any

import msgspec
import pytest

from services.memory.writes.change import Change, EdgeTuple, KnownState, LoggedWrite, embedded_text
from services.memory.writes.staging import fold
from services.memory.writes.writer import answer
from shared.contracts import Direction, Edge, EdgeKey, MemoryWrite, Node, Relation

AT = 1_800_000_000.0
STAMP = "2027-01-15T08:00:00.000000+00:00"


class Memory:
    """What is known: the changes so far."""

    def __init__(self) -> None:
        self.version = 6
        self.nodes: dict[str, Node] = {}
        self.edges: dict[EdgeTuple, Edge] = {}

    def known(self) -> KnownState:
        return KnownState(node=self.nodes.get, edge=self._edge, edges_of=self._edges_of)

    def fold(self, *writes: MemoryWrite) -> tuple[Change, list[str]]:
        """Fold writes at the versions that come next, and keep the change; one without a sender is a
        person's.
        """
        entries = [
            LoggedWrite(
                seq=version,
                stored_at=AT - 6 + version,
                write=msgspec.structs.replace(write, sender=write.sender or "user"),
            )
            for version, write in enumerate(writes, start=self.version + 1)
        ]
        change, errors = fold(entries, self.known(), dimensions=4)
        self.version += len(writes)
        self.nodes.update(change.nodes)
        self.edges.update(change.edges)
        for node_id, (count, last_at) in change.accessed.items():
            self.nodes[node_id] = msgspec.structs.replace(
                self.nodes[node_id], access_count=count, last_accessed_at=last_at
            )
        return change, errors

    def write(self, **fields: Any) -> tuple[Change, str]:
        change, (error,) = self.fold(MemoryWrite(**fields))
        return change, error

    def _edge(self, start: str, end: str, relation: str) -> Edge | None:
        edge = self.edges.get((start, end, relation))
        return edge if edge and not edge.retired_version else None

    def _edges_of(
        self, node_id: str, direction: Direction = "both", relations: Collection[str] = ()
    ) -> Iterable[Edge]:
        ends = {"out": ("from_id",), "in": ("to_id",), "both": ("from_id", "to_id")}[direction]
        for edge in self.edges.values():
            if edge.retired_version or (relations and edge.relation not in relations):
                continue
            if node_id in [getattr(edge, end) for end in ends]:
                yield edge


@pytest.fixture
def memory() -> Memory:
    """Two nodes of version 1 and 2 and an edge between, and a third that was retired."""
    memory = Memory()
    memory.version = 0
    memory.fold(
        MemoryWrite(nodes=(Node(id="old", title="An older thought", created_at="2026-01-01T00:00:00Z"),)),
        MemoryWrite(nodes=(Node(id="other", title="Another"), Node(id="gone", title="Retired"))),
        MemoryWrite(edges=(Edge(from_id="old", to_id="other", weight=0.5),), accessed={"old": 5}),
        MemoryWrite(retire=("gone",)),
        MemoryWrite(nodes=(Node(id="lone", title="Nothing near it"),)),
        MemoryWrite(accessed={"lone": 1}),
    )
    return memory


def test_a_new_node_gets_the_version_of_its_write(memory: Memory) -> None:
    change, errors = memory.fold(
        MemoryWrite(id="w1", nodes=(Node(id="a", title="A", created_version=99, retired_version=99),)),
        MemoryWrite(id="w2", nodes=(Node(id="b", title="B"),)),
    )
    assert errors == ["", ""]
    assert (change.version, change.moments[-1]) == (8, AT + 2)
    assert change.writes == (("w1", 7), ("w2", 8))
    assert change.moments == (AT + 1, AT + 2)
    for name, version in (("a", 7), ("b", 8)):
        node = change.nodes[name]
        assert (node.created_version, node.version, node.retired_version) == (version, version, 0)
    assert change.texts_changed == {"a": 7, "b": 8}
    assert change.replaced_nodes == []


def test_writing_a_node_again_keeps_its_beginning(memory: Memory) -> None:
    before = memory.nodes["old"]
    change, _ = memory.write(
        created_at="2026-05-05T05:05:05+00:00", nodes=(Node(id="old", title="A newer thought"),)
    )
    node = change.nodes["old"]
    assert (node.title, node.version) == ("A newer thought", 7)
    assert (node.created_at, node.created_version, node.access_count) == ("2026-01-01T00:00:00Z", 1, 5)
    assert node.updated_at == "2026-05-05T05:05:05+00:00"
    assert change.replaced_nodes == [(before, 7)]
    assert change.texts_changed == {"old": 7}


def test_what_changes_nothing_leaves_no_trace(memory: Memory) -> None:
    change, error = memory.write(
        id="same",
        nodes=(Node(id="old", title="An older thought"),),
        edges=(Edge(from_id="old", to_id="other", weight=0.5),),
        retire=("gone",),
        accessed={"old": 0},
    )
    assert error == ""
    assert (change.nodes, change.edges, change.accessed, change.texts_changed) == ({}, {}, {}, {})
    assert (change.replaced_nodes, change.replaced_edges) == ([], [])
    assert change.writes == (("same", 7),)


def test_only_a_new_text_needs_a_vector(memory: Memory) -> None:
    node = Node(id="old", title="An older thought", importance=0.9, embedding=(1, 0, 0, 0))
    change, _ = memory.write(nodes=(node,))
    assert change.nodes["old"].importance == 0.9
    assert change.nodes["old"].embedding == ()
    assert (change.texts_changed, change.given) == ({}, {})


def test_writing_a_retired_node_brings_it_back(memory: Memory) -> None:
    change, _ = memory.write(nodes=(Node(id="gone", title="Retired"),))
    node = change.nodes["gone"]
    assert (node.retired_version, node.created_version, node.version) == (0, 2, 7)
    assert change.texts_changed == {}


def test_retiring_is_a_tombstone_and_takes_the_edges_along(memory: Memory) -> None:
    change, errors = memory.fold(
        MemoryWrite(edges=(Edge(from_id="lone", to_id="old"), Edge(from_id="other", to_id="lone"))),
        MemoryWrite(retire=("old", "gone")),
    )
    assert errors == ["", ""]
    assert list(change.nodes) == ["old"]
    assert (change.nodes["old"].retired_version, change.nodes["old"].version) == (8, 8)
    assert {key: edge.retired_version for key, edge in change.edges.items()} == {
        ("old", "other", "related_to"): 8,
        ("lone", "old", "related_to"): 8,
        ("other", "lone", "related_to"): 0,
    }
    assert [(edge.to_id, until) for edge, until in change.replaced_edges] == [("other", 8), ("old", 8)]


def test_an_edge_made_and_lost_in_one_write_is_gone(memory: Memory) -> None:
    change, error = memory.write(edges=(Edge(from_id="lone", to_id="old"),), retire=("old",))
    assert error == ""
    assert change.edges["lone", "old", "related_to"].retired_version == 7
    assert all(edge.from_id != "lone" for edge, _ in change.replaced_edges)


def test_later_writes_of_a_batch_see_earlier_ones(memory: Memory) -> None:
    change, errors = memory.fold(
        MemoryWrite(nodes=(Node(id="a", title="One", embedding=(0, 1, 0, 0)),)),
        MemoryWrite(edges=(Edge(from_id="a", to_id="old"),)),
        MemoryWrite(nodes=(Node(id="a", title="One, improved"),)),
        MemoryWrite(nodes=(Node(id="a", title="One, improved", importance=1.0),)),
    )
    assert errors == [""] * 4
    node = change.nodes["a"]
    assert (node.title, node.created_version, node.version) == ("One, improved", 7, 10)
    assert [(old.title, old.version, until) for old, until in change.replaced_nodes] == [
        ("One", 7, 9),
        ("One, improved", 9, 10),
    ]
    assert change.texts_changed == {"a": 9}
    assert change.given == {}
    (interim,) = change.interim
    assert (interim.id, interim.version, interim.text) == ("a", 7, "One")
    assert interim.vector is not None
    assert list(change.edges) == [("a", "old", "related_to")]


def test_a_node_twice_in_one_write_is_its_last_state(memory: Memory) -> None:
    change, _ = memory.write(nodes=(Node(id="a", title="One"), Node(id="a", title="Two")))
    assert change.nodes["a"].title == "Two"
    assert (change.replaced_nodes, change.interim) == ([], [])


def test_an_edge_gets_its_times_and_keeps_its_beginning(memory: Memory) -> None:
    change, _ = memory.write(
        edges=(
            Edge(from_id="old", to_id="other", weight=0.25),
            Edge(from_id="old", to_id="other", relation=Relation.SUPERSEDES),
            Edge(from_id="other", to_id="old", created_at="2020-01-01T00:00:00Z", touched_at=STAMP),
        )
    )
    again, other, imported = change.edges.values()
    later = "2027-01-15T08:00:01.000000+00:00"
    assert (again.weight, again.created_version, again.version) == (0.25, 3, 7)
    assert (again.created_at, again.touched_at) == ("2027-01-15T07:59:57.000000+00:00", later)
    assert (other.created_version, other.created_at, other.touched_at) == (7, later, later)
    assert (imported.created_at, imported.touched_at) == ("2020-01-01T00:00:00Z", STAMP)
    assert [(edge.weight, until) for edge, until in change.replaced_edges] == [(0.5, 7)]


def test_an_edge_is_touched_without_another_weight(memory: Memory) -> None:
    change, _ = memory.write(edges=(Edge(from_id="old", to_id="other", weight=0.5, touched_at=STAMP),))
    assert change.edges["old", "other", "related_to"].touched_at == STAMP


def test_unlinking_is_a_tombstone_and_writing_it_again_a_new_edge(memory: Memory) -> None:
    link = Edge(from_id="old", to_id="other", weight=0.5)
    change, errors = memory.fold(
        MemoryWrite(unlink=(EdgeKey(from_id="old", to_id="other"),)),
        MemoryWrite(unlink=(EdgeKey(from_id="old", to_id="other"),)),
        MemoryWrite(edges=(link,)),
    )
    assert errors == ["", "the edge old -related_to-> other is not in memory, so it cannot be taken out", ""]
    edge = change.edges["old", "other", "related_to"]
    assert (edge.created_version, edge.retired_version) == (9, 0)
    assert [(old.retired_version, until) for old, until in change.replaced_edges] == [(0, 7), (7, 9)]


def test_accesses_are_counted_and_make_no_state(memory: Memory) -> None:
    change, _ = memory.fold(MemoryWrite(accessed={"old": 2, "lone": 1}), MemoryWrite(accessed={"old": 1}))
    assert change.nodes == {}
    assert change.accessed == {
        "old": (8, "2027-01-15T08:00:02.000000+00:00"),
        "lone": (2, "2027-01-15T08:00:01.000000+00:00"),
    }


def test_a_higher_count_that_is_written_counts(memory: Memory) -> None:
    change, _ = memory.write(nodes=(Node(id="old", title="An older thought", access_count=9),))
    assert change.nodes == {}
    assert change.accessed["old"][0] == 9


def test_the_daemons_own_writes_pass_over_what_is_gone(memory: Memory) -> None:
    change, error = memory.write(
        sender="memory",
        edges=(
            Edge(from_id="old", to_id="gone"),
            Edge(from_id="nowhere", to_id="old"),
            Edge(from_id="lone", to_id="old"),
        ),
        unlink=(EdgeKey(from_id="lone", to_id="other"),),
        retire=("nobody",),
        accessed={"nobody": 1, "old": 1},
    )
    assert error == ""
    assert list(change.edges) == [("lone", "old", "related_to")]
    assert list(change.accessed) == ["old"]
    assert change.nodes == {}


def supersede(later: str, earlier: str, **more: Any) -> MemoryWrite:
    return MemoryWrite(edges=(Edge(from_id=later, to_id=earlier, relation=Relation.SUPERSEDES),), **more)


def test_supersedes_makes_no_cycle_in_a_batch_or_over_several(memory: Memory) -> None:
    _, errors = memory.fold(
        supersede("old", "other"),
        supersede("other", "lone"),
        supersede("lone", "old"),
        supersede("old", "lone"),
    )
    assert errors == ["", "", "edge from lone to old would close a cycle of supersedes", ""]
    _, (error,) = memory.fold(supersede("lone", "old"))
    assert error.endswith("would close a cycle of supersedes")
    _, errors = memory.fold(
        MemoryWrite(unlink=(EdgeKey(from_id="old", to_id="lone", relation=Relation.SUPERSEDES),)),
        MemoryWrite(unlink=(EdgeKey(from_id="other", to_id="lone", relation=Relation.SUPERSEDES),)),
        supersede("lone", "old"),
    )
    assert errors == ["", "", ""]
    change, (error,) = memory.fold(supersede("other", "lone", sender="memory"))
    assert (error, change.edges) == ("", {})


def test_a_cycle_within_one_write_is_refused(memory: Memory) -> None:
    edges = (
        Edge(from_id="old", to_id="other", relation=Relation.SUPERSEDES),
        Edge(from_id="other", to_id="old", relation=Relation.SUPERSEDES),
    )
    change, error = memory.write(edges=edges)
    assert error == "edge from other to old would close a cycle of supersedes"
    assert change.edges == {}


def test_vectors_come_as_bytes(memory: Memory) -> None:
    nodes = (Node(id="a", title="A"), Node(id="b", title="B"))
    change, error = memory.write(nodes=nodes, vectors=struct.pack("<8f", 0, 1, 0, 0, 0.6, 0, 0.8, 0))
    assert error == ""
    assert change.given["a"].tolist() == [0, 1, 0, 0]
    assert change.given["b"].tolist() == pytest.approx([0.6, 0, 0.8, 0])


@pytest.mark.parametrize(
    ("vectors", "reason"),
    [
        (struct.pack("<3f", 1, 0, 0), "vectors holds 12 bytes; 1 vectors of this memory's model (4 numbers"),
        (struct.pack("<4f", 1, 1, 0, 0), "embedding must be a unit vector; its length is 1.414"),
        (struct.pack("<4f", math.nan, 0, 0, 0), "embedding must be a unit vector; its length is nan"),
        (struct.pack("<4f", math.inf, 0, 0, 0), "embedding must be a unit vector; its length is inf"),
        (struct.pack("<4f", 3e38, 3e38, 0, 0), "embedding must be a unit vector; its length is inf"),
    ],
)
def test_a_bad_vector_is_refused(memory: Memory, vectors: bytes, reason: str) -> None:
    change, error = memory.write(nodes=(Node(title="T"),), vectors=vectors)
    assert error.startswith(reason)
    assert change.nodes == {}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"edges": (Edge(from_id="old", to_id="nowhere"),)},
            "an edge cannot lead to nowhere, which is not in memory",
        ),
        (
            {"edges": (Edge(from_id="gone", to_id="old"),)},
            "an edge cannot lead from gone, which was retired at version 4",
        ),
        (
            {"unlink": (EdgeKey(from_id="other", to_id="lone"),)},
            "the edge other -related_to-> lone is not in memory, so it cannot",
        ),
        ({"retire": ("nobody",)}, "nobody is not in memory, so it cannot be retired"),
        ({"accessed": {"nobody": 1}}, "nobody is not in memory, so it cannot be counted as read"),
        ({"nodes": (Node(title="T", tags=("ok", " ")),)}, "tags must be 1 to 128 characters each"),
        ({"nodes": (Node(title="T", tags=("x" * 129,)),)}, "tags must be 1 to 128 characters each"),
        ({"nodes": (Node(title="T", access_count=2**63),)}, "access_count must be at most"),
        (
            {"nodes": (Node(title="T", embedding=(1.0,)),)},
            "embedding has 1 numbers; this memory's model has 4",
        ),
        ({"nodes": (Node(title="T", embedding=(1.0, 1.0, 0, 0)),)}, "embedding must be a unit vector"),
        ({"nodes": (Node(title="T", embedding=(1e300, 0, 0, 0)),)}, "embedding must be a unit vector"),
    ],
)
def test_a_bad_write_is_refused_whole(memory: Memory, fields: dict[str, Any], reason: str) -> None:
    before = (dict(memory.nodes), dict(memory.edges))
    bad = MemoryWrite(
        id="bad",
        **{
            "accessed": {"lone": 1},
            "edges": (Edge(from_id="old", to_id="other", weight=1.0), Edge(from_id="old", to_id="lone")),
            **fields,
            "nodes": (
                Node(id="beside", title="Beside"),
                Node(id="old", title="Changed"),
                *fields.get("nodes", ()),
            ),
        },
    )
    good = MemoryWrite(id="good", nodes=(Node(id="fine", title="Fine"),))
    change, errors = memory.fold(bad, good)
    assert errors[0].startswith(reason)
    assert errors[1] == ""
    assert list(change.nodes) == list(change.texts_changed) == ["fine"]
    assert (change.edges, change.accessed) == ({}, {})
    assert (change.replaced_nodes, change.replaced_edges, change.interim) == ([], [], [])
    assert change.writes == (("good", 8),)
    assert ({**before[0], "fine": change.nodes["fine"]}, before[1]) == (memory.nodes, memory.edges)


def test_a_write_that_fails_gives_back_what_an_earlier_one_of_the_batch_made(memory: Memory) -> None:
    change, errors = memory.fold(
        MemoryWrite(
            nodes=(Node(id="a", title="First"),), edges=(Edge(from_id="lone", to_id="old", weight=0.3),)
        ),
        MemoryWrite(
            nodes=(Node(id="a", title="Second"),),
            edges=(Edge(from_id="lone", to_id="old", weight=0.9),),
            retire=("nobody",),
        ),
    )
    assert errors[1] == "nobody is not in memory, so it cannot be retired"
    assert change.nodes["a"].title == "First"
    assert change.edges["lone", "old", "related_to"].weight == 0.3
    assert (change.version, change.interim, change.replaced_edges) == (7, [], [])


def test_the_same_write_twice_in_a_batch_counts_once(memory: Memory) -> None:
    write = MemoryWrite(id="w", accessed={"old": 1})
    change, errors = memory.fold(write, write)
    assert errors == ["", ""]
    assert change.writes == (("w", 7),)
    assert change.accessed["old"][0] == 6


def test_a_batch_in_parts_comes_to_the_same_states() -> None:
    writes = [
        MemoryWrite(nodes=(Node(id="a", title="A"), Node(id="b", title="B"))),
        MemoryWrite(edges=(Edge(from_id="a", to_id="b"),), accessed={"a": 1}),
        MemoryWrite(nodes=(Node(id="a", title="A two"),), accessed={"a": 1}),
        MemoryWrite(retire=("b",)),
        MemoryWrite(nodes=(Node(id="b", title="B"),)),
        MemoryWrite(edges=(Edge(from_id="a", to_id="b"),)),
    ]
    whole, parts = Memory(), Memory()
    whole.fold(*writes)
    for write in writes:
        parts.fold(write)
    assert parts.nodes == whole.nodes
    assert parts.edges == whole.edges


def test_what_can_be_read_and_not_be_written_cannot_spoil_the_batch(memory: Memory) -> None:
    deep: dict[str, Any] = {}
    for _ in range(sys.getrecursionlimit()):
        deep = {"x": deep}
    node = Node(id="deep", title="T")
    msgspec.structs.force_setattr(node, "metadata", deep)
    change, error = memory.write(nodes=(node,))
    assert error.startswith("the write has no JSON form")
    edge = Edge(from_id="old", to_id="lone")
    msgspec.structs.force_setattr(edge, "provenance", deep)
    change, error = memory.write(edges=(edge,))
    assert error.startswith("the write has no JSON form")
    assert (change.nodes, change.edges) == ({}, {})


def test_the_answer_names_what_was_stored_or_why_not() -> None:
    write = MemoryWrite(id="w", sender="scout", nodes=(Node(id="a", title="A"),), retire=("b", "a"))
    told = answer(write, "", 7)
    assert (told.recipient, told.cause, told.ids, told.version) == ("scout", "w", ("a", "b"), 7)
    told = answer(write, "no", 7)
    assert (told.ids, told.version, told.error) == ((), 0, "no")


def test_the_text_of_a_node_is_its_title_and_body() -> None:
    assert embedded_text(Node(title="T")) == "T"
    assert embedded_text(Node(title="T", body="B")) == "T\nB"


def test_a_write_that_fails_leaves_no_proposal(memory: Memory) -> None:
    theirs, bad = Node(id="old", title="Mine now"), Edge(from_id="old", to_id="nowhere")
    change, error = memory.write(id="w", sender="scout", nodes=(theirs,), edges=(bad,))
    assert "not in memory" in error
    assert (change.nodes, change.edges, change.proposed) == ({}, {}, {})


def test_each_write_has_its_own_proposals(memory: Memory) -> None:
    change, errors = memory.fold(
        MemoryWrite(id="w1", sender="scout", nodes=(Node(id="old", title="Mine now"),)),
        MemoryWrite(id="w2", sender="critic", retire=("lone",)),
        MemoryWrite(id="w3", sender="critic", nodes=(Node(id="new", title="A thought"),)),
    )
    assert errors == ["", "", ""]
    assert {name: [edge.to_id for edge in edges] for name, edges in change.proposed.items()} == {
        "w1": ["old"],
        "w2": ["lone"],
    }
    assert not {"old", "lone"} & change.nodes.keys()
