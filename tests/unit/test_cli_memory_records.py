"""Nodes and edges as lines: whatever leaves comes back, and a wrong line is told."""

import json

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from services.cli.commands.memory.transfer import (
    BATCH_BYTES,
    BATCH_RECORDS,
    _batches,
    dump_record,
    parse_record,
)
from shared.contracts import Edge, Node
from shared.contracts.base import amended
from tests.contracts.strategies import instances

VERSIONS = {"created_version": 0, "version": 0, "retired_version": 0}


@given(instances(Node))
@hypothesis_settings(max_examples=20, deadline=None, derandomize=True, database=None)
def test_any_node_comes_back(node):
    record = parse_record(1, dump_record(node))
    assert record.node == amended(node, **VERSIONS)
    assert record.retired == bool(node.retired_version)
    assert record.edge is None


@given(instances(Edge))
@hypothesis_settings(max_examples=20, deadline=None, derandomize=True, database=None)
def test_any_edge_comes_back(edge):
    line = dump_record(edge)
    assert line.count(b"\n") == 1
    assert parse_record(1, line).edge == amended(edge, **VERSIONS)


def test_a_plain_line_is_a_node_or_an_edge():
    assert parse_record(1, b'{"title":"The harbour"}').node.title == "The harbour"
    node = parse_record(1, b'{"text":"It opens at six. It closes.","type":"event"}').node
    assert (node.title, node.body, node.kind) == ("It opens at six.", "It opens at six. It closes.", "event")
    edge = parse_record(1, b'{"from":"a","to":"b"}').edge
    assert (edge.from_id, edge.to_id, edge.provenance) == ("a", "b", {"by": "imported"})


def test_a_node_without_an_id_gets_the_same_one_again():
    first, second = (parse_record(n, b'{"title":"The harbour","kind":"fact"}').node for n in (1, 2))
    assert first.id == second.id
    assert parse_record(3, b'{"kind":"fact", "title":"The harbour"}').node.id == first.id
    assert parse_record(3, b'{"title":"Another"}').node.id != first.id


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "it is not valid JSON"),
        (b'{"title":"\xff"}', "it is not valid JSON"),
        (b"[" * 100_000, "it is not valid JSON"),
        (b"[]", "it must be a JSON object"),
        (b'{"record":"thing"}', "record must be node or edge, not 'thing'"),
        (b'{"record":["node"]}', "record must be node or edge"),
        (b'{"record":"node"}', "missing required field `title`"),
        (b'{"title":"x","importance":7}', "importance must be between 0 and 1"),
        (b'{"from":"a","to":"a"}', "to must be another node than from"),
        (b'{"from":"a","to":"b","relation":"likes"}', "Invalid enum value 'likes'"),
        (b'{"text":5}', "missing required field `title`"),
    ],
)
def test_a_wrong_line_is_refused_in_words(line, reason):
    with pytest.raises(ValueError, match=r".") as caught:
        parse_record(1, line)
    assert reason in str(caught.value)


def test_batches_are_bounded_by_records_and_by_bytes():
    small = [parse_record(n, json.dumps({"title": f"t{n}"}).encode()) for n in range(450)]
    sizes = [len(batch) for batch in _batches(iter(small))]
    assert sizes == [BATCH_RECORDS, BATCH_RECORDS, 450 - 2 * BATCH_RECORDS]
    large = parse_record(1, json.dumps({"title": "t", "body": "x" * (BATCH_BYTES // 2)}).encode())
    assert [len(batch) for batch in _batches(iter([large] * 5))] == [2, 2, 1]
