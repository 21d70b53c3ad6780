"""The tables on disk: opened, changed one commit a batch, rolled back, kept small."""

import contextlib
import ctypes
import os
import shutil
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from services.memory import rows
from services.memory.batch import Change, EdgeKey
from services.memory.embedder import Vectors
from services.memory.lance import import_lancedb
from services.memory.ledger import Ledger
from shared.errors import ActionError, StartError

TABLES: dict[str, tuple[pa.Schema, list[str]]] = {
    "nodes": (rows.NODES, ["id"]),
    "edges": (rows.EDGES, ["from_id", "to_id", "relation"]),
}
"""Schema and unique columns of each table."""

TIDY_AFTER = 48
"""Commits of tables after which the store is untidy. Each leaves three files, and reading slows down with
them: 600 single adds made 1,803 files and a search eleven times slower; 48 keep it under 200."""

_NEVER = timedelta(days=36_500)
_AT_ONCE = timedelta(milliseconds=1)
_MANIFEST_BASE = 2**64 - 1
"""Lance names the manifest of version v ``{2**64 - 1 - v}.manifest``, so that the newest is listed first."""


class Store:
    """Nodes and edges in LanceDB under ``path``, and the ledger that says what of them is committed.

    One owner: whoever opens it is the only process to do so (StartError otherwise), and calls its methods one
    at a time. A commit is: the tables' commits, syncfs, the ledger's commit. What a crash, a power cut or a
    full disk left half done is not in the ledger and is rolled back by removing the manifests that are newer
    than it says.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StartError(
                f"The memory cannot be kept in {path}: {error.strerror}",
                "Set MAILROOM_STATE_DIR to a folder of yours",
            ) from None
        self._ledger = Ledger(path / "ledger.sqlite", rows.SCHEMA_VERSION)
        self._tables: dict[str, Any] = {}
        self._state: dict[str, int] = {}
        self._whole = False
        self._commits = 0
        try:
            self._open_tables()
            self._edges = self._load_edges()
        except (OSError, RuntimeError, ValueError, sqlite3.Error) as error:
            self._ledger.close()
            raise StartError(
                f"The memory in {path} cannot be opened ({_first_line(error)})",
                "Move that folder away to begin anew; what was committed is also in the MEMORY stream",
            ) from None

    @property
    def version(self) -> int:
        """The committed graph version; 0 where nothing was stored yet."""
        return self._state.get("version", 0)

    @property
    def untidy(self) -> bool:
        """Whether ``tidy`` is due."""
        return self._commits >= TIDY_AFTER

    def find_write(self, write_id: str) -> int | None:
        """The graph version at which a write was applied; None where it was not."""
        return self._ledger.find(write_id)

    def find_edge(self, key: EdgeKey) -> int | None:
        """The graph version that created an edge; None where there is no such edge."""
        return self._edges.get(key)

    def count_edges(self) -> int:
        """How many edges there are."""
        return len(self._edges)

    def load_nodes(self) -> pa.Table:
        """Every node ever stored and not deleted, retired ones too, in the order of writing."""
        return self._tables["nodes"].to_arrow()

    def apply(self, change: Change, vectors: Vectors, model: str, *, fresh: bool) -> None:
        """Write a change, one commit a table, on disk when it returns.

        ``fresh`` promises that all its nodes are new. Raises ActionError with cause and cure where it cannot
        be written; then nothing of it is stored.
        """
        new_edges = all(key not in self._edges for key in change.edges)
        try:
            self._recover()
            if change.nodes:
                table = rows.write_nodes(list(change.nodes.values()), vectors, model, change.version)
                self._write("nodes", table, fresh=fresh)
            if change.edges:
                table = rows.write_edges(list(change.edges.values()), change.version)
                self._write("edges", table, fresh=new_edges)
            self._commit(change.version, change.writes)
        except (OSError, RuntimeError, ValueError, sqlite3.Error) as error:
            self._undo()
            raise _refusal(self._path, error) from None
        self._edges.update((key, stored.created_version) for key, stored in change.edges.items())

    def tidy(self) -> None:
        """Compact the tables and drop their old files; takes about a second at 100,000 nodes.

        Compacted first, then committed, then cleaned up: interrupted anywhere, the committed state is there.
        """
        self._commits = 0
        try:
            self._recover()
            for table in self._tables.values():
                table.optimize(cleanup_older_than=_NEVER)
            self._commit(self.version)
            for table in self._tables.values():
                table.optimize(cleanup_older_than=_AT_ONCE, delete_unverified=True)
            self._ledger.trim()
        except (OSError, RuntimeError, ValueError, sqlite3.Error) as error:
            self._undo()
            raise _refusal(self._path, error) from None

    def close(self) -> None:
        """Let the files go."""
        self._tables.clear()
        self._ledger.close()

    def _write(self, name: str, data: pa.Table, *, fresh: bool) -> None:
        self._commits += 1
        table = self._tables[name]
        if fresh:
            table.add(data)  # the same as below, four times as quick
            return
        merge = table.merge_insert(TABLES[name][1])
        merge.when_matched_update_all().when_not_matched_insert_all().execute(data)

    def _commit(self, version: int, writes: tuple[str, ...] = ()) -> None:
        sync(self._path)
        self._ledger.commit(version, self._lance_versions(), writes)
        self._state = self._ledger.state()

    def _lance_versions(self) -> dict[str, int]:
        return {name: int(table.version) for name, table in self._tables.items()}

    def _undo(self) -> None:
        """Roll back if that is possible now; if not, ``apply`` does it before anything else."""
        self._commits += TIDY_AFTER
        self._whole = False
        with contextlib.suppress(OSError, RuntimeError, ValueError, sqlite3.Error):
            self._open_tables()

    def _recover(self) -> None:
        if not self._whole:
            self._open_tables()

    def _open_tables(self) -> None:
        """Open the tables as the ledger has them, and no later; make those it does not name."""
        state = self._ledger.state()
        self._tables.clear()
        for name in TABLES:
            _drop_uncommitted(self._path / f"{name}.lance", state.get(name, 0))
        database = import_lancedb().connect(str(self._path))
        for name, (schema, _) in TABLES.items():
            table = database.open_table(name) if name in state else database.create_table(name, schema=schema)
            if table.version != state.get(name, table.version):
                raise ValueError(f"{name} is at version {table.version}, its ledger says {state[name]}")
            self._tables[name] = table
        if any(name not in state for name in TABLES):
            self._commit(state.get("version", 0))
        self._state = self._ledger.state()
        self._whole = True

    def _load_edges(self) -> dict[EdgeKey, int]:
        columns = ("from_id", "to_id", "relation", "created_version")
        table = self._tables["edges"].to_arrow()
        lists = [table.column(name).to_pylist() for name in columns]
        return {(start, end, relation): version for start, end, relation, version in zip(*lists, strict=True)}


def sync(path: Path) -> None:
    """Have all that was written to the file system of ``path`` on disk; raises OSError where it fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):  # macOS
        os.sync()
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        if libc.syncfs(folder):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
    finally:
        os.close(folder)


def _drop_uncommitted(table: Path, committed: int) -> None:
    """Remove the manifests later than version ``committed``; of 0, the table altogether."""
    versions = {_MANIFEST_BASE - int(file.stem): file for file in table.glob("_versions/*.manifest")}
    if not committed and max(versions, default=0) > 1:
        raise ValueError(f"{table} holds data, but there is no ledger of it")
    for version, file in versions.items():
        if version > committed:
            file.unlink()
    if not committed and table.exists():
        shutil.rmtree(table)


def _refusal(path: Path, error: Exception) -> ActionError:
    reason = _first_line(error)
    if "No space left" in reason or "disk is full" in reason or "quota" in reason.lower():
        return ActionError(
            f"Memory cannot be written: the disk of {path} is full", "Make room and send it again"
        )
    return ActionError(f"Memory cannot be written: {reason}", f"Look at {path} and send it again")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
