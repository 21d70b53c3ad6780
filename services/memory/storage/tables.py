"""The tables in LanceDB: their schemas, what is done to them, nodes and edges as rows."""

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from services.memory.storage.commit_table import Disk
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


SCHEMA_VERSION = 2  # Of all tables below and of the commit table; a store of a later one is not opened

_NEVER = timedelta(days=36_500)
_AT_ONCE = timedelta(milliseconds=1)
_BATCH = 16_384
"""Rows read at a time: with 1,024, which is the default, half a million edges took three times as long."""


class Layout(NamedTuple):
    """A table of states: its schema, the columns of its key, and the table of old states."""

    schema: pa.Schema
    keys: tuple[str, ...]
    history: str


def vector_table(model: str) -> str:
    """The name of the table of a model's vectors."""
    return f"vectors_{model}"


def lay_out(model: str, dimensions: int) -> dict[str, Layout]:
    """The tables of a memory with this embedding model, by name; each has its history beside it.

    Rows are only ever added, one a state, the newest of a key counts; so a commit costs what its size is, and
    never reads what is there. ``LanceTables.split`` moves old states into the history when they are many.
    """
    return {
        "nodes": Layout(NODES, ("id",), "node_history"),
        "edges": Layout(EDGES, ("from_id", "to_id", "relation"), "edge_history"),
        vector_table(model): Layout(vector_schema(dimensions), ("id",), f"vector_history_{model}"),
    }


class LanceTables:
    """The Lance tables of a memory in the folder of ``disk``, with one layout each and its history.

    A change of them counts once ``versions`` is in the commit table. They have no indices: search and graph
    are in RAM, and what is read here is read whole. In an object store, where files cannot be removed to take
    a change back, it is taken back by a version that is as the committed one.
    """

    def __init__(self, disk: Disk, layouts: Mapping[str, Layout]) -> None:
        self._disk = disk
        self._database = connect(disk.place or str(disk.path))
        self._layouts = layouts
        self._tables: dict[str, Any] = {}

    def open(self, committed: Mapping[str, int]) -> None:
        """Open the committed tables, create the others; raises ValueError if one is not as committed."""
        for layout_name, layout in self._layouts.items():
            for name in (layout_name, layout.history):
                if name not in committed:
                    mode = "overwrite" if self._disk.place else "create"
                    self._tables[name] = self._database.create_table(name, schema=layout.schema, mode=mode)
                    continue
                table = self._database.open_table(name)
                if self._disk.place and table.version > committed[name]:
                    table.checkout(committed[name])
                    table.restore()
                elif table.version != committed[name]:
                    raise ValueError(
                        f"{name} is at version {table.version}, the commit table says {committed[name]}"
                    )
                if not table.schema.equals(layout.schema):
                    raise ValueError(f"{name} has other columns than it should")
                self._tables[name] = table

    def versions(self) -> dict[str, int]:
        """The Lance version of each table."""
        return {name: int(table.version) for name, table in self._tables.items()}

    def read(self, name: str, columns: list[str] | None = None, where: str = "") -> Iterator[pa.RecordBatch]:
        """The rows of a table, or some columns of them, in batches; those that pass ``where`` (SQL)."""
        found = self._tables[name].search()
        found = found.where(where) if where else found
        return iter((found.select(columns) if columns else found).to_batches(_BATCH))

    def add(self, name: str, data: pa.Table) -> None:
        """Append rows; raises ValueError if another process has changed the table."""
        table = self._tables[name]
        before = table.version
        self._disk.run("add", table.add, data)
        if self._disk.place and table.version != before + 1:  # Lance lets both have their way
            raise ValueError(f"another process writes to {self._disk.place}")

    def drop(self, names: Iterable[str]) -> None:
        """Remove tables that are not among its own, where they are not in a folder."""
        for name in names if self._disk.place else ():
            self._database.drop_table(name, ignore_missing=True)

    def count(self, name: str) -> int:
        """How many rows a table has."""
        return int(self._tables[name].count_rows())

    def split(self, name: str) -> None:
        """Move a table's old states, and the tombstones of edges, into its history."""
        layout = self._layouts[name]
        table = pa.Table.from_batches(self.read(name), layout.schema)
        current, old = split(table, layout.keys, tombstones="from_id" not in layout.keys)
        self.add(layout.history, old)
        self._disk.run("split", self._tables[name].add, current, mode="overwrite")

    def compact(self) -> None:
        """Merge small files; the old ones stay until ``clean``."""
        for table in self._tables.values():
            self._disk.run("compact", table.optimize, cleanup_older_than=_NEVER)

    def clean(self) -> None:
        """Remove the files that the newest states of the tables do not need."""
        for table in self._tables.values():
            self._disk.run("clean", table.optimize, cleanup_older_than=_AT_ONCE, delete_unverified=True)


