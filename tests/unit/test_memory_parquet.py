"""Parquet and back: nothing is lost, and what is wrong is told."""

import json
import subprocess
import sys

import pytest

from services.cli.commands.memory.transfer import dump_record, parse_record
from services.memory.storage.parquet import read_lines, write_folder
from shared.contracts import Edge, Node
from shared.errors import ActionError
from tests.contracts.examples import EDGE, NODE

NODES = [
    NODE,
    Node(id="plain", title="Größe — 店"),
    Node(id="odd", title="x", metadata={"deep": {"list": [1, None, 2.5]}, "empty": {}}),
]
EDGES = [EDGE, Edge(from_id="plain", to_id="odd", provenance={"by": "similarity", "score": 0.81})]


def test_what_goes_in_comes_out(tmp_path):
    lines = [*map(dump_record, (*NODES, *EDGES))]
    assert write_folder(tmp_path / "memory", lines) == {"node": 3, "edge": 2}
    assert sorted(path.name for path in (tmp_path / "memory").iterdir()) == ["edges.parquet", "nodes.parquet"]
    back = list(read_lines(tmp_path / "memory"))
    assert Node.from_json(back[0]).embedding == pytest.approx(NODE.embedding)
    assert [Node.from_json(line) for line in back[1:3]] == NODES[1:]
    assert [Edge.from_json(line) for line in back[3:]] == EDGES
    assert [json.loads(line)["record"] for line in back] == ["node"] * 3 + ["edge"] * 2
    (first, *_) = read_lines(tmp_path / "memory" / "edges.parquet")
    assert parse_record(1, first).edge.to_id == EDGE.to_id


def test_an_empty_memory_makes_empty_files(tmp_path):
    assert write_folder(tmp_path, []) == {"node": 0, "edge": 0}
    assert list(read_lines(tmp_path)) == []


def test_a_file_of_somebody_else_with_fewer_columns(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"title": ["The harbour"], "tags": [["a", "b"]], "unknown": [5]})
    pq.write_table(table, tmp_path / "mine.parquet")
    (line,) = read_lines(tmp_path / "mine.parquet")
    node = parse_record(1, line).node
    assert (node.title, node.tags) == ("The harbour", ("a", "b"))


def test_what_is_no_parquet_is_told(tmp_path):
    with pytest.raises(ActionError, match=r"nodes\.parquet or edges\.parquet"):
        list(read_lines(tmp_path))
    (tmp_path / "nodes.parquet").write_text("not it")
    with pytest.raises(ActionError, match="cannot be read as Parquet"):
        list(read_lines(tmp_path))
    with pytest.raises(ValueError, match="line 2: "):
        write_folder(tmp_path / "out", [dump_record(NODE), b"{"])


def test_as_a_program(tmp_path):
    program = [sys.executable, "-m", "services.memory.storage.parquet"]
    data = dump_record(NODES[1])
    subprocess.run([*program, "to", str(tmp_path / "m")], input=data, check=True)
    done = subprocess.run([*program, "from", str(tmp_path / "m")], capture_output=True, check=True)
    assert Node.from_json(done.stdout) == NODES[1]
    failed = subprocess.run(
        [*program, "to", str(tmp_path / "n")], input=b"{", capture_output=True, text=False
    )
    assert failed.returncode == 1
    assert failed.stderr.startswith(b"line 1: ")
    assert b"Traceback" not in failed.stderr
