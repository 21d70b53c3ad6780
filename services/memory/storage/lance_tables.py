"""The tables in LanceDB: their schemas, and what is done to them."""

import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from services.memory.storage import rows
from services.memory.storage.disk import Disk, Wal
from services.memory.storage.rows import EDGES, NODES, Vectors, vector_schema

SCHEMA_VERSION = 2
"""Of all tables below and of the commit table; a store of a later one is not opened."""

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
    are in RAM, and what is read here is read whole.
    """

    def __init__(self, disk: Disk, layouts: Mapping[str, Layout]) -> None:
        self._disk = disk
        self._database = import_lancedb().connect(str(disk.path))
        self._layouts = layouts
        self._tables: dict[str, Any] = {}

    def open(self, committed: Mapping[str, int]) -> None:
        """Open the committed tables, create the others; raises ValueError if one is not as committed."""
        for layout_name, layout in self._layouts.items():
            for name in (layout_name, layout.history):
                if name not in committed:
                    self._tables[name] = self._database.create_table(name, schema=layout.schema)
                    continue
                table = self._database.open_table(name)
                if table.version != committed[name]:
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
        """Append rows."""
        self._disk.run("add", self._tables[name].add, data)

    def count(self, name: str) -> int:
        """How many rows a table has."""
        return int(self._tables[name].count_rows())

    def split(self, name: str) -> None:
        """Move a table's old states, and the tombstones of edges, into its history."""
        layout = self._layouts[name]
        table = pa.Table.from_batches(self.read(name), layout.schema)
        current, old = rows.split(table, layout.keys, tombstones="from_id" not in layout.keys)
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


class StoredRows:
    """The rows of the tables, with those of their histories and of the write-ahead log."""

    def __init__(self, tables: LanceTables, wal: Wal, layouts: Mapping[str, Layout]) -> None:
        self._tables = tables
        self._wal = wal
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
        later = pa.Table.from_batches(self._wal.read(name, layout.schema), layout.schema)
        found = pa.Table.from_batches(stored, chosen)
        return pa.concat_tables([found, later.filter(passes).select(columns)])

    def read_states(self, name: str, at: int, *, has_old: bool) -> pa.Table:
        """The newest state of each key, at a graph version or (0) now; ``has_old``: there may be others."""
        layout = self._layouts[name]
        table = pa.Table.from_batches(self._read_batches(name, history=bool(at)), layout.schema)
        return table.filter(pa.array(rows.newest(table, layout.keys, at))) if at or has_old else table

    def read_vectors(self, name: str, at: int, *, has_old: bool) -> tuple[list[str], Vectors]:
        """The ids and the newest vector of each, as ``read_states`` does."""
        keys, vectors = self.read_all_vectors(name, history=bool(at))
        if at or has_old:
            held = rows.newest(keys, ("id",), at)
            keys, vectors = keys.filter(pa.array(held)), vectors[held]
        return keys.column("id").to_pylist(), vectors

    def read_all_vectors(self, name: str, *, history: bool = True) -> tuple[pa.Table, Vectors]:
        """The ids and versions of all rows of a table of vectors, and the vectors in the same order."""
        layout = self._layouts[name]
        count = self._tables.count(name) + (self._tables.count(layout.history) if history else 0)
        count += sum(batch.num_rows for batch in self._wal.read(name, layout.schema))
        dimensions = layout.schema.field("embedding").type.list_size
        # Read into place batch by batch: they are most of what is on disk.
        return rows.read_vectors(self._read_batches(name, history=history), count, dimensions)

    def _read_batches(
        self, name: str, columns: list[str] | None = None, *, history: bool
    ) -> Iterator[pa.RecordBatch]:
        layout = self._layouts[name]
        if history:
            yield from self._tables.read(layout.history, columns)
        yield from self._tables.read(name, columns)
        for batch in self._wal.read(name, layout.schema):
            yield batch.select(columns) if columns else batch


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