OPTIONS = {"client_max_retries": "3", "client_retry_timeout": "20"}
"""For an object store: writes are refused, with the reason, once it has not answered for so many seconds."""


def connect(place: str) -> Any:
    """LanceDB in a folder, or at an address of an object store.

    For that it reads keys from variables such as AWS_ACCESS_KEY_ID and GOOGLE_APPLICATION_CREDENTIALS.
    """
    return import_lancedb().connect(place, storage_options=OPTIONS if "://" in place else None)


class StoredRows:
    """The rows of the tables, with those of their histories and those that come later: the ``tail``."""

    def __init__(
        self, tables: LanceTables, tail: Mapping[str, Sequence[pa.Table]], layouts: Mapping[str, Layout]
    ) -> None:
        self._tables = tables
        self._tail = tail
        self._layouts = layouts

    def read(self, name: str, columns: list[str]) -> pa.Table:
        """Some columns of all rows of a table, those of its history too."""
        schema = self._layouts[name].schema
        chosen = pa.schema([schema.field(column) for column in columns])
        return pa.Table.from_batches(self._read_batches(name, columns, history=True), chosen)

    def read_where(self, name: str, columns: list[str], where: str, passes: pc.Expression) -> pa.Table:
        """Some columns of the rows of a table and its history that pass: by SQL, and the same for Arrow."""
        layout = self._layouts[name]
        chosen = pa.schema([layout.schema.field(column) for column in columns])
        stored = [
            *self._tables.read(layout.history, columns, where),
            *self._tables.read(name, columns, where),
        ]
        later = [part.filter(passes).select(columns) for part in self._tail[name]]
        return pa.concat_tables([pa.Table.from_batches(stored, chosen), *later])

    def read_states(self, name: str, at: int, *, has_old: bool) -> pa.Table:
        """The newest state of each key, at a graph version or (0) now; ``has_old``: there may be others."""
        layout = self._layouts[name]
        table = pa.Table.from_batches(self._read_batches(name, history=bool(at)), layout.schema)
        return table.filter(pa.array(newest(table, layout.keys, at))) if at or has_old else table

    def read_vectors(self, name: str, at: int, *, has_old: bool) -> tuple[list[str], Vectors]:
        """The ids and the newest vector of each, as ``read_states`` does."""
        keys, vectors = self.read_all_vectors(name, history=bool(at))
        if at or has_old:
            held = newest(keys, ("id",), at)
            keys, vectors = keys.filter(pa.array(held)), vectors[held]
        return keys.column("id").to_pylist(), vectors

    def read_all_vectors(self, name: str, *, history: bool = True) -> tuple[pa.Table, Vectors]:
        """The ids and versions of all rows of a table of vectors, and the vectors in the same order."""
        layout = self._layouts[name]
        count = self._tables.count(name) + (self._tables.count(layout.history) if history else 0)
        count += sum(part.num_rows for part in self._tail[name])
        dimensions = layout.schema.field("embedding").type.list_size
        # Read into place batch by batch: they are most of what is on disk.
        return read_vectors(self._read_batches(name, history=history), count, dimensions)

    def _read_batches(
        self, name: str, columns: list[str] | None = None, *, history: bool
    ) -> Iterator[pa.RecordBatch]:
        layout = self._layouts[name]
        if history:
            yield from self._tables.read(layout.history, columns)
        yield from self._tables.read(name, columns)
        for part in self._tail[name]:
            yield from (part.select(columns) if columns else part).to_batches()


UNUSED = "lance_namespace_urllib3_client"
"""The REST client of remote namespaces, generated code: two thirds of the import of lancedb 0.40, which has
no option to leave it out. If one of its classes is used after all it fails at once, since the stand-ins take
no arguments; that they are still imported is tested."""


class _Unused(ModuleType):
    """A package in which every class is there and empty."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Finder(MetaPathFinder, Loader):
    """Finds UNUSED and what is in it before it is read from disk."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        found = fullname.partition(".")[0] == UNUSED
        return ModuleSpec(fullname, self, is_package=True) if found else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Unused(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def import_lancedb() -> Any:
    """The lancedb package; REST namespaces cannot be connected to in a process that imported it here."""
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        return importlib.import_module("lancedb")
    finally:
        sys.meta_path.remove(finder)
