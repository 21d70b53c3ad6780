"""What any NATS client submits becomes a write, or a sentence that names what is wrong with it."""

import json

import pytest

from services.memory.writes.gate import parse_add, parse_link
from shared.contracts import Relation


def add(entry: object) -> object:
    return parse_add(json.dumps(entry).encode(), "scout")


def test_a_title_is_enough():
    write = add({"title": "The harbour opens at six"})
    (node,) = write.nodes
    assert (write.sender, node.title, node.kind, node.source.agent) == (
        "scout",
        "The harbour opens at six",
        "fact",
        "scout",
    )
    assert not write.insist


def test_a_text_becomes_title_and_body():
    (node,) = add({"text": "The harbour opens at six. It closes at ten.", "type": "observation"}).nodes
    assert (node.kind, node.title) == ("observation", "The harbour opens at six.")
    assert node.body == "The harbour opens at six. It closes at ten."
    (node,) = add({"title": "Harbour", "text": "It opens at six."}).nodes
    assert (node.title, node.body) == ("Harbour", "It opens at six.")


def test_several_at_once_with_all_that_a_node_has():
    write = add(
        [
            {
                "title": "One",
                "id": "n1",
                "tags": ["a"],
                "metadata": {"n": 1},
                "session": "s1",
                "insist": True,
            },
            {"title": "Two", "source": {"agent": "critic", "channel": "mail"}, "importance": 0.9},
        ]
    )
    first, second = write.nodes
    assert (first.id, first.tags, first.metadata) == ("n1", ("a",), {"n": 1})
    assert (first.source.agent, first.source.session) == ("scout", "s1")
    assert (second.source.agent, second.source.channel, second.importance) == ("critic", "mail", 0.9)
    assert write.insist


def test_an_edge_and_a_list_of_edges():
    write = parse_link(b'{"from":"a","to":"b"}', "scout")
    (edge,) = write.edges
    assert (edge.from_id, edge.to_id, edge.relation, edge.weight) == ("a", "b", Relation.RELATED_TO, 1.0)
    assert edge.provenance == {"by": "manual"}
    assert write.sender == "scout"
    edges = [{"from": "a", "to": "b", "relation": "led_to", "weight": 0.4}, {"from": "b", "to": "c"}]
    assert [e.weight for e in parse_link(json.dumps(edges).encode(), "scout").edges] == [0.4, 1.0]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"titel": "x"}, "titel is not a field; did you mean title?"),
        ({"title": "x", "zzz": 1}, "zzz is not a field; known are id, kind, title, body,"),
        ({"title": "x", "retired_version": 3}, "retired_version is not a field"),
        ({"body": "x"}, "title is missing: give a title, or a text"),
        ({"text": " "}, "text must be a non-empty string"),
        ({"text": "x", "body": "y"}, "give text or body, not both"),
        ({"title": "x" * 300}, "title has 300 characters; the limit is 256"),
        ({"title": "x", "importance": 7}, "importance must be between 0 and 1, not 7"),
        ({"title": "x", "kind": "Not A Kind"}, "kind must be a name"),
        ({"title": "x", "source": {"agnet": "a"}}, "source.agnet is not a field; did you mean agent?"),
        ({"title": "x", "source": 5}, "source must be an object"),
        ({"title": "x", "insist": "yes"}, "insist must be true or false"),
        ([{"title": "x"}, {"title": 5}], "entry 2: Expected `str`, got `int` - at `title`"),
        ([], "send 1 to 1,000 entries at once, not 0"),
        ([{"title": "x"}] * 1_001, "not 1,001"),
        (["x"], "each entry must be a JSON object"),
        (5, "each entry must be a JSON object"),
    ],
)
def test_what_is_wrong_with_a_node_is_named(entry, reason):
    with pytest.raises(ValueError, match=r".") as caught:
        add(entry)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"from":"a"}', "missing required field `to`"),
        (b'{"from":"a","too":"b"}', "too is not a field; did you mean to?"),
        (b'{"from":"a","to":"a"}', "to must be another node than from"),
        (
            b'{"from":"a","to":"b","relation":"led_too"}',
            "relation 'led_too' does not exist; did you mean led_to?",
        ),
        (b'{"from":"a","to":"b","relation":[]}', "relation '[]' does not exist; known are informed_by,"),
        (b'{"from":"a","to":"b","weight":2}', "weight must be between 0 and 1"),
        (b"{", "it is not valid JSON"),
        (b'{"from":"\xff"}', "it is not valid JSON"),
        (b"[" * 100_000, "it is not valid JSON"),
        (b"", "it is not valid JSON"),
    ],
)
def test_what_is_wrong_with_an_edge_is_named(data, reason):
    with pytest.raises(ValueError, match=r".") as caught:
        parse_link(data, "scout")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
