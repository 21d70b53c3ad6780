"""The tables on disk: their schemas, the version of these, the way up from older ones, and their upkeep."""

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from services.memory.storage import states
from services.memory.storage.lance import import_lancedb

Vectors = NDArray[np.float32]

SCHEMA_VERSION = 2
"""Of all tables below and of the ledger; a store of a later one is not opened."""

_NEVER = timedelta(days=36_500)
_AT_ONCE = timedelta(milliseconds=1)
_BATCH = 16_384
"""Rows read at a time: with 1,024, which is the default, half a million edges took three times as long."""

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


class Layout(NamedTuple):
    """A table of states: its schema, the columns that tell whose state a row is, and where old ones go."""

    schema: pa.Schema
    keys: tuple[str, ...]
    history: str


def vector_schema(dimensions: int) -> pa.Schema:
    """A row is the vector of the text that a node had from graph version ``version`` on."""
    embedding = pa.list_(pa.float32(), dimensions)
    return pa.schema({"id": pa.string(), "version": pa.int64(), "embedding": embedding})


def vector_table(model: str) -> str:
    """The name of the table of a model's vectors."""
    return f"vectors_{model}"


def lay_out(model: str, dimensions: int) -> dict[str, Layout]:
    """The tables of a memory with this embedding model, by name; each has its history beside it.

    Rows are only ever added, one a state, the newest of a key counts; so a commit costs what its size is, and
    never a look at what is there. ``Shelf.split`` moves old states into the history when they are many.
    """
    return {
        "nodes": Layout(NODES, ("id",), "node_history"),
        "edges": Layout(EDGES, ("from_id", "to_id", "relation"), "edge_history"),
        vector_table(model): Layout(vector_schema(dimensions), ("id",), f"vector_history_{model}"),
    }


class Shelf:
    """The Lance tables of a memory in the folder ``path``, with one layout each and its history.

    What is done to them counts once ``versions`` is in the ledger. They have no indices: search and graph are
    in RAM, and what is looked up here is read whole.
    """

    def __init__(self, path: Path, layouts: Mapping[str, Layout]) -> None:
        self._database = import_lancedb().connect(str(path))
        self._layouts = layouts
        self._tables: dict[str, Any] = {}

    def open(self, committed: Mapping[str, int]) -> None:
        """Open the tables that are committed, make the others; raises ValueError for one that is not so."""
        for layout_name, layout in self._layouts.items():
            for name in (layout_name, layout.history):
                if name not in committed:
                    self._tables[name] = self._database.create_table(name, schema=layout.schema)
                    continue
                table = self._database.open_table(name)
                if table.version != committed[name]:
                    raise ValueError(
                        f"{name} is at version {table.version}, its ledger says {committed[name]}"
                    )
                if not table.schema.equals(layout.schema):
                    raise ValueError(f"{name} has other columns than it should")
                self._tables[name] = table

    def read_other(self, name: str) -> pa.Table:
        """All rows of a table that has no layout here."""
        return self._database.open_table(name).to_arrow()

    def replace(self, name: str, data: pa.Table, *, there: bool) -> None:
        """Put ``data`` in place of a table that is there, whatever it was, or make one of it."""
        mode = "overwrite" if there else "create"
        self._tables[name] = self._database.create_table(name, data, mode=mode)

    def versions(self) -> dict[str, int]:
        """The Lance version of each table."""
        return {name: int(table.version) for name, table in self._tables.items()}

    def read(self, name: str, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """All rows of a table, or some columns of them, in batches."""
        rows = self._tables[name].search()
        return iter((rows.select(columns) if columns else rows).to_batches(_BATCH))

    def add(self, name: str, data: pa.Table) -> None:
        """Append rows."""
        self._tables[name].add(data)

    def count(self, name: str) -> int:
        """How many rows a table has."""
        return int(self._tables[name].count_rows())

    def split(self, name: str) -> None:
        """Move a table's old states, and the tombstones of edges, into its history."""
        layout = self._layouts[name]
        table = pa.Table.from_batches(self.read(name), layout.schema)
        current, old = states.split(table, layout.keys, tombstones="from_id" not in layout.keys)
        self.add(layout.history, old)
        self._tables[name].add(current, mode="overwrite")

    def compact(self) -> None:
        """Merge small files; the old ones stay until ``clean``."""
        for table in self._tables.values():
            table.optimize(cleanup_older_than=_NEVER)

    def clean(self) -> None:
        """Remove the files that the newest states of the tables do not need."""
        for table in self._tables.values():
            table.optimize(cleanup_older_than=_AT_ONCE, delete_unverified=True)


def migrate(
    tables: dict[str, pa.Table], schema: int, model: str, dimensions: int, stamp: str
) -> dict[str, pa.Table]:
    """The tables of an older schema as those of this one; ``stamp`` is now, where no time was kept."""
    for step in _STEPS[schema - 1 :]:
        tables = step(tables, model, dimensions, stamp)
    return tables


def _to_2(tables: dict[str, pa.Table], model: str, dimensions: int, stamp: str) -> dict[str, pa.Table]:
    """Vectors into a table of their own; edges get times, and those of retired nodes are left out."""
    nodes, edges = tables["nodes"], tables["edges"]
    own = nodes.filter(pa.array([name == model for name in nodes.column("model").to_pylist()]))
    if own.schema.field("embedding").type.list_size != dimensions:
        own = own.slice(0, 0)
        own = own.set_column(
            own.schema.get_field_index("embedding"),
            "embedding",
            pa.array([], vector_schema(dimensions).field("embedding").type),
        )
    gone = nodes.filter(pa.array(nodes.column("retired_version").to_numpy() > 0)).column("id")
    held = [
        not ends & set(gone.to_pylist())
        for ends in map(
            set, zip(*(edges.column(end).to_pylist() for end in ("from_id", "to_id")), strict=True)
        )
    ]
    edges = edges.filter(pa.array(held, pa.bool_()))
    times = pa.array([stamp] * edges.num_rows, pa.string())
    for name in ("created_at", "touched_at"):
        edges = edges.append_column(name, times)
    edges = edges.append_column("retired_version", pa.array([0] * edges.num_rows, pa.int64()))
    return {
        "nodes": nodes.select(NODES.names),
        "edges": edges.select(EDGES.names),
        vector_table(model): own.select(["id", "version", "embedding"]),
    }


_Step = Callable[[dict[str, pa.Table], str, int, str], dict[str, pa.Table]]
_STEPS: tuple[_Step, ...] = (_to_2,)
"""From schema 1 on, each to the next."""
