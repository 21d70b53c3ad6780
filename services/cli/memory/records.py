"""Nodes and edges as lines of JSON, the form in which memory leaves and comes back."""

import hashlib
from typing import Any

import msgspec

from shared.contracts import Edge, Node
from shared.contracts.base import amended
from shared.text.title import split_title

BATCH_RECORDS = 200
"""The most records of one write."""
BATCH_BYTES = 2_000_000
"""The bytes of lines after which a write is full, well below what a message may hold."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What a line says: a node (``retired``: a tombstone), or an edge."""

    number: int
    line: bytes
    node: Node | None = None
    edge: Edge | None = None
    retired: bool = False


def dump_node(node: Node) -> bytes:
    """The line of a node."""
    return _dump(b"node", node)


def dump_edge(edge: Edge) -> bytes:
    """The line of an edge."""
    return _dump(b"edge", edge)


def _dump(kind: bytes, content: Node | Edge) -> bytes:
    return b'{"record":"%b",%b\n' % (kind, content.to_json()[1:])


def read_record(number: int, line: bytes) -> Record:
    """What a line says; raises ValueError with what is wrong with it.

    ``record`` says whether it is a node or an edge; without it, what has "from" and "to" is an edge. A node
    may have a ``text`` instead of title and body, and ``type`` for kind. One without an id gets the same id
    whenever the line is read, so that reading it twice adds nothing.
    """
    try:
        data = msgspec.json.decode(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise ValueError("it must be a JSON object")
    kind = data.pop("record", "edge" if {"from", "to"} <= data.keys() else "node")
    if kind == "edge":
        return Record(number=number, line=line, edge=_edge(data))
    if kind != "node":
        raise ValueError(f"record must be node or edge, not {str(kind)[:40]!r}")
    node = _node(data)
    return Record(number=number, line=line, node=_bare(node), retired=bool(node.retired_version))


def _node(data: dict[str, Any]) -> Node:
    if "title" not in data and isinstance(data.get("text"), str):
        data["title"], data["body"] = split_title(data["text"])
    if "type" in data:
        data.setdefault("kind", data["type"])
    if "id" not in data:
        data["id"] = hashlib.sha256(msgspec.json.encode(data, order="sorted")).hexdigest()[:32]
    return Node.from_dict(data)


def _edge(data: dict[str, Any]) -> Edge:
    edge = Edge.from_dict({"provenance": {"by": "imported"}, **data})
    return amended(edge, created_version=0, version=0, retired_version=0)


def _bare(node: Node) -> Node:
    return amended(node, created_version=0, version=0, retired_version=0)
