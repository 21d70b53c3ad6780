"""How nodes, edges and vectors become rows of the tables, and come back."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from services.memory.storage.tables import EDGES, NODES, Vectors, vector_schema
from shared.contracts import Edge, Node, Relation, Source

_SOURCE = {f"source_{part}": part for part in Source.__struct_fields__}
_PLAIN_NODE = tuple(name for name in NODES.names if name != "metadata" and name not in _SOURCE)
_PLAIN_EDGE = tuple(name for name in EDGES.names if name not in ("relation", "provenance"))
_encoder = msgspec.json.Encoder()
_empty = "{}"


def write_nodes(nodes: Sequence[Node]) -> pa.Table:
    """One row a node, without its embedding."""
    columns: dict[str, Any] = {name: [getattr(node, name) for node in nodes] for name in _PLAIN_NODE}
    columns["metadata"] = [_to_text(node.metadata) if node.metadata else _empty for node in nodes]
    sources = [node.source for node in nodes]
    for name, part in _SOURCE.items():
        columns[name] = [getattr(source, part) for source in sources]
    return pa.table(columns, schema=NODES)


def read_node(row: dict[str, Any]) -> Node:
    """The node of a row, without its embedding."""
    plain = {name: row[name] for name in _PLAIN_NODE}
    plain["tags"] = tuple(row["tags"])
    source = Source(**{part: row[name] for name, part in _SOURCE.items()})
    return Node(**plain, metadata=msgspec.json.decode(row["metadata"]), source=source)


def write_edges(edges: Sequence[Edge]) -> pa.Table:
    """One row an edge."""
    columns: dict[str, Any] = {name: [getattr(edge, name) for edge in edges] for name in _PLAIN_EDGE}
    columns["relation"] = [edge.relation.value for edge in edges]
    columns["provenance"] = [_to_text(edge.provenance) for edge in edges]
    return pa.table(columns, schema=EDGES)


def read_edge(row: dict[str, Any]) -> Edge:
    """The edge of a row."""
    plain = {name: row[name] for name in _PLAIN_EDGE}
    return Edge(
        **plain, relation=Relation(row["relation"]), provenance=msgspec.json.decode(row["provenance"])
    )


def write_vectors(ids: Sequence[str], versions: Sequence[int], vectors: Vectors) -> pa.Table:
    """One row a vector: whose it is, and since which version its text is that node's."""
    dimensions = vectors.shape[1]
    flat = pa.array(np.ascontiguousarray(vectors, np.float32).reshape(-1))
    columns = [pa.array(ids, pa.string()), pa.array(versions, pa.int64())]
    columns.append(pa.FixedSizeListArray.from_arrays(flat, dimensions))
    return pa.table(columns, schema=vector_schema(dimensions))


def read_vectors(batches: Iterable[pa.RecordBatch], count: int, dimensions: int) -> tuple[pa.Table, Vectors]:
    """The ids and versions of ``count`` rows of vectors, and the vectors in the same order."""
    vectors: Vectors = np.empty((count, dimensions), np.float32)
    keys, start = [], 0
    for batch in batches:
        flat = batch.column("embedding").flatten().to_numpy(zero_copy_only=False)
        vectors[start : start + batch.num_rows] = flat.reshape(-1, dimensions)
        start += batch.num_rows
        keys.append(batch.select(["id", "version"]))
    schema = vector_schema(dimensions)
    return pa.Table.from_batches(keys, pa.schema([schema.field("id"), schema.field("version")])), vectors


def _to_text(value: dict[str, Any]) -> str:
    return _encoder.encode(value).decode()
