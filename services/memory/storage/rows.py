"""Rows of the tables: their columns, nodes and edges to rows and back, and which states of a key hold."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from services.memory.writes.change import join_text
from shared.contracts import Edge, Node, Source

Vectors = NDArray[np.float32]

Codes = NDArray[np.int64]

NODES = pa.schema(
    {
        "id": pa.string(),
        "kind": pa.string(),
        "title": pa.string(),
        "body": pa.string(),
        "tags": pa.list_(pa.string()),
        "metadata": pa.string(),
        "source_agent": pa.string(),
        "source_session": pa.string(),
        "source_channel": pa.string(),
        "importance": pa.float64(),
        "access_count": pa.int64(),
        "last_accessed_at": pa.string(),
        "created_at": pa.string(),
        "updated_at": pa.string(),
        "valid_from": pa.string(),
        "valid_to": pa.string(),
        "created_version": pa.int64(),
        "version": pa.int64(),
        "retired_version": pa.int64(),
    }
)
"""A row is one state of a node, which held from graph version ``version`` on; ``metadata`` is JSON text."""

EDGES = pa.schema(
    {
        "from_id": pa.string(),
        "to_id": pa.string(),
        "relation": pa.string(),
        "weight": pa.float64(),
        "provenance": pa.string(),
        "created_at": pa.string(),
        "touched_at": pa.string(),
        "created_version": pa.int64(),
        "version": pa.int64(),
        "retired_version": pa.int64(),
    }
)
"""A row is one state of an edge, as for NODES; ``provenance`` is JSON text."""

VERSIONS = ("created_version", "version", "retired_version")
"""The columns of both that say which graph versions a state belongs to."""


class Tables(NamedTuple):
    """Memory at one version, as it is read from disk.

    ``nodes`` (as NODES, tombstones included) has one row an id, ``edges`` (as EDGES) one a live edge;
    ``access`` gives how often a node was shown and when last, as of now at whatever version. ``vectors`` has
    a row for each of ``vector_ids``: the current one's model alone, so an id may be missing.
    """

    nodes: pa.Table
    edges: pa.Table
    access: dict[str, tuple[int, str]]
    vector_ids: list[str]
    vectors: Vectors
    version: int


_SOURCE = {f"source_{part}": part for part in Source.__struct_fields__}
_PLAIN_NODE = tuple(name for name in NODES.names if name != "metadata" and name not in _SOURCE)
_PLAIN_EDGE = tuple(name for name in EDGES.names if name not in ("relation", "provenance"))
_encoder = msgspec.json.Encoder()
_empty = "{}"


def vector_schema(dimensions: int) -> pa.Schema:
    """A row is the vector of the text that a node had from graph version ``version`` on."""
    embedding = pa.list_(pa.float32(), dimensions)
    return pa.schema({"id": pa.string(), "version": pa.int64(), "embedding": embedding})


def write_nodes(nodes: Sequence[Node]) -> pa.Table:
    """One row a node, without its embedding."""
    columns: dict[str, Any] = {name: [getattr(node, name) for node in nodes] for name in _PLAIN_NODE}
    columns["metadata"] = [_to_text(node.metadata) if node.metadata else _empty for node in nodes]
    sources = [node.source for node in nodes]
    for name, part in _SOURCE.items():
        columns[name] = [getattr(source, part) for source in sources]
    return pa.table(columns, schema=NODES)


def write_edges(edges: Sequence[Edge]) -> pa.Table:
    """One row an edge."""
    columns: dict[str, Any] = {name: [getattr(edge, name) for edge in edges] for name in _PLAIN_EDGE}
    columns["relation"] = [edge.relation.value for edge in edges]
    columns["provenance"] = [_to_text(edge.provenance) for edge in edges]
    return pa.table(columns, schema=EDGES)


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


def newest(table: pa.Table, keys: tuple[str, ...], at: int = 0) -> NDArray[np.bool_]:
    """Which rows are the newest state of their key, of all or of those up to version ``at``."""
    codes = np.zeros(table.num_rows, np.int64)
    for key in keys:
        column = _encode(table.column(key))
        codes = codes * (int(column.max(initial=0)) + 1) + column
    if len(keys) > 1:
        codes = np.unique(codes, return_inverse=True)[1]
    versions = table.column("version").to_numpy()
    admitted = versions <= (at or np.iinfo(np.int64).max)
    order = np.argsort(np.where(admitted, versions, -1), kind="stable")
    last = np.full(int(codes.max(initial=-1)) + 1, -1)
    last[codes[order]] = order  # of several values for one place the last one stays
    mask = np.zeros(table.num_rows, np.bool_)
    mask[last] = True
    mask &= admitted
    return mask


def drop_retired(table: pa.Table) -> pa.Table:
    """The rows that are no tombstones."""
    held = table.column("retired_version").to_numpy() == 0
    return table if held.all() else table.filter(pa.array(held))


def split(table: pa.Table, keys: tuple[str, ...], *, tombstones: bool) -> tuple[pa.Table, pa.Table]:
    """The newest states and the others, to which the tombstones belong unless they are to stay."""
    current = newest(table, keys)
    if not tombstones:
        current &= table.column("retired_version").to_numpy() == 0
    return table.filter(pa.array(current)), table.filter(pa.array(~current))


def find_texts(states: pa.Table, embedded: pa.Table) -> pa.Table:
    """The states (id, version, title, body) that began a text, the current ones first, then by version.

    Left out are those whose (id, version) is in ``embedded``: they have a vector.
    """
    ids, versions = _encode(states.column("id")), states.column("version").to_numpy()
    order = np.lexsort((versions, ids))
    ids = ids[order]
    begun = _changes(ids)
    for name in ("title", "body"):
        begun |= _changes(_encode(states.column(name))[order])
    rows, ids = order[begun], ids[begun]
    current = np.append(ids[1:] != ids[:-1], True)[: len(ids)]
    rows = rows[np.lexsort((versions[rows], ~current))]
    texts = states.take(pa.array(rows))
    there = set(_pairs(embedded))
    return texts.filter(pa.array([pair not in there for pair in _pairs(texts)], pa.bool_()))


def list_texts(nodes: Sequence[Node]) -> pa.Table:
    """The texts of nodes as ``find_texts`` gives them."""
    columns = ("id", "version", "title", "body")
    found = {name: [getattr(node, name) for node in nodes] for name in columns}
    return pa.table(found, pa.schema([NODES.field(name) for name in columns]))


def find_rows(states: pa.Table, embedded: pa.Table) -> dict[str, int]:
    """The row of ``embedded`` (id, version) of each text of ``states`` (id, version, title, body)."""
    places = {pair: place for place, pair in enumerate(_pairs(embedded))}
    texts = map(join_text, states.column("title").to_pylist(), states.column("body").to_pylist())
    found = zip(texts, map(places.get, _pairs(states)), strict=True)
    return {text: place for text, place in found if place is not None}


def _pairs(table: pa.Table) -> list[tuple[str, int]]:
    columns = (table.column(name).to_pylist() for name in ("id", "version"))
    return list(zip(*columns, strict=True))


def _changes(values: Codes) -> NDArray[np.bool_]:
    """Where a value differs from the one before; the first always does."""
    return np.append(True, values[1:] != values[:-1])[: len(values)]


def _encode(column: pa.ChunkedArray) -> Codes:
    """Equal values by equal numbers from 0 on."""
    encoded = column.combine_chunks().dictionary_encode()
    codes: Codes = encoded.indices.to_numpy().astype(np.int64)
    return codes
