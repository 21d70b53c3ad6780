"""How nodes and edges become rows of the tables, and come back."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from services.memory.batch import StoredEdge
from services.memory.embedder import DIMENSIONS, Vectors
from shared.contracts import Node, Source

SCHEMA_VERSION = 1
"""Of the two tables below; a store of a later one is not opened."""

_PLAIN = {
    "id": pa.string(),
    "kind": pa.string(),
    "title": pa.string(),
    "body": pa.string(),
    "tags": pa.list_(pa.string()),
    "importance": pa.float64(),
    "access_count": pa.int64(),
    "last_accessed_at": pa.string(),
    "created_at": pa.string(),
    "updated_at": pa.string(),
    "valid_from": pa.string(),
    "valid_to": pa.string(),
    "created_version": pa.int64(),
    "retired_version": pa.int64(),
}
"""The fields of a node that stand in columns as they are."""

NODES = pa.schema(
    {
        **_PLAIN,
        "metadata": pa.string(),
        "source_agent": pa.string(),
        "source_session": pa.string(),
        "source_channel": pa.string(),
        "version": pa.int64(),
        "model": pa.string(),
        "embedding": pa.list_(pa.float32(), DIMENSIONS),
    }
)
"""``metadata`` is JSON text, ``version`` the graph version of the last write, ``model`` the vector's."""

EDGES = pa.schema(
    {
        "from_id": pa.string(),
        "to_id": pa.string(),
        "relation": pa.string(),
        "weight": pa.float64(),
        "provenance": pa.string(),
        "created_version": pa.int64(),
        "version": pa.int64(),
    }
)
"""``provenance`` is JSON text; the first three columns together are unique."""


def write_nodes(nodes: Sequence[Node], vectors: Vectors, model: str, version: int) -> pa.Table:
    """One row a node, its vector from the same row of ``vectors``."""
    columns: dict[str, Any] = {name: [getattr(node, name) for node in nodes] for name in _PLAIN}
    columns["metadata"] = [_to_text(node.metadata) for node in nodes]
    for part in Source.__struct_fields__:
        columns[f"source_{part}"] = [getattr(node.source, part) for node in nodes]
    columns["version"] = [version] * len(nodes)
    columns["model"] = [model] * len(nodes)
    columns["embedding"] = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIMENSIONS)
    return pa.table(columns, schema=NODES)


def read_node(row: dict[str, Any]) -> Node:
    """The node of a row, without its embedding."""
    plain = {name: row[name] for name in _PLAIN}
    plain["tags"] = tuple(row["tags"])
    source = Source(**{part: row[f"source_{part}"] for part in Source.__struct_fields__})
    return Node(**plain, metadata=msgspec.json.decode(row["metadata"]), source=source)


def write_edges(edges: Sequence[StoredEdge], version: int) -> pa.Table:
    """One row an edge."""
    return pa.table(
        {
            "from_id": [stored.edge.from_id for stored in edges],
            "to_id": [stored.edge.to_id for stored in edges],
            "relation": [stored.edge.relation.value for stored in edges],
            "weight": [stored.edge.weight for stored in edges],
            "provenance": [_to_text(stored.edge.provenance) for stored in edges],
            "created_version": [stored.created_version for stored in edges],
            "version": [version] * len(edges),
        },
        schema=EDGES,
    )


def _to_text(value: dict[str, Any]) -> str:
    return msgspec.json.encode(value).decode()
